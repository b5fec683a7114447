"""Options that several commands take."""

from __future__ import annotations

import functools
import inspect
import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar, get_type_hints

import typer

from hooksdk.cli._console import CommandProblem, printable, safe, stderr_console, warnings_shown
from hooksdk.cli._groups import OPTIONS
from hooksdk.config import project_folder

T = TypeVar("T")
# The owner of settings: the user, a project, the user for one folder, or the machine.
Scope = Literal["user", "project", "local", "managed"]

Json = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Show what would change, and change nothing.")]
Yes = Annotated[bool, typer.Option("--yes", help="Do it unasked.")]
InProject = Annotated[
    bool, typer.Option("--project/--user", help="The file of this folder's project, or your own for all projects.")
]
AGENTS = "claude-code, codex, gemini or qwen."


def takes(options: type[T]) -> Callable[[Callable[[T], int]], Callable[..., None]]:
    """Make a command of a function whose one argument is a dataclass: each field is an option of the command, as its
    annotation and the docstring of its class say, those of base classes last. The function returns the exit code."""
    hints, signature = get_type_hints(options, include_extras=True), inspect.signature(options)
    names = [name for one in options.__mro__ for name in inspect.get_annotations(one)]
    parameters = [signature.parameters[name].replace(annotation=hints[name]) for name in names]
    sections = [inspect.cleandoc(one.__doc__ or "").partition("\n\nAttributes:\n")[2] for one in options.__mro__]

    def decorate(function: Callable[[T], int]) -> Callable[..., None]:
        @functools.wraps(function)
        def command(**values: Any) -> None:
            raise typer.Exit(function(options(**values)))

        command.__doc__ = "\n".join([f"{inspect.getdoc(function) or ''}{OPTIONS}", *sections])
        command.__dict__["__signature__"] = signature.replace(parameters=parameters)
        return command

    return decorate


@dataclass(frozen=True, kw_only=True)
class EditOptions:
    """The options of a command that shows edits of files, and writes them after a yes."""

    dry_run: DryRun = False
    yes: Yes = False
    as_json: Json = False


@dataclass(frozen=True, kw_only=True)
class ClientOptions(EditOptions):
    """The options that name a client of the gateway and one of its files.

    Attributes:
        client: claude-code, claude-desktop, cursor, vscode, codex, windsurf, gemini, qwen, zed or cline.
        in_folder: Claude Code's servers of this folder alone, which it keeps in your own file.
        file: Another file of the client, such as that of one of VS Code's profiles.
    """

    client: Annotated[str, typer.Option(metavar="CLIENT")]
    in_project: InProject = False
    in_folder: Annotated[bool, typer.Option("--local")] = False
    file: Annotated[Path | None, typer.Option(metavar="FILE")] = None

    @property
    def scope(self) -> Scope:
        """The place that these options mean. Raises `CommandProblem` for more than one."""
        return scope_of(self.in_project, self.in_folder, self.file)


@dataclass(frozen=True, kw_only=True)
class GatewayInstall(ClientOptions):
    """The options of `hooksdk gateway install`.

    Attributes:
        profile: The profile of the configuration that the client gets.
        expose: bridge: search and call. direct: every tool. auto: the bridge where it saves 2,000 tokens or more. By
            default as the gateway's settings say, and those say auto unless you change them.
    """

    profile: Annotated[str, typer.Option(metavar="NAME")] = ""
    expose: Annotated[Literal["direct", "bridge", "auto"] | None, typer.Option("--expose")] = None


@dataclass(frozen=True, kw_only=True)
class GuardOptions(EditOptions):
    """The options that name a coding agent and one of its files of settings.

    Attributes:
        in_project: The settings of this folder's project, or your own for all projects.
        in_folder: Claude Code's settings of this folder that stay yours.
        managed: The machine's own settings, which no project overrules: for an administrator.
        file: Another file of the agent's settings.
    """

    agent: Annotated[str, typer.Option("--client", metavar="AGENT", help=AGENTS)]
    in_project: Annotated[bool, typer.Option("--project/--user")] = False
    in_folder: Annotated[bool, typer.Option("--local")] = False
    managed: Annotated[bool, typer.Option("--managed")] = False
    file: Annotated[Path | None, typer.Option(metavar="FILE")] = None

    @property
    def scope(self) -> Scope:
        """The place that these options mean. Raises `CommandProblem` for more than one."""
        if not self.managed:
            return scope_of(self.in_project, self.in_folder, self.file)
        if self.in_project or self.in_folder or self.file is not None:
            raise CommandProblem("--managed is a place of its own: leave --project, --local and --file out")
        return "managed"


@dataclass(frozen=True, kw_only=True)
class GuardInstall(GuardOptions):
    """The options of `hooksdk guard install`.

    Attributes:
        trial: Refuse nothing: `hooksdk guard try` says what would be refused.
    """

    trial: Annotated[bool, typer.Option("--try")] = False


