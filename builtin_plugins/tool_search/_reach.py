"""What is shown directly beside the bridge: the tools nearest to what the user asked, and those that a search found
well or a call used. What is new stands at the end; for it makes room, where the budget is full, what was shown for
earlier prompts and never called. The rest stays in its order, and with it a provider's cache of what stands before the
first change.

The next ones are a second tier: their call signatures stand behind the prompt, in the requests that answer it, until
something is called. There is nothing behind them that a cache could lose.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

import anyio.to_thread

from builtin_plugins.tool_search._answers.signatures import row
from builtin_plugins.tool_search._config import Config
from builtin_plugins.tool_search._nearest import Hit, nearest, without_siblings
from builtin_plugins.tool_search._sentences import MORE_TOOLS, Way
from builtin_plugins.tool_search.rankers import Ranker
from hooksdk import PluginState, Tool, schema

logger = logging.getLogger("hooksdk.tool_search")

# So many times as many hits are looked at as are wanted: those that do not fit the budget are passed over.
DEEPER = 3
# Hits of one query that are revealed at most.
BEST_HITS = 2


class Reach:
    """The tools of one session that are shown beside the bridge.

    Attributes:
        way: How a hidden tool is called: in a script it needs no schema, and natively the provider shows what a search
            found.
    """

    def __init__(self, config: Config, state: PluginState) -> None:
        self._count = config.prefetch
        self._signatures = config.signatures
        self._budget = config.prefetch_tokens
        self._reveals = config.reveal != "off"
        self.way: Way = "tools"
        self._state = state
        # What may be shown, by name: the granted tools that the bridge stands for.
        self._hidden: Mapping[str, Tool] = {}
        self._shown: list[str] = []
        # Those that were called, the last one last.
        self._called: dict[str, None] = dict.fromkeys(state.get("called", list[str]()))
        # Names to reveal before the next model call, those that were called first.
        self._waiting: dict[str, None] = {}
        self._attempt = ("", 0)
        # Whether something was called for the prompt, so that its signatures have been read.
        self._is_answered = False
        # What is shown by its signature, by name.
        self._rows: dict[str, str] = {}

    def none(self) -> None:
        """Nothing is hidden in this attempt."""
        self._hidden, self._shown = {}, []
        self._waiting.clear()
        self._rows.clear()

    def begin(self, run_id: str, attempt: int) -> None:
        """Tools are resolved: in a new attempt nothing was called yet."""
        if self._attempt != (run_id, attempt):
            self._attempt, self._is_answered = (run_id, attempt), False

    async def prefetch(self, tools: Sequence[Tool], prompts: Sequence[str], ranker: Callable[[], Ranker]) -> list[str]:
        """The names to show of these hidden tools: what was shown before, and behind it what fits the prompts, the
        newest first. Without a search where that fails."""
        self._hidden = {tool.name: tool for tool in tools}
        before: list[str] = [name for name in self._state.get("shown", list[str]()) if name in self._hidden]
        self._shown = []
        self._rows.clear()
        for name in before:
            self._show(name)
        if (self._count or self._signatures) and prompts and self._budget:
            newest, *older = await self._searched(prompts, ranker)
            self._choose(newest, [hit for hits in older for hit in hits])
        self._remember()
        return [*self._shown]

    async def add(self, tools: Sequence[Tool], prompts: Sequence[str], ranker: Callable[[], Ranker]) -> None:
        """Where the provider adds tools at the end of the conversation: what fits the newest prompt waits for the next
        request. The budget is each prompt's own."""
        self._hidden, self._shown = {tool.name: tool for tool in tools}, []
        hits = (await self._searched(prompts[:1], ranker))[0] if self._count and prompts and self._budget else []
        self._waiting = dict.fromkeys([hit.name for hit in hits if hit.near][: self._count])

    def _choose(self, newest: Sequence[Hit], older: Sequence[Hit]) -> None:
        """Show the nearest that the budget takes beside what was called, by their signatures the next ones for the
        newest prompt, and no more of what was not called than it takes then."""
        stay = self._kept()
        room = self._budget - self._tokens(stay)
        hits = {hit.name: hit for hit in (*older, *newest)}
        names = list(dict.fromkeys(hit.name for hit in (*newest, *older)))
        chosen = [name for name in names if name in stay][: self._count]
        for name in (name for name in names if hits[name].near and name not in stay):
            tokens = self._hidden[name].tokens
            if len(chosen) < self._count and tokens <= room:
                room -= tokens
                chosen.append(name)
        others = [hit.name for hit in newest if hit.name not in stay and hit.name not in chosen]
        rows = self._rows_within(room, [name for name in others if name not in self._shown])
        self._make_room(stay.union(chosen), rows, others)
        self._shown += [name for name in chosen if name not in self._shown]
        room = self._budget - self._tokens(self._shown)
        self._rows = self._rows_within(room, [name for name in others if name not in self._shown])

    def _tokens(self, names: Iterable[str]) -> int:
        return sum(self._hidden[name].tokens for name in names)

    def _rows_within(self, room: int, names: Sequence[str]) -> dict[str, str]:
        """The signatures of the first of these for which there is room."""
        rows: dict[str, str] = {}
        room -= schema.estimate_tokens(MORE_TOOLS)
        for name in names:
            if len(rows) == self._signatures or self._is_answered:
                break
            text = row(self._hidden[name])
            if (tokens := schema.estimate_tokens(text)) <= room:
                room -= tokens
                rows[name] = text
        return rows

    def _make_room(self, wanted: Collection[str], rows: Mapping[str, str], fits: Collection[str]) -> None:
        """Drop shown tools that are not wanted until the others fit the budget: the oldest first, and those that fit
        the prompt last."""
        tokens = self._tokens({*self._shown, *wanted}) + _cost(rows)
        gone = set[str]()
        for name in sorted((name for name in self._shown if name not in wanted), key=lambda name: name in fits):
            if tokens > self._budget:
                gone.add(name)
                tokens -= self._hidden[name].tokens
        self._shown = [name for name in self._shown if name not in gone]

    def signatures(self) -> Mapping[str, str]:
        """The lines of the second tier, by name, while nothing has been called for the prompt."""
        return {} if self._is_answered else self._rows

    def answered(self, name: str) -> bool:
        """Something was called, whatever came of it. Tells whether it was shown by its signature."""
        told = not self._is_answered and name in self._rows
        self._is_answered = True
        return told

    def _kept(self) -> set[str]:
        """The latest called tools that take at most half of the budget: the other half is for the newest prompt."""
        kept, tokens = set[str](), 0
        for name in reversed([name for name in self._called if name in self._shown]):
            tokens += self._hidden[name].tokens
            if tokens > self._budget / 2:
                break
            kept.add(name)
        return kept

    async def _searched(self, prompts: Sequence[str], ranker: Callable[[], Ranker]) -> list[list[Hit]]:
        """What fits each of the prompts."""
        hidden, depth = self._hidden, max(self._count, self._signatures) * DEEPER

        def search() -> list[list[Hit]]:
            index = ranker()
            lists = ([hit for hit in nearest(index, prompt, depth) if hit.name in hidden] for prompt in prompts)
            return [without_siblings(hits, hidden, prompt) for hits, prompt in zip(lists, prompts, strict=True)]

        try:
            return await anyio.to_thread.run_sync(search, abandon_on_cancel=True)
        except Exception:
            logger.warning("tool_search: nothing is prefetched, since the search of the prompt failed", exc_info=True)
        return [[]]

    def found(self, groups: Iterable[Mapping[str, Any]]) -> None:
        """A search has answered: its best hits are revealed, those that fit badly never."""
        for group in groups:
            names: list[str] = [hit["name"] for hit in group["hits"] if "weak" not in hit]
            self._wait(names[:BEST_HITS])

    def used(self, name: str) -> None:
        """A tool was called, whatever came of it."""
        if name in self._hidden:
            self._called.pop(name, None)
            self._called[name] = None
            self._remember()
        self._wait([name], first=True)

    def _wait(self, names: Iterable[str], *, first: bool = False) -> None:
        if self._reveals and self.way == "tools":
            new = dict.fromkeys(name for name in names if name in self._hidden and name not in self._shown)
            self._waiting = {**new, **self._waiting} if first else {**self._waiting, **new}

    def revealed(self) -> list[str]:
        """The names to reveal now, as far as the budget reaches."""
        names = [name for name in self._waiting if name not in self._shown and self._show(name)]
        self._waiting.clear()
        if names:
            self._remember()
        return names

    def _show(self, name: str) -> bool:
        if self._tokens(self._shown) + self._hidden[name].tokens > self._budget:
            return False
        self._shown.append(name)
        return True

    def _remember(self) -> None:
        for key, names in (("shown", self._shown), ("called", [name for name in self._called if name in self._shown])):
            if self._state.get(key, list[str]()) != names:
                self._state[key] = [*names]


def _cost(rows: Mapping[str, str]) -> int:
    """The tokens of these lines and of the heading above them."""
    return sum(map(schema.estimate_tokens, (MORE_TOOLS, *rows.values()))) if rows else 0
