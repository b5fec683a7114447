"""What is known of calls that began and have no result: they may have taken effect, and nothing calls them not run.

A store that is copied while a tool runs is what a process that dies there leaves behind.
"""

from __future__ import annotations

import json
import shutil
import sqlite3
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Any, cast

import anyio
import pytest

from hooksdk import (
    Annotations,
    Approval,
    ApprovalRequest,
    Host,
    JudgedCall,
    MemoryStore,
    Run,
    Session,
    Tool,
    ToolCall,
    ToolContext,
    ToolError,
    ToolResult,
    hooks,
)
from hooksdk.approvals import Approver, Later
from hooksdk.errors import CallSettled, StoreError, WrongArgument
from hooksdk.hooks import (
    Ask,
    BeforeToolCall,
    Block,
    ResolveSecrets,
    Rewrite,
    RewriteToolCall,
    Secrets,
    ToolCallStart,
)
from hooksdk.stores import SqlStore, Store
from tests.stage import USER, OwnStore, make, reply

pytestmark = pytest.mark.anyio

PAY = ToolCall("c1", "pay", {"path": "ann"})
MAY_HAVE = "may have taken effect"


class Bank:
    """Tools that pay, whose folder is copied while they do."""

    def __init__(self, folder: Path) -> None:
        self.live, self.dead = folder / "live", folder / "dead"
        self.paid: list[str] = []
        self.copies = 0

    async def pay(self, arguments: dict[str, Any], context: ToolContext) -> str:
        self.paid.append(context.effect_id)
        self.die()
        return "paid"

    def die(self) -> None:
        """What a process that dies now would leave is in `dead`."""
        if not self.dead.exists():
            shutil.copytree(self.live, self.dead)

    def tools(self, **fields: Any) -> list[Tool]:
        return [make("pay", self.pay, **fields), make("look")]

    @asynccontextmanager
    async def run(
        self,
        folder: Path | None = None,
        *plugins: Any,
        approver: Approver | None = None,
        transcript: bool = True,
        **fields: Any,
    ) -> AsyncGenerator[tuple[Session, Run]]:
        store = SqlStore(self.live if folder is None else folder)
        async with (
            Host(plugins=plugins, store=store, approver=approver) as host,
            host.session("s") as session,
            session.run(transcript=transcript) as run,
        ):
            await run.resolve_tools(self.tools(**fields))
            yield session, run

    def journal(self, folder: Path | None = None) -> list[dict[str, Any]]:
        place = (self.live if folder is None else folder) / "hooksdk.db"
        with closing(sqlite3.connect(place)) as database:
            rows = database.execute("SELECT body FROM hooksdk_journal ORDER BY position").fetchall()
        return [json.loads(body) for (body,) in rows]

    def kinds(self) -> list[str]:
        return [entry["kind"] for entry in self.journal() if entry.get("kind") in {"began", "done", "doubt"}]


@pytest.fixture
def bank(tmp_path: Path) -> Bank:
    return Bank(tmp_path)


class Person:
    """Whoever is asked, and answers the same each time."""

    def __init__(self, *, granted: bool) -> None:
        self.granted = granted
        self.asked: list[ApprovalRequest] = []

    async def __call__(self, request: ApprovalRequest) -> Approval:
        self.asked.append(request)
        return Approval(self.granted, "" if self.granted else "it was paid")


async def pay_and_die(bank: Bank, **fields: Any) -> None:
    """One payment, after which `bank.dead` is what a process left that died in it."""
    async with bank.run(**fields) as (_, run):
        await run.record([USER, reply(PAY)])
        assert (await run.call_tool(PAY)).text == "paid"


# --- what a process that died has left ---


async def test_a_call_in_which_the_process_died_may_have_taken_effect(bank: Bank) -> None:
    await pay_and_die(bank)
    async with bank.run(bank.dead) as (session, run):
        (call,) = run.in_doubt
        assert (call.call_id, call.name, call.arguments, call.effect_id) == (
            "c1",
            "pay",
            '{"path":"ann"}',
            bank.paid[0],
        )
        assert [one.id for one in run.pending] == ["c1"]
        assert session.in_doubt == [call]
        text = (await run.prepare_messages())[-1]["content"]
        assert MAY_HAVE in text
        assert "not run" not in text
    async with bank.run(bank.dead) as (session, run):
        assert [one.call_id for one in run.in_doubt] == ["c1"]


async def test_a_call_that_never_began_was_not_run(bank: Bank) -> None:
    class Dies:
        @hooks.before_tool_call
        async def die(self, event: BeforeToolCall) -> None:
            bank.die()

    async with bank.run(None, Dies) as (_, run):
        await run.record([USER, reply(PAY)])
        await run.call_tool(PAY)
    async with bank.run(bank.dead) as (_, run):
        assert run.in_doubt == []
        assert "not run: no result came" in (await run.prepare_messages())[-1]["content"]


async def test_a_call_that_has_its_result_is_in_no_doubt(bank: Bank) -> None:
    await pay_and_die(bank)
    async with bank.run() as (session, run):
        assert (run.in_doubt, session.in_doubt) == ([], [])
    assert bank.kinds() == ["began", "done"]  # its run has completed, which is written as the session closes


@pytest.mark.parametrize("how", ["run.record", "prepare_messages"])
async def test_whatever_goes_on_without_its_result_the_call_is_not_called_not_run(bank: Bank, how: str) -> None:
    await pay_and_die(bank)
    async with bank.run(bank.dead) as (session, run):
        if how == "run.record":
            await run.record(USER)
        else:
            await run.prepare_messages([*session.messages, USER])
        assert MAY_HAVE in session.messages[2]["content"]
        assert [one.call_id for one in session.in_doubt] == ["c1"]


