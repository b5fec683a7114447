"""Calls that ran to their end, and whose reply the conversation has lost: an equal call is asked about, and no other.

A store that is copied while a tool runs is what a process that dies there leaves behind; the list that the next one hands in is what
its framework has saved.
"""

from __future__ import annotations

import shutil
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest

from hooksdk import Annotations, Approval, ApprovalRequest, Host, Run, Session, ToolCall, ToolContext
from hooksdk.formats import Message
from hooksdk.stores import SqlStore
from tests.stage import USER, make, reply

pytestmark = pytest.mark.anyio

NAMES = ("ann", "bob", "eve")
RAN = "ran to its end"
OTHER: Message = {"role": "user", "content": "Where were we?"}
Lists = Callable[[list[Message]], list[Message]]
SAVED: dict[str, Lists] = {
    "the prompt alone": lambda stored: stored[:1],
    "the prompt, and once more": lambda stored: [stored[0], stored[0]],
    "the prompt, and other words": lambda stored: [stored[0], OTHER],
    "other words alone": lambda _stored: [OTHER],
}


def pays(prefix: str, *, turned: bool = False) -> list[ToolCall]:
    def arguments(name: str) -> dict[str, Any]:
        pairs = [("path", name), ("amount", 5)]
        return dict(reversed(pairs) if turned else pairs)

    return [ToolCall(f"{prefix}{number}", "pay", arguments(name)) for number, name in enumerate(NAMES)]


class Bank:
    """Pays, and keeps what a process would leave that dies in one of the payments, or after one."""

    def __init__(self, folder: Path, *, dies_in: int = 0, idempotent: bool | None = None) -> None:
        self.folder, self.dead = folder / "live", folder / "dead"
        self.dies_in, self.annotations = dies_in, Annotations(idempotent=idempotent)
        self.paid: list[str] = []
        self.effects: list[str] = []
        self.asked: list[ApprovalRequest] = []
        self.granted = False

    async def pay(self, arguments: dict[str, Any], context: ToolContext) -> str:
        self.paid.append(arguments["path"])
        self.effects.append(context.effect_id)
        if len(self.paid) == self.dies_in:
            shutil.copytree(self.folder, self.dead)
        return "paid"

    async def person(self, request: ApprovalRequest) -> Approval:
        self.asked.append(request)
        return Approval(self.granted)

    @asynccontextmanager
    async def run(self, folder: Path | None = None) -> AsyncGenerator[tuple[Session, Run]]:
        store = SqlStore(folder or self.folder)
        tool = make("pay", self.pay, annotations=self.annotations)
        async with Host(store=store, approver=self.person) as host, host.session("s") as session, session.run() as run:
            await run.resolve_tools([tool])
            yield session, run

    async def play(self, run: Run, messages: Sequence[Message], calls: Sequence[ToolCall]) -> list[str]:
        """What a loop does that keeps its own list: it asks the model, and makes the calls of the reply."""
        await run.prepare_messages(messages, follow=True)
        await run.record(reply(*calls))
        return [(await run.call_tool(call)).text for call in calls]

    async def die(self) -> list[Message]:
        """The first process: three payments in one reply; what it stored."""
        async with self.run() as (session, run):
            await self.play(run, [USER], pays("c"))
            stored = session.messages
        self.asked.clear()
        self.paid.clear()
        self.first, self.effects = self.effects, []
        return stored

    @property
    def questions(self) -> list[str]:
        """Who is to be paid once more, and what is said of the first time."""
        return [f"{one.arguments['path']} {'ended' if RAN in one.description else 'doubt'}" for one in self.asked]


