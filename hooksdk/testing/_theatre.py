"""A recorded session on a stage: its calls are judged one after another, and none is executed."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from hooksdk import hooks
from hooksdk.approvals import Approval, ApprovalRequest
from hooksdk.calls import ToolCall, ToolResult
from hooksdk.errors import PolicyFailed, RunBlocked
from hooksdk.formats import FoundResult, MessageFormat
from hooksdk.records import CallStarted, HookFired, Record, Withheld
from hooksdk.run import JudgedCall, Run
from hooksdk.session import Session
from hooksdk.testing._exchanges import Asked, Exchange, is_refusal, real_call
from hooksdk.testing._verdicts import CallOutcome, CallVerdict, Recorded
from hooksdk.tools import Tool

_VERDICT = re.compile(r"Blocked by (?P<plugin>[^:\n]+): (?P<reason>.*)", re.DOTALL)
_STATUS: Mapping[str | None, CallOutcome] = {
    None: "allow",
    "blocked": "block",
    "answered": "answer",
    "invalid": "invalid",
    "unknown": "withhold",
}


@dataclass(frozen=True)
class RunOptions:
    """What the runs of a replay say of themselves, as in `session.run`."""

    agent_id: str = "main"
    workspace_dir: str | None = None
    requester: Mapping[str, Any] | None = None
    trigger: str = "user"


class Theatre:
    """Plays the record on a session, and keeps what was decided."""

    def __init__(self) -> None:
        self._verdicts: list[CallVerdict] = []
        self._was_judged: list[bool] = []
        """Of each verdict: False where its run did not begin."""
        self._records: list[Record] = []
        self._questions: list[ApprovalRequest] = []
        self._would_run = True
        self.shows_messages = True
        """False where no plugin looks at what the model is sent: making that costs time with each reply."""

    def plugin(self) -> type:
        """The plugin that keeps the trace, and turns a call of tool search's bridge into the call that it stands
        for."""
        records = self._records

        class Replaying:
            plugin_id = "hooksdk_replay"

            @hooks.trace
            def keep(self, event: hooks.Trace) -> None:
                records.append(event.record)

            @hooks.unwrap_tool_call
            def unwrap(self, event: hooks.UnwrapToolCall) -> ToolCall | None:
                name, arguments = real_call(event.call)
                return None if name == event.call.name else ToolCall(event.call.id, name, arguments)

        return Replaying

    async def answer(self, request: ApprovalRequest) -> Approval:
        """The person of the record: a call that ran was allowed."""
        self._questions.append(request)
        if self._would_run:
            return Approval(True)
        return Approval(False, "it was not run when this was recorded", unanswered="not_asked")

    async def play(
        self,
        session: Session,
        exchange: Exchange,
        number: int,
        form: MessageFormat,
        tools: Sequence[Tool],
        options: RunOptions,
    ) -> None:
        """One run of the record."""
        calls = [pair for step in exchange.steps if isinstance(step, Asked) for pair in step.calls]
        before = len(self._verdicts)
        try:
            async with session.run(
                exchange.prompt(form) or None,
                format=form,
                agent_id=options.agent_id,
                workspace_dir=options.workspace_dir,
                requester=options.requester,
                trigger=options.trigger,
            ) as run:
                await run.resolve_tools(tools)
                for step in exchange.steps:
                    if isinstance(step, Asked):
                        await self._play_reply(run, step, number)
                    else:
                        await run.record(step.message)
        except (RunBlocked, PolicyFailed) as error:
            blocked = isinstance(error, RunBlocked)
            by = error.who.removeprefix("plugin ").strip("'") if blocked else error.who
            reason = f"the run is blocked: {error.reason}" if blocked else str(error)
            for call, result in calls[len(self._verdicts) - before :]:
                verdict = self._begin(call, result, number)
                self._keep(replace(verdict, outcome="block", by=by, reason=reason), judged=False)

    async def _play_reply(self, run: Run, step: Asked, number: int) -> None:
        if self.shows_messages:
            await run.prepare_messages()
        await run.record(step.messages)
        pending = run.pending
        calls = pending if len(pending) == len(step.calls) else [call for call, _ in step.calls]
        for call, (written, result) in zip(calls, step.calls, strict=True):
            await self._judge(run, call, self._begin(written, result, number), result)

    def _begin(self, call: ToolCall, result: FoundResult | None, run: int) -> CallVerdict:
        tool, arguments = real_call(call)
        recorded: Recorded = "none"
        if result is not None:
            recorded = "blocked" if is_refusal(result) else "error" if result.is_error else "ok"
        return CallVerdict(
            number=len(self._verdicts) + 1,
            run=run,
            tool=tool,
            arguments=arguments,
            recorded=recorded,
            outcome="allow",
            call_id=call.id,
        )

    def _keep(self, verdict: CallVerdict, *, judged: bool) -> None:
        self._verdicts.append(verdict)
        self._was_judged.append(judged)

    async def _judge(self, run: Run, call: ToolCall, verdict: CallVerdict, result: FoundResult | None) -> None:
        asked = len(self._questions)
        self._would_run = verdict.recorded in {"ok", "error"}
        judged = await run.judge(call)
        outcome = "withhold" if judged.call.name in run.tools.withheld else _STATUS.get(judged.status, "block")
        reason = self._reason(run, judged)
        by = ""
        if len(self._questions) > asked:
            request = self._questions[-1]
            outcome, by = "ask", ", ".join(dict.fromkeys(one.plugin for one in request.questions))
            strange = [str(origin) for origin in request.evidence if not origin.cleared]
            reason = "; ".join([*(one.title for one in request.questions), *strange])
        elif judged.result is not None and (match := _VERDICT.match(judged.result.text)):
            by, reason = match["plugin"], match["reason"]
        becomes = judged.arguments if judged.tool is not None and judged.status != "invalid" else None
        verdict = replace(verdict, outcome=outcome, by=by, reason=reason, becomes=becomes, tool=judged.call.name)
        self._keep(verdict, judged=True)
        if judged.result is None:
            text = "no result was recorded" if result is None else result.text
            await judged.supply(ToolResult(text, is_error=result is None or result.is_error))

    def _reason(self, run: Run, judged: JudgedCall) -> str:
        if judged.result is None:
            return ""
        withheld = run.tools.withheld.get(judged.call.name)
        return judged.result.text if withheld is None else withheld

    def verdicts(self) -> list[CallVerdict]:
        """All of them, with the names of those who decided: the trace is complete once the session is closed."""
        groups: list[list[HookFired]] = []
        for record in self._records:
            if isinstance(record, CallStarted) and record.parent_id is None:
                groups.append([])
            elif isinstance(record, HookFired) and groups and not record.shadow:
                groups[-1].append(record)
        fired = iter(groups)
        withheld = {
            name.rpartition(":")[2]: one.plugin
            for one in self._records
            if isinstance(one, Withheld)
            for name in one.names
        }
        return [
            _decided(verdict, next(fired, list[HookFired]()), withheld) if judged else verdict
            for verdict, judged in zip(self._verdicts, self._was_judged, strict=True)
        ]


def _decided(verdict: CallVerdict, fired: Sequence[HookFired], withheld: Mapping[str, str]) -> CallVerdict:
    rewriters = [one.plugin for one in fired if one.hook == "rewrite_tool_call" and one.outcome == "Rewrite"]
    becomes = verdict.becomes if rewriters and verdict.becomes != verdict.arguments else None
    verdict = replace(verdict, becomes=becomes)
    if verdict.outcome == "allow" and becomes is not None:
        return replace(verdict, outcome="rewrite", by=", ".join(dict.fromkeys(rewriters)))
    if verdict.outcome == "withhold":
        return replace(verdict, by=withheld.get(verdict.tool, ""))
    if verdict.by or verdict.outcome not in {"block", "answer"}:
        return verdict
    word = {"block": ("Block", "failed"), "answer": ("Answer",)}[verdict.outcome]
    judges = [
        one.plugin for one in fired if one.hook in {"before_tool_call", "rewrite_tool_call"} and one.outcome in word
    ]
    return replace(verdict, by=judges[0] if judges else "")
