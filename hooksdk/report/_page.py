"""The page: one file of HTML that loads nothing, sends nothing, and can be read without its script."""

from __future__ import annotations

import base64
import functools
import hashlib
import importlib.metadata
from collections.abc import Sequence
from pathlib import Path

from hooksdk.costs import usage_of
from hooksdk.report import _sections as sections
from hooksdk.report._html import Child, Html, escaped, join, tag
from hooksdk.report._model import Report, Run, Session
from hooksdk.report._paid import bills, paid_section, run_cost
from hooksdk.report._timeline import timeline
from hooksdk.report._words import badge, code, counted, duration, moment, percent, section, table, tile, tiles

# By this a page of ours is told from other files.
_MARK = '<meta name="generator" content="hooksdk report">'


@functools.cache
def _own_file(name: str) -> str:
    return Path(__file__).with_name(name).read_text(encoding="utf-8").strip()


def render(report: Report) -> str:
    """The whole page as text."""
    style, script = _own_file("style.css"), _own_file("script.js")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
    body = join(_header(report), *_parts(report), _notes(report), _footer())
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f'<meta name="color-scheme" content="light dark">\n<meta name="referrer" content="no-referrer">\n{_MARK}\n'
        f"<title>{escaped(report.title)} · hooksdk report</title>\n<style>\n{style}\n</style>\n</head>\n<body>\n{body}\n"
        f"<script>{script}</script>\n</body>\n</html>\n"
    )


def _header(report: Report) -> Html:
    runs = [run for run in report.runs if run.run_id]
    facts: list[Child] = [join("session ", code(one.session_id)) for one in report.sessions[:1]]
    if runs:
        models = ", ".join(dict.fromkeys(run.model for run in runs if run.model))
        facts += [join("began ", moment(runs[0].started)), f"model {models}" if models else None]
        if len(runs) == 1 and runs[0].reason:
            facts.append(badge(runs[0].reason))
    elif report.sessions and report.sessions[0].changed:
        facts.append(join("last changed ", moment(report.sessions[0].changed)))
    shown = [fact for fact in facts if fact]
    line = tag("p", *(tag("span", fact) for fact in shown), class_="facts") if shown else None
    numbers = tiles(*_run_tiles(runs)) if runs else tiles(*_session_tiles(report.sessions)) if report.sessions else None
    return tag(
        "header", tag("p", "hooksdk report", class_="kicker"), tag("h1", report.title), line, numbers, class_="top"
    )


def _run_tiles(runs: Sequence[Run]) -> list[Html | None]:
    calls, asked, granted = (sum(getattr(run, name) for run in runs) for name in ("calls", "asked", "granted"))
    fine, blocked = (sum(run.by_status.get(status, 0) for run in runs) for status in ("ok", "blocked"))
    failed = sum(run.failed for run in runs)
    usages = [usage for run in runs if (usage := usage_of(run.usage))]
    tokens_in, tokens_out = sum(usage.prompt for usage in usages), sum(usage.output for usage in usages)
    requests = sum(run.requests for run in runs)
    used = f"{tokens_in:,.0f} tokens in, {tokens_out:,.0f} out" if tokens_in or tokens_out else "no usage recorded"
    return [
        tile("Calls", f"{calls:,}", f"{fine:,} ok" + (f", {failed:,} failed" if failed else "")),
        tile("Blocked", f"{blocked:,}", "by a policy or a person" if blocked else "no call", "bad" if blocked else ""),
        tile("Asked", f"{asked:,}", f"{granted:,} granted" if asked else "nobody", "warn" if asked else ""),
        _saved_tile(runs),
        tile("Requests", f"{requests:,}", used),
        tile("Time", duration(sum(run.seconds for run in runs)), counted(len(runs), "run") if len(runs) > 1 else None),
    ]


def _saved_tile(runs: Sequence[Run]) -> Html:
    newest = next((run for run in reversed(runs) if run.catalogs), None)
    search = newest.tokens_not_sent if newest else 0
    trimmed = sum(run.tokens_trimmed for run in runs)
    words = [f"{search:,} by search ({percent(search, newest.catalogs[-1].tokens)})"] if newest and search else []
    words += [f"{trimmed:,} by trims"] if trimmed else []
    note = "of each request: " + ", ".join(words) if words else "by search or trims"
    return tile("Tokens saved", f"{search + trimmed:,}", note, "good" if words else "")


