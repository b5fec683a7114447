"""What the agent loop asks of a model."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from hooksdk.errors import HookSDKError
from hooksdk.formats import Message, MessageFormat

OnText = Callable[[str], Awaitable[None] | None]
"""Is given each piece of streamed prose, as it comes; plain or async. What it raises ends the run."""

current_session: ContextVar[str] = ContextVar("hooksdk session of the request", default="")
"""The id of the session that the loop asks a model for; empty outside of a loop."""


@dataclass(frozen=True, kw_only=True)
class ModelReply:
    """What a model answered.

    ```python
    from hooksdk.agent import ModelReply

    reply = ModelReply(message={"role": "assistant", "content": "Four."}, usage={"input_tokens": 12, "output_tokens": 2})
    assert reply.stop_reason is None
    ```
    """

    message: Message
    """The reply in the session's format, as the provider returned it."""
    more: Sequence[Message] = ()
    """Its further messages, where the format has several to a reply, as `openai-responses` has its items."""
    usage: Mapping[str, Any] | None = None
    """The provider's own counts; numbers are added up under their own names in `Outcome.stats["usage"]`."""
    stop_reason: str | None = None


class Model(Protocol):
    """A model as the loop needs it. A `provider` attribute is passed on to events where there is one, and a `deferral` says whether
    its requests can declare tools that the model is not shown (`session.run(deferral=...)`).

    ```python
    from hooksdk.agent import Model, ModelReply

    class Echo:
        name, format, context_window = "echo", "openai-chat", None

        async def reply(self, messages, tools) -> ModelReply:
            return ModelReply(message={"role": "assistant", "content": messages[-1]["content"]})

    model: Model = Echo()
    ```
    """

    @property
    def name(self) -> str:
        """The model's name, as events show it."""
        ...

    @property
    def format(self) -> str | MessageFormat:
        """The format of its messages: one of `hooksdk.formats.FORMATS`, or a format object."""
        ...

    @property
    def context_window(self) -> int | None:
        """Its context window in tokens, if it is known."""
        ...

    async def reply(self, messages: Sequence[Message], tools: Sequence[dict[str, Any]]) -> ModelReply:
        """Answer these messages; `tools` are the definitions of what is offered, in the provider's JSON. What it raises
        ends the run; `ModelUnavailable` says that another attempt may go well."""
        ...


@runtime_checkable
class StreamingModel(Model, Protocol):
    """A model that passes its prose on as it comes, where `run_agent` is given `on_text`.

    ```python
    from hooksdk.agent import ModelReply, StreamingModel

    class Echo:
        name, format, context_window = "echo", "openai-chat", None

        async def reply(self, messages, tools) -> ModelReply:
            return await self.stream_reply(messages, tools, lambda text: None)

        async def stream_reply(self, messages, tools, on_text) -> ModelReply:
            text = messages[-1]["content"]
            for word in text.split():
                on_text(word)
            return ModelReply(message={"role": "assistant", "content": text})

    assert isinstance(Echo(), StreamingModel)
    ```
    """

    async def stream_reply(
        self, messages: Sequence[Message], tools: Sequence[dict[str, Any]], on_text: OnText
    ) -> ModelReply:
        """As `reply`, with each piece of the prose given to `on_text` before the next is read."""
        ...


@dataclass(eq=False)
class DeferralRefused(HookSDKError):
    """A model raises this when its provider refused what has to do with tools that the request declares without showing them:
    the loop begins another attempt without any.

    ```python
    from hooksdk.models import DeferralRefused

    error = DeferralRefused("the server does not know 'defer_loading'")
    assert str(error) == "the server does not know 'defer_loading'"
    ```
    """

    problem: str

    def __str__(self) -> str:
        return self.problem


@dataclass(eq=False)
class ModelUnavailable(HookSDKError):
    """A model raises this when the same request may go well a little later: a rate limit, an overload, a lost line.

    ```python
    from hooksdk.agent import ModelUnavailable

    class Busy:
        name, format, context_window = "busy", "openai-chat", None

        async def reply(self, messages, tools):
            raise ModelUnavailable("the server is overloaded", seconds=2)
    ```
    """

    problem: str
    seconds: float = 0.0
    """How long to wait before the next attempt."""

    def __str__(self) -> str:
        return self.problem
