"""An approver that keeps a record of each question: the record is the authority, and whatever answers it, answers it once."""

from __future__ import annotations

import contextlib
import itertools
import json
import stat
import sys
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from subprocess import PIPE, Popen
from typing import Any

import anyio
import pytest

from hooksdk import Approval, ApprovalRequest, MemoryStore, Tool, ToolCall, hooks
from hooksdk.approvals import Remembered
from hooksdk.desk import ApprovalDesk, ApprovalRecord, ApprovalRecords, NotWaiting
from hooksdk.errors import ApprovalPending, StoreError
from hooksdk.hooks import Ask, BeforeToolCall, ResolveSecrets, Rewrite, RewriteToolCall, Secrets
from hooksdk.stores import SqlStore, open_store
from tests.stage import Stage, make, playing

pytestmark = pytest.mark.anyio
VALUE = "hunter2-password"
HOUR = 3600.0


class Clock:
    """Says what time it is, as the test sets it."""

    def __init__(self) -> None:
        self.now = 1_000_000.0

    def __call__(self) -> float:
        return self.now


def place(kind: str, request: pytest.FixtureRequest, folder: Path) -> str:
    """What a configuration calls an empty store of this kind."""
    spec = {"jsonl": f"jsonl:{folder / 'kept'}", "sqlite": f"sqlite:///{folder / 'kept.db'}"}
    return spec[kind] if kind in spec else request.getfixturevalue("postgres").url()


class Asks:
    @hooks.before_tool_call(tools="act")
    def ask(self, event: BeforeToolCall) -> Ask:
        return Ask("Pay?", "at once", "critical")


class Gives:
    @hooks.resolve_secrets
    def give(self, event: ResolveSecrets) -> Secrets:
        return Secrets(dict.fromkeys(event.names, VALUE))


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def records(tmp_path: Path, clock: Clock) -> ApprovalRecords:
    return ApprovalRecords(SqlStore(tmp_path / "kept"), clock=clock)


async def attempt(stage: Stage, arguments: object = None) -> str:
    """Call `act` as a model would, again as a new call; its result, or `waits`."""
    try:
        return (await stage.call("act", {"amount": 5} if arguments is None else arguments)).text
    except ApprovalPending:
        return "waits"


async def states(records: ApprovalRecords) -> list[str]:
    return [record.state for record in await records.list()]


def at_desk(records: ApprovalRecords, *plugins: Any, **options: Any) -> Any:
    """A stage whose questions go to a desk that does not hold the call up."""
    desk = ApprovalDesk(records, wait=options.pop("wait", 0), channels=options.pop("channels", ()))
    return playing(*(plugins or (Asks,)), approver=desk, **options)


# A question and its answer


@pytest.mark.both_loops
async def test_a_call_waits_under_a_number_and_the_same_call_takes_the_answer_that_was_given_meanwhile(
    records: ApprovalRecords,
) -> None:
    async with at_desk(records) as stage:
        assert await attempt(stage) == "waits"
        (record,) = await records.list()
        assert (record.number, record.state, record.tool, record.title) == (1, "pending", "host:core:act", "Pay?")
        assert (record.arguments, record.session) == ({"amount": 5}, "s")
        await records.answer(1, Approval(True, by="ann"))
        assert await attempt(stage) == "done"
    assert await states(records) == ["used"]


async def test_a_no_reaches_the_model_with_its_reason_and_is_used_once(records: ApprovalRecords) -> None:
    async with at_desk(records) as stage:
        await attempt(stage)
        await records.answer(1, Approval(False, "not this month", by="ann"))
        assert await attempt(stage) == "Blocked: 'Pay?' was not approved: not this month"
        assert await attempt(stage) == "waits"
    assert await states(records) == ["used", "pending"]


async def test_a_call_that_is_made_again_too_early_waits_under_the_same_number(records: ApprovalRecords) -> None:
    async with at_desk(records) as stage:
        assert [await attempt(stage) for _ in range(3)] == ["waits"] * 3
    assert await states(records) == ["pending"]


