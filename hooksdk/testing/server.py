"""A scripted provider on loopback: what a real client of OpenAI's, Anthropic's or Gemini's API is tested against, offline.

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

import concurrent.futures
import contextlib
import inspect
import json
import select
import socket
import socketserver
import sys
import threading
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count
from types import TracebackType
from typing import Any, Literal, Self, cast, final

import anyio
import anyio.from_thread
import anyio.to_thread

from hooksdk.costs import MarkedCache, PrefixCache, PromptCache
from hooksdk.formats import FORMATS, Message, get_format
from hooksdk.formats.prompt_cache import request_blocks
from hooksdk.testing._model import Answer, Reply, Turn, as_reply, read_turn
from hooksdk.testing._wire import (
    answer_body,
    answer_events,
    calls_in,
    error_body,
    error_event,
    own_messages,
    sent_messages,
)
from hooksdk.testing._wire_refusals import refusal_of

__all__ = ["Fault", "ScriptedServer", "SeenRequest", "ServerScript", "cut", "garble", "hang", "interrupt", "refuse"]

_FORMATS = {
    "/v1/chat/completions": "openai-chat",
    "/v1/responses": "openai-responses",
    "/v1/messages": "anthropic",
    ":generateContent": "gemini",
    ":streamGenerateContent": "gemini",
}
"""The format by the path, or by what ends it."""
_POLL_INTERVAL = 0.02
"""Seconds between two checks whether a client is still there, or an answer."""


@dataclass(frozen=True, kw_only=True)
class Fault:
    """Something that goes wrong; made by `refuse`, `interrupt`, `hang`, `cut` and `garble`."""

    kind: Literal["refuse", "interrupt", "hang", "cut", "garble"]
    answer: Answer | Message | Sequence[Message] = ""
    """What the server was about to say."""
    status: int = 200
    retry_after: float | str | None = None
    text: str = ""
    code: str | None = None


def refuse(
    status: int, retry_after: float | str | None = None, text: str = "Refused by the script.", code: str | None = None
) -> Fault:
    """An error with this HTTP status, such as 429 for a rate limit or 529 for an overload. `retry_after` is in seconds; a
    text, such as a date, is sent as it is. `code` is OpenAI's name for the case, such as `insufficient_quota`."""
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
"""As for `ScriptedModel`; an answer may also be a whole message in the provider's shape, a list of Responses' items, or a
`Fault`."""


@dataclass(frozen=True, kw_only=True)
class SeenRequest:
    """One request as it came in."""

    path: str
    body: dict[str, Any]
    size: int
    """Bytes of the body."""
    headers: Mapping[str, str] = field(repr=False)
    """By lower-case name."""


