"""What the model may use, and what it is shown of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from hooksdk import hooks
from hooksdk._run.prompts import prompts_of
from hooksdk._run.state import RunState
from hooksdk._tasks.background import logger
from hooksdk._transcript.journal import Ledger
from hooksdk.catalog import Catalog, build_catalog
from hooksdk.errors import PolicyFailed, check_list
from hooksdk.formats import Message
from hooksdk.patterns import ToolPattern, near_tools
from hooksdk.records import Revealed, ToolsResolved, Withheld
from hooksdk.tools import Annotations, Tool

_CORE_ADVICE = 'Write such as core=["read_file"]'


class NameTaken(Exception):
    """A plugin offers tools under names that other tools have."""

    def __init__(self, names: Sequence[str]) -> None:
        super().__init__(f"the offered tool '{names[0]}' has a name that is given or withheld already")
        self.names = names


@dataclass
class Settlement:
    """What is settled for one attempt, before it takes the place of the last one's.

    Attributes:
        runnable: The tools with their executors, by name.
    """

    catalog: Catalog
    runnable: dict[str, Tool]
    bridges: dict[str, Tool] = field(default_factory=dict[str, Tool])
    hints: list[str] = field(default_factory=list[str])
    prefetched: list[str] = field(default_factory=list[str])
    declared: set[str] = field(default_factory=set[str])


def with_core(tools: Sequence[Tool], core: Sequence[str]) -> list[Tool]:
    """The host's tools, of which those that a pattern means are core, and no others. A pattern that means none is told
    in the log: the tool may be there another time."""
    patterns = [ToolPattern(text) for text in check_list("run.resolve_tools(core=...)", core, "names", _CORE_ADVICE)]
    for pattern in patterns:
        if not any(pattern.matches(tool) for tool in tools):
            logger.warning("core=%r is none of these tools.%s", [pattern.text], near_tools(pattern.text, tools))
    marked = ((tool, any(pattern.matches(tool) for pattern in patterns)) for tool in tools)
    return [tool if tool.core == is_core else tool.copy(core=is_core) for tool, is_core in marked]


async def settle_tools(
    state: RunState, tools: Sequence[Tool], earlier: set[str], missing: Mapping[str, str]
) -> list[Tool]:
    """Settle the catalog of this attempt, and answer what to offer. A tool that has the name of a bridge is renamed, as
    two owners' tools of one name are: the policies are asked anew then, about the names that the model will see. Once:
    a plugin that offers another taken name when it is asked again has failed, and so has one that offers the name of a
    host's own tool."""
    state.parts.unmatched.check_twins(tools)
    host_names = frozenset(tool.name for tool in tools if tool.source == "host")
    settlement = await _granted(state, tools, earlier, missing)
    try:
        offered = await assemble_tools(state, settlement, host_names, may_rename=True)
    except NameTaken as error:
        state.bridge_names.update(error.names)
        settlement = await _granted(state, tools, earlier, missing)
        offered = await assemble_tools(state, settlement, host_names, may_rename=False)
    state.catalog, state.bridges, state.runnable = settlement.catalog, settlement.bridges, settlement.runnable
    state.call_hint = " ".join(settlement.hints)
    state.prefetched = tuple(settlement.prefetched)
    declared = (tool for tool in settlement.catalog if tool.name in settlement.declared)
    state.declared.tools = {tool.name: tool for tool in sorted(declared, key=lambda tool: tool.name)}
    state.offered = (*offered, *_hidden(state, state.revealed, offered))
    return list(state.offered)


def _hidden(state: RunState, names: Iterable[str], offered: Sequence[Tool]) -> list[Tool]:
    """Those of these tools that are granted and not among the offered ones."""
    shown = {tool.name for tool in offered}
    granted = (state.granted(name) for name in dict.fromkeys(names) if name in state.tools)
    return [tool for tool in granted if tool is not None and tool.name not in shown]


async def reveal(state: RunState, answer: hooks.Reveal, plugin: str, messages: list[Message]) -> None:
    """Offer these tools from now on, after all others, or add them by a message, which is put behind `messages` as
    well. Those that are not granted are the handler's failure; the others are shown."""
    names = _names_in(answer.names, "Reveal")
    hidden = _hidden(state, names, state.offered)
    transcript = state.parts.transcript
    # A host that keeps a list of its own would miss the message.
    new = None if state.keeps_list else state.declared.not_added(hidden, transcript.ask(Ledger.as_shown))
    if new is None:
        state.offered = (*state.offered, *hidden) if hidden else state.offered
        state.revealed += [tool.name for tool in hidden]
    elif new:
        messages.append(state.declared.addition(new))
        await transcript.append(messages[-1:])
    if more := hidden if new is None else new:
        state.stats.revealed(more)
        tokens = sum(tool.tokens for tool in more)
        await state.trace(Revealed(plugin=plugin, names=tuple(tool.name for tool in more), tokens=tokens))
    if missing := [name for name in names if name not in state.tools or state.granted(name) is None]:
        reason = state.tools.withheld.get(missing[0])
        why = f"it is withheld ({reason})" if reason else "no granted tool has this name"
        raise ValueError(f"Reveal(names=...) holds '{missing[0]}': {why}")


