"""Calls that stay open while a client of the stateless protocol answers what their server asks.

Such a client gets no requests. So the question is the result of its call, and the call itself runs on. When the
client makes the call again with the answers, it is given the next question, or the result.

Where several gateways share a session, the answers may come to another gateway than the one that makes the call. The
two then exchange them through the store: the one that is given the answers writes them there, once, and waits for the
reply.
"""

from __future__ import annotations

import logging
import secrets
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, final

import anyio
import mcp_types as types
from mcp.shared.exceptions import MCPError
from pydantic import TypeAdapter

from hooksdk.errors import HookSDKError, StoreError
from hooksdk.gateway._answers import Undelivered
from hooksdk.gateway._client import CallingClient, Request
from hooksdk.gateway._results import error
from hooksdk.gateway._session_ids import CALLS, Deployment, change
from hooksdk.tasks import describe

logger = logging.getLogger("hooksdk")

Answer = types.CallToolResult | types.InputRequiredResult
# Calls of one session whose questions may be out with its client; of more, the newest.
MOST_OPEN = 20
# The beginning of an open call's state.
PREFIX = "call-"
# Seconds between two looks at what the other gateway has written.
POLL = 0.25
# Seconds for which a reply is kept: a client that did not get it, since that gateway died, asks for it with the same
# state.
REPLY_KEPT = 60.0
FITTING: dict[type[types.InputRequest], tuple[type[types.InputResponse], ...]] = {
    types.ElicitRequest: (types.ElicitResult,),
    types.ListRootsRequest: (types.ListRootsResult,),
    types.CreateMessageRequest: (types.CreateMessageResult, types.CreateMessageResultWithTools),
}
_ANSWERS: TypeAdapter[dict[str, types.InputResponse]] = TypeAdapter(dict[str, types.InputResponse])
_REPLIES: dict[str, type[Answer]] = {"complete": types.CallToolResult, "input_required": types.InputRequiredResult}


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
@dataclass(eq=False)
class OpenCall:
    """One call, in a task of its own.

    Attributes:
        digest: The digest of its name and arguments.
    """

    digest: str
    client: CallingClient
    scope: anyio.CancelScope = field(default_factory=anyio.CancelScope)
    is_over: bool = False
    _questions: dict[str, _Question] = field(default_factory=dict[str, _Question])
    _asked: int = 0
    # Questions that are still missing of those that the server asks together.
    _to_come: int = 0
    _news: anyio.Event = field(default_factory=anyio.Event)
    _result: Answer | None = None
    _error: Exception | None = None

    async def run(self, work: Callable[[], Awaitable[Answer]]) -> None:
        """Make the call."""
        try:
            with self.scope:
                self._result = await work()
        except Exception as problem:
            self._error = problem  # raised by `result`
        finally:
            self.is_over = True
            self.client.ask_by_result = None
            self._news.set()

    async def ask(self, request: types.InputRequest, name: str, together: int) -> types.InputResponse | types.ErrorData:
        """Ask the client, and wait for its answer. The client is asked once all of the `together` questions are
        there."""
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
        """Take the client's answers. A question that it left out is asked again."""
        for key, answer in answers.items():
            if (question := self._questions.get(key)) is not None:
                question.take(answer)

    async def next_questions(self) -> dict[str, types.InputRequest]:
        """Wait for the next questions to the client; none once the call is over."""
        while not self.is_over:
            asked = {key: one.request for key, one in self._questions.items() if not one.answered.is_set()}
            if asked and not self._to_come:
                return asked
            self._news = anyio.Event()
            await self._news.wait()
        return {}

    def result(self) -> Answer:
        """The result of the call. Raises the call's error."""
        if self._error is not None:
            raise self._error
        if self._result is None:
            raise HookSDKError("it was cancelled")
        return self._result


