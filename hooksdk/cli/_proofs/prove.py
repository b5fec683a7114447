"""`hooksdk policy prove`: whether properties hold of all calls, by the rules of the plugins that describe them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack, suppress
from dataclasses import asdict, dataclass, replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import anyio
import typer

from hooksdk import Config, Host, Tool
from hooksdk.cli._console import CommandProblem, View, stderr_console, warnings_shown
from hooksdk.cli._given_tools import OwnTools, Traces, given_tools, with_others
from hooksdk.cli._options import Json, Mcp, Plugins, Project, import_plugins
from hooksdk.cli._policy_calls import Judges, SeenCall, judges_of
from hooksdk.cli._project import open_host, open_servers, project_config
from hooksdk.cli._proofs.properties import PolicyConfig, Property, read_properties
from hooksdk.host import Plugin
from hooksdk.rules import CallClass, CallFact, Claim, Rules, is_about
from hooksdk.rules.verdicts import verdict_of
from hooksdk.testing import ScriptedApprover

if TYPE_CHECKING:
    from hooksdk.cli._proofs.real import Reality, Stage
    from hooksdk.mcp import McpServers
    from hooksdk.rules.proofs import Example, RuleOf

# Of calls that the rules seem to let through, as many are tried in the real plugins.
MOST_EXAMPLES = 20
# Of these, as many in the tools that there are.
MOST_HERE = 3
# The hooks of plugins that have a say in whether a call runs, and with what.
JUDGING = frozenset({"before_tool_call", "narrow_tools", "tool_call_start", "rewrite_tool_call"})


@dataclass(frozen=True, kw_only=True)
class Answer:
    """The outcome of proving one property.

    Attributes:
        status: `open`: the rules do not prove it, and no real call breaks it. `unknown`: the proof took too many steps.
        rests_on: The rules without which it would not hold.
        call: The call that breaks it, or that may.
        outcome: What became of that call.
        is_here: Of a call that breaks it, whether its tool is one of those here; None where no tools are known.
        why: What stands in the way of an answer.
        free: What the rules ask of calls that a proof knows nothing of, so that it may hold or not.
    """

    name: str
    claim: Claim
    status: Literal["holds", "broken", "open", "unknown"]
    rests_on: Sequence[str] = ()
    call: Mapping[str, Any] | None = None
    outcome: str = ""
    is_here: bool | None = None
    why: str = ""
    free: Sequence[str] = ()


@dataclass(frozen=True)
class Policies:
    """The plugins of a project that judge calls.

    Attributes:
        readers: The plugins that read a class of calls.
        silent: Plugins that have no say in a call, as all in shadow mode.
    """

    judges: Judges
    readers: Sequence[Plugin]
    silent: Sequence[str]

    @classmethod
    def of(cls, host: Host, config: Config) -> Policies:
        """The policies of the plugins that this host has loaded."""
        loaded = [plugin for plugin in host.plugins if plugin.loaded]
        judges = judges_of(loaded, config)
        silent = [plugin.id for plugin in loaded if JUDGING.isdisjoint(plugin.hooks)]
        readers = [plugin for plugin in loaded if hasattr(plugin.holder, "describe_calls")]
        return cls(judges, readers, [*silent, *judges.shadowed])

    def words(self, rule: RuleOf) -> str:
        """One of their rules for people."""
        rules = self.judges.described[rule.plugin]
        if not rule.number:
            return f'{rule.plugin} default = "{rules.default}"'
        return (
            f"{rule.plugin} rule {rule.number}: {next(one.words for one in rules.rules if one.number == rule.number)}"
        )

    def doubtful(self, tools: Sequence[Tool], calls: CallClass, claim: Claim) -> list[Tool]:
        """Those of the tools with calls of this class of which the rules may say what breaks the claim. A plugin's own tools
        are left out: they would really run."""
        keeps = {"never": {"deny"}, "only_asked": {"ask", "deny"}, "always_asked": {"ask"}}[claim]
        about = [tool for tool in tools if tool.source != "plugin" and is_about(calls.facts, tool)]
        return [tool for tool in about if not keeps.issuperset(verdict_of(tool, self.judges.described).actions)]

    def read(self, name: str, calls: Mapping[str, Any]) -> CallClass:
        """A class of calls in facts. Raises `CommandProblem`."""
        if not self.readers:
            raise CommandProblem(
                "no plugin here describes rules, so there is nothing to prove; switch tool_policy on: "
                "`hooksdk plugins enable tool_policy`, or [plugins.tool_policy.config] in hooksdk.toml"
            )
        reader = self.readers[0]
        try:
            return reader.holder.describe_calls(reader.config, calls)
        except ValueError as error:
            raise CommandProblem(f"property '{name}': {str(error).removeprefix('rule 1: ')}") from None


async def prove_all(
    properties: Mapping[str, Property],
    config: Config,
    project: Path,
    plugins: Sequence[Any] = (),
    tools: Sequence[Tool] = (),
    mcp: Sequence[Path] | None = None,
) -> list[Answer]:
    """Each property's answer. A call of one of `tools` is looked for before one of a tool that there could be; so is one of
    the servers of these files, by default the project's, which start once a property seems to be broken. With None no
    server does. Raises `CommandProblem` for a class that cannot be read, and without Z3."""
    policies = Policies.of(Host(plugins, config=config, folder=project), config)
    classes = {name: policies.read(name, one.calls) for name, one in properties.items()}
    try:
        from hooksdk.cli._proofs.real import Stage
        from hooksdk.rules.proofs import Search, Unknown
    except ModuleNotFoundError as error:
        raise CommandProblem(f"proofs need {error.name}: pip install 'hooksdk[prove]'") from None
    # Plugins without a say in calls are left out: one that keeps records would record calls that nobody made.
    judging = config.model_copy(update={"deny": [*config.deny, *policies.silent]})
    async with AsyncExitStack() as stack:
        stage: Stage | None = None

        async def real(example: Example, calls: CallClass, claim: Claim, *, here: bool) -> Reality | None:
            nonlocal stage
            if stage is None:
                person = ScriptedApprover(True)
                host = await open_host(stack, judging, project, [*plugins, SeenCall], person)
                groups: list[McpServers] = []
                with suppress(CommandProblem):  # what keeps a server from starting is told
                    groups = [] if mcp is None else await open_servers(host, mcp, stderr_console(), project=project)
                there = with_others([tool for servers in groups for tool in servers.tools()], tools)
                stage = Stage(host, person, there)
            return await stage.play(
                example, calls, claim, policies.doubtful(stage.tools, calls, claim) if here else None
            )

        async def answer(name: str, claim: Claim, *, untrusted_project: bool) -> Answer:
            calls = classes[name]
            search = Search(policies.judges.described, calls, claim, untrusted_project=untrusted_project)
            unknown = Answer(name=name, claim=claim, status="unknown", free=_free(policies.judges.described, calls))
            first: Example | None = None
            try:
                for number, example in enumerate(islice(search.examples(), MOST_EXAMPLES)):
                    first = first or example
                    reality = await real(example, calls, claim, here=True) if number < MOST_HERE else None
                    if reality := reality or await real(example, calls, claim, here=False):
                        outcome = f"{reality.outcome}: {reality.reason}" if reality.reason else reality.outcome
                        told = replace(unknown, outcome=outcome, is_here=reality.is_here)
                        return replace(told, status="broken", call={**shown(example), **reality.call})
                if first is None:
                    return replace(unknown, status="holds", rests_on=[policies.words(one) for one in search.rests_on()])
            except Unknown as error:
                return replace(unknown, why=str(error), call=None if first is None else shown(first))
            return replace(
                unknown,
                status="open",
                call=shown(first),
                why=_why_open([judge.plugin for judge in policies.judges.others]),
            )

        return [
            await answer(name, one.claim, untrusted_project=one.untrusted_project) for name, one in properties.items()
        ]


def _why_open(others: Sequence[str]) -> str:
    stops = f", or one of {', '.join(others)} stops it" if others else ""
    return f"by the rules such a call may get through, and none could be made that does: more counts than the rules say{stops}"


def _free(described: Mapping[str, Rules], calls: CallClass) -> list[str]:
    facts = [fact for rules in described.values() for rule in rules.rules for fact in rule.facts]
    return sorted({fact.in_words() for fact in (*facts, *calls.facts) if isinstance(fact, CallFact)})


def shown(example: Example) -> dict[str, Any]:
    """The call of an example as a document; what is as usual is left out."""
    return {
        "tool": f"{example.source}:{example.owner}:{example.own_name}",
        "name": example.name,
        "annotations": dict(example.annotations),
        "agents": list(example.agents),
        "triggers": list(example.triggers),
        "workspace_dir": example.workspace_dir,
        "requester": example.requester,
        "facts": sorted(fact.in_words() for fact, holds in example.facts.items() if holds),
    }


def prove(
    file: Annotated[Path | None, typer.Argument(metavar="[FILE]")] = None,
    mcp: Mcp = None,
    tools: OwnTools = None,
    trace: Traces = None,
    plugin: Plugins = None,
    as_json: Json = False,
    project: Project = Path(),
) -> None:
    """Prove of all calls that none of some kind runs, or that none runs unasked, by the rules here; or show a call that
    does.

    Properties stand in `policy.properties.NAME` of hooksdk.toml. Each has never, only_asked or always_asked, with a
    class of calls that is written as a rule is. The code is 0 where all hold, 1 where one is broken, open or unknown, 2
    for a file that cannot be read.

    Options:
        file: A TOML file with `policy.properties`; without it the configuration's count.
    """
    plugins = import_plugins(plugin)
    with warnings_shown():
        config = project_config(project)
        properties = read_properties(file) if file else PolicyConfig.model_validate(config.policy).properties
        if not properties:
            raise CommandProblem(
                "there is nothing to prove: write [policy.properties.NAME] in hooksdk.toml, "
                "with never = { tools = 'delete_*', triggers = 'schedule' }"
            )
        given = given_tools(tools, trace)
        answers = anyio.run(prove_all, properties, config, project, plugins, given, tuple(mcp or ()))
    view = View({"properties": [asdict(one) for one in answers]}, indent=13)
    for one in answers:
        _tell(view, one)
    view.show(as_json=as_json)
    raise typer.Exit(0 if all(one.status == "holds" for one in answers) else 1)


CLAIM_WORDS: Mapping[Claim, str] = {
    "never": "no such call runs",
    "only_asked": "no such call runs unless a person was asked",
    "always_asked": "a person is asked about each such call",
}
_COLOURS = {"holds": "green", "broken": "red"}


def _tell(view: View, answer: Answer) -> None:
    view.line(answer.status, answer.name, _COLOURS.get(answer.status, "yellow"))
    view.line("", CLAIM_WORDS[answer.claim])
    view.lines("rests on", answer.rests_on)
    if answer.call is not None:
        for label, text in call_lines(answer.call):
            view.line(label, text)
        if answer.outcome:
            view.line("then", {"ran": "it ran, and nobody was asked"}.get(answer.outcome, answer.outcome))
    if answer.is_here is False:
        view.line("note", "none of the tools here was found to do that; a tool like this one would")
    if answer.why:
        view.line("because", answer.why)
    if answer.free and answer.status != "broken":
        view.line("left free", "; ".join(answer.free))


def call_lines(call: Mapping[str, Any]) -> list[tuple[str, str]]:
    """A call for people, each line with its label."""
    said = [f"{name} = {str(value).lower()}" for name, value in call["annotations"].items()]
    named = f", seen as {call['name']}" if not call["tool"].endswith(f":{call['name']}") else ""
    lines = [("the call", f"{call['tool']}{named}" + (f", which says {', '.join(said)}" if said else ""))]
    run = [
        *([f"agents {' > '.join(call['agents'])}"] if call["agents"] != ["main"] else []),
        *([f"begun by {' and '.join(call['triggers'])}"] if call["triggers"] != ["user"] else []),
        *([f"in {call['workspace_dir']}"] if call["workspace_dir"] else []),
        *([f"for {call['requester']}"] if call["requester"] else []),
    ]
    lines += [("in a run", ", ".join(run))] if run else []
    lines += [("with", str(call["arguments"]))] if call.get("arguments") else []
    return lines + [("where", fact) for fact in call["facts"]]
