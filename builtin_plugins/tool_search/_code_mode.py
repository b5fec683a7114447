"""`tool_search_code`: one tool instead of three. The model writes a short script that finds tools and calls them."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast, final

import anyio.to_thread

from builtin_plugins.tool_search._answers import compact, described, number_of, search, texts_of
from builtin_plugins.tool_search._bridge_call import ARGUMENT_KEYS, NAME_KEYS, refuse_unless_deferred
from builtin_plugins.tool_search._sandbox import SHOWN_MODULES, Ended, Sandbox
from builtin_plugins.tool_search._script import Limits
from builtin_plugins.tool_search._script_values import MUCH, TooLarge, as_given, as_returned, clean, fitting
from builtin_plugins.tool_search._signatures import clip
from builtin_plugins.tool_search._stubs import Stubs
from builtin_plugins.tool_search.rankers import Ranker
from hooksdk import Catalog, Tool, ToolContext, ToolError, ToolResult, schema
from hooksdk.tools import BRIDGE_NAMES

__all__ = ["CODE_DESCRIPTION", "code_tool"]

MAX_CODE = 20_000
"""Characters of a script."""
LONGEST_QUERY = 2_000
"""Characters of one query that are searched for."""
LONGEST_NAME = 300
"""Characters of a tool's name or id that a script may ask for: the trace keeps them."""
MAX_ANSWER = 16_000
"""Characters of what comes back from it."""
MAX_RETURNS = 8_000
"""Characters of an output schema that `describe` shows."""
CALLS_SECONDS = 300.0
"""What the calls of one script may take together, unless one of the tools alone may take longer."""

CODE_DESCRIPTION = """\
Run a short Python script that finds tools and calls them. {count} more tools can be used that are not shown here, from {owners}. \
Only a script can call them; it can call the shown ones, too. It has three functions, and each needs await:
search(query, limit=5) -> list of hits, each a dict with name, call (the signature), description
describe(name) -> dict with description, parameters (JSON Schema) and, where known, returns
call(name, {arguments}) -> what the tool answers: a dict or list where it is JSON, else text
Example:
hits = await search("create issue")
print(hits[0]["call"])
await call("create_issue", {"title": "It is broken"})
What it prints and the value of its last line come back. await asyncio.gather(call(...), call(...)) runs calls at once (no \
return_exceptions). A refused or failed call raises an exception. Limited Python: no yield, no inheritance, no files or network; \
import only asyncio, json, re, math, datetime, collections, itertools, functools."""
"""What the model reads of `tool_search_code` unless the configuration says otherwise."""

# Prose around it has no quotes, so the fence is certainly in no text of the script.
_FENCE = re.compile(r"(?:[^\"'#`]|\b'\b)*```[a-z]*[ \t]*\n(.*?)```[^`]*", re.DOTALL)
_ADVICE = (
    ("the JSON object must be str", "call has read the JSON already: leave json.loads away"),
    ("string indices must be integers", "if that is what call answered, it is text: print it to see its form"),
    (
        "No module named",
        f"Import only {', '.join(SHOWN_MODULES)}, base64, copy, dataclasses, hashlib, random, time or typing",
    ),
    ("module 'asyncio' has no attribute", "Of asyncio there are gather, run and sleep"),
    ("exceptions can only be called with", 'Give an exception one text, such as ValueError(f"no {name}")'),
    ("cannot suspend in this synchronous context", "Make the calls in a list comprehension, not in map or sorted"),
    (
        "suspension limit",
        "A script stops 1,000 times at most: for a call, to wait for it, for a sleep, a refused file, an unknown name",
    ),
    (
        "gather() does not yet support",
        "To keep what fails apart, write an async function with try and except, and gather that",
    ),
)
"""What to do instead, by a part of what went wrong: what models write most often, and this Python has not."""