@pytest.mark.both_loops
async def test_a_call_is_held_until_somebody_answers_elsewhere(records: ApprovalRecords) -> None:
    async def answer_when_asked() -> None:
        while not await records.list():
            await anyio.sleep(0.01)
        await records.answer(1, Approval(True, by="ann"))

    async with at_desk(records, wait=60) as stage, anyio.create_task_group() as group:
        group.start_soon(answer_when_asked)
        assert await attempt(stage) == "done"


@pytest.mark.both_loops
async def test_a_call_that_nobody_answers_waits_on_rather_than_being_refused(records: ApprovalRecords) -> None:
    async with at_desk(records, wait=0.01) as stage:
        assert await attempt(stage) == "waits"
    assert await states(records) == ["pending"]


async def test_a_plugin_is_told_of_a_call_that_waited_that_it_judges_it_again(records: ApprovalRecords) -> None:
    judged: list[bool] = []

    class Counts:
        @hooks.before_tool_call
        def ask(self, event: BeforeToolCall) -> Ask:
            judged.append(event.again)
            return Ask("Pay?")

    store = MemoryStore()
    async with at_desk(records, Counts, store=store) as stage:
        (written,) = await stage.reply(("act", {}))
        with pytest.raises(ApprovalPending):
            await stage.run.call_tool(written)
        stage.run.pause("waits")
    await records.answer(1, Approval(True))
    async with at_desk(ApprovalRecords(records.store, clock=Clock()), Counts, store=store) as stage:  # after a restart
        (written,) = stage.run.pending
        assert (await stage.run.call_tool(written)).text == "done"
    assert judged == [False, True]


async def test_an_answer_for_always_is_remembered_in_the_hosts_store(records: ApprovalRecords) -> None:
    store = MemoryStore()
    async with at_desk(records, store=store) as stage:
        await attempt(stage)
        await records.answer(1, Approval(True, scope="always", by="ann"))
        assert [await attempt(stage) for _ in range(3)] == ["done"] * 3
    assert [one.by for one in await Remembered(store).list()] == ["ann"]
    assert await states(records) == ["used"]


# Attacks: an answer counts for one call, and for no other


async def test_a_grant_is_not_taken_twice(records: ApprovalRecords) -> None:
    async with at_desk(records) as stage:
        await attempt(stage)
        await records.answer(1, Approval(True))
        assert [await attempt(stage) for _ in range(2)] == ["done", "waits"]
    assert await states(records) == ["used", "pending"]


@pytest.mark.both_loops
async def test_of_equal_calls_at_once_one_grant_runs_one(records: ApprovalRecords) -> None:
    ends: list[str] = []
    async with at_desk(records) as stage:
        await attempt(stage)
        await records.answer(1, Approval(True))

        async def call_it() -> None:
            ends.append(await attempt(stage))

        async with anyio.create_task_group() as group:
            for _ in range(4):
                group.start_soon(call_it)
        assert sorted(ends) == ["done", "waits", "waits", "waits"]
        assert len(stage.executed) == 1
    assert await states(records) == ["used", "pending"]


@pytest.mark.both_loops
async def test_equal_calls_that_wait_at_once_share_a_no_and_do_not_share_a_yes(records: ApprovalRecords) -> None:
    async def answer_next(granted: bool) -> None:
        while not (waiting := [one for one in await records.list() if one.state == "pending"]):
            await anyio.sleep(0.01)
        await records.answer(waiting[0].number, Approval(granted))

    for answers in ([False], [True, False]):
        ends: list[str] = []
        async with at_desk(records, wait=100) as stage, anyio.create_task_group() as group:

            async def call_it(stage: Stage = stage, ends: list[str] = ends) -> None:
                ends.append((await attempt(stage)).partition(":")[0])

            for _ in range(2):
                group.start_soon(call_it)
            for granted in answers:
                await answer_next(granted)
        assert sorted(ends) == (["Blocked", "Blocked"] if len(answers) == 1 else ["Blocked", "done"])


