"""What the bridge says of the deferred tools: their owners, and on request a listing within a budget.

Everything here is sorted: an unchanged catalog has the same bytes, whatever the order of its tools, so that a
provider's prompt cache stays warm.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from builtin_plugins.tool_search._answers.signatures import summary
from hooksdk import Tool, schema
from hooksdk.values import clip

# Characters that the names of servers and plugins may take in the bridge's description.
MAX_OWNERS = 210
# The same, for the client of a gateway.
CLIENT_OWNERS = 160
# Owners that cannot be called now, and that every answer names.
MAX_MISSING = 5
# Owners that an answer names where it found too little.
MAX_AVAILABLE = 20
LISTING_TOKENS = 4_000
HEADING = "They are, by source:"
# Characters of a tool's first sentence in the listing.
SENTENCE = 80


def available(tools: Iterable[Tool]) -> dict[str, int]:
    """How many tools the largest owners have, and all the others together."""
    owners = _owners(tools)
    largest = {clip(name, 60): count for name, count in owners.most_common(MAX_AVAILABLE)}
    more = len(owners) - MAX_AVAILABLE
    return {**largest, f"({more} more sources)": owners.total() - sum(largest.values())} if more > 0 else largest


def not_available(missing: Mapping[str, str]) -> dict[str, str]:
    """Some owners that cannot be called now, and why; of the others how many there are."""
    shown = {clip(name, 60): clip(reason, 200) for name, reason in list(missing.items())[:MAX_MISSING]}
    more = len(missing) - MAX_MISSING
    return {**shown, f"({more} more sources)": ""} if more > 0 else shown


def owners_line(tools: Iterable[Tool]) -> str:
    """The largest owners by name, the others as a number: the bridge costs the same whatever the servers are called."""
    ordered = sorted(_owners(tools).items(), key=lambda pair: (-pair[1], pair[0]))
    names: list[str] = []
    room = MAX_OWNERS
    for name, count in ordered:
        names.append(f"{clip(name, 40)} ({count})")
        room -= len(names[-1]) + 2
        if room < 0:
            names[-1] = f"{len(ordered) - len(names) + 1} more sources"
            break
    return ", ".join(names)


def owners_in(tools: Iterable[Tool], missing: Iterable[str]) -> str:
    """The names of all owners, also of those that have no tools at this moment. A plugin's own tools belong to no
    server, so their plugins are left out."""
    names = sorted(
        {clip(name, 40) for name in [*(_owner(tool) for tool in tools if tool.source != "plugin"), *missing]}
    )
    kept: list[str] = []
    for name in names:
        if sum(map(len, kept)) + 2 * len(kept) + len(name) > CLIENT_OWNERS:
            return f"{', '.join(kept)} and {len(names) - len(kept)} more"
        kept.append(name)
    return ", ".join(kept)


def listing_budget(setting: bool | int, context_window: int | None) -> int:
    """How many tokens the listing may take: as the configuration says, and at most a tenth of the context window."""
    tokens = LISTING_TOKENS if setting is True else int(setting)
    return min(tokens, context_window // 10) if context_window and context_window > 0 else tokens


def listing(tools: Sequence[Tool], budget: int) -> str:
    """The tools by owner, as fully as the budget allows: with first sentences, or by name, or with only a
    count for the largest owners. Nothing where not even the counts fit."""
    by_owner = _by_owner(tools)
    full = [HEADING, *(_with_sentences(owner, own) for owner, own in by_owner.items())]
    if sum(map(_size, full)) <= 4 * budget:
        return "\n".join(full)
    names = _names_within(by_owner, 4 * budget - _size(HEADING))
    return "\n".join([HEADING, *(f"{clip(owner, 40)}: {own}" for owner, own in names.items())]) if names else ""


def names_by_owner(tools: Sequence[Tool], budget: int) -> dict[str, str]:
    """The tools' names by owner; the largest owners only counted where they would not fit, and nothing where not even
    the counts do."""
    return _names_within(_by_owner(tools), 4 * budget)


def _by_owner(tools: Sequence[Tool]) -> dict[str, list[Tool]]:
    by_owner: dict[str, list[Tool]] = {}
    for tool in sorted(tools, key=lambda tool: (_owner(tool), tool.name)):
        by_owner.setdefault(_owner(tool), []).append(tool)
    return by_owner


def _names_within(by_owner: Mapping[str, list[Tool]], room: int) -> dict[str, str]:
    lines = {owner: ", ".join(tool.name for tool in tools) for owner, tools in by_owner.items()}
    sizes = {owner: _size(f"{clip(owner, 40)}: {names}") for owner, names in lines.items()}
    room -= sum(sizes.values())
    for owner in sorted(by_owner, key=lambda owner: (-sizes[owner], owner)):
        if room >= 0:
            break
        count = len(by_owner[owner])
        lines[owner] = f"{count} tool{'s' if count > 1 else ''}"
        room += sizes[owner] - _size(f"{clip(owner, 40)}: {lines[owner]}")
    return lines if room >= 0 else {}


def _with_sentences(owner: str, tools: Iterable[Tool]) -> str:
    lines = [f"- {tool.name}: {summary(tool.description, SENTENCE)}".rstrip(": ") for tool in tools]
    return "\n".join([f"{clip(owner, 40)}:", *lines])


def _size(line: str) -> int:
    """Its characters as the model's provider is sent them; the two of the quotes stand for the line's end."""
    return len(schema.canonical(line))


def _owner(tool: Tool) -> str:
    return tool.owner or tool.source


def _owners(tools: Iterable[Tool]) -> Counter[str]:
    return Counter(_owner(tool) for tool in tools)
