"""`hooksdk tools audit`: what `catalog_audit` says of the tools here, and the approval of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Annotated, Any

import anyio
import typer

from hooksdk import Config, Host, Tool
from hooksdk.cli._console import CommandProblem, View, counted, one_line, stderr_console, warnings_shown
from hooksdk.cli._options import Json, Mcp, Plugins, Project, import_plugins
from hooksdk.cli._project import ThrowawayStore, open_servers, project_config, without_records
from hooksdk.config import PluginConfig, fold
from hooksdk.errors import did_you_mean
from hooksdk.stores import Store, open_store

AUDIT = "catalog_audit"


def audit(
    mcp: Mcp = None,
    plugin: Plugins = None,
    approve: Annotated[list[str] | None, typer.Option(metavar="NAME")] = None,
    approve_all: Annotated[bool, typer.Option("--approve-all")] = False,
    as_json: Json = False,
    project: Project = Path(),
) -> None:
    """Report tools that changed, look like others or hold hidden text, and approve those that are right.

    The code is 1 when something is reported.

    Options:
        approve: Approve a tool as it is now, by name or id; may be given several times.
        approve_all: Approve every tool as it is now.
    """
    wanted = None if approve_all else tuple(approve or ())
    with warnings_shown():
        answer = anyio.run(_audit, project, tuple(mcp or ()), import_plugins(plugin), wanted)
    _view(answer).show(as_json=as_json)
    raise typer.Exit(1 if answer["tools"] or answer["servers_down"] else 0)


async def _audit(
    project: Path, mcp: Sequence[Path], plugins: Sequence[Any], approve: Sequence[str] | None
) -> dict[str, Any]:
    """Review the tools after approving those that `approve` names; None approves all of them."""
    config = project_config(project)
    async with AsyncExitStack() as stack:
        stored = open_store(config.store, config.sessions)
        store = ThrowawayStore(stored)
        stack.push_async_callback(store.aclose)
        # The audit itself is off where the tools are looked for, so that nothing is recorded on the way.
        others = {name: one for name, one in config.plugins.items() if fold(name) != AUDIT}
        without = without_records(config.model_copy(update={"plugins": others, "deny": [*config.deny, AUDIT]}))
        host = await stack.enter_async_context(Host(plugins, store=store, config=without, folder=project))
        tools, servers_down = await _tools(stack, host, mcp, project)
        section = config.plugin(AUDIT) or PluginConfig()
        only = Config.model_validate({"allow": [AUDIT], "plugins": {AUDIT: {"config": section.config}}})
        host = await stack.enter_async_context(Host(store=store, config=only, folder=project))
        session = await stack.enter_async_context(host.session())
        audit = session.plugin(AUDIT)
        approved = tools if approve is None else _wanted(tools, approve)
        if approved:
            await audit.approve(approved)
            await _keep(store, stored)
        reviews = await audit.review(tools)
        return {
            "audited": len(reviews),
            "configured": config.plugin(AUDIT) is not None,
            "durable": config.store != "memory",
            "servers_down": servers_down,
            "approved": [tool.id for tool in approved],
            "unseen": sum(review.record is None for review in reviews),
            "tools": [entry for entry in map(_entry, reviews) if entry["findings"]],
        }


async def _tools(stack: AsyncExitStack, host: Host, mcp: Sequence[Path], project: Path) -> tuple[list[Tool], list[str]]:
    """The tools of the servers and of the plugins, and the servers that could not be started."""
    groups = await open_servers(host, mcp, stderr_console(), project=project)
    session = await stack.enter_async_context(host.session())
    tools = [tool for servers in groups for tool in servers.tools()]
    async with session.run(workspace_dir=str(await anyio.Path(project).resolve())) as run:
        await run.resolve_tools([])
        tools += run.tools
    return tools, [name for servers in groups for name, one in servers.status.items() if one.failed]


def _wanted(tools: Sequence[Tool], names: Sequence[str]) -> list[Tool]:
    """The tools of these names or ids. Raises `CommandProblem` for a name that none or several have."""
    wanted: list[Tool] = []
    for name in names:
        meant = [tool for tool in tools if name in {tool.id, tool.own_name}]
        if len(meant) > 1:
            raise CommandProblem(
                f"several tools are named '{name}'; write one of {', '.join(tool.id for tool in meant)}"
            )
        if not meant:
            advice = did_you_mean(name, [text for tool in tools for text in (tool.id, tool.own_name)])
            raise CommandProblem(f"there is no tool '{name}' here, so nothing is approved.{advice}")
        wanted += meant
    return wanted


async def _keep(changed: ThrowawayStore, stored: Store) -> None:
    """Write the records with the approvals into the store; all else that the command did is thrown away."""
    for owner in await changed.list_keys(AUDIT):
        records = await changed.get_value(AUDIT, owner)
        if records != await stored.get_value(AUDIT, owner):
            await stored.set_value(AUDIT, owner, records)


def _entry(review: Any) -> dict[str, Any]:
    findings = [
        {"kind": one.kind, "action": one.action, "details": list(one.details)}
        for one in review.findings
        if one.action != "accept"
    ]
    return {"id": review.tool.id, "fingerprint": review.fingerprint, "withheld": review.withheld, "findings": findings}


_WORDS = {
    "changed": "has changed since it was recorded",
    "new": "was never seen before",
    "lookalike": "has a name that looks like another's",
    "hidden_text": "holds text that people do not see",
    "instructions": "holds what looks like orders to the model",
}


def _view(answer: Mapping[str, Any]) -> View:
    view = View(answer, indent=10)
    tools: list[dict[str, Any]] = answer["tools"]
    for tool in tools:
        word, style = ("withheld", "red") if tool["withheld"] else ("reported", "yellow")
        view.markup(f"[{style}]{word}[/]  {one_line(tool['id'])}  {tool['fingerprint']}")
        for finding in tool["findings"]:
            details = f": {', '.join(finding['details'])}" if finding["details"] else ""
            view.line("", _WORDS[finding["kind"]] + details)
    view.lines("approved", answer["approved"], "green")
    unseen = f", {answer['unseen']} never seen before" if answer["unseen"] else ""
    view.line("in all", f"{counted(answer['audited'], 'tool')}{unseen}; {len(tools)} to look at")
    if tools:
        view.line("", "what is right is approved with --approve NAME, or --approve-all")
    if answer["approved"] and not answer["durable"]:
        view.line("note", "the store is in memory, so the approvals end with this command", "yellow")
    if not answer["configured"]:
        view.line("note", "the audit is off here: hooksdk plugins enable catalog_audit", "yellow")
    return view