async def test_nothing_is_written_of_a_call_that_only_reads(bank: Bank) -> None:
    await pay_and_die(bank, annotations=Annotations(read_only=True))
    assert bank.kinds() == []


async def test_in_memory_nothing_is_written_of_a_call_that_ends() -> None:
    store = MemoryStore()
    async with Host(store=store) as host, host.session("s") as session, session.run() as run:
        await run.resolve_tools([make("pay")])
        await run.record([USER, reply(PAY)])
        await run.call_tool(PAY)
    _, journal = await store.read_session("s")
    assert {entry["kind"] for entry in journal} == {"format"}


# --- an equal call ---


@pytest.mark.parametrize("call", [PAY, ToolCall("c2", "pay", {"path": "ann"})], ids=["itself", "an equal one"])
async def test_a_call_equal_to_one_in_doubt_is_refused_where_nobody_can_be_asked(bank: Bank, call: ToolCall) -> None:
    await pay_and_die(bank)
    async with bank.run(bank.dead) as (session, run):
        if call is not PAY:
            await run.prepare_messages()
            await run.record(reply(call))
        result = await run.call_tool(call)
        assert "nobody can be asked here" in result.text
        assert MAY_HAVE in result.text
        assert bank.paid[0] in result.text
        assert [one.call_id for one in session.in_doubt] == ["c1"]
    assert len(bank.paid) == 1


async def test_a_call_equal_to_one_in_doubt_runs_when_a_person_says_so_and_has_the_same_effect_id(bank: Bank) -> None:
    await pay_and_die(bank)
    person = Person(granted=True)
    async with bank.run(bank.dead, approver=person) as (session, run):
        assert (await run.call_tool(PAY)).text == "paid"
        assert session.in_doubt == []
    (request,) = person.asked
    assert (request.severity, MAY_HAVE in request.description) == ("critical", True)
    assert bank.paid == [bank.paid[0]] * 2


async def test_a_person_who_says_no_leaves_the_call_in_doubt(bank: Bank) -> None:
    await pay_and_die(bank)
    async with bank.run(bank.dead, approver=Person(granted=False)) as (session, run):
        assert "it was paid" in (await run.call_tool(PAY)).text
        assert len(session.in_doubt) == 1
    assert len(bank.paid) == 1


async def test_an_answer_that_is_remembered_for_all_payments_does_not_cover_a_doubt(bank: Bank) -> None:
    class Asks:
        @hooks.before_tool_call
        async def ask(self, event: BeforeToolCall) -> Ask:
            return Ask("Pay?")

    async def always(request: ApprovalRequest) -> Approval:
        return Approval(True, scope="always", arguments={})

    async with bank.run(None, Asks, approver=always) as (_, run):
        await run.record([USER, reply(PAY)])
        await run.call_tool(PAY)
    person = Person(granted=False)
    async with bank.run(bank.dead, Asks, approver=person) as (_, run):
        await run.call_tool(PAY)
    assert len(person.asked) == 1
    assert len(bank.paid) == 1


async def test_another_call_of_the_same_tool_is_not_asked_about(bank: Bank) -> None:
    await pay_and_die(bank)
    async with bank.run(bank.dead) as (_, run):
        await run.prepare_messages()
        other = ToolCall("c2", "pay", {"path": "bob"})
        await run.record(reply(other))
        assert (await run.call_tool(other)).text == "paid"
    assert bank.paid[0] != bank.paid[1]


async def test_a_tool_that_says_that_a_second_call_changes_nothing_is_called_again_without_a_question(
    bank: Bank,
) -> None:
    again = Annotations(idempotent=True)
    await pay_and_die(bank, annotations=again)
    async with bank.run(bank.dead, annotations=again) as (session, run):
        assert [one.call_id for one in run.in_doubt] == ["c1"]
        assert (await run.call_tool(PAY)).text == "paid"
        assert session.in_doubt == []
    assert bank.paid == [bank.paid[0]] * 2


class Blocks:
    """A policy that lets nothing through."""

    @hooks.before_tool_call
    async def block(self, event: BeforeToolCall) -> Block:
        return Block("enough.")


class HoldsBack:
    """Says no when everybody has judged."""

    @hooks.tool_call_start
    async def block(self, event: ToolCallStart) -> Block:
        return Block("enough.")


@pytest.mark.parametrize("plugin", [Blocks, HoldsBack])
async def test_a_call_that_is_blocked_now_and_began_before_does_not_read_as_if_it_never_ran(
    bank: Bank, plugin: type
) -> None:
    await pay_and_die(bank)
    async with bank.run(bank.dead, plugin, approver=Person(granted=True)) as (session, run):
        text = (await run.call_tool(PAY)).text
        assert text.startswith(f"Blocked by {plugin.__name__.lower()}".replace("holdsback", "holds_back"))
        assert f"enough. An earlier attempt of it began, and its end is not known: it {MAY_HAVE}" in text
        assert [one.call_id for one in session.in_doubt] == ["c1"]


async def test_a_call_that_is_held_back_when_it_would_begin_was_not_run_and_is_in_no_doubt(bank: Bank) -> None:
    async with bank.run(None, HoldsBack) as (session, run):
        await run.record([USER, reply(PAY)])
        assert (await run.call_tool(PAY)).text == "Blocked by holds_back: enough."
        assert session.in_doubt == []
    assert bank.kinds() == []


