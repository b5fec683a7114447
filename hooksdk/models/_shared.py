"""What the models over an official SDK share: one client, closed in good order, and which errors may be temporary."""

from __future__ import annotations

import hashlib
import importlib
import inspect
import json
import os
import re
import time
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from email.utils import parsedate_to_datetime
from types import TracebackType
from typing import Any, ClassVar, Literal, Self, get_args

import anyio

from hooksdk.errors import ConfigError, check, check_function, check_mapping, check_number, check_text, refuse
from hooksdk.formats import HasDeferral, Message, get_format
from hooksdk.models import DeferralRefused, ModelReply, ModelUnavailable, OnText, current_session
from hooksdk.models._deferral import WORDS_OF_REFUSALS, has_refused, known_deferral, remember_refusal
from hooksdk.tools import Deferral
from hooksdk.values import as_object

# Statuses below 500 after which another attempt may succeed.
_TEMPORARY_STATUSES = (408, 409, 425, 429)
# Words in an error's type or code after which no other attempt succeeds, whatever the status.
_PERMANENT_ERRORS = re.compile(
    "insufficient_quota|billing|invalid_|context_length|policy|authentication|permission|not_found|too_large"
)
_MIN_WAIT, _MAX_WAIT = 0.5, 30.0
"""Seconds between two attempts where the server does not name them."""


class Unreadable(Exception):
    """The server's answer is not one of the API."""


