"""The commands, their options and their exit codes."""

from __future__ import annotations

import errno
import importlib.metadata
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape
from rich.table import Table

from hooksdk._config.words import trust_advice
from hooksdk._plugins.discovery import find_plugins
from hooksdk._plugins.registry import Plugin, Registry, describe_plugins
from hooksdk.cli._console import print_json, safe, stderr_console, stdout_console
from hooksdk.cli._edit import Edit, edit_project
from hooksdk.config import fold, load_config
from hooksdk.errors import ConfigError, HookSDKError, PluginRefused, did_you_mean

INTERRUPTED = 130
BAD_CONFIG = 3

app = typer.Typer(
    name="hooksdk",
    help="Plugins for AI agents.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=True,
)
plugins_app = typer.Typer(help="Look at plugins and switch them.", no_args_is_help=True)
app.add_typer(plugins_app, name="plugins")
tools_app = typer.Typer(help="Look at the tools that a model would get here.", no_args_is_help=True)
app.add_typer(tools_app, name="tools")
config_app = typer.Typer(help="Look at the configuration.", no_args_is_help=True)
app.add_typer(config_app, name="config")

Json = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]
Project = Annotated[
    Path, typer.Option("--project", help="The folder whose configuration counts.", exists=True, file_okay=False)
]
Mcp = Annotated[
    list[Path] | None,
    typer.Option("--mcp", metavar="FILE", help="A JSON file with `mcpServers`; may be given several times."),
]
ContextWindow = Annotated[
    int, typer.Option(min=1, metavar="TOKENS", help="The model's context window, for tool search.")
]
WINDOW = 200_000


def run(arguments: Sequence[str]) -> int:
    """Run the command with these arguments, and answer its exit code. Every foreseen problem is one clear line."""
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
        reader_left = isinstance(error, BrokenPipeError)  # it has seen enough, such as `head`: no failure
        if not reader_left and error.errno != errno.ENOSPC:
            raise
        # What is still to be written, at the end of the process too, goes nowhere.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if not reader_left:
            _complain(f"the output cannot be written: {error.strerror}")
            code = 1
    return code


def _run(arguments: Sequence[str]) -> int:
    try:
        code: object = app(args=list(arguments), standalone_mode=False)
    except (KeyboardInterrupt, typer.Abort):
        code = INTERRUPTED
    except typer.Exit as end:
        code = end.exit_code
    except ConfigError as error:
        _complain(str(error))
        code = BAD_CONFIG
    except HookSDKError as error:
        _complain(str(error))
        code = 1
    except SystemExit as end:
        if isinstance(end.__context__, BrokenPipeError):  # typer's answer to it
            raise end.__context__ from None
        raise
    except Exception as error:
        if not (hasattr(error, "exit_code") and hasattr(error, "format_message")):
            raise
        usage: Any = error  # a usage error of the command line itself
        if message := usage.format_message():
            _complain(message)
        code = usage.exit_code
    if code == INTERRUPTED:  # typer, too, turns Ctrl-C into this code without a word
        _complain("stopped")
    return code if isinstance(code, int) else 0


def _complain(text: str) -> None:
    stderr_console().print(f"[red]hooksdk:[/red] {safe(text)}", soft_wrap=True)


def _model(text: str) -> str:
    from hooksdk.cli._provider import check_model

    return check_model(text)


def _version(flag: bool) -> None:
    if flag:
        print(f"hooksdk {importlib.metadata.version('hooksdk')}")
        raise typer.Exit


