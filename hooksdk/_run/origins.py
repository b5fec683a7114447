"""Where the values of a call's arguments come from, as the policies are told when they ask."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from hooksdk._origins.folding import fold_value
from hooksdk._origins.labels import TRUSTED
from hooksdk._origins.origin import Origin
from hooksdk._origins.texts import Place
from hooksdk._origins.values import Value, values_at
from hooksdk._run.state import RunState
from hooksdk.errors import check


def origins_of(state: RunState, arguments: Mapping[str, Any], path: str) -> tuple[Origin, ...]:
    """One origin for each value at the path, and for each address in a longer one."""
    check("event.origins(...)", path, str, 'the path of an argument, such as "to" or "message.to", or "**addresses"')
    runs: list[RunState] = [state, *_around(state)]
    return tuple(_origin(state, runs, value) for value in values_at(arguments, path))


def _around(state: RunState) -> list[RunState]:
    """The runs whose sub-agent's run this is, the nearest first."""
    around: list[RunState] = []
    run = state.parts.parent_run
    while run is not None:
        around.append(run)
        run = run.parts.parent_run
    return around


def _origin(state: RunState, runs: list[RunState], value: Value) -> Origin:
    """The best place of a value: what clears it, where anything does."""
    nowhere = Origin(value=value.text, path=value.path)
    folded, digest = fold_value(value.text), nowhere.digest
    if folded is None:
        return nowhere
    # Only the outermost run has a prompt of the user's: those of sub-agents are written by agents.
    quote = None if runs[-1].parts.for_others else runs[-1].parts.reading.find_prompt(folded)
    if quote is not None:
        return replace(nowhere, kind="prompt", quote=quote)
    if any(run.parts.reading.has_agreed(digest) for run in runs):
        return replace(nowhere, kind="agreed")
    places: list[tuple[RunState, Place]] = []
    for number, run in reversed(
        [*enumerate(runs, 1)]
    ):  # the outermost first: what was asked there counts for those within
        around = [one.parts.reading.asked for one in runs[number:]]
        places[:0] = [(run, place) for place in run.parts.reading.find(folded, around)]
    if not places:
        return nowhere
    run, place = min(places, key=lambda pair: pair[1].label != TRUSTED)
    handle = place.handle if run is state else ""
    return replace(nowhere, kind="result", handle=handle, tool=place.tool, label=place.label, quote=place.quote)
