"""The transport to one MCP server: a child process or an HTTP endpoint, its stderr, and when it ends."""

from __future__ import annotations

import codecs
import importlib.metadata
import logging
import os
import re
import shutil
import sys
import threading
from collections.abc import AsyncGenerator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO, cast

import anyio
import httpx2
import mcp_types as types
from mcp.client.stdio import StdioServerParameters, get_default_environment, stdio_client
from mcp.client.streamable_http import streamable_http_client

from hooksdk.mcp._config import ServerSpec
from hooksdk.mcp._relay import sent_for
from hooksdk.mcp.sign_in._auth import SignedIn

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

logger = logging.getLogger("hooksdk")

# The name of the encoding that reads UTF-8 by whole lines.
ENCODING = "hooksdk-lines"

# Bytes of the end of a server's stderr that are kept.
_STDERR_BYTES = 4096

# The name of the server whose connection the current task serves; the SDK's own tasks inherit it.
serving: ContextVar[str] = ContextVar("hooksdk_mcp_serving", default="")


class NoiseFilter(logging.Filter):
    """Keeps the SDK from logging a traceback for each line that one of our servers prints beside the protocol.

    It is on the one logger that does so, and lets the records of other connections pass.
    """

    logger = logging.getLogger("mcp.client.stdio")

    def filter(self, record: logging.LogRecord) -> bool:
        name = serving.get()
        if not name or not str(record.msg).startswith("Failed to parse JSONRPC message"):
            return True
        logger.debug("MCP server '%s' printed a line that is not MCP to its stdout; it is ignored", name)
        return False


def one_line(text: str, limit: int = 300) -> str:
    """The end of a text as one line for a message: no colours, no control characters, at most `limit` characters.

    Of a traceback only the error is left.
    """
    plain = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]|\x1b\][^\x07]*\x07", "", text)
    lines = [line for line in plain.splitlines() if line.strip()]
    messages = [line for line in lines if not line.startswith((" ", "\t", "|", "Traceback (most recent"))]
    telling = (messages or lines)[-3:]
    if npm := [line for line in messages if re.match(r"npm (error|ERR!)\s+\S*\s*\D", line)]:
        telling = npm[:2]  # npm writes the cause first, and advice after it
    clean = [" ".join(re.sub(r"[^ -~\u00a0-\U0010ffff]", " ", line).split()) for line in telling]
    joined = " | ".join(clean)
    return joined if len(joined) <= limit else "..." + joined[-limit + 3 :]


def first_cause(error: BaseException) -> BaseException:
    """The first error inside a group of groups, or the error itself."""
    while isinstance(error, BaseExceptionGroup):
        error = cast("BaseExceptionGroup[BaseException]", error).exceptions[0]
    return error


