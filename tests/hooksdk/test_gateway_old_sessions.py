"""What is stored of a gateway's sessions goes when nobody can need it any more."""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, closing
from pathlib import Path

import anyio
import pytest
from mcp import Client

from hooksdk import Annotations, Host, Tool, hooks
from hooksdk.desk import ApprovalDesk
from hooksdk.gateway import Gateway
from hooksdk.hooks import Ask, BeforeToolCall
from hooksdk.stores import SqlStore
from tests.hooksdk.gateways import client, text_of
from tests.hooksdk.mcp_servers import until

pytestmark = [pytest.mark.heavy, pytest.mark.anyio, pytest.mark.both_loops]
DAYS = 3 * 24 * 3600


class Notes:
    """`read_note` answers, `send_note` never does, and `delete_note` is asked about."""

    def __init__(self) -> None:
        self.began = 0

        async def send(_arguments: object) -> str:
            self.began += 1
            await anyio.sleep_forever()
            return "never"

        async def answer(_arguments: object) -> str:
            return "buy milk"

        writes = Annotations(read_only=False)
        self.listed = [
            Tool(
                name="read_note",
                source="host",
                owner="notes",
                execute=answer,
                annotations=writes,
            ),
            Tool(name="send_note", source="host", owner="notes", execute=send, annotations=writes),
            Tool(name="delete_note", source="host", owner="notes", execute=answer, annotations=writes),
        ]

    def tools(self) -> list[Tool]:
        return self.listed


class Asks:
    @hooks.before_tool_call(tools="delete_*")
    def ask(self, event: BeforeToolCall) -> Ask:
        return Ask(f"May {event.call.name} run?")


@asynccontextmanager
async def at_gateway(folder: Path, notes: Notes) -> AsyncGenerator[Client]:
    """One client at a gateway whose sessions are in a database."""
    async with (
        Host(plugins=[Asks], store=SqlStore(folder)) as host,
        Gateway(host, notes, approver=ApprovalDesk(wait=0), folder=folder) as made,
        client(made, "legacy") as connected,
    ):
        yield connected


def sessions(folder: Path) -> set[str]:
    with closing(sqlite3.connect(folder / "hooksdk.db")) as database:
        names = (json.loads(name) for (name,) in database.execute("SELECT name FROM hooksdk_sessions"))
        return {name for name in names if name.startswith("gateway-")}


def grow_old(folder: Path) -> None:
    with closing(sqlite3.connect(folder / "hooksdk.db")) as database, database:
        database.execute("UPDATE hooksdk_sessions SET changed = ?", (time.time() - DAYS,))


async def test_of_a_session_that_ends_with_nothing_open_nothing_stays(tmp_path: Path) -> None:
    async with at_gateway(tmp_path, Notes()) as connected:
        assert text_of(await connected.call_tool("read_note")) == "buy milk"
        assert len(sessions(tmp_path)) == 1
    assert sessions(tmp_path) == set()


async def test_a_session_with_a_call_that_waits_stays_until_its_approval_has_expired(tmp_path: Path) -> None:
    async with at_gateway(tmp_path, Notes()) as connected:
        assert "waits for a person's approval" in text_of(await connected.call_tool("delete_note"))
    before = sessions(tmp_path)
    assert len(before) == 1
    async with at_gateway(tmp_path, Notes()) as connected:
        await connected.call_tool("read_note")
        assert sessions(tmp_path) > before
    assert sessions(tmp_path) == before
    grow_old(tmp_path)
    async with at_gateway(tmp_path, Notes()):
        await until(lambda: not sessions(tmp_path))


async def test_a_session_with_a_call_in_doubt_stays_however_old_it_is(tmp_path: Path) -> None:
    notes = Notes()
    async with at_gateway(tmp_path, notes) as connected, anyio.create_task_group() as group:
        group.start_soon(connected.call_tool, "send_note")
        await until(lambda: notes.began)
        group.cancel_scope.cancel()
    before = sessions(tmp_path)
    assert len(before) == 1
    grow_old(tmp_path)
    async with at_gateway(tmp_path, Notes()) as connected:
        assert "waits for a person's approval" in text_of(await connected.call_tool("send_note"))
        assert before <= sessions(tmp_path)
    assert before <= sessions(tmp_path)
