"""The commands, their options and their exit codes."""

from __future__ import annotations

import errno
import importlib.metadata
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from hooksdk.cli._console import complain
from hooksdk.cli._groups import LaterGroups
from hooksdk.cli._options import (
    WINDOW,
    ContextWindow,
    Json,
    Mcp,
    Plugins,
    Project,
    Store,
    StorePlace,
    import_plugins,
)
from hooksdk.cli._replay.command import replay
from hooksdk.errors import ConfigError, HookSDKError

INTERRUPTED = 130
BAD_CONFIG = 3

app = typer.Typer(
    name="hooksdk",
    cls=LaterGroups,
    help="Plugins for AI agents.",
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


def _model(text: str | None) -> str | None:
    if text is None:
        return None
    from hooksdk.cli._run.provider import check_model

    return check_model(text)


def _version(flag: bool) -> None:
    if flag:
        print(f"hooksdk {importlib.metadata.version('hooksdk')}")
        raise typer.Exit


@app.callback()
def _common(
    version: Annotated[bool, typer.Option("--version", callback=_version, is_eager=True)] = False,
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


@app.command("run")
def run_agent(
    model: Annotated[str | None, typer.Option(metavar="PROVIDER:NAME", callback=_model)] = None,
    prompt: Annotated[str | None, typer.Argument(metavar="[PROMPT]")] = None,
    mcp: Mcp = None,
    plugin: Plugins = None,
    system: Annotated[str | None, typer.Option(metavar="TEXT")] = None,
    session: Annotated[str | None, typer.Option(metavar="ID")] = None,
    go_on: Annotated[bool, typer.Option("--continue", "-c")] = False,
    store: Store = None,
    approve: Annotated[bool | None, typer.Option("--yes/--ask", show_default=False)] = None,
    max_turns: Annotated[int, typer.Option(min=1)] = 20,
    reminders: Annotated[int, typer.Option(min=0)] = 0,
    max_tokens: Annotated[int | None, typer.Option(min=1)] = None,
    context_window: ContextWindow = WINDOW,
    base_url: Annotated[str | None, typer.Option(metavar="URL")] = None,
    as_json: Json = False,
    project: Project = Path(),
) -> None:
    """Let a real model do something with the project's plugins and the tools of MCP servers.

    The answer goes to stdout, everything else to stderr. Keys come from OPENAI_API_KEY and ANTHROPIC_API_KEY.

    Options:
        model: Such as openai:gpt-5, openai-responses:gpt-5 or anthropic:claude-sonnet-4-5; by default that of the
            session that goes on.
        prompt: What the model is to do; - or nothing: read from stdin.
        system: The system message of a new session.
        session: Go on with this session, or `last`; a name that is new begins one. By default a new one is begun.
        go_on: Go on with the newest session of this folder.
        approve: Grant every approval that a plugin asks for, unseen; or ask on stdin. By default you are asked on a
            terminal, and elsewhere each one is refused.
        max_turns: Replies of the model at most.
        reminders: How often a model that writes a call as text is told how to call.
        max_tokens: Tokens of one reply at most.
        base_url: Where the API is; else OPENAI_BASE_URL or ANTHROPIC_BASE_URL says it.
    """
    from hooksdk.cli._run.prompt import RunOptions, read_prompt, run_prompt
    from hooksdk.cli._run.provider import ModelOptions

    if approve is False and prompt in (None, "-"):
        raise typer.BadParameter("--ask reads answers from stdin, so the prompt cannot come from there too")
    if session == "":
        raise typer.BadParameter("it is empty", param_hint="--session")
    if go_on and session is not None:
        raise typer.BadParameter("--continue takes the newest session, and --session names one: leave one of them out")
    if model is None:
        from hooksdk.cli._run.provider import model_of_session
        from hooksdk.cli._sessions.ids import LAST

        model = model_of_session(project, store, LAST if go_on else session)
    model_options = ModelOptions(model=model, base_url=base_url, context_window=context_window, max_tokens=max_tokens)
    options = RunOptions(
        prompt=read_prompt(prompt),
        model=model_options,
        mcp=tuple(mcp or ()),
        system=system,
        max_turns=max_turns,
        reminders=reminders,
        session=session,
        go_on=go_on,
        store=store,
        approve=approve,
        as_json=as_json,
        project=project,
        plugins=import_plugins(plugin),
        plugin_names=tuple(plugin or ()),
    )
    raise typer.Exit(run_prompt(options))


app.command()(replay)


@app.command("report")
def report_page(
    source: Annotated[str, typer.Argument(metavar="TRACE|SESSION")],
    trace: Annotated[Path | None, typer.Option("--trace", metavar="FILE", exists=True, dir_okay=False)] = None,
    run_id: Annotated[str | None, typer.Option("--run", metavar="ID")] = None,
    output: Annotated[Path | None, typer.Option("-o", "--output", metavar="FILE")] = None,
    open_browser: Annotated[bool, typer.Option("--open")] = False,
    store: StorePlace = None,
    as_json: Json = False,
    project: Project = Path(),
) -> None:
    """Write one page of HTML that shows a run, a session, or both: timeline, decisions, tools, searches, trims,
    messages.

    Options:
        source: A file of trace_file, a session's id or file, or a file of messages.
        trace: The trace of the session that is named first.
        run_id: Only this run of the trace.
        output: Where the page goes, NAME.html by default; - is stdout.
        open_browser: Open the page in the browser.
    """
    from hooksdk.cli import _report

    if as_json and (output is not None or open_browser):
        raise typer.BadParameter("--json prints what the page would hold, and writes none: leave -o and --open out")
    if open_browser and output is not None and str(output) == "-":
        raise typer.BadParameter("--open needs a file, and -o - writes none")
    options = _report.ReportOptions(
        source=source,
        trace=trace,
        run_id=run_id,
        store=store,
        output=output,
        open_browser=open_browser,
        as_json=as_json,
        project=project,
    )
    raise typer.Exit(_report.report(options))
