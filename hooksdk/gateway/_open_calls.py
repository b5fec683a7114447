"""Calls that stay open while a client of the stateless protocol answers what their server asks.

Such a client gets no requests. So the question is the result of its call, and the call itself runs on; made again with the
answers, it hears of the next question, or gets the result.
"""

from __future__ import annotations

import logging
import secrets
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, final

import anyio
import mcp_types as types
from mcp.shared.exceptions import MCPError

from hooksdk.errors import HookSDKError, StoreError
from hooksdk.gateway._answers import Arriving
from hooksdk.gateway._client import CallingClient, Request
from hooksdk.gateway._handover import POLL, Answer, Handover
from hooksdk.gateway._results import error
from hooksdk.tasks import describe

logger = logging.getLogger("hooksdk")

MOST_OPEN = 20
"""Calls of one session whose questions may be out with its client; of more, the newest."""
PREFIX = "call-"
"""What the state of an open call begins with."""
FITTING: dict[type[types.InputRequest], tuple[type[types.InputResponse], ...]] = {
    types.ElicitRequest: (types.ElicitResult,),
    types.ListRootsRequest: (types.ListRootsResult,),
    types.CreateMessageRequest: (types.CreateMessageResult, types.CreateMessageResultWithTools),
}


@dataclass
class _Question:
    request: types.InputRequest
    answered: anyio.Event = field(default_factory=anyio.Event)
    answer: types.InputResponse | types.ErrorData | None = None

    def take(self, answer: types.InputResponse) -> None:
        self.answer = answer
        if not isinstance(answer, FITTING[type(self.request)]):
            problem = f"the client answered a {self.request.method} with a {type(answer).__name__}"
            self.answer = types.ErrorData(code=types.INVALID_REQUEST, message=problem)
        self.answered.set()


@final
class OpenCall:
    """One call, in a task of its own."""

    def __init__(self, same: str, client: CallingClient) -> None:
        self.same = same
        """Stands for name and arguments."""
        self.client = client
        self.scope = anyio.CancelScope()
        self._questions: dict[str, _Question] = {}
        self._asked = 0
        self._to_come = 0
        """Questions that are still missing of those that belong together."""
        self._news = anyio.Event()
        self.is_over = False
        self._result: Answer | None = None
        self._error: Exception | None = None

    async def run(self, work: Callable[[], Awaitable[Answer]]) -> None:
        """Make the call."""
        try:
            with self.scope:
                self._result = await work()
        except Exception as problem:
            self._error = problem  # for whoever waits for the result
        finally:
            self.is_over = True
            self.client.ask_by_result = None
            self._news.set()

    async def ask(self, request: types.InputRequest, name: str, together: int) -> types.InputResponse | types.ErrorData:
        """Ask the client, and wait for its answer. It is asked once as many questions are there as belong `together`."""
        self._asked += 1
        self._to_come = (self._to_come or together) - 1
        key = name if name and name not in self._questions else f"question-{self._asked}"
        question = self._questions[key] = _Question(request)
        self._news.set()
        try:
            await question.answered.wait()
        finally:
            del self._questions[key]
        assert question.answer is not None
        return question.answer

    def take(self, answers: Mapping[str, types.InputResponse]) -> None:
        """The client's answers. What it left out is asked again."""
        for key, answer in answers.items():
            if (question := self._questions.get(key)) is not None:
                question.take(answer)

    async def next_questions(self) -> dict[str, types.InputRequest]:
        """Wait for what the client is to be asked now; nothing once the call is over."""
        while not self.is_over:
            asked = {key: one.request for key, one in self._questions.items() if not one.answered.is_set()}
            if asked and not self._to_come:
                return asked
            self._news = anyio.Event()
            await self._news.wait()
        return {}

    def result(self) -> Answer:
        """What came of the call. Raises what it raised."""
        if self._error is not None:
            raise self._error
        if self._result is None:
            raise HookSDKError("it was cancelled")
        return self._result


