"""A refusal that nobody gave: the model reads what happened, and trace and audit name it, with nobody behind it."""

from __future__ import annotations

import io
import json
import os
import sys
from collections.abc import Callable, Generator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, get_args

import anyio
import pytest
from rich.console import Console

from builtin_plugins.audit import Audit
from hooksdk import Approval, ApprovalRequest, Host, MemoryStore, Tool, ToolCall, ToolContext, ToolResult, hooks
from hooksdk.approvals import Approver, Later, Unanswered, plain_answer
from hooksdk.audit import read_records
from hooksdk.desk import ApprovalDesk, ConsoleApprover
from hooksdk.desk._desk import _read_answer  # pyright: ignore[reportPrivateUsage]
from hooksdk.hooks import Ask, BeforeToolCall, Trace
from hooksdk.records import ApprovalAnswered
from tests.hooksdk.commands import hooksdk
from tests.hooksdk.test_cli_approvals import FIRST, request
from tests.stage import make, reply

pytestmark = pytest.mark.anyio
LIMIT = 10


class Asks:
    @hooks.before_tool_call(tools="act")
    def judge(self, event: BeforeToolCall) -> Ask | None:
        return Ask("May it?", severity="warning", timeout=LIMIT)


async def refused(approver: Approver | None, name: str = "act", *plugins: Any, **settings: Any) -> tuple[str, str, str]:
    """One call that is asked about: what the model reads, and `by` and `unanswered` of the record."""
    records: list[ApprovalAnswered] = []

    class Keeps:
        @hooks.trace
        async def keep(self, event: Trace) -> None:
            if isinstance(event.record, ApprovalAnswered):
                records.append(event.record)

    async def outer(arguments: dict[str, Any], context: ToolContext) -> ToolResult:
        return await context.call_tool("act", {})

    tools = [make("act"), Tool(name="outer", source="host", owner="core", execute=outer)]
    host = Host([Asks, Keeps, *plugins], store=MemoryStore(), config=dict(settings), approver=approver)
    async with host, host.session("s") as session, session.run() as run:
        await run.resolve_tools(tools)
        await run.record(reply(ToolCall("c1", name, {})))
        result = await run.call_tool(ToolCall("c1", name, {}))
    assert result.is_error
    (record,) = records
    assert record.granted is False
    return result.text.rpartition("not approved: ")[2], record.by, record.unanswered


# The terminal


@contextmanager
def piped(text: str) -> Generator[None]:
    theirs, ours = os.pipe()
    os.write(ours, text.encode())
    os.close(ours)
    with open(theirs) as sys.stdin:
        yield


@contextmanager
def nothing_at_all() -> Generator[None]:
    sys.stdin = None
    yield


@contextmanager
def closed() -> Generator[None]:
    sys.stdin = io.StringIO()
    sys.stdin.close()
    yield


class Screen(io.StringIO):
    """What is shown goes here; at the prompt the terminal's other side is closed, as when a connection over SSH breaks."""

    other_side: int | None = None

    def write(self, text: str) -> int:
        if "Allow it?" in text and self.other_side is not None:
            os.close(self.other_side)
            self.other_side = None
        return super().write(text)


async def test_a_terminal_that_goes_away_answers_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", sys.stdin)
    screen = Screen()
    screen.other_side, theirs = os.openpty()
    with open(theirs) as sys.stdin:
        told = await refused(ConsoleApprover(Console(file=screen, width=80), by="ann"))
    assert told == ("nobody answered: the terminal went away", "", "connection_lost")


ENDED = ("nobody answered: the input has ended", "", "end_of_input")
NO_WORD = ("nobody answered: what was typed is none of the answers", "", "not_an_answer")
A_NO = ("the person at the terminal said no", "ann", "")
TYPED: dict[str, tuple[Callable[[], Any], tuple[str, str, str]]] = {
    **{repr(text): (lambda text=text: piped(text), ENDED) for text in ("", "a\n", "v\nv\n", "   ")},
    **{
        repr(text): (lambda text=text: piped(text), NO_WORD)
        for text in ("maybe\n", "yy\n", "alway\n", "values\n", "no y\n", "\x1by\n", "ok", "nein\n", "a\n" * 9, "0\n")
    },
    **{repr(text): (lambda text=text: piped(text), A_NO) for text in ("n\n", "No\n", "\n", "never\n", "n")},
    "no stdin": (nothing_at_all, ENDED),
    "a closed stdin": (closed, ENDED),
}


