"""`hooksdk tools call`: one call of one tool, through every plugin of the project, as a model's call would go."""

from __future__ import annotations

import json
import sys
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
import typer

from hooksdk import ToolCall, ToolResult, schema
from hooksdk.cli._console import counted, one_line, print_json, print_line, printable, stderr_console, warnings_shown
from hooksdk.cli._options import key_values
from hooksdk.cli._project import open_host, open_servers, project_config
from hooksdk.cli._run.approver import approver_of
from hooksdk.formats import get_format

_NOT_RUN = {"invalid": ("not run", "wrong arguments for "), "unknown": ("not run", "there is no tool ")}


@dataclass(frozen=True)
class Wish:
    """What the command line asks for."""

    name: str
    arguments: str | dict[str, str]
    """As they were written: the run reads and repairs them as it does a model's."""
    mcp: tuple[Path, ...]
    plugins: tuple[Any, ...]
    approve: bool | None
    project: Path


def read_arguments(words: list[str]) -> str | dict[str, str]:
    """Raises a usage error for a word that is neither, and for JSON that cannot be read: before any server is started."""
    if words == ["-"] or (len(words) == 1 and words[0].lstrip().startswith("{")):
        text = sys.stdin.read() if words == ["-"] else words[0]
        try:
            schema.parse_arguments(text)
        except schema.BadArguments as error:
            raise typer.BadParameter(printable(str(error)), param_hint="ARGUMENTS") from None
        return text
    return key_values(words)


def call_once(wish: Wish, *, as_json: bool) -> int:
    """Make the call, print its result, and answer the exit code: 1 for an error, whoever's it is."""
    with warnings_shown(stderr_console()):
        status, tool_id, result = anyio.run(_call, wish)
    if as_json:
        document = {"schema": 1, "tool": tool_id, "status": status, "is_error": result.is_error}
        print_json({**document, "text": result.text, "blocks": result.blocks, "structured": result.structured})
    else:
        _print(result)
        if status != "ok":
            label, what = _NOT_RUN.get(status, (one_line(status), "the call of "))
            print_line(stderr_console(), f"[yellow]{label}[/]", f"{what}{one_line(tool_id or wish.name)}")
    return 1 if result.is_error else 0


async def _call(wish: Wish) -> tuple[str, str, ToolResult]:
    """The call's status, the tool's id (empty for an unknown one) and the result."""
    config = project_config(wish.project)
    async with AsyncExitStack() as stack:
        host = await open_host(stack, config, wish.project, wish.plugins, approver_of(wish.approve), records=True)
        # An id names its server, so no other one is waited for.
        source, _, owner = wish.name.rpartition(":")[0].partition(":")
        only = owner if source == "mcp" else ""
        groups = await open_servers(host, wish.mcp, stderr_console(), project=wish.project, only=only)
        session = await stack.enter_async_context(host.session())
        run = await stack.enter_async_context(session.run(workspace_dir=str(wish.project.resolve())))
        await run.resolve_tools([tool for servers in groups for tool in servers.tools()])
        call = ToolCall("call", wish.name, wish.arguments)
        await run.record(get_format("openai-chat").reply("", [call]))
        judged = await run.judge(call)
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
