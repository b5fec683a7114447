"""A report of a trace, of stored sessions, or of both: the runs with what the messages have of their calls, and what
the rules say of their tools."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from hooksdk.costs import PriceList
from hooksdk.errors import HookSDKError
from hooksdk.formats import get_format
from hooksdk.patterns import SOURCES
from hooksdk.report._model import CatalogTool, PolicyLine, Report, Run, Session, Step
from hooksdk.report._stored import StoredSession, read_stored
from hooksdk.report._texts import Room, arguments_text, as_text
from hooksdk.report._trace import read_runs
from hooksdk.rules import Rules
from hooksdk.rules.verdicts import case_words, hint_words, riskiest_first, verdict_of
from hooksdk.stores import summarize
from hooksdk.tools import Annotations, Tool
from hooksdk.transcript import Ledger, ResultRow, SessionBeginning
from hooksdk.values import clip, is_object

RUNS_SHOWN = 40
STEPS_SHOWN = 12_000
TITLE_CHARS = 140
# Seconds by which the journal's time of a result may lie outside of the time of its call.
SLACK = 1.0


class NoTrace(HookSDKError, ValueError):
    """A file is no trace; the text says what it holds instead."""


def read_trace(path: Path) -> tuple[list[dict[str, Any]], int]:
    """The records in a file of `trace_file`, and how many other lines it has. Raises `NoTrace` if no line is a record,
    and `OSError`."""
    records: list[dict[str, Any]] = []
    others = 0
    with path.open(encoding="utf-8", errors="replace") as file:
        for line in file:
            if not line.strip():
                continue
            try:
                record: object = json.loads(line)
            except (ValueError, RecursionError):
                record = None
            if is_object(record) and "kind" in record and "time" in record:
                records.append(record)
            else:
                others += 1
    if not records:
        what = f"none of its {others:,} lines is a record with `kind` and `time`" if others else "it is empty"
        raise NoTrace(f"{path} is no trace: {what}")
    return records, others


def build(
    trace: Iterable[Mapping[str, Any]] | None = None,
    sessions: Sequence[StoredSession] = (),
    *,
    title: str = "",
    sources: Sequence[str] = (),
    run_id: str | None = None,
    prices: PriceList | None = None,
    policies: Mapping[str, Rules] | None = None,
) -> Report:
    """The content of a page. `trace` are the records of [trace_file](trace_file.md), as `json.loads` reads its lines;
    with `run_id` only that run is shown. `sources` are sentences about where the records are from. `prices` tell what
    was paid, by default those of the package `genai-prices`, if it is installed. With `policies`, the rules of plugins
    by id, the page tells what they decide for each tool of the runs. Raises what `StoredSession.ledger` raises."""
    prices = PriceList() if prices is None else prices
    runs = [] if trace is None else read_runs(trace, prices)
    if run_id is not None:
        runs = [run for run in runs if run.run_id == run_id]
    shown = runs[-RUNS_SHOWN:]
    room = Room()
    read: list[Session] = []
    for stored in sessions:
        session, ledger = read_stored(stored, room, prices)
        read.append(session)
        own = [run for run in shown if run.session_id == stored.session_id]
        join(own, ledger, stored.journal, room)
        explain_trims(own, session)
    names = list(dict.fromkeys([*(one.session_id for one in read), *(run.session_id for run in shown)]))
    asked = next((text for text in map(_asked, sessions) if text), "")
    return Report(
        title=title or asked or (", ".join(names[:3]) + (" …" if len(names) > 3 else "")) or "nothing",
        sources=list(sources),
        missing=_missing(shown, read, with_trace=trace is not None),
        runs=_shortened(shown),
        runs_left_out=len(runs) - len(shown),
        sessions=read,
        policy=policy_lines(shown, policies or {}),
    )


def _asked(stored: StoredSession) -> str:
    """The first words of the user, in one line."""
    journal = [dict(entry) for entry in stored.journal]
    if not any(entry.get("kind") == "format" for entry in journal):
        journal.append({"kind": "format", "name": get_format(stored.format or "openai-chat").name})
    beginning = SessionBeginning(session_id=stored.session_id, messages=stored.messages, journal=journal)
    return clip(" ".join(summarize(beginning).prompt.split()), TITLE_CHARS)


def _missing(runs: Sequence[Run], sessions: Sequence[Session], *, with_trace: bool) -> list[str]:
    sentences: list[str] = []
    if not with_trace:
        sentences.append(
            "No trace was given, so there are no times, no hooks, no decisions, no approvals and no catalog of tools."
        )
    elif not runs:
        sentences.append("The trace holds no run of it.")
    if not sessions:
        sentences.append(
            "No session was given, so there are no messages: no arguments, no results, no reasons of refusals, and no "
            "queries and hits of searches."
        )
    else:
        known = {session.session_id for session in sessions}
        calls = [step for run in runs if run.session_id in known for step in run.steps if _is_own_call(step)]
        unknown = sum(step.message is None for step in calls)
        if unknown:
            sentences.append(
                f"Of {unknown:,} of {len(calls):,} calls the session does not tell the arguments and the result: they are "
                "not recorded there, or cannot be told from others with the same id."
            )
        others = {run.session_id for run in runs} - known
        if others:
            sentences.append(f"The messages of {len(others):,} other sessions in the trace were not given.")
    if any(catalog.tools is None for run in runs for catalog in run.catalogs):
        sentences.append("The trace is of an earlier version of hooksdk, and does not list the tools one by one.")
    if unfinished := sum(not run.reason for run in runs if run.run_id):
        sentences.append(
            f"{unfinished:,} of {len(runs):,} runs have no end in the trace: they went on, or were cut off."
        )
    return sentences


def _is_own_call(step: Step) -> bool:
    return step.kind == "call" and step.origin in {"model", "bridge"} and not step.open and not step.depth


def _shortened(runs: Sequence[Run]) -> list[Run]:
    """The runs with as many steps as a page can hold. Each has a share; runs with fewer steps are whole."""
    left = STEPS_SHOWN
    kept: dict[int, Run] = {}
    for done, run in enumerate(sorted(runs, key=lambda run: len(run.steps))):
        share = left // (len(runs) - done)
        steps = run.steps if len(run.steps) <= share else _most_telling(run.steps, share)
        kept[run.number] = replace(run, steps=steps, steps_left_out=len(run.steps) - len(steps))
        left -= len(steps)
    return [kept[run.number] for run in runs]


def _most_telling(steps: Sequence[Step], count: int) -> list[Step]:
    """The first steps, the last ones, and between them steps with a decision or a failure."""
    quarter = count // 4
    telling = [number for number, step in enumerate(steps) if step.decisions or step.approvals or _went_wrong(step)]
    numbers = {*range(quarter), *range(len(steps) - quarter, len(steps)), *telling[: count // 2]}
    return [steps[number] for number in sorted(numbers)]


def _went_wrong(step: Step) -> bool:
    return step.kind == "call" and step.status not in {"ok", "answered"}


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
        records = ledger.records.with_id(call_id)
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
        records = ledger.records.with_id(call_id)
        if len(records) == len(moments):
            times.update({record.number: moment for record, moment in zip(records, moments, strict=True)})
    return times


def _results_at(ledger: Ledger, position: int) -> list[ResultRow]:
    return ledger.results_at(position) if 0 <= position < ledger.count else []


def _during(start: float, step: Step, records: Sequence[ResultRow], times: Mapping[int, float]) -> ResultRow | None:
    end = start + (step.seconds or 0) + SLACK
    found = [record for record in records if start - SLACK <= times.get(record.number, 0) <= end]
    return found[0] if len(found) == 1 else None


def _fill(step: Step, record: ResultRow, ledger: Ledger, room: Room) -> None:
    step.message = record.position
    step.result = room.text(ledger.body(record).text, chars=600, lines=8)
    if record.call is not None:
        step.arguments = room.text(arguments_text(ledger.call_at(record.call).arguments), chars=600, lines=12)


def policy_lines(runs: Sequence[Run], policies: Mapping[str, Rules]) -> list[PolicyLine]:
    """A line for each tool that a run was granted, as it says of itself in the newest of them."""
    if not policies:
        return []
    verdicts = riskiest_first(verdict_of(tool, policies) for tool in _tools(runs))
    return [
        PolicyLine(
            tool=one.tool.id, verdict=one.words, says=hint_words(one.tool.annotations), decided_by=case_words(one)
        )
        for one in verdicts
    ]


def _tools(runs: Sequence[Run]) -> Iterator[Tool]:
    listed: dict[str, CatalogTool] = {}
    for run in runs:
        for catalog in run.catalogs[-1:]:
            listed |= {tool.tool: tool for tool in catalog.tools or () if tool.place != "bridge"}
    for tool_id, tool in listed.items():
        parts = tool_id.split(":", 2)
        if len(parts) < 3 or parts[0] not in SOURCES:  # a trace that somebody else wrote
            continue
        said = {name: value for name, value in tool.annotations.items() if name in Annotations.names()}
        yield Tool(
            name=tool.name or parts[2],
            own_name=parts[2],
            source=parts[0],
            owner=parts[1],
            annotations=Annotations(**said),
        )
