"""The search of a prompt: what fits, how well, and where the list ends."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest

from builtin_plugins.tool_search._nearest.idle import wants_no_tool
from builtin_plugins.tool_search.rankers import Ranked, Ranker

MAX_STEPS = 8
"""Sentences of a prompt that are searched one by one, beside the whole of it."""
EVIDENCE, EVIDENCE_UNASKED = 0.37, 0.74
"""What has to speak for a hit (see `Ranked.evidence`), and where no tool seems to be asked for."""
NEAR, FAR = 0.5, 0.3
"""The shares of the best hit's score down to which a hit is near, and where the list ends. Chosen on one half of the queries of
`benchmarks/prefetch.py`."""
_STEP_END = re.compile(r"(?<=[.!?;])\s+|[\u3002\uff01\uff1f\uff1b]|\n+|,?\s+(?:and\s+)?then\s+")


@dataclass(frozen=True, slots=True)
class Hit:
    """A tool that fits a prompt."""

    name: str
    near: bool
    """Whether it fits nearly as well as the best hit does."""
    first: bool
    """Whether nothing fits better, the prompt or one of its sentences."""


def nearest(ranker: Ranker, prompt: str, count: int) -> list[Hit]:
    """The tools that fit what was asked, the best first, and none that fits badly. A prompt of several sentences is searched
    as a whole and by each of them."""
    hits: dict[str, Hit] = {}
    for hit in _in_turns([_hits(ranker, query, count) for query in (prompt, *steps(prompt))]):
        known = hits.get(hit.name, hit)
        hits[hit.name] = Hit(hit.name, near=hit.near or known.near, first=hit.first or known.first)
    return [*hits.values()][:count]


def steps(prompt: str) -> list[str]:
    """The sentences of a prompt, where there are several."""
    parts = [part for part in _STEP_END.split(prompt) if len(part.split()) > 1]
    return parts[:MAX_STEPS] if len(parts) > 1 else []


def _hits(ranker: Ranker, query: str, count: int) -> list[Hit]:
    least = EVIDENCE_UNASKED if wants_no_tool(query) else EVIDENCE
    hits = [hit for hit in ranker.search(query, count) if _fits(hit, least)]
    best = hits[0].score if hits else 0.0
    return [
        Hit(hit.id, near=_reaches(hit, NEAR * best), first=hit is hits[0]) for hit in hits if _reaches(hit, FAR * best)
    ]


def _fits(hit: Ranked, evidence: float) -> bool:
    return not hit.weak and (hit.evidence is None or hit.evidence >= evidence)


def _reaches(hit: Ranked, score: float) -> bool:
    """Whether the hit has this score. A ranker of one's own may count in negative numbers: then nothing is too far."""
    return score <= 0.0 or hit.score >= score


def _in_turns(lists: Sequence[Sequence[Hit]]) -> Iterator[Hit]:
    """The first of each list, the second of each, and so on."""
    for turn in zip_longest(*lists):
        yield from (hit for hit in turn if hit is not None)
