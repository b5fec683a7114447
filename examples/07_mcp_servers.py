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
    from hooksdk.mcp import McpServers
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
        name = turn.result.json()["results"][0]["hits"][0]["name"]
        return call("tool_call", name=name, arguments={"repo_path": turn.prompt.split()[-1]})
    return next(line for line in turn.result.text.splitlines() if line.startswith("Message"))


def make_repository(folder: str) -> None:
    git = ["git", "-C", folder, "-c", "user.name=Ann", "-c", "user.email=ann@example.org"]
    subprocess.run([*git, "init", "-q"], check=True)
    subprocess.run([*git, "commit", "-q", "--allow-empty", "-m", "Begin with a test"], check=True)


async def main() -> None:
    settings: dict[str, object] = {"allow": [], "plugins": {"tool_search": {"config": {"enabled": "on"}}}}
    with tempfile.TemporaryDirectory() as folder:
        make_repository(folder)
        async with Host(plugins=[Watch], store=MemoryStore(), config=settings) as host, host.session("a") as session:
            servers = await host.enter(McpServers({"git": {"command": "mcp-server-git"}}, on_status=lambda _: None))
            if (git := servers.status["git"]).state != "up":
                sys.exit(f"This example needs mcp-server-git: {git.problem}")
            print(f"git: up, {git.tools} tools")
            done = await run_agent(session, ScriptedModel(script), f"What is new in {folder}", tools=servers.tools)
    print(f"{done.text} ({done.stats['tokens_offered']} of {done.stats['tokens_direct']} tokens of schemas shown)")


if __name__ == "__main__":
    anyio.run(main)
