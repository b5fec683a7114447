"""What is shown directly beside the bridge: the tools nearest to what the user asked, and those that a search found well or
a call used. What is new stands at the end; for it makes room, where the budget is full, what was shown for earlier prompts and
never called. The rest stays in its order, and with it a provider's cache of what stands before the first change."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain, zip_longest
from typing import Any

import anyio.to_thread

from builtin_plugins.tool_search._config import Config
from builtin_plugins.tool_search._ranking.purpose import wants_words
from builtin_plugins.tool_search.rankers import Ranker
from hooksdk import PluginState, Tool

logger = logging.getLogger("hooksdk.tool_search")

DEEPER = 3
"""So many times as many hits are looked at as are wanted: those that do not fit the budget are passed over."""
MAX_STEPS = 8
"""Sentences of a prompt that are searched one by one, beside the whole of it."""
BEST_HITS = 2
"""Hits of one query that are revealed at most."""
EVIDENCE, EVIDENCE_BESIDE_WORDS = 0.37, 0.74
"""What has to speak for a hit that is prefetched (see `Ranked.evidence`), and where words are asked for rather than a tool."""
_STEP_END = re.compile(r"(?<=[.!?;])\s+|[\u3002\uff01\uff1f\uff1b]|\n+|,?\s+(?:and\s+)?then\s+")


class Reach:
    """The tools of one session that are shown beside the bridge."""

    def __init__(self, config: Config, state: PluginState) -> None:
        self._count = config.prefetch
        self._budget = config.prefetch_tokens
        self._reveals = config.reveal != "off"
        self.in_script = False
        """Whether calls are made in scripts, which need no schemas."""
        self._state = state
        self._hidden: Mapping[str, Tool] = {}
        """What may be shown, by name: the granted tools that the bridge stands for."""
        self._shown: list[str] = []
        self._called: dict[str, None] = dict.fromkeys(state.get("called", list[str]()))
        """Those that were called, the last one last."""
        self._waiting: dict[str, None] = {}
        """Names to reveal before the next model call, those that were called first."""

    def none(self) -> None:
        """Nothing is hidden in this attempt."""
        self._hidden, self._shown = {}, []
        self._waiting.clear()

    async def prefetch(self, tools: Sequence[Tool], prompts: Sequence[str], ranker: Callable[[], Ranker]) -> list[str]:
        """The names to show of these hidden tools: what was shown before, and behind it what fits the prompts, the newest first.
        Without a search where that fails."""
        self._hidden = {tool.name: tool for tool in tools}
        before: list[str] = [name for name in self._state.get("shown", list[str]()) if name in self._hidden]
        self._shown = []
        for name in before:
            self._show(name)
        if self._count and prompts and self._budget:
            self._make_room(await self._searched(prompts, ranker))
        self._remember()
        return [*self._shown]

    def _make_room(self, wanted: Sequence[str]) -> None:
        """Show the best of these that the budget takes beside what was called, and no more of what was not than it takes then."""
        stay = self._kept()
        room = self._budget - sum(self._hidden[name].tokens for name in stay)
        chosen = [name for name in wanted if name in stay]
        for name in wanted:
            if len(chosen) >= self._count:
                break
            if name not in stay and self._hidden[name].tokens <= room:
                room -= self._hidden[name].tokens
                chosen.append(name)
        new = [name for name in chosen if name not in self._shown]
        gone = set[str]()
        for name in (name for name in self._shown if name not in stay and name not in chosen):
            if sum(self._hidden[one].tokens for one in (*self._shown, *new) if one not in gone) > self._budget:
                gone.add(name)
        self._shown = [*(name for name in self._shown if name not in gone), *new]

    def _kept(self) -> set[str]:
        """What was called, the last ones, as far as they take half of the budget: the rest is for what is asked now."""
        kept, tokens = set[str](), 0
        for name in reversed([name for name in self._called if name in self._shown]):
            tokens += self._hidden[name].tokens
            if tokens > self._budget / 2:
                break
            kept.add(name)
        return kept

    async def _searched(self, prompts: Sequence[str], ranker: Callable[[], Ranker]) -> list[str]:
        hidden, depth = self._hidden, self._count * DEEPER

        def search() -> list[str]:
            return [name for name in nearest(ranker(), prompts, depth) if name in hidden]

        try:
            return await anyio.to_thread.run_sync(search, abandon_on_cancel=True)
        except Exception:
            logger.warning("tool_search: nothing is prefetched, since the search of the prompt failed", exc_info=True)
        return []

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
        if self._reveals and not self.in_script:
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
        used = sum(self._hidden[one].tokens for one in self._shown)
        if used + self._hidden[name].tokens > self._budget:
            return False
        self._shown.append(name)
        return True

    def _remember(self) -> None:
        for key, names in (("shown", self._shown), ("called", [name for name in self._called if name in self._shown])):
            if self._state.get(key, list[str]()) != names:
                self._state[key] = [*names]


def nearest(ranker: Ranker, prompts: Sequence[str], count: int) -> list[str]:
    """The names of the tools that fit what was asked, the best first, and none that fits badly. A prompt of several
    sentences is searched as a whole and by each of them."""
    names: dict[str, None] = {}
    for prompt in prompts:
        lists = [_hits(ranker, query, count) for query in (prompt, *steps(prompt))]
        names.update(dict.fromkeys(_in_turns(lists)))
    return [*names][:count]


def steps(prompt: str) -> list[str]:
    """The sentences of a prompt, where there are several."""
    parts = [part for part in _STEP_END.split(prompt) if len(part.split()) > 1]
    return parts[:MAX_STEPS] if len(parts) > 1 else []


def _hits(ranker: Ranker, query: str, count: int) -> list[str]:
    least = EVIDENCE_BESIDE_WORDS if wants_words(query) else EVIDENCE
    hits = ranker.search(query, count)
    return [hit.id for hit in hits if not hit.weak and (hit.evidence is None or hit.evidence >= least)]


def _in_turns(lists: Iterable[Sequence[str]]) -> Iterator[str]:
    return (name for name in chain.from_iterable(zip_longest(*lists)) if name is not None)
