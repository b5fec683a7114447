"""Searches without a call: a model that only searches reads something new instead of the same again."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from builtin_plugins.tool_search._answers import described
from builtin_plugins.tool_search._listing import names_by_owner
from builtin_plugins.tool_search._sentences import NO_HITS, SOME_HITS
from hooksdk import Catalog

CHANGES = 3
"""From this search on that no call came between, the answer is another one, if two showed no hit that is new. (Hermes
Agent's issue 98943 tells of a run with 216 searches for a tool that did not exist.)"""
IN_VAIN = CHANGES - 1
MANY = 8
"""From this one on it is another one in any case."""
NAMES_TOKENS = 1_000
"""What the names by owner may take."""


class Streak:
    """The searches of one attempt since a tool was last called."""

    def __init__(self) -> None:
        self._attempt = ("", 0)
        self.end()

    def begin(self, run_id: str, attempt: int) -> None:
        """Tools are resolved: in a new attempt nothing was searched yet."""
        if self._attempt != (run_id, attempt):
            self._attempt = (run_id, attempt)
            self.end()

    def end(self) -> None:
        """A tool was called."""
        self._searches = 0
        self._in_vain = 0
        self._shown: frozenset[str] = frozenset()
        self._has_names = False

    def changed(self, answer: dict[str, Any], *, catalog: Catalog, deferred: Collection[str]) -> dict[str, Any]:
        """Count one more search, and make its answer one that leads on where searching alone does not: the best hit with
        its schema, the lesser ones by name, and what there is by owner."""
        groups = answer["results"]
        self._searches += 1
        # Searches for several capabilities, perhaps in one reply, lead on by themselves as long as they find them.
        good = frozenset(hit["name"] for group in groups for hit in group["hits"] if "weak" not in hit)
        self._in_vain += good <= self._shown
        self._shown |= good
        if self._searches < (CHANGES if self._in_vain >= IN_VAIN else MANY):
            return answer
        has_hits = any(group["hits"] for group in groups)
        changed: dict[str, Any] = {
            "searches_without_a_call": self._searches,
            "hint": SOME_HITS if has_hits else NO_HITS,
            "total_available": answer["total_available"],
            "results": [
                {**group, "hits": group["hits"][:1], "more": [hit["name"] for hit in group["hits"][1:]]}
                for group in groups
            ],
        }
        if "note" in answer:
            changed["note"] = answer["note"]
        best = next((hit for group in groups for hit in group["hits"] if "weak" not in hit), None)
        tool = catalog.get(best["name"]) if best else None
        if best and tool:
            changed["best"] = {"name": tool.name, "call": best["call"], **described(tool)}
            best.pop("parameters", None)  # once is enough
        if not self._has_names:
            self._has_names = True  # the later answers need not repeat them
            changed["names_by_owner"] = names_by_owner([one for one in catalog if one.name in deferred], NAMES_TOKENS)
        return changed
