"""What the tools of a catalog are called, and which of them a model means by a name that is not quite one."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import cast

from hooksdk import schema
from hooksdk.tools import Tool

# Prefixes that models write before a name, because their provider's own prompt does.
_PREFIXES = ("functions.", "tools.")
_MOST_READ = 300


def readings(name: str) -> list[str]:
    """The name as it is written, without a signature's parameters, and without what a provider puts before it."""
    texts = [name, name[:_MOST_READ].partition("(")[0].strip()]
    texts += [text.removeprefix(prefix) for text in texts for prefix in _PREFIXES]
    return [text for text in dict.fromkeys(texts) if text]


def full_names(tool: Tool) -> set[str]:
    """The tool's names with its owner in front, as models write them."""
    names = {tool.own_name, tool.name}
    owners = {tool.owner, f"{tool.source}__{tool.owner}"} if tool.owner else {tool.source}
    return {f"{owner}{separator}{name}" for owner in owners for separator in (".", "__") for name in names}


def only_fitting(tools: Iterable[Tool], keys: Collection[str]) -> Tool | None:
    """The one tool whose required parameters are all among these keys; None where that is not certain."""
    fitting = [tool for tool in tools if _keys(tool, "required") <= {*keys}]
    if len(fitting) != 1 or not _keys(fitting[0], "required") or not {*keys} <= _keys(fitting[0], "properties"):
        return None
    return fitting[0]


def _keys(tool: Tool, part: str) -> set[str]:
    names: object = (tool.parameters or {}).get(part)
    return (
        {name for name in cast("Iterable[object]", names) if isinstance(name, str)}
        if isinstance(names, list | dict)
        else set()
    )


def with_distinct_ids(tools: Iterable[Tool], notes: list[str]) -> Iterator[Tool]:
    """The tools that have a name and an id of their own, none of them a bridge: those are what a run's own plugins
    offer."""
    ids: set[tuple[str, str, str]] = set()
    for entry in tools:
        id_parts = entry.source, entry.owner, entry.own_name
        notes.extend(f"{entry.id}: {note}" for note in entry.diagnostics)
        if not entry.name.strip():
            notes.append(f"{entry.id}: left out, it has no name")
        elif id_parts in ids:
            notes.append(f"{entry.id}: left out, its owner has another tool of that name")
        else:
            ids.add(id_parts)
            yield entry.copy() if entry.bridge else entry


def keeps_its_name(group: Sequence[Tool]) -> Tool | None:
    """Of the tools of one name the one that keeps it: the only one, or the host's, which a server must not rename by
    bringing another."""
    own = group if len(group) == 1 else [entry for entry in group if entry.source == "host"]
    return own[0] if len(own) == 1 else None


def look_of(name: str) -> str:
    """Names that a reader cannot tell apart count as one: width, case and invisible characters do not count."""
    visible = "".join(char for char in unicodedata.normalize("NFKC", name) if unicodedata.category(char) != "Cf")
    return visible.casefold()


# The names that every provider takes.
FITS = re.compile(r"[A-Za-z0-9_-]{1,64}")


def fitting_name(name: str, entry: Tool, taken: set[str]) -> str:
    """The name in the characters and the length that providers take, and unlike every name taken."""
    fitting = re.sub(r"[^A-Za-z0-9_-]", "_", name)
    if len(fitting) > 64 or fitting in taken:
        fitting = f"{fitting[:55]}_{schema.fingerprint(entry.id)[:8]}"
    return fitting
