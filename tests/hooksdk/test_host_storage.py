"""Where a host keeps things: its store, and the plugins' own key-value spaces."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pytest

from hooksdk import Host, MemoryStore, ToolContext, tool
from hooksdk.stores import SqlStore
from hooksdk.testing import open_host
from tests.stage import USER, OwnStore, playing

pytestmark = pytest.mark.anyio


class Notes:
    """Keeps notes for all sessions."""

    @tool
    async def note(self, text: str, context: ToolContext) -> str:
        """Keep a note."""
        await context.storage.set(text, {"by": context.session_id})
        return ", ".join(await context.storage.keys())


async def test_a_plugins_storage_is_shared_by_sessions_and_apart_from_other_plugins() -> None:
    store = MemoryStore()
    async with playing(Notes, tools=[], store=store) as played:
        assert (await played.call("note", {"text": "b"})).text == "b"
    async with playing(Notes, tools=[], store=store) as played:
        assert (await played.call("note", {"text": "a"})).text == "a, b"
        storage = played.host.storage("notes")
        assert await storage.get("a") == {"by": "s"}
        await storage.delete("a")
        await storage.delete("a")
        assert await storage.keys() == ["b"]
        assert await played.host.storage("other").keys() == []
        assert await storage.get("missing", 7) == 7


async def test_a_host_that_is_not_asked_to_keeps_nothing_on_disk(home: Path) -> None:
    for _ in range(2):
        async with Host(config={"allow": []}) as host, host.session("s") as session:
            assert not session.resumed
            async with session.run() as run:
                await run.record(USER)
            await host.storage("p").set("k", 1)
    assert list(home.iterdir()) == []


async def test_without_a_store_the_configuration_decides(home: Path) -> None:
    async with Host(config={"allow": [], "store": "jsonl"}) as host:
        assert isinstance(host.store, SqlStore)
        async with host.session("s") as session, session.run() as run:
            await run.record(USER)
    assert (home / "hooksdk.db").is_file()
    async with Host(config={"allow": [], "store": "jsonl"}) as host, host.session("s") as session:
        assert session.messages == [USER]
        assert session.resumed
    async with Host(config={"allow": [], "store": "memory"}) as host:
        assert isinstance(host.store, MemoryStore)


async def test_a_store_that_was_handed_in_is_not_closed() -> None:
    closed: list[str] = []

    class Own(OwnStore):
        async def aclose(self) -> None:
            closed.append("closed")

    async with open_host(store=cast("Any", Own())):
        pass
    assert closed == []
