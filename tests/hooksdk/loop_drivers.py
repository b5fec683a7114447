"""Drivers of the conformance suite for what hooksdk runs itself: `run_agent`, a loop of one's own, and plain code."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

import anyio
import anyio.to_thread

from hooksdk import Approval, ApprovalRequest, Host, Run, Session, sync
from hooksdk.agent import run_agent
from hooksdk.formats import Message
from hooksdk.formats.openai_chat import OpenAIChat
from hooksdk.testing import Answer, Program

CHAT = OpenAIChat()
WHOLE = "its store is the session, which keeps every result whole; the model is sent the short form"
NO_LIST = "it keeps no list of its own: the conversation is the session"
IN_SESSION = {
    "a_trim_lasts_in_the_frameworks_store": WHOLE,
    "a_fork_keeps_its_trims": NO_LIST,
    "a_filtered_history_keeps_its_trims": NO_LIST,
    "a_call_whose_reply_the_framework_has_lost_is_asked_about": NO_LIST,
    "what_a_framework_adds_is_no_word_of_the_persons": NO_LIST,
    "a_result_of_no_call_ends_no_conversation": NO_LIST,
    "a_call_that_runs_elsewhere_is_judged_before_it_leaves": "its tools run in it: none is answered from outside",
}
OWN_HOST = {
    "policies_hold_for_a_sub_agent_with_a_host_of_its_own": "a host knows as sub-agents those of `session.child` alone; adapters know what their tools run"
}
OWN_LOOP = "the loop itself says what came of a call that runs elsewhere (`judge` and `supply`)"
PLAIN = "it is the async entry: plain code takes hooksdk.sync"


def texts_of_results(messages: Sequence[Message]) -> list[str]:
    return [str(message["content"]) for message in messages if message["role"] == "tool"]


def _by(granted: Mapping[str, bool]) -> Any:
    async def approver(request: ApprovalRequest) -> Approval:
        return Approval(granted[request.call.id], by="ann")

    return approver


class _InSession:
    """What drivers have in common whose conversation is the session."""

    async def stream(self, prompt: str, conversation: str = "c") -> Answer:
        raise NotImplementedError

    def ask_plainly(self, prompt: str, conversation: str = "c") -> Answer:
        raise NotImplementedError

    async def cut(self, turns: int, conversation: str = "c") -> None:
        raise NotImplementedError

    async def forget(self, turns: int, conversation: str = "c") -> None:
        raise NotImplementedError


class RunAgentDriver(_InSession):
    """`run_agent`."""

    cannot: Mapping[str, str] = {**IN_SESSION, **OWN_HOST, "plain_code_passes_the_same_hooks": PLAIN}

    @asynccontextmanager
    async def start(self, program: Program) -> AsyncGenerator[None]:
        self.program = program
        async with Host(**program.host) as self.host:
            yield

    async def _play(self, prompt: str | None, conversation: str, **options: Any) -> Answer:
        session = await self.host.hold(conversation)
        outcome = await run_agent(session, self.program.model, prompt, tools=self.program.tools, **options)
        return Answer(text=outcome.text, waiting=[call.id for call in outcome.pending])

    async def ask(self, prompt: str, conversation: str = "c") -> Answer:
        return await self._play(prompt, conversation)

    async def stream(self, prompt: str, conversation: str = "c") -> Answer:
        pieces: list[str] = []
        answer = await self._play(prompt, conversation, on_text=pieces.append)
        assert pieces[-1:] == [answer.text]
        return answer

    async def answer(self, granted: Mapping[str, bool], conversation: str = "c") -> Answer:
        return await self._play(None, conversation, approver=_by(granted))

    async def stored(self, conversation: str = "c") -> Sequence[str]:
        return texts_of_results((await self.host.hold(conversation)).messages)

    async def adopt(self, messages: Sequence[Message], conversation: str = "c") -> None:
        session = await self.host.hold(conversation)
        async with session.run() as run:
            await run.record(messages)


class JudgeDriver:
    """A loop of one's own that keeps its list, and takes each call through `judge` and `execute`: as an adapter does."""

    cannot: Mapping[str, str] = {
        **OWN_HOST,
        "a_call_that_runs_elsewhere_is_judged_before_it_leaves": OWN_LOOP,
        "plain_code_passes_the_same_hooks": PLAIN,
        **dict.fromkeys(
            ("streaming_passes_the_same_hooks", "streaming_goes_on_as_well"),
            "whether a reply streams is the loop's own business",
        ),
    }

    def __init__(self) -> None:
        self.lists: dict[str, list[Message]] = {}

    @asynccontextmanager
    async def start(self, program: Program) -> AsyncGenerator[None]:
        self.program = program
        async with Host(**program.host) as self.host:
            yield

    async def ask(self, prompt: str, conversation: str = "c") -> Answer:
        return await self._play(conversation, CHAT.user(prompt), {})

    async def answer(self, granted: Mapping[str, bool], conversation: str = "c") -> Answer:
        return await self._play(conversation, None, granted)

    async def _play(self, conversation: str, prompt: Message | None, granted: Mapping[str, bool]) -> Answer:
        session: Session = await self.host.hold(conversation)
        messages = self.lists.setdefault(conversation, [])
        async with session.run(
            prompt, context_window=self.program.model.context_window, model=self.program.model.name
        ) as run:
            await run.resolve_tools(self.program.tools)
            if prompt is not None:
                messages.append(prompt)
            elif waiting := await self._run_calls(run, messages, granted):
                return self._pause(run, waiting)
            while True:
                prepared = await run.prepare_messages(messages, follow=True)
                for (call_id, number), text in prepared.trimmed.items():
                    [one for one in messages if one.get("tool_call_id") == call_id][number]["content"] = text
                reply = await self.program.model.reply(prepared, CHAT.tools(run.offered))
                messages.append(dict(reply.message))
                await run.record(reply.message, usage=reply.usage)
                if not run.pending:
                    finish = await run.finish()
                    if not finish.refused:
                        messages[-1] = CHAT.reply(finish.text) if finish.replaced else messages[-1]
                        return Answer(text=finish.text)
                    messages.append(CHAT.user(finish.refused))
                elif waiting := await self._run_calls(run, messages, granted):
                    return self._pause(run, waiting)

    @staticmethod
    def _pause(run: Run, waiting: Sequence[str]) -> Answer:
        run.pause("calls wait for an approval")
        return Answer(waiting=waiting)

    @staticmethod
    async def _run_calls(run: Run, messages: list[Message], granted: Mapping[str, bool]) -> list[str]:
        waiting: list[str] = []
        for call in run.pending:
            judged = await run.judge(call)
            if judged.pending is not None and call.id in granted:
                await judged.approve(Approval(granted[call.id], by="ann"))
            if judged.pending is not None:
                waiting.append(call.id)
                continue
            result = await judged.execute()
            messages.append({"role": "tool", "tool_call_id": call.id, "content": result.text})
        return waiting

    async def stream(self, prompt: str, conversation: str = "c") -> Answer:
        raise NotImplementedError

    def ask_plainly(self, prompt: str, conversation: str = "c") -> Answer:
        raise NotImplementedError

    async def stored(self, conversation: str = "c") -> Sequence[str]:
        return texts_of_results(self.lists[conversation])

    async def adopt(self, messages: Sequence[Message], conversation: str = "c") -> None:
        self.lists[conversation] = [dict(one) for one in messages]

    def _second_turn(self, turns: int, conversation: str) -> int:
        places = [at for at, one in enumerate(self.lists[conversation]) if one["role"] == "user"]
        return places[turns]

    async def cut(self, turns: int, conversation: str = "c") -> None:
        del self.lists[conversation][self._second_turn(turns, conversation) :]

    async def forget(self, turns: int, conversation: str = "c") -> None:
        del self.lists[conversation][: self._second_turn(turns, conversation)]


