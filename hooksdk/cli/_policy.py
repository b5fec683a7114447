"""`hooksdk policy check`: what the policies of a project say of one call, without running anything."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any

import anyio
import typer

from hooksdk import Annotations, Approval, ApprovalRequest, Host, Run, Session, Tool, ToolCall, ToolResult
from hooksdk.cli._console import print_json, safe, stderr_console, stdout_console, warnings_shown
from hooksdk.cli._options import Json, Plugins, Project, import_plugins
from hooksdk.cli._policy_calls import CALL, CallFile, SeenCall, schema_of_call, wanted_call
from hooksdk.cli._policy_rules import judges_of, misspelt
from hooksdk.cli._policy_start import start
from hooksdk.cli._policy_table import table
from hooksdk.cli._project import open_host, open_servers, project_config
from hooksdk.cli._proofs.cedar import import_cedar
from hooksdk.cli._proofs.diff import diff
from hooksdk.cli._proofs.prove import prove
from hooksdk.errors import did_you_mean
from hooksdk.formats import get_format
from hooksdk.hooks import BeforeToolCall
from hooksdk.patterns import near_misses

policy_app = typer.Typer(help="See what the policies say.", no_args_is_help=True)
policy_app.command("start")(start)
policy_app.command("table")(table)
policy_app.command("diff")(diff)
policy_app.command("import")(import_cedar)
policy_app.command("prove")(prove)
POLICY = "tool_policy"


@policy_app.command("check")
def check(
    call: Annotated[
        str,
        typer.Argument(
            metavar="TOOL|CALL.json",
            help="A tool's name or id, such as mcp:github:create_issue; or a file with the call as JSON, - for stdin.",
        ),
    ],
    words: Annotated[
        list[str] | None, typer.Argument(metavar="[KEY=VALUE]...", help="The arguments of a tool that is named here.")
    ] = None,
    mcp: Annotated[
        list[Path] | None,
        typer.Option(
            "--mcp", metavar="FILE", help="Servers that have the tool; without them it is taken as it is written here."
        ),
    ] = None,
    prompt: Annotated[
        str, typer.Option(metavar="TEXT", help="What the user wrote, for rules about where values come from.")
    ] = "",
    plugin: Plugins = None,
    as_json: Json = False,
    project: Project = Path(),
) -> None:
    """Say whether a call would be allowed here, by which rule and why. Nothing runs, and nobody is asked.

    hooksdk policy check delete_page path=index.html

    A file holds one call as a provider or MCP writes it, {"name": "delete_page", "arguments": {"path": "index.html"}}, or with
    the key "tool" and more about the run. The code is 0 when the call would run at once, 1 when it is blocked, withheld or asked
    about, or when a rule against such calls names an argument that the tool does not have, 2 for a file that cannot be read.
    """
    document = wanted_call(call, words or [], project, has_schema=bool(mcp))
    document = document.model_copy(update={"prompt": prompt or document.prompt})
    with warnings_shown(stderr_console()):
        answer = anyio.run(judge, document, project, tuple(mcp or ()), import_plugins(plugin))
    if as_json:
        print_json(answer)
    else:
        _print(answer)
    raise typer.Exit(0 if answer["verdict"] == "allow" and not answer["misspelt"] else 1)


@policy_app.command("attack")
def attack(
    targets: Annotated[
        Path, typer.Argument(metavar="TARGETS.toml", help="Your tools, what they may and what they must not reach.")
    ],
    cases: Annotated[
        list[Path] | None,
        typer.Option(
            "--cases", metavar="FILE", help="Attacks of your own beside hooksdk's; may be given several times."
        ),
    ] = None,
    mcp: Annotated[
        list[Path] | None,
        typer.Option(
            "--mcp", metavar="FILE", help="Servers that have the tools; without them they are taken as written."
        ),
    ] = None,
    plugin: Plugins = None,
    as_json: Json = False,
    project: Project = Path(),
) -> None:
    """Try known attacks on what the policies here deny, and list those that get through. Nothing runs, and nobody is asked.

    The code is 0 when none gets through, 1 when one does, 2 for a file that cannot be read or a target of which nothing is allowed.
    """
    from hooksdk.cli._attack import attack_policies, print_results, read_targets

    wanted, plugins = read_targets(targets), import_plugins(plugin)
    results = anyio.run(attack_policies, wanted, tuple(cases or ()), tuple(mcp or ()), project, plugins)
    if as_json:
        print_json({"schema": 1, "targets": [one.as_dict() for one in results]})
    else:
        print_results(results)
    raise typer.Exit(1 if any(one.through for one in results) else 0)


@dataclass
class _Nobody:
    """Stands where a person would be asked, and says no."""

    requests: list[ApprovalRequest]

    async def __call__(self, request: ApprovalRequest) -> Approval:
        self.requests.append(request)
        return Approval(False, "nobody is asked by this command", unanswered="not_asked")


async def judge(document: CallFile, project: Path, mcp: Sequence[Path], plugins: Sequence[Any] = ()) -> dict[str, Any]:
    """The gate's verdict on the call, and what `tool_policy` goes by; `plugins` are modules and classes beside the project's."""
    config = project_config(project)
    person = _Nobody([])
    async with AsyncExitStack() as stack:
        host = await open_host(stack, config, project, [*plugins, SeenCall], person)
        groups = await open_servers(host, mcp, stderr_console())
        session = await stack.enter_async_context(host.session())
        run = await stack.enter_async_context(
            session.run(
                document.prompt or None,
                agent_id=document.agent_id,
                trigger=document.trigger,
                requester=document.requester,
                workspace_dir=document.workspace_dir,
            )
        )
        tools = [tool for servers in groups for tool in servers.tools()]
        tool = _wanted(document, tools) or (None if mcp else await _plugins_tool(document, run))
        if tool is None and mcp:
            names = [one.own_name for one in tools]
            raise typer.BadParameter(
                f"none of the servers has a tool '{document.tool}'.{did_you_mean(document.tool, names)}",
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
    document: CallFile, host: Host, session: Session, run: Run, tool: Tool, person: _Nobody, *, as_written: bool
) -> dict[str, Any]:
    granted = next((one for one in (*run.tools, *run.offered) if one.id == tool.id), None)
    name = tool.name if granted is None else granted.name
    call = ToolCall("check", name, document.arguments)
    await run.record(get_format("openai-chat").reply("", [call]))
    judged = await run.judge(call)
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
        "schema": 1, "verdict": verdict, "tool": tool.id, "tool_as_written": as_written,
        "reason": withheld or ("" if result is None or person.requests else result.text),
        "questions": [
            {"plugin": one.plugin, "title": one.title, "description": one.description, "severity": one.severity,
             "evidence": [str(origin) for origin in one.evidence]}
            for one in person.requests
        ],
        "judges": [plugin.id for plugin in host.plugins if plugin.loaded and "before_tool_call" in plugin.hooks and plugin.id != SeenCall.plugin_id],
        "near_misses": [
            {"plugin": plugin.id, "why": line}
            for plugin in host.plugins
            if plugin.loaded and verdict == "allow"
            for line in near_misses(plugin.tool_patterns.get("before_tool_call", ()), [granted or tool])
        ],
        POLICY: _explanation(session, run, granted or tool, call, document.arguments if withheld else judged.arguments),
    }  # fmt: skip


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
        name=document.tool, source=document.source, owner=document.owner, annotations=Annotations(**document.annotations),
        parameters=document.parameters or schema_of_call(document.arguments),
    )  # fmt: skip


def _explanation(session: Session, run: Run, tool: Tool, call: ToolCall, arguments: Mapping[str, Any]) -> Any:
    """What `tool_policy` goes by; None where it is not loaded."""
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


def _print(answer: Mapping[str, Any]) -> None:
    console = stdout_console()

    def say(label: str, text: object) -> None:
        for at, line in enumerate(str(text).splitlines() or [""]):
            console.print(f"{label if at == 0 else '':<13}{safe(line)}", soft_wrap=True)

    verdict: str = answer["verdict"]
    console.print(f"[{_COLOURS.get(verdict, 'red')}]{verdict:<13}[/]{safe(answer['tool'])}", soft_wrap=True)
    if answer["reason"]:
        say("because", answer["reason"])
    for question in answer["questions"]:
        say("question", f"{question['title']} ({question['plugin']}, {question['severity']})")
        for origin in question["evidence"]:
            say("", f"  {origin}")
    policy: dict[str, Any] | None = answer[POLICY]
    if policy is None:
        say(POLICY, "is not loaded here")
    else:
        _print_rule(say, "decided by", policy["deciding"])
        for rule in policy["also_fit"]:
            _print_rule(say, "fits too", rule)
        for rule in policy["do_not_fit"]:
            _print_rule(say, "does not fit", rule)
        for rule in policy["near_misses"]:
            _print_rule(say, "near miss", rule)
    for one in answer["near_misses"]:
        say("near miss", f"plugin '{one['plugin']}', before_tool_call(tools=...): {one['why']}")
    for text in answer["misspelt"]:
        say("problem", text)
    say("judged by", ", ".join(answer["judges"]) or "no plugin")
    if answer["tool_as_written"]:
        say("note", "the tool is taken as it is written here; with --mcp FILE its server's own schema counts")


def _print_rule(say: Any, label: str, rule: Mapping[str, Any] | None) -> None:
    if rule is None:
        say(label, "no rule of tool_policy is about this tool")
        return
    say(label, f"rule {rule['number']}: {rule['text']}" if rule["number"] else rule["text"])
    if rule["why"]:
        say("", f"  {rule['why']}")
