"""What an allow says nothing of: a command in a call reads and writes any file, whatever is said of the paths beside it."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from builtin_plugins.tool_policy._commands import CommandReader
from builtin_plugins.tool_policy._conditions import EVERY, Leaf, Reader, Targets, leaves_of, with_outer
from builtin_plugins.tool_policy._hosts import HostReader
from builtin_plugins.tool_policy._paths import PathReader
from hooksdk import Tool

READERS: Mapping[str, Reader] = {"path_inside": PathReader(), "url_host": HostReader(), "command": CommandReader()}
"""By the rule's key."""
_GRAVE = ("command", "url_host")
"""What makes an allow unsure where it has no condition for it. A path beside a command or an address does not: most shells
and fetchers take one. `hooksdk doctor` tells of it."""


class Watch:
    """Which arguments the conditions of one rule look at."""

    def __init__(self, targets: Mapping[str, Targets], schema_names: Collection[str]) -> None:
        self._keys = frozenset(targets)
        self._named = {name for one in targets.values() for name in one} | set(schema_names)
        self._every = any(EVERY in one for one in targets.values())
        """A condition is about every argument, not about those that it names."""

    def problem(self, arguments: Mapping[str, Any]) -> str:
        """Which command or address no condition looks at; empty where there is none, or no condition at all."""
        for leaf in leaves_of(arguments) if self._keys else ():
            if not isinstance(leaf.value, str) or not leaf.value or self._is_named(leaf.name):
                continue
            for key in _GRAVE:
                reader = READERS[key]
                meant = _means(key, leaf) or (self._every and reader.resembles(leaf.value))
                if meant and key not in self._keys:
                    return f"the argument '{leaf.name}' may hold {reader.noun}, and the rule has no {key} for it"
        return ""

    def unwatched_names(self, tool: Tool) -> list[tuple[str, str]]:
        """The arguments of a tool that by their names hold what no condition looks at, each with the condition that would."""
        return [
            (name, key)
            for name in (tool.parameter_names if self._keys else ())
            for key in READERS
            if key not in self._keys and not self._is_named(name) and _means(key, Leaf(name, "", in_list=False))
        ]

    def _is_named(self, name: str) -> bool:
        """True for an argument that the rule speaks of by its name, or that is part of one."""
        return any(one in self._named for one in with_outer(name))


def _means(key: str, leaf: Leaf) -> bool:
    """True for a value that by its name is what this condition looks at."""
    if key == "url_host" and " " in leaf.value.strip() and "//" not in leaf.value:
        return False  # the address of a house
    return any(READERS[key].is_named(one) for one in with_outer(leaf.name))
