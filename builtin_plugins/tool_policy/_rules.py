"""What a rule says, checked when the host starts, and whether it fits a tool, a run and a call."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from typing import Annotated, Any, Literal, cast, final

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, field_validator, model_validator

from hooksdk import Annotations, Tool, schema
from hooksdk.errors import did_you_mean, problem_text, unknown_key
from hooksdk.hooks import Event
from hooksdk.patterns import SOURCES, ToolPattern

Action = Literal["allow", "deny", "ask"]

_KEYWORDS = {
    "$schema", "$id", "$anchor", "$dynamicAnchor", "$ref", "$dynamicRef", "$recursiveRef", "$recursiveAnchor",
    "$vocabulary", "$comment", "$defs", "definitions", "allOf", "anyOf", "oneOf", "not", "if", "then", "else",
    "dependentSchemas", "dependentRequired", "dependencies", "prefixItems", "items", "additionalItems", "contains",
    "properties", "patternProperties", "additionalProperties", "propertyNames", "unevaluatedItems",
    "unevaluatedProperties", "type", "enum", "const", "multipleOf", "maximum", "exclusiveMaximum", "minimum",
    "exclusiveMinimum", "maxLength", "minLength", "pattern", "maxItems", "minItems", "uniqueItems", "maxContains",
    "minContains", "maxProperties", "minProperties", "required", "title", "description", "default", "deprecated",
    "readOnly", "writeOnly", "examples", "format", "contentEncoding", "contentMediaType", "contentSchema",
}  # fmt: skip
_BY_NAME = {"properties", "patternProperties", "$defs", "definitions", "dependentSchemas"}
_IN_LIST = {"allOf", "anyOf", "oneOf", "prefixItems"}
_INSIDE = {
    "items", "additionalItems", "contains", "additionalProperties", "propertyNames", "not", "if", "then", "else",
    "unevaluatedItems", "unevaluatedProperties",
}  # fmt: skip


def _as_list(value: object) -> object:
    if isinstance(value, str):
        return [value]
    if isinstance(value, list) and not value:
        raise ValueError("an empty list fits nothing; leave the setting out, or fill it")
    return value  # pyright: ignore[reportUnknownVariableType] - pydantic checks it next


Texts = Annotated[list[Annotated[str, Field(min_length=1)]], BeforeValidator(_as_list)]


class _Strict(BaseModel):
    """Refuses unknown keys with a suggestion."""

    model_config = ConfigDict(frozen=True)

    @model_validator(mode="before")
    @classmethod
    def _check_keys(cls, value: object) -> object:
        if isinstance(value, Mapping):
            for name in cast("Mapping[str, Any]", value):
                _check_known(str(name), cls.model_fields, "setting")
        return value  # pyright: ignore[reportUnknownVariableType] - pydantic checks it next


def _check_known(word: str, known: Collection[str], what: str) -> None:
    if word not in known:
        raise ValueError(unknown_key(word, known, f"a known {what}"))


class Requester(_Strict):
    """Who asked, as the host said it with `session.run(requester=...)`."""

    is_owner: bool | None = None
    """`true`: known to be the owner. `false`: everybody else, and whoever is not known."""
    roles: Texts | None = None
    """Has at least one of these."""
    id: Texts | None = None
    """Is one of these."""

    @model_validator(mode="after")
    def _check(self) -> Requester:
        if self.is_owner is None and self.roles is None and self.id is None:
            raise ValueError("it is empty; write is_owner, roles or id")
        return self

    def fits(self, requester: Mapping[str, Any]) -> bool:
        """True when everything that is said here holds for the run's requester."""
        if self.is_owner is not None and (requester.get("is_owner") is True) is not self.is_owner:
            return False
        own_id: object = requester.get("id")
        if self.id is not None and (own_id is None or str(own_id) not in self.id):
            return False
        own_roles: object = requester.get("roles")
        roles = {own_roles} if isinstance(own_roles, str) else set(map(str, cast("list[object]", own_roles or ())))
        return self.roles is None or not roles.isdisjoint(self.roles)


