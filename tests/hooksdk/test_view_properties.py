"""Any order of turns, trims, restores, drains, compactions and reopenings, in two sessions that share all call ids."""

from __future__ import annotations

from typing import Any

import anyio
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from provider_rules import id_violations, violations
from transcripts import ALL, statuses, view_size

from hooksdk.calls import ToolCall, ToolResult
from hooksdk.formats import FORMATS, Message, MessageFormat
from hooksdk.stores import MemoryStore, SessionLog
from hooksdk.transcript import DrainReport, Ledger, Results, Transcript, view

IDS = ["same", "call_1", "r1"]
SESSIONS = st.integers(0, 1)
INDEX = st.integers(0, 30)
TEXT = st.one_of(
    st.text(st.sampled_from('x"\\\n é😀'), min_size=1, max_size=300).map(lambda text: "t" + text * 5),
    st.integers(90, 1_500).map("y".__mul__),
)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("turn"), SESSIONS, st.lists(st.tuples(st.sampled_from(IDS), TEXT), min_size=1, max_size=3), st.permutations(range(3))),
        st.tuples(st.just("trim"), SESSIONS, INDEX, st.one_of(st.none(), st.text(max_size=400))),
        st.tuples(st.just("trim"), SESSIONS, INDEX, st.none()),
        st.tuples(st.just("restore"), SESSIONS, INDEX),
        st.tuples(st.just("drain"), SESSIONS),
        st.tuples(st.just("reopen"), SESSIONS),
        st.tuples(st.just("compact"), SESSIONS, st.integers(0, 4)),
    ),
    max_size=25,
)  # fmt: skip


class Expected:
    """One session as it should be: the results' texts, and what is shown of each."""

    def __init__(self) -> None:
        self.whole: list[str] = []
        self.shown: dict[int, str] = {}
        self.queued: dict[int, str | None] = {}
        self.compacted = False