async def _granted(state: RunState, tools: Sequence[Tool], earlier: set[str], missing: Mapping[str, str]) -> Settlement:
    runnable: dict[str, Tool] = {}
    catalog = build_catalog(tools, earlier, state.bridge_names, runnable, missing)
    return Settlement(await narrow_tools(state, catalog), runnable)


async def narrow_tools(state: RunState, catalog: Catalog, *, more: bool = False) -> Catalog:
    """What this session may not have is taken out, then the plugins are asked. Each handler sees what the ones before
    it left; one that fails ends the run. With `more` these are tools beside the catalog, of which a name may say
    nothing."""
    if state.parts.limited:
        catalog = catalog.without({tool.name: why for tool in catalog if (why := state.parts.why_not(tool))})

    def event() -> hooks.NarrowTools:
        return hooks.NarrowTools(info=state.info, tools=tuple(catalog))

    every_tool = catalog
    async for outcome in state.hooks.fire("narrow_tools", event):
        handler, names = outcome.handler, await outcome.use(lambda answer: _names_in(answer.names, "Withhold"))
        if names is None:
            raise PolicyFailed("narrow_tools", handler.who, str(outcome.failure))
        reason: str = outcome.answer.reason
        if not more:
            await state.parts.unmatched.check_withheld(state.hooks, state.info, handler.plugin, names, every_tool)
        narrowed = catalog.without(dict.fromkeys(names, reason))
        if narrowed is not catalog:
            await state.trace(Withheld(plugin=handler.plugin, names=tuple(names), reason=reason))
        catalog = narrowed
    return catalog


async def grant_uncatalogued(state: RunState, tools: Iterable[Tool]) -> Catalog:
    """Those of these tools, which are none of the catalog, that this session may have."""
    return await narrow_tools(state, Catalog(tool.without_executor() for tool in tools), more=True)


async def tell_settled(state: RunState, offered: Sequence[Tool]) -> None:
    """Say in the log and in the trace what this attempt was granted and what of it is offered."""
    catalog = state.tools
    for note in catalog.diagnostics:
        logger.info("%s", note, extra={"session": state.info.session_id})
    await state.trace(
        ToolsResolved(
            tools=len(catalog),
            offered=len(offered),
            withheld=len(catalog.withheld),
            tokens=state.stats.tokens_direct,
            tokens_offered=state.stats.tokens_offered,
            notes=catalog.diagnostics,
            catalog=_listing(catalog, offered, state.prefetched),
        )
    )


def _listing(catalog: Catalog, offered: Sequence[Tool], prefetched: Sequence[str]) -> list[dict[str, Any]]:
    """Each tool with what its definition costs and where it stands, for the trace."""
    shown = {**{tool.name: "offered" for tool in offered}, **dict.fromkeys(prefetched, "prefetched")}
    granted = {tool.name for tool in catalog}
    places = [(tool, shown.get(tool.name, "deferred")) for tool in catalog]
    places += [(tool, "bridge") for tool in offered if tool.name not in granted]
    return [
        {"tool": tool.id, "name": tool.name, "tokens": tool.tokens, "place": place, **_said(tool.annotations)}
        for tool, place in places
    ]


def _said(annotations: Annotations) -> dict[str, Any]:
    """What a tool says of itself, where it says anything."""
    said = {name: value for name in Annotations.names() if (value := getattr(annotations, name)) is not None}
    return {"annotations": said} if said else {}


def _names_in(given: Sequence[str], answer: str) -> list[str]:
    names: list[object] = [given] if isinstance(given, str) else list(given)
    if wrong := [type(name).__name__ for name in names if not isinstance(name, str)]:
        raise TypeError(f"{answer}(names=...) must hold names or ids, not {wrong[0]}")
    return [str.__str__(name) for name in names if isinstance(name, str)]


