"""What tools do, in four words: read, write, run, reach. The tools of coding agents by their names, other tools by what
they say of themselves. A tool that neither is known nor says anything does everything."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, cast, get_args

from hooksdk import Tool
from hooksdk.errors import unknown_key
from hooksdk.patterns import ToolPattern, check_patterns

Kind = Literal["read", "write", "run", "reach"]
KINDS: tuple[Kind, ...] = get_args(Kind)
EVERYTHING: frozenset[Kind] = frozenset(KINDS)


@dataclass(frozen=True)
class Use:
    """What one tool does.

    Attributes:
        lines: Arguments that hold a command line, of which each command does what it does.
        patches: Arguments that hold a patch, with the paths in it.
        texts: Arguments that hold mere text: no path, no address, no command.
    """

    does: frozenset[Kind]
    lines: Sequence[str] = ()
    patches: Sequence[str] = ()
    texts: Sequence[str] = ()


def _use(*does: Kind, lines: str = "", patches: str = "", texts: str = "") -> Use:
    return Use(frozenset(does), lines.split(), patches.split(), texts.split())


_READ, _REACH, _NOTHING = _use("read"), _use("reach"), _use()
_EDIT = _use("read", "write", texts="old_string new_string edits instruction")


def _each(names: str, use: Use) -> dict[str, Use]:
    return dict.fromkeys(names.split(), use)


_LINE = _use("run", lines="command", texts="description")
_WRITE = _use("write", texts="content")
_READERS = _each("read_file read_many_files list_directory glob grep_search search_file_content", _READ)

# Each agent's own tools. Those that start another agent do nothing themselves: its calls are judged.
AGENTS: Mapping[str, Mapping[str, Use]] = {
    "claude-code": {
        "Bash": _LINE,
        "Write": _WRITE,
        "NotebookEdit": _use("read", "write", texts="new_source"),
        "WebFetch": _use("reach", texts="prompt"),
        "WebSearch": _REACH,
        **_each("Read Glob Grep LS NotebookRead", _READ),
        **_each("Edit MultiEdit", _EDIT),
        **_each("Agent Task TaskOutput TaskStop BashOutput KillBash KillShell TodoWrite AskUserQuestion", _NOTHING),
        **_each("EnterPlanMode ExitPlanMode ToolSearch", _NOTHING),
    },
    "codex": {
        "Bash": _LINE,
        **_each("shell shell_command", _use("run", lines="command", texts="justification")),
        "local_shell": _use("run", lines="command"),
        "exec_command": _use("run", lines="cmd", texts="justification"),
        "apply_patch": _use("read", "write", patches="command input patch"),
        "view_image": _READ,
        "web_search": _REACH,
        "update_plan": _NOTHING,
    },
    "gemini": {
        "run_shell_command": _LINE,
        **_READERS,
        "write_file": _WRITE,
        "replace": _EDIT,
        **_each("web_fetch google_web_search", _REACH),
        "write_todos": _NOTHING,
    },
    "qwen": {
        "run_shell_command": _LINE,
        **_READERS,
        "write_file": _WRITE,
        "edit": _EDIT,
        **_each("web_fetch web_search", _REACH),
        **_each("todo_write exit_plan_mode task", _NOTHING),
    },
}

_KNOWN = {name: use for tools in AGENTS.values() for name, use in tools.items()}


class Vocabulary:
    """What tools do: as the operator says it, as agents' own tools are known, or as tools say it."""

    def __init__(self, said: Mapping[str, Sequence[Kind]] | None = None) -> None:
        self._said = [(ToolPattern(text), Use(frozenset(kinds))) for text, kinds in (said or {}).items()]

    @property
    def said(self) -> tuple[tuple[str, frozenset[Kind]], ...]:
        """What the operator says, by pattern."""
        return tuple((pattern.text, use.does) for pattern, use in self._said)

    def use_of(self, tool: Tool) -> Use | None:
        """What the tool does; None where nobody says so, so that it counts as everything."""
        for pattern, use in self._said:
            if pattern.matches(tool):
                return use
        # A server may give any name to its tools, so the names of agents' own tools mean nothing there.
        if tool.source in {"host", "client"} and tool.own_name in _KNOWN:
            return _KNOWN[tool.own_name]
        return _by_annotations(tool)


def _by_annotations(tool: Tool) -> Use | None:
    reads, reaches = tool.annotations.read_only is True, tool.annotations.open_world is not False
    if not reads and reaches:
        return None
    kinds = frozenset[Kind]({"read"}) if reads else EVERYTHING - {"reach"}
    return Use(kinds | frozenset[Kind]({"reach"}) if reaches else kinds)


# With nothing that an operator said.
WORDS = Vocabulary()


def read_vocabulary(value: object) -> object:
    """What an operator says of tools, checked: patterns, and words with their likely spelling."""
    if not isinstance(value, Mapping):
        return value  # pyright: ignore[reportUnknownVariableType] - pydantic checks it next
    said = {
        pattern: [kinds] if isinstance(kinds, str) else kinds
        for pattern, kinds in cast("Mapping[str, object]", value).items()
    }
    check_patterns(list(said))
    for kinds in said.values():
        for word in cast("list[object]", kinds) if isinstance(kinds, list) else ():
            if word not in KINDS:
                raise ValueError(unknown_key(str(word), KINDS, "a known word of what tools do"))
    return said
