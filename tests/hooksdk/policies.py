"""Policies that do what a test says, for the tests of how policies are called."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import pytest

from hooksdk import hooks
from hooksdk.hooks import BeforeToolCall, Block
from tests.stage import playing

LIMIT = 0.05
"""Seconds for a handler that will be late."""
PLENTY = 60.0
"""Seconds for one that will not."""
Body = Callable[[], Awaitable[Any]]


def policy(body: Body, timeout: float = PLENTY) -> type:
    """A policy that does this before it lets the call through."""

    class Policy:
        @hooks.before_tool_call(timeout=timeout)
        async def judge(self, event: BeforeToolCall) -> Block | None:
            return await body()

    return Policy


async def blocked_by(
    body: Body, caplog: pytest.LogCaptureFixture, timeout: float = PLENTY, config: Mapping[str, Any] | None = None
) -> str:
    """Play one call, and give the log's line about the handler that did not let it through."""
    async with playing(policy(body, timeout), config=config) as stage:
        result = await stage.call()
        assert stage.executed == []
        assert result.text == "Blocked: plugin 'policy' failed while it judged this call, so it was not run."
        assert (await stage.call("no_such_tool")).is_error, "the run goes on"
    (record,) = [record for record in caplog.records if record.levelname == "WARNING"]
    return record.getMessage()


async def late(body: Body, caplog: pytest.LogCaptureFixture) -> str:
    """The log's line about a handler that took longer than it may."""
    message = await blocked_by(body, caplog, LIMIT)
    assert "no answer within 0.05 s" in message
    return message
