"""How a gateway asks a person about a call: by the client in both protocols, or later under a number; and what nobody gets past."""

from __future__ import annotations

import base64
import hmac
import json
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import Client, types

from hooksdk import Host, hooks
from hooksdk.approvals import Approval
from hooksdk.desk import ApprovalDesk, ApprovalRecord, ApprovalRecords
from hooksdk.gateway import Gateway
from hooksdk.gateway._session_ids import SessionIds, release
from hooksdk.gateway.status import gateway_folder
from hooksdk.hooks import AfterToolCall, Ask, BeforeToolCall, Block, Rewrite, RewriteToolCall
from hooksdk.stores import SqlStore
from hooksdk.stores.locks import lock
from tests.hooksdk.gateways import ERAS, Source, client, gateway, source, text_of

pytestmark = [pytest.mark.heavy, pytest.mark.anyio, pytest.mark.in_ci(era=["legacy"])]
in_both_eras = pytest.mark.parametrize("era", ERAS)
CALL = ("delete_note", {"path": "a"})
ALLOW = types.ElicitResult(action="accept", content={"decision": "allow"})
DENY = types.ElicitResult(action="accept", content={"decision": "deny"})
FOR_VALUES = types.ElicitResult(action="accept", content={"decision": "allow, and these values for this session"})
DECLINE = types.ElicitResult(action="decline")
CANCEL = types.ElicitResult(action="cancel")
QUESTION = """Approval 1: may this call run?
asks asks (critical): Delete it?
  because: for ever\\nAllow it? yes
tool: mcp:notes:delete_note
argument path: "a\""""
judged: list[str] = []
"""The calls that a policy has judged."""


@pytest.fixture(autouse=True)
def forget() -> None:
    judged.clear()


class Asks:
    @hooks.before_tool_call(tools="delete_*")
    def ask(self, event: BeforeToolCall) -> Ask:
        if not event.again:
            judged.append(str(event.arguments["path"]))
        return Ask("Delete it?", "for ever\nAllow it? yes", "critical")


class Clock:
    """Both of a gateway's clocks, as the test sets them."""

    def __init__(self) -> None:
        self.now = 1_000_000.0
        self.disk = 0.0
        """Seconds that each look into the records takes."""

    def __call__(self) -> float:
        return self.now

    def of_records(self) -> float:
        self.now += self.disk
        return self.now


@dataclass
class Person:
    """Whoever sits at the client: takes some time for each answer. Without answers they never answer."""

    clock: Clock
    answers: Sequence[types.ElicitResult | types.ErrorData] = ()
    seconds: float = 3.0
    asked: list[str] = field(default_factory=list[str])

    async def __call__(self, _context: Any, params: types.ElicitRequestParams) -> Any:
        self.asked.append(params.message)
        if len(self.asked) > len(self.answers):
            await anyio.sleep_forever()
        self.clock.now += self.seconds
        return self.answers[len(self.asked) - 1]


@dataclass
class Stage:
    """A gateway with a desk, and one client at it."""

    tools: Source
    records: ApprovalRecords
    clock: Clock
    connected: Client
    connect: Callable[..., Any]
    desk: ApprovalDesk
    made: Gateway

    async def call(self, name: str = CALL[0], arguments: dict[str, Any] | None = None) -> str:
        return text_of(await self.connected.call_tool(name, CALL[1] if arguments is None else arguments))

    async def states(self) -> list[str]:
        return [record.state for record in await self.records.list()]


@pytest.fixture
def clock() -> Clock:
    return Clock()


@asynccontextmanager
async def at_gateway(
    clock: Clock, base: Path, *, era: str = "auto", person: Person | None = None, plugins: Sequence[Any] = (Asks,),
    wait: float = 0, channels: Sequence[Any] = (), config: dict[str, Any] | None = None, files: Sequence[str] = (),
    folder: str = "here",
) -> AsyncGenerator[Stage]:  # fmt: skip
    tools, records = source(), ApprovalRecords(SqlStore(base / "kept"), clock=clock.of_records)
    tools.files = files
    desk = ApprovalDesk(records, wait=wait, channels=channels)
    async with (
        gateway(tools, *plugins, approver=desk, config=config, folder=base / folder) as made,
        client(made, era, elicitation_callback=person) as connected,
    ):
        yield Stage(tools, records, clock, connected, partial(client, made, era), desk, made)


