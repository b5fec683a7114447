"""What a person at a framework is asked, and what the answer means."""

from __future__ import annotations

from typing import Any

from hooksdk.approvals import Approval, ApprovalRequest
from hooksdk.desk.console import MAX_CHARS, MAX_EVIDENCE, clip_visibly, visible

NO_ANSWER = Approval(False, "the answer was neither an approval nor a refusal", unanswered="not_an_answer")


def read_decision(answer: Any) -> Approval:
    """What a person decided, as LangChain's `HumanInTheLoopMiddleware` has it: anything but an approval is a no."""
    try:
        (decision,) = answer["decisions"]
        kind, message = decision["type"], decision.get("message")
    except (AttributeError, KeyError, TypeError, ValueError):
        kind, message = "", ""
    if kind in {"approve", "reject"}:
        return Approval(True) if kind == "approve" else Approval(False, str(message or ""))
    return NO_ANSWER


def description_of(request: ApprovalRequest) -> str:
    """What a person reads beside the title: why it is asked, and a line for each value that is strange, without what others wrote
    to steer a terminal."""
    strange = [one for one in request.evidence if not one.cleared][:MAX_EVIDENCE]
    lines = [visible(clip_visibly(str(request.mask(str(one))), MAX_CHARS)) for one in strange]
    return "\n".join(filter(None, (request.description, *lines)))