@final
class ScriptedServer:
    """OpenAI's `/v1/chat/completions` and `/v1/responses`, Anthropic's `/v1/messages` and Gemini's `generateContent`,
    streamed or not, answered by a script.

    The script is that of a `ScriptedModel`: a function of the `Turn`, or a list of answers. A plain function is called in
    a thread of the server, one call at a time; an async one in the event loop of the test, asyncio's or trio's. It may
    also answer with a `Fault`, or with a whole message in the provider's shape: of Responses an item, a list of them, or a
    whole `response`. An exception that it raises reaches the client as status 400, and raised again when the `async with`
    block ends without an error of its own. What OpenAI is known to refuse at `/v1/responses`, and Anthropic where tools are hidden, is
    refused, in their words where these are known.

    Where a reply names no usage, its prompt is counted as the provider's cache would (`hooksdk.costs`): what it held and took.

    It listens on 127.0.0.1 and a free port. Leaving the block ends every connection and thread.
    """

    def __init__(self, script: ServerScript) -> None:
        self.requests: list[SeenRequest] = []
        """Every request so far."""
        self.turns: list[Turn] = []
        """The same, as the script sees them."""
        self._script = script
        self._caches: dict[str, PromptCache] = {
            name: MarkedCache() if name == "anthropic" else PrefixCache() for name in FORMATS
        }
        self._errors: list[Exception] = []
        self._next_id: Callable[[], str] = map("c{}".format, count(1)).__next__
        self._one_at_a_time = threading.Lock()
        self._portal = anyio.from_thread.BlockingPortal()
        self._http: _Http | None = None
        self._listener: threading.Thread | None = None

    @property
    def url(self) -> str:
        """Where it listens, such as `http://127.0.0.1:40123`."""
        assert self._http is not None, "the server listens inside `async with` only"
        return f"http://127.0.0.1:{self._http.server_port}"

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

    @property
    def connections(self) -> int:
        """How many connections are open."""
        return 0 if self._http is None else len(self._http.open)

    async def __aenter__(self) -> Self:
        await self._portal.__aenter__()
        self._http = _Http(self._answer)
        self._listener = threading.Thread(target=self._http.serve_forever, kwargs={"poll_interval": _POLL_INTERVAL})
        self._listener.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._http is not None
        self._http.over.set()
        with anyio.CancelScope(shield=True):
            # The portal last: a thread that hands it a script while it closes would wait for ever.
            await anyio.to_thread.run_sync(self._close)
            await self._portal.stop(cancel_remaining=True)
        await self._portal.__aexit__(None, None, None)
        if error is None and self._errors:
            raise self._errors[0]

    def _close(self) -> None:
        assert self._http is not None
        assert self._listener is not None
        self._http.shutdown()
        self._listener.join()
        self._http.end_connections()
        self._http.server_close()
        self._errors += self._http.errors

    def _answer(self, request: SeenRequest, format_name: str) -> tuple[Fault | None, dict[str, Any]]:
        """The fault, if there is one, and the body that goes out, or would."""
        message_format = get_format(format_name)
        with self._one_at_a_time:
            self.requests.append(request)
            if refusal := refusal_of(format_name, request.body, request.headers):
                return refuse(refusal.status), error_body(format_name, 400, refusal.text, refusal.code, refusal.param)
            messages = sent_messages(format_name, request.body)
            turn = read_turn(message_format, len(self.turns) + 1, messages, request.body.get("tools") or ())
            self.turns.append(turn)
            try:
                answer = self._ask(turn)
            except Exception as error:
                if self._http is not None and not self._http.over.is_set():
                    self._errors.append(error)
                answer = refuse(400, text=f"The script raised {type(error).__name__}: {error}")
            fault, answer = (answer, answer.answer) if isinstance(answer, Fault) else (None, answer)
            if fault and fault.kind == "refuse":
                return fault, error_body(format_name, fault.status, fault.text, fault.code)
            own = own_messages(answer)
            reply = Reply() if own else as_reply(cast("Answer", answer))
            calls = calls_in(reply, turn, request.body, format_name, self._next_id)
            messages = own or message_format.reply_messages(reply.text, calls)
            used = self._caches[format_name].send(request_blocks(format_name, request.body))
            return fault, answer_body(
                format_name, request.body, messages, turn.number, reply.usage, reply.stop_reason, used
            )

    def _ask(self, turn: Turn) -> ServerAnswer:
        if not callable(self._script):
            problem = f"the script has {len(self._script)} replies, and the server was asked for number {turn.number}"
            assert turn.number <= len(self._script), problem
            return self._script[turn.number - 1]
        answer = self._script(turn)
        return self._wait_for(answer) if inspect.isawaitable(answer) else answer

    def _wait_for(self, answer: Awaitable[ServerAnswer]) -> ServerAnswer:
        assert self._http is not None
        task = self._portal.start_task_soon(_await, answer)
        while not task.done() and not self._http.over.is_set():
            concurrent.futures.wait([task], _POLL_INTERVAL)
        if not task.done():
            task.cancel()
        return task.result()


async def _await(answer: Awaitable[ServerAnswer]) -> ServerAnswer:
    return await answer


_Answering = Callable[[SeenRequest, str], tuple[Fault | None, dict[str, Any]]]