@pytest.mark.parametrize("idempotent", [False, True])
async def test_a_call_that_began_before_and_is_judged_again_only_is_not_called_not_run(
    bank: Bank, *, idempotent: bool
) -> None:
    said = Annotations(idempotent=idempotent)
    await pay_and_die(bank, annotations=said)
    async with bank.run(bank.dead, approver=Person(granted=True), annotations=said) as (session, run):
        assert (await run.judge(PAY)).result is None
    async with bank.run(bank.dead) as (session, _):
        text = session.messages[2]["content"]
        assert (MAY_HAVE in text, "not run" in text) == (True, False)
        assert [one.call_id for one in session.in_doubt] == ["c1"]


@asynccontextmanager
async def begun_elsewhere(store: Store) -> AsyncGenerator[tuple[Session, Run, JudgedCall]]:
    """A run whose call somebody else makes: it has begun, and nobody has said how it ended."""
    async with Host(store=store) as host, host.session("s") as session, session.run() as run:
        await run.resolve_tools([make("pay")])
        await run.record([USER, reply(PAY)])
        judged = await run.judge(PAY)
        await judged.begin()
        yield session, run, judged


@pytest.mark.parametrize("volatile", [False, True])
async def test_a_call_that_began_elsewhere_is_asked_about_when_it_is_judged_again(
    tmp_path: Path, *, volatile: bool
) -> None:
    async with begun_elsewhere(MemoryStore() if volatile else SqlStore(tmp_path)) as (session, run, _):
        assert MAY_HAVE in (await run.call_tool(PAY)).text
        assert [one.call_id for one in session.in_doubt] == ["c1"]


@pytest.mark.parametrize("volatile", [False, True])
async def test_once_the_model_has_read_that_its_end_is_not_known_an_equal_call_is_asked_about_in_the_same_run(
    tmp_path: Path, *, volatile: bool
) -> None:
    async with begun_elsewhere(MemoryStore() if volatile else SqlStore(tmp_path)) as (session, run, judged):
        assert session.in_doubt == []
        assert MAY_HAVE in (await run.prepare_messages())[-1]["content"]
        assert [one.call_id for one in session.in_doubt] == ["c1"]
        again = ToolCall("c2", "pay", {"path": "ann"})
        await run.record(reply(again))
        assert MAY_HAVE in (await run.call_tool(again)).text
        await judged.supply("paid")  # late, and true all the same
        assert session.in_doubt == []


async def test_a_call_whose_arguments_a_plugin_rewrites_otherwise_each_time_is_asked_about_all_the_same(
    bank: Bank,
) -> None:
    times = iter(range(9))

    class Stamps:
        @hooks.rewrite_tool_call
        async def stamp(self, event: RewriteToolCall) -> Rewrite:
            return Rewrite({"path": f"ann, {next(times)}"})

    async with bank.run(None, Stamps) as (_, run):
        await run.record([USER, reply(PAY)])
        await run.call_tool(PAY)
    async with bank.run(bank.dead, Stamps) as (_, run):
        text = (await run.call_tool(PAY)).text
        assert (MAY_HAVE in text, "same arguments" in text) == (True, False)
    assert len(bank.paid) == 1


async def test_of_two_equal_calls_that_a_person_lets_run_only_one_takes_the_place_of_the_one_in_doubt(
    bank: Bank,
) -> None:
    await pay_and_die(bank)
    asked: list[str] = []
    both = anyio.Event()

    async def person(request: ApprovalRequest) -> Approval:
        asked.append(request.effect_id)
        if len(asked) == 2:
            both.set()
        await both.wait()
        return Approval(True)

    async with bank.run(bank.dead, approver=person) as (session, run):
        await run.prepare_messages()
        calls = [ToolCall(each, "pay", {"path": "ann"}) for each in ("c2", "c3")]
        await run.record(reply(*calls))
        async with anyio.create_task_group() as group:
            for call in calls:
                group.start_soon(run.call_tool, call)
        assert session.in_doubt == []
    assert sorted(bank.paid[1:]) == sorted(asked)
    assert [one == bank.paid[0] for one in sorted(asked, key=lambda one: one != bank.paid[0])] == [True, False]


async def test_a_call_that_a_person_lets_run_and_that_never_enters_its_tool_stays_in_doubt(bank: Bank) -> None:
    await pay_and_die(bank)
    async with Host(store=SqlStore(bank.dead), approver=Person(granted=True)) as host, host.session("s") as session:
        async with session.run() as run:
            await run.resolve_tools([make("pay", None)])
            text = (await run.call_tool(PAY)).text
        assert ("no executor" in text, MAY_HAVE in text) == (True, True)
        assert [one.call_id for one in session.in_doubt] == ["c1"]


async def test_a_result_that_is_supplied_ends_the_doubt_of_the_call_that_a_person_let_run(bank: Bank) -> None:
    await pay_and_die(bank)
    async with bank.run(bank.dead, approver=Person(granted=True)) as (session, run):
        await (await run.judge(PAY)).supply("paid elsewhere")
        assert session.in_doubt == []
        assert session.messages[2]["content"] == "paid elsewhere"