class SyncDriver(_InSession):
    """`hooksdk.sync`, in a thread."""

    never_end = (
        "a_cancelled_tool_is_seen_before_the_runs_end", "a_run_cancelled_in_the_model_ends_as_cancelled",
        "a_call_whose_reply_the_framework_has_lost_is_asked_about", "a_refused_call_in_doubt_is_told_as_such",
    )  # fmt: skip
    cannot: Mapping[str, str] = {
        **IN_SESSION,
        **OWN_HOST,
        **dict.fromkeys(never_end, "plain code that waits cannot be cancelled"),
    }

    @asynccontextmanager
    async def start(self, program: Program) -> AsyncGenerator[None]:
        self.program = program
        self.sessions: dict[str, sync.Session] = {}
        self.host = sync.Host(**program.host)
        await anyio.to_thread.run_sync(self.host.__enter__)
        try:
            yield
        finally:
            await anyio.to_thread.run_sync(self.host.__exit__, None, None, None)

    def _session(self, conversation: str) -> sync.Session:
        return self.host.hold(conversation)

    def _play(self, prompt: str | None, conversation: str, options: Mapping[str, Any]) -> Answer:
        outcome = sync.run_agent(
            self._session(conversation), self.program.model, prompt, tools=self.program.tools, **options
        )
        return Answer(text=outcome.text, waiting=[call.id for call in outcome.pending])

    def ask_plainly(self, prompt: str, conversation: str = "c") -> Answer:
        return self._play(prompt, conversation, {})

    async def ask(self, prompt: str, conversation: str = "c") -> Answer:
        return await anyio.to_thread.run_sync(self.ask_plainly, prompt, conversation)

    async def stream(self, prompt: str, conversation: str = "c") -> Answer:
        pieces: list[str] = []
        answer = await anyio.to_thread.run_sync(self._play, prompt, conversation, {"on_text": pieces.append})
        assert pieces[-1:] == [answer.text]
        return answer

    async def answer(self, granted: Mapping[str, bool], conversation: str = "c") -> Answer:
        return await anyio.to_thread.run_sync(self._play, None, conversation, {"approver": _by(granted)})

    async def stored(self, conversation: str = "c") -> Sequence[str]:
        return texts_of_results(await anyio.to_thread.run_sync(lambda: self._session(conversation).messages))

    async def adopt(self, messages: Sequence[Message], conversation: str = "c") -> None:
        def record() -> None:
            with self._session(conversation).run() as run:
                run.record(messages)

        await anyio.to_thread.run_sync(record)
