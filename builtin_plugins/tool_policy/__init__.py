"""Allow, deny or ask, by rules from the configuration. Deny beats ask beats allow, wherever the rules stand; where none
fits, `default` decides.

What no call could ever be allowed is withheld: the model does not see it. What depends on a call's arguments is judged
when the call is made. Every call is judged in full, so a tool that came round the narrowing is caught there.

Status: stable.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Annotated, Any, cast

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from builtin_plugins.tool_policy._answers import NO_RULE, Explanation, RuleFit, answer_of, denial, undecidable
from builtin_plugins.tool_policy._compiled import CompiledRule
from builtin_plugins.tool_policy._dead import dead_rules, problem_of
from builtin_plugins.tool_policy._facts import Undecidable, facts_of
from builtin_plugins.tool_policy._layers import STRICTNESS, add_project
from builtin_plugins.tool_policy._origins import ResultLabels, labels_of
from builtin_plugins.tool_policy._rule import GRAVITY, Action, Rule, read_rules, text_of
from builtin_plugins.tool_policy._vocabulary import WORDS, Kind, Vocabulary, read_vocabulary
from hooksdk import FamilyState, Storage, Tool, hooks
from hooksdk.config import Notice, ProjectSettings
from hooksdk.rules import CallClass, DescribedRule, Fact, Rules, named_arguments

__all__ = ["Explanation", "RuleFit", "ToolPolicy"]


class ToolPolicy:
    """Allow, deny or ask by rules."""

    class Config(BaseModel):
        """Settings.

        Attributes:
            rules: A deny that fits beats every ask, and an ask every allow.
            vocabulary: What tools do, by pattern, for `does`: `{"mcp:github:get_*" = ["read", "reach"]}`.
            results: What the text of tools' results is worth; the strictest entry that fits counts.
            default: What holds where no rule fits.
        """

        model_config = ConfigDict(extra="forbid")
        rules: Annotated[list[Rule], BeforeValidator(read_rules)] = Field(default_factory=list[Rule])
        vocabulary: Annotated[dict[str, list[Kind]], BeforeValidator(read_vocabulary)] = Field(
            default_factory=dict[str, list[Kind]]
        )
        results: list[ResultLabels] = Field(default_factory=list[ResultLabels])
        default: Action = "allow"

        @model_validator(mode="after")
        def _check(self) -> ToolPolicy.Config:
            if not (self.rules or self.results) and "default" not in self.model_fields_set:
                raise ValueError('there are no rules; write one, such as {action = "deny", tools = "delete_*"}')
            if dead := dead_rules(self.rules):
                raise ValueError("; ".join(problem_of(self.rules, *pair) for pair in dead))
            return self

        @classmethod
        def with_project(cls, own: Mapping[str, Any], project: ProjectSettings) -> tuple[dict[str, Any], list[str]]:
            """The user's rules, with those of a project's file that may be added to them."""
            return add_project(own, project.values, trusted=project.trusted)

    @classmethod
    def diagnose(cls, config: Config, tools: Sequence[Tool] | None) -> Iterator[str]:
        """What `hooksdk doctor` says of these rules: patterns that stop less than they seem to, ones that meet nothing,
        and tools that are near to one."""
        from builtin_plugins.tool_policy._lint import (
            doubtful_trust,
            near_misses_of,
            problems_of,
            unpriced,
            unsaid_tools,
        )

        yield from problems_of(config.rules, tools)
        yield from doubtful_trust(config.results, tools or ())
        yield from map(Notice, unsaid_tools(config.rules, tools or (), Vocabulary(config.vocabulary)))
        yield from map(Notice, unpriced(config.rules))
        rules = [CompiledRule(rule, number) for number, rule in enumerate(config.rules, 1)]
        yield from map(Notice, near_misses_of(rules, config.default, tools or ()))

    @classmethod
    def describe_rules(cls, config: Config) -> Rules:
        """The rules as facts, for proofs and comparisons. What a project may add that nobody trusts is no milder than
        the default."""
        added: list[Action] = [action for action in GRAVITY if STRICTNESS[action] >= STRICTNESS[config.default]]
        facts = cls._facts_of(config)
        described = [
            DescribedRule(rule.action, facts(rule), number, text_of(rule))
            for number, rule in enumerate(config.rules, 1)
        ]
        return Rules(tuple(described), config.default, tuple(added))

    @classmethod
    def describe_calls(cls, config: Config, calls: Mapping[str, Any]) -> CallClass:
        """A class of calls that is written as a rule is, without its action, and read as a deny is: whatever may be
        meant. Raises `ValueError` with what is wrong."""
        for key in ("action", "limit", "reason", "title", "severity"):
            if key in calls:
                raise ValueError(f"'{key}' says nothing of which calls are meant; leave it out")
        (rule,) = cast("list[Rule]", read_rules([{**calls, "action": "deny"}]))
        return CallClass(cls._facts_of(config)(rule))

    @classmethod
    def _facts_of(cls, config: Config) -> Callable[[Rule], Sequence[Fact]]:
        words = Vocabulary(config.vocabulary)
        labels = json.dumps([one.model_dump() for one in config.results]) if config.results else ""
        return lambda rule: tuple(facts_of(rule, words, labels))

    @classmethod
    def handlers_for(cls, config: Config) -> Collection[str]:
        """Without a limit in its rules it counts nothing, so it looks at no request; without `results` it labels none,
        and where no rule names an argument it looks for none in tools."""
        plain = ["narrow", "judge"] + (["label"] if config.results else [])
        if any(named_arguments(facts_of(rule, WORDS)) for rule in config.rules):
            plain.append("look")
        counting = ("judge_limits", "begin", "end", "before_request", "count_usage", "count_the_rest")
        return (*plain, *counting) if any(rule.limit for rule in config.rules) else plain

    def __init__(self, config: Config, family: FamilyState | None = None, storage: Storage | None = None) -> None:
        words = Vocabulary(config.vocabulary)
        numbered = [CompiledRule(rule, number, words) for number, rule in enumerate(config.rules, 1)]
        self._rules = sorted(numbered, key=lambda rule: GRAVITY[rule.rule.action])  # of equals the first stays first
        self._misspelt = None
        if any(named_arguments(rule.facts) for rule in self._rules):
            from builtin_plugins.tool_policy._misspelt import Misspelt

            self._misspelt = Misspelt(self._rules, family)
        self._spending = None
        if limited := [rule for rule in self._rules if rule.rule.limit]:
            from builtin_plugins.tool_policy._spending import Spending

            self._spending = Spending(limited, self._misspelt, family, storage)
        self._results = config.results
        self._default = CompiledRule(Rule(action=config.default, reason=NO_RULE[config.default]), 0)

    @hooks.narrow_tools.first
    async def look(self, event: hooks.NarrowTools) -> None:
        """Compare the tools with the arguments that rules name."""
        if self._misspelt:
            await self._misspelt.resolve(event)

    @hooks.narrow_tools
    def narrow(self, event: hooks.NarrowTools) -> hooks.Withhold | None:
        """Withhold the tools of which no call could be allowed."""
        rules = [rule for rule in self._rules if rule.fits_run(event) and not rule.rule.limit]
        closed = {tool.id: rule for tool in event.tools if (rule := self._closing(tool, rules))}
        reasons = {denial(rule) for rule in closed.values()}
        reason = reasons.pop() if len(reasons) == 1 else "the tool policy denies it"
        return hooks.Withhold(list(closed), reason) if closed else None

    def _closing(self, tool: Tool, rules: list[CompiledRule]) -> CompiledRule | None:
        """The rule that denies every call which the rules before it leave open; None when some call may be allowed."""
        for rule in self._for_tool(tool, rules):
            if rule.rule.action != "deny":
                return None
            if not rule.conditional:
                return rule
        return None

    @hooks.label_result
    def label(self, event: hooks.LabelResult) -> hooks.Label | None:
        """Say what the configuration says of the tool's results."""
        labels = labels_of(self._results, event)
        return hooks.Label(labels) if labels else None

    @hooks.before_tool_call.first
    def judge(self, event: hooks.BeforeToolCall) -> hooks.Block | hooks.Ask | None:
        """Let the gravest rule that fits the call decide."""
        unclear: list[hooks.Origin] = []  # what kept an allow from fitting, for a default that asks
        doubtful: tuple[CompiledRule, str] | None = None  # the gravest that may be meant
        for rule in self._for_tool(event.tool, self._rules):
            if rule.rule.limit or not rule.fits_run(event):
                continue
            try:
                fits = not (rule.conditional and rule.why_not(event))
                strange = rule.reading.strange(event) if fits or rule.exact else []
                if self._misspelt and not (fits or doubtful) and (doubt := self._misspelt.doubt(rule, event)):
                    doubtful = rule, doubt
            except (Undecidable, LookupError) as problem:
                return hooks.Block(undecidable(rule, problem))
            if fits:
                # Doubt loosens nothing: of equals the rule that surely fits decides.
                if doubtful is None or GRAVITY[rule.rule.action] <= GRAVITY[doubtful[0].rule.action]:
                    return answer_of(rule, event.tool, strange or unclear)
                break
            unclear += strange
        return answer_of(doubtful[0], event.tool, (), doubtful[1]) if doubtful else None

    @hooks.before_tool_call.last
    async def judge_limits(self, event: hooks.BeforeToolCall) -> hooks.Block | hooks.Ask | None:
        """Let a rule decide whose limit leaves nothing. A call that began already was counted then."""
        return await self._spending.judge(event) if self._spending else None

    @hooks.tool_call_start.last
    async def begin(self, event: hooks.ToolCallStart) -> hooks.Block | None:
        """Count the call. Of calls at once each was judged before any was counted, so here the last one too many is
        held back."""
        return await self._spending.begin(event) if self._spending else None

    @hooks.after_tool_call
    async def end(self, event: hooks.AfterToolCall) -> None:
        """A call that a loop took to run it, and never ran, has not begun."""
        if self._spending:
            await self._spending.end(event)

    @hooks.before_model_call.first
    async def before_request(self, event: hooks.BeforeModelCall) -> hooks.Block | None:
        """End a run for whose requests a limit leaves nothing. What cannot be counted is not spent."""
        return await self._spending.before_request(event) if self._spending else None

    @hooks.after_model_call(wait=True)
    async def count_usage(self, event: hooks.AfterModelCall) -> None:
        """Count what the request used, before the run goes on."""
        if self._spending:
            await self._spending.replied(event)

    @hooks.agent_end
    async def count_the_rest(self, event: hooks.AgentEnd) -> None:  # noqa: ARG002 - what is left over is known here
        """Count the last reply as well where no provider says what it used."""
        if self._spending:
            await self._spending.settle()

    def explain(self, event: hooks.BeforeToolCall) -> Explanation:
        """What the policy says of a call, by which rule and why. It is judged as `judge` does, and nothing runs."""
        from builtin_plugins.tool_policy._explain import explain

        about_tool = list(self._for_tool(event.tool, self._rules))
        return explain(event, about_tool, self._rules, self._misspelt, self._default.rule.action)

    def _for_tool(self, tool: Tool, rules: list[CompiledRule]) -> Iterator[CompiledRule]:
        """The rules that are about this tool, then the default. It is not meant for the bridge tools, which show and
        run nothing but what is allowed anyway."""
        yield from (rule for rule in rules if rule.fits_tool(tool))
        if not tool.bridge:
            yield self._default
