"""Messages and questions of a server while it serves a call: they go to the client that made the call, and to no
other."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Generator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import cache
from typing import Any, NamedTuple, Protocol, TypeVar, cast, final

import anyio
import mcp_types as types
from mcp.client.session import ClientRequestContext, ClientSession
from mcp.shared.exceptions import MCPError
from mcp_types.version import LATEST_MODERN_VERSION
from pydantic import TypeAdapter

from hooksdk.catalog import ToolContext
from hooksdk.errors import ConfigError
from hooksdk.mcp._scope import LOCAL
from hooksdk.mcp.sign_in._store import SignInPage
from hooksdk.values import fill_secrets, secret_names

# The kinds of questions that a server may ask of a client.
ASKED = ("elicitation", "sampling", "roots")
# The key in the `_meta` of a call for the id of the call's effect.
EFFECT_ID = "hooksdk/effect-id"
# The keys for the number of the session's holder, and for those of all sessions that the call's run needs.
FENCE, FENCES = "hooksdk/fence", "hooksdk/fences"
# Characters of a progress message that reach the client.
LONGEST_MESSAGE = 500
# Rounds of questions that a server may ask before it answers one call.
ROUNDS = 10

T = TypeVar("T", bound=types.Result)
# The requests during which a server may ask questions.
Asking = types.CallToolRequest | types.GetPromptRequest | types.ReadResourceRequest
# The beginning of keys in `_meta` that are about one connection.
OWN_META = "io.modelcontextprotocol/"


class Client(Protocol):
    """A client on whose behalf servers are called, such as a gateway's client."""

    @property
    def id(self) -> str:
        """The id of its session, the same for all of its calls."""
        ...

    @property
    def holder(self) -> str:
        """The name of its token, or `local`."""
        ...

    def fill_secrets(self, server: str, texts: Mapping[str, Any], *, shared: bool) -> Awaitable[dict[str, Any]]:
        """Texts of a server's entry, with each `{{secret:NAME}}` filled in. A `shared` server serves other clients,
        too, and gets only secrets that are no single client's. Raises `HookSDKError` where a secret has no value."""
        ...

    @property
    def protocol_version(self) -> str:
        """The version of MCP that it speaks. A server that knows both protocols is called in the client's, so that it
        can ask questions in the same way."""
        ...

    async def progress(self, progress: float, total: float | None, message: str | None) -> None:
        """Tell it how far its call is."""
        ...

    @property
    def capabilities(self) -> types.ClientCapabilities | None:
        """The questions that it says it can answer; None: none."""
        ...

    async def ask(
        self, request: types.InputRequest, name: str = "", together: int = 1
    ) -> types.InputResponse | types.ErrorData:
        """Ask it a server's question; an error where it may not be asked, or cannot answer. `name` is the server's
        name for the question, `together` the number of questions that the server asks at once."""
        ...

    @property
    def meta(self) -> Mapping[str, Any]:
        """The `_meta` of its request, such as the context of a trace; it is passed on to the server."""
        ...

    @property
    def log_level(self) -> types.LoggingLevel | None:
        """The level from which on it hears what servers log while they serve it; None: it hears nothing."""
        ...

    async def log(self, message: types.LoggingMessageNotificationParams) -> None:
        """Send it a server's log message, if it wants to hear this level."""
        ...

    @property
    def shows_pages(self) -> bool:
        """True where it can open a page of this machine for its person."""
        ...

    async def show_page(self, page: SignInPage) -> None:
        """Give it a page on which its person signs in to a server, so that it can call again afterwards."""
        ...


@final
@dataclass(frozen=True, kw_only=True)
class SilentClient:
    """A client that hears nothing and answers nothing. It names the holder of calls, and has the holder's secrets.

    Attributes:
        id: The id of its session.
        holder: The holder of the session, who may have others.
        secrets: Values by name, for the environment and the headers of its servers.
        protocol_version: The newest: it needs no connection in an older one.
        capabilities: None: it can answer no questions.
        meta: Nothing: its requests have no `_meta`.
        log_level: None: it hears no log messages.
        shows_pages: False: it has nobody to show a page to.
    """

    id: str
    holder: str = LOCAL
    secrets: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    protocol_version: str = field(default=LATEST_MODERN_VERSION, init=False, repr=False)
    capabilities: types.ClientCapabilities | None = field(default=None, init=False, repr=False)
    meta: Mapping[str, Any] = field(default_factory=dict[str, Any], init=False, repr=False)
    log_level: types.LoggingLevel | None = field(default=None, init=False, repr=False)
    shows_pages: bool = field(default=False, init=False, repr=False)

    async def fill_secrets(self, server: str, texts: Mapping[str, Any], *, shared: bool) -> dict[str, Any]:
        """The texts with its secrets; shared servers get none of them. Raises `ConfigError` for an unknown secret."""
        known: Mapping[str, str] = {} if shared else self.secrets
        if missing := [name for name in secret_names(texts) if name not in known]:
            raise ConfigError(f"server '{server}'", (f"there is no secret {', '.join(missing)}",))
        return fill_secrets(texts, known)

    async def progress(self, progress: float, total: float | None, message: str | None) -> None:
        """Nobody hears it."""

    async def ask(
        self,
        request: types.InputRequest,  # noqa: ARG002 - as `Client` has it
        name: str = "",  # noqa: ARG002
        together: int = 1,  # noqa: ARG002
    ) -> types.InputResponse | types.ErrorData:
        """Refuse the question."""
        return _refused("this client cannot be asked")

    async def log(self, message: types.LoggingMessageNotificationParams) -> None:
        """Nobody hears it."""

    async def show_page(self, page: SignInPage) -> None:
        """Nobody sees it."""


