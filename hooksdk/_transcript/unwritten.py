"""What could not be written of one open session."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import final

from hooksdk._tasks.limits import describe
from hooksdk.calls import ToolCall, ToolResult
from hooksdk.tools import Tool


@final
@dataclass
class Unwritten:
    """The records that could not be written, as on a full disk."""

    may_be_full: bool
    """True until it is shown that there is room."""
    failures: int = 0
    """How many they are."""
    problem: str = ""
    """Why the last of them could not be."""
    results: list[tuple[ToolCall, ToolResult, Tool | None, int, str]] = field(
        default_factory=list[tuple[ToolCall, ToolResult, Tool | None, int, str]]
    )
    """The results among them, each with the number of replies at that time, and the effect whose end it tells."""

    @contextmanager
    def watch(self) -> Generator[None]:
        """While a record is written."""
        try:
            yield
        except Exception as error:
            self.failures, self.problem, self.may_be_full = self.failures + 1, describe(error), True
            raise
