"""What hooksdk must know of a provider's messages: where calls and results are in them, and how one result is replaced.

Messages are opaque JSON objects otherwise: what a format does not name here is kept to the byte. A format is loaded
when it is first asked for by its name.

Status: stable.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Protocol, runtime_checkable

from hooksdk.calls import ToolCall, ToolResult
from hooksdk.errors import ConfigError, did_you_mean, refuse
from hooksdk.tools import Deferral, Tool
from hooksdk.values import SdkObject

__all__ = [
    "FORMATS",
    "FoundResult",
    "GivenMessage",
    "GivenTool",
    "GivenTools",
    "HasArguments",
    "HasDeferral",
    "HasLooseEnds",
    "HasRules",
    "Message",
    "MessageFormat",
    "ProviderJson",
    "SdkObject",
    "get_format",
]

# The module and the class of each format.
_CLASSES = {
    "openai-chat": ("openai_chat", "OpenAIChat"),
    "anthropic": ("anthropic", "Anthropic"),
    "openai-responses": ("openai_responses", "OpenAIResponses"),
    "gemini": ("gemini", "Gemini"),
}
FORMATS = tuple(_CLASSES)
"""The names of the formats that come with hooksdk."""
# Methods without which an object is not taken for a format.
_REQUIRED = ("calls", "check", "is_reply", "results", "tools")

Message = dict[str, Any]
"""One message of a transcript: a JSON object in the format's own shape."""

GivenMessage = Mapping[str, Any] | SdkObject
"""A message as a host has it: JSON, which may hold objects of the provider's SDK, or such an object itself. A whole
answer of the SDK stands for the messages in it."""

GivenTool = Tool | Callable[..., Any] | Mapping[str, Any] | SdkObject
"""A tool, a function that becomes one, or a definition in a provider's JSON, as a dict or as the SDK's object."""
GivenTools = Iterable[GivenTool]
"""Several of them."""

ProviderJson = Any
"""A JSON object for a request to a provider, a dict. To type checkers it is `Any`, so that it fits the SDKs' own types,
which hooksdk does not import."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundResult:
    """One tool result inside a message.

    Attributes:
        call_id: Empty where the result names no id: it then answers the first open call of its `name`.
        index: Which result of the message it is, from 0: several share one message in some formats.
        text: What the model reads; parts that are not text are named (`[image image/png, 12,345 characters]`).
        content: The JSON value that a trim replaces, for the content hash.
        why_not: Why it cannot be shortened without breaking the request, or None.
        name: The tool, where the result names it.
    """

    call_id: str
    index: int
    text: str
    content: Any
    is_error: bool
    why_not: str | None
    name: str = ""


class MessageFormat(Protocol):
    """One provider's message format. Every method is pure: what it is given stays as it is.

    Attributes:
        name: `openai-chat`, `anthropic`, ...
        grouped: True when all results of one turn must stand in one message.
        joined: True when replies that follow each other are one turn for the provider: then one reply may be recorded
            in several messages, such as an item or a block each, and the calls of all of them count as its calls. Where
            it is False in a `grouped` format, the provider refuses calls in a reply that follows another, and results
            in several messages.
    """

    name: str
    grouped: bool
    joined: bool

    def check(self, message: object) -> str | None:
        """Why this is not a message of the format, or None. Unknown keys and block types are fine."""
        ...

    def is_reply(self, message: Message) -> bool:
        """True for a message that the model wrote: it counts as a turn."""
        ...

    def calls(self, message: Message) -> list[ToolCall]:
        """The calls in a message that the model wrote, in order. Arguments may be raw JSON text."""
        ...

    def results(self, message: Message) -> list[FoundResult]:
        """The tool results in a message, in order."""
        ...

    def replace(self, message: Message, index: int, text: str) -> Message:
        """A copy of the message in which result number `index` reads `text`. Roles, ids, names, error flag, the kind
        of the content (text stays text, a list stays a list), cache marks and all other results stay.
        """
        ...

    def result_messages(self, answered: Sequence[tuple[ToolCall, ToolResult]]) -> list[Message]:
        """The messages that answer these calls of one turn, in their order: one each, or one for all when `grouped`."""
        ...

    def add_context(self, messages: Sequence[Message], text: str) -> list[Message]:
        """A new list for one request, in which the model also reads `text`: beside the newest user message, where it
        breaks no pairing of calls and results and no cached prefix before it.
        """
        ...

    def user(self, text: str) -> Message:
        """A message of the person."""
        ...

    def reply(self, text: str, calls: Sequence[ToolCall] = ()) -> Message:
        """A reply of the model in one message, as the provider would return it. Raises `ValueError` where the format
        needs several; `reply_messages` gives them.
        """
        ...

    def reply_messages(self, text: str, calls: Sequence[ToolCall] = ()) -> list[Message]:
        """A reply of the model, as the provider would return it, in as many messages as the format needs."""
        ...

    def text(self, message: Message) -> str:
        """The prose of a message, without calls and results."""
        ...

    def tools(self, tools: Sequence[Tool]) -> list[ProviderJson]:
        """The tool definitions, as the provider's request wants them."""
        ...


