"""Adding to the calls of a trace what the messages have of them: arguments, results, and reasons of refusals."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from hooksdk.report._model import Run, Session, Step
from hooksdk.report._texts import Room, arguments_text, as_text
from hooksdk.transcript import Ledger, ResultRow

# Seconds by which the journal's time of a result may lie outside of the time of its call.
SLACK = 1.0


def join(runs: Sequence[Run], ledger: Ledger, journal: Sequence[Mapping[str, Any]], room: Room) -> None:
    """Give the steps of a session's runs the arguments and results that its messages have. A call whose result cannot
    be told from others with the same id gets none."""
    steps: dict[str, list[tuple[float, Step]]] = defaultdict(list)
    for run in runs:
        for step in run.steps:
            if step.kind == "call" and step.origin in {"model", "bridge"}:
                steps[step.call_id].append((run.started + step.at, step))
    times = _times(ledger, journal)
    for call_id, made in steps.items():
        records = ledger.records.by_id(call_id)
        if len(records) == len(made):
            pairs = [(step, record) for (_, step), record in zip(made, records, strict=True)]
        else:
            pairs = [(step, record) for start, step in made if (record := _during(start, step, records, times))]
        for step, record in pairs:
            _fill(step, record, ledger, room)


def explain_trims(runs: Sequence[Run], session: Session) -> None:
    """Give the trims of a session's runs the reasons that its journal has."""
    reasons = {(trim.handle, trim.kind): trim.reason for trim in session.trims}
    for trim in (trim for run in runs for trim in run.trims):
        trim.reason = reasons.get((trim.handle, trim.kind), "")


def _times(ledger: Ledger, journal: Sequence[Mapping[str, Any]]) -> dict[int, float]:
    """The times of results, by number, as far as the journal has them."""
    times: dict[int, float] = {}
    staged: dict[str, list[float]] = defaultdict(list)
    for entry in journal:
        if entry.get("kind") == "answered" and (records := _results_at(ledger, int(entry.get("m", -1)))):
            times[records[0].number] = float(entry.get("time", 0))
        elif entry.get("kind") == "staged":
            staged[as_text(entry["call"][0])].append(float(entry.get("time", 0)))
    for call_id, moments in staged.items():
        records = ledger.records.by_id(call_id)
        if len(records) == len(moments):
            times.update({record.number: moment for record, moment in zip(records, moments, strict=True)})
    return times


def _results_at(ledger: Ledger, position: int) -> list[ResultRow]:
    return ledger.records.at(position) if 0 <= position < ledger.count else []


def _during(start: float, step: Step, records: Sequence[ResultRow], times: Mapping[int, float]) -> ResultRow | None:
    end = start + (step.seconds or 0) + SLACK
    found = [record for record in records if start - SLACK <= times.get(record.number, 0) <= end]
    return found[0] if len(found) == 1 else None


def _fill(step: Step, record: ResultRow, ledger: Ledger, room: Room) -> None:
    step.message = record.position
    step.result = room.text(ledger.body(record).text, chars=600, lines=8)
    if record.call is not None:
        step.arguments = room.text(arguments_text(ledger.call_at(record.call).arguments), chars=600, lines=12)
