"""How a plain class gets the public members of an async one, without `async`. Plain functions that take the place of
async ones are called in a worker thread, so that the event loop goes on."""

from __future__ import annotations

import inspect
import re
from collections.abc import Awaitable, Callable, Generator, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, contextmanager
from types import FunctionType, TracebackType
from typing import Any, Generic, Protocol, Self, TypeVar, cast

import anyio
import anyio.to_thread

from hooksdk.agent import Model, ModelReply
from hooksdk.approvals import Approval, ApprovalRequest, Later
from hooksdk.errors import PlainOnly
from hooksdk.formats import Message, MessageFormat
from hooksdk.sync._portal import Portal, is_async

__all__ = ["Approver", "PlainModel", "Restart"]

T = TypeVar("T")
Answer = ModelReply | Mapping[str, Any] | str

# How a person is asked: a plain or an async function.
Approver = Callable[[ApprovalRequest], Approval | Later | Awaitable[Approval | Later]]
# How the program is restarted: a plain or an async function.
Restart = Callable[[str], Awaitable[None] | None]
F = TypeVar("F", bound=Callable[..., Any])
# The class in the annotation of what a member answers.
_ANSWER = re.compile(r"(?:Sequence\[|AsyncGenerator\[)?(\w+)")
# The plain classes by name: what an async object hands out of such a class is handed out as its twin.
_twins: dict[str, type[Twin[Any]]] = {}


class _Replies(Protocol):
    """A model whose `reply` is a plain method."""

    @property
    def name(self) -> str: ...
    @property
    def format(self) -> str | MessageFormat: ...
    @property
    def context_window(self) -> int | None: ...
    def reply(self, messages: Sequence[Message], tools: Sequence[dict[str, Any]]) -> Answer: ...


# A model as `hooksdk.agent` has it, one whose `reply` is a plain method, or a plain function `(messages, tools)` that
# answers with a `ModelReply`, with a message in the format `openai-chat`, or with text.
PlainModel = Model | _Replies | Callable[[Sequence[Message], Sequence[dict[str, Any]]], Answer]


def as_async(function: Callable[..., Awaitable[T] | T]) -> Callable[..., Awaitable[T]]:
    """The function itself where it is async; else one that calls it in a worker thread."""
    if is_async(function):
        return cast("Callable[..., Awaitable[T]]", function)

    async def call(*args: Any) -> T:
        value = await anyio.to_thread.run_sync(function, *args, abandon_on_cancel=True)
        return await cast("Awaitable[T]", value) if inspect.isawaitable(value) else cast("T", value)

    return call


def as_model(model: Any) -> Model:
    """The model as the agent loop takes it: one whose `reply` is async."""
    reply = getattr(model, "reply", None)
    if inspect.iscoroutinefunction(reply) or (reply is None and not callable(model)):
        return model
    return _ThreadedModel(model, model if reply is None else reply)


class _ThreadedModel:
    """A model of plain code, as an async one."""

    def __init__(self, model: Any, reply: Callable[..., Any]) -> None:
        self._reply = as_async(reply)
        self.name: str = getattr(model, "name", None) or getattr(model, "__name__", type(model).__name__)
        self.format: str | MessageFormat = getattr(model, "format", "openai-chat")
        self.provider: str | None = getattr(model, "provider", None)
        self.context_window: int | None = getattr(model, "context_window", None)

    async def reply(self, messages: Sequence[Message], tools: Sequence[dict[str, Any]]) -> ModelReply:
        answer: object = await self._reply(messages, tools)
        if isinstance(answer, str):
            return ModelReply(message={"role": "assistant", "content": answer})
        if isinstance(answer, dict):
            return ModelReply(message=cast("Message", answer))
        if isinstance(answer, ModelReply):
            return answer
        raise TypeError(
            f"the model '{self.name}' answered {answer!r:.100}; expected a ModelReply, a message (a dict) or text"
        )


class Twin(Generic[T]):
    """An object for plain code, which has an async one do everything. A subclass that names an async class, such as
    `class Run(Twin[run.Run], of=run.Run)`, gets a plain member for each public one that it does not define itself.

    Attributes:
        twin: The async object.
        portal: The thread that it lives in.
    """

    def __init_subclass__(cls, *, of: type | None = None) -> None:
        super().__init_subclass__()
        if of is not None:
            _twins[cls.__name__] = cls
            for name, member in public_members(of):
                if name not in vars(cls):
                    setattr(cls, name, _mirrored(name, member))

    def __init__(self, twin: T, portal: Portal) -> None:
        self.twin = twin
        self.portal = portal

    def __eq__(self, other: object) -> bool:
        return isinstance(other, type(self)) and self.twin is other.twin

    def __hash__(self) -> int:
        return hash(self.twin)

    def __repr__(self) -> str:
        return repr(self.twin).replace("<", "<sync ", 1)


