"""What one run works with, and how it settles its tools and its messages. The order is in `run.py`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal

from hooksdk import hooks, schema
from hooksdk._firing.dispatcher import Dispatcher, Failure
from hooksdk._firing.hook import Handler
from hooksdk._run.stats import RunStats
from hooksdk.approvals import Approver
from hooksdk.calls import TrimReceipt
from hooksdk.catalog import Catalog, Storage
from hooksdk.errors import PolicyFailed
from hooksdk.formats import Message, MessageFormat
from hooksdk.hooks import RunInfo
from hooksdk.tools import Tool
from hooksdk.transcript import OnQueued, Results, Transcript

__all__ = ["RunParts", "RunState", "assemble_tools", "before_model_call", "drain", "narrow_tools", "results_of"]


@dataclass(frozen=True, kw_only=True)
class RunParts:
    """What a session hands to its runs."""

    dispatcher: Dispatcher
    transcript: Transcript
    format: MessageFormat
    tools: Sequence[Tool]
    """The plugins' tools."""
    results: Callable[[str, OnQueued], Results]
    """The session's results, bound to a plugin."""
    storage: Callable[[str], Storage]
    """A plugin's key-value space."""
    approver: Approver | None
    checkpoint: Callable[[], Awaitable[None]]
    """Make the plugins' state durable."""
    opened: Callable[[], None]
    """Claim the session for this run; raises `RunAlreadyOpen`."""
    closed: Callable[[], None]
    """Tell the session that the run is over."""
    allowed: Callable[[Tool], bool]
    """Which tools this session may be granted at all (a sub-agent's may be fewer)."""
    drain_early: bool = False
    """Drain queued trims before each model call already."""


@dataclass
class RunState:
    """What one run knows at this moment."""

    parts: RunParts
    info: RunInfo
    context_window: int | None = None
    catalog: Catalog | None = None
    bridges: dict[str, Tool] = field(default_factory=dict[str, Tool])
    """Tools that plugins offer beside the catalog, by name."""
    deferred_how: str = ""
    """How the model calls what it is not shown."""
    reminder: str | None = None
    """What to tell a model whose last reply wrote a call as text."""
    stats: RunStats = field(default_factory=RunStats)

    @property
    def hooks(self) -> Dispatcher:
        """Fires the hooks."""
        return self.parts.dispatcher


async def narrow_tools(state: RunState, catalog: Catalog) -> Catalog:
    if not state.hooks.has("narrow_tools"):
        return catalog
    current = [catalog]

    async def withhold(handler: Handler, answer: hooks.Withhold) -> None:
        names = [answer.names] if isinstance(answer.names, str) else answer.names
        if wrong := [type(name).__name__ for name in names if not isinstance(name, str)]:  # pyright: ignore[reportUnnecessaryIsInstance]
            raise TypeError(f"Withhold(names=...) is to hold names or ids, not {wrong[0]}")
        current[0] = current[0].without(dict.fromkeys(names, answer.reason))
        await state.hooks.trace(state.info, "withheld", plugin=handler.plugin, names=list(names), reason=answer.reason)

    async def fail(failure: Failure) -> bool:
        raise PolicyFailed("narrow_tools", failure.handler.who, str(failure))

    await state.hooks.transform(
        "narrow_tools", lambda: hooks.NarrowTools(info=state.info, tools=tuple(current[0])), withhold, fail=fail
    )
    return current[0]


async def assemble_tools(state: RunState, catalog: Catalog) -> list[Tool]:
    state.bridges, state.deferred_how = {}, ""
    if not state.hooks.has("assemble_tools"):
        return list(catalog)
    shown = {tool.name: tool for tool in catalog}
    added: dict[str, Tool] = {}
    how: list[str] = []
    failed: list[Failure] = []

    async def offer(_handler: Handler, answer: hooks.Offer) -> None:
        for tool in answer.tools:
            if not tool.name or tool.name in catalog or tool.name in catalog.withheld or tool.name in added:
                raise ValueError(
                    f"the offered tool '{tool.name}' has a name that is given, withheld or offered already"
                )
        for name in answer.defer:
            if name not in shown or shown[name].core:
                raise ValueError(f"'{name}' is not one of the deferrable tools")
        added.update((tool.name, tool) for tool in answer.tools)
        for name in answer.defer:
            del shown[name]
        if answer.how:
            how.append(str(answer.how))

    async def fail(failure: Failure) -> bool:
        failed.append(failure)
        failure.log(", so the plain catalog is offered")
        return True

    def event() -> hooks.AssembleTools:
        deferrable = tuple(tool for tool in shown.values() if not tool.core)
        tokens = sum(tool.tokens for tool in deferrable)
        return hooks.AssembleTools(
            info=state.info, deferrable=deferrable, context_window=state.context_window, tokens=tokens
        )

    await state.hooks.transform("assemble_tools", event, offer, fail=fail)
    if failed:
        return list(catalog)
    state.bridges, state.deferred_how = added, " ".join(how)
    return [*shown.values(), *added.values()]


async def before_model_call(state: RunState) -> list[Message]:
    view = state.parts.transcript.view
    if not state.hooks.has("before_model_call"):
        return view
    form = state.parts.format
    replaced: list[Sequence[Message]] = []
    context: list[str] = []

    def current() -> list[Message]:
        base = list(replaced[-1]) if replaced else state.parts.transcript.view
        for text in context:
            base = form.add_context(base, text)
        return base

    def event() -> hooks.BeforeModelCall:
        now = current()
        results = results_of(state, "before_model_call")
        return hooks.BeforeModelCall(info=state.info, messages=now, tokens=schema.estimate_tokens(now), results=results)

    async def edit(handler: Handler, answer: hooks.AddContext | hooks.ReplaceMessages | hooks.Trim) -> None:
        if isinstance(answer, hooks.AddContext):
            context.append(str(answer.text))
        elif isinstance(answer, hooks.ReplaceMessages):
            fresh = [schema.clone(dict(message)) for message in answer.messages]
            for position, message in enumerate(fresh):
                if problem := form.check(message):
                    raise ValueError(f"ReplaceMessages, message {position}: {problem}")
            replaced.append(fresh)
            context.clear()
        else:
            results = results_of(state, handler.plugin)
            for handle in [answer.handles] if isinstance(answer.handles, str) else answer.handles:
                await results.trim(handle, reason=answer.reason)
            await drain(state)

    await state.hooks.transform("before_model_call", event, edit)
    return current()


async def drain(state: RunState) -> None:
    """Apply the queued trims in one atomic step, count them, and tell the trace what became of each."""
    if not state.parts.transcript.queued:
        return
    report = await state.parts.transcript.drain()
    state.stats.drained(report)
    for trim in report.trims:
        await state.hooks.trace(
            state.info, "trim_drained", handle=trim.handle, status=trim.status, plugin=trim.owner, tool=trim.tool,
            turns_ago=trim.age, tokens_saved=trim.tokens_saved,
        )  # fmt: skip


def results_of(state: RunState, owner: str) -> Results:
    """The session's results, bound to a plugin; what it queues is told to the trace."""

    async def on_queued(kind: Literal["trim", "restore"], receipt: TrimReceipt) -> None:
        await state.hooks.trace(
            state.info, f"{kind}_queued", plugin=owner, handle=receipt.handle,
            characters_before=receipt.characters_before, characters_after=receipt.characters_after,
        )  # fmt: skip

    return state.parts.results(owner, on_queued)
