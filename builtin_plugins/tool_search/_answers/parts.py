"""Parts of a schema that is too large to show: the one that a model asks for, and what there is to ask for."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, cast

from builtin_plugins.tool_search._answers.signatures import clip, signature

MAX_SCHEMA = 8_000
"""Characters of one schema that are shown; of a larger one its outline is, and parts can be asked for."""
_SHOWN = MAX_SCHEMA // 3
_INDEX = re.compile(r"\[(\d{1,6})\]")
_MOST_STEPS = 40


def find_part(schema: Mapping[str, Any], part: str) -> object:
    """What stands at `properties.filter`, `anyOf.2`, `anyOf[2]`, `#/$defs/Node` or, for short, `filter`; None where
    nothing does."""
    steps = _steps(part)
    inner = _walk(schema, steps)[0]
    return inner if inner is not None else _walk(schema.get("properties"), steps)[0]


def parts_at(schema: Mapping[str, Any], part: str) -> dict[str, Any]:
    """The parts that there are where the way to this one ends: the path to them, and their names."""
    _, path, last = _walk(schema, _steps(part))
    names: list[str] = []
    if isinstance(last, Mapping):
        names = list(cast("Mapping[str, object]", last))
    elif isinstance(last, list):
        names = [str(index) for index in range(len(cast("list[object]", last)))]
    place = {"at": clip(path, 200)} if path else {}
    return {**place, **_names(names, "parts", "more_parts")}


def shortened(part: object, path: str) -> dict[str, Any]:
    """A part that is too large to show, within the same size: names and types of its first levels, and how to go on.
    `path` is what it was asked for by."""
    before = clip(f"{path}.", 200) if path else ""
    if isinstance(part, Mapping):
        own = cast("Mapping[str, Any]", part)
        outline = _names(list(own), "keys", "more_keys")
        example = "properties.NAME" if "properties" in own else "NAME"
        if "properties" in own:
            outline["outline"] = signature("", own, limit=MAX_SCHEMA // 2, most=MAX_SCHEMA // 2)
        return {"parameters": outline, "note": f"Shortened: ask for one part, such as part='{before}{example}'."}
    schemas = cast("list[object]", part) if isinstance(part, list) else []
    if schemas and all(isinstance(one, Mapping) for one in schemas):
        lines = [_line(cast("Mapping[str, Any]", one)) for one in schemas]
        outline = _names(lines, "outline", "more")
        return {"parameters": outline, "note": f"Shortened: ask for one by its number, such as part='{before}0'."}
    # A list of values, a long text or the like has no parts to ask for.
    return {"parameters": clip(compact(cast("object", part)), MAX_SCHEMA), "note": "Cut off: it is too long."}


def compact(value: object) -> str:
    """JSON without blanks."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _line(schema: Mapping[str, Any]) -> str:
    return signature(clip(str(schema.get("title") or schema.get("$ref") or ""), 80), schema, limit=200, most=400)


def _names(names: Sequence[str], key: str, more: str) -> dict[str, Any]:
    """As many as there is room for, and how many are left out."""
    first: list[str] = []
    room = _SHOWN
    for name in names:
        room -= len(name) + 3
        if room < 0:
            break
        first.append(name)
    return {key: first, more: len(names) - len(first)} if len(first) < len(names) else {key: first}


def _steps(part: str) -> list[str]:
    path = part.strip()
    separator = "/" if path.startswith(("#", "/")) or ("/" in path and "." not in path) else "."
    return _INDEX.sub(rf"{separator}\1", path.lstrip("#/")).split(separator)[:_MOST_STEPS]


def _walk(here: object, steps: Sequence[str]) -> tuple[object, str, object]:
    """What is found, and how far the way leads: its path, and what stands there. A key may hold dots."""
    path: list[str] = []
    while steps:
        count, inner = _inner(here, steps)
        if not count:
            return None, ".".join(path), here
        path += steps[:count]
        here, steps = inner, steps[count:]
    return here, ".".join(path), here


def _inner(here: object, steps: Sequence[str]) -> tuple[int, object]:
    """How many steps lead on from here, and where to."""
    if isinstance(here, Mapping):
        own = cast("Mapping[str, object]", here)
        for count in range(len(steps), 0, -1):
            if (key := ".".join(steps[:count])) in own:
                return count, own[key]
    if isinstance(here, list) and steps[0].isdecimal() and int(steps[0]) < len(cast("list[object]", here)):
        return 1, cast("list[object]", here)[int(steps[0])]
    return 0, None