# The client whose call runs in the current task, set by those that call servers for their clients; None: the host
# itself.
current_client: ContextVar[Client | None] = ContextVar("hooksdk client of MCP calls", default=None)

# The call for which the current task sends a request to a server.
sent_for: ContextVar[RunningCall | None] = ContextVar("hooksdk call that a request is sent for", default=None)
_asked_in: ContextVar[_Question | None] = ContextVar("hooksdk question of an MCP server", default=None)


class _Question(NamedTuple):
    """A question that a server asks by its result."""

    call: RunningCall
    name: str
    together: int


@final
class RunningCall:
    """One call of a tool, and the client that made it.

    Attributes:
        client: The client that made it; None for the host itself.
        questions: The questions that its client is asked now.
        is_sent: True once its request may have reached the server: without an answer it may have taken effect.

    """

    def __init__(self, context: ToolContext | None) -> None:
        """An object is made in the task of the call; `context` is the tool's."""
        self.client = current_client.get()
        self.questions: set[anyio.CancelScope] = set()
        self.is_sent = True
        self._context = context
        self._furthest = float("-inf")
        self._over = False

    @property
    def meta(self) -> types.RequestParamsMeta | None:
        """The `_meta` that the server gets: the client's own, the id of the call's effect, which is the same when the
        call is made again, and the fences, which are higher when another worker makes it."""
        client = self.client
        said: dict[str, Any] = {}
        if client is not None:
            said = {key: value for key, value in client.meta.items() if not is_own_meta(key)}
            if client.log_level is not None:
                said[types.LOG_LEVEL_META_KEY] = client.log_level
        if self._context is not None:
            said[EFFECT_ID] = self._context.effect_id
            said[FENCE], said[FENCES] = self._context.fence, dict(self._context.fences)
        return cast("types.RequestParamsMeta", said) if said else None

    async def on_progress(self, progress: float, total: float | None, message: str | None) -> None:
        """Pass on the server's progress, to the trace and to the client."""
        if self._over or progress < self._furthest:
            return
        new, self._furthest = progress > self._furthest, progress
        if self._context is not None:
            share = min(max(progress / total, 0.0), 1.0) if total else None
            text = message or (f"{progress:g} of {total:g}" if total else f"{progress:g}")
            await self._context.progress(text, share)
        if self.client is not None and new:
            await self.client.progress(progress, total, message and self.mask(message)[:LONGEST_MESSAGE])

    async def note(self, text: str) -> None:
        """Write a line to the trace."""
        if self._context is not None:
            await self._context.progress(text)

    def mask(self, text: str) -> str:
        """The text without the session's secrets."""
        return self._context.mask(text) if self._context is not None else text

    def end(self) -> None:
        """End its questions and its progress: it has returned."""
        self._over = True
        for question in self.questions:
            question.cancel()


