"""The call that `hooksdk policy check` is asked about, named on the command line or in a file, and the plugins that
judge calls."""

from __future__ import annotations

import inspect
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from types import ModuleType
from typing import Any, Literal, Self

import typer
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from hooksdk import Annotations, Config, JudgedCall, Run, Tool, ToolCall, hooks
from hooksdk.cli._console import logger
from hooksdk.cli._options import key_values
from hooksdk.errors import WrongArgument, problem_text, unknown_key
from hooksdk.formats import get_format
from hooksdk.formats.intake import call_in
from hooksdk.hooks import BeforeToolCall
from hooksdk.host import Plugin
from hooksdk.patterns import Source, ToolPattern
from hooksdk.rules import Rules, is_about, unknown_arguments
from hooksdk.values import as_object, is_list

# How the argument is named in errors.
CALL = "TOOL|CALL.json"
_SHAPES = '{"name": "delete_page", "arguments": {"path": "index.html"}}'
# The hooks whose handlers hold a call back.
_BLOCKING = ("before_tool_call", "tool_call_start")


class SupposedCall(BaseModel):
    """A made-up call: its tool, its arguments, and the run that makes it.

    Attributes:
        tool: A name or an id such as `mcp:github:create_issue`.
        parameters: The tool's JSON Schema; by default every argument of the call is one of it.
    """

    model_config = ConfigDict(extra="forbid")
    tool: str = Field(min_length=1)
    arguments: dict[str, Any] = Field(default_factory=dict)
    parameters: dict[str, Any] | None = None
    agent_id: str = "main"
    trigger: Literal["user", "schedule", "subagent", "other"] = "user"
    requester: dict[str, Any] | None = None

    @classmethod
    def read(cls, document: Any) -> tuple[Self | None, list[str]]:
        """The call that a document describes, or everything that is wrong with it."""
        known = cls.model_fields
        problems = [unknown_key(name, known, "a known key") for name in as_object(document) if name not in known]
        if not problems:
            try:
                return cls.model_validate(document), []
            except ValidationError as error:
                problems = [problem_text(one) for one in error.errors()]
        return None, problems

    @property
    def run_options(self) -> dict[str, Any]:
        """The options of `Session.run` for the run that makes the call."""
        return {"agent_id": self.agent_id, "trigger": self.trigger, "requester": self.requester}


class CallFile(SupposedCall):
    """The content of CALL.json.

    Attributes:
        prompt: What the user wrote, for rules about where values come from.
    """

    source: Source = "mcp"
    owner: str = ""
    annotations: dict[str, bool] = Field(default_factory=dict)
    workspace_dir: str | None = None
    prompt: str = ""


class SeenCall:
    """Keeps the call as the policies get it: it knows where its values come from."""

    plugin_id = "hooksdk_check"

    def __init__(self) -> None:
        self.event: BeforeToolCall | None = None

    @hooks.before_tool_call.first
    def judge(self, event: BeforeToolCall) -> None:
        """Look on."""
        self.event = event


async def judge_call(run: Run, call: ToolCall) -> JudgedCall:
    """Let the policies judge a call as if the model had written it in this run."""
    await run.record(get_format("openai-chat").reply("", [call]))
    return await run.judge(call)