class SdkModel(ABC):
    """A model behind the asynchronous client of a Stainless-made SDK, as both official ones are.

    Attributes:
        provider: Which provider events name.
    """

    provider: str
    format: ClassVar[str]
    _package: ClassVar[str]
    _client_class: ClassVar[str]
    # The endpoint where none is given.
    _default_url: ClassVar[str] = ""

    def __init__(
        self,
        name: str,
        *,
        base_url: str | None = None,
        api_key: str | None = None,
        context_window: int | None = None,
        max_tokens: int | None = None,
        stream: bool = False,
        on_text: OnText | None = None,
        timeout: float = 600.0,
        headers: Mapping[str, str] | None = None,
        extra: Mapping[str, Any] | None = None,
        deferral: Deferral | Literal["auto"] = "auto",
        provider: str | None = None,
    ) -> None:
        who = type(self).__name__
        check(f"{who}(name)", name, str, "the model's name, such as 'gpt-5'")
        for option, text in (("base_url", base_url), ("api_key", api_key)):
            check_text(f"{who}({option}=...)", text)
        check_number(f"{who}(context_window=...)", context_window, "128_000", optional=True)
        check_number(f"{who}(timeout=...)", timeout, "timeout=60")
        check_function(f"{who}(on_text=...)", on_text, "(text)")
        check_mapping(f"{who}(headers=...)", headers, '{"x-team": "search"}')
        check_mapping(f"{who}(extra=...)", extra, '{"temperature": 0}')
        if deferral not in ("auto", *get_args(Deferral)):
            refuse(f"{who}(deferral=...)", deferral, f"'auto' or one of {', '.join(get_args(Deferral))}")
        self.name = name
        self.provider = provider or self._package
        self.context_window = context_window
        self._max_tokens = max_tokens
        self._sdk = _load(who, self._package)
        self._stream = stream or on_text is not None
        self._on_text = on_text
        self._extra = dict(extra or {})
        # The loop decides about another attempt, which plugins see: the SDK makes none of its own.
        self._options: dict[str, Any] = {"timeout": timeout, "max_retries": 0, "default_headers": dict(headers or {})}
        self._options |= {key: value for key, value in (("base_url", base_url), ("api_key", api_key)) if value}
        self._shared: Any = None
        self._failures = 0
        self._deferral: Deferral | Literal["auto"] = deferral
        self._endpoint = base_url or os.environ.get(f"{self._package.upper()}_BASE_URL") or self._default_url

    @property
    def deferral(self) -> Deferral | None:
        """How requests to this model can declare tools that it is not shown: as given, or by the table of endpoints and
        models. None if the table does not have this one, `off` once the provider has refused."""
        if not isinstance(get_format(self.format), HasDeferral) or has_refused(self._endpoint, self.name):
            return "off"
        if self._deferral != "auto":
            return self._deferral
        return known_deferral(self._endpoint, self.name, self._options["default_headers"])

    async def __aenter__(self) -> Self:
        self._shared = self._make_client()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Close the connections that the `async with` block kept open."""
        client, self._shared = self._shared, None
        if client is not None:
            with anyio.CancelScope(shield=True):
                await client.close()

    async def reply(self, messages: Sequence[Message], tools: Sequence[dict[str, Any]]) -> ModelReply:
        """The model's answer. Raises `ModelUnavailable` for a failure that may be temporary: a rate limit, an overload,
        an error of the server, a lost or silent connection, an unreadable answer. Any other error is the SDK's own."""
        return await self._reply(messages, tools, streamed=self._stream, on_text=self._on_text)

    async def stream_reply(
        self, messages: Sequence[Message], tools: Sequence[dict[str, Any]], on_text: OnText
    ) -> ModelReply:
        """As `reply`, streamed: `on_text` gets each piece of the prose as it comes, instead of the constructor's
        function."""
        return await self._reply(messages, tools, streamed=True, on_text=on_text)

    async def _reply(
        self, messages: Sequence[Message], tools: Sequence[dict[str, Any]], *, streamed: bool, on_text: OnText | None
    ) -> ModelReply:
        async with self._client() as client:
            try:
                reply = await self._ask(client, self._request(messages, tools, streamed=streamed), on_text)
            except Exception as error:
                self._check_key(error)
                if self._refuses_deferral(error, tools):
                    remember_refusal(self._endpoint, self.name)
                    raise DeferralRefused(f"{self.provider} ({self.name}): {_message_of(error)}") from error
                problem = self._temporary(error)
                if problem is None:
                    raise
                self._failures += 1
                raise ModelUnavailable(f"{self.provider} ({self.name}): {problem}", self._wait(error)) from error
        self._failures = 0
        return reply

    @abstractmethod
    def _request(
        self, messages: Sequence[Message], tools: Sequence[dict[str, Any]], *, streamed: bool
    ) -> dict[str, Any]:
        """The body of the request."""

    @abstractmethod
    async def _ask(self, client: Any, request: dict[str, Any], on_text: OnText | None) -> ModelReply:
        """Send it and read the answer; the prose of a streamed one goes to `on_text`."""

    def _body(self, request: dict[str, Any], *, streamed: bool) -> dict[str, Any]:
        """The request with the host's own fields; None takes a field out."""
        merged = {"model": self.name, **request, "stream": True if streamed else None, **self._extra}
        return {key: value for key, value in merged.items() if value is not None}

    @asynccontextmanager
    async def _client(self) -> AsyncGenerator[Any, None]:
        if self._shared is not None:
            yield self._shared
            return
        client = self._make_client()
        try:
            yield client
        finally:
            with anyio.CancelScope(shield=True):
                await client.close()

    def _make_client(self) -> Any:
        try:
            return getattr(self._sdk, self._client_class)(**self._options)
        except Exception as error:
            self._check_key(error)
            raise

    def _check_key(self, error: Exception) -> None:
        """Raise a `ConfigError` for the error by which the SDKs say that they found no key. It is of their base class
        itself."""
        variable = f"{self._package.upper()}_API_KEY"
        no_key = type(error).__name__ == "OpenAIError" or (type(error) is TypeError and "authentication" in str(error))
        if no_key and not os.environ.get(variable) and "api_key" not in self._options:
            raise ConfigError(self.provider, (f"no key was found; set {variable}",)) from error

    def _refuses_deferral(self, error: Any, tools: Sequence[Mapping[str, Any]]) -> bool:
        # Not by `self.deferral`: another session's request may have been refused while this one was under way.
        declares = any(tool.get("defer_loading") or tool.get("type") == "tool_search" for tool in tools)
        if not declares or not isinstance(error, self._sdk.APIError):
            return False
        text = f"{_words_of(error.body)} {_message_of(error)}".lower()
        return getattr(error, "status_code", 400) == 400 and WORDS_OF_REFUSALS.search(text) is not None

    def _temporary(self, error: Exception) -> str | None:
        """What went wrong, in a few words, if another attempt may succeed; else None."""
        import httpx2

        if isinstance(error, Unreadable):
            return str(error)
        if isinstance(error, json.JSONDecodeError):
            return f"the answer is no JSON ({error})"
        if isinstance(error, (self._sdk.APIConnectionError, httpx2.TransportError)):
            return f"{type(error).__name__}: {error.__cause__ or error}"
        if not isinstance(error, self._sdk.APIError):
            return None
        # An error inside a stream has status 200 or none, so its type has to tell.
        api_error: Any = error
        status: int = getattr(api_error, "status_code", 200)
        words = _words_of(api_error.body)
        hint: str | None = api_error.response.headers.get("x-should-retry") if hasattr(api_error, "response") else None
        permanent = _PERMANENT_ERRORS.search(words) or hint == "false"
        temporary = hint == "true" or status in _TEMPORARY_STATUSES or status >= 500 or status == 200
        return f"{type(error).__name__}: {_message_of(api_error)}" if temporary and not permanent else None

    def _wait(self, error: Exception) -> float:
        response = getattr(error, "response", None)
        seconds = _retry_after(response.headers) if response is not None else None
        return seconds if seconds is not None else min(_MAX_WAIT, _MIN_WAIT * 2 ** (self._failures - 1))