class Play:
    """Two sessions of one store, and what is expected of them."""

    def __init__(self, form: MessageFormat) -> None:
        self.form = form
        self.store = MemoryStore()
        self.transcripts: dict[int, Transcript] = {}
        self.logs: dict[int, SessionLog] = {}
        self.expected = [Expected(), Expected()]

    async def run(self, steps: list[tuple[Any, ...]]) -> None:
        for number in range(2):
            await self.open(number)
            await self.transcripts[number].append([self.form.user("question")])
        for kind, number, *more in steps:
            untouched = self.transcripts[1 - number].view
            await getattr(self, kind)(number, self.transcripts[number], self.expected[number], *more)
            await self.check(number)
            assert self.transcripts[1 - number].view == untouched
        for number in range(2):
            await self.undo(number)

    async def open(self, number: int) -> Transcript:
        self.logs[number] = log = await self.store.open_session(str(number), wait=0)
        self.transcripts[number] = transcript = await Transcript.open(log, str(number))
        await transcript.use_format(self.form)
        return transcript

    async def turn(
        self, _number: int, transcript: Transcript, expected: Expected, made: list[tuple[str, str]], order: list[int]
    ) -> None:
        calls = [ToolCall(call_id, "read", {"n": place}) for place, (call_id, _) in enumerate(made)]
        await transcript.append([*self.form.reply_messages("", calls)])
        for place in order:
            if place < len(calls):
                await transcript.answer(calls[place], ToolResult(made[place][1]), None)
        assert transcript.pending == ()
        expected.whole += [text for _, text in made]

    async def trim(
        self, _number: int, transcript: Transcript, expected: Expected, index: int, replacement: str | None
    ) -> None:
        if index >= len(expected.whole):
            return
        info = transcript.list_results()[index]
        receipt = await Results(transcript, "p").trim(info.handle, replacement)
        assert (receipt.status == "queued") == info.trimmable
        if receipt.status == "queued":
            assert receipt.characters_after < receipt.characters_before
            expected.queued[index] = receipt.text

    async def restore(self, _number: int, transcript: Transcript, expected: Expected, index: int) -> None:
        if index < len(expected.whole) and (await Results(transcript, "p").restore(f"R{index + 1}")).status == "queued":
            expected.queued[index] = None

    async def drain(self, _number: int, transcript: Transcript, expected: Expected) -> DrainReport:
        before = view_size(transcript)
        report = await transcript.drain()
        assert {*statuses(report)} <= {"applied", "gone"}
        if all(trim.kind == "trim" for trim in report.trims):
            assert view_size(transcript) <= before
        gone = {int(trim.handle[1:]) - 1 for trim in report.trims if trim.status == "gone"}
        for index, text in expected.queued.items():
            if index not in gone:
                expected.shown[index] = text or expected.whole[index]
        expected.queued.clear()
        assert (await transcript.drain()).trims == ()
        return report

    async def reopen(self, number: int, transcript: Transcript, _expected: Expected) -> None:
        shown, infos, queued = transcript.view, transcript.list_results(), transcript.queued
        await transcript.close()
        transcript = await self.open(number)
        assert (transcript.view, transcript.list_results(), transcript.queued) == (shown, infos, queued)

    async def compact(self, _number: int, transcript: Transcript, expected: Expected, keep: int) -> None:
        shown = transcript.view
        start = len(shown) - keep if keep <= len(shown) else 0
        while start < len(shown) and (self.form.results(shown[start]) or self.is_inside_reply(shown, start)):
            start += 1
        await transcript.compact([self.form.user("summary"), *shown[start:]])
        expected.compacted = True

    def is_inside_reply(self, shown: list[Message], position: int) -> bool:
        pair = shown[max(position - 1, 0) : position + 1]
        return self.form.joined and len(pair) == 2 and all(map(self.form.is_reply, pair))

    async def check(self, number: int) -> None:
        transcript, expected = self.transcripts[number], self.expected[number]
        shown = transcript.view
        assert violations(self.form.name, shown) == []
        assert id_violations(self.form.name, shown) == []
        texts = self.texts(shown)
        wanted = [expected.shown.get(index, text) for index, text in enumerate(expected.whole)]
        assert texts == (wanted[len(wanted) - len(texts) :] if expected.compacted else wanted)
        assert self.texts(transcript.messages) == expected.whole
        await transcript.match(shown)
        messages, journal = await self.logs[number].read()
        assert view(messages, journal, self.form) == view(messages, journal, self.form) == shown

    async def undo(self, number: int) -> None:
        """Every original comes back to the byte."""
        transcript = self.transcripts[number]
        for info in transcript.list_results():
            await Results(transcript, "p").restore(info.handle)
        await transcript.drain()
        messages, shown = transcript.messages, transcript.ask(Ledger.copies)
        later = [message for message in shown if self.form.results(message)]
        assert all(message in messages for message in later)
        if not self.expected[number].compacted:
            assert shown == messages

    def texts(self, messages: list[Message]) -> list[str]:
        return [found.text for message in messages for found in self.form.results(message)]


@pytest.mark.heavy
@pytest.mark.parametrize("form", ALL, ids=FORMATS)
@settings(max_examples=60, deadline=None)
@given(steps=STEPS)
def test_the_view_is_what_the_steps_so_far_make_it(form: MessageFormat, steps: list[tuple[Any, ...]]) -> None:
    anyio.run(Play(form).run, steps)


@pytest.mark.slow
@pytest.mark.timeout(1_800)
@pytest.mark.parametrize("form", ALL, ids=FORMATS)
def test_the_view_is_what_very_many_steps_make_it(form: MessageFormat) -> None:
    played = 0

    @settings(max_examples=5_000, deadline=None)
    @given(steps=STEPS)
    def play(steps: list[tuple[Any, ...]]) -> None:
        nonlocal played
        anyio.run(Play(form).run, steps)
        played += len(steps)

    play()
    print(f"{form.name}: {played:,} steps")
    assert played >= 10_000