@pytest.mark.light(every=5)
@pytest.mark.parametrize("case", TYPED)
async def test_only_a_no_that_was_typed_is_the_persons(case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", sys.stdin)
    stdin, expected = TYPED[case]
    console = Console(file=io.StringIO(), width=80)
    with ExitStack() as stack:
        stack.enter_context(stdin())
        assert await refused(ConsoleApprover(console, by="ann")) == expected


# The host


async def raises(_request: ApprovalRequest) -> Approval:
    raise ConnectionError("the desk is closed")


async def says_nonsense(_request: ApprovalRequest) -> Any:
    return "yes"


async def sleeps(_request: ApprovalRequest) -> Approval:
    await anyio.sleep(LIMIT + 1)
    return Approval(True)


async def comes_later(_request: ApprovalRequest) -> Later:
    return Later()


HOSTS: dict[str, tuple[Approver | None, str, str]] = {
    "nobody to ask": (None, "act", "not_asked"), "an approver that raises": (raises, "act", "failed"),
    "an answer of another type": (says_nonsense, "act", "failed"), "no answer in time": (sleeps, "act", "timeout"),
    "an answer that comes later, for a call of a tool": (comes_later, "outer", "cannot_wait"),
}  # fmt: skip


@pytest.mark.jumping_clock
@pytest.mark.parametrize("case", HOSTS)
async def test_a_host_that_gets_no_answer_says_why(case: str) -> None:
    approver, name, unanswered = HOSTS[case]
    assert (await refused(approver, name))[1:] == ("", unanswered)


@pytest.mark.parametrize("unanswered", [*filter(None, get_args(Unanswered))])
async def test_no_refusal_of_nobodys_reads_as_a_persons_no(unanswered: Any) -> None:
    async def answers(_request: ApprovalRequest) -> Approval:
        return Approval(False, unanswered=unanswered)

    assert await refused(answers) == (f"nobody answered ({unanswered.replace('_', ' ')})", "", unanswered)


async def test_a_desk_that_can_keep_no_more_questions_names_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hooksdk.desk._records.MAX_WAITING", 0)
    told = await refused(ApprovalDesk(wait=0))
    assert told == ("0 calls of this session wait for an approval already", "", "cannot_wait")


@pytest.mark.parametrize("answer", [{"granted": False, "unanswered": "timeout"}, {"granted": None}, {}])
def test_a_service_that_nobody_answered_has_no_answer(answer: dict[str, Any]) -> None:
    assert _read_answer(json.dumps(answer).encode()) is None


@pytest.mark.parametrize(
    "wrong", [{"granted": True}, {"by": "ann"}, {"scope": "always"}, {"unanswered": "asleep"}, {"unanswered": 3}]
)
def test_a_refusal_of_nobodys_has_no_name_no_yes_and_no_memory(wrong: dict[str, Any]) -> None:
    fields: dict[str, Any] = {"granted": False, "unanswered": "timeout", **wrong}
    with pytest.raises(ValueError, match=r"^Approval\(unanswered=\.\.\.\)"):
        plain_answer(Approval(**fields), request(FIRST))


async def test_the_signed_audit_names_nobody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOOKSDK_HOME", str(tmp_path))
    await refused(None, "act", Audit, allow=["audit"], plugins={"audit": {}})
    (record,) = [
        one.fields for one in read_records(tmp_path / "audit" / "audit.jsonl") if one.kind == "approval_answered"
    ]
    assert (record["granted"], record["by"], record["unanswered"]) == (False, "", "not_asked")


@pytest.mark.heavy
async def test_watch_leaves_a_question_open_to_which_no_answer_was_typed(tmp_path: Path) -> None:
    from hooksdk.desk import ApprovalRecords
    from hooksdk.stores import SqlStore

    records = ApprovalRecords(SqlStore(tmp_path / "kept"))
    await ApprovalDesk(records, wait=0)(request(FIRST))
    done = await hooksdk("approvals", "watch", folder=tmp_path, stdin="maybe\n")
    assert "approval 1 goes on waiting: nobody answered: what was typed is none of the answers" in done.err
    assert (done.code, done.out) == (0, "0 questions answered\n")
    assert [one.state for one in await records.list()] == ["pending"]
