"""Plain functions in the place of async ones: they are called in a worker thread, so that the event loop goes on."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Protocol, TypeVar, cast

import anyio
import anyio.to_thread

from hooksdk.agent import Model, ModelReply
from hooksdk.approvals import Approval, ApprovalRequest, Later
from hooksdk.formats import Message, MessageFormat

__all__ = ["Approver", "PlainModel", "Restart"]

T = TypeVar("T")
Answer = ModelReply | Mapping[str, Any] | str

# How a person is asked: a plain or an async function.
Approver = Callable[[ApprovalRequest], Approval | Later | Awaitable[Approval | Later]]
# How the program is restarted: a plain or an async function.
Restart = Callable[[str], Awaitable[None] | None]


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


def is_async(value: object) -> bool:
    """True for an async function, and for an object that is called like one."""
    return any(map(inspect.iscoroutinefunction, (value, getattr(value, "__call__", None))))  # noqa: B004 - to look at it


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
