"""Tools that are declared to the provider and not shown: the model sees them from where a search, or an addition,
refers to them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, final

from hooksdk.formats import HasDeferral, Message, MessageFormat, ProviderJson
from hooksdk.tools import Deferral, Tool

# Of more tools only those are declared to which a message refers: the definitions of 511 tools of real servers are 347
# kB, which each request would carry, and a whole company's servers have thousands.
MOST_DECLARED = 2_000


@final
class Declared:
    """The hidden tools that the requests of a run declare.

    Attributes:
        deferral: What the requests can do, as far as the host said it.
        tools: By name, in the order of the names.
    """

    def __init__(self, message_format: MessageFormat, said: Deferral | None) -> None:
        self._plain = message_format
        self._format = message_format if isinstance(message_format, HasDeferral) else None
        self.deferral: Deferral | None = None
        self.say(said)
        self.tools: Mapping[str, Tool] = {}
        # To which of them the last request's messages refer.
        self._referenced: list[str] = []
        # What was written last for a request, and of what.
        self._written: tuple[Any, list[ProviderJson]] = None, []

    def say(self, deferral: Deferral | None) -> None:
        """What the host says of its requests."""
        self.deferral = deferral if self._format else "off"

    def definitions(self, offered: Sequence[Tool]) -> list[ProviderJson]:
        """The tools of a request that shows these."""
        names = self._referenced if len(self.tools) > MOST_DECLARED else [*self.tools]
        if self._written[0] != (source := (offered, self.tools, names)):
            shown = {tool.name for tool in offered}  # what was revealed among them is not declared once more
            deferred = [self.tools[name] for name in sorted(names) if name not in shown]
            written = self._format.deferred_tools(offered, deferred) if self._format and self.tools else None
            self._written = source, self._plain.tools(offered) if written is None else written
        return [*self._written[1]]

    def messages(self, messages: list[Message]) -> list[Message]:
        """The messages of such a request."""
        if self._format is None:
            return messages
        if self.tools:
            self._referenced = [name for name in self._format.references(messages) if name in self.tools]
        return self._format.with_deferred(messages, self.tools, self.deferral)

    def not_added(self, tools: Sequence[Tool], messages: Sequence[Message]) -> list[Tool] | None:
        """Those of these tools that the conversation does not show yet; None where no message can add them all."""
        if self._format is None or self.deferral != "additions" or not all(tool.name in self.tools for tool in tools):
            return None
        shown = self._format.references(messages)
        return [tool for tool in tools if tool.name not in shown]

    def addition(self, tools: Iterable[Tool]) -> Message:
        """The message that adds these."""
        assert self._format is not None
        return self._format.addition([tool.name for tool in tools])
