"""What stands in rules that stops, or allows, something else than it seems to. Rules that are plainly wrong are refused
at the start; these may be meant so."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from typing import Any, cast

from builtin_plugins.tool_policy._compiled import CompiledRule
from builtin_plugins.tool_policy._origins import TRUSTED, ResultLabels
from builtin_plugins.tool_policy._rule import GRAVITY, Action, Rule
from builtin_plugins.tool_policy._tables import LAUNCHERS, words_in
from builtin_plugins.tool_policy._vocabulary import Vocabulary
from hooksdk import Tool
from hooksdk.patterns import ToolPattern, near_miss, near_tools
from hooksdk.rules import unknown_arguments

# Words in the names of tools that answer what others may have named or written.
_NAMED_BY_OTHERS = words_in("""
    calendar channel chat comment commit contact email event file inbox issue mail message note page post pull
    review search thread ticket transaction web webpage
""")
_PATH_LIKE = re.compile(r"(?<!\\)/[A-Za-z]|\\/[A-Za-z]")
_SAFE_PIECES = re.compile(r"\\[\\^$.*+?()\[\]{}|/-]|\\[dDwWsS]|\[[^\]]*\]|[^.\\\[]")


def problems_of(rules: Sequence[Rule], tools: Sequence[Tool] | None) -> Iterator[str]:
    """One line for each, with the number of its rule and what to write."""
    for number, rule in enumerate(rules, 1):
        where = f"rule {number} ({rule.action} {', '.join(rule.tools)})"
        for problem in (*_schema_problems(rule), *_command_problems(rule)):
            yield f"{where}: {problem}"
        compiled = CompiledRule(rule, number)
        for one in unknown_arguments(compiled.facts, tools or ()):
            yield f"{where}: {one.words(rule.action)}"
        for tool in filter(compiled.fits_tool, tools or ()):
            for name, key in compiled.unwatched_names(tool):
                fits = "so it allows any" if key == "path_inside" else "so no call with it is allowed"
                unsaid = f"{tool.id} takes {name!r}, and the rule has no {key} for it"
                yield f"{where}: {unsaid}, {fits}; add {key} = {{{name} = ...}}"
        for text in rule.tools if tools is not None else ():
            pattern = ToolPattern(text)
            means = pattern.matches if rule.action == "allow" else pattern.may_mean
            if not any(means(tool) for tool in tools or ()):
                hint = near_tools(text, tools or ()) or " `hooksdk tools list` shows their names."
                yield f"{where}: no tool here is meant by {text!r}.{hint}"


def doubtful_trust(entries: Sequence[ResultLabels], tools: Sequence[Tool]) -> Iterator[str]:
    """What is called trusted though others may have a word in it, with what to do."""
    for number, entry in enumerate(entries, 1):
        if TRUSTED not in entry.label:
            continue
        where = f"results {number} ({', '.join(entry.tools)} trusted)"
        for text in entry.tools:
            if ":" not in text:
                yield f"{where}: any server may call a tool {text!r}; write whose it is, such as 'mcp:SERVER:{text}'"
        for tool in tools:
            if entry.fits(tool) and (why := _why_doubtful(tool)):
                yield (
                    f"{where}: {tool.id} {why}, so an outsider may put a name or an address there, and one tool too many undoes "
                    "all rules about values; take it out unless you know that nobody can"
                )


def _why_doubtful(tool: Tool) -> str:
    words = tool.own_name.lower().replace("-", "_").split("_")
    named = next((word for word in words if {word, word.removesuffix("s")} & _NAMED_BY_OTHERS), "")
    if named:
        return f"answers {named!r}, which others may have named or written"
    return "says of itself that it reaches the outside" if tool.annotations.open_world else ""


def unsaid_tools(rules: Sequence[Rule], tools: Sequence[Tool], words: Vocabulary) -> Iterator[str]:
    """The tools of which nobody says what they do, where a rule asks for it."""
    unsaid = sorted(tool.id for tool in tools if not tool.bridge and words.use_of(tool) is None)
    if unsaid and any(rule.does for rule in rules):
        more = f" and {len(unsaid) - 5} more" if len(unsaid) > 5 else ""
        yield (
            f"nobody says what {', '.join(unsaid[:5])}{more} does, so rules with does take it for everything; "
            f'say it: vocabulary = {{"{unsaid[0]}" = ["read"]}}'
        )


def unpriced(rules: Sequence[Rule]) -> Iterator[str]:
    """The limits in dollars, where only prices of one's own are known."""
    numbers = [str(number) for number, rule in enumerate(rules, 1) if rule.limit and rule.limit.dollars]
    if numbers and find_spec("genai_prices") is None:
        yield (
            f"rule {', '.join(numbers)}: a limit in dollars lets no request pass to a model without a price; "
            "write them under [prices], or pip install 'hooksdk[prices]'"
        )