async def test_neither_a_question_nor_a_grant_outlives_its_expiry(records: ApprovalRecords, clock: Clock) -> None:
    async with at_desk(records) as stage:
        await attempt(stage, {"amount": 1})
        await attempt(stage, {"amount": 2})
        await records.answer(2, Approval(True))
        clock.now += 24 * HOUR + 1
        with pytest.raises(NotWaiting, match="approval 1 has expired"):
            await records.answer(1, Approval(True))
        assert [await attempt(stage, {"amount": amount}) for amount in (1, 2)] == ["waits", "waits"]
    assert await states(records) == ["expired", "expired", "pending", "pending"]


@pytest.mark.parametrize("seconds", [-HOUR, -30 * 24 * HOUR])
async def test_a_clock_that_is_set_back_lets_no_grant_live_on(
    seconds: float, records: ApprovalRecords, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    async with at_desk(records) as stage:
        await attempt(stage)
        await records.answer(1, Approval(True))
        clock.now += seconds
        assert await attempt(stage) == "waits"
    assert await states(records) == ["expired", "pending"]
    assert "the clock was set back" in caplog.text


async def test_a_clock_that_is_set_right_by_seconds_expires_nothing(records: ApprovalRecords, clock: Clock) -> None:
    async with at_desk(records) as stage:
        await attempt(stage)
        await records.answer(1, Approval(True))
        clock.now -= 5
        assert await attempt(stage) == "done"


@pytest.mark.parametrize(
    "arguments",
    [
        {"amount": 50},
        {"amount": 5.0},
        {"amount": "5"},
        {"amount": 5, "approved": True},
        {"amount": 5, "approval": 1},
        {},
    ],
)
async def test_other_arguments_are_another_question_also_those_that_claim_an_approval(
    arguments: dict[str, Any], records: ApprovalRecords
) -> None:
    async with at_desk(records) as stage:
        await attempt(stage)
        await records.answer(1, Approval(True))
        assert await attempt(stage, arguments) == "waits"
        assert stage.executed == []
    assert await states(records) == ["granted", "pending"]


async def test_arguments_that_a_plugin_rewrites_after_the_grant_are_another_question(records: ApprovalRecords) -> None:
    amounts = [5, 5_000]

    class Rewrites:
        @hooks.rewrite_tool_call
        def rewrite(self, event: RewriteToolCall) -> Rewrite:
            return Rewrite({"amount": amounts.pop(0)})

    async with at_desk(records, Asks, Rewrites) as stage:
        await attempt(stage)
        await records.answer(1, Approval(True))
        assert await attempt(stage) == "waits"
        assert stage.executed == []
    assert [record.arguments for record in await records.list()] == [{"amount": 5}, {"amount": 5_000}]


async def test_another_session_and_another_requester_cannot_take_the_answer(records: ApprovalRecords) -> None:
    ann, bob = {"id": "ann"}, {"id": "bob"}
    store = MemoryStore()
    async with at_desk(records, store=store, requester=ann) as stage:
        await attempt(stage)
        await records.answer(1, Approval(True))
    async with at_desk(records, store=store, requester=bob) as stage:
        assert await attempt(stage) == "waits"
    async with (
        at_desk(records, store=store, requester=ann) as stage,
        stage.host.session("other") as session,
        session.run(requester=ann) as run,
    ):
        await run.resolve_tools([make("act", properties={})])
        stage.run, stage.session = run, session
        assert await attempt(stage) == "waits"
    assert await states(records) == ["granted", "pending", "pending"]
    assert [record.requester for record in await records.list()] == ["ann", "bob", "ann"]


async def test_another_definition_or_another_question_is_asked_anew(records: ApprovalRecords) -> None:
    class AsksMore:
        @hooks.before_tool_call
        def ask(self, event: BeforeToolCall) -> Ask:
            return Ask("Is it within the budget?")

    def tool(description: str) -> list[Tool]:
        return [make("act", properties={}, description=description)]

    async with at_desk(records, tools=tool("Pay.")) as stage:
        await attempt(stage)
        await records.answer(1, Approval(True))
    async with at_desk(records, tools=tool("Pay somebody.")) as stage:
        assert await attempt(stage) == "waits"
    async with at_desk(records, Asks, AsksMore, tools=tool("Pay.")) as stage:
        assert await attempt(stage) == "waits"
    assert await states(records) == ["granted", "pending", "pending"]


async def test_a_question_takes_one_answer(records: ApprovalRecords) -> None:
    async with at_desk(records) as stage:
        await attempt(stage)
        await records.answer(1, Approval(False, by="bob"))
        with pytest.raises(NotWaiting, match="approval 1 was answered already"):
            await records.answer(1, Approval(True, by="eve"))
        with pytest.raises(NotWaiting, match="approval 7 is none that waits here"):
            await records.answer(7, Approval(True))
        assert (await attempt(stage)).startswith("Blocked")


ANSWER = """
import sys, anyio
from hooksdk.approvals import Approval
from hooksdk.desk import ApprovalRecords, NotWaiting
from hooksdk.stores import open_store

async def answer():
    sys.stdin.readline()
    store = open_store(sys.argv[1])
    try:
        await ApprovalRecords(store, clock=lambda: 1_000_000.0).answer(1, Approval(True, by=sys.argv[2]))
    finally:
        await store.aclose()

try:
    anyio.run(answer)
except NotWaiting:
    print("too late")
"""


@pytest.mark.in_ci(kind=["jsonl"])
@pytest.mark.heavy
@pytest.mark.parametrize("kind", ["jsonl", "sqlite", "postgres"])
async def test_of_two_processes_that_answer_at_once_one_does(
    kind: str, request: pytest.FixtureRequest, tmp_path: Path, clock: Clock
) -> None:
    spec = place(kind, request, tmp_path)
    store = open_store(spec)
    records = ApprovalRecords(store, clock=clock)
    async with at_desk(records) as stage:
        await attempt(stage)
    command = [sys.executable, "-c", ANSWER, spec]
    both = [Popen([*command, by], stdin=PIPE, stdout=PIPE, text=True) for by in ("ann", "bob")]
    for process in both:
        assert process.stdin
        process.stdin.write("now\n")
        process.stdin.flush()
    said = {by: process.communicate(timeout=60)[0] for by, process in zip(("ann", "bob"), both, strict=True)}
    (record,) = await records.list()
    assert record.answer is not None
    assert [by for by, text in said.items() if not text] == [record.answer.by]
    await store.aclose()


ASKS = """
import sys, anyio
from hooksdk import ApprovalRequest, Tool, ToolCall
from hooksdk.desk import ApprovalRecords
from hooksdk.stores import open_store

async def ask():
    store = open_store(sys.argv[1])
    records = ApprovalRecords(store)
    call = ToolCall("c1", "pay", {"amount": 5})
    request = ApprovalRequest(title="Pay?", session_id="s", call=call, tool=Tool(name="pay", source="host"), arguments=call.arguments)
    while True:
        record, answer = await records.ask(request)
        if answer is not None:
            print(record.number, flush=True)

anyio.run(ask)
"""


@pytest.mark.in_ci(False)
@pytest.mark.heavy
@pytest.mark.parametrize("kind", ["jsonl", "sqlite", "postgres"])
async def test_of_many_processes_each_grant_is_taken_by_one_and_none_is_lost_also_when_one_is_killed(
    kind: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    spec = place(kind, request, tmp_path)
    store = open_store(spec)
    records = ApprovalRecords(store)
    processes = [Popen([sys.executable, "-c", ASKS, spec], stdout=PIPE, text=True) for _ in range(3)]
    answered = 0
    with anyio.fail_after(120):
        while answered < 12:
            for record in await records.list(waiting=True):
                await records.answer(record.number, Approval(True))
                answered += 1
                if answered == 6:
                    processes[0].kill()
            await anyio.sleep(0.01)
        while any(one.state == "granted" for one in await records.list()):
            await anyio.sleep(0.01)
    for process in processes[1:]:
        process.kill()
    taken = [int(line) for process in processes for line in process.communicate()[0].split()]
    used = [one.number for one in await records.list() if one.state == "used"]
    assert len(set(taken)) == len(taken)
    assert set(taken) <= set(used)
    assert len(used) - len(taken) <= len(processes)  # what was taken as a process was killed may not have been told
    assert [one.number for one in await records.list()] == [*range(1, len(used) + 2)][: len(await records.list())]
    await store.aclose()


class Breaking:
    """A store whose operation of this number fails: with `torn` after it was done."""

    def __init__(self, store: MemoryStore, number: int, *, torn: bool) -> None:
        self.store, self.left, self.torn = store, number, torn

    def __getattr__(self, name: str) -> Any:
        async def operation(*arguments: Any) -> Any:
            self.left -= 1
            if self.left == 0 and not self.torn:
                raise StoreError("place", "broken")
            answer = await getattr(self.store, name)(*arguments)
            if self.left == 0:
                raise StoreError("place", "broken")
            return answer

        return operation


@pytest.mark.parametrize("torn", [False, True])
async def test_whichever_operation_of_the_store_fails_no_answer_is_taken_twice_or_lost_before_it_was(
    torn: bool, clock: Clock
) -> None:
    number = 0
    for number in itertools.count(1):
        memory = MemoryStore()
        broken: Any = Breaking(memory, number, torn=torn)
        records, sound = ApprovalRecords(broken, clock=clock), ApprovalRecords(memory, clock=clock)
        taken = failed = 0

        async def attempt(step: Callable[[], Awaitable[Any]]) -> Any:
            nonlocal failed
            try:
                return await step()
            except StoreError:
                failed += 1
                return await step()

        async def take(records: ApprovalRecords = records) -> None:
            nonlocal taken
            taken += (await records.ask(question()))[1] is not None

        await attempt(take)
        with contextlib.suppress(NotWaiting):  # it was answered as the store failed
            await attempt(partial(records.answer, 1, Approval(True, by="ann")))
        assert [(one.number, one.state) for one in await sound.list()] == [(1, "granted")]
        await attempt(take)
        await attempt(take)
        closed, *others = [one.state for one in await sound.list()]
        assert (closed, taken + failed >= 1, taken <= 1) == ("used", True, True)
        assert others == ["pending"]
        if broken.left > 0:
            break
    assert number > 15


def question() -> ApprovalRequest:
    call = ToolCall("c1", "pay", {"amount": 5})
    return ApprovalRequest(title="Pay?", session_id="s", call=call, tool=make("pay"), arguments={"amount": 5})


# What is kept


async def test_the_record_holds_no_value_of_a_secret(records: ApprovalRecords) -> None:
    class Quotes:
        @hooks.before_tool_call
        def ask(self, event: BeforeToolCall) -> Ask | None:
            return Ask(f"Send {VALUE}?", f"it says {VALUE}") if "text" in event.arguments else None

    requester = {"id": f"ann {VALUE}"}
    async with at_desk(records, Gives, Quotes, tools=[make("act", properties={})], requester=requester) as stage:
        await stage.call("act", {"key": "{{secret:KEY}}"})
        assert await attempt(stage, {"text": f"it is {VALUE}"}) == "waits"
        (record,) = await records.list()
        assert (record.title, record.arguments) == ("Send {{secret:KEY}}?", {"text": "it is {{secret:KEY}}"})
        assert not [path for path in kept(records) if VALUE.encode() in path.read_bytes()]
        await records.answer(1, Approval(True))
        assert (await attempt(stage, {"text": f"it is {VALUE}"})).startswith("ran with")


async def test_only_its_owner_reads_what_is_kept(records: ApprovalRecords) -> None:
    async with at_desk(records) as stage:
        await attempt(stage)
    assert {stat.S_IMODE(path.stat().st_mode) for path in kept(records)} == {0o600}


def kept(records: ApprovalRecords) -> list[Path]:
    """The files of the store."""
    assert isinstance(records.store, SqlStore)
    folder = Path(str(records.store).removeprefix("sqlite:///")).parent
    return [path for path in folder.rglob("*") if path.is_file()]


async def change(records: ApprovalRecords, **fields: Any) -> None:
    """Write into the one open record, wherever each field stands; `torn` takes the place of what it asks."""
    store = records.store
    listed = await store.get_value("hooksdk.desk", "open")
    (entry,) = listed["open"].values()
    asked = json.loads(await store.get_value("hooksdk.desk.questions", entry["place"]))
    entry |= {name: value for name, value in fields.items() if name in entry}
    asked |= {name: value for name, value in fields.items() if name not in entry}
    await store.set_value("hooksdk.desk", "open", listed)
    await store.set_value("hooksdk.desk.questions", entry["place"], fields.get("torn", json.dumps(asked)))


@pytest.mark.light(every=5)
@pytest.mark.parametrize(
    "fields",
    [
        {"arguments": {"amount": 7}}, {"answer": None}, {"answer": {"granted": "yes"}}, {"questions": []}, {"made": "now"},
        {"session": "other"}, {"expires": 9e9}, {"answer": {"granted": False, "reason": "", "scope": "once", "by": ""}},
        {"digest": ""}, {"tool": "act"}, {"answer": {"granted": True, "scope": "for ever"}}, {"more": 1}, {"torn": "{"},
        {"state": "yes"}, {"torn": 7}, {"torn": "[]"},
    ],
)  # fmt: skip
async def test_a_damaged_record_is_told_and_grants_nothing(
    fields: dict[str, Any], records: ApprovalRecords, caplog: pytest.LogCaptureFixture
) -> None:
    async with at_desk(records) as stage:
        await attempt(stage)
        await records.answer(1, Approval(True))
        await change(records, **fields)
        assert await attempt(stage) == "waits"
        assert stage.executed == []
    assert "approval 1 is damaged, and counts for nothing" in caplog.text
    assert [record.number for record in await records.list()] == [2]


@pytest.mark.parametrize("state", ["granted", "yes", "", "denied"])
async def test_a_state_that_somebody_wrote_without_an_answer_grants_nothing(
    state: str, records: ApprovalRecords
) -> None:
    async with at_desk(records) as stage:
        await attempt(stage)
        await change(records, state=state)
        assert await attempt(stage) == "waits"


@pytest.mark.parametrize("damage", [[], {}, "torn", {"open": []}, {"open": {"1": {}}}, {"open": {"1": 1}, "next": "x"}])
async def test_a_damaged_list_is_told_and_refuses(
    damage: Any, records: ApprovalRecords, caplog: pytest.LogCaptureFixture
) -> None:
    await records.store.set_value("hooksdk.desk", "open", damage)
    async with at_desk(records) as stage:
        assert (await attempt(stage)).endswith("the approval could not be asked for")
    assert "the list of approvals is damaged, so nothing was approved" in caplog.text
    with pytest.raises(StoreError, match="what waits is asked anew then"):
        await records.list()


async def test_a_store_that_cannot_change_a_value_refuses_at_the_desk_alone(caplog: pytest.LogCaptureFixture) -> None:
    class Older:
        """A store as one wrote it for hooksdk 0.2.0."""

        def __init__(self) -> None:
            self._store = MemoryStore()

        def __getattr__(self, name: str) -> Any:
            if name == "change_value":
                raise AttributeError(name)
            return getattr(self._store, name)

    older: Any = Older()
    async with playing(Asks, approver=ApprovalDesk(wait=0), store=older) as stage:
        assert (await attempt(stage)).endswith("the approval could not be asked for")
        assert (await stage.call("other", {})).text
    assert "Older: records of approvals need a store with change_value(space, key, old, new)" in caplog.text
    with pytest.raises(StoreError, match=r'Give them another: ApprovalRecords\(open_store\("jsonl"\)\)'):
        ApprovalRecords(older)


async def test_a_desk_keeps_its_questions_in_the_hosts_store(tmp_path: Path) -> None:
    store, desk = SqlStore(tmp_path / "kept"), ApprovalDesk(wait=0)
    async with playing(Asks, approver=desk, store=store) as stage:
        assert await attempt(stage) == "waits"
        await ApprovalRecords(SqlStore(tmp_path / "kept")).answer(1, Approval(True))
        assert await attempt(stage) == "done"


async def test_a_host_without_a_store_keeps_them_in_memory_and_the_log_says_so(
    caplog: pytest.LogCaptureFixture,
) -> None:
    desk = ApprovalDesk(wait=0)
    async with playing(Asks, approver=desk) as stage:
        assert [await attempt(stage) for _ in range(2)] == ["waits"] * 2
        await ApprovalRecords(stage.host.store).answer(1, Approval(True))
        assert await attempt(stage) == "done"
    assert caplog.text.count("approvals that wait are in memory") == 1
    assert "`hooksdk approvals` among them" in caplog.text


async def test_a_question_on_more_than_a_person_can_read_is_refused(records: ApprovalRecords) -> None:
    async with at_desk(records) as stage:
        assert "more than a person can be asked about" in await attempt(stage, {"text": "a" * 2_000_000})
    assert await records.list() == []


async def test_a_model_that_asks_for_ever_more_is_refused(
    records: ApprovalRecords, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hooksdk.desk._records.MAX_WAITING", 3)
    async with at_desk(records) as stage:
        ends = [await attempt(stage, {"amount": amount}) for amount in range(4)]
    assert ends[:3] == ["waits"] * 3
    assert "3 calls of this session wait for an approval already" in ends[3]


async def test_old_records_go_and_their_numbers_are_not_given_again(records: ApprovalRecords, clock: Clock) -> None:
    async with at_desk(records) as stage:
        await attempt(stage)
        clock.now += 30 * 24 * HOUR
        await attempt(stage)
        assert [record.number for record in await records.list()] == [2]


# Channels


@pytest.mark.both_loops
async def test_a_channel_is_asked_after_the_record_is_made_and_its_answer_counts(records: ApprovalRecords) -> None:
    async def ann(record: ApprovalRecord) -> Approval:
        assert [one.number for one in await records.list()] == [record.number]
        return Approval(True, by="ann")

    async with at_desk(records, channels=[ann]) as stage:
        assert await attempt(stage) == "done"
    (record,) = await records.list()
    assert (record.state, record.answer) == ("used", Approval(True, by="ann"))


@pytest.mark.both_loops
async def test_a_channel_that_fails_or_answers_nonsense_is_told_and_the_call_waits(
    records: ApprovalRecords, caplog: pytest.LogCaptureFixture
) -> None:
    async def breaks(record: ApprovalRecord) -> Approval:
        raise RuntimeError("the line is dead")

    async def says_true(record: ApprovalRecord) -> Any:
        return True

    async def is_silent(record: ApprovalRecord) -> None:
        return None

    async with at_desk(records, channels=[breaks, says_true, is_silent]) as stage:
        assert await attempt(stage) == "waits"
    assert "approval 1 goes on waiting, since a way to ask failed: RuntimeError: the line is dead" in caplog.text
    assert "an approver must answer an Approval" in caplog.text
    assert await states(records) == ["pending"]


@pytest.mark.both_loops
async def test_the_first_of_two_channels_counts_and_the_other_is_let_go(records: ApprovalRecords) -> None:
    begun, ended = anyio.Event(), list[str]()

    async def slow(record: ApprovalRecord) -> Approval:
        begun.set()
        try:
            await anyio.sleep_forever()
        finally:
            ended.append("slow")
        return Approval(True, by="slow")

    async def quick(record: ApprovalRecord) -> Approval:
        await begun.wait()
        return Approval(False, by="quick")

    async with at_desk(records, wait=60, channels=[slow, quick]) as stage:
        assert (await attempt(stage)).startswith("Blocked")
    assert ended == ["slow"]
