"""A sub-agent with a host of its own: its host and the hosts of its callers each have a run of it, and all their
policies judge."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import replace
from types import TracebackType
from typing import Any, Self, final

from hooksdk.approvals import Approval, ApprovalRequest
from hooksdk.calls import ToolCall, ToolResult
from hooksdk.run import Finish, JudgedCall, PreparedMessages, Run
from hooksdk.tools import Tool


@final
class SharedRun:
    """The sub-agent's run, used like a `Run`: what it does is done in the run of its own host and in those of its
    callers' hosts."""

    def __init__(self, own: Run, around: Sequence[Run]) -> None:
        self._own, self._around = own, around
        self._stack = AsyncExitStack()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._own, name)

    async def __aenter__(self) -> Self:
        async with AsyncExitStack() as stack:
            for run in (*self._around, self._own):
                await stack.enter_async_context(run)
            self._stack = stack.pop_all()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self._stack.__aexit__(kind, error, traceback)

    def use_model(self, *names: tuple[str | None, str], context_window: int | None = None) -> None:
        for run in (self._own, *self._around):
            run.use_model(*names, context_window=context_window)

    async def resolve_tools(self, tools: Sequence[Tool], *, core: Sequence[str]) -> list[Tool]:
        for run in self._around:
            await run.resolve_tools(tools, core=["*"])  # the own host decides what is hidden
            tools = [tool for tool in tools if run.tools.get(tool.name) is not None]
        return await self._own.resolve_tools(tools, core=core)

    async def prepare_messages(self, messages: Sequence[Any], *, follow: bool, said: Sequence[str]) -> PreparedMessages:
        prepared = await self._own.prepare_messages(messages, follow=follow, said=said)
        for run in self._around:
            theirs = await run.prepare_messages(messages, follow=follow, said=said)
            prepared.added = [*prepared.added, *theirs.added]
            prepared.trimmed = {**theirs.trimmed, **prepared.trimmed}
            if theirs.replaced:
                prepared[:], prepared.replaced = theirs, True
        return prepared

    async def record(self, message: Any, **more: Any) -> None:
        for run in (self._own, *self._around):
            await run.record(message, **more)

    async def judge(self, call: ToolCall, *, made: bool = False) -> SharedCall:
        judged, others = await self._own.judge(call, made=made), list[JudgedCall]()
        for run in self._around if judged.result is None else ():
            real, catalog = judged.call, run.tools
            is_known = real.name in catalog or real.name in catalog.withheld
            same = ToolCall(real.id, real.name, judged.arguments)
            others.append(await run.judge(same, tool=None if is_known else judged.tool, made=made))
        both = SharedCall(judged, others, self._around)
        await both.agree()
        return both

    async def finish(self, text: str, *, can_go_on: bool = True) -> Finish:
        finish = await self._own.finish(text, can_go_on=can_go_on)
        for run in self._around:
            if not finish.refused:
                theirs = await run.finish(finish.text, can_go_on=can_go_on)
                overruled = [*finish.overruled, *theirs.overruled]
                finish = replace(theirs, replaced=finish.replaced or theirs.replaced, overruled=overruled)
        return finish

    def pause(self, reason: str) -> None:
        for run in (self._own, *self._around):
            run.pause(reason)


@final
class SharedCall:
    """A call that each host has judged, with the arguments that will run. It runs if every host lets it."""

    def __init__(self, own: JudgedCall, others: Sequence[JudgedCall], around: Sequence[Run]) -> None:
        self._own, self._others, self._around = own, others, around

    def __getattr__(self, name: str) -> Any:
        return getattr(self._own, name)

    @property
    def pending(self) -> ApprovalRequest | None:
        """One question with the questions of all hosts; None where none of them asks."""
        asked = [one.pending for one in (self._own, *self._others) if one.pending is not None]
        if not asked:
            return None
        words = [asked[0].description, *(f"{one.title} {one.description}" for one in asked[1:])]
        return replace(asked[0], description="\n".join(filter(None, words)))

    async def approve(self, approval: Approval) -> None:
        for one in (self._own, *self._others):
            await one.approve(approval)
        await self.agree()

    async def agree(self) -> None:
        """Give the call the result of the first host that refuses or answers it, at all other hosts too."""
        every = (self._own, *self._others)
        ended = next((one for one in every if one.result is not None), None)
        if ended is None or (ended.status == "answered" and self.pending is not None):
            return
        assert ended.result is not None
        for one in every:
            if one.result is None:
                if ended.status in {"answered", "ok", "error"}:
                    await one.supply(ended.result)
                else:
                    await one.refuse(text=ended.result.text)

    async def refuse(self, reason: str = "", **more: Any) -> ToolResult:
        result = await self._own.refuse(reason, **more)
        await self.agree()
        return result

    async def supply(self, result: ToolResult | str) -> ToolResult:
        supplied = await self._own.supply(result)
        await self.agree()
        return supplied

    async def execute(self, *, native: Any) -> ToolResult:
        """Run the framework's tool once, inside the calls of all hosts: the own host's is the outermost."""
        native.put_around(self.call.id, self._others, self._around)
        result = await self._own.execute(native=native)
        await self.agree()
        return result
