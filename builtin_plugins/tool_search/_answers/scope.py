"""The tool that a model means by a name, and the refusal it reads where there is no such tool."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, cast

from builtin_plugins.tool_search._answers.listing import not_available
from builtin_plugins.tool_search._answers.signatures import returns, row
from builtin_plugins.tool_search._ranking.words import squeeze
from builtin_plugins.tool_search._sentences import HOW_TO_CALL, Names, Way
from builtin_plugins.tool_search.rankers import Ranker
from hooksdk import Catalog, Tool, ToolError, schema
from hooksdk.values import clip

# Characters of a name that a refusal repeats.
LONGEST_NAME = 200
# How each refusal of a bridge call begins.
NOTHING_CALLED = "Nothing was called: "
# Tools that a refusal names in the place of one that there is not.
MAX_HITS = 3
# Characters of a call's arguments that are searched for.
MAX_WORDS = 400
# Characters of one argument that are searched for: names and requests are short, documents are not.
MAX_VALUE = 120


@dataclass(eq=False)
class Refusal(ToolError):
    """Why a call of the model is not made.

    Attributes:
        lead: The tool that it probably has to call instead.
    """

    lead: Tool | None = None


def refusal(reason: str, lead: Tool | None = None) -> Refusal:
    """The refusal of a bridge call for this reason."""
    return Refusal(f"{NOTHING_CALLED}{reason}", lead=lead)


def reason_of(error: ToolError) -> str:
    """Why a bridge call was refused."""
    return str(error).removeprefix(NOTHING_CALLED)


@dataclass(frozen=True, slots=True)
class Scope:
    """The tools that the bridge reaches in this run, and how they are named and called.

    Attributes:
        ranker: Finds tools in the place of a name that there is not; without it none are looked for.
        prompt: The newest prompt of the user.
        returns: The form of a tool's result, as far as it is known.
    """

    catalog: Catalog
    deferred: frozenset[str]
    names: Names = field(default_factory=Names)
    ranker: Callable[[], Ranker] | None = None
    way: Way = "tools"
    prompt: str = ""
    returns: Callable[[Tool], str] = lambda tool: returns(tool.output_schema)

    def granted(self, name: str, arguments: Mapping[str, Any] | None = None) -> Tool:
        """The deferred tool that is meant. Raises `Refusal` for a bridge, a tool that is offered directly, one that is
        withheld and an unknown one: four cases with four next steps."""
        tool = self.catalog.meant(name, arguments)
        if tool is not None and tool.name in self.deferred:
            return tool
        call = self.names.call
        if tool is not None:
            offered = f"'{tool.name}' is offered to you directly. Call {tool.name} itself, not through {call}."
            raise refusal(offered, tool)
        if shared := self.shared(name):
            raise refusal(shared)
        if name in self.catalog.withheld:
            raise refusal(f"'{name}' is withheld from this run ({self.catalog.withheld[name]}). Do not retry.")
        near = self.catalog.suggest(name)
        advice = f" Did you mean {' or '.join(near)}?" if near else ""
        if direct := [one for one in near if one not in self.deferred]:
            itself = "itself" if len(direct) == 1 else "themselves"
            advice += f" Call {' and '.join(direct)} {itself}, not through {call}."
        if name in self.catalog.removed_names:
            advice += f" Use {self.names.search} for another tool that can do it, or go on without it."
            raise refusal(f"there is no tool called '{name}' any more. Do not retry.{advice}")
        hits = self.hits(name, arguments)
        shown = clip(name, LONGEST_NAME)
        source = self._source(name)
        problem = f"'{shown}' is {source}" if source else f"there is no tool called '{shown}'."
        advice = advice or (f" Use {self.names.search} to find the exact name." if not hits else "")
        raise refusal(f"{problem}{advice}{self._missing()}{self.lines(hits)}", hits[0] if hits else None)

    def shared(self, name: str) -> str:
        """The refusal of a name that several owners' tools share; empty for any other name."""
        tools = [tool for one in self.catalog.sharing(name) if (tool := self.catalog.get(one)) is not None]
        return f"several tools are called '{name}'.{self.lines(tools)}" if tools else ""

    def unknown(self, name: str, arguments: Mapping[str, Any]) -> Refusal:
        """The refusal of a direct call of a name that no tool has."""
        hits, source = self.hits(name, arguments), self._source(name)
        advice = self.lines(hits)
        if not hits:
            near = self.catalog.suggest(name)
            how = self.names.fill(HOW_TO_CALL[self.way])
            advice = (
                f" Did you mean {' or '.join(near)}?" if near else f" There are tools that are not shown to you. {how}"
            )
        problem = f"it is {source}" if source else "there is no such tool."
        text = f"'{clip(name, LONGEST_NAME)}' was not run: {problem}{self._missing()}{advice}"
        return Refusal(text, lead=hits[0] if hits else None)

    def hits(self, name: str, arguments: Mapping[str, Any] | None) -> list[Tool]:
        """The tools that a made-up name and the words of its arguments find, or the words find at the source of that
        name. Those that take exactly these arguments come first: a model invents a name sooner than keys."""
        if self.ranker is None:
            return []
        ranker, words = self.ranker(), " ".join(_words(arguments))[:MAX_WORDS]
        owned = {tool.name for tool in self._owned(name)}
        if owned:
            ranked = ranker.search(f"{name} {words}", len(self.catalog))
            found = [hit.id for hit in ranked if hit.id in owned]
        else:
            for query in (f"{name} {words}", name):
                found = [hit.id for hit in ranker.search(query, MAX_HITS) if not hit.weak]
                if found:
                    break
        if takers := [tool.name for tool in self._takers(arguments) if not owned or tool.name in owned]:
            ranks = [hit.id for hit in ranker.search(f"{name} {words} {self.prompt}", len(self.catalog))]
            places = {one: place for place, one in enumerate(ranks)}
            # Where many take them, the keys tell little: then only those that the words find as well.
            near = takers if len(takers) <= MAX_HITS else [one for one in takers if one in places]
            first = sorted(near, key=lambda one: places.get(one, len(ranks)))
            found = [*dict.fromkeys([*first, *found])]
        return [tool for one in found[:MAX_HITS] if (tool := self.catalog.get(one)) is not None]

    def _takers(self, arguments: Mapping[str, Any] | None) -> list[Tool]:
        """The tools that require some of these keys, know all of them, and take values of these types."""
        keys = set(arguments or ())
        takers: list[Tool] = []
        for tool in self.catalog if keys else ():
            parameters: Mapping[str, Any] = tool.parameters or {}
            required: list[str] = parameters.get("required") or []
            known: Mapping[str, Any] = parameters.get("properties") or {}
            fits = required and keys.issuperset(required) and keys.issubset(known) and not tool.bridge
            if fits and not schema.check(parameters, arguments):
                takers.append(tool)
        return takers

    def lines(self, hits: list[Tool]) -> str:
        """These tools with their signatures, one a line, and how they are called."""
        if not hits:
            return ""
        how = {
            "tools": f"through {self.names.call}",
            "script": f"in a script for {self.names.code}",
            "native": "by their own names",
        }[self.way]
        rows = [
            row(tool) + ("" if tool.name in self.deferred else " (is shown to you: call it directly)") for tool in hits
        ]
        return "\n".join([f" Tools that may fit, called {how}:", *rows])

    def _missing(self) -> str:
        """The sources whose tools are not there now: the tool that is meant may be one of theirs."""
        if not self.catalog.missing:
            return ""
        missing = not_available(self.catalog.missing)
        sources = (f"{name} ({reason})" if reason else name.strip("()") for name, reason in missing.items())
        return f" Not available now: {'; '.join(sources)}."

    def _owned(self, name: str) -> list[Tool]:
        plain = squeeze(name)
        return [tool for tool in self.catalog if tool.name in self.deferred and squeeze(tool.owner) == plain]

    def _source(self, name: str) -> str:
        count = len(self._owned(name))
        return f"a source of {count} tool{'s' if count > 1 else ''}, not a tool." if count else ""


def _words(value: object, depth: int = 0) -> Iterator[str]:
    """The short texts in the arguments."""
    if isinstance(value, str) and len(value) <= MAX_VALUE:
        yield value
    elif isinstance(value, Mapping) and depth < 4:
        for one in cast("Mapping[str, object]", value).values():
            yield from _words(one, depth + 1)
    elif isinstance(value, list) and depth < 4:
        for one in cast("list[object]", value):
            yield from _words(one, depth + 1)
