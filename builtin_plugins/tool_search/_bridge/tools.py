"""The bridge tools as the model is shown them, and the batch of calls that one call of the bridge may make."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, final

import anyio
import anyio.to_thread

from builtin_plugins.tool_search._answers.listing import listing, owners_line
from builtin_plugins.tool_search._answers.scope import LONGEST_NAME, Refusal, reason_of
from builtin_plugins.tool_search._script.script import AT_ONCE
from builtin_plugins.tool_search._sentences import Names
from hooksdk import Annotations, Tool, ToolContext, ToolResult
from hooksdk.calls import Labels, join_labels
from hooksdk.values import BadArguments, clip, compact, read_json

Executor = Callable[..., Any]

READS = Annotations(read_only=True)
# What may be called is not known beforehand.
CHANGES = Annotations(read_only=False, destructive=True)
_TEXT = {"type": "string"}
_CALLS = {"type": "array", "items": {"type": "object"}}
_SEVERAL = {"type": ["array", "string"], "items": _TEXT}


def fill(description: str, tools: Sequence[Tool], listing_budget: int = 0) -> str:
    """A description for these deferred tools: `{count}` and `{owners}` filled in, and the listing below it."""
    text = description.replace("{count}", str(len(tools))).replace("{owners}", owners_line(tools))
    names = listing(tools, listing_budget) if listing_budget else ""
    return f"{text}\n\n{names}" if names else text


def bridge_tools(
    descriptions: Mapping[str, str], default_limit: int, executors: Mapping[str, Executor], names: Names, slowest: float
) -> list[Tool]:
    """`tool_search`, `tool_describe` and `tool_call` under these names, with these descriptions. `tool_call` of one
    call is turned into that call; its executor makes those of a batch, each of which may take `slowest` seconds."""
    parameters: dict[str, dict[str, Any]] = {
        "tool_search": {
            "queries": {**_SEVERAL, "description": "One capability a query."},
            "limit": {"type": ["integer", "string"], "description": f"Hits a query, {default_limit} unless given."},
        },
        "tool_describe": {
            "names": {**_SEVERAL, "description": "Exact tool names."},
            "part": {**_TEXT, "description": "Only this part, such as properties.filter."},
        },
        "tool_call": {
            "name": {**_TEXT, "description": "Exact tool name."},
            "arguments": {"type": "object", "description": "As in its signature."},
            "calls": {**_CALLS, "description": "Or several at once: [{name, arguments}]."},
        },
    }
    offered = {name: properties for name, properties in parameters.items() if name in descriptions}
    return _tools(descriptions, offered, executors, names, slowest)


def client_tools(owners: str, executors: Mapping[str, Executor], names: Names, slowest: float) -> list[Tool]:
    """The same in words that cost the client of a gateway the same whatever stands behind them; `owners` brings the
    tools. Batches are not told of: their calls cannot wait for a person, and the way for calls that only read takes
    none."""
    whose = f", of: {owners}" if owners else ""
    descriptions = {
        "tool_search": f"Find tools that are not listed here{whose}. One query for each thing to do, in a few keywords. "
        f"Hits come with their signatures, for {names.call}.",
        "tool_describe": "Show the JSON Schema of tools, when a signature is not enough.",
        "tool_call": "Call a tool that was found, by its exact name.",
    }
    texts = {"type": "array", "items": _TEXT}
    parameters: dict[str, dict[str, Any]] = {
        "tool_search": {"queries": texts, "limit": {"type": "integer"}},
        "tool_describe": {"names": texts},
        "tool_call": {"name": _TEXT, "arguments": {"type": "object"}},
    }
    return _tools(descriptions, parameters, executors, names, slowest)


def _tools(
    descriptions: Mapping[str, str],
    parameters: Mapping[str, Any],
    executors: Mapping[str, Executor],
    names: Names,
    slowest: float,
) -> list[Tool]:
    tools: list[Tool] = []
    for name, properties in parameters.items():
        calls = name == "tool_call"
        schema: dict[str, Any] = {"type": "object", "properties": properties}
        if calls and "calls" not in properties:
            schema["required"] = ["name", "arguments"]
        tool = Tool(
            name=name,
            description=descriptions[name],
            parameters=schema,
            execute=executors[name],
            annotations=CHANGES if calls else READS,
            disposable=not calls,
        )
        tools.append(tool.copy(name=names.of(name)))
        if calls:
            tools[-1] = tools[-1].copy(timeout=ROUNDS * slowest + JUDGING_SECONDS)
    return tools


# Calls of one batch: two rounds of those that run at a time.
MAX_CALLS = 32
ROUNDS = -(-MAX_CALLS // AT_ONCE)
# What policies may take of a batch's time, beside its tools. While a person is asked the run stops the clock.
JUDGING_SECONDS = 60.0
# Characters of results from which on they are put together in a thread.
_THREAD_FROM = 20_000

Status = Literal["ok", "blocked", "failed", "not_called"]
# The name and the arguments that an entry of a batch stands for. Raises `Refusal`.
Meant = Callable[[object], Awaitable[tuple[str, dict[str, Any]]]]


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """The outcome of one call of a batch.

    Attributes:
        blocks: Blocks of the result other than text, such as images.
        labels: The labels of the tool's text; empty for our own words.
    """

    name: str
    status: Status
    text: str
    blocks: Sequence[dict[str, Any]] = field(default=())
    labels: Labels = frozenset()


@final
class Batch:
    """The calls of one batch while they run."""

    def __init__(self, context: ToolContext, meant: Meant) -> None:
        self._context = context
        self._meant = meant
        self._turns = anyio.Semaphore(AT_ONCE)
        self._answers: dict[int, Outcome] = {}
        self._interrupt: KeyboardInterrupt | None = None

    async def run(self, entries: Sequence[object]) -> ToolResult:
        """Make these calls, as many at a time as a script may. However one ends, the others go on."""
        async with anyio.create_task_group() as tasks:
            for number, entry in enumerate(entries, 1):
                tasks.start_soon(self._one, number, entry, tasks.cancel_scope)
        if self._interrupt is not None:  # raised outside of the task group, which would wrap it
            raise self._interrupt
        answers = [self._answers[number] for number in sorted(self._answers)]
        if sum(len(one.text) for one in answers) < _THREAD_FROM:
            return _together(answers)
        return await anyio.to_thread.run_sync(_together, answers)

    async def _one(self, number: int, entry: object, scope: anyio.CancelScope) -> None:
        async with self._turns:
            try:
                self._answers[number] = await self._answer(entry)
            except KeyboardInterrupt as error:
                self._interrupt = error
                scope.cancel()

    async def _answer(self, entry: object) -> Outcome:
        try:
            name, arguments = await self._meant(entry)
        except Refusal as refused:
            return Outcome(name=_written_name(entry), status="not_called", text=reason_of(refused))
        try:
            result = await self._context.call_tool(name, arguments, origin="bridge")
        except Exception as error:  # of the host itself: the other results must not be lost with it
            return Outcome(name=name, status="failed", text=f"'{name}' failed inside the host: {type(error).__name__}")
        blocks = [] if result.plain else [block for block in result.blocks if block.get("type") != "text"]
        return Outcome(
            name=name, status=_status_of(result), text=result.text, blocks=blocks, labels=result.labels or frozenset()
        )


def _status_of(result: ToolResult) -> Status:
    if not result.is_error:
        return "ok"
    return "blocked" if result.text.startswith("Blocked") else "failed"


def _written_name(entry: object) -> str:
    name: object = entry.get("name") if isinstance(entry, dict) else None  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
    return clip(name, LONGEST_NAME) if isinstance(name, str) else ""


def _together(answers: Sequence[Outcome]) -> ToolResult:
    """One result of all of them: JSON, so that no tool's text can pass for another one's."""
    parts = [_part(number, one) for number, one in enumerate(answers, 1)]
    text = '{"results":[' + ",\n".join(parts) + "]}"
    attached = [block for one in answers for block in one.blocks]
    blocks = [{"type": "text", "text": text}, *attached] if attached else []
    labels = join_labels(*(one.labels for one in answers))
    return ToolResult(text, is_error=all(one.status != "ok" for one in answers), blocks=blocks, labels=labels)


def _part(number: int, outcome: Outcome) -> str:
    head: dict[str, Any] = {"call": number, "name": outcome.name, "status": outcome.status}
    if outcome.blocks:
        head["attached"] = len(outcome.blocks)
    # A text that is JSON stands as it is: as a text within JSON each of its quotes would cost a character more.
    written = outcome.text if _is_json(outcome.text) else compact(outcome.text)
    return f'{compact(head)[:-1]},"result":{written}}}'


def _is_json(text: str) -> bool:
    try:
        return text.lstrip()[:1] in {"{", "["} and read_json(text) is not None
    except BadArguments:
        return False
