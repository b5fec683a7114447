"""The calls of a recorded session, judged one after another by the plugins of now. None is executed."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from hooksdk import hooks
from hooksdk.approvals import Approval, ApprovalRequest
from hooksdk.calls import ToolCall, ToolResult
from hooksdk.errors import PolicyFailed, RunBlocked
from hooksdk.formats import FoundResult, MessageFormat
from hooksdk.records import CallStarted, HookFired, Record, Withheld
from hooksdk.run import Run
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


class Replayer:
    """Plays recorded runs on a session, and keeps what the plugins decide.

    Attributes:
        prepares_messages: False where no plugin looks at what the model is sent: to prepare that costs time with each
            reply.
    """

    def __init__(self) -> None:
        # Each with whether plugins have judged the call: they have not where its run did not begin.
        self._verdicts: list[tuple[CallVerdict, bool]] = []
        self._records: list[Record] = []
        self._questions: list[ApprovalRequest] = []
        self._would_run = True
        self.prepares_messages = True

    def plugin(self) -> type:
        """The plugin that keeps the trace, and turns a call of tool search's bridge into the call of the real tool."""
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
        options: Mapping[str, Any],
    ) -> None:
        """One run of the record, with these options of `session.run`."""
        calls = [pair for step in exchange.steps if isinstance(step, Asked) for pair in step.calls]
        before = len(self._verdicts)
        try:
            async with session.run(exchange.prompt(form) or None, format=form, **options) as run:
                await run.resolve_tools(tools)
                for step in exchange.steps:
                    if isinstance(step, Asked):
                        await self._play_reply(run, step, number)
                    else:
                        await run.record(step.message)
        except (RunBlocked, PolicyFailed) as error:
            by, reason = error.who, str(error)
            if isinstance(error, RunBlocked):
                by, reason = by.removeprefix("plugin ").strip("'"), f"the run is blocked: {error.reason}"
            for call, result in calls[len(self._verdicts) - before :]:
                verdict = replace(self._begun(call, result, number), outcome="block", by=by, reason=reason)
                self._verdicts.append((verdict, False))

    async def _play_reply(self, run: Run, step: Asked, number: int) -> None:
        if self.prepares_messages:
            await run.prepare_messages()
        await run.record(step.messages)
        calls = run.pending if len(run.pending) == len(step.calls) else [call for call, _ in step.calls]
        for call, (written, result) in zip(calls, step.calls, strict=True):
            await self._judge(run, call, self._begun(written, result, number), result)

    def _begun(self, call: ToolCall, result: FoundResult | None, run: int) -> CallVerdict:
        """The verdict as far as the record says it."""
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

    async def _judge(self, run: Run, call: ToolCall, verdict: CallVerdict, result: FoundResult | None) -> None:
        asked = len(self._questions)
        self._would_run = verdict.recorded in {"ok", "error"}
        judged = await run.judge(call)
        withheld = run.tools.withheld.get(judged.call.name)
        text = judged.result.text if judged.result else ""
        outcome = _STATUS.get(judged.status, "block") if withheld is None else "withhold"
        by, reason = "", text if withheld is None or judged.result is None else withheld
        if len(self._questions) > asked:
            request = self._questions[-1]
            outcome, by = "ask", ", ".join(dict.fromkeys(one.plugin for one in request.questions))
            strange = [str(origin) for origin in request.evidence if not origin.cleared]
            reason = "; ".join([*(one.title for one in request.questions), *strange])
        elif match := _VERDICT.match(text):
            by, reason = match["plugin"], match["reason"]
        becomes = judged.arguments if judged.tool is not None and judged.status != "invalid" else None
        verdict = replace(verdict, outcome=outcome, by=by, reason=reason, becomes=becomes, tool=judged.call.name)
        self._verdicts.append((verdict, True))
        if judged.result is None:
            text = "no result was recorded" if result is None else result.text
            await judged.supply(ToolResult(text, is_error=result is None or result.is_error))

    def verdicts(self) -> list[CallVerdict]:
        """All of them, with the names of those who decided: the trace is complete once the session is closed."""
        groups: list[list[HookFired]] = []
        withheld: dict[str, str] = {}
        for record in self._records:
            if isinstance(record, CallStarted) and record.parent_id is None:
                groups.append([])
            elif isinstance(record, HookFired) and groups and not record.shadow:
                groups[-1].append(record)
            elif isinstance(record, Withheld):
                withheld |= {name.rpartition(":")[2]: record.plugin for name in record.names}
        fired = iter(groups)
        return [
            _decided(verdict, next(fired, list[HookFired]()), withheld) if is_judged else verdict
            for verdict, is_judged in self._verdicts
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
    words = ("Block", "failed") if verdict.outcome == "block" else ("Answer",)
    judges = (one for one in fired if one.hook in {"before_tool_call", "rewrite_tool_call"} and one.outcome in words)
    return replace(verdict, by=next((one.plugin for one in judges), ""))
