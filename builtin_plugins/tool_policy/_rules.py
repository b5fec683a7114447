"""What a rule says, checked when the host starts, and whether it fits a tool, a run and a call."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Annotated, Any, Literal, cast, final

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    ValidationError,
    field_validator,
    model_validator,
)

from builtin_plugins.tool_policy._commands import check_command
from builtin_plugins.tool_policy._conditions import EVERY, Targets
from builtin_plugins.tool_policy._facts import FitsReading, MayDo, MayMean, SurelyDoes, Watched, WrittenFact, facts_of
from builtin_plugins.tool_policy._hosts import check_host
from builtin_plugins.tool_policy._keywords import check_keywords
from builtin_plugins.tool_policy._limits import Limit
from builtin_plugins.tool_policy._names import check_name
from builtin_plugins.tool_policy._origins import ByPath, Reading, ReadLabels
from builtin_plugins.tool_policy._paths import check_folder
from builtin_plugins.tool_policy._requester import Requester
from builtin_plugins.tool_policy._strict import Strict, Texts, as_list, check_known
from builtin_plugins.tool_policy._vocabulary import KINDS, WORDS, Kind, Vocabulary
from hooksdk import Annotations, Tool, schema
from hooksdk.errors import problem_text
from hooksdk.hooks import BeforeToolCall, Event, ToolCallStart
from hooksdk.patterns import SOURCES, ToolPattern, check_patterns
from hooksdk.rules import Fact, RunFact, ToolFact, ToolNamed

Action = Literal["allow", "deny", "ask"]
GRAVITY: dict[Action, int] = {"deny": 0, "ask": 1, "allow": 2}
"""The lower one decides, wherever it stands."""


def _as_targets(value: object) -> object:
    """A text or a list is for every argument; a table says it for each by name."""
    if isinstance(value, Mapping):
        named = cast("Mapping[str, object]", value)
        if not named:
            raise ValueError("it is empty; write what the arguments must be")
        return {name: as_list(one) for name, one in named.items()}
    return {EVERY: as_list(value)}


ByArgument = Annotated[dict[str, Texts], BeforeValidator(_as_targets)]

_CHECKS: dict[str, Callable[[str], str]] = {
    "path_inside": check_folder, "path_outside": check_folder, "path_name": check_name, "url_host": check_host,
    "command": check_command,
}  # fmt: skip
_STOPPING = {
    "path_outside": "deny or ask; an allow says with path_inside where paths lie",
    "path_name": "deny or ask; an allow says with path_inside where paths lie",
    "after_reading": "deny or ask; what was read allows nothing",
    "values_from_elsewhere": "deny or ask; an allow says with values_from where values come from",
}
"""What an allow has not, with what to write."""
_ALLOWING = {"values_from": "stands in rules that allow; a deny and an ask take values_from_elsewhere"}
_OF_READING = ("after_reading", "values_from_elsewhere")
_ANY_NAME = ToolNamed(("*",), exact=True)


class Rule(Strict):
    """One rule. Everything that it says must hold; what it leaves out holds always."""

    action: Action
    tools: Annotated[Texts, AfterValidator(check_patterns)] = Field(default_factory=lambda: ["*"])
    """Patterns: `delete_*`, `mcp:github:*`. A deny and an ask take them by their words, an allow as they are written."""
    annotations: dict[str, bool] | None = None
    """What the tool says of itself. What it does not say never allows anything; for a deny and an ask MCP's defaults
    hold, such as `destructive`."""
    sources: Texts | None = None
    owners: Texts | None = None
    """Servers and plugins; `*` and `?` as in patterns."""
    agents: Texts | None = None
    """Agent ids; `*` and `?` as in patterns."""
    triggers: Texts | None = None
    workspaces: Texts | None = None
    """Folders that the run's workspace lies in; `*` and `?` stand for part of one folder's name."""
    requester: Requester | None = None
    arguments: dict[str, Any] | None = None
    """A JSON Schema that the call's final arguments fit."""
    does: Annotated[list[Kind], BeforeValidator(as_list)] | None = None
    """What the call does: one of these, or several."""
    path_inside: ByArgument | None = None
    """Folders that the paths in the arguments lie in."""
    path_outside: ByArgument | None = None
    """Folders that a path in the arguments lies outside of; for a deny and an ask."""
    path_name: ByArgument | None = None
    """Names of files and folders that are part of a path in the arguments; for a deny and an ask."""
    url_host: ByArgument | None = None
    """Hosts that the addresses in the arguments lead to."""
    command: ByArgument | None = None
    """Programs that the command lines in the arguments run."""
    after_reading: ReadLabels | None = None
    """Something with one of these labels was read; for a deny and an ask."""
    values_from: ByPath | None = None
    """Paths of arguments, and where each value there surely comes from; for an allow."""
    values_from_elsewhere: ByPath | None = None
    """Paths of arguments; a value there comes from elsewhere. For a deny and an ask."""
    limit: Limit | None = None
    """The rule holds once so much was used."""
    reason: str = ""
    """What the model reads when the rule denies, and the person when it asks."""
    title: str = ""
    """What the person is asked."""
    severity: Literal["info", "warning", "critical"] = "warning"

    @field_validator("annotations")
    @classmethod
    def _check_annotations(cls, value: dict[str, bool] | None) -> dict[str, bool] | None:
        if value is not None and not value:
            raise ValueError("it is empty; write such as {destructive = true}")
        for name in value or ():
            check_known(name, Annotations.names(), "annotation")
        return value

    @field_validator("sources", "triggers")
    @classmethod
    def _check_words(cls, value: list[str] | None, info: Any) -> list[str] | None:
        known = SOURCES if info.field_name == "sources" else ("user", "schedule", "subagent", "other")
        for word in value or ():
            check_known(word, known, info.field_name.removesuffix("s"))
        return value

    @field_validator("does", mode="before")
    @classmethod
    def _check_does(cls, value: object) -> object:
        for word in cast(
            "list[object]", [value] if isinstance(value, str) else value if isinstance(value, list) else []
        ):
            check_known(str(word), KINDS, "word of does")
        return value  # pyright: ignore[reportUnknownVariableType] - pydantic checks it next

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