async def test_what_is_stored_of_a_call_has_no_hash_of_a_secrets_value(bank: Bank) -> None:
    value = "hunter2 hunter2"

    class Vault:
        @hooks.resolve_secrets
        async def fill(self, event: ResolveSecrets) -> Secrets:
            return Secrets({"PIN": value})

    written = [ToolCall("c1", "pay", {"path": "{{secret:PIN}}"}), ToolCall("c2", "pay", {"path": value})]
    async with bank.run(None, Vault, keeps_secrets=True) as (_, run):
        await run.record(USER)
        for call in written:
            await run.record(reply(call))
            await run.call_tool(call)
    first, second = [entry for entry in bank.journal() if entry.get("kind") == "began"]
    assert (first["arguments"], first["digest"]) == (second["arguments"], second["digest"])
    assert value not in json.dumps(bank.journal())


# --- it is settled ---


async def test_what_came_of_it_can_be_said_and_is_its_result(bank: Bank) -> None:
    await pay_and_die(bank)
    async with bank.run(bank.dead) as (session, run):
        settled = await session.settle("c1", "paid, receipt 7")
        assert settled.call_id == "c1"
        assert (run.pending, run.in_doubt) == ((), [])
        assert (await run.prepare_messages())[-1]["content"] == "paid, receipt 7"


async def test_an_equal_call_runs_without_a_question_once_the_doubt_is_settled(bank: Bank) -> None:
    await pay_and_die(bank)
    async with bank.run(bank.dead) as (session, run):
        await run.prepare_messages()
        await session.settle(bank.paid[0], ToolResult.error("it was not paid"))
        again = ToolCall("c2", "pay", {"path": "ann"})
        await run.record(reply(again))
        assert (await run.call_tool(again)).text == "paid"
    async with bank.run(bank.dead) as (session, _):
        assert session.in_doubt == []


async def test_a_call_that_is_settled_while_a_person_is_asked_does_not_run_when_the_answer_is_yes(bank: Bank) -> None:
    await pay_and_die(bank)

    async def later(request: ApprovalRequest) -> Later:
        return Later()

    async with bank.run(bank.dead, approver=later) as (session, run):
        judged = await run.judge(PAY)
        assert judged.pending is not None
        await session.settle("c1", "paid, receipt 7")
        with pytest.raises(CallSettled):
            await judged.approve()
        assert (await judged.execute()).text == "paid, receipt 7"
        assert judged.pending is None
    assert len(bank.paid) == 1


async def test_only_what_is_in_doubt_can_be_settled(bank: Bank) -> None:
    await pay_and_die(bank)
    async with bank.run(bank.dead) as (session, _):
        with pytest.raises(WrongArgument, match=r"no call of this id is in doubt.*In doubt: c1"):
            await session.settle("c9", "paid")


# --- it is cut off while the process lives ---


class Hanging:
    """A tool that does not end."""

    def __init__(self) -> None:
        self.entered = anyio.Event()
        self.tool = make("pay", self.pay)

    async def pay(self, arguments: dict[str, Any]) -> str:
        self.entered.set()
        await anyio.sleep_forever()
        return "never"


async def test_a_call_whose_reply_is_recorded_later_stays_in_doubt(tmp_path: Path) -> None:
    hanging = Hanging()
    async with Host(store=SqlStore(tmp_path)) as host, host.session("s") as session, session.run() as run:
        await run.resolve_tools([hanging.tool.copy(timeout=0.05)])
        await run.record(USER)
        assert MAY_HAVE in (await run.call_tool(PAY)).text.lower()
        await run.record(reply(PAY))
        assert [one.call_id for one in session.in_doubt] == ["c1"]
        assert MAY_HAVE in (await run.call_tool(ToolCall("c2", "pay", {"path": "ann"}))).text


@pytest.mark.both_loops
async def test_a_call_that_is_cancelled_while_it_is_written_that_it_begins_did_not_run_and_is_in_no_doubt(
    tmp_path: Path,
) -> None:
    class Slow(OwnStore):
        async def open_session(self, session_id: str, *, wait: float = 5.0) -> Any:
            log = await SqlStore(tmp_path).open_session(session_id, wait=wait)
            append = log.append_journal

            async def append_slowly(entries: Any, **more: Any) -> None:
                if any(entry["kind"] == "began" for entry in entries):
                    writes.set()
                    await go_on.wait()
                await append(entries, **more)

            log.append_journal = append_slowly
            return log

    writes, go_on, ran = anyio.Event(), anyio.Event(), list[str]()
    calls = [ToolCall(f"c{n}", "pay", {"path": f"to {n}"}) for n in range(3)]
    scopes = {call.id: anyio.CancelScope() for call in calls}

    async def pay(arguments: dict[str, Any]) -> str:
        ran.append(arguments["path"])
        return "paid"

    async with Host(store=cast("Any", Slow())) as host, host.session("s") as session, session.run() as run:
        await run.resolve_tools([make("pay", pay)])
        await run.record([USER, reply(*calls)])

        async def one(call: ToolCall) -> None:
            with scopes[call.id]:
                await run.call_tool(call)

        async with anyio.create_task_group() as group:
            for call in calls:
                group.start_soon(one, call)
            await writes.wait()
            await anyio.wait_all_tasks_blocked()
            scopes["c0"].cancel()
            scopes["c2"].cancel()
            await anyio.wait_all_tasks_blocked()
            go_on.set()
        assert ran == ["to 1"]
        assert session.in_doubt == []
        assert [MAY_HAVE in message["content"] for message in session.messages[2:]] == [False] * 3