@final
@dataclass(eq=False)
class OpenCalls:
    """The open calls of one session."""

    # Starts a task that may outlive a request.
    _start_soon: Callable[..., Any]
    _undelivered: Undelivered
    # With it a call can be continued at another gateway.
    _exchange: CallExchange | None = None
    # The calls by the state that the client was given.
    _calls: dict[str, OpenCall] = field(default_factory=dict[str, OpenCall], init=False)

    async def begin(self, digest: str, client: CallingClient, work: Callable[[], Awaitable[Answer]]) -> Answer:
        """Make a call whose client is asked by results."""
        call = OpenCall(digest, client)
        client.ask_by_result = call.ask
        self._start_soon(call.run, work)
        return await self._advance(call)

    async def resume(self, params: types.CallToolRequestParams, digest: str, context: Request) -> Answer:
        """Continue the call that the client makes again with answers. Raises `MCPError` where no such call is open."""
        state = params.request_state or ""
        call = self._calls.get(state)
        if call is not None and call.digest == digest and await self._withdraw(state):
            call.client.context = context
            call.take(params.input_responses or {})
            return await self._advance(call)
        if self._exchange is not None and (answer := await self._exchange.answer(params, digest)) is not None:
            return answer
        text = f"'{params.name}' was not run: the answer belongs to no call that is open. Call it anew."
        raise MCPError(types.INVALID_PARAMS, text)

    async def _withdraw(self, state: str) -> bool:
        """Let nobody else answer the questions of this state; False where they were answered meanwhile,
        here or at another gateway."""
        if self._exchange is not None and not await self._exchange.withdraw(state):
            return False
        return self._calls.pop(state, None) is not None

    async def _advance(self, call: OpenCall) -> Answer:
        """Wait for the call's next questions, or its result."""
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
        if self._exchange is not None:
            try:
                await self._exchange.offer(state, call.digest)
            except BaseException:
                call.scope.cancel()
                raise
            self._start_soon(self._serve_other_gateway, self._exchange, state, call)
        self._calls[state] = call
        if len(self._calls) > MOST_OPEN:
            self._calls.pop(next(iter(self._calls))).scope.cancel()
        return types.InputRequiredResult(input_requests=dict(questions), request_state=state)

    async def _serve_other_gateway(self, exchange: CallExchange, state: str, call: OpenCall) -> None:
        """Continue a call whose answers come to another gateway."""
        try:
            while not call.is_over and self._calls.get(state) is call:
                await anyio.sleep(POLL)
                if (answers := await exchange.answers(state)) is not None:
                    self._calls.pop(state, None)
                    call.take(answers)
                    await self._reply(exchange, state, call)
                    return
            self._calls.pop(state, None)
            await exchange.withdraw(state)
        except StoreError as problem:
            logger.warning("a call that waits for its client cannot be gone on with at another gateway: %s", problem)

    async def _reply(self, exchange: CallExchange, state: str, call: OpenCall) -> None:
        async def end_with_client() -> None:
            await exchange.wait_for(state, "gone")  # its client has cancelled the request there
            answering.cancel_scope.cancel()

        answer: Answer | None = None
        async with anyio.create_task_group() as answering:
            answering.start_soon(end_with_client)
            try:
                answer = await self._advance(call)
            except Exception as problem:
                answer = error(f"it was not run: {describe(problem)}")
            answering.cancel_scope.cancel()
            with anyio.CancelScope(shield=True):
                await exchange.reply(state, answer)
        has_arrived = answer is not None and await exchange.wait_for_arrival(state)
        if answer is not None and (confirm := self._undelivered.take(answer)) is not None:
            confirm(arrived=has_arrived)
        await exchange.forget(state)


