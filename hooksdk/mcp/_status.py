"""How a server is, in words for people, and what a model reads of a call that has no result."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from hooksdk.mcp._scope import Scope

State = Literal["starting", "up", "failed", "needs sign-in", "down", "idle", "disabled"]
"""`failed`: it could not be started; `needs sign-in`: it answers nobody who is not signed in, and `problem` says what to type;
`down`: it was up and ended, and is started again when it is needed; `idle`: it does not
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

    @property
    def failed(self) -> bool:
        """True where it could not be started, for whichever reason."""
        return self.state in {"failed", "needs sign-in"}


class CallFailed(Exception):
    """No result came; the text tells the model why and what to do. It never leaves this package."""

    def __init__(self, text: str, *, in_doubt: bool = False) -> None:
        """`in_doubt`: the call was sent, and may have taken effect."""
        super().__init__(text)
        self.in_doubt = in_doubt


class SignInNeeded(CallFailed):
    """The same, of a server that answered nothing, since a person must sign in first."""

    def __init__(self, server: str, problem: str) -> None:
        super().__init__(
            f"The MCP server '{server}' was not called: {problem}. Tell the user, and go on without its tools."
        )


def not_running(server: str, problem: str, seconds: float) -> CallFailed:
    """For a call of a server that could not be started; `seconds`: when that is tried again."""
    again = f"It is tried again in {seconds:.0f} s. " if seconds >= 1 else ""
    return CallFailed(
        f"The MCP server '{server}' is not running and could not be started: {problem or 'it ended at once'}. {again}{ADVICE}"
    )


def ended_during(server: str, name: str, problem: str) -> CallFailed:
    """For a call in which the connection ended."""
    return CallFailed(
        f"The MCP server '{server}' ended during the call of '{name}': {problem}. The call may have taken effect: check "
        "before you repeat it. The server is started again for the next call.",
        in_doubt=True,
    )


def removed(server: str) -> CallFailed:
    """For a call of a server that a newer configuration does not have."""
    return CallFailed(f"The MCP server '{server}' is not in the configuration any more. {ADVICE}")
