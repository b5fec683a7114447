"""Where the browser comes back to: a listener on this machine alone, and the address that it brings."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any, final
from urllib.parse import parse_qs, urlsplit

import anyio
from anyio.abc import SocketAttribute, SocketStream

from hooksdk.mcp.sign_in._store import CALLBACK_PATH, SignInProblem

# Bytes of a request that are read.
_LONGEST_HEAD = 16_384
# Seconds for a browser's request.
_PATIENCE = 10.0
_PAGE = (
    '<!doctype html><html lang="en"><meta charset="utf-8"><title>hooksdk</title>'
    '<body style="font-family: sans-serif; margin: 3em"><p>{}</p>'
)


def answer_of(address: str, state: str) -> Mapping[str, str]:
    """The fields of an address that the browser came back with. Raises `SignInProblem` for one of another sign-in, and
    for a refusal."""
    fields = {name: values[0] for name, values in parse_qs(urlsplit(address.strip()).query).items()}
    if fields.get("state") != state:
        raise SignInProblem(
            "the address belongs to another sign-in: its state is not the one that was sent. Begin anew"
        )
    if problem := fields.get("error"):
        about = fields.get("error_description", "")
        said = "the person said no" if problem == "access_denied" else f"the server says {problem}"
        raise SignInProblem(f"{said}{f' ({about})' if about else ''}")
    if not fields.get("code"):
        raise SignInProblem("the address has no code: copy the whole address that the browser was sent to")
    return fields


@final
class Pasted:
    """The same of a browser elsewhere, whose person copies the address that it was sent to."""

    def __init__(self, redirect: str, paste: Callable[[], Awaitable[str]]) -> None:
        self.redirect = redirect
        self._paste = paste
        self._state = ""

    def expect(self, state: str) -> None:
        """Take the answer to the page of this state."""
        self._state = state

    async def answer(self) -> Mapping[str, str]:
        """What was copied. Raises `SignInProblem`."""
        return answer_of(await self._paste(), self._state)


@final
class Listener:
    """Waits for the browser.

    Attributes:
        redirect: The address that the browser is to come back to.
    """

    def __init__(self, redirect: str) -> None:
        self.redirect = redirect
        self._path = urlsplit(redirect).path or "/"
        self._state = ""
        self._address: str | None = None
        self._news = anyio.Event()

    def expect(self, state: str) -> None:
        """Take the answer to the page of this state; to be said before the page is shown."""
        self._state = state

    async def answer(self) -> Mapping[str, str]:
        """What the browser brings back. Raises `SignInProblem`."""
        await self._news.wait()
        return answer_of(self._address or "", self._state)

    async def serve(self, stream: SocketStream) -> None:
        """One request."""
        async with stream:
            with contextlib.suppress(anyio.BrokenResourceError, anyio.EndOfStream), anyio.move_on_after(_PATIENCE):
                head = b""
                while b"\r\n\r\n" not in head and len(head) < _LONGEST_HEAD:
                    head += await stream.receive(4096)
                status, text = self._reply(head.partition(b"\r\n")[0].decode("latin-1"))
                page = _PAGE.format(text).encode()
                lines = (
                    f"HTTP/1.1 {status}\r\nContent-Type: text/html; charset=utf-8\r\nContent-Length: {len(page)}\r\n"
                    "Cache-Control: no-store\r\nReferrer-Policy: no-referrer\r\nConnection: close\r\n\r\n"
                )
                await stream.send(lines.encode() + page)

    def _reply(self, line: str) -> tuple[str, str]:
        method, _, rest = line.partition(" ")
        target = rest.partition(" ")[0]
        if method != "GET" or urlsplit(target).path != self._path:
            return "404 Not Found", "There is nothing here."
        state = parse_qs(urlsplit(target).query).get("state", [""])[0]
        if not self._state or state != self._state:  # another page's: who is waited for may still come
            return "400 Bad Request", "This belongs to no sign-in that is waited for here. Begin anew in the program."
        if self._address is None:
            self._address = target
            self._news.set()
        return "200 OK", "The program goes on now. You can close this page."


@asynccontextmanager
async def listening(redirect: str, port: int | None) -> AsyncGenerator[Listener]:
    """A listener at the address, or at `http://localhost:PORT/callback` where none is given; without a port at any that
    is free. Raises `SignInProblem` for a port that another program has."""
    wanted = urlsplit(redirect).port if redirect else port
    host, other = "127.0.0.1", "::1"
    listeners: list[Any] = []
    try:
        first = await anyio.create_tcp_listener(local_host=host, local_port=wanted or 0)
    except OSError as error:
        raise SignInProblem(
            f"port {wanted} of this machine, to which the browser would come back, cannot be had "
            f"({error.strerror or error}): end what has it, or give another as 'callbackPort'"
        ) from None
    listeners.append(first)
    bound: int = first.extra(SocketAttribute.local_port)  # noqa: S610 - no database
    with contextlib.suppress(OSError):  # a machine without it; browsers may take either for localhost
        listeners.append(await anyio.create_tcp_listener(local_host=other, local_port=bound))
    listener = Listener(redirect or f"http://localhost:{bound}{CALLBACK_PATH}")
    problem: Exception | None = None
    try:
        async with anyio.create_task_group() as group:
            for one in listeners:
                group.start_soon(one.serve, listener.serve)
            try:
                yield listener
            except Exception as error:  # not wrapped in a group's
                problem = error
            group.cancel_scope.cancel()
        if problem is not None:
            raise problem
    finally:
        with anyio.CancelScope(shield=True):
            for one in listeners:
                await one.aclose()


def is_free(port: int) -> bool:
    """True where this machine's port can be had now."""
    with contextlib.suppress(OSError), socket.create_server(("127.0.0.1", port)):
        return True
    return False


def free_port() -> int:
    """A port of this machine that nobody has now."""
    with socket.create_server(("127.0.0.1", 0)) as one:
        return one.getsockname()[1]
