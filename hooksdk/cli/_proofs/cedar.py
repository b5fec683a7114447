"""`hooksdk policy import`: a Cedar policy as rules of tool_policy, for the part that both languages can say.

Cedar denies by default, and a forbid beats a permit; a policy with `default = "deny"` does the same. In a run that no
other run began, the rule for a permit fits no more calls than the permit, and the rule for a forbid fits no fewer."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import tomlkit
import typer

from hooksdk import Annotations
from hooksdk.cli._console import CommandProblem, complain
from hooksdk.cli._edits.configuration import offer_rules
from hooksdk.cli._options import Json, Project
from hooksdk.cli._proofs.diff import load_version
from hooksdk.config import project_settings
from hooksdk.patterns import SOURCES

_TRIGGERS = ("user", "schedule", "subagent", "other")
_ACTIONS = {"permit": "allow", "forbid": "deny"}
_POLICY = re.compile(r'//[^\n]*|"(?:\\.|[^"\\])*"|\b(permit|forbid)\b(?=\s*\()')
_HEAD = """\
# From {name}. What no permit of it names is denied.
[plugins.tool_policy]
enabled = true

[plugins.tool_policy.config]
default = "deny"
"""


class _NotMapped(Exception):
    """A part of a Cedar policy has no counterpart in a rule."""


@dataclass(frozen=True)
class Imported:
    """One Cedar policy.

    Attributes:
        rule: The keys of the rule; None where it does not map.
    """

    line: int
    effect: str
    rule: Mapping[str, Any] | None
    problem: str = ""


def import_cedar(
    file: Annotated[Path, typer.Argument(metavar="FILE.cedar", exists=True, dir_okay=False)],
    partial: Annotated[bool, typer.Option("--partial")] = False,
    write: Annotated[bool, typer.Option("--write")] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y")] = False,
    as_json: Json = False,
    project: Project = Path(),
) -> None:
    """Print a Cedar policy as rules of tool_policy. What has no counterpart in rules is told with its line.

    Where anything has none, nothing is printed and the code is 1, unless only permits are concerned and --partial is
    given.

    Options:
        file: Policies in Cedar.
        partial: Leave out each permit that does not map. A forbid is never left out.
        write: Write the rules into the project's hooksdk.toml.
        yes: Write them without asking.
    """
    try:
        policies = read_cedar(file.read_text("utf-8"), file.name)
    except (OSError, UnicodeDecodeError) as error:
        raise CommandProblem(f"{file} cannot be read as UTF-8: {error}") from None
    unmapped = [one for one in policies if one.rule is None]
    for one in unmapped:
        complain(f"{file.name}, line {one.line}: this {one.effect} does not map: {one.problem}")
    if unmapped and not (partial and all(one.effect == "permit" for one in unmapped)):
        raise typer.Exit(1)
    text = rules_text([one for one in policies if one.rule is not None], file.name)
    source = project_settings(text, f"the rules of {file.name}")
    assert source is not None
    load_version(source, project)  # a rule that never decides is an error here, as in any configuration
    command, advice = f"hooksdk policy import {file}", "`hooksdk policy prove` proves what you expect of them."
    write = write or yes
    offer_rules(project.resolve(), text, command=command, advice=advice, write=write, yes=yes, as_json=as_json)


def rules_text(policies: Sequence[Imported], name: str) -> str:
    """The rules as TOML."""
    blocks = [_HEAD.format(name=name)]
    for one in policies:
        lines = [f"# {one.effect} in line {one.line}", "[[plugins.tool_policy.config.rules]]"]
        for key, value in (one.rule or {}).items():
            table: Any = tomlkit.inline_table()
            table.update({key: value})
            lines.append(table.as_string().removeprefix("{").removesuffix("}"))
        blocks.append("\n".join([*lines, ""]))
    return "\n".join(blocks)


def read_cedar(text: str, name: str) -> list[Imported]:
    """Each policy of a text, in its order. Raises `CommandProblem` for what is no Cedar, and without cedarpy."""
    try:
        from cedarpy import policies_to_json_str
    except ModuleNotFoundError:
        raise CommandProblem("Cedar needs the package 'cedarpy': pip install 'hooksdk[cedar]'") from None
    try:
        document = json.loads(policies_to_json_str(text))
    except ValueError as error:
        raise CommandProblem(f"{name} is not Cedar: {error}") from None
    lines = [text.count("\n", 0, match.start()) + 1 for match in _POLICY.finditer(text) if match[1]]
    numbered = {int(key.removeprefix("policy")): one for key, one in document["staticPolicies"].items()}
    numbered |= {int(key.removeprefix("policy")): None for key in document["templates"]}
    return [_imported(numbered[at], line) for at, line in enumerate(lines)]


def _imported(policy: Mapping[str, Any] | None, line: int) -> Imported:
    if policy is None:
        return Imported(line, "forbid", None, "it is a template; write the policies that are linked to it")
    effect: str = policy["effect"]
    rule: dict[str, Any] = {"action": _ACTIONS[effect]}
    try:
        for key, value in _conditions(policy):
            if key in {"annotations", "requester"}:
                rule[key] = {**rule.get(key, {}), **_once(rule.get(key, {}), value)}
            else:
                rule |= _once(rule, {key: value})
    except _NotMapped as problem:
        return Imported(line, effect, None, str(problem))
    said: Mapping[str, str] = policy.get("annotations") or {}
    reason = said.get("reason")
    return Imported(line, effect, {**rule, "reason": reason} if reason and effect == "forbid" else rule)


def _once(known: Mapping[str, Any], more: dict[str, Any]) -> dict[str, Any]:
    for key, value in more.items():
        if key in known and known[key] != value:
            raise _NotMapped(f"a rule says '{key}' once, and this needs it twice")
    return more


def _conditions(policy: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """The keys and values of a rule with the policy's conditions."""
    for variable in ("principal", "action", "resource"):
        yield from _scope(variable, policy[variable])
    for condition in policy["conditions"]:
        yield from _expression(condition["body"], holds=condition["kind"] == "when")


