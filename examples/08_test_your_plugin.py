"""A plugin's own tests. Run them with `pytest examples/08_test_your_plugin.py`, or this file as it is.

A unit test calls a handler with an `event(...)`; a test of a whole run plays a script against a real host.
"""

from __future__ import annotations

import subprocess
import sys

import pytest

from hooksdk import hooks
from hooksdk.hooks import BeforeToolCall, Block
from hooksdk.testing import Reply, Turn, call, event, open_session, play, say


class NoSecrets:
    """The plugin under test: nobody reads `.env` files."""

    @hooks.before_tool_call(tools="read_*")
    def guard(self, event: BeforeToolCall) -> Block | None:
        return Block("secrets stay here") if str(event.arguments.get("path", "")).endswith(".env") else None


def read_file(path: str) -> str:
    """Read a file."""
    return f"content of {path}"


def test_an_env_file_is_refused() -> None:
    answer = NoSecrets().guard(event(BeforeToolCall, tool="read_file", arguments={"path": "prod.env"}))
    assert answer == Block("secrets stay here")


@pytest.mark.anyio
@pytest.mark.parametrize("format_name", ["openai-chat", "anthropic"])
async def test_the_model_reads_the_reason_and_takes_another_file(format_name: str) -> None:
    def script(turn: Turn) -> Reply:
        if turn.number == 1:
            return say("", call("read_file", path=".env"))
        return say("", call("read_file", path="README")) if turn.result.is_error else say(turn.result.text)

    async with open_session(NoSecrets, tools=[read_file]) as session:
        played = await play(session, script, "Read something.", format=format_name)
    assert played.text == "content of README"
    assert [one.status for one in played.calls] == ["blocked", "ok"]


def main() -> None:
    sys.exit(subprocess.call([sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", __file__]))


if __name__ == "__main__":
    main()