def schema_of_call(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """The schema of a tool of which nothing is known but one call, so that it may take more."""
    properties = {name: {"type": "array"} if is_list(one) else {} for name, one in arguments.items()}
    return {"type": "object", "properties": properties, "additionalProperties": {}}


def wanted_call(call: str, words: Sequence[str], project: Path, *, has_schema: bool = False) -> CallFile:
    """The call in a file or on stdin, or the one that the command line spells out, made in the project's folder. With
    `has_schema` the tool's own schema says what the words are. Raises `typer.BadParameter` with everything that is
    wrong."""
    path = Path(call)
    if not (call == "-" or path.suffix == ".json" or path.is_file()):
        arguments = _arguments(words, has_schema=has_schema)
        return _checked({"tool": call, "arguments": arguments, "workspace_dir": str(project.resolve())}, call)
    if words:
        raise typer.BadParameter(f"{call} holds the arguments already: leave {words[0]} out", param_hint="KEY=VALUE")
    try:
        text = sys.stdin.read() if call == "-" else path.read_text(encoding="utf-8")
        document = json.loads(text)
    except (OSError, ValueError, RecursionError) as error:
        problem = error.strerror if isinstance(error, OSError) else f"it is no JSON: {error}"
        raise typer.BadParameter(f"{call}: {problem}", param_hint=CALL) from None
    return _checked(document if "tool" in as_object(document) else _plain_call(document, call), call)


def _arguments(words: Sequence[str], *, has_schema: bool) -> dict[str, Any]:
    """Without a schema what is JSON counts as such, `n=3` and `deep=true`; everything else is text."""
    if len(words) == 1 and words[0].lstrip().startswith("{"):
        try:
            return dict(json.loads(words[0]))
        except ValueError as error:
            raise typer.BadParameter(f"the arguments are no JSON: {error}", param_hint="KEY=VALUE") from None
    return {key: text if has_schema else _value(text) for key, text in key_values(words).items()}


def _value(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


def _plain_call(document: Any, place: str) -> Any:
    """A call as MCP, OpenAI, Anthropic or Gemini writes it, as the keys of `CallFile`; anything else as it is."""
    body = as_object(document)
    body = as_object(body.get("params")) if body.get("method") == "tools/call" else body
    if isinstance(body.get("name"), str) and body.keys() <= {"name", "arguments", "_meta"}:
        body = {"id": "call", "name": body["name"], "arguments": body.get("arguments", {})}
    try:
        call = call_in(body, (), place)
        arguments = json.loads(call.arguments) if isinstance(call.arguments, str) else call.arguments
    except (WrongArgument, ValueError):
        return document
    return {"tool": call.name, "arguments": arguments}


def _checked(document: Any, place: str) -> CallFile:
    body = as_object(document)
    if str(body.get("tool")).count(":") >= 2:
        body = {**body, **dict(zip(("source", "owner", "tool"), str(body["tool"]).split(":", 2), strict=True))}
    call, problems = CallFile.read(body or document)
    if body.keys() - CallFile.model_fields.keys():
        problems.append(f"a call as a provider or MCP writes it is {_SHAPES}")
    if call is not None:
        known = Annotations.names()
        problems = [unknown_key(name, known, "a known annotation") for name in set(call.annotations) - set(known)]
        if not problems:
            return call
    raise typer.BadParameter(f"{place}: {'; '.join(problems)}", param_hint=CALL)


@dataclass(frozen=True, kw_only=True)
class Judge:
    """A plugin that may ask about calls or block them, and does not say which.

    Attributes:
        patterns: The tools that its handlers are for; empty: every tool.
    """

    plugin: str
    patterns: Sequence[ToolPattern] = ()

    def may_judge(self, tool: Any) -> bool:
        """True for tools that one of its handlers is for."""
        return not self.patterns or any(pattern.may_mean(tool) for pattern in self.patterns)


@dataclass(frozen=True, kw_only=True)
class Judges:
    """The plugins that judge calls here.

    Attributes:
        described: By plugin, what its settings say of calls.
        shadowed: Plugins in shadow mode: what they say of a call has no effect.
    """

    described: dict[str, Rules] = field(default_factory=dict[str, Rules])
    others: list[Judge] = field(default_factory=list[Judge])
    shadowed: list[str] = field(default_factory=list[str])


def judges_of(plugins: Sequence[Plugin], config: Config) -> Judges:
    """The loaded plugins that judge calls. One whose `describe_rules` fails counts as one that does not describe its
    rules, and a warning says so."""
    judges = Judges()
    for plugin in plugins:
        judging = [hook for hook in _BLOCKING if hook in plugin.hooks]
        if not (plugin.loaded and judging):
            continue
        section = config.plugin(plugin.id)
        if section is not None and section.mode == "shadow":
            judges.shadowed.append(plugin.id)
        elif (rules := _rules_of(plugin)) is not None:
            judges.described[plugin.id] = rules
        else:
            patterns = [plugin.tool_patterns.get(hook, []) for hook in judging]
            judges.others.append(Judge(plugin=plugin.id, patterns=[*chain(*patterns)] if all(patterns) else ()))
    return judges


def misspelt(judges: Judges, tools: Sequence[Tool], called: Tool | None = None, *, guessing: bool = False) -> list[str]:
    """The rules that name an argument which none of their tools has, in words; with `called` only the rules that may
    stop its calls. `guessing`: the schemas say little, so only a name that is nearly an argument's counts."""
    return [
        f"{plugin} rule {rule.number}: {one.words(rule.action)}"
        for plugin, rules in judges.described.items()
        for rule in rules.rules
        if called is None or (rule.action != "allow" and is_about(rule.facts, called))
        for one in unknown_arguments(rule.facts, tools)
        if one.near or not guessing
    ]


def _rules_of(plugin: Plugin) -> Rules | None:
    """The plugin's rules by its `describe_rules(config)`, a class method or a module's plain function; None without it."""
    member = inspect.getattr_static(plugin.holder, "describe_rules", None)
    is_ours = inspect.isfunction(member) if isinstance(plugin.holder, ModuleType) else isinstance(member, classmethod)
    if not is_ours:
        return None
    try:
        rules: object = plugin.holder.describe_rules(plugin.config)
    except Exception as error:
        problem = f"its describe_rules(...) raised {type(error).__name__}: {error}"
    else:
        if isinstance(rules, Rules):
            return rules
        problem = f"its describe_rules(...) answered {type(rules).__name__}, not Rules"
    logger.warning("plugin '%s': %s; it counts as one that may ask about calls or block them", plugin.id, problem)
    return None
