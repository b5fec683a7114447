"""`hooksdk policy table`: what the rules say of every tool here, the riskiest first."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import asdict, dataclass, replace
from itertools import chain, groupby
from pathlib import Path
from typing import Annotated, Any

import anyio
import typer

from hooksdk import Config, Tool, hooks
from hooksdk.cli._console import CommandProblem, View, counted, stderr_console, warnings_shown
from hooksdk.cli._given_tools import OwnTools, Traces, given_tools, with_others
from hooksdk.cli._options import Json, Mcp, Plugins, Project, import_plugins
from hooksdk.cli._policy_calls import Judges, judges_of, misspelt
from hooksdk.cli._project import open_host, open_servers, project_config
from hooksdk.errors import ConfigError
from hooksdk.gateway import GatewayConfig, Profile, narrowing, profile_of
from hooksdk.hooks import NarrowTools, Trace
from hooksdk.records import Withheld
from hooksdk.rules import DescribedRule, Fact, Requested, as_judged
from hooksdk.rules.verdicts import Case, Known, ToolVerdict, hint_words, riskiest_first, verdict_of
from hooksdk.values import clip

# The most names of a row, and the most characters of a rule below: --json has all of them.
_MOST_NAMES = 4
_RULE_CHARS = 120


def table(
    mcp: Mcp = None,
    tools: OwnTools = None,
    trace: Traces = None,
    profile: Annotated[str | None, typer.Option(metavar="NAME")] = None,
    plugin: Plugins = None,
    as_json: Json = False,
    project: Project = Path(),
) -> None:
    """Show what the rules here say of every tool, the riskiest first: allowed, asked about, denied, or what it depends
    on.

    hooksdk policy table --mcp mcp.json

    Tools with the same verdict by the same rules stand in one line; --json has each. Nothing runs, and nobody is asked. `hooksdk policy check` says what one call would come to.

    Options:
        profile: Show the tools as the gateway's clients with this profile have them.
    """
    config, plugins = project_config(project), import_plugins(plugin)
    gateway_profile = None if profile is None else _profile(config, profile)
    with warnings_shown():
        given = given_tools(tools, trace)
        catalog = anyio.run(_collect, config, project.resolve(), tuple(mcp or ()), plugins, given)
    lines = lines_of(catalog, profile, gateway_profile)
    _view(catalog, lines, profile).show(as_json=as_json)


def _profile(config: Config, name: str) -> Profile:
    try:
        return profile_of(GatewayConfig.of(config), name)[1]
    except ConfigError as error:
        raise CommandProblem(f"--profile: {error.problems[0]}") from None


class _Watch:
    """Sees all tools before a plugin takes one away, and which plugin does."""

    plugin_id = "hooksdk_table"

    def __init__(self) -> None:
        self.tools: dict[str, Tool] = {}
        self.withheld: list[Withheld] = []

    @hooks.narrow_tools.first
    def look(self, event: NarrowTools) -> None:
        """Look on."""
        self.tools |= {tool.id: tool for tool in event.tools if not tool.bridge}

    @hooks.trace
    def keep(self, event: Trace) -> None:
        """Keep who took tools away."""
        if isinstance(event.record, Withheld):
            self.withheld.append(event.record)


@dataclass(frozen=True, kw_only=True)
class Catalog:
    """The tools here, and who judges their calls.

    Attributes:
        withheld: By name or id, the plugin that takes the tool away from every run of this command, and why.
    """

    tools: Sequence[Tool]
    judges: Judges
    withheld: Mapping[str, tuple[str, str]]
    servers_down: Sequence[str]


@dataclass(frozen=True, kw_only=True)
class Line:
    """One tool of the table.

    Attributes:
        others: Plugins that may ask about its calls or block them.
        withheld: Who takes it away, and why.
    """

    verdict: ToolVerdict
    others: Sequence[str] = ()
    withheld: tuple[str, str] | None = None

    @property
    def action(self) -> str:
        """The verdict on a call: one word, or all that are possible."""
        return "withheld" if self.withheld else self.verdict.words


async def _collect(
    config: Config, project: Path, mcp: Sequence[Path], plugins: Sequence[Any], given: Sequence[Tool]
) -> Catalog:
    async with AsyncExitStack() as stack:
        host = await open_host(stack, config, project, [_Watch, *plugins])
        groups = await open_servers(host, mcp, stderr_console(), project=project)
        judges = judges_of(host.plugins, config)
        async with host.session() as session:
            watch: _Watch = session.plugin(_Watch.plugin_id)
            async with session.run(workspace_dir=str(project)) as run:
                await run.resolve_tools(
                    with_others([tool for one in groups for tool in one.tools()], given, host.plugins)
                )
        withheld = {
            name: (record.plugin, record.reason)
            for record in watch.withheld
            if record.plugin not in judges.described
            for name in record.names
        }
        down = [name for servers in groups for name, one in servers.status.items() if one.failed]
        return Catalog(tools=list(watch.tools.values()), judges=judges, withheld=withheld, servers_down=down)


def lines_of(catalog: Catalog, profile_name: str | None = None, profile: Profile | None = None) -> list[Line]:
    """The lines of the table in their order: what is withheld comes last."""
    known = _known(profile_name, profile)
    described = {plugin: as_judged(rules, catalog.tools) for plugin, rules in catalog.judges.described.items()}
    why_not = narrowing(profile_name, profile or Profile())
    lines: list[Line] = []
    for verdict in riskiest_first(verdict_of(tool, described, known) for tool in catalog.tools):
        tool = verdict.tool
        reason = why_not(tool)
        withheld = ("gateway", reason) if reason else None
        withheld = withheld or next(
            (catalog.withheld[name] for name in (tool.name, tool.own_name, tool.id) if name in catalog.withheld), None
        )
        others = [one.plugin for one in catalog.judges.others if one.may_judge(tool)]
        lines.append(Line(verdict=verdict, others=others, withheld=withheld))
    return sorted(lines, key=lambda line: line.withheld is not None)


def _known(name: str | None, profile: Profile | None) -> Known:
    """The facts that a profile settles about a client: its roles, and whether it is the owner. Its id comes with a
    token."""
    requester = {} if profile is None else {"roles": [name], **profile.requester}

    def known(fact: Fact) -> bool | None:
        if profile is None or not isinstance(fact, Requested):
            return None
        if fact.ids is None or "id" in requester:
            return fact.means(requester)
        return None if replace(fact, ids=None).means(requester) else False

    return known


def _words(line: Line, judges: Judges) -> str:
    """Who decides about the tool, in one line: the rules by their numbers."""
    if line.withheld:
        who, why = line.withheld
        return " ".join(f"{who}: {why}".split())
    cases = line.verdict.cases
    names = (f"{plugin} " if len(cases) > 1 else "" for plugin in cases)
    for_some = [one.plugin for one in judges.others if one.patterns and one.plugin in line.others]
    more = [f"{', '.join(for_some)} may ask or block"] if for_some else []
    return "; ".join([*map(_cases_words, names, cases.values()), *more]) or "no rule"


def _cases_words(plugin: str, cases: Sequence[Case]) -> str:
    """`rules 1 and 2 may deny, rules 3 to 10 may ask, else the default allows`."""
    *before, last = cases
    if not before:
        return f"{plugin}{f'rule {last.number}' if last.number else 'default'}"
    words: list[str] = []
    for action, alike in groupby(before, lambda case: case.action):
        numbers = [case.number for case in alike]
        words.append(f"{plugin}rule{'s' if numbers[1:] else ''} {_number_words(numbers)} may {action}")
    return f"{', '.join(words)}, else {f'rule {last.number}' if last.number else 'the default'} {last.action}s"


def _number_words(numbers: Sequence[int]) -> str:
    if len(numbers) > 2 and numbers[-1] - numbers[0] == len(numbers) - 1:
        return f"{numbers[0]} to {numbers[-1]}"
    return " and ".join(filter(None, [", ".join(map(str, numbers[:-1])), str(numbers[-1])]))


def rows(lines: Sequence[Line], judges: Judges) -> list[tuple[str, str, str, str]]:
    """A row for all tools of which the same is said by the same rules, where the riskiest of them stands."""
    alike: dict[tuple[str, str], list[Tool]] = {}
    for line in lines:
        alike.setdefault((line.action, _words(line, judges)), []).append(line.verdict.tool)
    sizes = Counter(_owner(line.verdict.tool) for line in lines)
    return [(action, _tool_words(tools, sizes), words, _hints(tools)) for (action, words), tools in alike.items()]


def _owner(tool: Tool) -> str:
    return f"{tool.source}:{tool.owner}:"


def _tool_words(tools: Sequence[Tool], sizes: Mapping[str, int]) -> str:
    """The tools by id; `mcp:files:*` stands for all tools of a server. Of many it is said how many more there are."""
    owners = Counter(map(_owner, tools))
    whole = {owner for owner, count in owners.items() if count == sizes[owner] > 1}
    names = dict.fromkeys(
        f"{_owner(one)}* ({owners[_owner(one)]:,})" if _owner(one) in whole else one.id for one in tools
    )
    shown = [*names][:_MOST_NAMES]
    more = len(names) - len(shown)
    number = f"{len(tools):,} tools: " if tools[1:] else ""
    return f"{number}{', '.join(shown)}{f' and {more:,} more' if more else ''}"


def _hints(tools: Sequence[Tool]) -> str:
    """The hints of these tools, each with the number of those that it is not said of by all."""
    counts = Counter(word for tool in tools for word in hint_words(tool.annotations))
    return ", ".join(word if count == len(tools) else f"{count:,} {word}" for word, count in counts.items())


def _rules_of(lines: Sequence[Line]) -> list[tuple[str, DescribedRule, int]]:
    """The rules that decide about some tool, each with its plugin and how many those are."""
    rules: dict[tuple[str, int], DescribedRule] = {}
    counts: Counter[tuple[str, int]] = Counter()
    for line in lines:
        for case in chain(*line.verdict.cases.values()):
            if case.rule and not line.withheld:
                rules[case.plugin, case.number] = case.rule
                counts[case.plugin, case.number] += 1
    return [(plugin, rules[plugin, number], counts[plugin, number]) for plugin, number in sorted(rules)]


def _view(catalog: Catalog, lines: Sequence[Line], profile: str | None) -> View:
    judges = catalog.judges
    rules, problems = _rules_of(lines), misspelt(judges, catalog.tools)
    view = View(
        {
            "profile": profile,
            "tools": [_entry(line) for line in lines],
            "rules": [
                {"plugin": plugin, "number": rule.number, "action": rule.action, "text": rule.words, "tools": count}
                for plugin, rule, count in rules
            ],
            "described": list(judges.described),
            "may_ask_or_block": [one.plugin for one in judges.others],
            "misspelt": problems,
            "shadow": list(judges.shadowed),
            "servers_down": list(catalog.servers_down),
        },
        indent=13,
    )
    if lines:
        view.table(("verdict", "tools", "decided by", "they say"), rows(lines, judges))
        view.markup()
    for plugin, rule, count in rules:
        name = f"{plugin} rule {rule.number}" if len(judges.described) > 1 else f"rule {rule.number}"
        view.line(name, f"{clip(' '.join(rule.words.split()), _RULE_CHARS)} ({counted(count, 'tool')})")
    view.lines("problem", problems)
    view.lines("note", [*_remarks(judges)])
    view.line("in all", f"{counted(len(lines), 'tool')}{_counts(lines)}")
    if not lines:
        view.line(
            "", "MCP servers are read from mcp.json here or given with --mcp FILE, other tools with --tools or --trace"
        )
    return view


def _entry(line: Line) -> dict[str, Any]:
    verdict = line.verdict
    return {
        "id": verdict.tool.id,
        "name": verdict.tool.name,
        "verdict": "depends" if verdict.depends else verdict.mildest,
        "actions": list(verdict.actions),
        "withheld": {"by": line.withheld[0], "reason": line.withheld[1]} if line.withheld else None,
        "annotations": asdict(verdict.tool.annotations),
        "cases": [
            {"plugin": case.plugin, "rule": case.number, "action": case.action, "for": case.whom, "if": case.conditions}
            for case in chain(*verdict.cases.values())
        ],
        "may_ask_or_block": list(line.others),
    }


def _remarks(judges: Judges) -> Iterator[str]:
    if not judges.described:
        yield "no plugin here describes its rules, so none asks or denies by rules: tool_policy is off unless configured"
    if everywhere := [one.plugin for one in judges.others if not one.patterns]:
        say = "says" if len(everywhere) == 1 else "say"
        yield f"{', '.join(everywhere)} may ask about any call or block it, and {say} not which"
    for plugin in judges.shadowed:
        yield f"{plugin} is in shadow mode, so what it says has no effect and is not in the table"


def _counts(lines: Sequence[Line]) -> str:
    kinds = Counter(_kind(line) for line in lines)
    words = {"allow": "unasked", "depends": "sometimes unasked", "ask": "asked about", "deny": "denied"}
    words["withheld"] = "withheld"
    told = [f"{kinds[kind]:,} {text}" for kind, text in words.items() if kinds[kind]]
    return f": {', '.join(told)}" if told else ""


def _kind(line: Line) -> str:
    if line.withheld:
        return "withheld"
    mildest = line.verdict.mildest
    return "depends" if line.verdict.depends and mildest == "allow" else mildest
