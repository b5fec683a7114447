"""Several gateways behind one address: what one has asked, kept or begun, the others find in the database."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator
from contextlib import aclosing, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any, cast

import anyio
import httpx2
import pytest
from mcp import Client, types
from mcp.shared.exceptions import MCPError

from hooksdk import Host, MemoryStore
from hooksdk.approvals import Approval
from hooksdk.desk import ApprovalRecords
from hooksdk.errors import ConfigError
from hooksdk.gateway import Gateway, GatewayConfig
from hooksdk.gateway._session_ids import Deployment
from hooksdk.stores import SqlStore
from tests.hooksdk.gateways import text_of
from tests.hooksdk.replicas import TOKENS, Remembers, Replica, can_answer, client, replica

pytestmark = [pytest.mark.heavy, pytest.mark.anyio]
ALLOW = types.ElicitResult(action="accept", content={"decision": "allow"})
FOR_SESSION = types.ElicitResult(action="accept", content={"decision": "allow for this session"})


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(autouse=True)
def tokens(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, token in TOKENS.items():
        monkeypatch.setenv(f"{name.upper()}_TOKEN", token)


@pytest.fixture(params=["postgres", pytest.param("sqlite", marks=pytest.mark.slow)])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'shared.db'}"
    return request.getfixturevalue("postgres").url()


@asynccontextmanager
async def two(database: str, folder: Path, **options: Any) -> AsyncGenerator[tuple[Replica, Replica]]:
    async with (
        replica(database, folder / "effects", **options) as one,
        replica(database, folder / "effects", **options) as other,
    ):
        yield one, other


async def ask(connected: Client, name: str, path: str = "a", **options: Any) -> Any:
    return await connected.session.call_tool(name, {"path": path}, allow_input_required=True, **options)


async def cut_off(one: Replica, connected: Client) -> None:
    """Make a call there, and cancel it in the middle."""
    begun = anyio.Event()

    async def hold() -> None:
        begun.set()
        await anyio.sleep_forever()

    one.notes.hold = hold
    async with anyio.create_task_group() as group:
        group.start_soon(ask, connected, "send_slowly")
        await begun.wait()
        group.cancel_scope.cancel()
    one.notes.hold = None


async def test_a_question_of_one_gateway_is_answered_through_another_once(database: str, tmp_path: Path) -> None:
    async with (
        two(database, tmp_path) as (one, other),
        client(one.url, elicitation_callback=can_answer) as here,
        client(other.url, elicitation_callback=can_answer) as there,
        client(other.url, token="bob", elicitation_callback=can_answer) as bob,
    ):
        asked = await ask(here, "delete_note")
        assert isinstance(asked, types.InputRequiredResult)
        answer: Any = {"request_state": asked.request_state, "input_responses": {"approval": ALLOW}}
        assert "it was given to another client" in text_of(await ask(bob, "delete_note", **answer))
        assert "done by" in text_of(await ask(there, "delete_note", **answer))
        assert "answered already" in text_of(await ask(here, "delete_note", **answer))
        assert isinstance(await ask(there, "delete_note"), types.InputRequiredResult), (
            "the next call is asked about anew"
        )
        assert (tmp_path / "effects").read_text() == "a\n"


async def test_a_yes_for_the_session_counts_at_every_gateway_until_the_session_is_over(
    database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    passed = 0.0
    clock = partial(Deployment, clock=lambda: time.time() + passed)
    monkeypatch.setattr("hooksdk.gateway._gateway.Deployment", clock)
    async with (
        two(database, tmp_path, config={"idle": 600.0}) as (one, other),
        client(one.url, elicitation_callback=can_answer) as here,
        client(other.url, elicitation_callback=can_answer) as there,
    ):
        asked = await ask(here, "delete_note")
        await ask(here, "delete_note", request_state=asked.request_state, input_responses={"approval": FOR_SESSION})
        assert "done by" in text_of(await ask(there, "delete_note"))
        passed = 601.0
        assert isinstance(await ask(there, "delete_note"), types.InputRequiredResult)


async def test_a_call_that_waits_under_a_number_takes_its_answer_at_any_gateway(database: str, tmp_path: Path) -> None:
    async with two(database, tmp_path) as (one, other), client(one.url, other.url) as connected:
        said = [text_of(await ask(connected, "delete_note")) for _ in range(3)]
        assert said[0] == said[1] == said[2]
        assert "number 1" in said[0]
        await ApprovalRecords(one.store).answer(1, Approval(True, by="ann"))
        said = [text_of(await ask(connected, "delete_note")) for _ in range(2)]
        assert ["done by" in text for text in said] == [True, False]


async def test_a_long_result_is_read_on_at_another_gateway_by_its_own_client_alone(
    database: str, tmp_path: Path
) -> None:
    async with (
        two(database, tmp_path) as (one, other),
        client(one.url, other.url) as connected,
        client(other.url, token="bob") as bob,
    ):
        handles: list[str] = []
        for path in ("first", "second", "third"):
            shown = text_of(await ask(connected, "tell_note", path))
            handles.append(shown.partition("The whole is ")[2].partition(";")[0])
        assert handles == ["r1", "r2", "r3"]
        for number, path in enumerate(("first", "second", "third"), 1):
            for _ in range(2):
                page = await connected.call_tool("recall-tool-result", {"id": f"r{number}", "offset": 0, "limit": 20})
                assert text_of(page).startswith(f"line 0 of {path}")
                whole = await connected.read_resource(f"hooksdk://result/r{number}")
                assert f"line 399 of {path}" in whole.contents[0].model_dump()["text"]
        assert [one.name for one in (await connected.list_resources()).resources] == ["r3", "r2", "r1"]
        assert (await bob.list_resources()).resources == []
        assert "no result 'r1'" in text_of(await bob.call_tool("recall-tool-result", {"id": "r1"}))


async def test_what_plugins_keep_for_the_session_is_there_at_every_gateway(database: str, tmp_path: Path) -> None:
    async with two(database, tmp_path) as both, client(*(one.url for one in both)) as connected:
        for path in "abcd":
            await ask(connected, "read_note", path)
        for one in both:
            (session,) = one.host.sessions
            await session.refresh()
            plugin: Remembers = session.plugin("remembers")
            assert plugin.seen() == ["a", "b", "c", "d"]
            assert len(set(plugin.state.values())) == 1, "plugins are told one session's id"


async def test_a_limit_for_the_session_holds_over_all_gateways(database: str, tmp_path: Path) -> None:
    rule = {"action": "deny", "tools": "send_note", "limit": {"calls": 3, "per": "session"}, "reason": "enough"}
    family = {"action": "deny", "tools": "read_note", "limit": {"calls": 3, "per": "family"}, "reason": "enough"}
    config = {"plugins": {"tool_policy": {"config": {"rules": [rule, family]}}}}
    async with two(database, tmp_path, host_config=config) as both, client(*(one.url for one in both)) as connected:
        for name in ("send_note", "read_note"):
            said = [text_of(await ask(connected, name, f"{number}")) for number in range(5)]
            assert ["enough" in text for text in said] == [False, False, False, True, True]


async def test_a_connection_of_the_older_protocol_is_told_that_its_gateway_is_another(
    database: str, tmp_path: Path
) -> None:
    async with (
        two(database, tmp_path) as (one, other),
        client(one.url, era="legacy") as connected,
        httpx2.AsyncClient(timeout=60, headers={"Authorization": f"Bearer {TOKENS['ann']}"}) as http,
    ):
        assert "was read" in text_of(await ask(connected, "read_note"))
        session_id = next(iter(one.gateway._sessions)).rpartition(" ")[2]  # pyright: ignore[reportPrivateUsage]
        answer = await http.post(
            other.url,
            json={"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}},
            headers={"mcp-session-id": session_id, "accept": "application/json, text/event-stream"},
        )
        assert answer.status_code == 404
        assert "has to come to the same gateway" in answer.json()["error"]["message"]
        assert "was read" in text_of(await ask(connected, "read_note"))


async def test_a_question_that_a_server_asks_while_its_call_is_open_is_answered_through_another_gateway(
    database: str, tmp_path: Path
) -> None:
    async with (
        two(database, tmp_path) as (one, other),
        client(one.url, elicitation_callback=can_answer) as here,
        client(other.url, elicitation_callback=can_answer) as there,
    ):
        for path, connected in (("a", there), ("b", here)):
            asked = await ask(here, "ask_note", path)
            (key,) = cast("dict[str, Any]", asked.input_requests)
            again = await ask(connected, "ask_note", path, request_state=asked.request_state, input_responses={})
            assert again.input_requests == asked.input_requests, "an answer that is left out is asked for again"
            yes: Any = {
                "request_state": again.request_state,
                "input_responses": {key: types.ElicitResult(action="accept", content={"name": "ann"})},
            }
            with pytest.raises(MCPError, match="no call that is open"):
                await ask(connected, "ask_note", "other", **yes)
            assert text_of(await ask(connected, "ask_note", path, **yes)) == f"{path} done for ann"
        assert (tmp_path / "effects").read_text() == "a\nb\n"


async def test_a_client_that_gives_up_at_one_gateway_cancels_its_call_at_another(database: str, tmp_path: Path) -> None:
    async with (
        two(database, tmp_path) as (one, other),
        client(one.url, elicitation_callback=can_answer) as here,
        client(other.url, elicitation_callback=can_answer) as there,
    ):
        asked = await ask(here, "ask_note")
        (key,) = cast("dict[str, Any]", asked.input_requests)
        cancelled, begun = anyio.Event(), anyio.Event()

        async def hold() -> None:
            begun.set()
            try:
                await anyio.sleep_forever()
            finally:
                cancelled.set()

        one.notes.hold = hold
        yes = {key: types.ElicitResult(action="accept", content={"name": "ann"})}

        async def answer() -> None:
            await ask(there, "ask_note", request_state=asked.request_state, input_responses=yes)

        async with anyio.create_task_group() as group:
            group.start_soon(answer)
            await begun.wait()
            group.cancel_scope.cancel()
        with anyio.fail_after(120):
            await cancelled.wait()


async def test_a_call_that_was_cut_off_at_one_gateway_is_asked_about_at_another_once(
    database: str, tmp_path: Path
) -> None:
    async with (
        two(database, tmp_path) as (one, other),
        client(one.url) as here,
        client(other.url) as there,
    ):
        await cut_off(one, here)
        said = text_of(await ask(there, "send_slowly"))
        assert "It may have taken effect" in said
        assert "number 1" in said
        await ApprovalRecords(one.store).answer(1, Approval(True, by="ann"))
        assert text_of(await ask(there, "send_slowly")) == "a done"
        for connected in (here, there):
            assert text_of(await ask(connected, "send_slowly")) == "a done", "the doubt is over at both"


async def test_a_gateway_that_lost_its_part_of_a_session_goes_on_with_another(database: str, tmp_path: Path) -> None:
    async with (
        replica(database, tmp_path / "effects", lease=0.5) as made,
        client(made.url) as connected,
        aclosing(SqlStore(database)) as elsewhere,
    ):
        assert "done by" in text_of(await ask(connected, "send_note"))
        heartbeat = made.store._heartbeat  # pyright: ignore[reportPrivateUsage]
        assert heartbeat is not None
        heartbeat.cancel()  # it hangs: nobody renews its leases
        (part,) = await elsewhere.list_held("gateway-")
        log = await elsewhere.open_session(part, wait=30)
        await log.close()
        assert "done by" in text_of(await ask(connected, "send_note", "b"))
        assert (tmp_path / "effects").read_text() == "a\nb\n"


@pytest.mark.parametrize("era", ["legacy", "auto"])
async def test_what_a_gateway_that_has_ended_has_left_is_found_by_one_that_runs(
    era: str, database: str, tmp_path: Path
) -> None:
    file = tmp_path / "effects"
    async with replica(database, file) as other, client(other.url, era=era) as there:
        assert "done by" in text_of(await ask(there, "send_note", "first"))
        async with replica(database, file) as one, client(one.url, era=era) as here:
            assert "number 1" in text_of(await ask(here, "delete_note"))
            await cut_off(one, here)
        assert "number 1" in text_of(await ask(there, "delete_note"))
        assert "It may have taken effect" in text_of(await ask(there, "send_slowly"))


async def test_an_equal_call_that_runs_at_another_gateway_is_waited_for(database: str, tmp_path: Path) -> None:
    async with (
        two(database, tmp_path) as (one, other),
        client(one.url) as here,
        client(other.url) as there,
    ):
        go_on, begun, said = anyio.Event(), anyio.Event(), list[str]()

        async def hold() -> None:
            begun.set()
            await go_on.wait()

        async def call(connected: Client) -> None:
            said.append(text_of(await ask(connected, "send_slowly")))

        one.notes.hold = hold
        async with anyio.create_task_group() as group:
            group.start_soon(call, here)
            await begun.wait()
            group.start_soon(call, there)
            await anyio.sleep(0.5)
            assert (tmp_path / "effects").read_text() == "a\n"
            go_on.set()
        assert said == ["a done", "a done"]


def test_sessions_cannot_be_shared_without_a_database() -> None:
    with pytest.raises(ConfigError, match='the store is a MemoryStore: store = "postgresql://USER@HOST/DATABASE"'):
        Gateway(Host(store=MemoryStore()), config=GatewayConfig(deployment="notes"))