class OpenAISdkModel(SdkModel):
    """A model behind one of OpenAI's APIs, at OpenAI itself or at another server that speaks it."""

    _package = "openai"
    _client_class = "AsyncOpenAI"
    _default_url = "https://api.openai.com/v1"

    @property
    def _asks_openai(self) -> bool:
        """True where no other server was named, to hooksdk or to the SDK."""
        return not ("base_url" in self._options or os.environ.get("OPENAI_BASE_URL"))

    def _cache_key(self) -> str | None:
        """A digest of the session's id, which may name a person: the same for all requests of a session. None for other
        servers, which may refuse the field."""
        session = current_session.get() if self._asks_openai else ""
        return hashlib.blake2b(session.encode(), digest_size=16).hexdigest() if session else None


def _load(who: str, package: str) -> Any:
    try:
        return importlib.import_module(package)
    except ModuleNotFoundError as error:
        if error.name != package:
            raise
        problem = f"the package '{package}' is not installed: pip install 'hooksdk[{package}]'"
        raise ConfigError(who, (problem,)) from error


def _words_of(body: Any) -> str:
    """The type and code of an error, whichever of the two shapes the body has."""
    outer = as_object(body)
    inner = as_object(outer.get("error")) or outer
    return f"{inner.get('type')} {inner.get('code')}".lower()


def _message_of(error: Any) -> str:
    """The server's message; the SDKs' own may be the `repr` of the whole body."""
    body = as_object(error.body)
    return str((as_object(body.get("error")) or body).get("message") or error.message)


def _retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds to wait; the headers have milliseconds, seconds or a date."""
    for name, unit in (("retry-after-ms", 1000.0), ("retry-after", 1.0)):
        value = headers.get(name)
        if value is None:
            continue
        try:
            return max(0.0, float(value) / unit)
        except ValueError:
            pass
        try:
            return max(0.0, parsedate_to_datetime(value).timestamp() - time.time())
        except ValueError:
            pass
    return None


async def pass_on(text: str, on_text: OnText | None) -> None:
    """Give a piece of prose to `on_text`, if there is one."""
    if on_text is not None and text:
        pending = on_text(text)
        if inspect.isawaitable(pending):
            await pending


async def read_stream(answer: Any, add: Callable[[dict[str, Any]], str], on_text: OnText | None) -> None:
    """Give each event of a stream to `add`, and the prose that it answers to `on_text`."""
    async with answer:
        async for event in answer:
            await pass_on(add(plain(event)), on_text)


def plain(answer: Any) -> dict[str, Any]:
    """An object of the SDK as the JSON that the server sent, with unknown fields."""
    if not hasattr(answer, "to_dict"):
        raise Unreadable(f"the answer is no JSON object: {str(answer)[:200]!r}")
    return answer.to_dict(mode="json", warnings=False)


def without(value: Mapping[str, Any], *names: str) -> dict[str, Any]:
    """The object without these fields and without None: a request may not say null where an answer does."""
    return {key: each for key, each in value.items() if each is not None and key not in names}
