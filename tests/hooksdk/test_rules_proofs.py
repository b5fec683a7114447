"""Proofs over all calls of what the rules of a policy let through."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from builtin_plugins.tool_policy import ToolPolicy
from hooksdk import Tool
from hooksdk.patterns import ToolPattern
from hooksdk.rules._cells import Budget, folder_cells, name_cells, owner_cells
from hooksdk.rules.proofs import Claim, Search, Unknown, changes

PIECES = ["delete", "get", "Issue", "_", "-", "*", "?", "a", "B", "2", "é", "x", ".", "中"]
PATTERNS = st.lists(st.sampled_from(PIECES), min_size=1, max_size=5).map("".join)
NAMES = st.one_of(
    st.lists(st.sampled_from([*PIECES[:5], *PIECES[7:], "ｄ", "\u0301", "\u200b", "DELETE", "\u20dd", "É"]), min_size=1, max_size=6).map("".join),
    st.text(min_size=1, max_size=8),
)  # fmt: skip


@settings(max_examples=150, deadline=None)
@given(st.lists(PATTERNS, min_size=1, max_size=4, unique=True), NAMES)
def test_every_name_is_in_one_of_the_cells(texts: list[str], name: str) -> None:
    patterns = [ToolPattern(text) for text in texts]
    cells = name_cells([one.parts for one in patterns], [[one.words] for one in patterns], Budget(10**7))
    tool = Tool(name=name)
    key = sum(one.matches(tool) << at for at, one in enumerate(patterns))
    by_words = [any(one.words.fullmatch(text) for text in readings(name)) for one in patterns]
    key |= sum(fits << (len(patterns) + at) for at, fits in enumerate(by_words))
    assert key in cells


def readings(name: str) -> tuple[str, ...]:
    from hooksdk.patterns import _read  # pyright: ignore[reportPrivateUsage]

    return _read(name)
