"""Answers that count for more than one call: for which calls they do, for how long, and for which they do not."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from commands import hooksdk
from pydantic import BaseModel

from builtin_plugins.tool_policy import ToolPolicy
from hooksdk import Approval, ApprovalRequest, Host, MemoryStore, PluginState, Tool, hooks
from hooksdk.approvals import Remembered
from hooksdk.errors import PluginRefused, StoreError
from hooksdk.hooks import Ask, BeforeToolCall, Trace
from hooksdk.records import ApprovalAnswered, ApprovalAsked
from hooksdk.stores import SqlStore
from hooksdk.testing import ScriptedApprover
from hooksdk.tools import Annotations
from tests.stage import OwnStore, Stage, make, playing

pytestmark = pytest.mark.anyio
ALWAYS = Approval(True, scope="always", by="ann")
SESSION = Approval(True, scope="session", by="ann")
NEVER = Approval(False, "not here", scope="always", by="ann")


def asking(name: str, *severities: Any) -> type:
    """A policy that asks about every call of `act`, once for each severity."""

    class Asks:
        plugin_id = name.lower()

        @hooks.before_tool_call(tools="act")
        def ask(self, event: BeforeToolCall) -> Ask:
            return Ask(f"{name}?", severity=severities[0])

        @hooks.before_tool_call(tools="act")
        def ask_more(self, event: BeforeToolCall) -> Ask | None:
            return Ask(f"{name}, really?", severity=severities[1]) if severities[1:] else None

    return Asks


Guard = asking("Guard", "warning")


async def act(
    store: Any,
    *arguments: Mapping[str, Any],
    plugins: Sequence[type] = (Guard,),
    answer: Approval | bool = False,
    tool: Tool | None = None,
    **run: Any,
) -> tuple[int, list[str]]:
    """Call `act` in a new host; answers how often a person was asked, and the results."""
    approver = ScriptedApprover(answer)
    tools = [tool or make("act", properties={})]
    async with playing(*plugins, store=store, approver=approver, tools=tools, **run) as stage:
        results = [await stage.call("act", dict(one)) for one in arguments or ({"a": 1},)]
    return len(approver.requests), ["ran" if not result.is_error else result.text for result in results]


ASKED_AND_REFUSED = (1, ["Blocked: 'Guard?' was not approved: a person said no"])


async def test_a_yes_for_once_counts_once() -> None:
    assert await act(MemoryStore(), {"a": 1}, {"a": 1}, answer=True) == (2, ["ran", "ran"])


@pytest.mark.parametrize("answer", [SESSION, ALWAYS])
async def test_a_remembered_yes_counts_for_the_same_arguments_again_and_for_no_others(answer: Approval) -> None:
    store = MemoryStore()
    assert await act(store, {"a": 1}, {"a": 1}, answer=answer) == (1, ["ran", "ran"])
    assert await act(store, {"a": 1}) == (0, ["ran"]), "in the resumed session, in another host"
    for other in ({"a": 2}, {"a": 1, "b": 1}, {}, {"a": 1.0}, {"a": True}, {"a": "1"}):
        assert await act(store, other) == ASKED_AND_REFUSED


async def test_a_yes_for_the_session_counts_in_no_other_session_and_one_for_always_does() -> None:
    async def calls_of(answer: Approval) -> int:
        store, approver = MemoryStore(), ScriptedApprover(answer)
        for session_id in ("one", "two"):
            async with (
                Host(plugins=[Guard], store=store, approver=approver, config={"allow": ["guard"]}) as host,
                host.session(session_id) as session,
                session.run() as run,
            ):
                await run.resolve_tools([make("act", properties={})])
                assert not (await Stage(host, session, run).call("act", {"a": 1})).is_error
        return len(approver.requests)

    assert (await calls_of(SESSION), await calls_of(ALWAYS)) == (2, 1)


async def test_a_remembered_no_counts_as_well_and_gives_its_reason() -> None:
    store = MemoryStore()
    refused = ["Blocked: 'Guard?' was not approved: not here"]
    assert await act(store, answer=NEVER) == (1, refused)
    assert await act(store, answer=True) == (0, refused)


async def test_a_remembered_no_beats_a_remembered_yes() -> None:
    store = MemoryStore()
    await act(store, answer=Approval(True, scope="always", arguments={}))
    assert await act(store, {"a": 5}) == (0, ["ran"])
    await act(store, {"a": 5}, plugins=[asking("Guard", "critical")], answer=NEVER)
    assert await act(store, {"a": 5}) == (0, ["Blocked: 'Guard?' was not approved: not here"])


async def test_a_pattern_counts_for_every_call_with_these_arguments_whatever_the_others_are() -> None:
    store = MemoryStore()
    await act(store, {"path": "a", "text": "x"}, answer=Approval(True, scope="always", arguments={"path": "a"}))
    assert await act(store, {"path": "a", "text": "y"}, {"path": "a"}) == (0, ["ran", "ran"])
    for other in ({"path": "b"}, {}, {"path": ["a"]}):
        assert await act(store, other) == ASKED_AND_REFUSED


async def test_a_pattern_that_does_not_fit_the_call_itself_is_no_answer(caplog: pytest.LogCaptureFixture) -> None:
    asked, results = await act(MemoryStore(), answer=Approval(True, scope="always", arguments={"a": 2}))
    assert (asked, results) == (1, ["Blocked: 'Guard?' was not approved: the approval could not be asked for"])
    assert "does not fit" in caplog.text


async def test_a_remembered_yes_never_answers_what_another_plugin_asks() -> None:
    store = MemoryStore()
    await act(store, answer=ALWAYS)
    assert (await act(store, plugins=[asking("Other", "info")]))[0] == 1
    assert (await act(store, plugins=[Guard, asking("Other", "info")]))[0] == 1
    assert (await act(store, plugins=[Guard]))[0] == 0


async def test_a_remembered_yes_counts_while_fewer_or_lighter_questions_are_asked() -> None:
    store, other = MemoryStore(), asking("Other", "critical")
    await act(store, plugins=[Guard, other], answer=ALWAYS)
    assert (await act(store, plugins=[Guard]))[0] == 0
    assert (await act(store, plugins=[asking("Other", "info"), Guard]))[0] == 0


@pytest.mark.parametrize("severities", [["critical"], ["warning", "info"]], ids=["graver", "one more"])
async def test_a_remembered_yes_is_void_for_a_graver_question_and_for_one_more(severities: list[str]) -> None:
    store = MemoryStore()
    await act(store, answer=ALWAYS)
    assert (await act(store, plugins=[asking("Guard", *severities)]))[0] == 1


@pytest.mark.parametrize(
    "change",
    [{"description": "acts otherwise"}, {"annotations": Annotations(destructive=True)}],
    ids=["text", "annotations"],
)
async def test_a_changed_definition_voids_a_remembered_yes_for_good(change: dict[str, Any]) -> None:
    store = MemoryStore()
    await act(store, answer=ALWAYS)
    changed = make("act", properties={}, **change)
    assert await act(store, tool=changed) == ASKED_AND_REFUSED
    assert await act(store) == ASKED_AND_REFUSED, "it does not come back with the old definition"


async def test_a_question_reads_what_may_count_for_its_call_and_not_all_that_is_remembered() -> None:
    class Counts(OwnStore):
        read = 0

        async def get_value(self, space: str, key: str, default: Any = None) -> Any:
            self.read += space == "hooksdk.approvals"
            return await self.memory.get_value(space, key, default)

    store = Counts()
    await act(store, *({"a": number} for number in range(50)), answer=ALWAYS)
    await act(store, {"b": 1}, answer=Approval(True, scope="always", arguments={"b": 1}))
    store.read = 0
    assert await act(store, {"a": 7}) == (0, ["ran"])
    assert store.read == 2, "the same arguments, and the pattern"


@pytest.mark.parametrize(
    ("first", "then"),
    [
        ({"requester": {"id": "ada"}}, {"requester": {"id": "bob"}}),
        ({"requester": {"id": "ada"}}, {}),
        ({}, {"requester": {"roles": []}}),
        ({"workspace_dir": "/a"}, {"workspace_dir": "/b"}),
        ({"requester": {"is_owner": True}}, {"requester": {"is_owner": False}}),
        ({"requester": {"id": None, "roles": ["admin"]}}, {"requester": {"id": "None"}}),
        ({"requester": {"id": 5}}, {"requester": {"id": "5"}}),
        ({"requester": {"roles": []}}, {"requester": {"id": '{"roles":[]}'}}),
        ({"requester": {"id": '{"roles":[]}'}}, {"requester": {"roles": []}}),
        ({}, {"trigger": "schedule"}),
        ({"trigger": "schedule"}, {}),
        ({}, {"agent_id": "helper"}),
    ],
)
async def test_a_remembered_yes_counts_for_the_same_requester_workspace_trigger_and_agent_only(
    first: dict[str, Any], then: dict[str, Any]
) -> None:
    store = MemoryStore()
    await act(store, answer=ALWAYS, **first)
    assert (await act(store, **first))[0] == 0
    assert (await act(store, **then))[0] == 1


@pytest.mark.parametrize("trigger", ["user", "schedule"])
async def test_a_sub_agents_yes_counts_below_the_same_trigger_only(trigger: str) -> None:
    store = MemoryStore()

    async def asked(trigger: str) -> int:
        approver = ScriptedApprover(ALWAYS)
        async with (
            playing(Guard, store=store, approver=approver, trigger=trigger) as stage,
            stage.session.child() as child,
            child.run(trigger="subagent") as run,
        ):
            await run.resolve_tools([make("act", properties={})])
            assert not (await run.call_tool(stage.new("act", {"a": 1}))).is_error
        return len(approver.requests)

    assert [await asked("user"), await asked(trigger), await asked(trigger)] == [1, int(trigger != "user"), 0]


async def test_a_remembered_no_counts_for_every_trigger_and_agent() -> None:
    store = MemoryStore()
    await act(store, answer=NEVER)
    refused = (0, ["Blocked: 'Guard?' was not approved: not here"])
    assert await act(store, trigger="schedule") == await act(store, agent_id="helper") == refused


class Asks:
    """Asks in whatever words it is configured."""

    plugin_id = "guard"

    class Config(BaseModel):
        title: str = "Guard?"
        description: str = ""
        rule: str = ""

    def __init__(self, config: Config) -> None:
        self.config = config

    @hooks.before_tool_call(tools="act")
    def ask(self, event: BeforeToolCall) -> Ask:
        return Ask(self.config.title, self.config.description, rule=self.config.rule)


@pytest.mark.parametrize(
    "other", [{"title": "Guard, really?"}, {"description": "It is for ever."}, {"rule": "another"}]
)
@pytest.mark.parametrize("answer", [ALWAYS, NEVER], ids=["yes", "no"])
async def test_what_is_remembered_counts_for_the_same_words_and_rule_only(
    other: dict[str, str], answer: Approval
) -> None:
    def config(settings: dict[str, str]) -> dict[str, Any]:
        return {"plugins": {"guard": {"config": settings}}}

    store = MemoryStore()
    await act(store, plugins=[Asks], config=config({}), answer=answer)
    assert (await act(store, plugins=[Asks], config=config({})))[0] == 0
    assert (await act(store, plugins=[Asks], config=config(other)))[0] == 1


async def test_a_yes_to_one_rule_of_the_tool_policy_is_none_to_another() -> None:
    def config(tools: str) -> dict[str, Any]:
        rule = {"action": "ask", "tools": tools, "title": "Go on?", "reason": "to be sure"}
        return {"plugins": {"tool_policy": {"config": {"rules": [rule]}}}}

    store = MemoryStore()
    await act(store, plugins=[ToolPolicy], config=config("act"), answer=ALWAYS)
    assert (await act(store, plugins=[ToolPolicy], config=config("act")))[0] == 0
    assert (await act(store, plugins=[ToolPolicy], config=config("a*")))[0] == 1


class Clock:
    """The system's clock, as a test sets it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 1_000_000.0
        monkeypatch.setattr("hooksdk._approvals.remembered.time.time", lambda: self.now)