@final
@dataclass(eq=False)
class Callers:
    """The calls that one server is serving, and their clients.

    Attributes:
        _allowed: The kinds of questions that the server may ask.
        _one_client: True where it serves a single session, so that all of its questions are for that one.
    """

    _allowed: Collection[str]
    _one_client: bool = False
    _calls: list[RunningCall] = field(default_factory=list[RunningCall], init=False)
    _last: RunningCall | None = field(default=None, init=False)

    def callbacks(self) -> dict[str, Any]:
        """The callbacks of a connection, one for each kind of question that is allowed. The server is told that there
        are no others."""

        async def elicit(_context: ClientRequestContext, params: types.ElicitRequestParams) -> Any:
            return await self._ask(types.ElicitRequest(params=params))

        async def sample(_context: ClientRequestContext, params: types.CreateMessageRequestParams) -> Any:
            return await self._ask(types.CreateMessageRequest(params=params))

        async def list_roots(_context: ClientRequestContext) -> Any:
            return await self._ask(types.ListRootsRequest())

        known = {"elicitation": elicit, "sampling": sample, "roots": list_roots}
        names = {"elicitation": "elicitation_callback", "sampling": "sampling_callback", "roots": "list_roots_callback"}
        return {names[kind]: known[kind] for kind in known if kind in self._allowed}

    @contextmanager
    def serving(self, call: RunningCall) -> Generator[None]:
        """Serve a call within the block."""
        self._calls.append(call)
        self._last = call
        try:
            yield
        finally:
            self._calls.remove(call)

    async def log(self, message: types.LoggingMessageNotificationParams) -> bool:
        """Send a log message to the client whose call the server is serving. False where it serves none. While it
        serves several clients no one is told: a message does not say which call it belongs to."""
        if not self._calls:
            return False
        call = self._only_one()
        if call is not None and call.client is not None:
            told = masked(message.model_dump(by_alias=True, mode="json", exclude_none=True), call.mask)
            told.pop("_meta", None)
            await call.client.log(types.LoggingMessageNotificationParams.model_validate(told))
        return True

    async def _ask(self, request: types.InputRequest) -> types.InputResponse | types.ErrorData:
        question = _asked_in.get()
        call = question.call if question is not None else self._only_one()
        if call is None or call.client is None:
            return _refused("there is no call of one client that this could belong to")
        told = masked(request.model_dump(by_alias=True, mode="json", exclude_none=True), call.mask)
        cast("dict[str, Any]", told.get("params", {})).pop("_meta", None)  # it is about the connection to the server
        await call.note(f"the server asks the client: {request.method}")
        answer = _refused("the call that this belonged to is over")
        _, name, together = question or (call, "", 1)
        with anyio.CancelScope() as scope:
            call.questions.add(scope)
            try:
                answer = await call.client.ask(type(request).model_validate(told), name, together)
            finally:
                call.questions.discard(scope)
        return answer

    def _only_one(self) -> RunningCall | None:
        """The newest call, where all calls are of one client: a server's request does not say which call it belongs
        to."""
        if self._one_client:
            return self._calls[-1] if self._calls else self._last
        clients = {call.client.id if call.client else None for call in self._calls}
        return self._calls[-1] if len(clients) == 1 else None


@cache
def _answer_of(result_type: type[types.Result]) -> TypeAdapter[Any]:
    """Reads the answer to a call: a result of this type, or questions."""
    return TypeAdapter(cast("Any", result_type | types.InputRequiredResult))


async def send_call(session: ClientSession, call: RunningCall, request: Asking, result_type: type[T]) -> T:
    """The answer to one call. Where a server of protocol 2026-07-28 answers with questions, the client is asked, and
    the call is sent again. Raises `MCPError`, and `ValidationError` for an answer that is not MCP."""
    for _ in range(ROUNDS):
        # Not `call_tool`: it raises for a result that misses the output schema, which the run itself checks.
        answer = _answer_of(result_type)
        result: Any = await session.send_request(request, answer, progress_callback=call.on_progress)
        if not isinstance(result, types.InputRequiredResult):
            return result
        responses = await _answers(session, call, result.input_requests or {})
        if not responses:
            await anyio.sleep(0.1)  # the server only wants to be called again
        answered = {"input_responses": responses, "request_state": result.request_state}
        request = type(request)(params=cast("Any", request.params.model_copy(update=answered)))
    raise MCPError(types.INVALID_REQUEST, f"it asked for more than {ROUNDS} times before it answered")


async def _answers(
    session: ClientSession, call: RunningCall, asked: Mapping[str, types.InputRequest]
) -> dict[str, types.InputResponse]:
    """The client's answers to questions that are asked at once. Raises `MCPError` where one is not answered."""
    responses: dict[str, types.InputResponse] = {}
    refusals: list[types.ErrorData] = []

    async def ask(name: str, request: types.InputRequest) -> None:
        _asked_in.set(_Question(call, name, len(asked)))
        context = ClientRequestContext(session=session, request_id=name)
        answer = await session.dispatch_input_request(context, request)
        if isinstance(answer, types.ErrorData):
            refusals.append(answer)
            group.cancel_scope.cancel()  # the others are of no use
        else:
            responses[name] = answer

    async with anyio.create_task_group() as group:
        for name, request in asked.items():
            group.start_soon(ask, name, request)
    if refusals:
        raise MCPError.from_error_data(refusals[0])
    return {name: responses[name] for name in asked}


def _refused(reason: str) -> types.ErrorData:
    return types.ErrorData(code=types.INVALID_REQUEST, message=f"Not relayed: {reason}")


def is_own_meta(key: str) -> bool:
    """True for a key in `_meta` that is about one connection and its requests."""
    return key.startswith(OWN_META) or key == "progressToken"


def masked(value: Any, mask: Callable[[str], str]) -> Any:
    """A JSON value with each of its texts masked."""
    if isinstance(value, str):
        return mask(value)
    if isinstance(value, dict):
        return {key: masked(one, mask) for key, one in cast("dict[str, Any]", value).items()}
    return [masked(one, mask) for one in cast("list[Any]", value)] if isinstance(value, list) else value