@pytest.mark.both_loops
async def test_a_call_that_was_cancelled_is_in_doubt(tmp_path: Path) -> None:
    hanging = Hanging()
    async with Host(store=SqlStore(tmp_path)) as host, host.session("s") as session:
        async with anyio.create_task_group() as group:

            async def work() -> None:
                async with session.run() as run:
                    await run.resolve_tools([hanging.tool])
                    await run.record([USER, reply(PAY, ToolCall("c2", "pay", {"path": "bob"}))])
                    await run.call_tool(PAY)

            group.start_soon(work)
            await hanging.entered.wait()
            group.cancel_scope.cancel()
        cancelled, never = (message["content"] for message in session.messages[2:])
        assert ("was cancelled while it ran" in cancelled, MAY_HAVE in cancelled.lower()) == (True, True)
        assert "not run" in never
        assert [one.call_id for one in session.in_doubt] == ["c1"]
    async with Host(store=SqlStore(tmp_path)) as host, host.session("s") as session:
        assert [one.call_id for one in session.in_doubt] == ["c1"]


@pytest.mark.parametrize("kind", ["sqlite", "memory"])
async def test_a_call_whose_time_is_up_is_in_doubt(tmp_path: Path, kind: str) -> None:
    store = SqlStore(tmp_path) if kind == "sqlite" else MemoryStore()
    async with Host(store=store) as host, host.session("s") as session, session.run() as run:
        await run.resolve_tools([Hanging().tool.copy(timeout=0.05)])
        await run.record([USER, reply(PAY)])
        assert MAY_HAVE in (await run.call_tool(PAY)).text
        assert [one.call_id for one in run.in_doubt] == ["c1"]
    async with Host(store=store) as host, host.session("s") as session:
        assert [one.call_id for one in session.in_doubt] == ["c1"]


async def test_a_tool_can_say_that_it_does_not_know(bank: Bank) -> None:
    async def pay(arguments: dict[str, Any]) -> str:
        raise ToolError("the bank did not answer", in_doubt=True)

    async with bank.run() as (session, run):
        await run.resolve_tools([make("pay", pay)])
        await run.record([USER, reply(PAY)])
        assert (await run.call_tool(PAY)).text == "the bank did not answer"
        assert [one.call_id for one in session.in_doubt] == ["c1"]


async def test_a_tool_that_fails_has_ended(bank: Bank) -> None:
    async def pay(arguments: dict[str, Any]) -> str:
        raise ToolError("no such account")

    async with bank.run() as (session, run):
        await run.resolve_tools([make("pay", pay)])
        await run.record([USER, reply(PAY)])
        await run.call_tool(PAY)
        assert session.in_doubt == []


async def test_a_call_that_runs_is_in_no_doubt_and_equal_ones_beside_it_are_not_asked_about(tmp_path: Path) -> None:
    seen: list[int] = []

    async def pay(arguments: dict[str, Any]) -> str:
        await anyio.sleep(0.02)
        seen.append(len(session.in_doubt))
        return "paid"

    async with Host(store=SqlStore(tmp_path)) as host, host.session("s") as session, session.run() as run:
        await run.resolve_tools([make("pay", pay)])
        calls = [ToolCall(f"c{number}", "pay", {}) for number in range(3)]
        await run.record([USER, reply(*calls)])
        async with anyio.create_task_group() as group:
            for call in calls:
                group.start_soon(run.call_tool, call)
    assert seen == [0, 0, 0]


# --- loops that run their tools elsewhere ---


async def test_what_was_judged_only_is_not_run_and_what_was_begun_is_in_doubt(bank: Bank) -> None:
    others = [ToolCall("c2", "pay", {"path": "bob"}), ToolCall("c3", "pay", {"path": "cid"})]
    async with bank.run() as (_, run):
        await run.record([USER, reply(PAY, *others)])
        await run.judge(PAY)
        begun, supplied = await run.judge(others[0]), await run.judge(others[1])
        assert await begun.begin() == begun.effect_id
        await supplied.begin()
        await supplied.supply("paid elsewhere")
        bank.die()
    async with bank.run() as (session, _):
        first, second, third = (message["content"] for message in session.messages[2:])
        assert "was not run" in first
        assert ("not run" in second, MAY_HAVE in second) == (False, True)
        assert third == "paid elsewhere"
        assert [one.effect_id for one in session.in_doubt] == [begun.effect_id]
    async with bank.run(bank.dead) as (session, run):
        assert [one.call_id for one in session.in_doubt] == ["c2"]
        await run.prepare_messages()
        first, second, third = (message["content"] for message in session.messages[2:])
        assert ("not run" in first, MAY_HAVE in second, third) == (True, True, "paid elsewhere")


# --- calls without a message ---


async def relay(arguments: dict[str, Any], context: ToolContext) -> ToolResult:
    """Pay twice."""
    await context.call_tool("pay", {"path": "ann"})
    return await context.call_tool("pay", {"path": "bob"})


async def test_of_calls_that_a_tool_makes_the_one_in_which_the_process_died_is_told_beside_it(bank: Bank) -> None:
    twice = ToolCall("c1", "relay", {})

    async def pay(arguments: dict[str, Any], context: ToolContext) -> str:
        bank.paid.append(context.effect_id)
        if arguments["path"] == "bob":
            bank.die()
        return "paid"

    async with bank.run() as (_, run):
        await run.resolve_tools([make("pay", pay), make("relay", relay)])
        await run.record([USER, reply(twice)])
        await run.call_tool(twice)
    async with bank.run(bank.dead, approver=Person(granted=True)) as (session, run):
        outer, inner = run.in_doubt
        assert (outer.name, inner.name, inner.parent_id, inner.arguments) == ("relay", "pay", "c1", '{"path":"bob"}')
        before = bank.paid[:]
        await run.resolve_tools([make("pay", pay), make("relay", relay)])
        await run.call_tool(twice)
        assert session.in_doubt == []
    assert bank.paid == before * 2  # what is made again has the ids that it had


