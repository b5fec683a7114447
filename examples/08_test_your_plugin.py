"""A plugin's own tests. Run them with `pytest examples/08_test_your_plugin.py`, or this file as it is.

A unit test calls a handler with an `event(...)`; a test of a whole run plays a script against a real host. The fixture
`hook_session` comes with hooksdk.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable

import pytest

from hooksdk import hooks
from hooksdk.hooks import BeforeToolCall, Block
from hooksdk.testing import HookSession, Reply, Turn, assert_blocked, assert_ran, call, event, say


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


@pytest.mark.parametrize("form", ["openai-chat", "anthropic"])
def test_the_model_reads_the_reason_and_takes_another_file(hook_session: Callable[..., HookSession], form: str) -> None:
    def script(turn: Turn) -> Reply:
        if turn.number == 1:
            return say("", call("read_file", path=".env"))
        return say("", call("read_file", path="README")) if turn.result.is_error else say(turn.result.text)

    played = hook_session(NoSecrets, tools=[read_file]).play(script, "Read something.", format=form)
    assert played.text == "content of README"
    assert_blocked(played.calls[0], by="no_secrets", reason="secrets stay here")
    assert_ran(played.calls[1])


def main() -> None:
    # Without the settings of the project that this file lies in, which want more plugins of pytest.
    command = ["-m", "pytest", "-q", "-c", os.devnull, "-p", "no:cacheprovider", __file__]
    sys.exit(subprocess.call([sys.executable, *command]))


if __name__ == "__main__":
    main()
