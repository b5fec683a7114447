"""A chain of the plugin `audit`, compared call by call with the session that is replayed."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hooksdk.approvals import digest_of
from hooksdk.audit import ChainRecord, parse_line, written_lines
from hooksdk.cli._audit.chains import records_of, typed_sources
from hooksdk.cli._console import CommandProblem, counted, printable
from hooksdk.testing import CallVerdict


@dataclass(frozen=True)
class ChainCall:
    """The records of one call in the chain.

    Attributes:
        status: How it ended, or `begun` where no end is recorded.
        arguments: The digest of those that ran.
    """

    status: str
    approved_by: str | None
    arguments: str

    @property
    def words(self) -> str:
        """For the table."""
        return self.status if self.approved_by is None else f"{self.status}, yes by {self.approved_by or 'somebody'}"


@dataclass(frozen=True)
class ChainSession:
    """One session of a chain.

    Attributes:
        calls: By call id, in the order of their ends: a model may use an id again.
    """

    session_id: str
    calls: Mapping[str, Sequence[ChainCall]]


def is_chain(path: Path) -> bool:
    """True for a file whose first line is a record of a chain. Raises `OSError`."""
    first, _ = next(iter(written_lines(path)), (b"", True))
    return parse_line(first) is not None


def session_of_chain(path: Path, session_id: str | None) -> ChainSession:
    """The named session of a chain, or its only one with calls. Raises `CommandProblem`."""
    by_session: dict[str, list[ChainRecord]] = defaultdict(list)
    for record in records_of(typed_sources([str(path)])):
        if record.kind in {"call_let_through", "call_finished"} and not record.fields.get("parent_id"):
            by_session[str(record.fields.get("session_id", ""))].append(record)
    if session_id is None and len(by_session) != 1:
        names = ", ".join(map(printable, list(by_session)[:5])) or "none"
        raise CommandProblem(
            f"{printable(str(path))} tells of calls of {counted(len(by_session), 'session')} ({names}): name one with --session"
        )
    chosen = session_id if session_id is not None else next(iter(by_session))
    if chosen not in by_session:
        raise CommandProblem(f"{printable(str(path))} tells of no call of session '{printable(chosen)}'")
    return ChainSession(chosen, _calls(by_session[chosen]))


def _calls(records: Iterable[ChainRecord]) -> dict[str, list[ChainCall]]:
    begun: dict[str, Mapping[str, Any]] = {}
    calls: dict[str, list[ChainCall]] = defaultdict(list)
    for record in records:
        call_id = str(record.fields.get("call_id"))
        if record.kind == "call_let_through":
            begun[call_id] = record.fields
        else:
            calls[call_id].append(_call(record.fields, begun.pop(call_id, {})))
    for call_id, fields in begun.items():
        calls[call_id].append(_call({"status": "begun"}, fields))
    return calls


def _call(end: Mapping[str, Any], begin: Mapping[str, Any]) -> ChainCall:
    digest = begin.get("arguments_sha256") or end.get("arguments_sha256") or ""
    by = begin.get("approved_by")
    return ChainCall(str(end.get("status")), None if by is None else str(by), str(digest))


@dataclass(frozen=True)
class Comparison:
    """The chain beside the session.

    Attributes:
        calls: The chain's call for each verdict; None where the chain has none.
        problems: Where the two do not tell the same.
    """

    calls: Sequence[ChainCall | None]
    problems: Sequence[str]


def compare(verdicts: Sequence[CallVerdict], session: ChainSession) -> Comparison:
    """Compare the calls of the chain with those of the session."""
    rest = {call_id: deque(calls) for call_id, calls in session.calls.items()}
    beside: list[ChainCall | None] = []
    problems: list[str] = []
    for verdict in verdicts:
        row = rest.get(verdict.call_id)
        call = row.popleft() if row else None
        beside.append(call)
        name = f"call {verdict.number} ({verdict.tool})"
        if call is None:
            problems.append(f"{name} is in the session, and the chain does not tell of it")
        elif call.arguments and call.arguments not in {
            digest_of(dict(one)) for one in (verdict.arguments, verdict.becomes or {})
        }:
            problems.append(
                f"{name}: the session has other arguments than those that ran. A plugin rewrote them, or the session was changed"
            )
    problems += [
        f"call '{call_id}' is in the chain, and not in the session" for call_id, row in rest.items() for _ in row
    ]
    return Comparison(beside, problems)
