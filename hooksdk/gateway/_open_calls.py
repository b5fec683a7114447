"""Calls that stay open while a client of the stateless protocol answers what their server asks.

Such a client gets no requests. So the question is the result of its call, and the call itself runs on; made again with the
answers, it hears of the next question, or gets the result.
"""

from __future__ import annotations

import secrets
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, final

import anyio
import mcp_types as types
from mcp.shared.exceptions import MCPError

from hooksdk.errors import HookSDKError
from hooksdk.gateway._client import CallingClient, Request

Answer = types.CallToolResult | types.InputRequiredResult
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
        self._over = False
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
            self._over = True
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
        while not self._over:
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

    def __init__(self) -> None:
        self._calls: dict[str, OpenCall] = {}

    async def begin(
        self, same: str, client: CallingClient, start_soon: Callable[..., Any], work: Callable[[], Awaitable[Answer]]
    ) -> Answer:
        """Make a call, whose client is asked by results."""
        call = OpenCall(same, client)
        client.ask_by_result = call.ask
        start_soon(call.run, work)
        return await self._go_on(call)

    async def go_on(self, params: types.CallToolRequestParams, same: str, context: Request) -> Answer:
        """The call is made again, with answers."""
        call = self._calls.get(params.request_state or "")
        if call is None or call.same != same:
            text = f"'{params.name}' was not run: the answer belongs to no call that is open. Call it anew."
            raise MCPError(types.INVALID_PARAMS, text)
        del self._calls[params.request_state or ""]
        call.client.context = context
        call.take(params.input_responses or {})
        return await self._go_on(call)

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
        self._calls[state] = call
        if len(self._calls) > MOST_OPEN:
            self._calls.pop(next(iter(self._calls))).scope.cancel()
        return types.InputRequiredResult(input_requests=dict(questions), request_state=state)
