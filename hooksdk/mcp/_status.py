"""The status of a server, in words for people, and the errors of calls without a result, in words for models."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import mcp_types as types
from mcp.shared.exceptions import MCPError

from hooksdk.mcp._config import ServerSpec
from hooksdk.mcp._scope import Scope
from hooksdk.mcp._transport import first_cause, one_line

# `failed`: it could not be started; `needs sign-in`: it only serves people who are signed in, and `problem` says what
# to type; `down`: it was up and ended, and is started again when it is needed; `idle`: it does not run, and the first
# call of one of its tools starts it.
State = Literal["starting", "up", "failed", "needs sign-in", "down", "idle", "disabled"]

ADVICE = "Go on without its tools, or tell the user."


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerStatus:
    """The status of one server.

    Attributes:
        problem: The reason why it is not up, in one line, with the end of its stderr. While it starts, the reason for a
            sign-in that was needed before.
        tools: The number of its tools.
        seconds: The duration of its last start.
        version: Its version, as the server says.
        scope: The clients that share a process of it: those of a session, of a token, or all.
        holder: The token of a process that a single token or session has, or `local`.
    """

    name: str
    state: State
    problem: str = ""
    tools: int = 0
    seconds: float = 0.0
    version: str = ""
    scope: Scope = "gateway"
    holder: str = ""

    @property
    def failed(self) -> bool:
        """True where it could not be started, for whichever reason."""
        return self.state in {"failed", "needs sign-in"}

    @property
    def signed_out(self) -> bool:
        """True where a person must sign in, also while a start checks whether that is still so."""
        return self.state == "needs sign-in" or (self.state == "starting" and bool(self.problem))


def starting(before: ServerStatus, tools: int) -> ServerStatus:
    """The status of a server that is being started."""
    problem = before.problem if before.signed_out else ""
    return ServerStatus(name=before.name, state="starting", problem=problem, tools=tools)


class CallFailed(Exception):
    """Raised for a call without a result; the text tells the model why, and what to do. It never leaves this
    package."""

    def __init__(self, text: str, *, in_doubt: bool = False, error: types.ErrorData | None = None) -> None:
        """`in_doubt`: the call was sent, and may have taken effect. `error` is the server's own error."""
        super().__init__(text)
        self.in_doubt = in_doubt
        self.error = error


def with_stderr(problem: str, stderr: str) -> str:
    """A problem, with the last lines that the server wrote."""
    return f"{problem}; it wrote: {stderr}" if stderr else problem


def describe(spec: ServerSpec, error: Exception) -> str:
    """The first cause of an error in one line."""
    cause = first_cause(error)
    text = one_line(spec.redact(cause.message if isinstance(cause, MCPError) else str(cause)))
    if isinstance(cause, MCPError):
        return "exited during its start" if cause.code == types.CONNECTION_CLOSED else text
    text = text if isinstance(cause, FileNotFoundError) else f"{type(cause).__name__}: {text}"
    return f"{spec.place} cannot be reached: {text}" if spec.url else text


class SignInNeeded(CallFailed):
    """Raised for a call of a server to which a person must sign in first."""

    def __init__(self, server: str, problem: str) -> None:
        super().__init__(
            f"The MCP server '{server}' was not called: {problem}. Tell the user, and go on without its tools."
        )


def unavailable(spec: ServerSpec, status: ServerStatus, seconds: float, *, is_open: bool) -> CallFailed:
    """The error of a call of a server that could not be started; in `seconds` its start is tried again."""
    if spec.disabled:
        return CallFailed(f"The MCP server '{spec.name}' is disabled in its file. {ADVICE}")
    if not is_open:
        return CallFailed(f"The MCP servers of this host are closed. {ADVICE}")
    if status.state == "needs sign-in":
        return SignInNeeded(spec.name, status.problem)
    problem = status.problem.removeprefix(f"{spec.place} cannot be reached: ") or "it ended at once"
    return CallFailed(
        f"The MCP server '{spec.name}' cannot be reached at the moment ({problem}), and nothing was called: try again "
        f"in {max(math.ceil(seconds), 1)} s, go on without its tools, or tell the user."
    )


def ended_during(server: str, name: str, problem: str) -> CallFailed:
    """The error of a call during which the connection ended."""
    return CallFailed(
        f"The MCP server '{server}' ended during the call of '{name}': {problem}. The call may have taken effect: "
        "check before you repeat it. The server is started again for the next call.",
        in_doubt=True,
    )


def removed(server: str) -> CallFailed:
    """The error of a call of a server that a newer configuration does not have."""
    return CallFailed(f"The MCP server '{server}' is not in the configuration any more. {ADVICE}")


def too_late(server: str, name: str, limit: float, *, started: bool) -> CallFailed:
    """The error of a call that was not answered in time; `started`: it was sent."""
    if not started:
        return CallFailed(f"The MCP server '{server}' could not be started within {limit:g} s. {ADVICE}")
    return CallFailed(
        f"'{name}' of the MCP server '{server}' did not answer within {limit:g} s and was cancelled. It may have taken "
        "effect in part: check before you repeat it, or ask for less at once.",
        in_doubt=True,
    )
