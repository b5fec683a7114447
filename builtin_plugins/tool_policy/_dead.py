"""Rules that never decide, because another one decides first whatever they are about. Only certain cases are told."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from itertools import chain
from typing import cast

from builtin_plugins.tool_policy._rule import GRAVITY, Rule
from builtin_plugins.tool_policy._tables import words_in
from hooksdk import Tool
from hooksdk.patterns import Source, ToolPattern
from hooksdk.rules import says_part_of_a_name, wildcard

_COMPARED = words_in(
    "action tools annotations sources owners agents triggers workspaces requester reason title severity"
)
# What a rule says of the call itself: of one that says any of it is not known what it covers.
_CONDITIONS = [name for name in Rule.model_fields if name not in _COMPARED]


def dead_rules(rules: Sequence[Rule]) -> list[tuple[int, int]]:
    """Each rule that never decides, and the one that always decides before it, both by number from 1."""
    pairs: list[tuple[int, int]] = []
    for number, others in candidates_of(rules):
        rule = rules[number - 1]
        for other_number in others:
            other = rules[other_number - 1]
            if _covers(other, rule) and _decides_first(other, rule, other_number < number):
                pairs.append((number, other_number))
                break
    return pairs


def candidates_of(rules: Sequence[Rule]) -> Iterator[tuple[int, list[int]]]:
    """For each rule those that may decide all that it is about, by number from 1: so few that many rules cost little
    more than few do.

    Each rule is found by the rarest thing that all rules must say which it covers."""
    wanted = {number: wide for number, rule in enumerate(rules, 1) if (wide := _wanted(rule)) is not None}
    counts = Counter(key for groups in wanted.values() for group in groups for keys in group for key in keys)
    found_by: defaultdict[_Key, list[int]] = defaultdict(list)
    anywhere: list[int] = []
    for number, groups in wanted.items():
        rarest = ([min(keys, key=counts.__getitem__) for keys in group] for group in groups)
        best = min(rarest, key=lambda keys: sum(counts[key] for key in keys), default=None)
        for key in set(best or ()):
            found_by[key].append(number)
        if best is None:
            anywhere.append(number)
    sizes = sorted({len(text) for _, text in found_by})
    for number, rule in enumerate(rules, 1):
        found = chain.from_iterable(found_by.get(key, ()) for key in _said(rule, sizes))
        yield number, sorted({*anywhere, *found} - {number})


_Key = tuple[str, str]
_PATTERNS = ("tools", "owners", "agents")
_VALUES = ("workspaces", "requester")


def _wanted(rule: Rule) -> list[list[list[_Key]]] | None:
    """What every rule says that this one covers: of each group, all keys of one of its lists. None where it covers
    none."""
    if any(getattr(rule, name) is not None for name in _CONDITIONS):
        return None
    groups = [[[(name, str(value))]] for name in _VALUES if (value := getattr(rule, name)) is not None]
    for name in _PATTERNS:
        texts: list[str] = getattr(rule, name) or []
        pieces = [[piece for one in re.split(r"[*?:]", text) if (piece := _letters(one))] for text in texts]
        if pieces and all(pieces):
            groups.append([[(name, piece) for piece in each] for each in pieces])
    return groups


def _said(rule: Rule, sizes: Sequence[int]) -> Iterator[_Key]:
    """The keys by which a rule is found that covers this one; `sizes` are how long they are."""
    yield from ((name, str(value)) for name in _VALUES if (value := getattr(rule, name)) is not None)
    for name in _PATTERNS:
        for text in (getattr(rule, name) or ())[:1]:  # whoever covers the rule covers its first pattern
            letters = _letters(text)
            yield from {(name, letters[at : at + size]) for size in sizes for at in range(len(letters) - size + 1)}


def _letters(text: str) -> str:
    """The letters and digits in which no two ways of writing a name differ: an iota may be a mark below another
    letter."""
    folded = unicodedata.normalize("NFKD", unicodedata.normalize("NFKD", text).casefold())
    return "".join(char for char in folded if char.isalnum() and char != "\N{GREEK SMALL LETTER IOTA}")


def problem_of(rules: Sequence[Rule], dead: int, by: int) -> str:
    """What is wrong with a dead rule, and what to write."""
    rule, other = rules[dead - 1], rules[by - 1]
    advice = "take one of them out, or say more in the one that decides"
    if rule.action == "allow" and other.action == "deny" and set(",".join(other.tools)) <= set("*:,"):
        advice = 'deny always beats allow, so write default = "deny" in its place'
    return (
        f"rule {dead} ({rule.action} {', '.join(rule.tools)}) never decides: rule {by} "
        f"({other.action} {', '.join(other.tools)}) decides the same calls first; {advice}"
    )


def _decides_first(other: Rule, rule: Rule, stands_before: bool) -> bool:
    """True when the first rule decides what both fit."""
    if GRAVITY[other.action] != GRAVITY[rule.action]:
        return GRAVITY[other.action] < GRAVITY[rule.action]
    # Among denies and asks the first one gives the reason. An allow gives none: beside a wider one it changes nothing,
    # whichever comes first.
    return stands_before or (rule.action == "allow" and not _covers(rule, other))


def _covers(wide: Rule, narrow: Rule) -> bool:
    """True when the one fits every call that the other fits."""
    if any(getattr(wide, name) is not None for name in _CONDITIONS):
        return False
    exact = {"wide_exact": wide.action == "allow", "narrow_exact": narrow.action == "allow"}
    if not _tools_hold(wide.tools, narrow.tools, **exact):
        return False
    if narrow.action != "allow":
        # A bridge tool is met by patterns that say part of its name, not by those for all names.
        named = [pattern for pattern in wide.tools if says_part_of_a_name(pattern)]
        if not _tools_hold(named, [pattern for pattern in narrow.tools if _may_be_a_bridge(pattern)], **exact):
            return False
    pairs = ((wide.owners, narrow.owners), (wide.agents, narrow.agents))
    if not all(_all_hold(*pair) for pair in pairs):
        return False
    for ours, theirs in ((wide.sources, narrow.sources), (wide.triggers, narrow.triggers)):
        if ours is not None and (theirs is None or not set(theirs) <= set(ours)):
            return False
    if wide.workspaces is not None and wide.workspaces != narrow.workspaces:
        return False
    if wide.requester is not None and wide.requester != narrow.requester:
        return False
    return wide.annotations is None or wide.annotations.items() <= (narrow.annotations or {}).items()


def _may_be_a_bridge(pattern: str) -> bool:
    source = pattern.partition(":")[0] if ":" in pattern else "*"
    return says_part_of_a_name(pattern) and (source == "plugin" or not source.isalpha())


def _all_hold(wide: Sequence[str] | None, narrow: Sequence[str] | None) -> bool:
    """True when each of the narrow patterns is held by one of the wide; None stands for all."""
    if wide is None:
        return True
    return narrow is not None and all(any(_holds(one, other) for one in wide) for other in narrow)


def _tools_hold(wide: Sequence[str], narrow: Sequence[str], *, wide_exact: bool, narrow_exact: bool) -> bool:
    """The same for patterns of tools; an `exact` side counts as it is written, the other one by its words."""

    def holds(one: str, other: str) -> bool:
        # By words a ? stands for a joint or for a letter, and several separators for one: what holds is not certain
        # then.
        if not narrow_exact and ("?" in one or re.search(r"([^\w*?:]|_){2}", other)):
            return one == other
        return _tool_holds(one, other) or (narrow_exact and not wide_exact and _means_named(one, other))

    return all(any(holds(one, other) for one in wide) for other in narrow)


def _holds(wide: str, narrow: str) -> bool:
    if wide == narrow:
        return True
    # A pattern's own text stands for all that it holds, once no ? of the wide one can take a * in it.
    return not ("?" in wide and "*" in narrow) and wildcard(wide).fullmatch(narrow) is not None


def _tool_holds(wide: str, narrow: str) -> bool:
    if wide == narrow or set(wide) <= set("*:"):
        return True
    wide_parts, narrow_parts = wide.split(":", 2), narrow.split(":", 2)
    if len(wide_parts) == 1:  # it fits the name that the model sees as well as the owner's
        return _holds(wide, narrow_parts[-1])
    return len(narrow_parts) == 3 and all(map(_holds, wide_parts, narrow_parts))


def _means_named(wide: str, narrow: str) -> bool:
    """True when the narrow pattern is for tools of one name, and the wide one means them by their words."""
    if set("*?") & set(narrow) or (":" in wide and ":" not in narrow):
        return False
    *owned, name = narrow.split(":", 2)
    tool = Tool(name=name, source=cast("Source", owned[0]), owner=owned[1]) if owned else Tool(name=name)
    return ToolPattern(wide).may_mean(tool)