def _schema_problems(rule: Rule) -> Iterator[str]:
    schema = rule.arguments
    if schema is None:
        return
    properties = cast("dict[str, Any]", schema.get("properties") or {})
    patterns = {
        name: str(cast("dict[str, Any]", one)["pattern"])
        for name, one in properties.items()
        if isinstance(one, dict) and "pattern" in one
    }
    for name, pattern in patterns.items():
        if rule.action == "allow":
            if properties[name].get("type") != "string":
                yield f'the pattern of {name!r} fits everything that is not text; add type = "string"'
            if not (pattern.startswith("^") and pattern.endswith("$")):
                yield f"the pattern of {name!r} fits longer text too; begin it with ^ and end it with $"
            if _has_plain_dot(pattern):
                yield f"the . in the pattern of {name!r} stops at the end of a line; write [\\s\\S] for any character"
            if name not in schema.get("required", ()):
                yield f"a call without {name!r} fits too; add required = [{name!r}]"
        if _PATH_LIKE.search(pattern):
            yield f"the pattern of {name!r} looks at a path as text (//etc, /tmp/../etc and links pass it); use path_inside"
    if rule.action == "allow" and patterns and schema.get("additionalProperties") is not False:
        yield "further arguments fit too; add additionalProperties = false, and every argument under properties"


def _has_plain_dot(pattern: str) -> bool:
    """True for a `.` that means any character but a newline, outside of brackets."""
    return "." in _SAFE_PIECES.sub("", pattern)


def _command_problems(rule: Rule) -> Iterator[str]:
    for lines in (rule.command or {}).values():
        starters = [one for one in lines if one.split(" ")[0].rpartition("/")[2] in LAUNCHERS]
        if rule.action == "allow" and starters:
            yield f"{', '.join(starters)} runs any other program, so this allows everything; list the programs themselves"
        if rule.action == "allow" and "*" in lines:
            yield 'command = "*" allows every command, and so every file and host; list the programs'
    if rule.action == "deny" and rule.command is not None:
        yield "a program can be run under another name, so a deny of programs is no wall; deny by default and allow by command"
    if (
        rule.action == "deny"
        and rule.url_host is not None
        and not any("*" in hosts for hosts in rule.url_host.values())
    ):
        yield "a host has other names and numbers, so a deny of hosts is no wall; deny by default and allow by url_host"


def near_misses_of(rules: Sequence[CompiledRule], default: Action, tools: Sequence[Tool]) -> Iterator[str]:
    """One line for each pattern that has any, with what to write."""
    for rule in rules:
        missed: dict[ToolPattern, list[str]] = {}
        for tool in tools:
            pattern = rule.near_miss(tool)
            if pattern is not None and would_count(rule, tool, rules, default):
                missed.setdefault(pattern, []).append(tool.id)
        for pattern, ids in missed.items():
            where = f"{rule.name} ({rule.rule.action} {', '.join(rule.rule.tools)})"
            yield f"{where}: {near_miss(pattern, ids, exact=rule.exact)}"


def would_count(near: CompiledRule, tool: Tool, rules: Sequence[CompiledRule], default: Action) -> bool:
    """True where the rule, if it were about the tool, would change what becomes of some call of it."""
    fitting = [rule for rule in rules if rule.fits_tool(tool)]
    stopping: list[Action] = [rule.rule.action for rule in fitting if rule.always and not rule.exact]
    allowing = [rule for rule in fitting if rule.exact]
    if near.exact:
        return default != "allow" and not stopping and not allowing
    if any(tool.own_name in _last_parts(rule) for rule in allowing):
        return False  # somebody has thought of this tool
    if not stopping:
        stopping = ["allow"] if allowing else [default]
    return all(GRAVITY[near.rule.action] < GRAVITY[action] for action in stopping)


def _last_parts(rule: CompiledRule) -> set[str]:
    return {pattern.text.rpartition(":")[2] for pattern in rule.patterns}
