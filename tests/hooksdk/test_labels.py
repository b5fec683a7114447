"""What the text of a result is worth, from the result to the call that it is judged in."""

from __future__ import annotations

from typing import Any

import pytest

from hooksdk import hooks
from hooksdk.calls import ToolResult
from hooksdk.hooks import BeforeToolCall
from tests.stage import make, playing

pytestmark = pytest.mark.anyio


class Watch:
    """Notes the labels of all that was read before each call."""

    def __init__(self) -> None:
        self.seen: list[list[str]] = []

    @hooks.before_tool_call
    def note(self, event: BeforeToolCall) -> None:
        self.seen.append(sorted(event.labels))


async def test_a_later_call_is_judged_with_the_label_of_what_was_read() -> None:
    async def page(arguments: dict[str, Any]) -> ToolResult:
        return ToolResult("news", labels="secret")

    tools = [make("contacts", labels=["trusted"]), make("read"), make("page", page)]
    async with playing(Watch, tools=tools) as stage:
        for name in ("contacts", "contacts", "page", "read"):
            await stage.call(name)
        assert [sorted(info.labels) for info in stage.session.results.list()] == [
            ["trusted"], ["trusted"], ["secret", "untrusted"], ["untrusted"],
        ]  # fmt: skip
        watch: Watch = stage.session.plugin("watch")
    assert watch.seen == [[], ["trusted"], ["trusted"], ["secret", "untrusted"]]
