"""A scripted provider on loopback: what a real client of OpenAI's, Anthropic's or Gemini's API is tested against,
offline.

```python
import anyio

from hooksdk.agent import run_agent
from hooksdk.models.openai import OpenAIModel
from hooksdk.testing import open_session
from hooksdk.testing.server import ScriptedServer

async def main() -> None:
    async with open_session() as session, ScriptedServer(["Hello."]) as server:
        model = OpenAIModel("any", base_url=server.openai_url, api_key="none")
        outcome = await run_agent(session, model, "Say hello.")
    assert outcome.text == "Hello."
    assert server.requests[0].body["model"] == "any"

anyio.run(main)
```
"""

from __future__ import annotations

import asyncio
import inspect
import json
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import ExitStack, asynccontextmanager
from dataclasses import dataclass, field
from itertools import count
from types import TracebackType
from typing import Any, Literal, Self, cast, final

import anyio
import anyio.from_thread
import anyio.to_thread
from anyio.abc import SocketAttribute, SocketStream
from anyio.streams.buffered import BufferedByteReceiveStream

from hooksdk.costs import MarkedCache, PrefixCache, PromptCache
from hooksdk.formats import FORMATS, Message, get_format
from hooksdk.formats.prompt_cache import request_blocks
from hooksdk.testing import _wire
from hooksdk.testing._model import Answer, Reply, Turn, as_reply, read_turn
from hooksdk.testing._wire_refusals import refusal_of

__all__ = ["Fault", "ScriptedServer", "SeenRequest", "ServerScript", "cut", "garble", "hang", "interrupt", "refuse"]

# The format by the path, or by what ends it.
_FORMATS = {
    "/v1/chat/completions": "openai-chat",
    "/v1/responses": "openai-responses",
    "/v1/messages": "anthropic",
    ":generateContent": "gemini",
    ":streamGenerateContent": "gemini",
}
# Bytes that the headers of a request may have.
_LONGEST_HEAD = 65536


@dataclass(frozen=True, kw_only=True)
class Fault:
    """Something that goes wrong; made by `refuse`, `interrupt`, `hang`, `cut` and `garble`.

    Attributes:
        answer: The answer that the fault breaks off.
    """

    kind: Literal["refuse", "interrupt", "hang", "cut", "garble"]
    answer: Answer | Message | Sequence[Message] = ""
    status: int = 200
    retry_after: float | str | None = None
    text: str = ""
    code: str | None = None


def refuse(
    status: int, retry_after: float | str | None = None, text: str = "Refused by the script.", code: str | None = None
) -> Fault:
    """An error with this HTTP status, such as 429 for a rate limit or 529 for an overload. `retry_after` is in seconds;
    a text, such as a date, is sent as it is. `code` is OpenAI's name for the case, such as `insufficient_quota`."""
    return Fault(kind="refuse", status=status, retry_after=retry_after, text=text, code=code)


def interrupt(answer: Answer | Message = "This is interrupted.", status: int = 529, text: str = "Overloaded.") -> Fault:
    """A stream that begins with `answer` and goes on with an error; without a stream as `refuse`."""
    return Fault(kind="interrupt", answer=answer, status=status, text=text)


def hang(answer: Answer | Message = "") -> Fault:
    """No answer, until the client goes away. A stream begins with `answer` and stops before its end."""
    return Fault(kind="hang", answer=answer)


def cut(answer: Answer | Message = "This is cut off.") -> Fault:
    """The connection is closed in the middle of the answer, streamed or not."""
    return Fault(kind="cut", answer=answer)


def garble(answer: Answer | Message = "This is garbled.") -> Fault:
    """An answer whose JSON is broken; in a stream one event of it."""
    return Fault(kind="garble", answer=answer)


ServerAnswer = Answer | Message | Sequence[Message] | Fault
ServerScript = Callable[[Turn], ServerAnswer | Awaitable[ServerAnswer]] | Sequence[ServerAnswer]
"""As for `ScriptedModel`; an answer may also be a whole message in the provider's shape, a list of Responses' items, or
a `Fault`."""


@dataclass(frozen=True, kw_only=True)
class SeenRequest:
    """One request as it came in.

    Attributes:
        size: Bytes of the body.
        headers: By lower-case name.
    """

    path: str
    body: dict[str, Any]
    size: int
    headers: Mapping[str, str] = field(repr=False)


