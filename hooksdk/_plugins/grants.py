"""Which grants an installed plugin needs, by what it registers and by what its manifest asks for."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from hooksdk._firing.hook import Grant
from hooksdk.hooks import GRANTS, HOOKS

ASKED_FOR = {
    "conversation": "tool results through its tools",
    "answer": "Answer in before_tool_call",
    "search": "Search in assemble_tools",
}
"""What a permission is for that no hook or tool shows."""


def needed_grants(
    hooks: Sequence[str], tools: Sequence[str], permissions: Iterable[str]
) -> dict[Grant, tuple[str, ...]]:
    """Each grant that a plugin with these hooks and tools needs, with what needs it. Words and hooks that nobody knows
    need none."""
    asked = set(permissions)
    needs: dict[Grant, tuple[str, ...]] = {}
    for grant in GRANTS:
        users = [name for name in hooks if name in HOOKS and HOOKS[name].grant == grant]
        if grant == "offer" and tools:
            users.append(f"its tools ({', '.join(tools)})")
        if grant in asked and not users:
            users.append(ASKED_FOR.get(grant, "what its manifest asks for"))
        if users:
            needs[grant] = tuple(users)
    return needs
