"""What hooksdk must know of a message format: where calls and results sit, and how one result is replaced.

Messages are opaque JSON objects otherwise; whatever a format does not name here is kept to the byte.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from hooksdk.calls import ToolCall, ToolResult
from hooksdk.tools import Deferral, Tool
from hooksdk.values import SdkObject

Message = dict[str, Any]
"""One message of a transcript: a JSON object in the format's own shape."""

GivenMessage = Mapping[str, Any] | SdkObject
"""A message as a host has it: JSON, with objects of the provider's SDK in it or not, or such an object itself. A whole answer
of the SDK stands for the messages in it."""

GivenTool = Tool | Callable[..., Any] | Mapping[str, Any] | SdkObject
"""A tool, a function that becomes one, or a definition in a provider's JSON, as a dict or as the SDK's object."""
GivenTools = Iterable[GivenTool]

ProviderJson = Any
"""A JSON object for a request to a provider, a dict. To type checkers it is `Any`, so that it fits the SDKs' own types, which
hooksdk does not import."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundResult:
    """One tool result inside a message."""

    call_id: str
    """Empty where the result names no id: then it answers the first open call of its `name`."""
    index: int
    """Which result of the message it is, from 0: several share one message in some formats."""
    text: str
    """What the model reads of it; parts that are not text are named (`[image image/png, 12,345 characters]`)."""
    content: Any
    """The JSON value that a trim replaces, for the content hash."""
    is_error: bool
    why_not: str | None
    """Why it cannot be shortened without breaking the request, or None."""
    name: str = ""
    """The tool, where the result names it."""


class MessageFormat(Protocol):
    """One provider's message format. Every method is pure: what it is given stays as it is."""

    name: str
    """`openai-chat`, `anthropic`, ..."""
    grouped: bool
    """True when all results of one turn must stand in one message."""
    joined: bool
    """True when replies that follow each other are one turn for the provider: then one reply may be recorded in several
    messages, such as an item or a block each, and the calls of all of them count as its calls. Where it is False in a
    `grouped` format, the provider refuses calls in a reply that follows another, and results in several messages.
    """

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
        """A reply of the model in one message, as the provider would return it. Raises `ValueError` where the format needs
        several; `reply_messages` gives them.
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
    """What a `MessageFormat` may have besides, where a reply that was cut off can end with something that is refused."""

    def is_loose_end(self, message: Message) -> bool:
        """True for a message of the model that the provider refuses where nothing else of the same reply follows."""
        ...


@runtime_checkable
class HasArguments(Protocol):
    """What a `MessageFormat` may have besides, so that long arguments of old calls can be shortened."""

    def with_arguments(self, message: Message, index: int, arguments: Mapping[str, str]) -> Message:
        """A copy in which these arguments of call number `index` are the given texts. The others stay, and so does the form
        in which arguments are written. What the call holds must be an object of JSON, written out or not."""
        ...


@runtime_checkable
class HasDeferral(Protocol):
    """What a `MessageFormat` may have besides, where its provider takes tools that the model is not shown before a search, or
    an addition, refers to them."""

    def deferred_tools(self, tools: Sequence[Tool], deferred: Sequence[Tool]) -> list[ProviderJson]:
        """The tools of a request in which the `deferred` ones are declared, and not shown. Of `tools` the one that searches
        (`Tool.search`) finds them."""
        ...

    def with_deferred(
        self, messages: Sequence[Message], deferred: Mapping[str, Tool], deferral: Deferral | None
    ) -> list[Message]:
        """The messages of a request that declares these tools, by name: what refers to others is left out, and additions are where
        `deferral` does not take them. Where there are no such tools at all, searches and what they found stand there as those of
        any other tool. None is a host that did not say what its requests take: it may declare tools of its own."""
        ...

    def references(self, messages: Sequence[Message]) -> list[str]:
        """The names of the tools to which these messages refer, in order, each once."""
        ...

    def addition(self, names: Sequence[str]) -> Message:
        """The message from which on the model is shown these."""
        ...


@runtime_checkable
class HasRules(Protocol):
    """What a `MessageFormat` may have besides, where its provider refuses more than calls without results. Then the view is
    mended by it, and `hooksdk.trimming.problem` tells of it."""

    wants_unique_ids: bool
    """True where it is known that the provider refuses two calls of one id. They are told apart in any case."""

    def sendable_id(self, call_id: str, suffix: str = "") -> str | None:
        """The id with which a call of this id can be sent: the same where that is fine, and with `suffix` at its end where
        another call has it already. None where the message holds no id."""
        ...

    def with_call_ids(self, message: Message, ids: Sequence[str]) -> Message:
        """A copy whose calls, or results, go by these ids, in their order."""
        ...

    def mend(self, message: Message) -> tuple[Message, str]:
        """The message as the provider takes it, and what it would refuse; the very message and no words where it would
        refuse nothing."""
        ...

    def opening(self, first: Message) -> Message | None:
        """What the provider wants to stand before this first message of the conversation; None where it may begin so."""
        ...