@final
class OpenCalls:
    """The calls of one session that are open."""

    def __init__(
        self,
        start_soon: Callable[..., Any],
        call_of: Callable[[Answer], Arriving | None],
        handover: Handover | None = None,
    ) -> None:
        """`start_soon` starts a task that may outlive a request, `call_of` says what is to be confirmed once an answer has left. With
        a `handover` a call may be gone on with at another gateway."""
        self._call_of = call_of
        self._calls: dict[str, OpenCall] = {}
        self._start_soon = start_soon
        self._handover = handover

    async def begin(self, same: str, client: CallingClient, work: Callable[[], Awaitable[Answer]]) -> Answer:
        """Make a call, whose client is asked by results."""
        call = OpenCall(same, client)
        client.ask_by_result = call.ask
        self._start_soon(call.run, work)
        return await self._go_on(call)

    async def go_on(self, params: types.CallToolRequestParams, same: str, context: Request) -> Answer:
        """The call is made again, with answers."""
        state = params.request_state or ""
        call = self._calls.get(state)
        if call is not None and call.same == same and await self._withdraw(state):
            call.client.context = context
            call.take(params.input_responses or {})
            return await self._go_on(call)
        if self._handover is not None and (answer := await self._handover.pass_on(params, same)) is not None:
            return answer
        text = f"'{params.name}' was not run: the answer belongs to no call that is open. Call it anew."
        raise MCPError(types.INVALID_PARAMS, text)

    async def _withdraw(self, state: str) -> bool:
        """The questions of this state are out no more; False where somebody else was quicker, here or at another gateway."""
        if self._handover is not None and not await self._handover.take_back(state):
            return False
        return self._calls.pop(state, None) is not None

    async def _go_on(self, call: OpenCall) -> Answer:
        try:
            questions = await call.next_questions()
        except anyio.get_cancelled_exc_class():
            call.scope.cancel()
            raise
        finally:
            call.client.context = None
        if not questions:
            return call.result()
        state = PREFIX + secrets.token_urlsafe(32)
        if self._handover is not None:
            try:
                await self._handover.offer(state, call.same)
            except BaseException:
                call.scope.cancel()
                raise
            self._start_soon(self._watch, self._handover, state, call)
        self._calls[state] = call
        if len(self._calls) > MOST_OPEN:
            self._calls.pop(next(iter(self._calls))).scope.cancel()
        return types.InputRequiredResult(input_requests=dict(questions), request_state=state)

    async def _watch(self, handover: Handover, state: str, call: OpenCall) -> None:
        """Go on with a call whose answers come to another gateway."""
        try:
            while not call.is_over and self._calls.get(state) is call:
                await anyio.sleep(POLL)
                if (answers := await handover.answers(state)) is not None:
                    self._calls.pop(state, None)
                    call.take(answers)
                    await self._answer_there(handover, state, call)
                    return
            self._calls.pop(state, None)
            await handover.take_back(state)
        except StoreError as problem:
            logger.warning("a call that waits for its client cannot be gone on with at another gateway: %s", problem)

    async def _answer_there(self, handover: Handover, state: str, call: OpenCall) -> None:
        async def end_with_client() -> None:
            await handover.client_is_gone(state)
            answering.cancel_scope.cancel()

        answer: Answer | None = None
        async with anyio.create_task_group() as answering:
            answering.start_soon(end_with_client)
            try:
                answer = await self._go_on(call)
            except Exception as problem:
                answer = error(f"it was not run: {describe(problem)}")
            answering.cancel_scope.cancel()
            with anyio.CancelScope(shield=True):
                await handover.reply(state, answer)
        arrived = answer is not None and await handover.has_arrived(state)
        if answer is not None and (over := self._call_of(answer)) is not None:
            over.confirm(arrived=arrived)
        await handover.forget(state)
