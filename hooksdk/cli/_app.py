"""The commands, their options and their exit codes."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

import hooksdk
from hooksdk.cli._console import complain
from hooksdk.cli._groups import LaterGroups
from hooksdk.cli._options import Json, Plugins, Store, import_plugins
from hooksdk.errors import ConfigError, HookSDKError

INTERRUPTED = 130
BAD_CONFIG = 3

app = typer.Typer(
    name="hooksdk",
    cls=LaterGroups,
    help="Plugins for AI agents.",
    epilog="Documentation: https://hooksdk.readthedocs.io",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=True,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def run(arguments: Sequence[str]) -> int:
    """Run the command with these arguments, and return its exit code. Every foreseen problem is one clear line."""
    stdout: Any = sys.stdout  # None where it is closed
    if getattr(stdout, "errors", None) == "strict":
        # An answer with a character that the encoding lacks must not be lost.
        stdout.reconfigure(errors="backslashreplace")
    code = 0
    try:
        code = _run(arguments)
        if stdout is not None:
            stdout.flush()
    except OSError as error:
        reader_left = isinstance(error, BrokenPipeError)  # such as `head`, which has read enough: no failure
        if not reader_left and error.errno != errno.ENOSPC:
            raise
        # The rest of the output, at the end of the process too, is dropped.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if not reader_left:
            complain(f"the output cannot be written: {error.strerror}")
            code = 1
    return code


def _run(arguments: Sequence[str]) -> int:
    try:
        code: object = app(args=list(arguments), standalone_mode=False)
    except (KeyboardInterrupt, typer.Abort):
        code = INTERRUPTED
    except typer.Exit as end:
        code = end.exit_code
    except HookSDKError as error:
        complain(str(error))
        code = BAD_CONFIG if isinstance(error, ConfigError) else 1
    except SystemExit as end:
        if isinstance(end.__context__, BrokenPipeError):  # typer's answer to it
            raise end.__context__ from None
        raise
    except Exception as error:
        if not (hasattr(error, "exit_code") and hasattr(error, "format_message")):
            raise
        usage: Any = error  # a usage error of the command line itself
        if message := usage.format_message():
            complain(message)
        code = usage.exit_code
    if code == INTERRUPTED:  # typer, too, turns Ctrl-C into this code without a word
        complain("stopped")
    return code if isinstance(code, int) else 0


def _version(flag: bool) -> None:
    if flag:
        print(f"hooksdk {hooksdk.__version__}")
        raise typer.Exit


@app.callback()
def _common(
    version: Annotated[bool, typer.Option("--version", "-V", callback=_version, is_eager=True)] = False,
) -> None:
    """Plugins for AI agents.

    Options:
        version: Print the version.
    """


@app.command()
def demo(
    interactive: Annotated[bool | None, typer.Option("--interactive/--yes", show_default=False)] = None,
    servers: Literal["light", "real"] = "light",
    folder: Path | None = None,
    keep: Annotated[bool, typer.Option("--keep")] = False,
    store: Store = None,
    plugin: Plugins = None,
    as_json: Json = False,
) -> None:
    """Let a scripted model do a real job, with every hook at work. Needs no key and no network.

    Options:
        interactive: Ask you for the approval; or grant it, and pause nowhere. By default you are asked on a terminal,
            which is told a shorter story at the pace of a reader.
        servers: light: the demo's own plugins. real: 115 tools of five MCP servers; needs the extra demo and git.
        folder: Where to work, and leave the files; by default a temporary folder.
        keep: Leave the temporary folder, and say where it is.
    """
    if interactive and as_json:
        complain("--json prints nothing but the document, so nothing can be asked: leave --interactive out")
        raise typer.Exit(2)
    from hooksdk.cli._demo import headline

    is_watched = not as_json and all(stream is not None and stream.isatty() for stream in (sys.stdin, sys.stdout))
    if not as_json:
        print(headline(real=servers == "real"), end="\n" if is_watched else "\n\n", flush=True)
    from hooksdk.cli._demo.play import DemoOptions, run_demo
    from hooksdk.cli._demo.story import BEAT

    options = DemoOptions(
        real=servers == "real",
        folder=folder,
        keep=keep,
        store=store,
        plugins=import_plugins(plugin),
        interactive=bool(interactive) or (interactive is None and is_watched),
        story=is_watched,
        beat=BEAT if is_watched and interactive is not False else 0,
        as_json=as_json,
    )
    raise typer.Exit(run_demo(options))
