"""`hooksdk approvals`: another process lists the calls that wait, and answers them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import anyio
import pytest

from hooksdk import ApprovalRequest, ToolCall
from hooksdk.approvals import Approval, Later, Question
from hooksdk.desk import ApprovalDesk, ApprovalRecords
from hooksdk.stores import SqlStore
from tests.hooksdk.commands import hooksdk
from tests.stage import make

pytestmark = [pytest.mark.heavy, pytest.mark.anyio]
FIRST, SECOND = {"amount": 5}, {"amount": 7, "to": "\x1b[31mbob\nnumber  1"}


@pytest.fixture
def records(tmp_path: Path) -> ApprovalRecords:
    return ApprovalRecords(SqlStore(tmp_path / "kept"))


def request(arguments: dict[str, Any]) -> ApprovalRequest:
    questions = (Question(title="Pay?\x1b[2J", plugin="payments", severity="critical"),)
    return ApprovalRequest(
        title="Pay?\x1b[2J", severity="critical", plugin="payments", questions=questions, session_id="s",
        requester={"id": "ann"}, call=ToolCall("c1", "pay", arguments), tool=make("pay", owner="bank"),
        arguments=arguments,
    )  # fmt: skip


@pytest.fixture
async def desk(records: ApprovalRecords) -> ApprovalDesk:
    """Two calls wait at it."""
    made = ApprovalDesk(records, wait=0)
    for arguments in (FIRST, SECOND):
        assert await made(request(arguments)) == Later()
    return made


async def test_nothing_waits(tmp_path: Path) -> None:
    done = await hooksdk("approvals", folder=tmp_path)
    assert (done.code, done.out) == (0, "No call waits for an approval in this store.\n")


async def test_another_word_for_an_answer_is_told_which_command_it_means(tmp_path: Path) -> None:
    done = await hooksdk("approvals", "allow", "1", folder=tmp_path)
    assert (done.code, done.err) == (2, "hooksdk: no such command 'allow'; did you mean: hooksdk approvals grant 1\n")
    assert "Did you mean 'grant'" in (await hooksdk("approvals", "gant", "1", folder=tmp_path)).err


async def test_what_waits_is_listed_and_others_words_do_not_steer_the_terminal(
    desk: ApprovalDesk, tmp_path: Path
) -> None:
    done = await hooksdk("approvals", folder=tmp_path)
    assert done.code == 0
    head, first, second = done.out.splitlines()
    assert head.split() == [
        "number",
        "state",
        "severity",
        "question",
        "tool",
        "arguments",
        "asked",
        "by",
        "for",
        "until",
    ]
    assert first.split()[:3] == ["1", "pending", "critical"]
    assert '{"amount":5}' in first.replace(" ", "")
    assert second.split()[:3] == ["2", "pending", "critical"]
    assert "\x1b" not in done.out
    document = (await hooksdk("approvals", "--json", folder=tmp_path)).json()
    assert [one["arguments"] for one in document["approvals"]] == [FIRST, SECOND]
    assert [(one["requester"], one["session"], one["answer"]) for one in document["approvals"]] == [
        ("ann", "s", None)
    ] * 2


async def test_one_is_shown_whole(desk: ApprovalDesk, tmp_path: Path) -> None:
    done = await hooksdk("approvals", "show", "2", folder=tmp_path)
    assert done.code == 0
    assert "argument    amount = 7\n" in done.out
    assert "\x1b" not in done.out
    assert sum(line.startswith("number") for line in done.out.splitlines()) == 1
    assert (await hooksdk("approvals", "show", "2", "--json", folder=tmp_path)).json()["approval"]["number"] == 2


@pytest.mark.parametrize(
    ("option", "scope", "agree"),
    [((), "once", ""), (("--always",), "always", ""), (("--session", "--values"), "session", "values")],
)
async def test_a_grant_is_taken_by_the_call_that_is_made_again(
    option: tuple[str, ...], scope: str, agree: str, desk: ApprovalDesk, tmp_path: Path
) -> None:
    done = await hooksdk("approvals", "grant", "1", "--by", "eve", *option, folder=tmp_path)
    assert (done.code, done.out) == (0, "granted: 1, Pay?\ufffd[2J (host:bank:pay)\n")
    answer = await desk(request(FIRST))
    assert isinstance(answer, Approval)
    assert (answer.granted, answer.scope, answer.by, answer.agree) == (True, scope, "eve", agree)
    assert await desk(request(SECOND)) == Later()


async def test_a_refusal_has_a_reason_for_the_model(desk: ApprovalDesk, tmp_path: Path) -> None:
    done = await hooksdk("approvals", "deny", "2", "--reason", "too much", "--json", folder=tmp_path)
    assert done.json()["approval"]["state"] == "denied"
    answer = await desk(request(SECOND))
    assert isinstance(answer, Approval)
    assert (answer.granted, answer.reason) == (False, "too much")
    everything = (await hooksdk("approvals", "--all", "--json", folder=tmp_path)).json()["approvals"]
    assert [one["state"] for one in everything] == ["pending", "used"]


async def test_what_takes_no_answer_is_told_in_one_line(desk: ApprovalDesk, tmp_path: Path) -> None:
    await hooksdk("approvals", "deny", "1", folder=tmp_path)
    for arguments, problem in (
        (("grant", "1"), "approval 1 was answered already"),
        (("grant", "9"), "there is no approval 9 here. Those that wait: 2."),
        (("show", "9"), "there is no approval 9 here. Those that wait: 2."),
    ):
        done = await hooksdk("approvals", *arguments, folder=tmp_path)
        assert (done.code, done.err) == (1, f"hooksdk: {problem}\n")
    assert (await hooksdk("approvals", "grant", "2", "--always", "--session", folder=tmp_path)).code == 2
    assert (await hooksdk("approvals", "grant", "one", folder=tmp_path)).code == 2


async def test_watch_asks_here_about_each(desk: ApprovalDesk, records: ApprovalRecords, tmp_path: Path) -> None:
    done = await hooksdk("approvals", "watch", "--once", "--by", "ann", folder=tmp_path, stdin="yes\nno\n")
    assert (done.code, done.out) == (0, "2 questions answered\n")
    assert "amount = 5" in done.err
    assert [record.state for record in await records.list()] == ["granted", "denied"]


async def test_the_end_of_stdin_answers_nothing(desk: ApprovalDesk, records: ApprovalRecords, tmp_path: Path) -> None:
    with anyio.fail_after(100):
        done = await hooksdk("approvals", "watch", folder=tmp_path, stdin="yes\n")
    assert (done.code, done.out) == (0, "1 question answered\n")
    assert [record.state for record in await records.list()] == ["granted", "pending"]


async def test_what_is_damaged_is_told_in_one_line(records: ApprovalRecords, tmp_path: Path) -> None:
    await records.store.set_value("hooksdk.desk", "open", "torn")
    done = await hooksdk("approvals", folder=tmp_path)
    assert (done.code, done.err.count("\n")) == (1, 1)
    assert "what waits is asked anew then" in done.err


async def test_other_stores_are_named_and_a_project_without_one_says_that_nothing_can_be_seen(tmp_path: Path) -> None:
    kept = ApprovalRecords(SqlStore(f"sqlite:///{tmp_path / 'kept.db'}"))
    await ApprovalDesk(kept, wait=0)(request(FIRST))
    await kept.store.aclose()
    (tmp_path / "hooksdk.toml").write_text('store = "memory"\n')
    there = ("--store", f"sqlite:///{tmp_path / 'kept.db'}")
    assert (await hooksdk("approvals", "grant", "1", *there, folder=tmp_path)).code == 0
    assert [
        one["state"]
        for one in (await hooksdk("approvals", "--all", "--json", *there, folder=tmp_path)).json()["approvals"]
    ] == ["granted"]
    done = await hooksdk("approvals", folder=tmp_path)
    assert (done.code, done.out) == (1, "")
    assert 'this project keeps nothing on disk (store = "memory")' in done.err