class Transport:
    """Opens the connection to one server once. `signed_in` adds access tokens.

    Attributes:
        http_status: The HTTP status that refused the last request, such as `HTTP 401 Unauthorized`; empty where none
            did.
    """

    def __init__(self, spec: ServerSpec, signed_in: SignedIn | None = None) -> None:
        self._spec = spec
        self._signed_in = signed_in
        if signed_in is not None:
            signed_in.needs = ""  # of an earlier connection
        self._stderr = b""
        self._reader: threading.Thread | None = None
        self.http_status = ""

    @property
    def refusal(self) -> str:
        """The reason for which HTTP refused the last request: the status, and the problem of the sign-in."""
        problem = self._signed_in.problem if self._signed_in else ""
        return f"{self.http_status}: {problem}" if self.http_status and problem else self.http_status

    @property
    def needs_sign_in(self) -> str:
        """The reason for which a person must sign in, and what to type; empty where nobody must."""
        return self._signed_in.needs if self._signed_in else ""

    def open(self) -> AbstractAsyncContextManager[tuple[Any, Any]]:
        """The streams of the connection, for a `ClientSession`."""
        return self._http() if self._spec.url else self._stdio()

    @asynccontextmanager
    async def _stdio(self) -> AsyncGenerator[tuple[Any, Any]]:
        spec = self._spec
        folder = os.path.expanduser(spec.cwd) if spec.cwd else None  # noqa: ASYNC240, PTH111 - no file is touched
        if folder and not await anyio.Path(folder).is_dir():
            raise FileNotFoundError(f"the folder 'cwd' does not exist: {folder}")
        parameters = StdioServerParameters(
            command=resolve_command(spec),
            args=list(spec.args),
            env=dict(spec.env),
            cwd=folder,
            encoding=ENCODING,
            encoding_error_handler="replace",  # noise need not be UTF-8, and must not end the connection
        )
        errors = self._capture()
        try:
            try:
                opening = stdio_client(parameters, errlog=errors)
                async with opening as streams:
                    errors.close()  # the child has its own copy, so that the reader sees the end when it dies
                    yield streams
            except FileNotFoundError:
                program, blank, _ = spec.command.partition(" ")
                advice = "install it, or give its full path"
                if blank and shutil.which(program):
                    advice = f"'command' is the program alone, here '{program}': put the rest into 'args'"
                raise FileNotFoundError(f"the command '{spec.command}' was not found; {advice}") from None
        finally:
            errors.close()

    @asynccontextmanager
    async def _http(self) -> AsyncGenerator[tuple[Any, Any]]:
        async def note(response: httpx2.Response) -> None:
            if response.request.method == "POST":
                status = f"HTTP {response.status_code} {response.reason_phrase}"
                self.http_status = status if response.status_code >= 400 else ""

        async def trace(request: httpx2.Request) -> None:
            call = sent_for.get()

            async def note_sent(step: str, about: Mapping[str, Any]) -> None:
                # A proxy's own CONNECT comes before; it carries nothing.
                if call is not None and step.endswith("send_request_headers.started"):
                    call.is_sent = call.is_sent or about["request"].method == b"POST"

            request.extensions["trace"] = note_sent

        async with (
            httpx2.AsyncClient(
                headers=dict(self._spec.headers),
                auth=self._signed_in,
                timeout=httpx2.Timeout(30.0, read=300.0),
                event_hooks={"request": [trace], "response": [note]},
            ) as client,
            streamable_http_client(self._spec.url, http_client=client) as streams,
        ):
            yield streams

    def _capture(self) -> TextIO:
        """The file that the child writes its stderr to. A thread reads the other end, which works on every system."""
        read_end, write_end = os.pipe()

        def keep() -> None:
            try:
                while chunk := os.read(read_end, 65536):
                    self._stderr = (self._stderr + chunk)[-_STDERR_BYTES:]
            finally:
                os.close(read_end)

        self._reader = threading.Thread(target=keep, name=f"stderr of MCP server {self._spec.name}", daemon=True)
        self._reader.start()
        return os.fdopen(write_end, "w", encoding="utf-8")

    async def last_words(self, patience: float = 0.3) -> str:
        """The end of what the server wrote to stderr, as one line; a dead server's last words are waited for a
        moment."""
        deadline = anyio.current_time() + patience
        reader = self._reader
        while reader is not None and reader.is_alive() and anyio.current_time() < deadline:  # noqa: ASYNC110 - a thread
            await anyio.sleep(0.01)
        return one_line(self._spec.redact(self._stderr.decode("utf-8", "replace")))


def resolve_command(spec: ServerSpec) -> str:
    """The command's path: on the server's PATH, else beside this Python, where a venv keeps its programs."""
    command = os.path.expanduser(spec.command)  # noqa: PTH111 - a command is no path
    path = (get_default_environment() | dict(spec.env)).get("PATH")
    beside = str(Path(sys.executable).parent)
    return shutil.which(command, path=path) or shutil.which(command, path=beside) or command


class LineDecoder(codecs.IncrementalDecoder):
    """UTF-8 that is read by whole lines. A line that never ends is never read.

    The SDK puts each piece of 64 kB behind the beginning of the line that it has so far, and looks for the end in all
    of it: the time for a line grows with the square of its length, and one of 50 MB takes longer than a call may. The
    SDK reads with an encoding of its caller's choice, and this one gives it nothing until the line has ended.
    """

    def __init__(self, errors: str = "strict") -> None:
        super().__init__(errors)
        self._parts: list[bytes] = []

    def decode(self, input: ReadableBuffer, final: bool = False) -> str:  # noqa: A002, ARG002 - of the base class
        """The lines that are whole now."""
        data = bytes(input)
        end = data.rfind(b"\n") + 1
        if not end:
            self._parts.append(data)
            return ""
        lines = b"".join((*self._parts, data[:end]))
        self._parts = [data[end:]]
        return lines.decode("utf-8", self.errors)


def _find(name: str) -> codecs.CodecInfo | None:
    if name.replace("_", "-") != ENCODING:
        return None
    utf8 = codecs.lookup("utf-8")
    return codecs.CodecInfo(utf8.encode, utf8.decode, incrementaldecoder=LineDecoder, name=ENCODING)


codecs.register(_find)


def client_info() -> types.Implementation:
    try:
        version = importlib.metadata.version("hooksdk")
    except importlib.metadata.PackageNotFoundError:
        version = "0"
    return types.Implementation(name="hooksdk", version=version)
