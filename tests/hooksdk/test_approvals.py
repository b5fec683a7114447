"""What a person is asked, and that nothing but a clear yes in time lets a call through."""

from __future__ import annotations

import asyncio
import contextlib
import time
from typing import Any

import anyio
import pytest

import hooksdk.approvals
import hooksdk.desk
from hooksdk import Approval, ApprovalRequest, hooks
from hooksdk.hooks import Ask, BeforeToolCall, Trace
from tests.stage import make, playing

pytestmark = [pytest.mark.anyio, pytest.mark.both_loops, pytest.mark.jumping_clock]
LIMIT = 10
"""Seconds that a person has."""


class Asks:
    @hooks.before_tool_call(tools="act")
    def judge(self, event: BeforeToolCall) -> Ask | None:
        return Ask("May I act?", "It acts.", "critical", timeout=LIMIT)


async def play(approver: Any) -> str:
    async with playing(Asks, approver=approver) as stage:
        result = await stage.call()
        if result.is_error:
            assert stage.executed == []
            assert result.text.startswith("Blocked: 'May I act?' was not approved: ")
        else:
            assert len(stage.executed) == 1
        assert (await stage.call("no_such_tool")).is_error, "the run goes on"
        return result.text.rpartition(": ")[2]


async def test_a_granted_call_runs_and_the_request_says_everything() -> None:
    requests: list[ApprovalRequest] = []

    async def approver(request: ApprovalRequest) -> Approval:
        requests.append(request)
        return Approval(True)

    async with playing(Asks, approver=approver, requester={"id": "ada"}, trigger="schedule") as stage:
        assert (await stage.call("act", {"a": 1})).text == "done"
    (request,) = requests
    assert (request.title, request.description, request.severity) == ("May I act?", "It acts.", "critical")
    assert (request.plugin, request.session_id, request.requester, request.trigger) == (
        "asks",
        "s",
        {"id": "ada"},
        "schedule",
    )
    assert (request.call.name, request.tool.id, request.arguments) == ("act", "host:core:act", {"a": 1})


async def test_a_refusal_reaches_the_model_with_its_reason() -> None:
    async def with_reason(request: ApprovalRequest) -> Approval:
        return Approval(False, "not on a Friday")

    async def without(request: ApprovalRequest) -> Approval:
        return Approval(False)

    assert await play(with_reason) == "not on a Friday"
    assert await play(without) == "a person said no"


async def test_nobody_to_ask_means_no() -> None:
    assert await play(None) == "it needs a person's approval, and nobody can be asked here"


async def hangs(request: ApprovalRequest) -> Approval:
    await anyio.sleep_forever()
    return Approval(True)


async def swallows(request: ApprovalRequest) -> Approval:
    with contextlib.suppress(BaseException):
        await anyio.sleep_forever()
    return Approval(True)


@pytest.mark.parametrize("approver", [hangs, swallows])
async def test_an_answer_that_comes_too_late_means_no(approver: Any) -> None:
    assert await play(approver) == "nobody approved it within 10 s"


async def test_an_answer_of_an_approver_that_blocks_the_loop_comes_too_late_too() -> None:
    class Hurries:
        @hooks.before_tool_call
        def judge(self, event: BeforeToolCall) -> Ask:
            return Ask("May I?", timeout=0.05)

    async def blocks(request: ApprovalRequest) -> Approval:
        time.sleep(0.08)
        return Approval(True)

    async with playing(Hurries, approver=blocks) as stage:
        assert "nobody approved it within 0.05 s" in (await stage.call()).text
        assert stage.executed == []


async def raises(request: ApprovalRequest) -> Approval:
    raise ValueError("no terminal")


async def exits(request: ApprovalRequest) -> Approval:
    raise SystemExit


async def cancels(request: ApprovalRequest) -> Approval:
    raise asyncio.CancelledError


async def says_true(request: ApprovalRequest) -> Any:
    return True


async def says_none(request: ApprovalRequest) -> Any:
    return None


async def grants_text(request: ApprovalRequest) -> Any:
    return Approval("no")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


def plain(request: ApprovalRequest) -> Approval:
    return Approval(True)


@pytest.mark.parametrize("approver", [raises, exits, cancels, says_true, says_none, grants_text, plain])
async def test_an_approver_that_fails_or_talks_nonsense_means_no(
    approver: Any, anyio_backend: tuple[str, object], caplog: pytest.LogCaptureFixture
) -> None:
    if approver is cancels and anyio_backend[0] == "trio":
        pytest.skip("trio has no cancellation that nobody asked for")
    assert await play(approver) == "the approval could not be asked for"
    assert "the call is refused" in caplog.text


@pytest.mark.parametrize("approver", [hangs, swallows])
async def test_a_run_that_is_cancelled_while_a_person_is_asked_runs_nothing(approver: Any) -> None:
    async with playing(Asks, approver=approver) as stage:
        with anyio.move_on_after(LIMIT / 2) as scope:
            await stage.call()
        assert scope.cancelled_caught
        assert stage.executed == []


