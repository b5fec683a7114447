"""What the bridge tools are called in this host."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

BRIDGES = ("tool_search", "tool_describe", "tool_call", "tool_search_code")
"""Their names unless the configuration says otherwise. Policies know the tools by these in any case."""
LEGAL = re.compile(r"[A-Za-z0-9_-]{1,64}")
"""The names that every provider takes."""
_OWN = re.compile(r"\b(?:tool_search_code|tool_search|tool_describe|tool_call)\b")


@dataclass(frozen=True, slots=True)
class Names:
    """The bridge tools by the names that the model sees."""

    chosen: Mapping[str, str] = field(default_factory=dict[str, str])
    """Other names, by the usual ones."""

    @property
    def search(self) -> str:
        """The name of `tool_search`."""
        return self.of("tool_search")

    @property
    def describe(self) -> str:
        """The name of `tool_describe`."""
        return self.of("tool_describe")

    @property
    def call(self) -> str:
        """The name of `tool_call`."""
        return self.of("tool_call")

    @property
    def code(self) -> str:
        """The name of `tool_search_code`."""
        return self.of("tool_search_code")

    def of(self, usual: str) -> str:
        """The name that the model sees of this bridge tool."""
        return self.chosen.get(usual, usual)

    def bridge(self, written: str) -> str:
        """The usual name of the bridge tool that a model means, also as `functions.tool_search` or in other letters, or by
        the usual name where it has another; empty where it means none."""
        name = written.strip().rpartition(".")[2].casefold()
        meant = [usual for usual in BRIDGES if name == self.of(usual).casefold()]
        return next(iter(meant or [usual for usual in BRIDGES if name == usual]), "")

    def fill(self, sentence: str) -> str:
        """One of our own sentences, with these names. Not for text of others, which may hold such names, too."""
        return _OWN.sub(lambda match: self.of(match[0]), sentence) if self.chosen else sentence