@final
class CompiledRule:
    """One rule, made ready for many questions."""

    def __init__(self, rule: Rule, number: int, vocabulary: Vocabulary = WORDS) -> None:
        self.rule = rule
        self.number = number
        """From 1; 0 is the default."""
        self.name = f"rule {number}" if number else "the default"
        self.exact = rule.action == "allow"
        """Names count as they are written; else by their words, and owners in any case."""
        self.facts = facts_of(rule, vocabulary)
        self._run_facts = [fact for fact in self.facts if isinstance(fact, RunFact)]
        self._named = [fact for fact in self.facts if isinstance(fact, ToolNamed)] or [_ANY_NAME]
        self._tool_facts = [fact for fact in self.facts if isinstance(fact, ToolFact) and fact not in self._named]
        self._written = [fact for fact in self.facts if isinstance(fact, WrittenFact)]
        self._watch = next((fact.watch for fact in self._written if isinstance(fact, Watched)), None)
        self._does = next((fact.does for fact in self._written if isinstance(fact, (MayDo, SurelyDoes))), None)
        readings = (fact.reading for fact in self.facts if isinstance(fact, FitsReading))
        self.reading = next(readings, Reading(None, None, None))

    @property
    def conditional(self) -> bool:
        """True when the call itself decides, so that nothing can be said of the tool alone."""
        return self.looks_at_arguments or self.rule.limit is not None

    @property
    def looks_at_arguments(self) -> bool:
        """True when what the call says decides."""
        return bool(self._written or self.reading)

    @property
    def about_all_tools(self) -> bool:
        """True when it says nothing of tools and calls, so that it is about the whole run."""
        rule = self.rule
        said = (rule.annotations, rule.sources, rule.owners)
        return not self.looks_at_arguments and rule.tools == ["*"] and all(one is None for one in said)

    @property
    def always(self) -> bool:
        """True when it fits every call, in every run, of the tools that it is about."""
        return not (self.conditional or self._run_facts)

    def fits_run(self, event: Event) -> bool:
        """True for runs that the rule is about."""
        return all(fact.holds(event) for fact in self._run_facts)

    def fits_tool(self, tool: Tool) -> bool:
        """True for tools that the rule is about. Of a bridge tool a pattern must say part of the name."""
        return all(fact.holds(tool) for fact in self._named) and self._fits_otherwise(tool)

    @property
    def patterns(self) -> list[ToolPattern]:
        """What its `tools` say."""
        return self._named[0].compiled

    def near_miss(self, tool: Tool) -> ToolPattern | None:
        """The pattern that somebody may believe to mean this tool, where none of the rule does."""
        if tool.bridge or self.fits_tool(tool) or not self._fits_otherwise(tool):
            return None
        nearly_means = ToolPattern.may_mean if self.exact else ToolPattern.nearly_means
        return next((pattern for pattern in self.patterns if nearly_means(pattern, tool)), None)

    def _fits_otherwise(self, tool: Tool) -> bool:
        """True where nothing but the name and the call may stand against it."""
        return all(fact.holds(tool) for fact in self._tool_facts)

    def unsaid(self, tool: Tool) -> str:
        """What the rule takes the tool for though it does not say so itself, in words; empty where it does."""
        if self._does and not self.exact and not self._does.knows(tool):
            return f"nobody says what {tool.name} does, so it counts as everything"
        wanted = {} if self.exact or self.rule.annotations is None else self.rule.annotations
        words = [
            f"{'' if value else 'not '}{name.replace('_', '-')}"
            for name, value in wanted.items()
            if getattr(tool.annotations, name) is None
        ]
        return f"{tool.name} says nothing of it, so it counts as {' and '.join(words)}" if words else ""

    def why_not(self, event: BeforeToolCall | ToolCallStart, met: Collection[Fact] = ()) -> str:
        """Why the rule does not fit the call; empty when it does. An allow fits only what is sure, a deny and an ask whatever
        may be meant. `met` are conditions that count as met. Raises `Undecidable`, and `LookupError` where it is not known where values come from."""
        # Each access makes a copy of the arguments, and most rules look at none.
        arguments: Mapping[str, Any] = event.arguments if self._written else {}
        tool, workspace = event.tool, event.workspace_dir
        written = (fact for fact in self._written if fact not in met)
        problem = next((why for fact in written if (why := fact.why_not(arguments, tool, workspace))), "")
        if problem or not self.reading or not isinstance(event, BeforeToolCall):
            return problem
        if any(isinstance(fact, FitsReading) for fact in met):
            return ""
        return self.reading.why_not(event)

    def unwatched_names(self, tool: Tool) -> list[tuple[str, str]]:
        """The arguments of a tool that no condition of an allow looks at, each with the condition that would."""
        return self._watch.unwatched_names(tool) if self._watch else []

    def why(self, event: BeforeToolCall) -> str:
        """What in the call a deny or an ask goes by; empty where it goes by nothing in it."""
        arguments, workspace = event.arguments, event.workspace_dir
        if self._does:
            whys = [self._does.why(arguments, event.tool, workspace)]
        else:
            conditions = [fact.condition for fact in self._written if isinstance(fact, MayMean)]
            whys = [condition.why(arguments, workspace) for condition in conditions]
        return "; ".join(why for why in (*whys, self.reading.why(event)) if why)
