"""What was called after which words: it lifts the same tools when alike words are searched again.

Kept in the plugin's storage, a key for each tool. Of the words only salted hashes of their stems are kept, no text and no
order; words with digits, which may be secrets, are not kept at all.
"""

from __future__ import annotations

import hashlib
import logging
import secrets
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import cast

import anyio

from builtin_plugins.tool_search._ranking.indexes import Indexes
from builtin_plugins.tool_search._ranking.words import split_words, stem
from builtin_plugins.tool_search.rankers import Ranked, Ranker
from hooksdk import Storage, Tool

logger = logging.getLogger("hooksdk.tool_search")

LIFT = 0.5
"""What a tool that was always called after these words gains at most, as a share of the best hit's score."""
HALF_LIFE = 30.0
"""Days in which what was learned loses half of its weight."""
MAX_TOOLS, MAX_WORDS = 300, 60
"""Tools that are remembered, those used last, and words of each."""
_MAX_QUERIES, _QUERY_WORDS, _CERTAIN = 10, 24, 2.0
_SURE = 0.5  # strength from which on a tool that was called after such words is never weak
_DAY = 86_400.0
_TOOL, _SALT = "used:", "salt"

Uses = dict[str, tuple[float, float]]
"""By the hash of a word: how often the tool was called after it, and on which day that was true."""


class Memory:
    """What all sessions of a host have learned. `load` and `note` are for the host's loop, `strengths` for any thread."""

    def __init__(self, today: Callable[[], float] = lambda: time.time() / _DAY) -> None:
        self._today = today
        self._salt = ""
        self._uses: dict[str, Uses] = {}
        self._told = False
        self._writing = anyio.Lock()
        self._lock = threading.Lock()

    async def load(self, storage: Storage) -> None:
        """Read what other processes kept, too. What is damaged is told once and left out."""
        keys = await storage.keys()
        salt = await storage.get(_SALT)
        if not isinstance(salt, str) or not salt:
            salt = secrets.token_hex(8)
            await storage.set(_SALT, salt)
        found: dict[str, Uses] = {}
        for key in keys:
            if key.startswith(_TOOL):
                uses = _parse(await storage.get(key))
                if uses is None:
                    self._tell(key)
                    await storage.delete(key)
                else:
                    found[key.removeprefix(_TOOL)] = uses
        with self._lock:
            self._salt, self._uses = salt, found

    def _tell(self, key: str) -> None:
        if not self._told:
            self._told = True
            logger.warning("tool_search: what was learned under %r is damaged; it is left out and forgotten", key)

    async def note(self, storage: Storage, tool: str, words: Sequence[str]) -> None:
        """A tool was called after these words."""
        async with self._writing:
            await self._note(storage, tool, words)

    async def _note(self, storage: Storage, tool: str, words: Sequence[str]) -> None:
        today = self._today()
        key = _TOOL + tool
        uses = _parse(await storage.get(key)) or {}  # another process may have added to it
        for word in dict.fromkeys(words):
            name = self._hash(word)
            uses[name] = (_faded(uses.get(name), today) + 1.0, today)
        newest = sorted(uses.items(), key=lambda pair: (-_faded(pair[1], today), pair[0]))[:MAX_WORDS]
        uses = dict(newest)
        await storage.set(key, {name: list(use) for name, use in uses.items()})
        with self._lock:
            self._uses[tool] = uses
            oldest = sorted(self._uses, key=lambda one: max((day for _, day in self._uses[one].values()), default=0.0))
            surplus = oldest[: max(0, len(oldest) - MAX_TOOLS)]
            for one in surplus:
                del self._uses[one]
        for one in surplus:
            await storage.delete(_TOOL + one)

    def strengths(self, words: Sequence[str]) -> dict[str, float]:
        """By tool, how sure it is that it is meant by these words, 0 to 1."""
        today = self._today()
        with self._lock:
            uses, names = dict(self._uses), [self._hash(word) for word in dict.fromkeys(words)]
        found: dict[str, float] = {}
        for name in names:
            counts = {tool: _faded(own[name], today) for tool, own in uses.items() if name in own}
            total = sum(sorted(counts.values()))
            for tool, count in counts.items():
                # A word that led to many tools says little of each, and one call says less than several.
                found[tool] = found.get(tool, 0.0) + count / (total + 1.0 / _CERTAIN) / len(names)
        return found

    def _hash(self, word: str) -> str:
        return hashlib.blake2b(word.encode(), digest_size=6, key=self._salt.encode()).hexdigest()


