"""Approvals: what a person is asked before a call, and what they answered."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from hooksdk._firing.calling import plain_answer
from hooksdk._schema.values import Fresh
from hooksdk._tasks.background import logger
from hooksdk._tasks.limits import Attempt, describe, is_uncatchable
from hooksdk.tools import Tool, ToolCall

__all__ = ["Approval", "ApprovalRequest", "Approver", "ask_approver"]

MAX_TIMEOUT = 600.0
"""Seconds that a person may be asked for at most."""


@dataclass(frozen=True, kw_only=True)
class ApprovalRequest:
    """One question to a person about one tool call with its final arguments.

    ```python
    from hooksdk import ApprovalRequest, Tool, ToolCall

    request = ApprovalRequest(
        title="Pay the bill?", call=ToolCall("c1", "pay"), tool=Tool(name="pay", source="host"), arguments={"amount": 20}
    )
    assert f"{request.title} {request.arguments}" == "Pay the bill? {'amount': 20}"
    ```
    """

    title: str
    description: str = ""
    severity: Literal["info", "warning", "critical"] = "warning"
    timeout: float = 120.0
    """Seconds until no answer counts as no."""
    plugin: str = ""
    """The plugin that asks."""
    session_id: str = ""
    run_id: str = ""
    agent_id: str = "main"
    requester: Fresh[Mapping[str, Any] | None] = Fresh(None)
    trigger: str = "user"
    call: ToolCall
    tool: Tool = field(repr=False)
    arguments: Fresh[dict[str, Any]] = Fresh()
    """A fresh copy of what will run."""


@dataclass(frozen=True)
class Approval:
    """The answer. `reason` reaches the model when the call is refused.

    ```python
    from hooksdk import Approval, ApprovalRequest

    async def approver(request: ApprovalRequest) -> Approval:
        return Approval(False, reason="nobody is at the desk before nine")
    ```
    """

    granted: bool
    reason: str = ""


Approver = Callable[[ApprovalRequest], Awaitable[Approval]]
"""How the host asks a person: `async def (request) -> Approval`."""


async def ask_approver(approver: Approver | None, request: ApprovalRequest) -> Approval:
    """Ask, within the request's time limit. Nobody to ask, no answer in time, an answer of the wrong type and an
    approver that raises all mean no."""
    if approver is None:
        return Approval(False, "it needs a person's approval, and nobody can be asked here")
    answer: object = None
    seconds = min(request.timeout, MAX_TIMEOUT) if request.timeout > 0 else 0.0  # NaN is no time at all
    async with Attempt(seconds) as attempt:
        answer = await approver(request)
    if attempt.late:
        return Approval(False, f"nobody approved it within {seconds:g} s")
    if attempt.error is not None:
        logger.warning("the approver failed, so the call is refused: %s", describe(attempt.error))
        return Approval(False, "the approval could not be asked for")
    try:
        approval = plain_answer(Approval, answer) if isinstance(answer, Approval) else None
        if approval is not None and isinstance(approval.granted, bool) and isinstance(approval.reason, str):
            return approval
        problem = type(answer).__name__
    except BaseException as error:  # of a subclass, whose fields may be missing or raise
        if is_uncatchable(error):
            raise
        problem = describe(error)
    logger.warning("the approver answered %s instead of an Approval, so the call is refused", problem)
    return Approval(False, "the approval could not be asked for")
