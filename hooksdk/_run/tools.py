"""What the model may use, and what it is shown of it."""

from __future__ import annotations

from collections.abc import Sequence

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


def as_bridge(tool: Tool) -> Tool:
    """A copy of a tool that a plugin offers through `Offer`, with `bridge` set. Neither the constructor nor `Tool.copy` can:
    policies let a bridge pass where they block unknown tools."""
    marked = tool.copy()
    object.__setattr__(marked, "bridge", True)
    return marked


async def settle_catalog(state: RunState, tools: Sequence[Tool], earlier: set[str]) -> tuple[Catalog, list[Tool]]:
    """The catalog of this attempt, and what to offer. A tool that has the name of a bridge is renamed, as two owners'
    tools of one name are: the policies are asked anew then, about the names that the model will see."""
    for _ in range(2):
        catalog = build_catalog(tools, earlier, state.bridge_names)
        refused = {tool.name: "not granted to this session" for tool in catalog if not state.parts.allows(tool)}
        catalog = await narrow_tools(state, catalog.without(refused))
        try:
            return catalog, await assemble_tools(state, catalog)
        except NameTaken as error:
            state.bridge_names.update(error.names)
    return catalog, list(catalog)  # pyright: ignore[reportPossiblyUnboundVariable]


async def narrow_tools(state: RunState, catalog: Catalog) -> Catalog:
    """Each handler sees what the ones before it left; one that fails ends the run."""

    def event() -> hooks.NarrowTools:
        return hooks.NarrowTools(info=state.info, tools=tuple(catalog))

    async for outcome in state.hooks.fire("narrow_tools", event):
        handler, failure = outcome.handler, outcome.failure
        names: list[str] = []
        if failure is None:
            try:
                names = _names_in(outcome.answer)
            except TypeError as error:
                failure = Failure(handler, error)
        if failure is not None:
            raise PolicyFailed("narrow_tools", handler.who, str(failure))
        reason: str = outcome.answer.reason
        catalog = catalog.without(dict.fromkeys(names, reason))
        await state.trace(Withheld(plugin=handler.plugin, names=tuple(names), reason=reason))
    return catalog


def _names_in(answer: hooks.Withhold) -> list[str]:
    names: list[object] = [answer.names] if isinstance(answer.names, str) else list(answer.names)
    if wrong := [type(name).__name__ for name in names if not isinstance(name, str)]:
        raise TypeError(f"Withhold(names=...) must hold names or ids, not {wrong[0]}")
    return [str(name) for name in names]


async def assemble_tools(state: RunState, catalog: Catalog) -> list[Tool]:
    """What to offer. Raises `NameTaken`; when a handler fails in another way, the plain catalog is offered."""
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

    async for outcome in state.hooks.fire("assemble_tools", event):
        failure, offer = outcome.failure, outcome.answer
        if failure is None:
            try:
                _check_offer(offer, shown, bridges)
            except Exception as error:
                failure = Failure(outcome.handler, error)
        if failure is not None:
            failure.log(", so the plain catalog is offered")
            return list(catalog)
        bridges.update((tool.name, _as_bridge(tool)) for tool in offer.tools)
        if taken := [name for name in bridges if name in catalog or name in catalog.withheld]:
            raise NameTaken(taken)
        for name in offer.defer:
            del shown[name]
        if offer.call_hint:
            hints.append(str(offer.call_hint))
    state.bridges, state.call_hint = bridges, " ".join(hints)
    return [*shown.values(), *bridges.values()]


def _as_bridge(tool: Tool) -> Tool:
    """Marked here and nowhere else, so that no tool can call itself a bridge."""
    bridge = tool.copy()
    object.__setattr__(bridge, "bridge", True)
    return bridge


def _check_offer(offer: hooks.Offer, shown: dict[str, Tool], bridges: dict[str, Tool]) -> None:
    names = [tool.name for tool in offer.tools]
    for name in names:
        if not name or name in bridges or names.count(name) > 1:
            raise ValueError(f"the offered tool '{name}' has a name that is offered already")
    for name in offer.defer:
        if name not in shown or shown[name].core:
            raise ValueError(f"'{name}' is not one of the deferrable tools")
