"""What changed in a JSON value. A plugin that keeps a growing list is stored by what it added: whole states, one for
each call, would make the journal grow with the square of the calls.
"""

from __future__ import annotations

from typing import Any, cast

from hooksdk.values import is_list, is_object

# `{value}` takes the place of all; `{set, drop, inside}` are an object's new keys, lost keys and changed values;
# `{keep, add}` keeps the first items of a list, or characters of a text, and goes on with others.
Change = dict[str, Any]


def same(one: Any, other: Any) -> bool:
    """Equal as JSON: unlike `==`, 1 is not True and not 1.0. Quick, for lists that are compared at every model call."""
    if type(one) is not type(other):
        return False
    if isinstance(one, dict):
        left, right = cast("dict[str, Any]", one), cast("dict[str, Any]", other)
        return len(left) == len(right) and all(key in right and same(value, right[key]) for key, value in left.items())
    if isinstance(one, list):
        items, others = cast("list[Any]", one), cast("list[Any]", other)
        return len(items) == len(others) and all(map(same, items, others))
    return bool(one == other)


def change_of(old: Any, new: Any) -> Change | None:
    """What makes `new` of `old`, or None where they are equal."""
    if same(old, new):
        return None
    if is_object(old) and is_object(new):
        inside = {key: change_of(old[key], value) for key, value in new.items() if key in old}
        change: Change = {
            "set": {key: value for key, value in new.items() if key not in old},
            "drop": [key for key in old if key not in new],
            "inside": {key: each for key, each in inside.items() if each},
        }
        return {name: part for name, part in change.items() if part}
    if (is_list(old) and is_list(new)) or (isinstance(old, str) and isinstance(new, str)):
        pairs = enumerate(zip(old, new, strict=False))
        keep = next((n for n, (one, other) in pairs if not same(one, other)), min(len(old), len(new)))
        if keep:
            return {"keep": keep, "add": new[keep:]}
    return {"value": new}


def changed(old: Any, change: Change) -> Any:
    """The value after the change; `old` itself stays as it is."""
    if "value" in change:
        return change["value"]
    if "keep" in change:
        return old[: change["keep"]] + change["add"]
    fresh = {key: value for key, value in cast("dict[str, Any]", old).items() if key not in change.get("drop", ())}
    for key, each in change.get("inside", {}).items():
        fresh[key] = changed(fresh[key], each)
    return {**fresh, **change.get("set", {})}
