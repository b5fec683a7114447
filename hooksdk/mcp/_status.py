"""How a server is, in words for people, and what a model reads of a call that has no result."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import mcp_types as types
from mcp.shared.exceptions import MCPError

from hooksdk.mcp._config import ServerSpec
from hooksdk.mcp._scope import Scope
from hooksdk.mcp._transport import first_cause, one_line

State = Literal["starting", "up", "failed", "down", "idle", "disabled"]
"""`failed`: it could not be started; `down`: it was up and ended, and is started again when it is needed; `idle`: it does not
run, and the first call of one of its tools starts it."""

ADVICE = "Go on without its tools, or tell the user."


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerStatus:
    """How one server is."""

    name: str
    state: State
    problem: str = ""
    """Why it is not up, in one line, with the end of what it wrote to stderr."""
    tools: int = 0
    """How many tools it offers."""
    seconds: float = 0.0
    """How long its last start took."""
    version: str = ""
    """The version that the server gives itself."""
    scope: Scope = "gateway"
    """Whose process it is: each session's, each token's, or one for all."""
    holder: str = ""
    """Of a process of a single token or session, whose it is: the token's name, or `local`."""


class CallFailed(Exception):
    """No result came; the text tells the model why and what to do. It never leaves this package."""

    def __init__(self, text: str, *, in_doubt: bool = False, error: types.ErrorData | None = None) -> None:
        """`in_doubt`: the call was sent, and may have taken effect; `error`: what the server answered."""
        super().__init__(text)
        self.in_doubt = in_doubt
        self.error = error


def with_stderr(problem: str, stderr: str) -> str:
    """What went wrong, with what the server wrote last."""
    return f"{problem}; it wrote: {stderr}" if stderr else problem


def describe(spec: ServerSpec, error: Exception) -> str:
    """The first cause of an error in one line."""
    cause = first_cause(error)
    text = one_line(spec.redact(cause.message if isinstance(cause, MCPError) else str(cause)))
    if isinstance(cause, MCPError):
        return "exited during its start" if cause.code == types.CONNECTION_CLOSED else text
    text = text if isinstance(cause, FileNotFoundError) else f"{type(cause).__name__}: {text}"
    return f"{spec.place} cannot be reached: {text}" if spec.url else text


def removed(server: str) -> CallFailed:
    """For a call of a server that a newer configuration does not have."""
    return CallFailed(f"The MCP server '{server}' is not in the configuration any more. {ADVICE}")
