"""What the agent loop asks of a model, and clients over the providers' own SDKs, which are imported when a model is
made.

Status: stable.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Protocol, runtime_checkable

from hooksdk.errors import HookSDKError, WrongArgument, check, did_you_mean
from hooksdk.formats import Message, MessageFormat

__all__ = [
    "DeferralRefused",
    "Model",
    "ModelReply",
    "ModelUnavailable",
    "OnText",
    "StreamingModel",
    "current_session",
    "get_model",
]

# The module and the class of each provider's models.
_CLASSES = {
    "openai": ("openai", "OpenAIModel"),
    "openai-responses": ("openai_responses", "OpenAIResponsesModel"),
    "anthropic": ("anthropic", "AnthropicModel"),
}
_EXAMPLES = "openai:gpt-5, openai-responses:gpt-5 or anthropic:claude-sonnet-5-5"

OnText = Callable[[str], Awaitable[None] | None]
"""A function, plain or async, that gets each piece of streamed prose as it comes. An error in it ends the run."""

current_session: ContextVar[str] = ContextVar("hooksdk session of the request", default="")
"""The id of the session whose request the loop makes; empty outside of a loop."""


@dataclass(frozen=True, kw_only=True)
class ModelReply:
    """What a model answered.

    ```python
    from hooksdk.agent import ModelReply

    reply = ModelReply(message={"role": "assistant", "content": "Four."}, usage={"input_tokens": 12, "output_tokens": 2})
    assert reply.stop_reason is None
    ```

    Attributes:
        message: The reply in the session's format, as the provider returned it.
        more: Further messages of the reply, in formats in which a reply has several, such as the items of
            `openai-responses`.
        usage: The provider's own counts; numbers are added up under their own names in `Outcome.stats["usage"]`.
    """

    message: Message
    more: Sequence[Message] = ()
    usage: Mapping[str, Any] | None = None
    stop_reason: str | None = None


class Model(Protocol):
    """A model as the loop needs it. It may have a `provider`, which events name, and a `deferral`, which says whether
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
        """Answer these messages. `tools` are the definitions of the offered tools, in the provider's JSON. An error
        ends the run; `ModelUnavailable` says that another attempt may succeed."""
        ...


@runtime_checkable
class StreamingModel(Model, Protocol):
    """A model that can pass its prose on as it comes, for `run_agent(on_text=...)`.

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
    """Raised by a model whose provider refused deferred tools, which a request declares without showing them: the loop
    begins another attempt without any.

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
    """Raised by a model when the same request may succeed a little later: after a rate limit, an overload, a lost
    connection.

    ```python
    from hooksdk.agent import ModelUnavailable

    class Busy:
        name, format, context_window = "busy", "openai-chat", None

        async def reply(self, messages, tools):
            raise ModelUnavailable("the server is overloaded", seconds=2)
    ```

    Attributes:
        seconds: How long to wait before the next attempt.
    """

    problem: str
    seconds: float = 0.0

    def __str__(self) -> str:
        return self.problem


def get_model(name: str, **options: Any) -> Any:
    """A model by `PROVIDER:NAME`, made with these options: an `OpenAIModel` for `openai:gpt-5`, an
    `OpenAIResponsesModel` for `openai-responses:gpt-5`, an `AnthropicModel` for `anthropic:claude-sonnet-5-5`.

    Raises `WrongArgument` for another provider, and `ConfigError` where its SDK is not installed.
    """
    check("get_model(name)", name, str, "PROVIDER:NAME", f"Write such as {_EXAMPLES}")
    provider, colon, model = name.partition(":")
    if not colon or not model.strip():
        raise WrongArgument(f"model {name!r:.60}", "expected PROVIDER:NAME", f"Write such as {_EXAMPLES}")
    if provider not in _CLASSES:
        hint = did_you_mean(provider, _CLASSES).strip() or f"Write such as {_EXAMPLES}, or give a model of your own"
        raise WrongArgument(f"model {name!r:.60}", f"there is no provider '{provider}'", hint)
    module, class_name = _CLASSES[provider]
    return getattr(import_module(f"hooksdk.models.{module}"), class_name)(model.strip(), **options)
