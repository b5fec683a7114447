"""What a rule may say, checked when the host starts: every mistake is told with what to write."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Annotated, Any, Literal, cast

from pydantic import AfterValidator, BeforeValidator, Field, ValidationError, field_validator, model_validator

from builtin_plugins.tool_policy._commands import check_command
from builtin_plugins.tool_policy._conditions import EVERY, Targets
from builtin_plugins.tool_policy._limits import Limit
from builtin_plugins.tool_policy._names import check_name
from builtin_plugins.tool_policy._origins import ByPath, ReadLabels
from builtin_plugins.tool_policy._paths import check_folder
from builtin_plugins.tool_policy._strict import Strict, Texts, as_list, check_known, known_words
from builtin_plugins.tool_policy._vocabulary import KINDS, Kind
from hooksdk import Annotations, schema
from hooksdk.errors import problem_text
from hooksdk.patterns import SOURCES, check_patterns
from hooksdk.rules import Requested

Action = Literal["allow", "deny", "ask"]
# The lower one decides, wherever it stands.
GRAVITY: dict[Action, int] = {"deny": 0, "ask": 1, "allow": 2}


def _as_targets(value: object) -> object:
    """A text or a list is for every argument; a table says it for each by name."""
    if isinstance(value, Mapping):
        named = cast("Mapping[str, object]", value)
        if not named:
            raise ValueError("it is empty; write what the arguments must be")
        return {name: as_list(one) for name, one in named.items()}
    return {EVERY: as_list(value)}


ByArgument = Annotated[dict[str, Texts], BeforeValidator(_as_targets)]


def _check_host(text: str) -> str:
    from builtin_plugins.tool_policy._hosts import check_host  # loaded with the first rule about hosts

    return check_host(text)


_CHECKS: dict[str, Callable[[str], str]] = {
    "path_inside": check_folder,
    "path_outside": check_folder,
    "path_name": check_name,
    "url_host": _check_host,
    "command": check_command,
}
# What an allow has not, with what to write.
_STOPPING = {
    "path_outside": "deny or ask; an allow says with path_inside where paths lie",
    "path_name": "deny or ask; an allow says with path_inside where paths lie",
    "after_reading": "deny or ask; what was read allows nothing",
    "values_from_elsewhere": "deny or ask; an allow says with values_from where values come from",
}
_ALLOWING = {"values_from": "stands in rules that allow; a deny and an ask take values_from_elsewhere"}
_OF_READING = ("after_reading", "values_from_elsewhere")


class Requester(Strict):
    """Who asked, as the host said it with `session.run(requester=...)`.

    Attributes:
        is_owner: `true`: known to be the owner. `false`: everybody else, and whoever is not known.
        roles: Has at least one of these.
        id: Is one of these.
    """

    is_owner: bool | None = None
    roles: Texts | None = None
    id: Texts | None = None

    @model_validator(mode="after")
    def _check(self) -> Requester:
        if self.is_owner is None and self.roles is None and self.id is None:
            raise ValueError("it is empty; write is_owner, roles or id")
        return self

    @property
    def fact(self) -> Requested:
        """The same as a fact."""
        roles, ids = (None if one is None else tuple(one) for one in (self.roles, self.id))
        return Requested(self.is_owner, roles, ids)


class Rule(Strict):
    """One rule. Everything that it says must hold; what it leaves out holds always.

    Attributes:
        tools: Patterns such as `mcp:github:*`. A deny and an ask take them by their words, an allow as they are
            written.
        annotations: What the tool says of itself. What it does not say never allows anything; for a deny and an ask
            MCP's defaults hold, such as `destructive`.
        owners: Servers and plugins; `*` and `?` as in patterns.
        agents: Agent ids; `*` and `?` as in patterns.
        workspaces: Folders that the run's workspace lies in; `*` and `?` stand for part of one folder's name.
        arguments: A JSON Schema that the call's final arguments fit.
        does: What the call does: one of these, or several.
        path_inside: Folders that the paths in the arguments lie in.
        path_outside: Folders that a path in the arguments lies outside of; for a deny and an ask.
        path_name: Names of files and folders that are part of a path in the arguments; for a deny and an ask.
        url_host: Hosts that the addresses in the arguments lead to.
        command: Programs that the command lines in the arguments run.
        after_reading: Something with one of these labels was read; for a deny and an ask.
        values_from: Paths of arguments, and where each value there surely comes from; for an allow.
        values_from_elsewhere: Paths of arguments; a value there comes from elsewhere. For a deny and an ask.
        limit: The rule holds once so much was used.
        reason: What the model reads when the rule denies, and the person when it asks.
        title: What the person is asked.
    """

    action: Action
    tools: Annotated[Texts, AfterValidator(check_patterns)] = Field(default_factory=lambda: ["*"])
    annotations: dict[str, bool] | None = None
    sources: Annotated[list[str], known_words(SOURCES, "source")] | None = None
    owners: Texts | None = None
    agents: Texts | None = None
    triggers: Annotated[list[str], known_words(("user", "schedule", "subagent", "other"), "trigger")] | None = None
    workspaces: Texts | None = None
    requester: Requester | None = None
    arguments: dict[str, Any] | None = None
    does: Annotated[list[Kind], known_words(KINDS, "word of does")] | None = None
    path_inside: ByArgument | None = None
    path_outside: ByArgument | None = None
    path_name: ByArgument | None = None
    url_host: ByArgument | None = None
    command: ByArgument | None = None
    after_reading: ReadLabels | None = None
    values_from: ByPath | None = None
    values_from_elsewhere: ByPath | None = None
    limit: Limit | None = None
    reason: str = ""
    title: str = ""
    severity: Literal["info", "warning", "critical"] = "warning"

    @field_validator("annotations")
    @classmethod
    def _check_annotations(cls, value: dict[str, bool] | None) -> dict[str, bool] | None:
        if value is not None and not value:
            raise ValueError("it is empty; write such as {destructive = true}")
        for name in value or ():
            check_known(name, Annotations.names(), "annotation")
        return value

    @model_validator(mode="after")
    def _check_stopping(self) -> Rule:
        if self.action == "allow" and self.limit is not None:
            raise ValueError("limit stands in rules that deny or ask once it is reached; an allow has none")
        said = [key for key in (*_STOPPING, *_ALLOWING) if getattr(self, key) is not None]
        for key in said:
            if (self.action == "allow") is (key in _STOPPING):
                raise ValueError(
                    f"{key} stands in rules that {_STOPPING[key]}" if key in _STOPPING else f"{key} {_ALLOWING[key]}"
                )
        if self.limit is not None and (key := next((key for key in said if key in _OF_READING), None)):
            raise ValueError(
                f"{key} and limit are two rules: what a call begins with does not say where its values come from"
            )
        return self

    @field_validator("workspaces")
    @classmethod
    def _check_workspaces(cls, value: list[str] | None) -> list[str] | None:
        for text in value or ():
            if not text.startswith(("/", "*")) or ".." in text.split("/"):
                raise ValueError(f"'{text}' is not an absolute folder; write one such as '/srv/*'")
        return value

    @field_validator(*_CHECKS)
    @classmethod
    def _check_conditions(cls, value: Targets | None, info: Any) -> Targets | None:
        check = _CHECKS[info.field_name]
        return None if value is None else {name: [check(text) for text in texts] for name, texts in value.items()}

    @field_validator("arguments")
    @classmethod
    def _check_arguments(cls, value: dict[str, Any] | None) -> dict[str, Any] | None:
        if value is not None and not value:
            raise ValueError("it is empty, so every call fits; leave it out, or write a JSON Schema")
        if value is not None:
            from builtin_plugins.tool_policy._keywords import check_keywords  # few rules have a schema

            check_keywords(value, "")
            broken = next((one.message for one in schema.check(value, {}) if one.constraint == "schema"), None)
            if problem := schema.check_schema(value) or broken:
                raise ValueError(f"this is not a JSON Schema: {problem}")
        return value


def read_rules(value: object) -> object:
    """Rules as written, each checked; every mistake is told with the number of its rule, from 1."""
    if not isinstance(value, list):
        return value
    rules: list[Rule] = []
    problems: list[str] = []
    for number, raw_rule in enumerate(cast("list[object]", value), 1):
        try:
            rules.append(Rule.model_validate(raw_rule))
        except ValidationError as error:
            problems.extend(f"rule {number}: {_text_of(one)}" for one in error.errors())
    if problems:
        raise ValueError("; ".join(problems))
    return rules


def _text_of(problem: Any) -> str:
    if problem["type"] == "missing" and problem["loc"] == ("action",):
        return "it has no action; write action = allow, deny or ask"
    return problem_text(problem)


_SETTINGS_LEFT_OUT = {"reason", "title", "severity"}


def text_of(rule: Rule) -> str:
    """A rule in one line, as it stands in TOML."""
    written = rule.model_dump(exclude_unset=True, exclude=_SETTINGS_LEFT_OUT, mode="json")
    return ", ".join(f"{name} = {_toml(value)}" for name, value in written.items())


def _toml(value: object) -> str:
    if isinstance(value, dict):
        if set(value) == {"*"}:  # pyright: ignore[reportUnknownArgumentType]
            return _toml(value["*"])  # pyright: ignore[reportUnknownArgumentType]
        inner = ", ".join(f"{_key(str(name))} = {_toml(one)}" for name, one in value.items() if one is not None)  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
        return f"{{ {inner} }}"
    if isinstance(value, list):
        return _toml(value[0]) if len(value) == 1 else f"[{', '.join(map(_toml, value))}]"  # pyright: ignore[reportUnknownArgumentType]
    return json.dumps(value)


def _key(name: str) -> str:
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else json.dumps(name)
