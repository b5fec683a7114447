"""The tools of a program that is no MCP server, for commands that look at tools before anybody calls them: a list in one
of its modules, or what a trace of it has seen."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from itertools import chain
from pathlib import Path
from typing import Annotated, Any, cast

import typer

from hooksdk import Annotations, Tool
from hooksdk.cli._console import CommandProblem
from hooksdk.errors import HookSDKError, PluginRefused, did_you_mean, sentence
from hooksdk.formats.intake import as_tools
from hooksdk.host import Plugin, plugins_at
from hooksdk.patterns import SOURCES
from hooksdk.tasks import describe
from hooksdk.values import as_list, as_object

_TOOLS = "Tools of your own program, such as agent.py:TOOLS: a list, or a function that returns one. Its code is run."
_TRACE = "The tools that runs in this trace had, as trace_file writes it; may be given several times."
OwnTools = Annotated[list[str] | None, typer.Option("--tools", metavar="MODULE:TOOLS", help=_TOOLS)]
Traces = Annotated[list[Path] | None, typer.Option("--trace", metavar="FILE", help=_TRACE)]


def given_tools(names: Iterable[str] | None, traces: Iterable[Path] | None) -> list[Tool]:
    """The tools of `--tools`, and those of `--trace` that are not among them. Raises `HookSDKError`."""
    own = [tool for name in names or () for tool in _tools_at(name)]
    return with_others(own, [tool for path in traces or () for tool in _traced(path)])


def with_others(tools: Sequence[Tool], others: Iterable[Tool], plugins: Iterable[Plugin] = ()) -> list[Tool]:
    """These tools, and those others that are neither among them nor brought by one of the plugins: a trace has the tools
    of servers and plugins, too, and those of several runs."""
    ids = {tool.id for tool in tools} | {f"plugin:{one.id}:{name}" for one in plugins for name in one.tools}
    return [*tools, *{one.id: one for one in others if one.id not in ids}.values()]


def _tools_at(name: str) -> list[Tool]:
    place, _, attribute = name.rpartition(":")
    who = f"--tools {name}"
    if not (place and attribute):
        raise CommandProblem(f"{who}: expected a module and a name in it, such as agent.py:TOOLS")
    try:
        (module,) = plugins_at(f"{place}:")
        if not hasattr(module, attribute):
            near = did_you_mean(attribute, dir(module))
            raise CommandProblem(f"{who}: there is no '{attribute}' in {module.__file__}.{near}")
        tools = as_tools(getattr(module, attribute), who)
    except PluginRefused as error:
        raise CommandProblem(f"{who}: {sentence(error.problem)} {error.advice}".strip()) from None
    except HookSDKError:
        raise
    except Exception as error:
        raise CommandProblem(f"{who} raised {describe(error)}") from None
    if not tools:
        raise CommandProblem(f"{who}: expected at least one tool, got an empty list")
    return tools


def _traced(path: Path) -> list[Tool]:
    """The tools of a trace, but for those that only find others."""
    try:
        with path.open(encoding="utf-8", errors="replace") as file:
            catalogs = [_catalog_in(line) for line in file if '"tools_resolved"' in line]
    except OSError as error:
        raise CommandProblem(f"--trace {path}: {error.strerror}") from None
    tools = [tool for tool in map(_tool_of, chain.from_iterable(catalogs)) if tool]
    if not tools:
        raise CommandProblem(f"--trace {path}: expected a trace of trace_file, got no line with the tools of a run")
    return tools


def _catalog_in(line: str) -> list[Any]:
    try:
        return as_list(as_object(json.loads(line)).get("catalog"))
    except (ValueError, RecursionError):  # a last line that was torn
        return []


def _tool_of(entry: object) -> Tool | None:
    listed = as_object(entry)
    source, owner, own_name = [*str(listed.get("tool")).split(":", 2), "", ""][:3]
    if source not in SOURCES or not own_name or listed.get("place") == "bridge":
        return None
    hints = as_object(listed.get("annotations"))
    said = Annotations(**{name: hint for name in Annotations.names() if isinstance(hint := hints.get(name), bool)})
    name = str(listed.get("name") or own_name)
    return Tool(name=name, own_name=own_name, source=cast("Any", source), owner=owner, annotations=said)