async def test_an_expired_yes_stays_expired_when_the_clock_goes_back(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    clock, store = Clock(monkeypatch), MemoryStore()
    await act(store, {"a": 1}, answer=Approval(True, scope="always", expires=3600))
    clock.now += 4000
    assert await act(store, {"a": 2}) == ASKED_AND_REFUSED, "another question, so nobody looks at the yes"
    clock.now -= 3000
    assert await act(store, {"a": 1}) == ASKED_AND_REFUSED
    assert "the clock was set back by 3000 s, so every remembered yes is forgotten" in caplog.text
    assert await Remembered(store).list() == []


async def test_a_clock_that_is_set_right_by_seconds_takes_nothing_away_and_gives_nothing_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock, store = Clock(monkeypatch), MemoryStore()
    await act(store, {"a": 1}, answer=Approval(True, scope="always", expires=100))
    await act(store, {"a": 2}, answer=ALWAYS)
    clock.now += 101
    assert await act(store, {"a": 3}) == ASKED_AND_REFUSED
    clock.now -= 30
    assert await act(store, {"a": 1}) == ASKED_AND_REFUSED
    assert await act(store, {"a": 2}) == (0, ["ran"])


async def test_a_clock_that_was_far_ahead_keeps_no_new_answer_from_expiring(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, store = Clock(monkeypatch), MemoryStore()
    clock.now += 30 * 365 * 24 * 3600
    await act(store, answer=ALWAYS)
    clock.now -= 30 * 365 * 24 * 3600
    assert await act(store, answer=Approval(True, scope="always", expires=3600)) == (1, ["ran"])
    assert await act(store) == (0, ["ran"])
    clock.now += 3601
    assert await act(store) == ASKED_AND_REFUSED


async def test_a_no_outlives_a_clock_that_goes_back(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, store = Clock(monkeypatch), MemoryStore()
    await act(store, answer=NEVER)
    clock.now -= 10_000
    assert await act(store) == (0, ["Blocked: 'Guard?' was not approved: not here"])


async def test_a_remembered_yes_expires() -> None:
    store = MemoryStore()
    await act(store, answer=Approval(True, scope="always", expires=1e-6))
    assert await act(store) == ASKED_AND_REFUSED
    assert await Remembered(store).list() == []
    await act(store, answer=ALWAYS)
    (one,) = await Remembered(store).list()
    assert one.expires - one.answered == 30 * 24 * 3600


async def test_what_was_revoked_is_asked_anew_at_once_in_a_session_that_is_open() -> None:
    store, approver = MemoryStore(), ScriptedApprover(ALWAYS)
    async with playing(Guard, store=store, approver=approver) as stage:
        await stage.call()
        (one,) = await Remembered(store).list()
        assert await Remembered(store).revoke(one.id)
        assert not await Remembered(store).revoke(one.id)
        await stage.call()
    assert len(approver.requests) == 2


async def test_a_new_answer_takes_the_place_of_the_old_one() -> None:
    store, guard = MemoryStore(), asking("Guard", "critical")
    await act(store, answer=ALWAYS)
    await act(store, plugins=[guard], answer=ALWAYS)
    assert [one.questions for one in await Remembered(store).list()] == [(("guard", "critical"),)]


@pytest.mark.parametrize(
    "damage", [5, {}, {"granted": True}, "granted: yes", "expires: soon", "questions: 7", "wordings: ab"]
)
async def test_what_cannot_be_read_counts_for_nothing(damage: Any, caplog: pytest.LogCaptureFixture) -> None:
    store = MemoryStore()
    await act(store, answer=ALWAYS)
    (key,) = await store.list_keys("hooksdk.approvals")
    if isinstance(damage, str):
        name, _, value = damage.partition(": ")
        damage = {**await store.get_value("hooksdk.approvals", key), name: value}
    await store.set_value("hooksdk.approvals", key, damage)
    assert await act(store) == ASKED_AND_REFUSED
    assert "counts for nothing" in caplog.text


class BrokenStore(OwnStore):
    """Its values cannot be read or written."""

    async def list_keys(self, space: str) -> list[str]:
        raise StoreError("values", "no disk")

    async def set_value(self, space: str, key: str, value: Any) -> None:
        raise StoreError("values", "no disk")


async def test_a_store_that_fails_remembers_nothing_and_the_answer_counts_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.WARNING)
    assert await act(BrokenStore(), {"a": 1}, {"a": 1}, answer=ALWAYS) == (2, ["ran", "ran"])
    assert "counts once, and is not remembered" in caplog.text


@pytest.mark.parametrize("plugin_id", ["hooksdk.approvals", "HOOKSDK.approvals", "hooksdk.verdicts"])
async def test_no_plugin_reaches_what_is_remembered_by_its_id(plugin_id: str) -> None:
    class Forger:
        def __init__(self, state: PluginState) -> None:
            self.state = state

        @hooks.before_tool_call
        def judge(self, event: BeforeToolCall) -> None: ...

    Forger.plugin_id = plugin_id  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue]
    with pytest.raises(PluginRefused, match="hooksdk's own"):
        async with playing(Forger):
            raise AssertionError


async def test_the_trace_says_who_answered_for_how_long_and_about_which_arguments_and_never_what() -> None:
    records: list[Any] = []

    class Keeps:
        @hooks.trace
        async def keep(self, event: Trace) -> None:
            if isinstance(event.record, ApprovalAsked | ApprovalAnswered):
                records.append(event.record.as_dict())

    store = MemoryStore()
    await act(store, {"a": "secret words"}, {"a": "secret words"}, plugins=[Guard, Keeps], answer=SESSION)
    asked, answered, again = records
    assert answered == again | {"call_id": "c1", "remembered": False}
    assert (answered["by"], answered["scope"], answered["granted"], again["remembered"]) == (
        "ann",
        "session",
        True,
        True,
    )
    assert asked["digest"] == answered["digest"]
    assert len(asked["digest"]) == 64
    assert (asked["plugin"], asked["severity"], asked["questions"]) == ("guard", "warning", 1)
    assert "secret words" not in json.dumps(records)
    assert "Guard?" not in json.dumps(records)


async def test_the_request_has_the_digest_of_the_trace() -> None:
    digests: set[str] = set()

    class Keeps:
        @hooks.trace
        async def keep(self, event: Trace) -> None:
            if isinstance(event.record, ApprovalAnswered):
                digests.add(event.record.digest)

    async def approver(request: ApprovalRequest) -> Approval:
        digests.add(request.digest)
        return Approval(True)

    async with playing(Guard, Keeps, approver=approver) as stage:
        await stage.call()
    assert len(digests) == 1


# The command


async def remember(folder: Path) -> None:
    """A yes to one call and a no to a pattern, in the store `kept`."""
    store = SqlStore(folder / "kept")
    await act(store, {"path": "a"}, answer=ALWAYS)
    await act(
        store, {"path": "b"}, answer=Approval(False, scope="session", arguments={"path": "b"}, by="\x1b[31mbob\n")
    )


@pytest.mark.heavy
async def test_the_command_lists_what_is_remembered_and_revokes_it(tmp_path: Path) -> None:
    await remember(tmp_path)
    store = ("--store", str(tmp_path / "kept"))
    listing = await hooksdk("approvals", "list", *store, folder=tmp_path)
    assert listing.code == 0
    heading, yes, no = listing.out.splitlines()
    assert heading.split() == [
        "id",
        "answer",
        "tool",
        "arguments",
        "asked",
        "by",
        "counts",
        "in",
        "answered",
        "by",
        "until",
    ]
    assert "yes     host:core:act  as answered  guard     all sessions" in yes
    assert "no      host:core:act  path = 'b'   guard     session s" in no
    assert "\x1b" not in listing.out
    document = (await hooksdk("approvals", "list", "--json", *store, folder=tmp_path)).json()
    assert document["schema"] == 1
    first, second = document["approvals"]
    assert (first["granted"], first["by"], second["arguments"]) == (True, "ann", {"path": "b"})

    revoked = await hooksdk("approvals", "revoke", first["id"], *store, folder=tmp_path)
    assert (revoked.code, revoked.out) == (0, "1 answer forgotten\n")
    assert (await act(SqlStore(tmp_path / "kept"), {"path": "a"}))[0] == 1
    revoked = await hooksdk("approvals", "revoke", "--all", "--json", *store, folder=tmp_path)
    assert revoked.json() == {"schema": 1, "revoked": 1}
    listing = await hooksdk("approvals", "list", *store, folder=tmp_path)
    assert (listing.code, listing.out) == (
        0,
        "No approvals are remembered. Calls that wait for one: hooksdk approvals\n",
    )


@pytest.mark.heavy
async def test_the_command_says_what_it_cannot_revoke(tmp_path: Path) -> None:
    store = ("--store", str(tmp_path / "kept"))
    unknown = await hooksdk("approvals", "revoke", "no\x1bthing", *store, folder=tmp_path)
    assert (unknown.code, "no approval 'no\N{REPLACEMENT CHARACTER}thing' is remembered here" in unknown.complaint) == (
        1,
        True,
    )
    for arguments in ((), ("an id", "--all")):
        usage = await hooksdk("approvals", "revoke", *arguments, *store, folder=tmp_path)
        assert (usage.code, "give an id, or --all" in usage.complaint) == (2, True)