@pytest.mark.light(every=5)
@pytest.mark.parametrize("saved", SAVED)
@pytest.mark.parametrize("dies_in", [1, 2, 3])
@pytest.mark.parametrize("turned", [False, True])
async def test_every_payment_of_a_reply_that_a_crash_has_lost_is_asked_about(
    tmp_path: Path, saved: str, dies_in: int, *, turned: bool
) -> None:
    bank = Bank(tmp_path, dies_in=dies_in)
    stored = await bank.die()
    async with bank.run(bank.dead) as (_, run):
        texts = await bank.play(run, SAVED[saved](stored), pays("other", turned=turned))
    expected = [f"{name} {'doubt' if number == dies_in else 'ended'}" for number, name in enumerate(NAMES[:dies_in], 1)]
    assert (bank.questions, bank.paid) == (expected, list(NAMES[dies_in:]))
    told = ["lost its result" in text or "may have taken effect" in text for text in texts]
    assert told == [number <= dies_in for number in (1, 2, 3)]


async def test_whoever_says_yes_pays_again_under_the_same_effect_and_is_not_asked_once_more(tmp_path: Path) -> None:
    bank = Bank(tmp_path, dies_in=2)
    await bank.die()
    bank.granted = True
    async with bank.run(bank.dead) as (_, run):
        await bank.play(run, [USER], pays("d"))
    assert (bank.paid, bank.effects[:2], len(bank.asked)) == ([*NAMES], bank.first[:2], 2)
    async with bank.run(bank.dead) as (session, run):
        await bank.play(run, [*session.messages, OTHER], pays("e"))
    assert (len(bank.paid), len(bank.asked)) == (6, 2)


async def test_a_second_crash_forgets_nothing_of_the_first(tmp_path: Path) -> None:
    bank = Bank(tmp_path, dies_in=2)
    await bank.die()
    again = Bank(tmp_path / "again", dies_in=1)
    shutil.copytree(bank.dead, again.folder)
    async with again.run() as (_, run):
        await again.play(run, [USER], pays("d"))  # eve is paid, and it dies
    again.asked.clear()
    async with again.run(again.dead) as (_, run):
        await again.play(run, [USER, OTHER], pays("e"))
    assert (again.paid, again.questions) == (["eve"], ["ann ended", "bob doubt", "eve doubt"])


async def test_an_idempotent_tool_pays_unasked_under_the_same_effect(tmp_path: Path) -> None:
    bank = Bank(tmp_path, dies_in=3, idempotent=True)
    await bank.die()
    async with bank.run(bank.dead) as (_, run):
        await bank.play(run, [USER], pays("d"))
    assert (bank.asked, bank.effects) == ([], bank.first)


async def test_a_reply_that_was_never_recorded_is_lost_too(tmp_path: Path) -> None:
    bank = Bank(tmp_path, dies_in=2)
    async with bank.run() as (_, run):
        await run.prepare_messages([USER], follow=True)
        for call in pays("c"):
            await run.call_tool(call)
    bank.paid.clear()
    for prefix in ("d", "e"):
        async with bank.run(bank.dead) as (session, run):
            await bank.play(run, [*session.messages, OTHER], pays(prefix))
    assert bank.paid == ["eve", "eve"]


async def test_a_call_that_a_person_has_settled_is_asked_about_no_more(tmp_path: Path) -> None:
    bank = Bank(tmp_path, dies_in=2)
    await bank.die()
    async with bank.run(bank.dead) as (session, run):
        await run.prepare_messages([USER], follow=True)
        assert [one.call_id for one in session.in_doubt] == ["c1"]
        await session.settle("c0", "it was paid back")
        await bank.play(run, [USER], pays("d"))
    assert (bank.questions, bank.paid) == (["bob doubt"], ["ann", "eve"])


HAD: dict[str, Lists] = {
    "whole": lambda stored: stored,
    "fork": lambda stored: stored[:1],
    "window": lambda stored: stored[-1:],
    "a program that begins anew each night": lambda _stored: [],
    "summary": lambda stored: [{"role": "user", "content": "Summary."}, *stored[-1:]],
}


@pytest.mark.parametrize("kept", HAD)
async def test_whoever_has_had_the_answer_may_ask_the_same_again(tmp_path: Path, kept: str) -> None:
    bank = Bank(tmp_path)
    for _ in range(3):
        async with bank.run() as (session, run):
            await bank.play(run, [*HAD[kept](session.messages), OTHER], pays("d"))
            await run.record({"role": "assistant", "content": "done"})
    assert (bank.asked, bank.paid) == ([], [*NAMES] * 3)


