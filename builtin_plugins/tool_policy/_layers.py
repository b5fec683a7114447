"""The user's rules and a project's, put together so that the project never weakens what the user's alone would do."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

STRICTNESS = {"allow": 0, "ask": 1, "deny": 2}


def add_project(
    own: Mapping[str, Any], project: Mapping[str, Any], *, trusted: bool
) -> tuple[dict[str, Any], list[str]]:
    """The user's rules, then the project's: what denies or asks is added, what allows only where the folder is trusted or
    the user allows by default anyway. The stricter default counts. A value that is not what it should be is kept, so
    that its mistake is told."""
    default = own.get("default", "allow")
    merged = {**(project if trusted else {}), **own}
    missing = [name for name in project if name not in merged and name not in {"rules", "default"}]
    if "rules" in project:
        rules, allowing = project["rules"], trusted or default == "allow"
        if isinstance(rules, list):
            added = [rule for rule in rules if allowing or not _allows(rule)]  # pyright: ignore[reportUnknownVariableType]
            count = len(rules) - len(added)  # pyright: ignore[reportUnknownArgumentType]
            missing += [f"{count} of the rules, which allow what you do not allow"] if count else []
            own_rules = own.get("rules", [])
            rules = [*own_rules, *added] if isinstance(own_rules, list) else own_rules  # pyright: ignore[reportUnknownVariableType]
        merged["rules"] = rules
    if "default" in project:
        looser = STRICTNESS.get(str(project["default"]), 2) < STRICTNESS.get(str(default), 0)
        missing += ["default, which is looser than yours"] if looser else []
        merged["default"] = own["default"] if looser else project["default"]
    return merged, missing


def _allows(rule: object) -> bool:
    return isinstance(rule, Mapping) and rule.get("action") == "allow"  # pyright: ignore[reportUnknownVariableType, reportUnknownMemberType]