def code_tool(
    description: str,
    *,
    sandbox: Sandbox,
    ranker: Callable[[ToolContext], Ranker],
    seconds: float,
    slowest: float,
    default_limit: int,
    max_limit: int,
) -> Tool:
    """`tool_search_code` with this description. A script has `seconds` of its own time; `slowest` is the longest time
    that a tool may take."""

    async def run(arguments: dict[str, Any], context: ToolContext) -> ToolResult:
        code = _read_code(arguments.get("code"))
        script = _Called(context, lambda: ranker(context), default_limit, max_limit)
        stubs = Stubs(code, context.catalog)
        if refused := stubs.told(await sandbox.check(stubs.code, stubs.text)):
            return ToolResult.error(refused)
        functions = {"search": script.search, "describe": script.describe, "call": script.call}
        ended = await sandbox.run(code, functions, Limits(seconds=seconds))
        return script.answer(ended)

    return Tool(
        name="tool_search_code",
        description=description,
        parameters={
            "type": "object",
            "properties": {"code": {"type": "string", "description": "The script."}},
            "required": ["code"],
        },
        owner="tool_search",
        execute=run,
        # The script's own time and its calls' time; while a person is asked the run stops this clock.
        timeout=seconds + max(CALLS_SECONDS, slowest),
    )


def _read_code(code: object) -> str:
    text = clean(str(code or ""))
    fenced = _FENCE.fullmatch(text)
    text = textwrap.dedent(fenced[1] if fenced else text).strip("\n")
    if not text.strip():
        raise ToolError('Nothing was run: tool_search_code needs a script, such as {"code": "await search(\'mail\')"}')
    if len(text) > MAX_CODE:
        raise ToolError(f"Nothing was run: the script has {len(text):,} characters; {MAX_CODE:,} are the most.")
    return text