def _faded(use: tuple[float, float] | None, today: float) -> float:
    return use[0] * 0.5 ** (max(0.0, today - use[1]) / HALF_LIFE) if use else 0.0


def _parse(value: object) -> Uses | None:
    """What was kept, within its limits; None where it is nothing that was written here."""
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        return None
    uses: Uses = {}
    for name, use in cast("Mapping[str, object]", value).items():
        numbers = cast("list[object]", use) if isinstance(use, list) else []
        if len(numbers) != 2 or not all(type(one) in (int, float) and 0 <= cast("float", one) < 1e6 for one in numbers):
            return None
        count, day = cast("list[float]", numbers)
        uses[name] = (float(count), float(day))
    return dict(list(uses.items())[:MAX_WORDS])


def words_of(query: str) -> list[str]:
    """The stems of a query that are kept: none with a digit, and at most two dozen."""
    return [stem(word) for word in split_words(query[:512]) if word.isalpha()][:_QUERY_WORDS]


class Learning:
    """The rankers of a session, lifted by what was learned; it remembers the session's latest queries."""

    def __init__(self, indexes: Indexes, memory: Memory, *, learns: bool) -> None:
        self._indexes = indexes
        self._memory = memory
        self._learns = learns
        self._queries: OrderedDict[str, tuple[list[str], frozenset[str]]] = OrderedDict()
        """The words of each query and its hits."""
        self._lock = threading.Lock()

    def of(self, tools: Sequence[Tool]) -> Ranker:
        """The ranker of these tools."""
        ranker = self._indexes.of(tools)
        return _Lifted(self, ranker, tools) if self._learns else ranker

    def strengths(self, words: Sequence[str]) -> dict[str, float]:
        """By the id of a tool, see `Memory.strengths`."""
        return self._memory.strengths(words)

    def searched(self, query: str, words: list[str], hits: frozenset[str]) -> None:
        """A query was answered."""
        with self._lock:
            self._queries[query] = (words, hits)
            self._queries.move_to_end(query)
            while len(self._queries) > _MAX_QUERIES:
                self._queries.popitem(last=False)

    async def called(self, tool: Tool, storage: Storage) -> None:
        """A tool was called and answered: note it under the queries that found it; where none did, under the latest."""
        if not self._learns:
            return
        with self._lock:
            queries = [*self._queries.values()]
            for query, (_, hits) in list(self._queries.items()):
                if tool.name in hits:
                    del self._queries[query]
        matching = [words for words, hits in queries if tool.name in hits] or [words for words, _ in queries[-1:]]
        if words := [word for one in matching for word in one]:
            await self._memory.note(storage, tool.id, words)


class _Lifted:
    def __init__(self, learning: Learning, ranker: Ranker, tools: Sequence[Tool]) -> None:
        self._learning = learning
        self._ranker = ranker
        self._tools = tools

    def search(self, query: str, limit: int) -> list[Ranked]:
        """The ranker's hits, each lifted by a bounded share of the best score."""
        words = words_of(query)
        strengths = self._learning.strengths(words) if words else {}
        if not strengths:
            hits = self._ranker.search(query, limit)
        else:
            names = {tool.id: tool.name for tool in self._tools if tool.id in strengths}
            known = {names[one]: strength for one, strength in strengths.items() if one in names}
            hits = lifted(self._ranker.search(query, limit + len(known)), known)[: max(0, limit)]
        self._learning.searched(query, words, frozenset(hit.id for hit in hits))
        return hits


def lifted(hits: Sequence[Ranked], strengths: Mapping[str, float]) -> list[Ranked]:
    """These hits in their new order. A tool that was not found is found, by its lift alone."""
    top = max([hit.score for hit in hits], default=1.0)
    scores = {hit.id: hit.score for hit in hits}
    found = {hit.id: hit for hit in hits}
    for name, strength in strengths.items():
        scores[name] = scores.get(name, 0.0) + LIFT * top * min(1.0, strength)
    order = sorted(scores.items(), key=lambda pair: (-pair[1], pair[0]))
    return [
        replace(found[name], score=score)
        if name in found and strengths.get(name, 0.0) < _SURE
        else Ranked(name, score, weak=False)
        for name, score in order
    ]