@pytest.mark.parametrize("window", [1, 5])
async def test_what_a_window_leaves_out_of_an_unfinished_run_is_not_lost(tmp_path: Path, window: int) -> None:
    bank, stored = Bank(tmp_path), list[Message]()
    with anyio.CancelScope() as scope:
        async with bank.run() as (session, run):
            await bank.play(run, [USER], pays("c"))
            await run.record({"role": "assistant", "content": "One moment."})
            stored = session.messages
            scope.cancel()
            await anyio.sleep_forever()
    async with bank.run() as (_, run):
        await bank.play(run, [*stored[-window:], OTHER], pays("d"))
    assert (bank.asked, bank.paid) == ([], [*NAMES] * 2)


async def test_a_run_that_was_cancelled_and_is_asked_for_anew_is_asked_about(tmp_path: Path) -> None:
    bank = Bank(tmp_path)
    with anyio.CancelScope() as scope:
        async with bank.run() as (_, run):
            await bank.play(run, [USER], pays("c"))
            scope.cancel()
            await anyio.sleep_forever()
    async with bank.run() as (_, run):
        await bank.play(run, [USER], pays("d"))
    assert (bank.questions, bank.paid) == (["ann ended", "bob ended", "eve ended"], [*NAMES])


@pytest.mark.parametrize("kept", [0, 1, 3, 4, 20])
async def test_what_a_summary_leaves_out_within_a_run_is_not_lost_to_it(tmp_path: Path, kept: int) -> None:
    bank, messages = Bank(tmp_path), [USER]
    async with bank.run() as (_, run):
        for turn in range(3):
            calls = pays(f"{turn}-")
            texts = await bank.play(run, messages, calls)
            results: list[Message] = [
                {"role": "tool", "tool_call_id": call.id, "content": text}
                for call, text in zip(calls, texts, strict=True)
            ]
            since = [*messages, reply(*calls), *results]
            messages = [{"role": "user", "content": f"Summary {turn}."}, *(since[-kept:] if kept else ())]
    assert (bank.asked, bank.paid) == ([], [*NAMES] * 3)


async def test_a_step_that_a_run_tries_again_from_its_old_list_is_asked_about(tmp_path: Path) -> None:
    bank = Bank(tmp_path)
    async with bank.run() as (_, run):
        for attempt in "cd":
            await bank.play(run, [USER], pays(attempt))
    assert (bank.questions, bank.paid) == (["ann ended", "bob ended", "eve ended"], [*NAMES])


@pytest.mark.parametrize("saved", SAVED)
async def test_what_a_summary_has_left_out_is_lost_once_its_run_has_died(tmp_path: Path, saved: str) -> None:
    bank = Bank(tmp_path, dies_in=4)
    async with bank.run() as (session, run):
        await bank.play(run, [USER], pays("c"))
        stored = session.messages
        await bank.play(run, [{"role": "user", "content": "Summary."}], [ToolCall("other", "pay", {"path": "dan"})])
    bank.paid.clear()
    async with bank.run(bank.dead) as (_, run):
        await bank.play(run, SAVED[saved](stored), pays("d"))
    assert (bank.questions, bank.paid) == (["ann ended", "bob ended", "eve ended"], [])


async def test_a_reply_that_was_saved_without_its_results_is_asked_about(tmp_path: Path) -> None:
    bank = Bank(tmp_path)
    stored: list[dict[str, Any]] = []
    with anyio.CancelScope() as scope:
        async with bank.run() as (session, run):
            await bank.play(run, [USER], pays("c"))
            stored += session.messages
            scope.cancel()
            await anyio.sleep_forever()
    async with bank.run() as (_, run):
        await run.prepare_messages(stored[:2], follow=True)
        for call in pays("c"):
            await run.call_tool(call)
    assert (bank.questions, bank.paid) == (["ann ended", "bob ended", "eve ended"], [*NAMES])