async def test_a_run_without_a_transcript_knows_what_began(bank: Bank) -> None:
    async with bank.run(transcript=False) as (session, run):
        await run.call_tool(PAY)
        assert session.in_doubt == []
    assert bank.kinds() == ["began", "done"]
    person = Person(granted=True)
    async with bank.run(bank.dead, transcript=False, approver=person) as (session, run):
        assert [one.call_id for one in run.in_doubt] == ["c1"]
        await run.call_tool(ToolCall("c7", "pay", {"path": "ann"}))
        assert session.in_doubt == []
        await run.call_tool(ToolCall("c8", "pay", {"path": "ann"}))
    assert len(person.asked) == 1
    assert [bank.paid.count(effect) for effect in bank.paid] == [2, 2, 1]


async def test_what_sessions_that_are_over_have_left_is_known_to_any_host_of_the_store(bank: Bank) -> None:
    async def until_it_dies(arguments: dict[str, Any]) -> str:
        async with Host(store=SqlStore(bank.live)) as other:
            assert await other.in_doubt() == {"s": None}  # it may run
        raise ToolError("the bank did not answer", in_doubt=True)

    async with bank.run() as (session, run):
        await run.resolve_tools([make("pay", until_it_dies)])
        await run.record([USER, reply(PAY)])
        await run.call_tool(PAY)
        (call,) = session.in_doubt
    async with Host(store=SqlStore(bank.live)) as host:
        assert await host.in_doubt() == await host.in_doubt("s") == {"s": [call]}
        assert await host.in_doubt("another") == {}
        async with host.session("s") as session:
            assert await host.in_doubt() == {}  # the host's own session tells of it
            await session.settle("c1", "paid")
        assert await host.in_doubt() == {}


class Interrupted:
    """A store whose first read of each session is cut off."""

    def __init__(self, folder: Path) -> None:
        self._stored = SqlStore(folder)
        self._reads: set[str] = set()

    async def read_session(self, session_id: str) -> Any:
        if session_id not in self._reads:
            self._reads.add(session_id)
            raise StoreError("the store", "the line was lost")
        return await self._stored.read_session(session_id)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stored, name)


async def test_a_read_that_is_cut_off_leaves_no_call_unknown(bank: Bank) -> None:
    async with bank.run(transcript=False) as (_, run):
        await run.call_tool(PAY)
    async with Host(store=cast("Store", Interrupted(bank.dead))) as host:
        assert [call.call_id for calls in (await host.in_doubt()).values() for call in calls or ()] == ["c1"]


@pytest.mark.parametrize("arrives", ["before", "after", "never"])
async def test_a_call_whose_result_is_handed_on_has_ended_once_it_is_confirmed(bank: Bank, arrives: str) -> None:
    async def pay(arguments: dict[str, Any]) -> str:
        if arguments["path"] == "bob":
            bank.die()
        return "paid"

    async with bank.run(transcript=False) as (session, run):
        await run.resolve_tools([make("pay", pay)])
        judged = await run.judge(PAY)
        await judged.execute(confirms=True)
        assert run.in_doubt == session.in_doubt == []
        if arrives == "before":
            judged.confirm()
        await (await run.judge(ToolCall("c2", "pay", {"path": "bob"}))).execute()
        if arrives != "before":
            judged.confirm(arrived=arrives == "after")
        lost = ["c1"] if arrives == "never" else []
        assert [one.call_id for one in run.in_doubt] == lost
    async with bank.run(bank.dead, transcript=False) as (session, _):
        assert [one.call_id for one in session.in_doubt] == (["c2"] if arrives == "before" else ["c1", "c2"])


async def test_a_result_of_which_nobody_says_that_it_has_arrived_leaves_its_call_in_doubt_when_the_run_ends() -> None:
    async with Host() as host, host.session("s") as session:
        async with session.run(transcript=False) as run:
            await run.resolve_tools([make("pay")])
            judged = await run.judge(PAY)
            await judged.execute(confirms=True)
            assert session.in_doubt == []
        judged.confirm()
        assert [one.call_id for one in session.in_doubt] == ["c1"]


