"""Tools of a real MCP server, found by tool search and called through its bridge."""

from __future__ import annotations

import subprocess
import sys
import tempfile

import anyio

from hooksdk import Host, MemoryStore, hooks
from hooksdk.agent import run_agent
from hooksdk.hooks import AfterToolCall
from hooksdk.testing import Call, ScriptedModel, Turn, call

try:
    from hooksdk.adapters.mcp import McpServers
except ModuleNotFoundError as error:
    sys.exit(f"This example needs {error.name}: pip install 'hooksdk[mcp]' mcp-server-git")


class Watch:
    """Print each call under its real name, whatever way it came."""

    @hooks.after_tool_call
    async def show(self, event: AfterToolCall) -> None:
        print(f"  {event.call.name}: {event.status}, asked for by the {event.call.origin}")


def script(turn: Turn) -> Call | str:
    """Stands in for a model: search, call what was found, read the answer."""
    if turn.number == 1:
        return call("tool_search", queries=["show the commit log of a git repository"])
    if turn.number == 2:
        found = turn.result.json()["results"][0]["hits"][0]["name"]
        return call("tool_call", name=found, arguments={"repo_path": turn.prompt.split()[-1]})
    return next(line for line in turn.result.text.splitlines() if line.startswith("Message"))


def make_repository(folder: str) -> None:
    person = ["-c", "user.name=Ann", "-c", "user.email=ann@example.org"]
    for command in (["init", "-q"], [*person, "commit", "-q", "--allow-empty", "-m", "Begin with a test"]):
        subprocess.run(["git", "-C", folder, *command], check=True)


async def main() -> None:
    search = {"plugins": {"tool_search": {"config": {"enabled": "on"}}}}
    with tempfile.TemporaryDirectory() as folder:
        make_repository(folder)
        async with Host(plugins=[Watch], store=MemoryStore(), config=search) as host:
            servers = await host.enter(McpServers({"git": {"command": "mcp-server-git"}}))
            print(f"git: {servers.status['git'].state}, {servers.status['git'].tools} tools")
            async with host.session("example") as session:
                prompt = f"What happened last in {folder}"
                outcome = await run_agent(session, ScriptedModel(script), prompt, tools=servers.tools)
    print(outcome.text)


if __name__ == "__main__":
    anyio.run(main)
