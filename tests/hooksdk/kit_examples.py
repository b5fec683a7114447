"""A tool and a policy for the tests of the testing kit."""

from __future__ import annotations

from hooksdk import hooks
from hooksdk.hooks import BeforeToolCall, Block


def read_file(path: str) -> str:
    """Read a file.

    Args:
        path: Where it lies.
    """
    if path == "missing":
        raise FileNotFoundError(path)
    return f"content of {path}"


class NoSecrets:
    """Blocks one path."""

    @hooks.before_tool_call(tools="read_*")
    def judge(self, event: BeforeToolCall) -> Block | None:
        return Block("that file is secret") if event.arguments["path"] == "secret" else None