@final
@dataclass(eq=False)
class CallExchange:
    """The entries that the gateways of a shared session write for each other about its open calls, under the state of
    each.

    An entry has these fields, one after the other: `part`, the id of the session's part at the gateway that makes the
    call, and `same`, the digest of name and arguments; `answers`, which the other gateway was given; `gone`, once the
    client has cancelled there; `kind` and `reply`, the next questions or the result; `arrived`, once the client has
    them.
    """

    _deployment: Deployment
    _session_id: str
    # The id of this gateway's part of the session.
    _stored_id: str
    _start_soon: Callable[..., Any]
    _undelivered: Undelivered

    # At the gateway that makes the call

    async def offer(self, state: str, digest: str) -> None:
        """Let another gateway answer the questions of this state."""
        await self._deployment.store.set_value(CALLS, self._key(state), {"part": self._stored_id, "same": digest})

    async def withdraw(self, state: str) -> bool:
        """Let no other gateway answer any more; False where one has answered."""
        stored = await self._read(state)
        is_open = stored is not None and "answers" not in stored
        return is_open and await self._deployment.store.change_value(CALLS, self._key(state), stored, None)

    async def answers(self, state: str) -> Mapping[str, types.InputResponse] | None:
        """The answers that another gateway was given; None while there are none."""
        stored = await self._read(state)
        return _ANSWERS.validate_python(stored["answers"]) if stored and "answers" in stored else None

    async def reply(self, state: str, answer: Answer) -> None:
        """Give the other gateway the call's next questions, or its result."""
        kind = "input_required" if isinstance(answer, types.InputRequiredResult) else "complete"
        content = answer.model_dump(mode="json", by_alias=True, exclude_none=True)
        await self._add(state, kind=kind, reply=content)

    async def wait_for_arrival(self, state: str) -> bool:
        """Wait until the client has the reply; False where it does not take it while the reply is kept."""
        with anyio.move_on_after(REPLY_KEPT):
            return await self.wait_for(state, "arrived")
        return False

    async def forget(self, state: str) -> None:
        """Remove the entry."""
        await self._deployment.store.delete_value(CALLS, self._key(state))

    # At the gateway that the answers come to

    async def answer(self, params: types.CallToolRequestParams, digest: str) -> Answer | None:
        """Give the client's answers to the gateway that makes its call, and wait for the reply; None where no such
        call is open."""
        state = params.request_state or ""
        given = _ANSWERS.dump_python(dict(params.input_responses or {}), mode="json", by_alias=True, exclude_none=True)

        def add_answers(stored: Any) -> tuple[Any, bool]:
            if stored is None or stored["same"] != digest:
                return stored, False
            return {"answers": given, **stored}, True

        if not await change(self._deployment.store, CALLS, self._key(state), add_answers):
            return None
        try:
            reply = await self._wait_for_reply(state, params.name)
        except anyio.get_cancelled_exc_class():
            with anyio.CancelScope(shield=True):
                await self._add(state, gone=True)
            raise
        self._undelivered.add(reply, partial(self._confirm, state))
        return reply

    def _confirm(self, state: str, *, arrived: bool = True) -> None:
        """Tell the gateway that makes the call that the client has the reply."""
        if arrived:
            self._start_soon(self._write_arrival, state)

    async def _write_arrival(self, state: str) -> None:
        try:
            await self._add(state, arrived=True)
        except StoreError as problem:
            logger.warning("another gateway cannot be told that its client has a result: %s", problem)

    async def _wait_for_reply(self, state: str, name: str) -> Answer:
        is_alive = True
        while True:
            stored = await self._read(state)
            if stored is not None and "reply" in stored:
                return _REPLIES[stored["kind"]].model_validate(stored["reply"])
            if stored is None or not is_alive:
                return error(
                    f"'{name}' began at another gateway, which has ended: it may have taken effect. Look before you "
                    "call it again."
                )
            is_alive = (await self._deployment.list_held(stored["part"])).get(stored["part"], False)
            if is_alive:
                await anyio.sleep(POLL)

    def _key(self, state: str) -> str:
        return f"{self._session_id}/{state}"

    async def _read(self, state: str) -> Any:
        return await self._deployment.store.get_value(CALLS, self._key(state))

    async def _add(self, state: str, **fields: Any) -> None:
        """Add to an entry, if it is still there."""
        store = self._deployment.store
        await change(store, CALLS, self._key(state), lambda stored: (stored and {**stored, **fields}, None))

    async def wait_for(self, state: str, field_name: str) -> bool:
        """Wait until an entry has a field; False once the entry is gone."""
        while True:
            stored = await self._read(state)
            if stored is None or field_name in stored:
                return stored is not None
            await anyio.sleep(POLL)
