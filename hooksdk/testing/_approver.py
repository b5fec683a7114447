"""A person who answers by script."""

from __future__ import annotations

from typing import final

from hooksdk.approvals import Approval, ApprovalRequest, Later


@final
class ScriptedApprover:
    """An approver that gives these answers in order, the last one for all further questions; without any it grants all.

    True grants, False refuses, a text refuses with that reason, `Later()` lets the call wait. `requests` holds what was asked.

    ```python
    import anyio

    from hooksdk import hooks
    from hooksdk.hooks import Ask, BeforeToolCall
    from hooksdk.testing import ScriptedApprover, call, open_session, play

    class AskAlways:
        @hooks.before_tool_call
        def ask(self, event: BeforeToolCall) -> Ask:
            return Ask(f"Run {event.tool.name}?")

    def now() -> str:
        "Tell the time."
        return "noon"

    async def main() -> None:
        approver = ScriptedApprover("it is late")
        async with open_session(AskAlways, tools=[now], approver=approver) as session:
            played = await play(session, [call("now"), "I may not."])
        assert played.call("now").status == "blocked"
        assert [request.title for request in approver.requests] == ["Run now?"]

    anyio.run(main)
    ```
    """

    def __init__(self, *answers: bool | str | Approval | Later) -> None:
        self._answers = [_approval(answer) for answer in answers or (True,)]
        self.requests: list[ApprovalRequest] = []

    async def __call__(self, request: ApprovalRequest) -> Approval | Later:
        """Answer one request."""
        self.requests.append(request)
        return self._answers[min(len(self.requests), len(self._answers)) - 1]


def _approval(answer: bool | str | Approval | Later) -> Approval | Later:
    if isinstance(answer, Approval | Later):
        return answer
    return Approval(False, answer) if isinstance(answer, str) else Approval(answer)
