"""The user's rules and a project's, put together so that the project never weakens what the user's alone would do."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from builtin_plugins.tool_policy._dead import dead_rules
from builtin_plugins.tool_policy._origins import without_trust
from builtin_plugins.tool_policy._rule import Rule, read_rules

STRICTNESS = {"allow": 0, "ask": 1, "deny": 2}


def add_project(
    own: Mapping[str, Any], project: Mapping[str, Any], *, trusted: bool
) -> tuple[dict[str, Any], list[str]]:
    """The user's rules, then the project's; and what is left out of the project's.

    Without trust a rule counts when it is at least as strict as the user's default, which is what it would replace; and
    never does a looser default count. A value that is not what it should be is kept, so that its mistake is told.
    """
    default = own.get("default", "allow")
    others = {name: value for name, value in project.items() if name not in {"rules", "results", "default", *own}}
    merged = {**(others if trusted else {}), **own}
    missing = [] if trusted else list(others)
    if "rules" in project:
        merged["rules"] = own.get("rules", project["rules"])
        rules, own_rules = project["rules"], own.get("rules", [])
        if isinstance(rules, list) and isinstance(own_rules, list):
            every = cast("list[object]", rules)
            strict = [rule for rule in every if trusted or _strictness(rule) >= STRICTNESS.get(default, 0)]
            merged["rules"] = _without_dead(cast("list[object]", own_rules), strict)
            if looser := len(every) - len(strict):
                missing.append(f"{looser} of the rules, looser than your default '{default}'")
    if "results" in project:
        results, trusting = (project["results"], 0) if trusted else without_trust(project["results"])
        own_results = own.get("results", [])
        if isinstance(results, list) and isinstance(own_results, list):
            merged["results"] = [*cast("list[object]", own_results), *cast("list[object]", results)]
        else:
            merged["results"] = own.get("results", results)
        missing += [f"{trusting} of the results, which trust tools"] if trusting else []
    if "default" in project:
        looser = STRICTNESS.get(str(project["default"]), 2) < STRICTNESS.get(str(default), 0)
        merged["default"] = own["default"] if looser else project["default"]
        missing += [f"default, looser than your '{default}'"] if looser else []
    return merged, missing


def _strictness(rule: object) -> int:
    action = cast("Mapping[str, object]", rule).get("action") if isinstance(rule, Mapping) else None
    return STRICTNESS.get(str(action), 2)


def _without_dead(own: list[object], project: list[object]) -> list[object]:
    """Both lists of rules, without those that the other one's always beat: nobody's mistake, and without effect."""
    layers = [("own", rule) for rule in own] + [("project", rule) for rule in project]
    while True:
        rules = [rule for _, rule in layers]
        try:
            pairs = dead_rules(cast("list[Rule]", read_rules(rules)))
        except ValueError:  # told where the merged rules are checked
            return rules
        dead = [number for number, by in pairs if layers[number - 1][0] != layers[by - 1][0]]
        if not dead:
            return rules
        layers = [each for number, each in enumerate(layers, 1) if number not in dead]