@final
@dataclass
class _Called:
    """What one script calls, and what became of it."""

    context: ToolContext
    ranker: Callable[[], Ranker]
    default_limit: int
    max_limit: int
    called: list[str] = field(default_factory=list[str])
    """The calls in the order in which they ended."""

    async def search(self, /, query: object = None, limit: object = None, **named: object) -> list[dict[str, Any]]:
        """The hits of one query or of several, each once."""
        queries = [clip(one, LONGEST_QUERY) for one in texts_of(query if query is not None else named.get("queries"))]
        if not queries:
            raise TypeError('search needs a query, such as await search("create issue")')
        most = max(1, min(number_of(limit, self.default_limit), self.max_limit))
        # In a thread, as the first search of a large catalog makes its index.
        found = await anyio.to_thread.run_sync(self._find, queries, most)
        hits = {hit["name"]: hit for group in reversed(found["results"]) for hit in reversed(group["hits"])}
        self.context.count("searches", len(found["results"]))
        self.context.count("hits", len(hits))
        return as_given([*reversed(hits.values())])

    def _find(self, queries: Sequence[str], most: int) -> dict[str, Any]:
        catalog = self.context.catalog
        return search(queries, most, catalog=catalog, deferred=_names(catalog), ranker=self.ranker())

    async def describe(self, /, name: object = None, **named: object) -> dict[str, Any]:
        """Description and schemas of one tool."""
        catalog = self.context.catalog
        wanted = _name_of(name if name is not None else named.get("names"), "describe")
        self.context.count("describes", 1)
        try:
            tool = catalog.get(refuse_unless_deferred(wanted, catalog, _names(catalog)))
        except ToolError as error:
            told = str(error).removeprefix("Nothing was called: ").replace("tool_search ", "search ")
            raise ValueError(told) from None
        assert tool is not None
        answer = {"name": tool.name, **described(tool)}
        returns = tool.output_schema
        shown = returns is not None and len(compact(returns)) <= MAX_RETURNS
        return as_given({**answer, "returns": returns} if shown else answer)

    async def call(self, /, *given: object, **named: object) -> Any:
        """Call a tool like any other call: every policy sees it."""
        name, arguments = self._read_call(given, named)
        result = await self.context.call_tool(name, arguments, origin="code")
        self.called.append(f"{clip(name, 100)} (failed)" if result.is_error else clip(name, 100))
        if not result.is_error:
            if result.structured is None and len(result.text) < MUCH:
                return _returned(name, result)
            return await anyio.to_thread.run_sync(_returned, name, result)
        text = clean(result.text)
        if name in BRIDGE_NAMES:
            text = f"'{name}' was not run: a script calls tools by their own names."
        if text.startswith("Blocked") or name in self.context.catalog.withheld:
            raise PermissionError(text)
        raise RuntimeError(text)

    def _read_call(self, given: tuple[object, ...], named: dict[str, object]) -> tuple[str, dict[str, Any]]:
        if len(given) > 2:
            raise TypeError('call takes a name and one object, such as await call("create_issue", {"title": "x"})')
        named_by = next((key for key in NAME_KEYS if key in named), "name")
        name = _name_of(given[0] if given else named.pop(named_by, None), "call")
        tool = self.context.catalog.get(name)
        written: object = given[1] if len(given) == 2 else None
        wrapper = next((key for key in ARGUMENT_KEYS if _wraps(key, named, tool)), None)
        if written is None and wrapper:
            written = named.pop(wrapper)
        raw: object = dict(cast("Mapping[str, Any]", written)) if isinstance(written, Mapping) else written
        try:
            arguments = cast("dict[str, Any]", raw) if isinstance(raw, dict) else schema.parse_arguments(raw)
        except schema.BadArguments as error:
            raise TypeError(f"the arguments of '{name}' cannot be read. {error}") from None
        return name, {**named, **arguments}

    def answer(self, ended: Ended) -> ToolResult:
        """What the model reads of the script."""
        if ended.problem is not None:
            return ToolResult.error(self._failure(ended))
        answer: dict[str, Any] = {}
        notes: list[str] = []
        value = ended.value
        text = compact(value)
        room = MAX_ANSWER - 500
        if ended.characters:
            answer["printed"] = fitting(ended.printed, max(room // 2, room - len(text) - 20))
            room -= len(compact(answer))
            if len(answer["printed"]) < ended.characters:
                notes.append(f"printed has the first {len(answer['printed']):,} of {ended.characters:,} characters")
        if len(text) > room:
            value = fitting(value if isinstance(value, str) else text, room)
            notes.append(f"value has the first {len(value):,} characters of its JSON, which has {len(text):,}")
        if value is not None or not answer:
            answer = {"value": value, **answer}
        if ended.not_awaited:
            notes.append(f"not awaited, so not waited for: {_few(ended.not_awaited)}. Write await before each")
        if ended.value is None and not ended.characters:
            notes.append("the script printed nothing, and its last line has no value")
        return ToolResult(compact({**answer, "note": ". ".join(notes)} if notes else answer))

    def _failure(self, ended: Ended) -> str:
        problem = clean(ended.problem or "")
        parts = [f"The script failed. {problem}", *(advice for part, advice in _ADVICE if part in problem)]
        if self.called:
            parts.append(f"Calls that it had made: {_few(self.called)}")
        if ended.not_awaited:
            parts.append(f"Given up: {_few(ended.not_awaited)}")
        if ended.characters:
            parts.append(f"It had printed: {clip(clean(ended.printed), MAX_ANSWER // 2)}")
        return "\n".join(parts)


def _names(catalog: Catalog) -> frozenset[str]:
    """Every granted tool: a script may call those that are shown, too."""
    return frozenset(tool.name for tool in catalog)


def _returned(name: str, result: ToolResult) -> Any:
    try:
        return as_returned(result.structured, result.text)
    except TooLarge as error:
        raise RuntimeError(f"'{clip(name, 100)}' was run, but {error}. Ask it for less at a time.") from None


def _wraps(key: str, named: Mapping[str, object], tool: Tool | None) -> bool:
    """Whether all arguments are given under this key, which is none of the tool's own."""
    given = key in named and not (tool and key in tool.parameter_names)
    return given and (key == "arguments" or isinstance(named[key], Mapping))


def _few(names: Sequence[str], most: int = 20) -> str:
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")


def _name_of(value: object, function: str) -> str:
    """A tool's name, also where a hit of a search is given in its place."""
    if isinstance(value, Mapping):
        value = cast("Mapping[str, object]", value).get("name")
    if not isinstance(value, str) or not value.strip():
        raise TypeError(f'{function} needs the name of a tool, such as await {function}("create_issue")')
    return clip(clean(value.strip()), LONGEST_NAME)
