"""What the model may use, and what it is shown of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from hooksdk import hooks
from hooksdk._firing.dispatcher import Failure
from hooksdk._run.state import RunState
from hooksdk.catalog import Catalog, build_catalog
from hooksdk.errors import PolicyFailed
from hooksdk.records import Withheld
from hooksdk.tools import Tool


class NameTaken(Exception):
    """A plugin offers tools under names that other tools have."""

    def __init__(self, names: Sequence[str]) -> None:
        super().__init__(f"the offered tool '{names[0]}' has a name that is given or withheld already")
        self.names = names


async def settle_catalog(state: RunState, tools: Sequence[Tool], earlier: set[str]) -> tuple[Catalog, list[Tool]]:
    """The catalog of this attempt, and what to offer. A tool that has the name of a bridge is renamed, as two owners'
    tools of one name are: the policies are asked anew then, about the names that the model will see. Once: a plugin
    that offers another taken name when it is asked again has failed, and so has one that offers the name of a host's
    own tool."""
    host_names = frozenset(tool.name for tool in tools if tool.source == "host")
    catalog = await _granted(state, tools, earlier)
    try:
        return catalog, await assemble_tools(state, catalog, host_names, may_rename=True)
    except NameTaken as error:
        state.bridge_names.update(error.names)
    catalog = await _granted(state, tools, earlier)
    return catalog, await assemble_tools(state, catalog, host_names, may_rename=False)


async def _granted(state: RunState, tools: Sequence[Tool], earlier: set[str]) -> Catalog:
    catalog = build_catalog(tools, earlier, state.bridge_names)
    refused = {tool.name: "not granted to this session" for tool in catalog if not state.parts.allows(tool)}
    return await narrow_tools(state, catalog.without(refused))


async def narrow_tools(state: RunState, catalog: Catalog) -> Catalog:
    """Each handler sees what the ones before it left; one that fails ends the run."""

    def event() -> hooks.NarrowTools:
        return hooks.NarrowTools(info=state.info, tools=tuple(catalog))

    every_tool = catalog
    async for outcome in state.hooks.fire("narrow_tools", event):
        handler, failure = outcome.handler, outcome.failure
        names: list[str] = []
        if failure is None:
            try:
                names = _names_in(outcome.answer)
            except Exception as error:
                failure = Failure(handler, error)
        if failure is not None:
            raise PolicyFailed("narrow_tools", handler.who, str(failure))
        reason: str = outcome.answer.reason
        await state.parts.unmatched.check_withheld(state.hooks, state.info, handler.plugin, names, every_tool)
        catalog = catalog.without(dict.fromkeys(names, reason))
        await state.trace(Withheld(plugin=handler.plugin, names=tuple(names), reason=reason))
    return catalog


def _names_in(answer: hooks.Withhold) -> list[str]:
    names: list[object] = [answer.names] if isinstance(answer.names, str) else list(answer.names)
    if wrong := [type(name).__name__ for name in names if not isinstance(name, str)]:
        raise TypeError(f"Withhold(names=...) must hold names or ids, not {wrong[0]}")
    return [str(name) for name in names]


async def assemble_tools(
    state: RunState, catalog: Catalog, host_names: frozenset[str], *, may_rename: bool
) -> list[Tool]:
    """What to offer; when a handler fails, the plain catalog. Raises `NameTaken` when bridges need names that tools of
    the catalog have, and these may be renamed."""
    state.bridges, state.call_hint = {}, ""
    shown = {tool.name: tool for tool in catalog}
    bridges: dict[str, Tool] = {}
    hints: list[str] = []

    def event() -> hooks.AssembleTools:
        deferrable = tuple(tool for tool in shown.values() if not tool.core)
        tokens = sum(tool.tokens for tool in deferrable)
        return hooks.AssembleTools(
            info=state.info, deferrable=deferrable, context_window=state.context_window, tokens=tokens
        )

    def taken(names: Iterable[str]) -> list[str]:
        return [name for name in names if name in catalog or name in catalog.withheld]

    async for outcome in state.hooks.fire("assemble_tools", event):
        failure, offer = outcome.failure, outcome.answer
        if failure is None:
            try:
                added, deferred = _read_offer(offer, shown, bridges)
                names = [name for name in added if name in host_names] if may_rename else taken(added)
                if names:
                    raise NameTaken(names)
                bridges |= added
                shown = {name: tool for name, tool in shown.items() if name not in deferred}
            except Exception as error:
                failure = Failure(outcome.handler, error)
        if failure is not None:
            failure.log(", so the plain catalog is offered")
            return list(catalog)
        if offer.call_hint:
            hints.append(str(offer.call_hint))
    if names := taken(bridges):
        raise NameTaken(names)
    state.bridges, state.call_hint = bridges, " ".join(hints)
    return [*shown.values(), *bridges.values()]


def _read_offer(
    offer: hooks.Offer, shown: Mapping[str, Tool], bridges: Mapping[str, Tool]
) -> tuple[dict[str, Tool], set[str]]:
    """The bridges that a plugin adds, by name, and the names that it defers."""
    added: dict[str, Tool] = {}
    for tool in offer.tools:
        if not tool.name or tool.name in bridges or tool.name in added:
            raise ValueError(f"the offered tool '{tool.name}' has a name that is offered already")
        added[tool.name] = as_bridge(tool)
    deferred = {*offer.defer}
    for name in deferred:
        if name not in shown or shown[name].core:
            raise ValueError(f"'{name}' is not one of the deferrable tools")
    return added, deferred


def as_bridge(tool: Tool) -> Tool:
    """A copy of a tool that a plugin offers through `Offer`, with `bridge` set. Neither the constructor nor `Tool.copy` can:
    policies let a bridge pass where they block unknown tools."""
    marked = tool.copy()
    object.__setattr__(marked, "bridge", True)
    return marked