def _session_tiles(sessions: Sequence[Session]) -> list[Html | None]:
    count, requests, results, trimmed, stored, seen = (
        sum(getattr(one, name) for one in sessions)
        for name in ("count", "requests", "results", "trimmed", "tokens", "tokens_seen")
    )
    is_less = seen < stored
    note = f"tokens, {percent(stored - seen, stored)} less" if is_less else "tokens"
    return [
        tile("Messages", f"{count:,}", f"{requests:,} replies"),
        tile("Results", f"{results:,}", f"{trimmed:,} trimmed"),
        tile("Stored", f"{stored:,}", "tokens"),
        tile("The model sees", f"{seen:,}", note, "good" if is_less else ""),
        tile("Searches", f"{sum(len(one.searches) for one in sessions):,}", "for tools"),
    ]


def _notes(report: Report) -> Html | None:
    if not report.missing and not report.sources:
        return None
    made = tag("p", "Made from ", "; ".join(report.sources), ".") if report.sources else None
    gaps = tag("ul", *(tag("li", sentence) for sentence in report.missing)) if report.missing else None
    return tag(
        "aside", made, tag("p", tag("b", "What this page does not know")) if gaps else None, gaps, class_="notes"
    )


def _parts(report: Report) -> list[Html | None]:
    several = len(report.runs) > 1
    parts: list[Html | None] = [_contents(report) if several else None]
    known = {session.session_id for session in report.sessions}
    parts += [_run(run, several=several, with_messages=run.session_id in known) for run in report.runs]
    parts.append(sections.policy(report.policy))
    for session in report.sessions:
        told = sum(len(run.trims) for run in report.runs if run.session_id == session.session_id)
        parts.append(_session(session, with_trims=len(session.trims) > told))
    return parts


def _contents(report: Report) -> Html:
    rows = [
        (
            tag("a", _run_name(run), href=f"#run{run.number}"),
            code(run.session_id),
            moment(run.started),
            badge(run.reason) if run.reason else "no end",
            f"{run.calls:,}",
            f"{run.by_status.get('blocked', 0):,}",
            f"{run.asked:,}",
            duration(run.seconds),
        )
        for run in report.runs
    ]
    note = None
    if report.runs_left_out:
        note = f"The newest {len(report.runs):,} are here; {report.runs_left_out:,} earlier ones are left out: --run ID shows one."
    headings = ("Run", "Session", "Began", "End", "Calls", "Blocked", "Asked", "Time")
    return section(2, "Runs", table(headings, rows, numbers="efgh"), note=note)


def _run_name(run: Run) -> str:
    return f"Run {run.number}" if run.run_id else "Outside of runs"


def _run(run: Run, *, several: bool, with_messages: bool) -> Html:
    words = [
        run.run_id,
        f"session {run.session_id}",
        f"agent {run.agent_id}" if run.agent_id not in {"", "main"} else "",
    ]
    words += [f"begun by {run.trigger}" if run.trigger else "", f"sub-agent of {run.parent}" if run.parent else ""]
    words += [f"{run.attempts} attempts" if run.attempts > 1 else ""]
    searched = None
    if run.searches and not with_messages:
        found = counted(run.searches, "search").replace("searchs", "searches")
        searched = section(
            3,
            "Searches for tools",
            note=f"{found} for tools: the queries and hits are in the messages, which were not given.",
        )
    return section(
        2,
        join(_run_name(run), " ", badge(run.reason) if run.reason else None),
        tiles(*_run_tiles([run])) if several else None,
        timeline(run),
        sections.decisions(run, with_messages=with_messages),
        sections.catalogs(run),
        searched,
        sections.trims(run.trims),
        run_cost(run),
        id_=f"run{run.number}",
        note=" · ".join(filter(None, words)),
    )


def _session(session: Session, *, with_trims: bool) -> Html:
    note = f"{session.format or 'no format yet'} · {counted(session.count, 'message')} · {counted(session.results, 'tool result')}"
    return section(
        2,
        join("Session ", code(session.session_id)),
        sections.searches(session),
        sections.trims(session.trims) if with_trims else None,
        paid_section("What was paid", session.paid, session.cache),
        paid_section("With its sub-agents", session.with_subagents),
        bills(session),
        sections.transcript(session),
        note=note,
    )


def _footer() -> Html:
    version = importlib.metadata.version("hooksdk")
    words = (
        f"Made by hooksdk {version}. Tokens are estimates, four characters each; times are of the clock of the host."
    )
    return tag("footer", tag("p", words, class_="quiet"))


def is_page(text: str) -> bool:
    """True for a text that begins as a page of `render`: one that may be written over."""
    return _MARK in text[:4_000]
