"""What one session may use never shows in another: sessions with disjoint grants, and every way to ask."""

from __future__ import annotations

import json
import random
from typing import cast

import anyio
import pytest
from searching import BRIDGE, READ_FILE, Search, configuration, make

from hooksdk import Host, MemoryStore, Tool, ToolCall, hooks
from hooksdk.hooks import AfterToolsResolved, BeforeToolCall, NarrowTools, Withhold

pytestmark = pytest.mark.anyio

SESSIONS = 6
ROUNDS = 40
NOUNS = ["invoice", "flight", "ticket", "playlist", "contract", "recipe"]
VERBS = ["create", "list", "delete", "update"]


def tools_of(index: int) -> list[Tool]:
    """A catalog of its own for each session: other names, but the same words and neighbours in spelling."""
    mark = f"zq{index}zq"
    named = [
        make(f"{verb}_{noun}_{mark}", f"{verb.title()} the {noun} of {mark}.", f"server_{mark}", title="string")
        for verb in VERBS
        for noun in NOUNS
    ]
    return [READ_FILE, *named]


def questions(chooser: random.Random, foreign: int) -> list[tuple[str, object]]:
    """Calls that fish for another session's tools: by name, by a misspelt name, by id, by words."""
    name = f"{chooser.choice(VERBS)}_{chooser.choice(NOUNS)}_zq{foreign}zq"
    place = chooser.randrange(len(name))
    misspelt = name[:place] + chooser.choice("xq_") + name[place + 1 :]
    wanted = chooser.choice([name, misspelt, name.upper(), f"mcp:server_zq{foreign}zq:{name}", name[:-3], "create"])
    arguments = {"title": "x"}
    return [
        ("tool_search", {"queries": [wanted, name.replace("_", " "), f"server zq{foreign}zq", "create invoice"], "limit": 50}),
        ("tool_describe", {"names": [wanted, "read_file"]}),
        ("tool_call", {"name": wanted, "arguments": arguments}),
        ("tool_call", {"calls": [{"tool": wanted, "args": arguments}]}),
        (wanted, arguments),
    ]  # fmt: skip


def without_question(text: str, arguments: object, name: str) -> str:
    """An answer may repeat what was asked; that is no leak."""
    asked = [name, *_texts(arguments)]
    for one in sorted(set(asked), key=len, reverse=True):
        text = text.replace(one, "")
    return text


def _texts(value: object) -> list[str]:
    if isinstance(value, str):
        return [value]
    parts: object = list(cast("dict[str, object]", value).values()) if isinstance(value, dict) else value
    return [text for part in cast("list[object]", parts) for text in _texts(part)] if isinstance(parts, list) else []


@pytest.mark.in_ci(enabled=["on"])
@pytest.mark.heavy
@pytest.mark.parametrize("enabled", ["on", "off"])
async def test_sessions_with_disjoint_grants_never_learn_each_others_names(enabled: str) -> None:
    leaks: list[str] = []
    ran: list[str] = []

    class Watch:
        @hooks.before_tool_call
        def watch(self, event: BeforeToolCall) -> None:
            mine = f"zq{event.session_id}zq"
            if event.tool.source == "mcp" and mine not in event.tool.name:
                ran.append(event.tool.name)

    async def play(host: Host, index: int) -> None:
        chooser = random.Random(index)  # the same questions in every run of the test
        async with host.session(str(index)) as session, session.run(context_window=200_000) as run:
            await run.resolve_tools(tools_of(index))
            played = Search(host, session, run)
            for _ in range(ROUNDS):
                foreign = chooser.choice([other for other in range(SESSIONS) if other != index])
                for name, arguments in questions(chooser, foreign):
                    told = without_question((await played.call(name, arguments)).text, arguments, name)
                    leaks.extend(told for other in range(SESSIONS) if other != index and f"zq{other}zq" in told)
                await anyio.sleep(0)

    async with (
        Host(plugins=[Watch], store=MemoryStore(), config=configuration(enabled=enabled)) as host,
        anyio.create_task_group() as group,
    ):
        for index in range(SESSIONS):
            group.start_soon(play, host, index)
    assert leaks == []
    assert ran == []


async def test_names_that_policy_withheld_show_for_their_exact_name_only() -> None:
    class Policy:
        @hooks.narrow_tools
        def narrow(self, event: NarrowTools) -> Withhold | None:
            return Withhold([tool.name for tool in event.tools if "invoice" in tool.name], "no invoices")

    async with (
        Host(plugins=[Policy], store=MemoryStore(), config=configuration(enabled="on")) as host,
        host.session("s") as session,
        session.run() as run,
    ):
        offered = await run.resolve_tools(tools_of(0))
        played = Search(host, session, run)
        assert "invoice" not in json.dumps([[tool.name, tool.description, tool.parameters] for tool in offered])
        for name, arguments in [
            ("tool_search", {"queries": ["create", "list the"], "limit": 50}),
            ("tool_call", {"name": "create_invoic_zq0zq"}),
            ("create_invoic_zq0zq", {}),
            ("tool_describe", {"names": ["create_invoic_zq0zq"]}),
        ]:
            told = without_question((await played.call(name, arguments)).text, arguments, name)
            assert "invoice" not in told
        for name, arguments in [
            ("tool_call", {"name": "create_invoice_zq0zq"}),
            ("create_invoice_zq0zq", {}),
            ("tool_describe", {"names": ["create_invoice_zq0zq"]}),
        ]:
            assert "no invoices" in (await played.call(name, arguments)).text


async def test_a_childs_search_finds_only_what_the_child_was_granted() -> None:
    async with (
        Host(store=MemoryStore(), config=configuration(enabled="on")) as host,
        host.session("s") as session,
        session.child(tools=["read_file", "*_flight_*"]) as child,
        child.run() as run,
    ):
        await run.resolve_tools(tools_of(0))
        played = Search(host, child, run)
        answer = await played.search("create invoice", "create flight", limit=50)
        assert answer["total_available"] == len(VERBS)
        assert "invoice_" not in json.dumps(answer)
        refused = await played.call("tool_call", {"name": "create_invoice_zq0zq", "arguments": {}})
        assert "not granted to this session" in refused.text


async def test_two_sessions_with_equal_catalogs_share_an_index_and_keep_their_own_deferred_tools() -> None:
    async with (
        Host(store=MemoryStore(), config=configuration(threshold_pct=10)) as host,
        host.session("large") as large,
        host.session("small") as small,
        large.run(context_window=1_000_000) as eager,
        small.run(context_window=1_000) as lazy,
    ):
        tools = tools_of(0)
        assert len(await eager.resolve_tools(tools)) == len(tools)
        assert [tool.name for tool in await lazy.resolve_tools(tools)] == ["read_file", *BRIDGE]
        refused = await eager.call_tool(ToolCall("c", "tool_call", {"name": "create_invoice_zq0zq"}))
        assert refused.is_error
        done = await lazy.call_tool(ToolCall("c", "tool_call", {"name": "create_invoice_zq0zq"}))
        assert not done.is_error


async def test_observers_of_the_catalog_see_their_own_sessions_only() -> None:
    seen: dict[str, set[str]] = {}

    class Watch:
        @hooks.after_tools_resolved
        async def watch(self, event: AfterToolsResolved) -> None:
            seen[event.session_id] = {tool.owner for tool in event.catalog}

    async with Host(plugins=[Watch], store=MemoryStore(), config=configuration()) as host:
        for index in range(3):
            async with host.session(str(index)) as session, session.run() as run:
                await run.resolve_tools(tools_of(index))
    assert seen == {str(index): {"core", f"server_zq{index}zq"} for index in range(3)}
