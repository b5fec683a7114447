"""Searches without a call: a model that only searches reads something new instead of the same answer again."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

from builtin_plugins.tool_search._answers.answers import described
from builtin_plugins.tool_search._answers.listing import names_by_owner
from builtin_plugins.tool_search._answers.scope import NOTHING_CALLED, Refusal, Scope, reason_of
from builtin_plugins.tool_search._sentences import NO_HITS, NOTHING_FITS, REFUSED_AGAIN, REPEATED, SOME_HITS
from hooksdk.values import compact

# From the third search in a row without a call, the answer tells the model to stop searching, if two of them showed no
# new hit. (Hermes Agent's issue 98943 reports a run with 216 searches for a tool that did not exist.)
CHANGES = 3
IN_VAIN = CHANGES - 1
# From this search on it does so in any case.
MANY = 8
# The most that the names by owner may take.
NAMES_TOKENS = 1_000


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
        self._seen: set[int] = set()
        """Hashes of what was searched for and of what was refused."""

    def again(self, key: Hashable) -> bool:
        """Whether this was searched for, or refused, before in this streak."""
        known = hash(key) in self._seen
        self._seen.add(hash(key))
        return known

    def refuse(self, key: Hashable, refused: Refusal, scope: Scope) -> Refusal:
        """The refusal itself, and the second time another one: with the schema of what to call instead, where that is
        known."""
        if not self.again(key):
            return refused
        reason = reason_of(refused)
        told = f"{NOTHING_CALLED}{REFUSED_AGAIN} {reason[:1].upper()}{reason[1:]}"
        if refused.lead is None:
            return Refusal(f"{told} {NOTHING_FITS}")
        through = refused.lead.name in scope.deferred and scope.way == "tools"
        how = f" through {scope.names.call}" if through else ""
        return Refusal(f"{told}\nTo call {refused.lead.name}{how}: {compact(described(refused.lead))} {NOTHING_FITS}")

    def guide(self, answer: dict[str, Any], *, scope: Scope, repeated: bool) -> dict[str, Any]:
        """Count one more search. Where more searching would not help, or the same was searched for before, its answer
        becomes another one: the best hit with its schema, the others by name, and the names of all tools by owner."""
        catalog, deferred = scope.catalog, scope.deferred
        groups = answer["results"]
        self._searches += 1
        # Several searches in a row are fine as long as each finds something new.
        good = frozenset(hit["name"] for group in groups for hit in group["hits"] if "weak" not in hit)
        self._in_vain += good <= self._shown
        self._shown |= good
        too_many = self._searches >= (CHANGES if self._in_vain >= IN_VAIN else MANY)
        if not (too_many or repeated):
            return answer
        has_hits = any(group["hits"] for group in groups)
        hint = scope.names.fill(SOME_HITS if has_hits else NO_HITS)
        changed: dict[str, Any] = {
            "searches_without_a_call": self._searches,
            "hint": f"{REPEATED} {hint}" if repeated else hint,
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
        if not self._has_names and (too_many or not good):
            self._has_names = True  # the later answers need not repeat them
            changed["names_by_owner"] = names_by_owner([one for one in catalog if one.name in deferred], NAMES_TOKENS)
        return changed