@final
class ScriptedServer:
    """OpenAI's `/v1/chat/completions` and `/v1/responses`, Anthropic's `/v1/messages` and Gemini's `generateContent`,
    streamed or not, answered by a script.

    The script is that of a `ScriptedModel`: a function of the `Turn`, or a list of answers. A plain function is called
    in a thread of the server, one call at a time; an async one in the event loop of the test, asyncio's or trio's. It
    may also answer with a `Fault`, or with a whole message in the provider's shape: of Responses an item, a list of
    them, or a whole `response`. An exception that it raises reaches the client as status 400, and raised again when the
    `async with` block ends without an error of its own. What OpenAI is known to refuse at `/v1/responses`, and
    Anthropic where tools are hidden, is refused, in their words where these are known.

    Where a reply names no usage, its prompt is counted as the provider's cache would (`hooksdk.costs`): what it held
    and took.

    It listens on 127.0.0.1 and a free port. Leaving the block ends every connection and thread.

    Attributes:
        requests: Every request so far.
        turns: The same, as the script sees them.
        connections: How many connections are open.
    """

    def __init__(self, script: ServerScript) -> None:
        self.requests: list[SeenRequest] = []
        self.turns: list[Turn] = []
        self._script = script
        self._caches: dict[str, PromptCache] = {
            name: MarkedCache() if name == "anthropic" else PrefixCache() for name in FORMATS
        }
        self.connections = 0
        self._errors: list[Exception] = []
        self._next_id: Callable[[], str] = map("c{}".format, count(1)).__next__
        # The event loop of the test. The server has one of its own in another thread, so that plain clients may block
        # this one.
        self._portal = anyio.from_thread.BlockingPortal()
        self._one_at_a_time = asyncio.Lock()
        self._closing: ExitStack | None = None
        self._port = 0

    @property
    def url(self) -> str:
        """Where it listens, such as `http://127.0.0.1:40123`."""
        assert self._port, "the server listens inside `async with` only"
        return f"http://127.0.0.1:{self._port}"

    @property
    def openai_url(self) -> str:
        """The `base_url` for OpenAI's SDK."""
        return f"{self.url}/v1"

    @property
    def anthropic_url(self) -> str:
        """The `base_url` for Anthropic's SDK."""
        return self.url

    @property
    def gemini_url(self) -> str:
        """The `base_url` for Google's SDK."""
        return self.url

    async def __aenter__(self) -> Self:
        await self._portal.__aenter__()
        await anyio.to_thread.run_sync(self._open)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._closing is not None
        with anyio.CancelScope(shield=True):
            await anyio.to_thread.run_sync(self._closing.close)
            await self._portal.stop(cancel_remaining=True)
        await self._portal.__aexit__(None, None, None)
        if error is None and self._errors:
            raise self._errors[0]

    def _open(self) -> None:
        with ExitStack() as stack:
            thread = stack.enter_context(anyio.from_thread.start_blocking_portal(name="scripted server"))
            self._port = stack.enter_context(thread.wrap_async_context_manager(self._listen()))
            self._closing = stack.pop_all()

    @asynccontextmanager
    async def _listen(self) -> AsyncGenerator[int]:
        listener = await anyio.create_tcp_listener(local_host="127.0.0.1")
        async with listener, anyio.create_task_group() as group:
            group.start_soon(listener.serve, self._serve, group)
            yield listener.extra(SocketAttribute.local_port)  # noqa: S610 - not Django's
            group.cancel_scope.cancel()

    async def _serve(self, stream: SocketStream) -> None:
        self.connections += 1
        try:
            async with stream:
                connection = _Connection(stream, self._answer)
                while await connection.answer_next():
                    pass
        except (OSError, anyio.EndOfStream, anyio.BrokenResourceError, anyio.IncompleteRead):
            pass  # the client is gone
        except Exception as error:
            self._errors.append(error)
        finally:
            self.connections -= 1

    async def _answer(self, request: SeenRequest, format_name: str) -> tuple[Fault | None, dict[str, Any]]:
        """The fault, if there is one, and the body that goes out, or would."""
        message_format = get_format(format_name)
        async with self._one_at_a_time:
            self.requests.append(request)
            if refusal := refusal_of(format_name, request.body, request.headers):
                return refuse(refusal.status), _wire.error_body(
                    format_name, 400, refusal.text, refusal.code, refusal.param
                )
            messages = _wire.sent_messages(format_name, request.body)
            turn = read_turn(message_format, len(self.turns) + 1, messages, request.body.get("tools") or ())
            self.turns.append(turn)
            try:
                answer = await self._ask(turn)
            except Exception as error:
                self._errors.append(error)
                answer = refuse(400, text=f"The script raised {type(error).__name__}: {error}")
            fault, answer = (answer, answer.answer) if isinstance(answer, Fault) else (None, answer)
            if fault and fault.kind == "refuse":
                return fault, _wire.error_body(format_name, fault.status, fault.text, fault.code)
            own = _wire.own_messages(answer)
            reply = Reply() if own else as_reply(cast("Answer", answer))
            calls = _wire.calls_in(reply, turn, request.body, format_name, self._next_id)
            messages = own or message_format.reply_messages(reply.text, calls)
            used = self._caches[format_name].send(request_blocks(format_name, request.body))
            return fault, _wire.answer_body(
                format_name, request.body, messages, turn.number, reply.usage, reply.stop_reason, used
            )

    async def _ask(self, turn: Turn) -> ServerAnswer:
        if not callable(self._script):
            problem = f"the script has {len(self._script)} replies, and the server was asked for number {turn.number}"
            assert turn.number <= len(self._script), problem
            return self._script[turn.number - 1]
        answer = await anyio.to_thread.run_sync(self._script, turn, abandon_on_cancel=True)
        if inspect.isawaitable(answer):
            return await asyncio.wrap_future(self._portal.start_task_soon(_await, answer))
        return answer


