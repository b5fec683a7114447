"""Log every tool that a run may use: name, label and parameter names, once per run.

The plugin is this module: a function with a hook's decorator is all it takes.
"""

from __future__ import annotations

import sys

import anyio

from hooksdk import Host, MemoryStore, Tool, hooks, tool
from hooksdk.hooks import AfterToolsResolved

plugin_id = "log_catalog"


@hooks.after_tools_resolved
def log_catalog(event: AfterToolsResolved) -> None:
    print(f"{len(event.catalog)} tools, attempt {event.attempt}, model {event.model}:")
    for one in event.catalog:
        print(f"  {one.id:28} {one.label or '-':14} ({', '.join(one.parameter_names)})")


@tool(label="Today's date")
def today() -> str:
    """The date of today: plugins may bring tools, too."""
    return "2026-01-31"


def read_file(path: str, limit: int = 100) -> str:
    """Read a file of the host."""
    return f"the first {limit} lines of {path}"


ISSUE = {"type": "object", "properties": {"title": {"type": "string"}, "labels": {"type": "array"}}}
TOOLS = [
    Tool.from_function(read_file, source="host", owner="core", label="Read a file"),
    Tool(name="create_issue", label="Create issue", parameters=ISSUE, source="mcp", owner="github"),
    Tool(name="ping", source="mcp", owner="github"),
]


async def main() -> None:
    async with (
        Host(plugins=[sys.modules[__name__]], store=MemoryStore(), config={"allow": []}) as host,
        host.session("example") as session,
        session.run(model="any-model") as run,
    ):
        await run.resolve_tools(TOOLS)


if __name__ == "__main__":
    anyio.run(main)
