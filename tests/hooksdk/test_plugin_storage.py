"""A plugin class may ask for its key-value space in the host's store."""

from __future__ import annotations

from pathlib import Path

import pytest

from hooksdk import Host, MemoryStore, Storage, ToolCall, ToolContext, hooks, tool
from hooksdk.hooks import NarrowTools
from hooksdk.stores import SqlStore

pytestmark = pytest.mark.anyio


class Remember:
    """Counts the attempts that this host has ever seen."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage

    @hooks.narrow_tools
    async def count(self, event: NarrowTools) -> None:
        await self._storage.set("attempts", await self._storage.get("attempts", 0) + 1)

    @tool
    async def attempts(self, context: ToolContext) -> str:
        """How many attempts were seen."""
        return str(await context.storage.get("attempts"))


class Other:
    def __init__(self, storage: Storage) -> None:
        self.storage = storage

    @hooks.narrow_tools
    def look(self, event: NarrowTools) -> None: ...


async def resolve_once(host: Host, session_id: str) -> None:
    async with host.session(session_id) as session, session.run() as run:
        await run.resolve_tools()


async def test_a_hook_reaches_the_storage_that_the_constructor_was_given():
    async with Host(plugins=[Remember], store=MemoryStore(), config={"allow": []}) as host:
        await resolve_once(host, "one")
        await resolve_once(host, "two")
        assert await host.storage("remember").get("attempts") == 2


async def test_it_is_the_space_that_the_plugins_tools_see_and_nobody_elses():
    async with (
        Host(plugins=[Remember, Other], store=MemoryStore(), config={"allow": []}) as host,
        host.session("one") as session,
        session.run() as run,
    ):
        await run.resolve_tools()
        written = {"id": "c1", "type": "function", "function": {"name": "attempts", "arguments": "{}"}}
        await run.record({"role": "assistant", "content": None, "tool_calls": [written]})
        assert (await run.call_tool(ToolCall("c1", "attempts", {}))).text == "1"
        assert await session.plugin("other").storage.keys() == []


async def test_it_outlives_the_host(tmp_path: Path):
    for expected in (1, 2):
        async with Host(plugins=[Remember], store=SqlStore(tmp_path), config={"allow": []}) as host:
            await resolve_once(host, "one")
            assert await host.storage("remember").get("attempts") == expected
