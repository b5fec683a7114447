"""`tool_search_code`: one tool instead of three. The model writes a short script that finds tools and calls them."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, final

import anyio.to_thread

from builtin_plugins.tool_search import _sentences as sentences
from builtin_plugins.tool_search._answers.answers import described, texts_of
from builtin_plugins.tool_search._answers.scope import Refusal, Scope, reason_of
from builtin_plugins.tool_search._bridge.tools import CHANGES
from builtin_plugins.tool_search._bridge.written_call import ARGUMENT_KEYS, NAME_KEYS
from builtin_plugins.tool_search._script.sandbox import Sandbox, ScriptResult
from builtin_plugins.tool_search._script.script import Limits
from builtin_plugins.tool_search._script.values import THREAD_FROM, TooLarge, as_json, beginning, clean, result_value
from builtin_plugins.tool_search._script.variables import FUNCTIONS, SessionVariables
from hooksdk import Catalog, Tool, ToolContext, ToolError, ToolResult, schema
from hooksdk.errors import did_you_mean
from hooksdk.values import clip, compact, is_mapping

# Characters of a script.
MAX_CODE = 20_000
# Characters of one query that are searched for.
LONGEST_QUERY = 2_000
# Characters of a tool's name or id that a script may ask for: the trace keeps them.
LONGEST_NAME = 300
# Characters of what comes back from it.
MAX_ANSWER = 16_000
# Characters of an output schema that `describe` shows whole.
MAX_RETURNS = 8_000
# What the calls of one script may take together, unless one of the tools alone may take longer.
CALLS_SECONDS = 300.0
NOTHING = "the script printed nothing, and its last line has no value"

# Prose around it has no quotes, so the fence is certainly in no text of the script.
_FENCE = re.compile(r"(?:[^\"'#`]|\b'\b)*```[a-z]*[ \t]*\n(.*?)```[^`]*", re.DOTALL)
_UNDEFINED = re.compile(r"NameError: name '(\w+)' is not defined")


def code_tool(
    description: str,
    *,
    find: Callable[[Sequence[str], object, Scope], dict[str, Any]],
    scope: Callable[[Catalog], Scope],
    sandbox: Sandbox,
    seconds: float,
    slowest: float,
    variables: SessionVariables,
) -> Tool:
    """`tool_search_code` with this description. A script has `seconds` of its own time; `slowest` is the longest time
    that a tool may take. `find` answers queries and a limit."""

    async def run(arguments: dict[str, Any], context: ToolContext) -> ToolResult:
        reach = scope(context.catalog)
        code = _read_code(arguments.get("code"), reach.names.code)
        script = _Functions(context, reach, find, variables)
        functions = {"search": script.search, "describe": script.describe, "call": script.call}
        wanted = variables.wanted(code, context.mask)
        return script.answer(await sandbox.run(code, functions, Limits(seconds=seconds), wanted))

    return Tool(
        name="tool_search_code",
        description=description,
        parameters={
            "type": "object",
            "properties": {"code": {"type": "string", "description": "The script."}},
            "required": ["code"],
        },
        execute=run,
        annotations=CHANGES,
        # The script's own time and its calls' time; while a person is asked the run stops this clock.
        timeout=seconds + max(CALLS_SECONDS, slowest),
    )


def _read_code(code: object, name: str) -> str:
    text = clean(str(code or ""))
    fenced = _FENCE.fullmatch(text)
    text = textwrap.dedent(fenced[1] if fenced else text).strip("\n")
    if not text.strip():
        raise ToolError(f'Nothing was run: {name} needs a script, such as {{"code": "await search(\'mail\')"}}')
    if len(text) > MAX_CODE:
        raise ToolError(f"Nothing was run: the script has {len(text):,} characters; {MAX_CODE:,} are the most.")
    return text


@final
@dataclass
class _Functions:
    """The functions that one script can call, and the outcome of its calls.

    Attributes:
        done: The tools whose calls succeeded, in the order in which the calls ended.
        failed: The tools whose calls failed or were blocked.
    """

    context: ToolContext
    scope: Scope
    find: Callable[[Sequence[str], object, Scope], dict[str, Any]]
    variables: SessionVariables
    done: list[str] = field(default_factory=list[str])
    failed: list[str] = field(default_factory=list[str])

    async def search(self, /, query: object = None, limit: object = None, **keywords: object) -> list[dict[str, Any]]:
        """The hits of one query or of several, each once."""
        written = texts_of(query if query is not None else keywords.get("queries"))
        if not written:
            raise TypeError('search needs a query, such as await search("create issue")')
        queries = [clip(one, LONGEST_QUERY) for one in written]
        # In a thread, as the first search of a large catalog makes its index.
        groups = (await anyio.to_thread.run_sync(self.find, queries, limit, self.scope))["results"]
        hits = {hit["name"]: hit for group in reversed(groups) for hit in reversed(group["hits"])}
        self.context.count("searches", len(groups))
        self.context.count("hits", len(hits))
        return as_json([*reversed(hits.values())])

    async def describe(self, /, name: object = None, **keywords: object) -> dict[str, Any]:
        """Description and schemas of one tool."""
        name = _name_of(name if name is not None else keywords.get("names"), "describe")
        self.context.count("describes", 1)
        try:
            tool = self.scope.granted(name)
        except Refusal as error:
            raise ValueError(reason_of(error).replace(f"{self.scope.names.search} ", "search ")) from None
        answer = {"name": tool.name, **described(tool)}
        form: object = tool.output_schema
        if form is None or len(compact(form)) > MAX_RETURNS:
            form = self.scope.returns(tool)
        return as_json({**answer, "returns": form} if form else answer)

    async def call(self, /, *positional: object, **keywords: object) -> Any:
        """Call a tool like any other call: every policy sees it."""
        name, arguments = self._read_call(positional, keywords)
        result = await self.context.call_tool(name, arguments, origin="code")
        (self.failed if result.is_error else self.done).append(clip(name, 100))
        if not result.is_error:
            if result.structured is None and len(result.text) < THREAD_FROM:
                return _value_of(name, result)
            return await anyio.to_thread.run_sync(_value_of, name, result)
        text = clean(result.text)
        if self.scope.names.bridge(name) and self.context.catalog.get(name) is None:
            text = f"'{name}' was not run: a script calls tools by their own names."
        if text.startswith("Blocked") or name in self.context.catalog.withheld:
            raise PermissionError(text)
        raise RuntimeError(text)

    def _read_call(self, positional: tuple[object, ...], keywords: dict[str, object]) -> tuple[str, dict[str, Any]]:
        if len(positional) > 2:
            raise TypeError('call takes a name and one object, such as await call("create_issue", {"title": "x"})')
        name_key = next((key for key in NAME_KEYS if key in keywords), "name")
        name = _name_of(positional[0] if positional else keywords.pop(name_key, None), "call")
        tool = self.context.catalog.get(name)
        fields: object = positional[1] if len(positional) == 2 else None
        wrapper = next((key for key in ARGUMENT_KEYS if _wraps(key, keywords, tool)), None)
        if fields is None and wrapper:
            fields = keywords.pop(wrapper)
        try:
            arguments = dict(fields) if is_mapping(fields) else schema.parse_arguments(fields)
        except schema.BadArguments as error:
            raise TypeError(f"the arguments of '{name}' cannot be read. {error}") from None
        return name, {**keywords, **arguments}

    def answer(self, outcome: ScriptResult) -> ToolResult:
        """The answer to the model. The variables that the script has left are kept."""
        lost = self.variables.take(outcome.variables or {})
        if outcome.not_awaited:  # which is said already
            lost = [one for one in lost if "was not awaited" not in one]
        if outcome.problem is not None:
            return ToolResult.error(self._failure(outcome, lost))
        answer: dict[str, Any] = {}
        notes: list[str] = []
        value = outcome.value
        text = compact(value)
        room = MAX_ANSWER - 500
        if outcome.characters:
            answer["printed"] = beginning(outcome.printed, max(room // 2, room - len(text) - 20))
            room -= len(compact(answer))
            if len(answer["printed"]) < outcome.characters:
                notes.append(f"printed has the first {len(answer['printed']):,} of {outcome.characters:,} characters")
        if len(text) > room:
            value = beginning(value if isinstance(value, str) else text, room)
            notes.append(f"value has the first {len(value):,} characters of its JSON, which has {len(text):,}")
        if value is not None or not answer:
            answer = {"value": value, **answer}
        if outcome.not_awaited:
            notes.append(f"not awaited, so not waited for: {_few(outcome.not_awaited)}. Write await before each")
        if outcome.variables is None:
            notes.append("what it assigned could not be kept for later scripts")
        if lost:
            notes.append(f"not kept for later scripts: {'; '.join(lost)}")
        if outcome.value is None and not outcome.characters:
            kept = self._kept(outcome)
            notes.append(f"kept for later scripts: {kept}" if kept else NOTHING)
        return ToolResult(compact({**answer, "note": ". ".join(notes)} if notes else answer))

    def _failure(self, outcome: ScriptResult, lost: Sequence[str]) -> str:
        problem = clean(outcome.problem or "")
        advice = [advice for part, advice in sentences.SCRIPT_ADVICE if part in problem]
        if match := _UNDEFINED.search(problem):
            advice.append(self._instead_of(match[1]))
        told = {
            "Calls that it had made": f"{_few(self.done)}. {sentences.NOT_UNDONE}" if self.done else "",
            "Calls that failed": _few(self.failed),
            "Kept for later scripts": self._kept(outcome),
            "Not kept for later scripts": "; ".join(lost),
            "Given up": _few(outcome.not_awaited),
            "It had printed": clip(clean(outcome.printed), MAX_ANSWER // 2),
        }
        lines = (f"{what}: {text}" for what, text in told.items() if text)
        return "\n".join([f"The script failed. {problem}", *filter(None, advice), *lines])

    def _kept(self, outcome: ScriptResult) -> str:
        return _few([name for name in outcome.variables or () if name in self.variables.names])

    def _instead_of(self, name: str) -> str:
        """Advice on a name that is not defined in a script."""
        if (usual := self.scope.names.bridge(name)) in sentences.INSTEAD_IN_SCRIPT:
            return f"There is no {name} in a script: write {sentences.INSTEAD_IN_SCRIPT[usual]}"
        tool = self.context.catalog.get(name)
        if tool is not None:
            return f'{name} is a tool: write await call("{tool.name}", {{...}})'
        kept = self.variables.names
        near = did_you_mean(name, (*FUNCTIONS, *sentences.SCRIPT_MODULES, *kept)).strip()
        return near or (f"Earlier scripts have left: {_few(kept)}" if kept else "")


def _value_of(name: str, result: ToolResult) -> Any:
    try:
        return result_value(result.structured, result.text)
    except TooLarge as error:
        raise RuntimeError(f"'{clip(name, 100)}' was run, but {error}. Ask it for less at a time.") from None


def _wraps(key: str, keywords: Mapping[str, object], tool: Tool | None) -> bool:
    """Whether a keyword wraps all arguments of the call and is no parameter of the tool itself."""
    is_wrapper = key in keywords and not (tool and key in tool.parameter_names)
    return is_wrapper and (key == "arguments" or isinstance(keywords[key], Mapping))


def _few(names: Sequence[str], most: int = 20) -> str:
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")


def _name_of(value: object, function: str) -> str:
    """A tool's name, also where a hit of a search is given in its place."""
    if is_mapping(value):
        value = value.get("name")
    if not isinstance(value, str) or not value.strip():
        raise TypeError(f'{function} needs the name of a tool, such as await {function}("create_issue")')
    return clip(clean(value.strip()), LONGEST_NAME)
