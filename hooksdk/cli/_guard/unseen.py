"""Sessions of agents that made calls which no judge has seen, by the agents' own transcripts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from hooksdk.cli._configuration import load_config
from hooksdk.cli._console import counted
from hooksdk.cli._guard.lately import RecordedCall, read_lately
from hooksdk.cli._options import Scope
from hooksdk.errors import ConfigError
from hooksdk.guard import AGENTS, GuardConfig, last_seen

DAYS = 7
"""How far back transcripts are read."""
MAX_BYTES = 100_000_000
"""Of an agent's transcripts, the newest first."""
ON_ITS_WAY = timedelta(minutes=1)
"""A call that is so new may be before the judge just now."""


@dataclass(frozen=True)
class Guarded:
    """Where the guard stands before an agent, and since when."""

    agent: str
    scope: Scope
    file: Path
    since: float
    """Seconds since 1970."""

    def counts_for(self, call: RecordedCall, began: str) -> bool:
        """True for a call that should have come before the judge, of a session that began in this folder."""
        is_here = self.scope in ("user", "managed") or Path(began) == self.file.parent.parent
        return is_here and call.when.timestamp() > self.since


@dataclass
class Unseen:
    """A session that made calls after the judge last saw it, if it ever did."""

    agent: str
    session: str
    folder: str
    """Where its last one was made; empty where the transcript does not say."""
    last: datetime
    calls: int = 0

    def __str__(self) -> str:
        where = f" in {self.folder}" if self.folder else ""
        what = f"{counted(self.calls, 'call')} of its tools that no judge has seen, the last at"
        when = f"{self.last.astimezone():%Y-%m-%d %H:%M}"
        return f"{AGENTS[self.agent].title}'s session {self.session}{where} made {what} {when}"


def unseen_sessions(installed: Sequence[Guarded], here: Path) -> tuple[list[Unseen], list[str]]:
    """The sessions, the newest first, and why a transcript could not be read. Of an agent that keeps the digest of a folder alone
    `here` is one that can be told."""
    found: dict[tuple[str, str], Unseen] = {}
    problems: list[str] = []
    now = datetime.now(UTC)
    earliest = now - timedelta(days=min(DAYS, _days_kept()))
    for agent in dict.fromkeys(place.agent for place in installed):
        own = [place for place in installed if place.agent == agent]
        since = max(earliest, datetime.fromtimestamp(min(place.since for place in own), UTC))
        folders = [here, *(place.file.parent.parent for place in own)]
        reading = read_lately(agent, since, folders, lambda _path: None, max_bytes=MAX_BYTES)
        problems += [f"{path} is not compared with what the judge has seen: {why}" for path, why in reading.problems]
        began, seen = dict[str, str](), dict[str, float]()
        for call in reading.calls:
            folder = began.setdefault(call.session, call.folder)
            if call.session not in seen:
                seen[call.session] = last_seen(agent, call.session)
            is_seen = call.when.timestamp() <= seen[call.session] + 1 or abs(call.when - now) < ON_ITS_WAY
            if not is_seen and any(place.counts_for(call, folder) for place in own):
                one = found.setdefault((agent, call.session), Unseen(agent, call.session, "", call.when))
                one.calls, one.last, one.folder = one.calls + 1, call.when, call.folder
    return sorted(found.values(), key=lambda one: one.last, reverse=True), problems


def _days_kept() -> int:
    """For how long the judge knows which sessions it has seen."""
    try:
        return GuardConfig.of(load_config()).keep
    except (ConfigError, ValueError):  # the judge refuses every call then
        return GuardConfig().keep