@app.callback()
def _common(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Plugins for AI agents."""


@app.command()
def demo(
    interactive: Annotated[
        bool, typer.Option("--interactive", help="Ask you for the approval, instead of granting it.")
    ] = False,
    folder: Annotated[Path | None, typer.Option(help="Where to work; a new temporary folder by default.")] = None,
    as_json: Json = False,
) -> None:
    """Let a scripted model do a real job on real MCP servers, with every hook at work. Needs no key and no network."""
    if interactive and as_json:
        _complain("--json prints nothing but the document, so nothing can be asked: leave --interactive out")
        raise typer.Exit(2)
    try:
        from hooksdk.cli._demo import run_demo
    except ModuleNotFoundError as error:
        _complain(f"the demo needs {error.name}: pip install 'hooksdk[demo]'")
        raise typer.Exit(1) from None
    raise typer.Exit(run_demo(folder=folder, interactive=interactive, as_json=as_json))


@app.command("run")
def run_agent(
    model: Annotated[
        str,
        typer.Option(
            metavar="PROVIDER:NAME", callback=_model, help="Such as openai:gpt-5 or anthropic:claude-sonnet-4-5."
        ),
    ],
    prompt: Annotated[
        str | None, typer.Argument(metavar="[PROMPT]", help="What the model is to do; - or nothing: read from stdin.")
    ] = None,
    mcp: Mcp = None,
    system: Annotated[str | None, typer.Option(metavar="TEXT", help="The system message of a new session.")] = None,
    session: Annotated[
        str | None, typer.Option(metavar="ID", help="Go on with this session; by default a new one is begun.")
    ] = None,
    store: Annotated[
        Path | None,
        typer.Option(
            file_okay=False, help="Keep sessions here; by default where the configuration says, or in the state folder."
        ),
    ] = None,
    approve: Annotated[
        bool | None,
        typer.Option(
            "--yes/--ask",
            help="Grant every approval that a plugin asks for, unseen; or ask on stdin. By default you are asked on a "
            "terminal, and elsewhere each one is refused.",
            show_default=False,
        ),
    ] = None,
    max_turns: Annotated[int, typer.Option(min=1, help="Replies of the model at most.")] = 20,
    reminders: Annotated[
        int, typer.Option(min=0, help="How often a model that writes a call as text is told how to call.")
    ] = 0,
    max_tokens: Annotated[int | None, typer.Option(min=1, help="Tokens of one reply at most.")] = None,
    context_window: ContextWindow = WINDOW,
    base_url: Annotated[
        str | None,
        typer.Option(metavar="URL", help="Where the API is; else OPENAI_BASE_URL or ANTHROPIC_BASE_URL says it."),
    ] = None,
    as_json: Json = False,
    project: Project = Path(),
) -> None:
    """Let a real model do something with the project's plugins and the tools of MCP servers.

    The answer goes to stdout, everything else to stderr. Keys come from OPENAI_API_KEY and ANTHROPIC_API_KEY.
    """
    from hooksdk.cli._provider import ModelOptions
    from hooksdk.cli._run import RunOptions, read_prompt, run_prompt

    if approve is False and prompt in (None, "-"):
        raise typer.BadParameter("--ask reads answers from stdin, so the prompt cannot come from there too")
    if session == "":
        raise typer.BadParameter("it is empty", param_hint="--session")
    model_options = ModelOptions(model=model, base_url=base_url, context_window=context_window, max_tokens=max_tokens)
    options = RunOptions(
        prompt=read_prompt(prompt), model=model_options, mcp=tuple(mcp or ()), system=system, max_turns=max_turns, reminders=reminders,
        session=session, store=store, approve=approve, as_json=as_json, project=project,
    )  # fmt: skip
    raise typer.Exit(run_prompt(options))


@tools_app.command("list")
def list_tools(
    mcp: Mcp = None, context_window: ContextWindow = WINDOW, as_json: Json = False, project: Project = Path()
) -> None:
    """List the tools that a model would get here, with the tokens that each costs."""
    from hooksdk.cli import _tools

    look = _tools.Look(project=project, mcp=tuple(mcp or ()), context_window=context_window, as_json=as_json)
    raise typer.Exit(_tools.list_tools(look))


@tools_app.command("search")
def search_tools(
    queries: Annotated[list[str], typer.Argument(metavar="QUERY...", help="One capability each, in quotes.")],
    mcp: Mcp = None,
    limit: Annotated[int | None, typer.Option(min=1, help="Hits of one query at most.")] = None,
    as_json: Json = False,
    project: Project = Path(),
) -> None:
    """Show what tool search would answer a model here, with the tokens that it costs."""
    from hooksdk.cli import _tools

    if not all(query.strip() for query in queries):
        raise typer.BadParameter("a query is empty", param_hint="QUERY")
    look = _tools.Look(project=project, mcp=tuple(mcp or ()), context_window=WINDOW, as_json=as_json)
    raise typer.Exit(_tools.search_tools(look, queries, limit))


@plugins_app.command("list")
def list_plugins(as_json: Json = False, project: Project = Path()) -> None:
    """List every plugin that a host here would know, loaded or not, with the reason."""
    known = _find(project)
    if as_json:
        print_json({"schema": 1, "plugins": describe_plugins(known)})
    else:
        _print_plugins(known)
    names = [plugin.id for plugin in known]
    for name in load_config(folder=project).plugins:
        if not any(fold(name) == fold(one) for one in names):
            _complain(f"[plugins.{name}] is for a plugin that is not installed here.{did_you_mean(name, names)}")
    if any(plugin.status == "refused" for plugin in known):
        raise typer.Exit(1)


@plugins_app.command("enable")
def enable_plugin(
    plugin_id: Annotated[str, typer.Argument(metavar="ID")],
    grant: Annotated[list[str] | None, typer.Option(help="A permission to give, such as conversation.")] = None,
    project: Project = Path(),
) -> None:
    """Switch a plugin on in the project's hooksdk.toml, and give it grants."""
    _check_known(project, plugin_id)
    edit = edit_project(project, plugin_id, enabled=True, grants=grant or [])
    grants = f", with {', '.join(grant)}" if grant else ""
    print(f"{plugin_id} is on{grants}: {edit.path}")
    _complain_of_trust(edit)
    now = next(plugin for plugin in _find(project) if fold(plugin.id) == fold(plugin_id))
    if not now.loaded:
        _complain(f"it is not loaded yet ({now.status}): {now.reason}")
        raise typer.Exit(1)


@plugins_app.command("disable")
def disable_plugin(plugin_id: Annotated[str, typer.Argument(metavar="ID")], project: Project = Path()) -> None:
    """Switch a plugin off in the project's hooksdk.toml."""
    _check_known(project, plugin_id)
    edit = edit_project(project, plugin_id, enabled=False, grants=[])
    print(f"{plugin_id} is off: {edit.path}")
    _complain_of_trust(edit)


def _complain_of_trust(edit: Edit) -> None:
    if edit.remarks:
        entries = ", ".join(dict.fromkeys(safe(remark.entry) for remark in edit.remarks))
        _complain(
            f"{edit.path} is not trusted, and has more to look at: {entries}. {trust_advice(edit.path.parent.resolve())}"
        )


@config_app.command("show")
def show_config(
    origin: Annotated[bool, typer.Option("--origin", help="Say who set each value.")] = False,
    as_json: Json = False,
    project: Project = Path(),
) -> None:
    """Show the configuration that counts here, and what does not count and why. No plugin is imported."""
    from hooksdk.cli._config import show

    raise typer.Exit(show(project, origin=origin, as_json=as_json))


@app.command()
def trust(
    folder: Annotated[Path, typer.Argument(help="The project's folder.")] = Path(),
    yes: Annotated[bool, typer.Option("--yes", help="Trust it without asking.")] = False,
    show_list: Annotated[bool, typer.Option("--list", help="List the folders that you trust.")] = False,
    remove: Annotated[bool, typer.Option("--remove", help="Trust the folder no longer.")] = False,
    as_json: Json = False,
) -> None:
    """Show what a folder's configuration would widen, such as running its plugins file, and trust it until it changes."""
    from hooksdk.cli import _trust

    if show_list + remove + yes > 1 or (as_json and not show_list):
        raise typer.BadParameter("--list, --remove and --yes exclude each other, and --json goes with --list")
    if show_list:
        code = _trust.list_trusted(as_json=as_json)
    elif remove:
        code = _trust.remove_trust(folder)
    elif folder.is_dir():
        code = _trust.trust_folder(folder, yes=yes)
    else:
        raise typer.BadParameter(f"{folder} is not a folder")
    raise typer.Exit(code)


def _find(project: Path) -> list[Plugin]:
    config = load_config(folder=project)
    registry = Registry(config)
    find_plugins(registry, (), config, folder=project, on_refusal=lambda _plugin, _error: None)
    return registry.plugins


def _check_known(project: Path, plugin_id: str) -> None:
    known = [plugin.id for plugin in _find(project)]
    if not any(fold(name) == fold(plugin_id) for name in known):
        hint = did_you_mean(plugin_id, known) or " `hooksdk plugins list` shows those that are."
        raise PluginRefused(plugin_id, f"it is not installed here.{hint}")


def _print_plugins(known: Sequence[Plugin]) -> None:
    console = stdout_console()
    if not known:
        console.print("No plugins are installed.")
        return
    table = Table(box=None, padding=(0, 2, 0, 0))
    for heading in ("plugin", "status", "from", "hooks, tools and what it does"):
        table.add_column(heading, overflow="fold")
    colours: dict[str, str] = {"loaded": "green", "refused": "red", "denied": "yellow"}
    for entry in describe_plugins(known):
        status = str(entry["status"])
        table.add_row(
            escape(str(entry["id"])),
            f"[{colours.get(status, 'dim')}]{status}[/]",
            escape(str(entry["origin"])),
            _description(entry),
        )
    console.print(table)


def _description(entry: dict[str, Any]) -> str:
    lines = [escape(str(entry["description"]))] if entry["description"] else []
    if entry["hooks"]:
        lines.append(f"[dim]hooks: {escape(', '.join(entry['hooks']))}[/]")
    if entry["tools"]:
        lines.append(f"[dim]tools: {escape(', '.join(entry['tools']))}[/]")
    if entry["reason"]:
        lines.append(f"[yellow]{escape(str(entry['reason']))}[/]")
    return "\n".join(lines)
