"""The counters of one run."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, final

from hooksdk._tasks.background import logger
from hooksdk.calls import ToolCall, ToolResult
from hooksdk.catalog import Catalog
from hooksdk.tools import Tool
from hooksdk.transcript import DrainReport

# How many calls are named one by one; later ones are only counted.
MAX_CALLS = 1000


@final
class RunStats:
    """Counts what a run does; `as_dict()` is what `run.stats` and the `AgentEnd` event show.

    Attributes:
        origins: Calls that were taken up, by where they come from.
        shadow: What plugins in shadow mode would have done, by plugin: the answers' names, and `failed`.
    """

    def __init__(self, clean: Callable[[str], str] = str) -> None:
        self._clean = clean
        self.tokens_direct = 0
        self.tokens_offered = 0
        self.message_characters = 0
        self._catalog: Counter[str] = Counter()
        self._offered = 0
        self._model_calls = 0
        self._usage: Counter[str] = Counter()
        self._statuses: Counter[str] = Counter()
        self.origins: Counter[str] = Counter()
        self._counters: Counter[str] = Counter()
        self._calls: list[dict[str, Any]] = []
        self._trims: Counter[str] = Counter()
        self._tokens_trimmed = 0
        self._calls_in_text = 0
        self._nested = 0
        self._prefetched: set[str] = set()
        self._revealed: set[str] = set()
        # Of both, what was called while it was offered.
        self._used: set[str] = set()
        self.shadow: dict[str, Counter[str]] = {}

    def resolved(self, catalog: Catalog, offered: Sequence[Tool], prefetched: Iterable[str] = ()) -> None:
        """The tools are settled."""
        self._prefetched.update(prefetched)
        self._catalog = Counter(tool.source for tool in catalog)
        self._offered = len(offered)
        self.tokens_direct, self.tokens_offered = catalog.tokens, sum(tool.tokens for tool in offered)

    def revealed(self, tools: Sequence[Tool]) -> None:
        """Hidden tools are offered from now on."""
        self._revealed.update(tool.name for tool in tools)
        self._offered += len(tools)
        self.tokens_offered += sum(tool.tokens for tool in tools)

    def sent(self, messages: Sequence[Mapping[str, Any]]) -> None:
        """A model call is about to be made with these messages."""
        self._model_calls += 1
        self.message_characters = len(json.dumps(messages, ensure_ascii=False, separators=(",", ":")))

    def replied(self, usage: Mapping[str, Any] | None) -> None:
        """The model has replied; numbers in its usage are added up under their own names."""
        for name, value in (usage or {}).items():
            if isinstance(value, (int, float)) and not isinstance(value, bool):
                self._usage[name] += value  # type: ignore[assignment]

    def finished(self, status: str, result: ToolResult, tool: Tool | None, call: ToolCall) -> None:
        """A call has its result."""
        self._statuses[status] += 1
        if tool is not None and tool.name in self._prefetched | self._revealed:
            self._used.add(tool.name)
        if len(self._calls) < MAX_CALLS:
            call_of = {"id": call.id, "tool": tool.id if tool else None, "source": tool.source if tool else None}
            self._calls.append({**call_of, "origin": call.origin, "status": status, "characters": len(result.text)})

    def written_as_text(self, calls: int) -> None:
        """A reply held calls as text."""
        self._calls_in_text += calls

    def count(self, counter: str, amount: int = 1) -> None:
        """A plugin's own counter."""
        self._counters[self._clean(counter)] += amount

    def in_shadow(self, plugin: str, outcome: str) -> None:
        """A plugin in shadow mode would have done this."""
        self.shadow.setdefault(plugin, Counter())[outcome] += 1

    def log_shadow(self, run_id: str) -> None:
        """Tell the operator what the plugins in shadow mode would have done in this run."""
        for plugin, outcomes in self.shadow.items():
            counts = ", ".join(f"{name} {count}" for name, count in outcomes.items())
            logger.warning(
                "plugin '%s' is in shadow mode; in run %s it would have answered: %s", plugin, run_id, counts
            )

    def drained(self, report: DrainReport) -> None:
        """Queued trims were applied."""
        self._trims.update(trim.status for trim in report.trims)
        self._tokens_trimmed += sum(trim.tokens_saved for trim in report.trims)

    def next_nested(self) -> int:
        """A number for the next nested call."""
        self._nested += 1
        return self._nested

    def as_dict(self) -> dict[str, Any]:
        """All counters, as JSON."""
        return {
            "model_calls": self._model_calls,
            "usage": dict(self._usage),
            "catalog": dict(self._catalog),
            "tools_offered": self._offered,
            "tokens_direct": self.tokens_direct,
            "tokens_offered": self.tokens_offered,
            "message_characters": self.message_characters,
            "prefetched": len(self._prefetched),
            "prefetched_used": len(self._prefetched & self._used),
            "revealed": len(self._revealed),
            "revealed_used": len(self._revealed & self._used),
            "tool_calls": dict(self._statuses),
            "origins": dict(self.origins),
            "calls_in_text": self._calls_in_text,
            "counters": dict(self._counters),
            "calls": [dict(call) for call in self._calls],
            "trims": dict(self._trims),
            "tokens_trimmed": self._tokens_trimmed,
            "shadow": {plugin: dict(outcomes) for plugin, outcomes in self.shadow.items()},
        }
