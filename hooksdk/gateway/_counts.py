"""What the sessions of a gateway have done, for whoever shows it."""

from __future__ import annotations

from collections import Counter
from typing import Any, final

import anyio

from hooksdk.approvals import Approval, ApprovalRequest, Approver, Later
from hooksdk.gateway._metrics import Metrics
from hooksdk.run import Run


@final
class Counts:
    """Counters over all sessions of a gateway's life."""

    def __init__(self) -> None:
        self.client = ""
        """What the last client said that it is."""
        self.metrics = Metrics()
        self._asked = 0
        self._withheld = 0
        self._tokens_direct = 0
        self._tokens_listed = 0
        self._runs: dict[str, Run] = {}
        self._ended: Counter[str] = Counter()
        self._news = anyio.Event()

    def opened(self, run: Run, client: str) -> None:
        """A session has begun."""
        self._runs[run.info.run_id] = run
        self.client = client or self.client
        self.metrics.count_session(1)
        self.touch()

    def closed(self, run: Run) -> None:
        """A session has ended."""
        self._runs.pop(run.info.run_id, None)
        self._ended.update(run.stats["tool_calls"])
        self.metrics.count_session(-1)
        self.touch()

    def listed(self, direct: int, listed: int) -> None:
        """A client was told the tools: what their schemas cost, and what it was told of them."""
        self._tokens_direct += direct
        self._tokens_listed += listed

    def withheld(self) -> None:
        """A call was refused before it could be one of a run: of a tool that the client may not use and was not told of, or
        where a plugin lets the client do nothing."""
        self._withheld += 1

    def counted(self, approver: Approver | None) -> Approver | None:
        """The same approver, and what it is asked is counted."""
        if approver is None:
            return None

        async def ask(request: ApprovalRequest) -> Approval | Later:
            self._asked += 1
            return await approver(request)

        return ask

    def touch(self) -> None:
        """Something has changed."""
        self._news.set()

    async def news(self) -> None:
        """Wait until something has changed since this was last awaited."""
        await self._news.wait()
        self._news = anyio.Event()

    def as_dict(self) -> dict[str, Any]:
        """The counters by the names that the status file has for them."""
        calls = Counter(self._ended)
        for run in self._runs.values():
            calls.update(run.stats["tool_calls"])
        return {
            "client": self.client, "sessions": len(self._runs), "tokens_direct": self._tokens_direct,
            "tokens_listed": self._tokens_listed, "calls": calls.total(), "blocked": calls["blocked"] + self._withheld,
            "asked": self._asked, "failed": calls["error"],
        }  # fmt: skip
