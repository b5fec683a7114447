"""Files that a crash cut short, that were damaged, or that somebody else changed while a session was open."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from provider_rules import violations
from transcripts import OPENAI, body, call, filled, history, journal_file, messages_file, opened, statuses, texts

from hooksdk import Host
from hooksdk.calls import ToolResult
from hooksdk.errors import SessionBusy, StoreError, TranscriptChanged
from hooksdk.formats import Message
from hooksdk.stores import JsonlStore, files
from hooksdk.stores._append_file import AppendFile
from hooksdk.transcript import Results

pytestmark = pytest.mark.anyio


@pytest.fixture
def store(tmp_path: Path) -> JsonlStore:
    return JsonlStore(tmp_path)


# --- what a crash leaves ---


@pytest.mark.heavy
def test_a_file_cut_at_any_byte_opens_with_all_complete_lines_and_can_be_continued(tmp_path: Path) -> None:
    whole = tmp_path / "whole"
    file = AppendFile(whole, "s")
    file.read()
    for number in range(30):
        file.append([{"n": number, "text": "é😀"}])
    data, cut = whole.read_bytes(), tmp_path / "cut"
    for offset in range(len(data) + 1):
        cut.write_bytes(data[:offset])
        file = AppendFile(cut, "s")
        kept = file.read()
        # A line whose newline alone is missing is complete.
        complete = (data[:offset] + b"\n").count(b'"}\n')
        assert [each["n"] for each in kept] == list(range(complete))
        file.append([{"n": "next"}])
        file.verify()
        assert [json.loads(line)["n"] for line in cut.read_bytes().splitlines()] == [*range(complete), "next"]


def test_a_step_of_several_lines_is_kept_whole_or_not_at_all(tmp_path: Path) -> None:
    whole = tmp_path / "whole"
    file = AppendFile(whole, "s")
    file.read()
    file.append([{"n": 0}])
    first = whole.stat().st_size
    file.append([{"n": 1}, {"n": 2}, {"n": 3}])
    data, cut = whole.read_bytes(), tmp_path / "cut"
    for offset in range(first, len(data) + 1):
        cut.write_bytes(data[:offset])
        file = AppendFile(cut, "s")
        assert len(file.read()) == (4 if offset >= len(data) - 1 else 1)


STATES = [{}, {"seen": [1]}, {"seen": [1, 2]}, {"seen": [1, 2, 3]}]


async def lived_in(store: JsonlStore) -> list[Message]:
    """A closed session whose journal has an entry of every kind; answers its messages."""
    async with opened(store) as transcript:
        results = Results(transcript, "p")
        await transcript.append(history(OPENAI, [body(1, 600), body(2, 600)]))
        await transcript.save_state("p", STATES[1])
        for handle in ("r1", "r2"):
            await results.trim(handle, "short")
        await transcript.drain()
        await results.restore("r1")
        await transcript.append([OPENAI.user("more"), OPENAI.reply("", [call(3), call(4)])])
        for number in (4, 3):  # the second waits for the first
            await transcript.answer(call(number), ToolResult(body(number, 600)), None)
        await transcript.append([OPENAI.reply("seen")])
        await transcript.save_state("p", STATES[2])
        await transcript.drain()
        await transcript.compact([OPENAI.user("summary"), *transcript.view[-5:]])
        await results.trim("r3", "short")
        await transcript.drain()
        await transcript.append([OPENAI.user("and now?"), OPENAI.reply("done")])
        await transcript.save_state("p", STATES[3])
        await results.trim("r4", "short")
        return transcript.messages


@pytest.mark.heavy
@pytest.mark.parametrize("step", [61, pytest.param(1, marks=[pytest.mark.slow, pytest.mark.timeout(3_600)])])
@pytest.mark.parametrize("which", [messages_file, journal_file])
async def test_a_session_cut_at_any_byte_opens_and_goes_on(
    store: JsonlStore, which: Callable[[JsonlStore], Path], step: int
) -> None:
    whole = await lived_in(store)
    path = which(store)
    both = {file: file.read_bytes() for file in (messages_file(store), journal_file(store))}
    data = both[path]
    kinds = {json.loads(line).get("kind") for line in both[journal_file(store)].splitlines()}
    assert kinds == {None, "format", "staged", "trim", "restore", "drain", "compact", "state"}
    for offset in range(0, len(data) + 1, step):
        path.write_bytes(data[:offset])
        async with opened(store) as transcript:
            kept = transcript.messages
            assert kept == whole[: len(kept)]
            assert len(kept) == len(whole) or which is messages_file
            assert transcript.state("p") in STATES
            await transcript.append([OPENAI.user("NEW")])
            await transcript.drain()
            shown = transcript.view
            assert shown[-1] == OPENAI.user("NEW")
            assert violations("openai-chat", shown) == []
        async with opened(store) as transcript:
            assert transcript.view == shown
        for file, content in both.items():
            file.write_bytes(content)
    print(f"{which.__name__}: {len(range(0, len(data) + 1, step))} offsets")


Damage = Callable[[list[bytes]], list[bytes]]
DAMAGES: dict[str, tuple[Damage, int]] = {
    "glued": (lambda lines: [lines[0], lines[1] + lines[2], *lines[3:]], 2),
    "glued at the end": (lambda lines: [*lines[:-2], lines[-2] + lines[-1]], 6),
    "glued and torn": (lambda lines: [*lines[:-1], lines[-2] + lines[-1][:20]], 7),
    "zeros": (lambda lines: [lines[0], b"\0" * 4096, *lines[1:]], 2),
    "zeros at the end": (lambda lines: [*lines, b"\0" * 512], 8),
    "cut inside": (lambda lines: [*lines[:3], lines[3][:-9], *lines[4:]], 4),
    "not utf-8": (lambda lines: [*lines[:3], b"\xff\xfe", *lines[3:]], 4),
    "a list": (lambda lines: [b"[1, 2]", *lines], 1),
}
"""What was done to the seven lines of a file, and which line the error names."""


@pytest.mark.parametrize("kind", DAMAGES)
async def test_other_damage_is_reported_with_its_line_and_nothing_is_touched(store: JsonlStore, kind: str) -> None:
    damage, line = DAMAGES[kind]
    await filled(store, 2)
    path = messages_file(store)
    lines = [each.strip() for each in path.read_bytes().splitlines()] + [b'{"role":"user","content":"end"}']
    lines = damage(lines)
    ends_torn = len(lines) >= 7 and not lines[-1].endswith(b"}")
    damaged = b"\n".join(lines) + (b"" if ends_torn else b"\n")
    path.write_bytes(damaged)
    with pytest.raises(StoreError) as caught:
        async with opened(store):
            pass
    assert str(path) in str(caught.value)
    assert f"line {line}" in str(caught.value)
    assert path.read_bytes() == damaged


@pytest.mark.parametrize(
    ("header", "problem"),
    [
        ({"hooksdk": "journal", "version": 2, "session": "s"}, "newer hooksdk"),
        ({"hooksdk": "journal", "version": 1, "session": "another"}, "another session"),
        ({"kind": "state"}, "not the header"),
    ],
)
async def test_a_journal_that_is_not_this_sessions_is_refused(
    store: JsonlStore, header: dict[str, Any], problem: str
) -> None:
    await filled(store)
    path = journal_file(store)
    changed = json.dumps(header).encode() + b"\n"
    path.write_bytes(changed)
    with pytest.raises(StoreError, match=problem):
        await store.open_session("s")
    assert path.read_bytes() == changed
    path.unlink()
    log = await store.open_session("s", wait=0)
    assert log.existed


async def test_a_lost_journal_leaves_the_messages_whole_and_their_results_trimmable(store: JsonlStore) -> None:
    await filled(store)
    journal_file(store).unlink()
    async with opened(store) as transcript:
        assert transcript.existed
        assert transcript.view == transcript.messages
        await Results(transcript, "p").trim("r1")
        assert statuses(await transcript.drain()) == ["applied"]


async def test_a_lease_file_that_was_zeroed_does_not_lock_the_session_up(store: JsonlStore) -> None:
    await filled(store)
    next(store.directory.glob("*.lock")).write_bytes(b"\0" * 21)
    first = await store.open_session("s")
    await first.close()
    assert (await store.open_session("s")).token > first.token > 2


# --- foreign hands ---


async def test_an_edit_of_the_same_size_with_its_time_set_back_is_seen_and_the_queue_kept(store: JsonlStore) -> None:
    await filled(store)
    async with opened(store) as transcript:
        path = messages_file(store)
        stat, data = path.stat(), path.read_bytes()
        with path.open("r+b") as file:
            file.write(data.replace(b"result 3", b"result 4"))
        os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))
        for attempt in (transcript.verify, transcript.drain):
            with pytest.raises(TranscriptChanged, match=r"message 6: somebody else changed line 7"):
                await attempt()
        assert transcript.queued == 1
    async with opened(store) as transcript:
        assert statuses(await transcript.drain()) == ["applied"]


@pytest.mark.parametrize("hand", ["appended", "cut", "swapped", "removed"])
@pytest.mark.parametrize("which", [messages_file, journal_file])
async def test_a_foreign_change_stops_the_next_append(
    store: JsonlStore, which: Callable[[JsonlStore], Path], hand: str
) -> None:
    await filled(store)
    async with opened(store) as transcript:
        path = which(store)
        data = path.read_bytes()
        if hand == "removed":
            path.unlink()
        elif hand == "swapped":
            path.with_suffix(".new").write_bytes(data)
            path.with_suffix(".new").replace(path)
        else:
            path.write_bytes(data + b'{"role":"user","content":"hi"}\n' if hand == "appended" else data[:-30])
        append = (
            transcript.append([OPENAI.user("x")]) if which is messages_file else transcript.save_state("p", {"n": 1})
        )
        with pytest.raises(TranscriptChanged):
            await append


async def test_a_touched_file_with_the_same_content_is_no_change(store: JsonlStore) -> None:
    await filled(store)
    async with opened(store) as transcript:
        os.utime(messages_file(store))
        await transcript.append([OPENAI.user("x")])
        assert statuses(await transcript.drain()) == ["applied"]


async def test_trims_of_a_result_that_was_edited_meanwhile_are_stale_and_not_shown(store: JsonlStore) -> None:
    await filled(store)
    path = messages_file(store)
    path.write_bytes(path.read_bytes().replace(b"result 1", b"edited 1").replace(b"result 2", b"edited 2"))
    async with opened(store) as transcript:
        assert statuses(await transcript.drain()) == ["stale"]
        assert transcript.view == transcript.messages
        assert [text[:8] for text in texts(transcript, transcript.view)] == ["edited 1", "edited 2", "result 3"]


# --- a disk that cannot be written ---


@pytest.mark.heavy
@pytest.mark.parametrize(
    ("number", "advice"), [(errno.ENOSPC, "Free some space on this disk"), (errno.EROFS, "Make the disk writable")]
)
async def test_a_session_that_cannot_be_opened_for_want_of_a_disk_says_so_and_loses_nothing(
    store: JsonlStore, monkeypatch: pytest.MonkeyPatch, number: int, advice: str
) -> None:
    """The Nth operation that changes the disk fails, for every N until the session opens."""
    await filled(store)
    messages, journal = messages_file(store).read_bytes(), journal_file(store).read_bytes()
    real = {name: getattr(os, name) for name in ("open", "write", "fsync", "fdatasync")}
    countdown = 0

    def failing(name: str) -> Callable[..., Any]:
        def operation(*arguments: Any, **named: Any) -> Any:
            nonlocal countdown
            if name != "open" or arguments[1] & os.O_RDWR:
                countdown -= 1
                if countdown == 0:
                    raise OSError(number, os.strerror(number))
            return real[name](*arguments, **named)

        return operation

    for name in real:
        monkeypatch.setattr(os, name, failing(name))
    monkeypatch.setattr(files, "_sync", os.fdatasync)
    for fails in range(1, 30):
        problem, countdown = "", fails
        try:
            async with Host(store=store) as host, host.session("s") as session:
                countdown = -1
                assert [info.trimmed for info in session.results.list()] == [True, True, False]
        except StoreError as error:
            problem, countdown = str(error), -1
        if not problem:
            assert fails > 6
            return
        assert os.strerror(number) in problem
        assert f"What was stored before is whole. {advice}" in problem
        assert (messages_file(store).read_bytes(), journal_file(store).read_bytes()) == (messages, journal)
    pytest.fail("it never ran out of operations")


async def test_who_lost_the_lease_cannot_write(store: JsonlStore) -> None:
    async with opened(store) as transcript:
        next(store.directory.glob("*.lock")).unlink()
        async with opened(JsonlStore(store.directory)) as taken_over:
            with pytest.raises(SessionBusy):
                await transcript.append([OPENAI.user("late")])
            await taken_over.append([OPENAI.user("in time")])
            assert len(taken_over.messages) == 1


# --- messages that are gone while the journal speaks of them ---


async def compacted(store: JsonlStore) -> None:
    """A closed session of five messages, the first three of which are compacted away."""
    async with opened(store) as transcript:
        await transcript.append([OPENAI.user(text) for text in ("one", "two", "three")])
        await transcript.compact([OPENAI.user("SUMMARY")])
        await transcript.append([OPENAI.user("four"), OPENAI.user("five")])


def words(messages: Sequence[Message]) -> list[str]:
    return [str(message["content"]) for message in messages]


async def test_messages_recorded_after_others_were_lost_are_in_the_view(
    store: JsonlStore, caplog: pytest.LogCaptureFixture
) -> None:
    await compacted(store)
    data = messages_file(store).read_bytes()
    for offset in range(0, len(data), 7):
        messages_file(store).write_bytes(data[:offset])
        journal = journal_file(store).read_bytes()
        async with opened(store) as transcript:
            await transcript.append([OPENAI.user("NEW")])
            live = transcript.view
        async with opened(store) as transcript:
            assert transcript.view == live
            assert words(live)[-1] == "NEW"
        journal_file(store).write_bytes(journal)
    assert "the journal was written when 3 messages were stored, and now there are 0" in caplog.text


async def test_a_line_taken_out_by_hand_hides_no_other(store: JsonlStore, caplog: pytest.LogCaptureFixture) -> None:
    await compacted(store)
    lines = messages_file(store).read_bytes().splitlines(keepends=True)
    messages_file(store).write_bytes(b"".join(lines[:1] + lines[2:]))
    async with opened(store) as transcript:
        assert words(transcript.view) == ["one", "three", "four", "five"]
    assert "a compaction of 3 messages is left out" in caplog.text


async def test_a_compaction_of_an_earlier_release_goes_by_its_count(store: JsonlStore) -> None:
    await compacted(store)
    entries = [json.loads(line) for line in journal_file(store).read_bytes().splitlines()]
    for entry in entries:
        entry.pop("hash", None)
    journal_file(store).write_text("".join(json.dumps(entry) + "\n" for entry in entries))
    async with opened(store) as transcript:
        assert words(transcript.view) == ["SUMMARY", "four", "five"]