class _Http(ThreadingHTTPServer):
    """The listening socket, its threads and its connections."""

    daemon_threads = False
    request_queue_size = 64

    def __init__(self, answer: _Answering) -> None:
        self.answer = answer
        self.over = threading.Event()
        self.open: set[socket.socket] = set()
        self.errors: list[Exception] = []
        super().__init__(("127.0.0.1", 0), _Handler)

    def server_bind(self) -> None:
        # Not HTTPServer's, which asks the name service for the host's name.
        socketserver.TCPServer.server_bind(self)
        self.server_port: int = self.server_address[1]

    def process_request(self, request: Any, client_address: Any) -> None:
        self.open.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        self.open.discard(request)
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:  # noqa: ARG002 - the base's signature
        error = sys.exception()
        if isinstance(error, Exception) and not isinstance(error, OSError):
            self.errors.append(error)

    def end_connections(self) -> None:
        for connection in list(self.open):
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: _Http  # pyright: ignore[reportIncompatibleVariableOverride] - the base knows no server but its own

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base's word
        """Print nothing."""

    def do_POST(self) -> None:
        raw = self.rfile.read(int(self.headers.get("content-length", "0")))
        path = self.path.partition("?")[0]
        format_name = _FORMATS.get(path) or _FORMATS.get(path[path.rfind(":") :])
        if format_name is None:
            self._send_json(error_body("openai-chat", 404, f"There is nothing at {path}."), 404)
            return
        try:
            body: Any = json.loads(raw)
        except ValueError as error:
            self._send_json(error_body(format_name, 400, f"The body is no JSON: {error}"), 400)
            return
        headers = {name.lower(): value for name, value in self.headers.items()}
        fault, answer = self.server.answer(
            SeenRequest(path=path, body=body, size=len(raw), headers=headers), format_name
        )
        streamed = body.get("stream") is True or path.endswith(":streamGenerateContent")
        if self.server.over.is_set():
            self.close_connection = True
        elif fault and fault.kind == "refuse":
            self._send_json(answer, fault.status, fault.retry_after)
        elif fault and fault.kind == "interrupt" and not streamed:
            self._send_json(error_body(format_name, fault.status, fault.text), fault.status)
        elif streamed:
            self._send_events(answer_events(format_name, body, answer), fault, format_name)
        else:
            self._send_whole(answer, fault)

    def _send_json(self, body: dict[str, Any], status: int, retry_after: float | str | None = None) -> None:
        text = json.dumps(body).encode()
        self._send_head(status, "application/json", {"Content-Length": str(len(text))}, retry_after)
        self.wfile.write(text)

    def _send_whole(self, body: dict[str, Any], fault: Fault | None) -> None:
        if fault is None:
            self._send_json(body, 200)
            return
        if fault.kind == "hang":
            self._wait()
            return
        text = json.dumps(body).encode()
        half = text[: len(text) // 2]
        # Cut off, the answer is shorter than it said; garbled, it is as long as it said.
        size = len(text) if fault.kind == "cut" else len(half)
        self._send_head(200, "application/json", {"Content-Length": str(size)})
        self.wfile.write(half)
        self.close_connection = fault.kind == "cut"

    def _send_events(self, events: Sequence[str], fault: Fault | None, format_name: str) -> None:
        self._send_head(200, "text/event-stream", {"Transfer-Encoding": "chunked", "Cache-Control": "no-cache"})
        middle = len(events) // 2
        for event in events if fault is None else events[:middle]:
            self._send_chunk(event)
        if fault and fault.kind == "hang":
            self._wait()
        elif fault and fault.kind == "cut":
            self.close_connection = True
        else:
            if fault and fault.kind == "interrupt":
                self._send_chunk(error_event(format_name, error_body(format_name, fault.status, fault.text)))
            elif fault:
                self._send_chunk(events[middle][: -(len(events[middle]) // 3)] + "\n\n")
            self.wfile.write(b"0\r\n\r\n")

    def _send_head(
        self, status: int, kind: str, more: Mapping[str, str], retry_after: float | str | None = None
    ) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        if retry_after is not None:
            self.send_header("Retry-After", retry_after if isinstance(retry_after, str) else f"{retry_after:g}")
        for name, value in more.items():
            self.send_header(name, value)
        self.end_headers()

    def _send_chunk(self, text: str) -> None:
        raw = text.encode()
        self.wfile.write(b"%x\r\n%b\r\n" % (len(raw), raw))

    def _wait(self) -> None:
        """Wait until the client or the server goes away."""
        self.close_connection = True
        while not self.server.over.is_set():
            readable, _, _ = select.select([self.connection], [], [], _POLL_INTERVAL)
            if readable and not self.connection.recv(1, socket.MSG_PEEK):
                return