class Opened(PlainOnly, Twin[T]):
    """One that is used as `with ... as`."""

    def __enter__(self) -> Self:
        self.portal.call(getattr(self.twin, "__aenter__"))  # noqa: B009 - not every `T` has it
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self.portal.is_open:  # else its host was left first, which has closed it
            self.portal.call(getattr(self.twin, "__aexit__"), kind, error, traceback)  # noqa: B009 - as above


def public_members(kind: type) -> Iterator[tuple[str, Any]]:
    """The public methods and properties of one of hooksdk's classes, in the order in which they are written."""
    for base in reversed(kind.__mro__):
        if base.__module__.startswith("hooksdk"):
            for name, member in vars(base).items():
                if not name.startswith("_") and isinstance(member, (property, FunctionType)):
                    yield name, member


def like(function: Any) -> Callable[[F], F]:
    """A decorator for a plain function: it gets the name, the parameters and the docstring of this async one."""

    def describe(plain: F) -> F:
        plain.__name__, plain.__qualname__ = function.__name__, function.__qualname__
        plain.__doc__ = in_plain_words(inspect.getdoc(function) or "") or None
        plain.__annotations__ = {name: plain_type(text) for name, text in function.__annotations__.items()}
        signature = inspect.signature(function)
        hints = plain.__annotations__
        vars(plain)["__signature__"] = signature.replace(
            parameters=[
                one.replace(annotation=hints.get(one.name, one.annotation)) for one in signature.parameters.values()
            ],
            return_annotation=hints["return"],
        )
        return plain

    return describe


def in_plain_words(text: str) -> str:
    """A docstring of async code for readers of plain code."""
    text = re.sub(r" When this returns True, no run begins before the\s+caller's next `await`\.", "", text)
    return text.replace("async with ", "with ").replace("`await ", "`").replace("async def", "def")


def plain_type(annotation: str) -> str:
    """An annotation of async code as plain code has it: a model may be plain, and so is a block."""
    if block := re.fullmatch(r"AsyncGenerator\[(\w+)(?:, None)?\]", annotation):
        return f"Generator[{block[1]}, None, None]"
    return re.sub(r"\bModel\b", "PlainModel", annotation)


def plain_options(options: dict[str, Any]) -> dict[str, Any]:
    """Named arguments as the async side takes them: the approver of plain code may be a plain function."""
    approver = options.get("approver")
    return options if approver is None else {**options, "approver": as_async(approver)}


def _mirrored(name: str, member: Any) -> Any:
    """The plain form of a method or property."""
    function: Any = inspect.unwrap(getattr(member, "fget", member))
    annotation: str = function.__annotations__["return"]
    match = _ANSWER.match(annotation)

    def hand_out(twin: Twin[Any], answer: Any) -> Any:
        kind = _twins.get(match[1]) if match else None
        if kind is None:
            return answer
        is_several = annotation.startswith("Sequence[")
        return tuple(kind(one, twin.portal) for one in answer) if is_several else kind(answer, twin.portal)

    if isinstance(member, property):

        @property
        @like(function)
        def read(self: Twin[Any]) -> Any:
            return hand_out(self, self.portal.do(getattr, self.twin, name))

        return read

    if inspect.isasyncgenfunction(function):

        @like(function)
        @contextmanager
        def block(self: Twin[Any]) -> Generator[Any]:
            with _plain_block(self.portal, getattr(self.twin, name)()) as value:
                yield hand_out(self, value)

        return block

    in_loop = Portal.call if inspect.iscoroutinefunction(function) else Portal.do

    @like(function)
    def call(self: Twin[Any], *args: Any, **options: Any) -> Any:
        return hand_out(self, in_loop(self.portal, getattr(self.twin, name), *args, **plain_options(options)))

    return call


@contextmanager
def _plain_block(portal: Portal, manager: AbstractAsyncContextManager[T]) -> Generator[T]:
    """The block of an async context manager, around a plain one."""
    value = portal.call(manager.__aenter__)
    try:
        yield value
    except BaseException as error:
        if not portal.call(manager.__aexit__, type(error), error, error.__traceback__):
            raise
    else:
        portal.call(manager.__aexit__, None, None, None)