class Rule(_Strict):
    """One rule. Everything that it says must hold; what it leaves out holds always."""

    action: Action
    tools: Texts = Field(default_factory=lambda: ["*"])
    """Patterns: `delete_*`, `mcp:github:*`."""
    annotations: dict[str, bool] | None = None
    """What the tool says of itself. One that it does not say holds neither as true nor as false."""
    sources: Texts | None = None
    owners: Texts | None = None
    """Servers and plugins; `*` and `?` as in patterns."""
    agents: Texts | None = None
    """Agent ids; `*` and `?` as in patterns."""
    triggers: Texts | None = None
    requester: Requester | None = None
    arguments: dict[str, Any] | None = None
    """A JSON Schema that the call's final arguments fit."""
    reason: str = ""
    """What the model reads when the rule denies, and the person when it asks."""
    title: str = ""
    """What the person is asked."""
    severity: Literal["info", "warning", "critical"] = "warning"

    @field_validator("tools")
    @classmethod
    def _check_tools(cls, value: list[str]) -> list[str]:
        for text in value:
            ToolPattern(text)
        return value

    @field_validator("annotations")
    @classmethod
    def _check_annotations(cls, value: dict[str, bool] | None) -> dict[str, bool] | None:
        if value is not None and not value:
            raise ValueError("it is empty; write such as {destructive = true}")
        for name in value or ():
            _check_known(name, Annotations.names(), "annotation")
        return value

    @field_validator("sources", "triggers")
    @classmethod
    def _check_words(cls, value: list[str] | None, info: Any) -> list[str] | None:
        known = SOURCES if info.field_name == "sources" else ("user", "schedule", "subagent", "other")
        for word in value or ():
            _check_known(word, known, info.field_name.removesuffix("s"))
        return value

    @field_validator("arguments")
    @classmethod
    def _check_arguments(cls, value: dict[str, Any] | None) -> dict[str, Any] | None:
        if value is not None and not value:
            raise ValueError("it is empty, so every call fits; leave it out, or write a JSON Schema")
        if value is not None:
            _check_keywords(value, "")
            broken = next((one.message for one in schema.check(value, {}) if one.constraint == "schema"), None)
            if problem := schema.check_schema(value) or broken:
                raise ValueError(f"this is not a JSON Schema: {problem}")
        return value


def _check_keywords(part: object, path: str) -> None:
    """A misspelt keyword is no error in JSON Schema: it holds for everything, which no rule can mean."""
    if not isinstance(part, dict):
        return
    for name, inner in cast("dict[str, Any]", part).items():
        where = f"{path}.{name}".lstrip(".")
        if name not in _KEYWORDS and not name.startswith("x-"):
            near = did_you_mean(name, _KEYWORDS)
            hint = near or f' Arguments stand under properties: {{"properties": {{"{name}": ...}}}}.'
            raise ValueError(f"'{where}' is not a JSON Schema keyword.{hint}")
        below: Iterable[tuple[str, object]] = ()
        if name in _BY_NAME and isinstance(inner, dict):
            below = cast("dict[str, Any]", inner).items()
        elif name in _IN_LIST and isinstance(inner, list):
            below = ((str(at), each) for at, each in enumerate(cast("list[object]", inner)))
        elif name in _INSIDE:
            below = (("", inner),)
        for key, each in below:
            _check_keywords(each, f"{where}.{key}".rstrip("."))


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


class Undecidable(ValueError):
    """The arguments cannot be checked against a rule's schema."""


@final
class CompiledRule:
    """One rule, made ready for many questions."""

    def __init__(self, rule: Rule, name: str) -> None:
        self.rule = rule
        self.name = name
        self._patterns = [ToolPattern(text) for text in rule.tools]
        # A bridge tool opens nothing by itself, so a pattern for all names of some source is not meant for it.
        self._bridge_patterns = [one for one in self._patterns if one.text.rpartition(":")[2].strip("*?")]
        self._owners = None if rule.owners is None else [_wildcard(text) for text in rule.owners]
        self._agents = None if rule.agents is None else [_wildcard(text) for text in rule.agents]

    @property
    def conditional(self) -> bool:
        """True when the call itself decides, so that nothing can be said of the tool alone."""
        return self.rule.arguments is not None

    def fits_run(self, event: Event) -> bool:
        """True for runs that the rule is about."""
        rule = self.rule
        if self._agents is not None and not any(_any(self._agents, agent) for agent in event.agents):
            return False
        if rule.triggers is not None and not set(rule.triggers).intersection(event.triggers):
            return False
        return rule.requester is None or rule.requester.fits(event.requester or {})

    def fits_tool(self, tool: Tool) -> bool:
        """True for tools that the rule is about. Of a bridge tool a pattern must say part of the name."""
        rule = self.rule
        if not any(pattern.matches(tool) for pattern in (self._bridge_patterns if tool.bridge else self._patterns)):
            return False
        if rule.annotations is not None and not tool.annotations.matches(rule.annotations):
            return False
        if rule.sources is not None and tool.source not in rule.sources:
            return False
        return self._owners is None or _any(self._owners, tool.owner)

    def fits_arguments(self, arguments: Mapping[str, Any]) -> bool:
        """True when the arguments fit the rule's schema. Raises `Undecidable`."""
        problems = schema.check(self.rule.arguments, arguments, quote_values=False)
        unsure = next((one for one in problems if one.constraint in {"schema", "limit", "json"}), None)
        if unsure is not None:
            raise Undecidable(unsure.message)
        return not problems


def _wildcard(text: str) -> re.Pattern[str]:
    pieces = re.split(r"(\*+|\?)", text)
    return re.compile(
        "".join(".*" if piece[:1] == "*" else "." if piece == "?" else re.escape(piece) for piece in pieces), re.DOTALL
    )


def _any(patterns: Iterable[re.Pattern[str]], text: str) -> bool:
    return any(pattern.fullmatch(text) for pattern in patterns)
