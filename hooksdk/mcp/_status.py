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


def too_late(server: str, name: str, limit: float, *, started: bool) -> CallFailed:
    """For a call that was not answered in time; `started`: it was sent."""
    if not started:
        return CallFailed(f"The MCP server '{server}' could not be started within {limit:g} s. {ADVICE}")
    return CallFailed(
        f"'{name}' of the MCP server '{server}' did not answer within {limit:g} s and was cancelled. It may have taken effect in "
        "part: check before you repeat it, or ask for less at once.",
        in_doubt=True,
    )


def ended_in_call(server: str, name: str, problem: str) -> CallFailed:
    """For a call that was under way when its server ended."""
    return CallFailed(
        f"The MCP server '{server}' ended during the call of '{name}': {problem}. The call may have taken effect: check before "
        "you repeat it. The server is started again for the next call.",
        in_doubt=True,
    )


def not_running(status: ServerStatus, seconds: float) -> CallFailed:
    """For a call of a server that could not be started, and is tried again in so many seconds."""
    again = f"It is tried again in {seconds:.0f} s. " if seconds >= 1 else ""
    problem = status.problem or "it ended at once"
    return CallFailed(
        f"The MCP server '{status.name}' is not running and could not be started: {problem}. {again}{ADVICE}"
    )
