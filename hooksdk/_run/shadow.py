"""What a policy in shadow mode gets instead of what it could change."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

from hooksdk._firing.shadow import runs_without_effect
from hooksdk._run.masked import MaskedResults
from hooksdk.calls import TrimReceipt


class RunResults(MaskedResults):
    """The results of a run. A handler in shadow mode gets the receipt of its trim, and nothing is queued."""

    async def _queue(
        self, kind: Literal["trim", "restore"], plan: Callable[[Any], Any], reason: str = ""
    ) -> TrimReceipt:
        if not runs_without_effect():
            return await super()._queue(kind, plan, reason)
        return await self._may_use().queue(lambda ledger: (plan(ledger)[0], None), self._owner, reason)
