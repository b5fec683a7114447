"""`hooksdk tools call`: one call of one tool, through every plugin of the project, as a model's call would go."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Annotated, Any

import anyio
import typer

from hooksdk import ToolCall, ToolResult, schema
from hooksdk.approvals import Approver
from hooksdk.cli._console import counted, one_line, print_json, print_line, printable, stderr_console, warnings_shown
from hooksdk.cli._options import Json, Mcp, Plugins, Project, import_plugins, key_values
from hooksdk.cli._policy_calls import judge_call
from hooksdk.cli._project import open_host, open_servers, project_config
from hooksdk.cli._run.approver import approver_of

_NOT_RUN = {"invalid": ("not run", "wrong arguments for "), "unknown": ("not run", "there is no tool ")}


def call_tool(
    name: Annotated[str, typer.Argument(metavar="NAME")],
    arguments: Annotated[list[str] | None, typer.Argument(metavar="[KEY=VALUE]...")] = None,
    mcp: Mcp = None,
    plugin: Plugins = None,
    approve: Annotated[bool | None, typer.Option("--yes/--ask")] = None,
    as_json: Json = False,
    project: Project = Path(),
) -> None:
    """Call one tool here as a model would: judged by the project's plugins, its arguments checked. Nothing is kept.

    The code is 1 when the result is an error, whoever's it is.

    Options:
        name: The tool, as `hooksdk tools list` names it.
        arguments: The arguments: KEY=VALUE each, or one JSON object; - reads it from stdin.
        approve: Grant every approval, or ask on stdin; by default only a terminal is asked.
    """
    call = ToolCall("call", name, _read_arguments(arguments or []))
    with warnings_shown(stderr_console()):
        approver = approver_of(approve)
        status, tool_id, result = anyio.run(_call, call, tuple(mcp or ()), import_plugins(plugin), approver, project)
    if as_json:
        document = {"schema": 1, "tool": tool_id, "status": status, "is_error": result.is_error}
        print_json({**document, "text": result.text, "blocks": result.blocks, "structured": result.structured})
    else:
        _print(result)
        if status != "ok":
            label, what = _NOT_RUN.get(status, (one_line(status), "the call of "))
            print_line(stderr_console(), f"[yellow]{label}[/]", f"{what}{one_line(tool_id or name)}")
    raise typer.Exit(1 if result.is_error else 0)


def _read_arguments(words: list[str]) -> str | dict[str, str]:
    """The arguments as they were typed. A usage error for bad JSON or no KEY=VALUE comes before any server is
    started."""
    if words == ["-"] or (len(words) == 1 and words[0].lstrip().startswith("{")):
        text = sys.stdin.read() if words == ["-"] else words[0]
        try:
            schema.parse_arguments(text)
        except schema.BadArguments as error:
            raise typer.BadParameter(printable(str(error)), param_hint="ARGUMENTS") from None
        return text
    return key_values(words)


async def _call(
    call: ToolCall, mcp: Sequence[Path], plugins: Sequence[Any], approver: Approver, project: Path
) -> tuple[str, str, ToolResult]:
    """The call's status, the tool's id (empty for an unknown one) and the result."""
    async with AsyncExitStack() as stack:
        host = await open_host(stack, project_config(project), project, plugins, approver, records=True)
        # An id names its server, so no other one is waited for.
        source, _, owner = call.name.rpartition(":")[0].partition(":")
        only = owner if source == "mcp" else ""
        groups = await open_servers(host, mcp, stderr_console(), project=project, only=only)
        session = await stack.enter_async_context(host.session())
        run = await stack.enter_async_context(session.run(workspace_dir=str(await anyio.Path(project).resolve())))
        await run.resolve_tools([tool for servers in groups for tool in servers.tools()])
        judged = await judge_call(run, call)
        result = judged.result or await judged.execute()
        return str(judged.status), judged.tool.id if judged.tool else "", result


def _print(result: ToolResult) -> None:
    """The text for people and pipes, a line for what is none."""
    if result.text:
        print(printable(result.text) if sys.stdout.isatty() else result.text)
    elif result.structured is not None:
        print(json.dumps(result.structured, indent=2))
    for block in result.blocks:
        if block.get("type") != "text":
            size = counted(len(str(block.get("data", ""))), "character")
            kind = one_line(block.get("mimeType") or block.get("uri") or "")
            print_line(stderr_console(), one_line(block.get("type", "content")), f"{kind} {size} (--json prints it)")
