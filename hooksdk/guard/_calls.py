"""The tool calls of one agent: judged at the hook before each, completed at the hook after it."""

from __future__ import annotations

import logging
import re
from typing import final

from hooksdk.approvals import Approval, digest_of
from hooksdk.calls import ToolCall, ToolResult
from hooksdk.guard._agents import AGENTS, HookEvent, Verdict, texts_in, tool_of, with_texts
from hooksdk.rules import current_folder
from hooksdk.run import JudgedCall, Run
from hooksdk.tools import Tool

logger = logging.getLogger("hooksdk")

SECRET = re.compile(r"\{\{\s*secret:")
# Calls of a session whose results may still come; of more the oldest is forgotten: some results never come.
MOST_CALLS = 500


@final
class AgentCalls:
    """The calls that a coding agent runs itself, judged by plugins in a run of yours.

    Before a call: `judge`, then `let_run`. After it: `take_result`. An agent does not list its tools, so call
    `run.resolve_tools(calls.tools)` whenever `know` answers True, before the call is judged.

    Attributes:
        tools: The tools that the agent has called so far; always the same list.
    """

    def __init__(self, agent: str) -> None:
        self._agent = AGENTS[agent]
        self.tools: list[Tool] = []
        # Calls that may run and have no result yet, by the agent's id.
        self._open: dict[str, JudgedCall] = {}
        # Calls that have run without being judged before, while their results are taken.
        self._ran: set[str] = set()

    @property
    def open(self) -> bool:
        """True while a call that may run has no result."""
        return bool(self._open)

    def know(self, event: HookEvent) -> bool:
        """Add the tool of this call to `tools`; True if it was not there."""
        is_new = all(tool.name != event.tool for tool in self.tools)
        if is_new:
            self.tools.append(tool_of(event.agent, event.tool, event.server, event.own_name))
        return is_new

    def has_run(self, call_id: str) -> bool:
        """True for a call that has run before it was judged: no approval is asked for it any more."""
        return call_id in self._ran

    async def judge(self, run: Run, event: HookEvent, call_id: str = "") -> JudgedCall:
        """Have the plugins judge a call that is about to run. `call_id` is the id that they see, in the place of the
        agent's."""
        judged = await _judged(run, event, call_id or _key(event))
        if judged.result is None and any(SECRET.search(text) for text in texts_in(judged.arguments)):
            refusal = f"'{event.tool}' was not run: {self._agent.title}'s own tools are given no secrets by name."
            await judged.refuse(text=refusal, unanswered="not_asked")
        return judged

    def let_run(self, event: HookEvent, judged: JudgedCall) -> Verdict:
        """The answer to the hook before a judged call: a refusal, a question, other arguments, or no objection."""
        if judged.result is not None:
            return Verdict(deny=judged.result.text)
        self._open[_key(event)] = judged
        while len(self._open) > MOST_CALLS:
            self._open.pop(next(iter(self._open)))
        changed = judged.arguments if judged.arguments != dict(event.arguments) else None
        return Verdict(ask=judged.pending.title if judged.pending else "", arguments=changed)

    async def take_result(self, run: Run, event: HookEvent) -> Verdict:
        """Hand the tool's result to the plugins; the answer holds the result that they return, in the tool's own
        shape."""
        key = _key(event)
        judged = self._open.pop(key, None)
        if judged is None:  # judged by an earlier process
            self._ran.add(key)
            judged = await _judged(run, event, key)
            self._ran.discard(key)
        if judged.pending is not None:  # the person at the agent said yes, since it has run
            await judged.approve(Approval(True, by=f"the person at {self._agent.title}"))
        if judged.result is not None or judged.pending is not None:
            logger.warning("'%s' has run in %s, although the rules of now refuse it", event.tool, event.agent)
            return Verdict()
        texts = texts_in(event.result)
        blocks = [{"type": "text", "text": text} for text in texts]
        answered = ToolResult(blocks=blocks, is_error=event.failed) if blocks else ToolResult("", is_error=event.failed)
        result = await judged.supply(answered)
        shown = [str(block.get("text", "")) for block in result.blocks if block.get("type") == "text"]
        if shown == texts or not texts or event.failed:  # no agent lets a hook change what a failure says
            return Verdict()
        if len(shown) != len(texts):
            return _instead(event, result.text)
        return Verdict(result=with_texts(event.result, shown))

    @staticmethod
    async def finish(run: Run, event: HookEvent) -> Verdict:
        """Have the plugins judge the end of the model's turn: it goes on, or the person reads a note about an answer
        that is on the screen already. Raises `RunBlocked`."""
        finish = await run.finish(event.reply)
        if finish.refused:
            return Verdict(go_on=finish.refused)
        note = ""
        if finish.replaced:
            note = "a plugin has put another text in the place of the answer, which the agent does not take"
        elif finish.overruled:
            note = f"the answer was let through in the end, although a plugin says: {' '.join(finish.overruled)}"
        return Verdict(note=note)

    @staticmethod
    def withhold(event: HookEvent, reason: str) -> Verdict:
        """The answer to the hook after a call whose result could not be judged: the model reads the reason instead of
        the result."""
        return Verdict() if event.failed else _instead(event, f"The result is withheld: {reason}")

    async def leave(self, *, problem: str = "") -> None:
        """Settle the open calls, since the agent has gone on without a result for them. A call with an open question
        has not run: no hook tells whether a person refused it or nobody answered. `problem` becomes the result of the
        other calls, which have begun; without it the end of the run reports them as not run."""
        while self._open:
            _, judged = self._open.popitem()
            if judged.pending is not None:
                await judged.refuse(f"{self._agent.title} has gone on without it", unanswered="not_told")
            elif problem and judged.result is None:
                await judged.supply(ToolResult.error(problem))

    def clear(self) -> None:
        """Forget the calls without a result; the end of their run reports them."""
        self._open.clear()


async def _judged(run: Run, event: HookEvent, call_id: str) -> JudgedCall:
    """Judge a call in the agent's current folder, which a `cd` of an earlier call may have changed."""
    before = current_folder.set(str(event.folder))
    try:
        return await run.judge(ToolCall(call_id, event.tool, event.arguments))
    finally:
        current_folder.reset(before)


def _instead(event: HookEvent, text: str) -> Verdict:
    """The result with this text in the place of its longest text, and all others empty."""
    texts = texts_in(event.result)
    if not texts:
        return Verdict()
    place = max(range(len(texts)), key=lambda at: len(texts[at]))
    shown = [text if at == place else "" for at in range(len(texts))]
    return Verdict(result=with_texts(event.result, shown))


def _key(event: HookEvent) -> str:
    return event.call_id or digest_of([event.tool, event.arguments])