@runtime_checkable
class HasLooseEnds(Protocol):
    """Further methods of a `MessageFormat` whose provider refuses some ends of a reply that was cut off."""

    def is_loose_end(self, message: Message) -> bool:
        """True for a message of the model that the provider refuses where nothing else of the same reply follows."""
        ...


@runtime_checkable
class HasArguments(Protocol):
    """A further method of a `MessageFormat`, by which long arguments of old calls can be shortened."""

    def with_arguments(self, message: Message, index: int, arguments: Mapping[str, str]) -> Message:
        """A copy in which these arguments of call number `index` are the given texts. Other arguments stay, and so does
        the form in which arguments are written. The call must have a JSON object as its arguments, as text or not."""
        ...


@runtime_checkable
class HasDeferral(Protocol):
    """Further methods of a `MessageFormat` whose provider takes deferred tools: they are declared, and the model is
    shown one when a search or an addition refers to it."""

    def deferred_tools(self, tools: Sequence[Tool], deferred: Sequence[Tool]) -> list[ProviderJson]:
        """The tools of a request that declares the `deferred` ones without showing them. The tool among `tools` that
        searches (`Tool.search`) finds them."""
        ...

    def with_deferred(
        self, messages: Sequence[Message], deferred: Mapping[str, Tool], deferral: Deferral | None
    ) -> list[Message]:
        """The messages of a request that declares these tools, by name. References to other tools are left out, and so
        are additions where `deferral` does not take them. Without any such tool, searches and their results are written
        like those of any other tool. A `deferral` of None is a host that did not say what its requests take: it may
        declare tools of its own."""
        ...

    def references(self, messages: Sequence[Message]) -> list[str]:
        """The names of the tools that these messages refer to, in order, each once."""
        ...

    def addition(self, names: Sequence[str]) -> Message:
        """The message from which on the model is shown these tools."""
        ...


@runtime_checkable
class HasRules(Protocol):
    """Further methods of a `MessageFormat` whose provider refuses more than calls without results: with them the view
    is mended, and `hooksdk.trimming.problem` tells what it refuses.

    Attributes:
        wants_unique_ids: True where the provider is known to refuse two calls of one id. Such calls get different ids
            in any case.
    """

    wants_unique_ids: bool

    def sendable_id(self, call_id: str, suffix: str = "") -> str | None:
        """The id with which a call of this id can be sent: the same if the provider takes it, with `suffix` at its end
        if another call has it already. None if the message holds no id."""
        ...

    def with_call_ids(self, message: Message, ids: Sequence[str]) -> Message:
        """A copy in which the calls, or the results, have these ids, in their order."""
        ...

    def mend(self, message: Message) -> tuple[Message, str]:
        """The message as the provider takes it, and what the provider would refuse in it: the same object and an empty
        text where that is nothing."""
        ...

    def opening(self, first: Message) -> Message | None:
        """The message that the provider wants before this first one; None if a conversation may begin with it."""
        ...


def get_format(name: str | MessageFormat) -> MessageFormat:
    """The format of this name, or the format object itself.

    Raises `ConfigError` for an unknown name, and `WrongArgument` for an object that is no format.
    """
    if not isinstance(name, str):
        if isinstance(name, type) or not all(callable(getattr(name, method, None)) for method in _REQUIRED):
            refuse("format", name, f"the name of a message format ({', '.join(FORMATS)}) or an object that is one")
        return name
    if name not in _CLASSES:
        raise ConfigError("format", (f"'{name}' is not a known message format.{did_you_mean(name, FORMATS)}",))
    module, class_name = _CLASSES[name]
    return getattr(import_module(f"hooksdk.formats.{module}"), class_name)()
