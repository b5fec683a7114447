"""`hooksdk policy check`: what the policies of a project say of one call, without running anything."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import anyio
import typer

from hooksdk import Annotations, Approval, Host, Run, Session, Tool, ToolCall, ToolResult
from hooksdk.cli._console import View, one_line, stderr_console, warnings_shown
from hooksdk.cli._given_tools import OwnTools, Traces, given_tools, with_others
from hooksdk.cli._options import Json, Plugins, Project, import_plugins
from hooksdk.cli._policy_calls import (
    CALL,
    CallFile,
    SeenCall,
    judge_call,
    judges_of,
    misspelt,
    schema_of_call,
    wanted_call,
)
from hooksdk.cli._policy_start import start
from hooksdk.cli._policy_table import table
from hooksdk.cli._project import open_host, open_servers, project_config
from hooksdk.cli._proofs.cedar import import_cedar
from hooksdk.cli._proofs.diff import diff
from hooksdk.cli._proofs.prove import prove
from hooksdk.errors import did_you_mean
from hooksdk.hooks import BeforeToolCall
from hooksdk.patterns import near_misses
from hooksdk.testing import ScriptedApprover

policy_app = typer.Typer(help="See what the policies say.", no_args_is_help=True)
policy_app.command("start")(start)
policy_app.command("table")(table)
policy_app.command("diff")(diff)
policy_app.command("import")(import_cedar)
policy_app.command("prove")(prove)
POLICY = "tool_policy"


@policy_app.command("check")
def check(
    call: Annotated[str, typer.Argument(metavar="TOOL|CALL.json")],
    words: Annotated[list[str] | None, typer.Argument(metavar="[KEY=VALUE]...")] = None,
    mcp: Annotated[list[Path] | None, typer.Option("--mcp", metavar="FILE")] = None,
    tools: OwnTools = None,
    trace: Traces = None,
    prompt: Annotated[str, typer.Option(metavar="TEXT")] = "",
    plugin: Plugins = None,
    as_json: Json = False,
    project: Project = Path(),
) -> None:
    """Say whether a call would be allowed here, by which rule and why. Nothing runs, and nobody is asked.

    hooksdk policy check delete_page path=index.html

    A file holds one call as a provider or MCP writes it, {"name": "delete_page", "arguments": {"path": "index.html"}},
    or with the key "tool" and more about the run. The code is 0 when the call would run at once. It is 1 when the call
    is blocked, withheld or asked about, or when a rule against such calls names an argument that the tool does not
    have, and 2 for a file that cannot be read.

    Options:
        call: A tool's name or id, such as mcp:github:create_issue; or a file with the call as JSON, - for stdin.
        words: The arguments of a tool that is named here.
        mcp: Servers that have the tool; by default the tool is what the call says of it.
        prompt: What the user wrote, for rules about where values come from.
    """
    document = wanted_call(call, words or [], project, has_schema=bool(mcp or tools))
    document = document.model_copy(update={"prompt": prompt or document.prompt})
    with warnings_shown():
        given = given_tools(tools, trace)
        answer = anyio.run(judge, document, project, tuple(mcp or ()), import_plugins(plugin), given)
    _view(answer).show(as_json=as_json)
    raise typer.Exit(0 if answer["verdict"] == "allow" and not answer["misspelt"] else 1)


@policy_app.command("attack")
def attack(
    targets: Annotated[Path, typer.Argument(metavar="TARGETS.toml")],
    cases: Annotated[list[Path] | None, typer.Option("--cases", metavar="FILE")] = None,
    mcp: Annotated[list[Path] | None, typer.Option("--mcp", metavar="FILE")] = None,
    plugin: Plugins = None,
    as_json: Json = False,
    project: Project = Path(),
) -> None:
    """Try known attacks on what the policies here deny, and list those that get through. Nothing runs, and nobody is
    asked.

    The code is 0 when none gets through and 1 when one does. It is 2 for a file that cannot be read, or a target of
    which nothing is allowed.

    Options:
        targets: Your tools, what they may and what they must not reach.
        cases: Attacks of your own beside hooksdk's; may be given several times.
        mcp: Servers that have the tools; by default the tools are what the file says.
    """
    from hooksdk.cli._attack import attack_policies, read_targets, view_of

    wanted, plugins = read_targets(targets), import_plugins(plugin)
    results = anyio.run(attack_policies, wanted, tuple(cases or ()), tuple(mcp or ()), project, plugins)
    view_of(results).show(as_json=as_json)
    raise typer.Exit(1 if any(one.through for one in results) else 0)


async def judge(
    document: CallFile, project: Path, mcp: Sequence[Path], plugins: Sequence[Any] = (), given: Sequence[Tool] = ()
) -> dict[str, Any]:
    """The gate's verdict on the call, and the rules of `tool_policy` behind it; `plugins` judge beside the project's
    own."""
    config = project_config(project)
    person = ScriptedApprover(Approval(False, "nobody is asked by this command", unanswered="not_asked"))
    async with AsyncExitStack() as stack:
        host = await open_host(stack, config, project, [*plugins, SeenCall], person)
        groups = await open_servers(host, mcp, stderr_console())
        session = await stack.enter_async_context(host.session())
        begun = session.run(document.prompt or None, workspace_dir=document.workspace_dir, **document.run_options)
        run = await stack.enter_async_context(begun)
        tools = with_others([tool for servers in groups for tool in servers.tools()], given, host.plugins)
        tool = _wanted(document, tools) or (None if mcp else await _plugins_tool(document, run))
        if tool is None and (mcp or given):
            names = [one.own_name for one in tools]
            who = "none of the tools given is named" if given else "none of the servers has a tool"
            raise typer.BadParameter(
                f"{who} '{document.tool}'.{did_you_mean(document.tool, names)}",
                param_hint=CALL,
            )
        as_written = tool is None
        if tool is None:
            tool = _written_tool(document)
            tools = [tool]
        await run.resolve_tools(tools)
        answer = await _judge(document, host, session, run, tool, person, as_written=as_written)
        guessing = as_written and document.parameters is None
        if guessing:  # what the call has is all that is known
            tool = tool.copy(parameters={"properties": {key: {} for key in document.arguments}})
        others = [one for one in (*tools, *run.tools, *run.offered) if one.id != tool.id]
        told = misspelt(judges_of(host.plugins, config), [tool, *others], tool, guessing=guessing)
        return {**answer, "misspelt": told}


async def _judge(
    document: CallFile,
    host: Host,
    session: Session,
    run: Run,
    tool: Tool,
    person: ScriptedApprover,
    *,
    as_written: bool,
) -> dict[str, Any]:
    granted = next((one for one in (*run.tools, *run.offered) if one.id == tool.id), None)
    name = tool.name if granted is None else granted.name
    call = ToolCall("check", name, document.arguments)
    judged = await judge_call(run, call)
    withheld = run.tools.withheld.get(name) if granted is None else None
    result: ToolResult | None = judged.result
    verdict = "allow"
    if withheld is not None:
        verdict = "withheld"
    elif person.requests:
        verdict = "ask"
    elif result is not None:
        verdict = "answered" if judged.status == "answered" else "block"
    return {
        "verdict": verdict,
        "tool": tool.id,
        "tool_as_written": as_written,
        "reason": withheld or ("" if result is None or person.requests else result.text),
        "questions": [
            {
                "plugin": one.plugin,
                "title": one.title,
                "description": one.description,
                "severity": one.severity,
                "evidence": [str(origin) for origin in one.evidence],
            }
            for one in person.requests
        ],
        "judges": [
            plugin.id
            for plugin in host.plugins
            if plugin.loaded and "before_tool_call" in plugin.hooks and plugin.id != SeenCall.plugin_id
        ],
        "near_misses": [
            {"plugin": plugin.id, "why": line}
            for plugin in host.plugins
            if plugin.loaded and verdict == "allow"
            for line in near_misses(plugin.tool_patterns.get("before_tool_call", ()), [granted or tool])
        ],
        POLICY: _explanation(session, run, granted or tool, call, document.arguments if withheld else judged.arguments),
    }


def _wanted(document: CallFile, tools: Sequence[Tool]) -> Tool | None:
    """The tool that the file means, among those that there are."""
    every_tool = {tool.id: tool for tool in tools}.values()  # one that is offered stands among the granted ones, too
    meant = [tool for tool in every_tool if document.tool == tool.own_name and document.owner in {"", tool.owner}]
    if len(meant) > 1:
        ids = ", ".join(tool.id for tool in meant)
        raise typer.BadParameter(f"several tools are named '{document.tool}': {ids}", param_hint=CALL)
    return meant[0] if meant else None


async def _plugins_tool(document: CallFile, run: Run) -> Tool | None:
    await run.resolve_tools([])
    return _wanted(document, [*run.tools, *run.offered])


def _written_tool(document: CallFile) -> Tool:
    """A tool that nobody has to start a server for. Its schema is what the call holds, unless the file says more."""
    return Tool(
        name=document.tool,
        source=document.source,
        owner=document.owner,
        annotations=Annotations(**document.annotations),
        parameters=document.parameters or schema_of_call(document.arguments),
    )


def _explanation(session: Session, run: Run, tool: Tool, call: ToolCall, arguments: Mapping[str, Any]) -> Any:
    """The rules behind the verdict of `tool_policy`; None where it is not loaded."""
    try:
        policy = session.plugin(POLICY)
    except KeyError:
        return None
    event = session.plugin(
        SeenCall.plugin_id
    ).event  # none for a call that nobody judged, such as one of a withheld tool
    event = event or BeforeToolCall(info=run.info, call=call, tool=tool, arguments=dict(arguments))
    return asdict(policy.explain(event))


_COLOURS = {"allow": "green", "ask": "yellow"}


def _view(answer: Mapping[str, Any]) -> View:
    view = View(answer, indent=13)

    def say(label: str, text: str) -> None:
        for line in text.splitlines() or [""]:
            view.line(label, line)
            label = ""

    verdict: str = answer["verdict"]
    view.line(verdict, answer["tool"], _COLOURS.get(verdict, "red"))
    if answer["reason"]:
        say("because", answer["reason"])
    for question in answer["questions"]:
        say("question", f"{question['title']} ({question['plugin']}, {question['severity']})")
        for origin in question["evidence"]:
            view.markup(f"{'':15}{one_line(origin)}")
    policy: dict[str, Any] | None = answer[POLICY]
    if policy is None:
        view.line(POLICY, "is not loaded here")
    else:
        _tell_rule(view, "decided by", policy["deciding"])
        for label, key in (("fits too", "also_fit"), ("does not fit", "do_not_fit"), ("near miss", "near_misses")):
            for rule in policy[key]:
                _tell_rule(view, label, rule)
    for one in answer["near_misses"]:
        view.line("near miss", f"plugin '{one['plugin']}', before_tool_call(tools=...): {one['why']}")
    view.lines("problem", answer["misspelt"])
    view.line("judged by", ", ".join(answer["judges"]) or "no plugin")
    if answer["tool_as_written"]:
        view.line("note", "the tool is taken as it is written here; with --mcp FILE its server's own schema counts")
    return view


def _tell_rule(view: View, label: str, rule: Mapping[str, Any] | None) -> None:
    if rule is None:
        view.line(label, "no rule of tool_policy is about this tool")
        return
    view.line(label, f"rule {rule['number']}: {rule['text']}" if rule["number"] else rule["text"])
    if rule["why"]:
        view.markup(f"{'':15}{one_line(rule['why'])}")