def scope_of(in_project: bool, in_folder: bool, file: Path | None) -> Scope:
    """The place that these options mean. Raises `CommandProblem` for more than one."""
    if in_project + in_folder + (file is not None) > 1:
        raise CommandProblem("--project, --local and --file are three places: give one of them")
    return "project" if in_project else "local" if in_folder else "user"


def typed(client: str, scope: Scope, file: Path | None) -> str:
    """The command-line options that name this place."""
    place = "" if scope == "user" else f" --{scope}"
    return f"--client {client}{place}{f' --file {shlex.quote(str(file))}' if file is not None else ''}"


def nearest_project(context: typer.Context, option: typer.CallbackParam, folder: Path) -> Path:
    """The typed folder, or else the nearest folder with a configuration, which is printed if it is another."""
    source = context.get_parameter_source(option.name or "")
    if source is None or source.name != "DEFAULT" or (found := project_folder(folder)) == folder:
        return folder
    stderr_console().print(f"[dim]project[/]     {safe(found)}", soft_wrap=True)
    return found


Project = Annotated[
    Path,
    typer.Option(
        "--project",
        exists=True,
        file_okay=False,
        callback=nearest_project,
        help="The folder whose configuration counts. By default this one, or the nearest above it that has a "
        "hooksdk.toml.",
    ),
]
Store = Annotated[
    str | None,
    typer.Option(
        metavar="FOLDER|URL",
        help="Keep sessions in this folder or database (sqlite:///FILE, postgresql://...); by default where the "
        "configuration says, or in the state folder.",
    ),
]
StorePlace = Annotated[
    str | None,
    typer.Option("--store", metavar="FOLDER|URL", help="The store's folder or URL; by default the configuration's."),
]
Mcp = Annotated[
    list[Path] | None,
    typer.Option(
        "--mcp",
        metavar="FILE",
        help="A file with MCP servers; may be given several times. By default the project's mcp.json and .mcp.json, "
        "once trusted.",
    ),
]
Plugins = Annotated[
    list[str] | None,
    typer.Option(
        "--plugin",
        metavar="FILE|MODULE[:CLASS]",
        help="A plugin of your own, such as guard.py or package.guard:Guard; may be given several times. Its code is "
        "run, with all grants.",
    ),
]
ContextWindow = Annotated[
    int, typer.Option(min=1, metavar="TOKENS", help="The model's context window, for tool search.")
]
WINDOW = 200_000

ServerName = Annotated[str, typer.Argument(metavar="NAME", help="The server, as its file calls it.")]
NoBrowser = Annotated[
    bool,
    typer.Option(
        "--no-browser",
        help="For a browser elsewhere: show the page's address, and take the address that the browser was sent to.",
    ),
]
AskClientSecret = Annotated[
    bool,
    typer.Option(
        "--client-secret",
        help="Ask for the secret of the entry's clientId, or take it from the variable MCP_CLIENT_SECRET.",
    ),
]
ServerNames = Annotated[list[str] | None, typer.Argument(metavar="[SERVER]...", help="These alone; by default all.")]
ImportFrom = Annotated[
    list[str] | None,
    typer.Option(
        "--from",
        metavar="CLIENT|FILE",
        help="A client such as cursor, or a file; may be given several times. By default every client of this machine.",
    ),
]


def import_plugins(names: Sequence[str] | None) -> tuple[Any, ...]:
    """The modules and classes of `--plugin`, for `Host(plugins=...)`. Raises `PluginError`."""
    if not names:
        return ()
    from hooksdk.host import plugins_at

    with warnings_shown():
        return tuple(plugins_at(*names))


def has_mcp() -> bool:
    """True when the SDK of MCP is installed, in a version that hooksdk works with: older ones have no `mcp_types`."""
    return find_spec("mcp") is not None and find_spec("mcp_types") is not None


def need_mcp() -> None:
    """Raise `CommandProblem` without a usable SDK of MCP."""
    if not has_mcp():
        raise CommandProblem("the command needs the package 'mcp': pip install 'hooksdk[mcp]'")


def key_values(words: Sequence[str]) -> dict[str, str]:
    """The arguments of a tool that are written as KEY=VALUE. Raises a usage error for a word that is not."""
    pairs = [word.partition("=") for word in words]
    if wrong := next((word for word, (key, equals, _) in zip(words, pairs, strict=True) if not (key and equals)), None):
        raise typer.BadParameter(f"'{printable(wrong)}' is no KEY=VALUE, and no JSON object", param_hint="KEY=VALUE")
    return {key: value for key, _, value in pairs}


_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}


def seconds_of(text: str) -> float:
    """Seconds in a duration such as `10m`, `2h` or `30d`. Raises `CommandProblem`."""
    number, unit = text[:-1], _UNITS.get(text[-1:].lower())
    if unit is None or not number.isdecimal() or int(number) == 0:
        raise CommandProblem(f"'{text}' is no duration: expected a whole number and s, m, h or d, such as 10m or 30d")
    return int(number) * unit
