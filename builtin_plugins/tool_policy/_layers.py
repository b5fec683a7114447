"""The user's rules and a project's, put together so that the project never weakens what the user's alone would do."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

STRICTNESS = {"allow": 0, "ask": 1, "deny": 2}


def add_project(
    own: Mapping[str, Any], project: Mapping[str, Any], *, trusted: bool
) -> tuple[dict[str, Any], list[str]]:
    """The user's rules, then the project's; and what is left out of the project's.

    Without trust a rule counts when it is at least as strict as the user's default, which is what it would replace; and
    never does a looser default count. A value that is not what it should be is kept, so that its mistake is told.
    """
    default = own.get("default", "allow")
    others = {name: value for name, value in project.items() if name not in {"rules", "default", *own}}
    merged = {**(others if trusted else {}), **own}
    missing = [] if trusted else list(others)
    if "rules" in project:
        merged["rules"] = own.get("rules", project["rules"])
        rules, own_rules = project["rules"], own.get("rules", [])
        if isinstance(rules, list) and isinstance(own_rules, list):
            every = cast("list[object]", rules)
            strict = [rule for rule in every if trusted or _strictness(rule) >= STRICTNESS.get(default, 0)]
            merged["rules"] = [*cast("list[object]", own_rules), *strict]
            if looser := len(every) - len(strict):
                missing.append(f"{looser} of the rules, looser than your default '{default}'")
    if "default" in project:
        looser = STRICTNESS.get(str(project["default"]), 2) < STRICTNESS.get(str(default), 0)
        merged["default"] = own["default"] if looser else project["default"]
        missing += [f"default, looser than your '{default}'"] if looser else []
    return merged, missing


def _strictness(rule: object) -> int:
    action = cast("Mapping[str, object]", rule).get("action") if isinstance(rule, Mapping) else None
    return STRICTNESS.get(str(action), 2)
