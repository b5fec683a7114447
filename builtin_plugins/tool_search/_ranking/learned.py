"""Learning from use: a tool that was called after some words ranks higher when alike words are searched again.

The plugin's storage has one key for each tool. Of the words only salted hashes of their stems are stored, no text and
no order; words with digits, which may be secrets, are not stored at all.
"""

from __future__ import annotations

import hashlib
import logging
import secrets
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated

import anyio
from pydantic import Field, TypeAdapter, ValidationError

from builtin_plugins.tool_search._ranking.indexes import Indexes
from builtin_plugins.tool_search._ranking.words import split_words, stem
from builtin_plugins.tool_search.rankers import Ranked, Ranker
from hooksdk import Storage, Tool

logger = logging.getLogger("hooksdk.tool_search")

# The most that a tool gains which was always called after these words, as a share of the best hit's score.
LIFT = 0.5
# Days in which what was learned loses half of its weight.
HALF_LIFE = 30.0
MAX_TOOLS, MAX_WORDS = 300, 60
"""Tools that are remembered, those used last, and words of each."""
_MAX_QUERIES, _QUERY_WORDS, _CERTAIN = 10, 24, 2.0
_SURE = 0.5  # strength from which on a tool that was called after such words is never weak
_DAY = 86_400.0
_TOOL, _SALT = "used:", "salt"

_Kept = Annotated[float, Field(ge=0, lt=1e6, strict=True)]
# By the hash of a word: how often the tool was called after it, and on which day that was true.
Uses = dict[str, tuple[_Kept, _Kept]]
_USES: TypeAdapter[Uses] = TypeAdapter(Uses)


class Memory:
    """The uses of tools that all sessions of a host have noted. `load` and `note` are for the host's loop, `strengths`
    for any thread."""

    def __init__(self, today: Callable[[], float] = lambda: time.time() / _DAY) -> None:
        self._today = today
        self._salt = ""
        self._uses: dict[str, Uses] = {}
        self._told = False
        self._writing = anyio.Lock()
        self._lock = threading.Lock()

    async def load(self, storage: Storage) -> None:
        """Load what this and other processes stored. Damaged entries are deleted, with one warning."""
        keys = await storage.keys()
        salt = await storage.get(_SALT)
        if not isinstance(salt, str) or not salt:
            salt = secrets.token_hex(8)
            await storage.set(_SALT, salt)
        found: dict[str, Uses] = {}
        for key in keys:
            if key.startswith(_TOOL):
                try:
                    found[key.removeprefix(_TOOL)] = _read(await storage.get(key, {}))
                except ValidationError:
                    if not self._told:
                        logger.warning("tool_search: what was learned under %r is damaged; it is forgotten", key)
                    self._told = True
                    await storage.delete(key)
        with self._lock:
            self._salt, self._uses = salt, found

    async def note(self, storage: Storage, tool: str, words: Sequence[str]) -> None:
        """A tool was called after these words."""
        async with self._writing:
            today = self._today()
            try:
                uses = _read(await storage.get(_TOOL + tool, {}))  # another process may have added to it
            except ValidationError:
                uses = Uses()
            uses |= {name: (_faded(uses.get(name), today) + 1.0, today) for name in map(self._hash, words)}
            newest = sorted(uses.items(), key=lambda pair: (-_faded(pair[1], today), pair[0]))[:MAX_WORDS]
            await storage.set(_TOOL + tool, {name: list(use) for name, use in newest})
            with self._lock:
                self._uses[tool] = dict(newest)
                latest = {one: max((day for _, day in uses.values()), default=0.0) for one, uses in self._uses.items()}
                surplus = sorted(latest, key=latest.__getitem__)[: max(0, len(latest) - MAX_TOOLS)]
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


def _read(value: object) -> Uses:
    """Decode the stored uses of a tool, within the limits. Raises `ValidationError` for anything that was not written
    here."""
    return dict([*_USES.validate_python(value).items()][:MAX_WORDS])


def words_of(query: str) -> list[str]:
    """The stems of a query that are kept: none with a digit, and at most two dozen."""
    return [stem(word) for word in split_words(query[:512]) if word.isalpha()][:_QUERY_WORDS]


class Learning:
    """The rankers of a session, lifted by what was learned; it remembers the session's latest queries."""

    def __init__(self, indexes: Indexes, memory: Memory, *, learns: bool) -> None:
        self._indexes = indexes
        self._memory = memory
        self._learns = learns
        # The words of each query and its hits.
        self._queries: OrderedDict[str, tuple[list[str], frozenset[str]]] = OrderedDict()
        self._lock = threading.Lock()

    def of(self, tools: Sequence[Tool]) -> Ranker:
        """The ranker of these tools."""
        ranker = self._indexes.of(tools)
        return _Lifted(self, ranker, tools) if self._learns else ranker

    def search(self, ranker: Ranker, tools: Sequence[Tool], query: str, limit: int) -> list[Ranked]:
        """The ranker's hits, each lifted by a bounded share of the best score."""
        words = words_of(query)
        strengths = self._memory.strengths(words) if words else {}
        known = {tool.name: strengths[tool.id] for tool in tools if tool.id in strengths} if strengths else {}
        hits = ranker.search(query, limit + len(known))
        hits = lifted(hits, known)[: max(0, limit)] if known else hits
        with self._lock:
            self._queries[query] = (words, frozenset(hit.id for hit in hits))
            self._queries.move_to_end(query)
            while len(self._queries) > _MAX_QUERIES:
                self._queries.popitem(last=False)
        return hits

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


@dataclass(frozen=True)
class _Lifted:
    learning: Learning
    ranker: Ranker
    tools: Sequence[Tool]

    def search(self, query: str, limit: int) -> list[Ranked]:
        return self.learning.search(self.ranker, self.tools, query, limit)


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