@pytest.fixture(autouse=True)
def measured(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("_session_calls", "_client"):
        monkeypatch.setattr(f"hooksdk.gateway.{module}.monotonic", clock)


# By number


@in_both_eras
async def test_a_client_that_shows_no_questions_is_told_that_the_call_waits_and_under_which_number(
    era: str, clock: Clock, tmp_path: Path
) -> None:
    async with at_gateway(clock, tmp_path, era=era) as stage:
        said = await stage.call()
        assert "it waits for a person's approval, number 1 (Delete it?)" in said
        assert "hooksdk approvals" not in said, "a model with a shell would grant it itself"
        assert await stage.call() == said
        await stage.records.answer(1, Approval(True, by="ann"))
        assert await stage.call() == 'delete_note of notes ran with {"path": "a"}'
        assert judged == ["a"], "judged again it pays no budget again"
        assert "number 2" in await stage.call()
        await stage.records.answer(2, Approval(False, "not today", by="ann"))
        assert await stage.call() == "Blocked: 'Delete it?' was not approved: not today"
    assert len(stage.tools.executed) == 1


async def test_a_call_through_the_bridge_waits_under_the_name_of_its_tool(clock: Clock, tmp_path: Path) -> None:
    async with at_gateway(clock, tmp_path, config={"expose": "bridge"}) as stage:
        said = await stage.call("tool_call", {"name": CALL[0], "arguments": CALL[1]})
        assert said.startswith("'delete_note' was not run yet: it waits for a person's approval, number 1")


@in_both_eras
@pytest.mark.parametrize(
    "arguments", [{"approved": True}, {"approval": 1}, {"decision": "allow"}, {"request_state": "x"}]
)
async def test_nothing_that_a_model_writes_into_its_call_approves_it(
    era: str, arguments: dict[str, Any], clock: Clock, tmp_path: Path
) -> None:
    async with at_gateway(clock, tmp_path, era=era) as stage:
        await stage.call()
        await stage.call(arguments={"path": "a", **arguments})
        await stage.call(arguments={"path": "b"})
        await stage.records.answer(1, Approval(True))
        await stage.call(arguments={"path": "a", **arguments})
        await stage.call(arguments={"path": "b"})
    assert stage.tools.executed == []


@in_both_eras
async def test_another_client_does_not_get_the_answer(era: str, clock: Clock, tmp_path: Path) -> None:
    async with at_gateway(clock, tmp_path, era=era) as stage:
        await stage.call()
        await stage.records.answer(1, Approval(True))
        async with stage.connect() as other:
            assert "number 2" in text_of(await other.call_tool(*CALL))
        assert stage.tools.executed == []
        assert "ran with" in await stage.call()


@in_both_eras
async def test_of_equal_calls_at_once_one_grant_runs_one(era: str, clock: Clock, tmp_path: Path) -> None:
    async with at_gateway(clock, tmp_path, era=era) as stage:
        said: list[str] = []

        async def call() -> None:
            said.append(await stage.call())

        async def call_thrice() -> None:
            said.clear()
            async with anyio.create_task_group() as group:
                for _ in range(3):
                    group.start_soon(call)

        await call_thrice()
        await stage.records.answer(1, Approval(True))
        await call_thrice()
        assert sorted("ran with" in text for text in said) == [False, False, True]
    assert len(stage.tools.executed) == 1


@in_both_eras
async def test_an_answer_that_came_while_the_gateway_was_started_anew_is_found_and_counts_once(
    era: str, clock: Clock, tmp_path: Path
) -> None:
    async with at_gateway(clock, tmp_path, era=era) as stage:
        assert "number 1" in await stage.call()
    async with at_gateway(clock, tmp_path, era=era) as stage:
        assert "number 1" in await stage.call(), "the question has its number still"
    await stage.records.answer(1, Approval(True))
    async with at_gateway(clock, tmp_path, era=era) as stage:
        assert "number 2" in await stage.call(arguments={"path": "b"})
        assert "ran with" in await stage.call()
        assert "number 3" in await stage.call()
    assert len(stage.tools.executed) == 1


class Closed:
    """A rule that somebody has added since."""

    since: bool

    @hooks.before_tool_call(tools="delete_*")
    def judge(self, event: BeforeToolCall) -> Block | None:
        return Block("closed since") if Closed.since else None


@in_both_eras
@pytest.mark.parametrize("restart", [True, False], ids=["after a restart", "in one session"])
async def test_a_call_that_was_granted_does_not_run_past_a_rule_that_is_new(
    restart: bool, era: str, clock: Clock, tmp_path: Path
) -> None:
    Closed.since = False
    async with at_gateway(clock, tmp_path, era=era, plugins=(Asks, Closed)) as stage:
        assert "number 1" in await stage.call()
        await stage.records.answer(1, Approval(True))
        Closed.since = True
        if not restart:
            assert await stage.call() == "Blocked by closed: closed since"
            assert stage.tools.executed == []
    if restart:
        async with at_gateway(clock, tmp_path, era=era, plugins=(Asks, Closed)) as stage:
            assert await stage.call() == "Blocked by closed: closed since"
            assert stage.tools.executed == []


@pytest.mark.parametrize(
    "other",
    [
        {"folder": "elsewhere"},
        {"config": {"profiles": {"p": {"requester": {"id": "bob"}}}, "profile": "p"}},
        {"files": ["other.json"]},
    ],
    ids=["folder", "requester", "servers"],
)
async def test_an_answer_from_before_a_restart_is_for_nobody_else_and_for_no_other_servers(
    other: dict[str, Any], clock: Clock, tmp_path: Path
) -> None:
    async with at_gateway(clock, tmp_path) as stage:
        await stage.call()
        await stage.records.answer(1, Approval(True))
    async with at_gateway(clock, tmp_path, **other) as stage:
        assert "number 2" in await stage.call()
    assert stage.tools.executed == []


async def test_what_a_gateway_has_asked_that_runs_in_another_process_is_not_taken_over() -> None:
    place = SessionIds("here")
    ours = place.new("local", {})
    prefix, _, rest = ours.removeprefix("gateway-").partition("-")
    running = gateway_folder() / "running"
    running.mkdir(parents=True, exist_ok=True)
    (running / "alive.lock").touch()
    (running / "killed.lock").touch()
    with (running / "alive.lock").open("r+b") as file:
        assert lock(file.fileno())
        others = [f"gateway-{prefix}-{process}-{rest}" for process in ("alive", "killed", "swept", "unknown1")]
        assert [await place.is_over(one) for one in (ours, *others)] == [False, False, True, True, False]
    release(ours)
    assert await place.is_over(ours)
    assert not await SessionIds("elsewhere").is_over(ours)


@in_both_eras
async def test_a_changed_configuration_leaves_waiting_approvals_as_they_are(
    era: str, clock: Clock, tmp_path: Path
) -> None:
    async with at_gateway(clock, tmp_path, era=era) as stage, Host(plugins=[Asks], approver=stage.desk) as other:
        await stage.call()
        await stage.made.use(other)
        assert "number 1" in await stage.call()
        await stage.records.answer(1, Approval(True))
        assert "ran with" in await stage.call()
    assert len(stage.tools.executed) == 1


@in_both_eras
async def test_calls_that_nobody_makes_again_are_given_up_once_their_approval_has_expired(
    era: str, clock: Clock, tmp_path: Path
) -> None:
    ended: list[tuple[str, str]] = []

    class Watches:
        @hooks.after_tool_call
        def note(self, event: AfterToolCall) -> None:
            ended.append((str(event.arguments["path"]), event.status))

    async with at_gateway(clock, tmp_path, era=era, plugins=(Asks, Watches)) as stage:
        for path in "abc":
            await stage.call(arguments={"path": path})
            clock.now += 10 * 3600
        assert ended == []
        assert "number 4" in await stage.call(arguments={"path": "a"}), "it is asked anew"
        assert ended == [("a", "blocked")]
        await stage.records.answer(2, Approval(True))
        await stage.call(arguments={"path": "b"})
    assert ("b", "ok") in ended


async def test_of_many_calls_that_wait_the_newest_are_remembered(
    clock: Clock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hooksdk.gateway._session_calls.MOST_WAITING", 2)
    async with at_gateway(clock, tmp_path) as stage:
        for path in "abcd":
            await stage.call(arguments={"path": path})
            clock.now += 1
        (session,) = stage.made.sessions
        assert session.stats["tool_calls"] == {"blocked": 1}
        assert judged == [*"abcd"]
        await stage.call(arguments={"path": "d"})
        await stage.call(arguments={"path": "a"})
        assert judged == [*"abcd", "a"]


async def test_arguments_that_a_plugin_rewrites_to_others_after_the_grant_do_not_run(
    clock: Clock, tmp_path: Path
) -> None:
    class Rewrites:
        @hooks.rewrite_tool_call
        def rewrite(self, event: RewriteToolCall) -> Rewrite:
            return Rewrite({"path": f"{len(judged)}"})

    async with at_gateway(clock, tmp_path, plugins=(Asks, Rewrites)) as stage:
        await stage.call()
        await stage.records.answer(1, Approval(True))
        await stage.call(arguments={"path": "b"})
        assert stage.tools.executed == []
        await stage.call()
    assert stage.tools.executed == [("notes:delete_note", {"path": "0"})], "what was shown, and nothing else"


@in_both_eras
async def test_a_call_that_is_cancelled_while_its_approval_waits_keeps_its_number(
    era: str, clock: Clock, tmp_path: Path
) -> None:
    asked = anyio.Event()

    async def told(_record: ApprovalRecord) -> None:
        asked.set()

    async with at_gateway(clock, tmp_path, era=era, wait=1000, channels=[told]) as stage:
        async with anyio.create_task_group() as group:
            group.start_soon(stage.call)
            await asked.wait()
            group.cancel_scope.cancel()
        assert await stage.states() == ["pending"]
        (session,) = stage.made.sessions
        with anyio.fail_after(120):
            while not session.stats["tool_calls"]:
                await anyio.sleep(0.01)
        assert stage.tools.executed == []
        await stage.records.answer(1, Approval(True))
        assert "ran with" in await stage.call()
        assert await stage.states() == ["used"]
    assert len(stage.tools.executed) == 1


# At the client


@in_both_eras
@pytest.mark.parametrize(
    ("answer", "said", "state"),
    [
        (ALLOW, "delete_note of notes ran", "used"),
        (DENY, "Blocked: 'Delete it?' was not approved: the person at the client said no", "used"),
        (DECLINE, "Blocked: 'Delete it?' was not approved: the person at the client said no", "used"),
        (CANCEL, "it waits for a person's approval, number 1", "pending"),
        (types.ElicitResult(action="accept"), "number 1", "pending"),
        (types.ElicitResult(action="accept", content={}), "number 1", "pending"),
        (types.ElicitResult(action="accept", content={"decision": True}), "number 1", "pending"),
        (types.ElicitResult(action="accept", content={"decision": "Allow"}), "number 1", "pending"),
        (types.ElicitResult(action="accept", content={"decision": "allow", "tool": "x"}), "number 1", "pending"),
        (types.ElicitResult(action="accept", content={"decision": ["allow"]}), "number 1", "pending"),
        (types.ElicitResult(action="accept", content={"approved": True}), "number 1", "pending"),
    ],
)
async def test_the_person_at_the_client_is_asked_and_only_a_clear_yes_is_one(
    era: str, answer: types.ElicitResult, said: str, state: str, clock: Clock, tmp_path: Path
) -> None:
    person = Person(clock, [answer])
    async with at_gateway(clock, tmp_path, era=era, person=person) as stage:
        assert said in await stage.call()
        assert await stage.states() == [state]
        (record,) = await stage.records.list()
        assert record.answer is None or record.answer.by == "local, at the client"
    assert len(stage.tools.executed) == (answer is ALLOW)
    assert person.asked == [QUESTION]


async def test_a_client_that_answers_nothing_clear_leaves_the_call_to_others(clock: Clock, tmp_path: Path) -> None:
    odd = types.ElicitResult(action="accept", content={"decision": "Allow"})
    person = Person(clock, [odd, CANCEL, types.ErrorData(code=-32603, message="no window")])
    async with at_gateway(clock, tmp_path, era="legacy", person=person) as stage:
        for _ in range(3):
            assert "number 1" in await stage.call()
        assert await stage.states() == ["pending"]
    assert (len(person.asked), stage.tools.executed) == (3, [])


@in_both_eras
async def test_a_yes_for_the_session_is_asked_once(era: str, clock: Clock, tmp_path: Path) -> None:
    person = Person(clock, [types.ElicitResult(action="accept", content={"decision": "allow for this session"})])
    async with at_gateway(clock, tmp_path, era=era, person=person, wait=100) as stage:
        for _ in range(3):
            assert "ran with" in await stage.call()
    assert len(person.asked) == 1


class AsksWhereFrom:
    @hooks.before_tool_call(tools="delete_*")
    def ask(self, event: BeforeToolCall) -> Ask | None:
        strange = [one for one in event.origins("path") if not one.cleared]
        return Ask("Delete it?", evidence=strange) if strange else None


@in_both_eras
async def test_a_yes_to_the_values_that_are_strange_lets_them_pass_from_then_on(
    era: str, clock: Clock, tmp_path: Path
) -> None:
    person = Person(clock, [FOR_VALUES, ALLOW])
    async with at_gateway(clock, tmp_path, era=era, person=person, plugins=[AsksWhereFrom], wait=100) as stage:
        for path in ("diary", "diary", "letters"):
            assert "ran with" in await stage.call(arguments={"path": path})
    assert ["'diary'" in one for one in person.asked] == [True, False]


async def test_where_nothing_is_strange_nobody_can_agree_to_values(clock: Clock, tmp_path: Path) -> None:
    person = Person(clock, [FOR_VALUES])
    async with at_gateway(clock, tmp_path, era="legacy", person=person) as stage:
        assert "number 1" in await stage.call()
        assert await stage.states() == ["pending"]


async def test_while_a_client_asks_somebody_else_may_answer(clock: Clock, tmp_path: Path) -> None:
    person = Person(clock)

    async def desk(record: ApprovalRecord) -> Approval:
        while not person.asked:
            await anyio.sleep(0.01)
        return Approval(True, by="the desk")

    async with at_gateway(clock, tmp_path, era="legacy", person=person, wait=100, channels=[desk]) as stage:
        assert "ran with" in await stage.call()


@in_both_eras
@pytest.mark.parametrize("disk", [0, 0.2])
async def test_a_client_that_refuses_faster_than_anybody_reads_is_not_asked_any_more(
    era: str, disk: float, clock: Clock, tmp_path: Path
) -> None:
    clock.disk = disk
    person = Person(clock, [DECLINE] * 9, seconds=0.01)
    async with at_gateway(clock, tmp_path, era=era, person=person) as stage:
        assert "number 1" in await stage.call(), "a no in haste is nobody's"
        assert "number 1" in await stage.call()
        await stage.records.answer(1, Approval(True))
        assert "ran with" in await stage.call()
        assert "number 2" in await stage.call()
    assert len(person.asked) == 2


@in_both_eras
async def test_a_person_who_says_no_is_asked_again(era: str, clock: Clock, tmp_path: Path) -> None:
    person = Person(clock, [DECLINE] * 4)
    async with at_gateway(clock, tmp_path, era=era, person=person, wait=100) as stage:
        for _ in range(4):
            assert (await stage.call()).startswith("Blocked")
    assert len(person.asked) == 4


@in_both_eras
async def test_an_operator_may_leave_the_client_out(era: str, clock: Clock, tmp_path: Path) -> None:
    person = Person(clock, [ALLOW])
    async with at_gateway(clock, tmp_path, era=era, person=person, config={"approvals": {"client": False}}) as stage:
        assert "number 1" in await stage.call()
    assert person.asked == []


# The state that a client of 2026-07-28 carries


async def asked(connected: Client, name: str = CALL[0], arguments: dict[str, Any] | None = None) -> str:
    """Make a call that is answered with a question; the state that came with it."""
    result = await connected.session.call_tool(
        name, CALL[1] if arguments is None else arguments, allow_input_required=True
    )
    assert isinstance(result, types.InputRequiredResult)
    assert result.request_state is not None
    return result.request_state


async def answer(connected: Client, state: str, arguments: dict[str, Any] | None = None) -> str:
    """Make the call again with a yes and this state."""
    result = await connected.session.call_tool(
        CALL[0], CALL[1] if arguments is None else arguments, input_responses={"approval": ALLOW}, request_state=state,
        allow_input_required=True,
    )  # fmt: skip
    return "asked" if isinstance(result, types.InputRequiredResult) else text_of(result)


def forged(state: str, **changes: Any) -> str:
    """The state with other claims, and its old signature."""
    claims, signature = state.split(".")
    content = json.loads(base64.urlsafe_b64decode(claims + "=="))
    for place, value in changes.items():
        content[int(place.removeprefix("at"))] = value
    return base64.urlsafe_b64encode(json.dumps(content).encode()).decode().rstrip("=") + "." + signature


async def test_a_state_counts_once(clock: Clock, tmp_path: Path) -> None:
    async with at_gateway(clock, tmp_path, person=Person(clock)) as stage:
        state = await asked(stage.connected)
        assert "ran with" in await answer(stage.connected, state)
        assert "the answer to its approval does not count" in await answer(stage.connected, state)
        await asked(stage.connected)
        assert "does not count" in await answer(stage.connected, state)
    assert len(stage.tools.executed) == 1


@pytest.mark.parametrize("changes", [{"at0": 2}, {"at1": "0" * 64}, {"at2": "me"}, {"at3": 9e9}, {"at4": "0"}])
async def test_a_forged_state_is_refused(changes: dict[str, Any], clock: Clock, tmp_path: Path) -> None:
    async with at_gateway(clock, tmp_path, person=Person(clock)) as stage:
        state = await asked(stage.connected)
        assert "it is no ticket of ours" in await answer(stage.connected, forged(state, **changes))
    assert stage.tools.executed == []


async def test_a_state_is_signed_with_a_key_of_the_records_that_no_other_records_have(
    clock: Clock, tmp_path: Path
) -> None:
    async with at_gateway(clock, tmp_path, person=Person(clock)) as stage:
        state = await asked(stage.connected)
        claims = base64.urlsafe_b64decode(state.split(".")[0] + "==")
        keys = await stage.records.key(), await ApprovalRecords(SqlStore(tmp_path / "others")).key()
        signed = [hmac.digest(key, b"hooksdk approval\0" + claims, "sha256") for key in (*keys, b"")]
        own, *strange = [
            f"{state.split('.')[0]}.{base64.urlsafe_b64encode(one).decode().rstrip('=')}" for one in signed
        ]
        assert own == state
        for one in strange:
            assert "it is no ticket of ours" in await answer(stage.connected, one)
    assert (min(map(len, keys)), stage.tools.executed) == (32, [])


@pytest.mark.parametrize("state", ["", ".", "x.y", "a.b.c", "\u00e9.\u00e9", "W10.W10", "=" * 999])
async def test_what_is_no_state_is_refused(state: str, clock: Clock, tmp_path: Path) -> None:
    async with at_gateway(clock, tmp_path, person=Person(clock)) as stage:
        await asked(stage.connected)
        assert "it is no ticket of ours" in await answer(stage.connected, state)
    assert stage.tools.executed == []


async def test_another_clients_state_is_refused(clock: Clock, tmp_path: Path) -> None:
    async with (
        at_gateway(clock, tmp_path, person=Person(clock)) as stage,
        stage.connect(elicitation_callback=Person(clock)) as other,
    ):
        state = await asked(stage.connected)
        assert "it was given to another client" in await answer(other, state)
        assert "ran with" in await answer(stage.connected, state), "it has lost nothing by that"
    assert len(stage.tools.executed) == 1


async def test_a_state_from_before_a_restart_counts_for_its_requester_once(clock: Clock, tmp_path: Path) -> None:
    strangers = {"profiles": {"p": {"requester": {"id": "bob"}}}, "profile": "p"}
    async with at_gateway(clock, tmp_path, person=Person(clock)) as stage:
        state = await asked(stage.connected)
    async with at_gateway(clock, tmp_path, person=Person(clock), config=strangers) as stage:
        assert "it was given to another client" in await answer(stage.connected, state)
        assert stage.tools.executed == []
    async with at_gateway(clock, tmp_path, person=Person(clock)) as stage:
        assert "ran with" in await answer(stage.connected, state)
        assert "does not count" in await answer(stage.connected, state)
    assert len(stage.tools.executed) == 1


async def test_an_expired_state_and_one_that_was_answered_elsewhere_are_refused(clock: Clock, tmp_path: Path) -> None:
    async with at_gateway(clock, tmp_path, person=Person(clock)) as stage:
        state = await asked(stage.connected)
        clock.now += 24 * 3600 + 1
        assert "has expired" in await answer(stage.connected, state)
        state = await asked(stage.connected)
        await stage.records.answer(2, Approval(False))
        assert "was answered already" in await answer(stage.connected, state)
    assert stage.tools.executed == []


async def test_a_yes_to_one_call_runs_no_other(clock: Clock, tmp_path: Path) -> None:
    async with at_gateway(clock, tmp_path, person=Person(clock)) as stage:
        state = await asked(stage.connected)
        assert "number 2" in await answer(stage.connected, state, {"path": "everything"})
        assert stage.tools.executed == []
        assert await stage.states() == ["granted", "pending"]