def _scope(variable: str, scope: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    if scope["op"] == "is":
        yield from _is(variable, scope["entity_type"])
        if "in" in scope:
            yield from _entities(variable, "in", [scope["in"]["entity"]])
    elif scope["op"] != "All":
        yield from _entities(variable, scope["op"], scope.get("entities") or [scope["entity"]])


def _is(variable: str, kind: str) -> Iterator[tuple[str, Any]]:
    if (variable, kind) not in {("principal", "Agent"), ("resource", "Tool")}:
        raise _NotMapped(f"{variable} is {kind}; a principal is an Agent, and a resource a Tool")
    yield from ()


def _entities(variable: str, operator: str, entities: Sequence[Mapping[str, str]]) -> Iterator[tuple[str, Any]]:
    kinds, ids = {one["type"] for one in entities}, [one["id"] for one in entities]
    if odd := next((one for one in ids if not one or re.search(r"[*?|^$\\]", one)), None):
        raise _NotMapped(f"'{odd}' would be a pattern in a rule")
    match variable, sorted(kinds):
        case "principal", ["Agent"]:
            yield "agents", ids
        case "principal", ["Role"] if operator == "in":
            yield "requester", {"roles": ids}
        case "resource", ["Tool"] if all(one.count(":") >= 2 and one.partition(":")[0] in SOURCES for one in ids):
            yield "tools", ids
        case "resource", ["Server"] if operator == "in":
            yield "sources", ["mcp"]
            yield "owners", ids
        case "action", ["Action"] if "call" in ids:
            pass
        case _:
            named = ", ".join(f'{one["type"]}::"{one["id"]}"' for one in entities)
            known = 'Agent::"ID", in Role::"NAME", Action::"call", Tool::"mcp:SERVER:NAME", in Server::"NAME"'
            raise _NotMapped(f"{variable} {operator} {named}; what maps is {known}")


def _expression(body: Mapping[str, Any], *, holds: bool) -> Iterator[tuple[str, Any]]:
    """The keys and values of a rule for an expression that must hold, or must not."""
    ((operator, parts),) = body.items()
    match operator, parts:
        case "!", {"arg": inner}:
            yield from _expression(inner, holds=not holds)
        case (("&&" | "||"), {"left": left, "right": right}) if (operator == "&&") is holds:
            yield from _expression(left, holds=holds)
            yield from _expression(right, holds=holds)
        case ".", _:
            yield from _equal(body, True, holds=holds)
        case (("==" | "!="), {"left": {"Var": str(variable)}, "right": {"Value": {"__entity": entity}}}) if (
            holds and operator == "=="
        ):
            yield from _entities(variable, "==", [entity])
        case (("==" | "!="), {"left": left, "right": {"Value": value}}):
            yield from _equal(left, value, holds=holds is (operator == "=="))
        case "contains", {"left": {"Set": values}, "right": right}:
            yield from _one_of(right, [one.get("Value") for one in values], holds=holds)
        case "in", {"left": {"Var": str(variable)}, "right": right} if holds:
            each = right.get("Set") or [right]
            yield from _entities(variable, "in", [one["Value"]["__entity"] for one in each])
        case "is", {"left": {"Var": str(variable)}, "entity_type": str(kind)} if holds:
            yield from _is(variable, kind)
        case (("||" | "&&"), _):
            raise _NotMapped(
                f"'{operator}' {'' if holds else 'in what must not be '}is for several policies; write one for each"
            )
        case _:
            raise _NotMapped(f"'{operator}' in a condition: {json.dumps(body)[:120]}")


def _equal(left: Mapping[str, Any], value: object, *, holds: bool) -> Iterator[tuple[str, Any]]:
    match left:
        case {".": {"left": {"Var": "resource"}, "attr": str(name)}} if name in Annotations.names() and isinstance(
            value, bool
        ):
            yield "annotations", {name: value is holds}
        case {".": {"left": {"Var": "context"}, "attr": "is_owner"}} if isinstance(value, bool):
            yield "requester", {"is_owner": value is holds}
        case _:
            yield from _one_of(left, [value], holds=holds)


def _one_of(left: Mapping[str, Any], values: Sequence[object], *, holds: bool) -> Iterator[tuple[str, Any]]:
    texts = [one for one in values if isinstance(one, str)]
    match left:
        case {".": {"left": {"Var": "context"}, "attr": "trigger"}} if len(texts) == len(values) and set(texts) <= set(
            _TRIGGERS
        ):
            yield "triggers", [one for one in _TRIGGERS if (one in texts) is holds]
        case {".": {"left": {"Var": "context"}, "attr": "requester"}} if holds and len(texts) == len(values):
            yield "requester", {"id": texts}
        case _:
            known = "resource.read_only and the other annotations, context.trigger, context.is_owner, context.requester"
            raise _NotMapped(f"{json.dumps(left)[:120]} {'' if holds else 'not '}{list(values)}; what maps is {known}")