@pytest.mark.heavy
async def test_the_journal_of_a_run_without_a_transcript_is_shortened_meanwhile(
    bank: Bank, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hooksdk._transcript.stored.MANY_VOID", 100)
    monkeypatch.setattr("hooksdk._transcript.rewriting.MIN_VOID_BYTES", 1000)
    async with bank.run(transcript=False) as (session, run):
        await run.resolve_tools([make("pay"), make("hang", Hanging().pay, timeout=0.05)])
        await run.call_tool(ToolCall("c0", "hang", {}))
        for number in range(200):
            await run.call_tool(ToolCall(f"c{number}", "pay", {}))
        assert len(bank.journal()) < 150
        assert [one.name for one in session.in_doubt] == ["hang"]
    async with bank.run() as (session, _):
        assert [one.name for one in session.in_doubt] == ["hang"]


# --- the store ---


class Counting(OwnStore):
    """A store that outlives its host, and counts the steps that write to its journal."""

    def __init__(self) -> None:
        super().__init__()
        self.steps: list[Sequence[dict[str, Any]]] = []
        self.full = False

    async def open_session(self, session_id: str, *, wait: float = 5.0) -> Any:
        log = await super().open_session(session_id, wait=wait)
        append, store = log.append_journal, self

        async def counted(entries: Sequence[dict[str, Any]], *, verify: bool = False) -> None:
            await anyio.sleep(0.005)
            if store.full:
                raise StoreError("here", "no space left")
            store.steps.append(entries)
            await append(entries, verify=verify)

        log.append_journal, log.volatile = counted, False
        return log

    @property
    def began(self) -> list[int]:
        """How many calls each step has that begins some."""
        counts = [sum(entry["kind"] == "began" for entry in step) for step in self.steps]
        return [count for count in counts if count]


async def call_all(run: Run, calls: Sequence[ToolCall]) -> list[Any]:
    answers: list[Any] = [None] * len(calls)

    async def one(number: int) -> None:
        try:
            answers[number] = await run.call_tool(calls[number])
        except StoreError as error:
            answers[number] = error

    async with anyio.create_task_group() as group:
        for number in range(len(calls)):
            group.start_soon(one, number)
    return answers


@pytest.mark.both_loops
async def test_calls_that_begin_at_once_share_a_step_of_the_store() -> None:
    store: Any = Counting()
    async with Host(store=store) as host, host.session("s") as session, session.run() as run:
        await run.resolve_tools([make("pay")])
        calls = [ToolCall(f"c{number}", "pay", {"path": str(number)}) for number in range(10)]
        await run.record([USER, reply(*calls)])
        await call_all(run, calls)
    assert sum(store.began) == 10
    assert len(store.began) <= 2


async def test_a_call_that_cannot_be_written_down_does_not_run() -> None:
    ran: list[str] = []

    async def pay(arguments: dict[str, Any]) -> str:
        ran.append(arguments["path"])
        return "paid"

    store: Any = Counting()
    async with Host(store=store) as host, host.session("s") as session, session.run() as run:
        await run.resolve_tools([make("pay", pay)])
        calls = [ToolCall(f"c{number}", "pay", {"path": str(number)}) for number in range(3)]
        await run.record([USER, reply(*calls)])
        store.full = True
        answers = await call_all(run, calls)
        store.full = False
        assert all(isinstance(answer, StoreError) for answer in answers)
        assert session.in_doubt == []
    messages, _ = await store.read_session("s")
    assert ["was not run" in message["content"] for message in messages[2:]] == [True] * 3
    assert ran == []


# --- effect ids ---


async def test_each_call_has_an_effect_id_of_its_own_also_under_ids_that_repeat(bank: Bank) -> None:
    bank.dead.mkdir()
    async with bank.run() as (_, run):
        for _ in range(2):
            await run.record([USER, reply(PAY, PAY)])
            await run.call_tool(PAY)
            await run.call_tool(PAY)
    assert len(set(bank.paid)) == 4


async def test_the_effect_id_is_known_wherever_the_call_is(bank: Bank) -> None:
    person = Person(granted=True)

    class Asks:
        @hooks.before_tool_call
        async def ask(self, event: BeforeToolCall) -> Ask:
            return Ask("Pay?")

    async with bank.run(None, Asks, approver=person) as (_, run):
        await run.record([USER, reply(PAY)])
        judged = await run.judge(PAY)
        await judged.execute()
    (began,) = (entry for entry in bank.journal() if entry.get("kind") == "began")
    assert {person.asked[0].effect_id, judged.effect_id, began["effect"]} == {bank.paid[0]}


# --- servers, gateways, commands ---


@pytest.mark.heavy
async def test_an_mcp_server_is_told_the_effect_id_and_one_that_dies_leaves_its_call_in_doubt(tmp_path: Path) -> None:
    from hooksdk.mcp import McpServers
    from tests.hooksdk.mcp_servers import script

    tools = [{"name": name, "inputSchema": {"type": "object"}} for name in ("pay", "die")]
    (tmp_path / "script.json").write_text(json.dumps({"tools": tools}))
    async with (
        McpServers({"bank": script("scripted", str(tmp_path))}) as servers,
        Host() as host,
        host.session("s") as session,
        session.run() as run,
    ):
        await run.resolve_tools(servers.tools())
        await run.record([USER, reply(ToolCall("c1", "pay", {}), ToolCall("c2", "die", {}))])
        judged = await run.judge(run.pending[0])
        await judged.execute()
        assert MAY_HAVE in (await run.call_tool(run.pending[0])).text
        (call,) = session.in_doubt
    sent: list[dict[str, Any]] = [json.loads(line) or {} for line in (tmp_path / "meta").read_text().splitlines()]
    assert [one["hooksdk/effect-id"] for one in sent if "hooksdk/effect-id" in one] == [
        judged.effect_id,
        call.effect_id,
    ]


@pytest.mark.heavy
async def test_the_client_of_a_gateway_that_died_is_asked_in_its_next_session(bank: Bank) -> None:
    from hooksdk.gateway import Gateway
    from tests.hooksdk.gateways import Source, client, text_of

    async def pay(store: Path, approver: Approver) -> str:
        async with (
            Host(store=SqlStore(store)) as host,
            Gateway(host, Source(listed=bank.tools()), approver=approver, folder=bank.live.parent) as gateway,
            client(gateway) as connected,
        ):
            return text_of(await connected.call_tool("pay", {"path": "ann"}))

    yes, no = Person(granted=True), Person(granted=False)
    assert await pay(bank.live, no) == "paid"
    assert MAY_HAVE in await pay(bank.dead, no)
    assert await pay(bank.dead, yes) == "paid"
    assert await pay(bank.dead, no) == "paid"  # it is settled
    assert [len(person.asked) for person in (yes, no)] == [1, 1]
    assert [bank.paid.count(effect) for effect in bank.paid] == [2, 2, 1]


class Full(OwnStore):
    """A folder on a disk where there is no room for what begins."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.memory = cast("Any", SqlStore(folder))

    async def open_session(self, session_id: str, *, wait: float = 5.0) -> Any:
        log = await self.memory.open_session(session_id, wait=wait)
        append = log.append_journal

        async def append_unless_it_begins(entries: Any, **more: Any) -> None:
            if any(entry["kind"] == "began" for entry in entries):
                raise OSError(28, "No space left on device")
            await append(entries, **more)

        log.append_journal = append_unless_it_begins
        return log


async def test_a_payment_that_a_gateway_cannot_write_down_ends_no_doubt(bank: Bank) -> None:
    from hooksdk.gateway import Gateway
    from tests.hooksdk.gateways import Source, client, text_of

    async def pay(store: Any, approver: Approver) -> str:
        async with (
            Host(store=store) as host,
            Gateway(host, Source(listed=bank.tools()), approver=approver, folder=bank.live.parent) as gateway,
            client(gateway) as connected,
        ):
            return text_of(await connected.call_tool("pay", {"path": "ann"}))

    yes, no = Person(granted=True), Person(granted=False)
    assert await pay(SqlStore(bank.live), no) == "paid"
    assert "was not run" in await pay(Full(bank.dead), yes)
    assert MAY_HAVE in await pay(SqlStore(bank.dead), no)
    assert [len(person.asked) for person in (yes, no)] == [1, 1]
    assert len(bank.paid) == 1


@pytest.mark.heavy
async def test_a_command_shows_what_is_in_doubt_and_settles_it(bank: Bank) -> None:
    from tests.hooksdk.commands import Done, hooksdk

    await pay_and_die(bank)
    with closing(sqlite3.connect(bank.dead / "hooksdk.db")) as copied, copied:
        copied.execute("UPDATE hooksdk_sessions SET expires = 0")  # the process that holds it is this one, and lives
    where = ("--store", str(bank.dead))

    async def command(*arguments: str) -> Done:
        return await hooksdk("sessions", *arguments, *where, folder=bank.live.parent)

    shown = await command("show", "s")
    assert 'may have taken effect: pay {"path":"ann"} began' in shown.out
    assert [one["call_id"] for one in (await command("show", "s", "--json")).json()["in_doubt"]] == ["c1"]
    done = await command("settle", "s", "c1", "no such account", "--failed")
    assert (done.code, done.out) == (0, "c1  settled  pay\n")
    again = await command("settle", "s", "c1", "paid")
    assert (again.code, "no call of this id is in doubt" in again.err) == (1, True)
    async with bank.run(bank.dead) as (session, run):
        assert (run.pending, run.in_doubt) == ((), [])
        assert session.messages[-1]["content"] == "Error: no such account"


def test_plain_programs_have_all_of_it(bank: Bank) -> None:
    from hooksdk import sync

    bank.dead.mkdir()
    with sync.Host(store=SqlStore(bank.live)) as host, host.session("s") as session:
        with session.run() as run:
            run.resolve_tools([make("pay")])
            run.record([USER, reply(PAY)])
            judged = run.judge(PAY)
            effect = judged.begin()
        assert [(one.call_id, one.effect_id) for one in session.in_doubt] == [("c1", effect)]
        session.settle("c1", "paid")
        assert session.in_doubt == []


@pytest.mark.heavy
async def test_calls_of_a_script_are_written_down_like_any_other(tmp_path: Path) -> None:
    pytest.importorskip("pydantic_monty", reason="code mode needs the extra 'code'")
    from builtin_plugins.tool_search import ToolSearch

    config = {"plugins": {"tool_search": {"config": {"enabled": "on", "mode": "code"}}}}
    store, seen = SqlStore(tmp_path), list[str]()

    async def pay(arguments: dict[str, Any]) -> str:
        seen.extend(one["kind"] for one in (await store.read_session("s"))[1] if one["kind"] in {"began", "done"})
        return "paid"

    async with Host(plugins=[ToolSearch], config=config, store=store) as host, host.session("s") as session:
        async with session.run() as run:
            await run.resolve_tools([make("pay", pay, core=False)])
            code = 'await call("pay", {"path": "ann"})\nawait call("pay", {"path": "bob"})'
            script = ToolCall("c1", "tool_search_code", {"code": code})
            await run.record([USER, reply(script)])
            result = await run.call_tool(script)
            assert not result.is_error, result.text
        assert session.in_doubt == []
    assert seen == ["began", "began", "began", "began", "done", "began"]


async def test_in_memory_too_a_call_that_was_begun_is_in_doubt_after_a_pause_and_an_equal_one_ends_the_doubt() -> None:
    store = MemoryStore()
    async with Host(store=store) as host, host.session("s") as session, session.run() as run:
        await run.resolve_tools([make("pay")])
        await run.record([USER, reply(PAY)])
        await (await run.judge(PAY)).begin()
        run.pause("later")
    person = Person(granted=True)
    async with Host(store=store, approver=person) as host, host.session("s") as session, session.run() as run:
        await run.resolve_tools([make("pay")])
        assert [one.call_id for one in run.in_doubt] == ["c1"]
        assert (await run.call_tool(PAY)).text.startswith("ran with")
        assert (len(person.asked), session.in_doubt) == (1, [])
    async with Host(store=store) as host, host.session("s") as session:
        assert session.in_doubt == []
