"""A person who answers by script."""

from __future__ import annotations

from typing import final

from hooksdk.approvals import Approval, ApprovalRequest


@final
class ScriptedApprover:
    """An approver that gives these answers in order, the last one for all further questions; without any it grants all.

    True grants, False refuses, a text refuses with that reason. `requests` holds what was asked.
    """

    def __init__(self, *answers: bool | str | Approval) -> None:
        self._answers = [_approval(answer) for answer in answers or (True,)]
        self.requests: list[ApprovalRequest] = []

    async def __call__(self, request: ApprovalRequest) -> Approval:
        """Answer one request."""
        self.requests.append(request)
        return self._answers[min(len(self.requests), len(self._answers)) - 1]


def _approval(answer: bool | str | Approval) -> Approval:
    if isinstance(answer, Approval):
        return answer
    return Approval(False, answer) if isinstance(answer, str) else Approval(answer)