async def assemble_tools(
    state: RunState, settlement: Settlement, host_names: frozenset[str], *, may_rename: bool
) -> list[Tool]:
    """What to offer; when a handler fails, the plain catalog. Raises `NameTaken` when bridges need names that tools of
    the catalog have, and these may be renamed."""
    catalog = settlement.catalog
    shown = {tool.name: tool for tool in catalog}
    asked = prompts_of(state) if state.hooks.has("assemble_tools") else ()
    offers: list[_Offer] = []
    added: dict[str, Tool] = {}

    def event() -> hooks.AssembleTools:
        deferrable = tuple(tool for tool in shown.values() if not tool.core)
        tokens = sum(tool.tokens for tool in deferrable)
        return hooks.AssembleTools(
            info=state.info,
            deferrable=deferrable,
            context_window=state.context_window,
            tokens=tokens,
            catalog=catalog,
            prompts=asked,
            expose=state.parts.expose,
            deferral=state.declared.deferral,
        )

    def taken(names: Iterable[str]) -> list[str]:
        return [name for name in names if name in catalog or name in catalog.withheld]

    def read(answer: hooks.Offer, plugin: str) -> _Offer:
        offer = _read_offer(state, answer, plugin, shown, added)
        if names := [name for name in offer.tools if name in host_names] if may_rename else taken(offer.tools):
            raise NameTaken(names)
        return offer

    async for outcome in state.hooks.fire("assemble_tools", event):
        offer = await outcome.use(lambda answer, plugin=outcome.handler.plugin: read(answer, plugin))
        if offer is None:
            outcome.log(", so the plain catalog is offered")
            return list(catalog)
        offers.append(offer)
        added |= offer.tools
        shown = {name: tool for name, tool in shown.items() if name not in offer.deferred}
    if names := taken(added):
        raise NameTaken(names)
    return await _offer(state, settlement, offers)


@dataclass(frozen=True)
class _Offer:
    """One plugin's `Offer`, checked.

    Attributes:
        tools: The tools that it adds, by name, with their executors.
    """

    tools: Mapping[str, Tool]
    deferred: frozenset[str]
    call_hint: str
    prefetched: tuple[str, ...]
    declares: bool


def _read_offer(
    state: RunState, answer: hooks.Offer, plugin: str, shown: Mapping[str, Tool], added: Mapping[str, Tool]
) -> _Offer:
    contract, search = state.parts.contracts.get(plugin), isinstance(answer, hooks.Search)
    tools: dict[str, Tool] = {}
    for each in answer.tools:
        tool = as_offered(each, plugin, search=search)
        if not tool.name or tool.name in added or tool.name in tools:
            raise ValueError(f"the offered tool '{tool.name}' has a name that is offered already")
        if contract is not None and tool.own_name not in contract:
            raise ValueError(f"its manifest does not list the tool '{tool.name}'. List it under contracts.tools")
        tools[tool.name] = tool
    prefetched = dict.fromkeys(_names_in(answer.prefetched, "Offer"))
    for name in (*answer.defer, *prefetched):
        if name not in shown or shown[name].core:
            raise ValueError(f"'{name}' is not one of the deferrable tools")
    declares = isinstance(answer, hooks.Search) and answer.declare
    if declares and state.declared.deferral == "off":
        raise ValueError("the run's requests cannot declare tools: ask event.deferral")
    deferred = frozenset(answer.defer) - prefetched.keys()
    return _Offer(tools, deferred, answer.call_hint, tuple(prefetched), declares)


async def _offer(state: RunState, settlement: Settlement, offers: Sequence[_Offer]) -> list[Tool]:
    """What plugins offer is narrowed as the catalog is. Where a tool of an `Offer` is withheld nothing is hidden for
    it: the model might not find again what it was to stand for."""
    tools = {name: tool for offer in offers for name, tool in offer.tools.items()}
    if tools:
        narrowed = await narrow_tools(state, Catalog(tool.without_executor() for tool in tools.values()), more=True)
        settlement.bridges = {tool.name: tool for tool in narrowed}
        settlement.catalog = settlement.catalog.also_withholding(narrowed.withheld)
        settlement.runnable.update((name, tools[name]) for name in settlement.bridges)
    hidden: set[str] = set()
    prefetched: dict[str, None] = {}
    for offer in offers:
        if settlement.bridges.keys() >= offer.tools.keys():
            hidden |= offer.deferred
            prefetched |= dict.fromkeys(offer.prefetched)
            settlement.declared |= offer.deferred if offer.declares else frozenset()
            if offer.call_hint:
                settlement.hints.append(offer.call_hint)
    shown = {tool.name: tool for tool in settlement.catalog if tool.name not in hidden}
    settlement.prefetched = [name for name in prefetched if name in shown]
    last = [shown.pop(name) for name in settlement.prefetched]
    return [*shown.values(), *settlement.bridges.values(), *last]


def as_offered(tool: Any, plugin: str, *, search: bool) -> Tool:
    """A copy of a tool that a plugin offers through `Offer`: it is the plugin's, whatever it says of itself. It is a
    bridge, which policies let pass where they block unknown tools, without an executor, or of a `Search` that was
    granted."""
    if not isinstance(tool, Tool) or not isinstance(tool.name, str):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise TypeError(f"Offer(tools=...) must hold tools, not {type(tool).__name__}")
    copy = Tool.copy(tool, name=str.__str__(tool.name), source="plugin", owner=plugin)
    # A search's tool that goes by another name keeps its own, so that patterns and ids go on to mean it.
    own = {"own_name": copy.own_name if search else copy.name, "search": search}
    vars(copy).update(own, bridge=search or copy.execute is None)
    return copy