async def test_all_questions_about_a_call_are_one_request_the_gravest_first() -> None:
    class Formats:
        @hooks.before_tool_call
        def judge(self, event: BeforeToolCall) -> Ask:
            return Ask("Format the text?", severity="info")

    class Wires:
        @hooks.before_tool_call
        def judge(self, event: BeforeToolCall) -> Ask:
            return Ask("Wire 10,000 USD?", "to a new account", severity="critical", timeout=60)

    class Logs:
        @hooks.before_tool_call
        def judge(self, event: BeforeToolCall) -> Ask:
            return Ask("Log it?", severity="info")

    requests: list[ApprovalRequest] = []

    async def approver(request: ApprovalRequest) -> Approval:
        requests.append(request)
        return Approval(False, "no")

    async with playing(Formats, Wires, Logs, approver=approver) as stage:
        result = await stage.call()
    (request,) = requests
    assert [(one.plugin, one.title, one.severity) for one in request.questions] == [
        ("wires", "Wire 10,000 USD?", "critical"),
        ("formats", "Format the text?", "info"),
        ("logs", "Log it?", "info"),
    ]
    assert (request.title, request.description, request.severity) == (
        "Wire 10,000 USD?",
        "to a new account",
        "critical",
    )
    assert (request.plugin, request.timeout) == ("wires", 60)
    assert result.text == "Blocked: 'Wire 10,000 USD?' was not approved: no"


@pytest.mark.light(every=7)
@pytest.mark.parametrize("name", ["granted", "reason", "scope", "by", "arguments", "expires", "__class__"])
@pytest.mark.parametrize("kind", [ValueError, SystemExit, asyncio.CancelledError])
async def test_an_answer_whose_attributes_raise_means_no(name: str, kind: type[BaseException]) -> None:
    def fails(self: Any) -> Any:
        raise kind("no")

    hostile: Any = type("Hostile", (Approval,), {name: property(fails)})

    async def approver(request: ApprovalRequest) -> Any:
        answer: Any = object.__new__(hostile)
        for field, value in vars(Approval(True)).items():
            object.__setattr__(answer, field, value)
        return answer

    assert await play(approver) == "the approval could not be asked for"


@pytest.mark.light(every=7)
@pytest.mark.parametrize(
    "fields",
    [
        {"granted": 1}, {"reason": 5}, {"scope": "for ever"}, {"scope": None}, {"by": b"ann"}, {"arguments": ["a"]},
        {"arguments": {"a": object()}}, {"expires": 0}, {"expires": -1}, {"expires": float("nan")},
        {"expires": float("inf")}, {"expires": True}, {"expires": "soon"},
    ],
)  # fmt: skip
async def test_an_answer_with_a_wrong_field_means_no(fields: dict[str, Any]) -> None:
    async def approver(request: ApprovalRequest) -> Approval:
        values: dict[str, Any] = {"granted": True, **fields}
        return Approval(**values)

    assert await play(approver) == "the approval could not be asked for"


async def test_a_question_that_cannot_be_put_blocks_the_call() -> None:
    class Sloppy:
        @hooks.before_tool_call
        def judge(self, event: BeforeToolCall) -> Ask:
            return Ask("May I?", severity="urgent")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]

    async with playing(Sloppy, approver=says_true) as stage:
        assert "plugin 'sloppy' failed while it judged this call" in (await stage.call()).text
        assert stage.executed == []


async def test_what_an_approver_changes_in_its_request_changes_nothing() -> None:
    async def meddles(request: ApprovalRequest) -> Approval:
        vars(request)["arguments"].value["path"] = "/etc/passwd"
        return Approval(True)

    async with playing(Asks, approver=meddles) as stage:
        await stage.call("act", {"path": "a"})
        assert stage.executed == [{"path": "a"}]


async def test_the_clock_of_the_tool_around_it_stands_still_while_a_person_thinks() -> None:
    async def slow(request: ApprovalRequest) -> Approval:
        await anyio.sleep(9)
        return Approval(True)

    from hooksdk import Tool, ToolContext, ToolResult

    async def outer(arguments: dict[str, Any], context: ToolContext) -> ToolResult:
        return await context.call_tool("act", {})

    tool = Tool(name="outer", source="host", owner="core", execute=outer, timeout=6)
    async with playing(Asks, approver=slow, tools=[tool, make("act")]) as stage:
        assert (await stage.call("outer")).text == "ran with {}"


async def test_asking_and_answering_are_in_the_trace() -> None:
    kinds: list[str] = []

    class Keeps:
        @hooks.trace
        async def keep(self, event: Trace) -> None:
            if event.kind.startswith("approval"):
                kinds.append(f"{event.kind} {getattr(event.record, 'granted', None)}")

    async with playing(Asks, Keeps, approver=raises) as stage:
        await stage.call()
    assert kinds == ["approval_asked None", "approval_answered False"]


@pytest.mark.parametrize("name", hooksdk.desk.__all__)
def test_who_looks_for_the_desk_where_it_was_is_told_where_it_is(name: str) -> None:
    with pytest.raises(ImportError, match=rf"^{name} is in hooksdk\.desk now: from hooksdk\.desk import {name}$"):
        getattr(hooksdk.approvals, name)


def test_what_never_was_in_approvals_is_no_import_error() -> None:
    assert not hasattr(hooksdk.approvals, "ApprovalDesks")
