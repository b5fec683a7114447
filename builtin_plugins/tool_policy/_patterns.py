"""Which patterns hold everything that others hold. Where that is not certain the answer is no."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import cast

from hooksdk import Tool
from hooksdk.patterns import Source, ToolPattern
from hooksdk.rules import wildcard


def all_hold(wide: Sequence[str] | None, narrow: Sequence[str] | None) -> bool:
    """True when each of the narrow patterns is held by one of the wide; None stands for all."""
    if wide is None:
        return True
    return narrow is not None and all(any(_holds(one, other) for one in wide) for other in narrow)


def tools_hold(wide: Sequence[str], narrow: Sequence[str], *, wide_exact: bool, narrow_exact: bool) -> bool:
    """The same for patterns of tools; an `exact` side counts as it is written, the other one by its words."""

    def holds(one: str, other: str) -> bool:
        # By words a ? stands for a joint or for a letter, and several separators for one: what holds is not certain then.
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
