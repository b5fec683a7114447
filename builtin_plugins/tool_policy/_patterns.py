"""Which patterns hold everything that others hold. Where that is not certain the answer is no."""

from __future__ import annotations

import re
from collections.abc import Sequence


def wildcard(text: str) -> re.Pattern[str]:
    """`*` stands for any text, `?` for one character."""
    pieces = re.split(r"(\*+|\?)", text)
    return re.compile(
        "".join(".*" if piece[:1] == "*" else "." if piece == "?" else re.escape(piece) for piece in pieces), re.DOTALL
    )


def all_hold(wide: Sequence[str] | None, narrow: Sequence[str] | None) -> bool:
    """True when each of the narrow patterns is held by one of the wide; None stands for all."""
    if wide is None:
        return True
    return narrow is not None and all(any(_holds(one, other) for one in wide) for other in narrow)


def tools_hold(wide: Sequence[str], narrow: Sequence[str]) -> bool:
    """The same for patterns of tools."""
    return all(any(_tool_holds(one, other) for one in wide) for other in narrow)


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


def says_part_of_a_name(pattern: str) -> bool:
    """False for patterns for all names of some source (`*`, `plugin:*:*`)."""
    return bool(pattern.rpartition(":")[2].strip("*?"))