async def _await(answer: Awaitable[ServerAnswer]) -> ServerAnswer:
    return await answer


class _Connection:
    """A client's connection, on which one request follows the other."""

    def __init__(
        self, stream: SocketStream, answer: Callable[[SeenRequest, str], Awaitable[tuple[Fault | None, dict[str, Any]]]]
    ) -> None:
        self._stream, self._received = stream, BufferedByteReceiveStream(stream)
        self._answer = answer

    async def answer_next(self) -> bool:
        """Read a request and answer it. False when none may follow on this connection."""
        head = (await self._received.receive_until(b"\r\n\r\n", _LONGEST_HEAD)).decode("latin-1")
        first, *lines = head.split("\r\n")
        method, path, _ = first.split(" ", 2)
        path = path.partition("?")[0]
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        raw = await self._received.receive_exactly(int(headers.get("content-length", "0")))
        if method != "POST":
            await self._send_head(501, {"Content-Length": 0})
            return False
        goes_on = headers.get("connection", "").lower() != "close"
        format_name = _FORMATS.get(path) or _FORMATS.get(path[path.rfind(":") :])
        if format_name is None:
            await self._send_json(_wire.error_body("openai-chat", 404, f"There is nothing at {path}."), 404)
            return goes_on
        try:
            body: Any = json.loads(raw)
        except ValueError as error:
            await self._send_json(_wire.error_body(format_name, 400, f"The body is no JSON: {error}"), 400)
            return goes_on
        request = SeenRequest(path=path, body=body, size=len(raw), headers=headers)
        fault, answer = await self._answer(request, format_name)
        is_streamed = body.get("stream") is True or path.endswith(":streamGenerateContent")
        if fault and fault.kind == "refuse":
            await self._send_json(answer, fault.status, fault.retry_after)
        elif fault and fault.kind == "interrupt" and not is_streamed:
            await self._send_json(_wire.error_body(format_name, fault.status, fault.text), fault.status)
        elif is_streamed:
            await self._send_events(_wire.answer_events(format_name, body, answer), fault, format_name)
        else:
            await self._send_whole(answer, fault)
        return goes_on and (fault is None or fault.kind not in ("hang", "cut"))

    async def _send_json(self, body: dict[str, Any], status: int = 200, retry_after: float | str | None = None) -> None:
        text = json.dumps(body).encode()
        headers: dict[str, object] = {"Content-Type": "application/json", "Content-Length": len(text)}
        if retry_after is not None:
            headers["Retry-After"] = retry_after if isinstance(retry_after, str) else f"{retry_after:g}"
        await self._send_head(status, headers)
        await self._stream.send(text)

    async def _send_whole(self, body: dict[str, Any], fault: Fault | None) -> None:
        if fault is None:
            await self._send_json(body)
        elif fault.kind == "hang":
            await self._received.receive()  # until the client goes away, which raises
        else:
            text = json.dumps(body).encode()
            half = text[: len(text) // 2]
            # Cut off, the answer is shorter than it said; garbled, it is as long as it said.
            size = len(text) if fault.kind == "cut" else len(half)
            await self._send_head(200, {"Content-Type": "application/json", "Content-Length": size})
            await self._stream.send(half)

    async def _send_events(self, events: Sequence[str], fault: Fault | None, format_name: str) -> None:
        head = {"Content-Type": "text/event-stream", "Transfer-Encoding": "chunked", "Cache-Control": "no-cache"}
        await self._send_head(200, head)
        middle = len(events) // 2
        for event in events if fault is None else events[:middle]:
            await self._send_chunk(event)
        if fault and fault.kind == "hang":
            await self._received.receive()  # as above
        elif fault and fault.kind == "interrupt":
            await self._send_chunk(
                _wire.error_event(format_name, _wire.error_body(format_name, fault.status, fault.text))
            )
        elif fault and fault.kind == "garble":
            await self._send_chunk(events[middle][: -(len(events[middle]) // 3)] + "\n\n")
        if fault is None or fault.kind in ("interrupt", "garble"):
            await self._send_chunk("")

    async def _send_head(self, status: int, headers: Mapping[str, object]) -> None:
        lines = [f"HTTP/1.1 {status} ", *(f"{name}: {value}" for name, value in headers.items()), "", ""]
        await self._stream.send("\r\n".join(lines).encode("latin-1"))

    async def _send_chunk(self, text: str) -> None:
        """One piece of a stream; an empty one is its end."""
        raw = text.encode()
        await self._stream.send(b"%x\r\n%b\r\n" % (len(raw), raw))
