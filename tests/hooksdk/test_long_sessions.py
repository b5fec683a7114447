"""Long sessions: bodies are read when they are asked for, and an index beside the messages, which nothing depends on."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ledgers import STEPS, knowledge, play_steps
from transcripts import ALL, ANTHROPIC, GEMINI, OPENAI, RESPONSES, House, history, messages_file, opened

from hooksdk._transcript import facts, messages
from hooksdk._transcript.facts import Facts
from hooksdk._transcript.journal import Ledger
from hooksdk.calls import ToolCall, ToolResult
from hooksdk.errors import TranscriptChanged
from hooksdk.formats import Message, MessageFormat, get_format
from hooksdk.stores import JsonlStore, MemoryStore, SqlStore, Store, _append_file, _index, _lines
from hooksdk.stores._lines import LineTable
from hooksdk.transcript import Results, Transcript

pytestmark = pytest.mark.anyio


@pytest.fixture(autouse=True)
def short_is_long(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every session counts as a long one: next to nothing is kept as objects, and each has an index."""
    monkeypatch.setattr(messages, "KEPT_BYTES", 200)
    monkeypatch.setattr(_lines, "MIN_INDEX_BYTES", 1)


@pytest.fixture
def store(tmp_path: Path) -> JsonlStore:
    return JsonlStore(tmp_path)


@pytest.fixture
def parsed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The name of the file of each line that was read and judged at an opening."""
    files: list[str] = []
    parse = _append_file.parse_line

    def counting(path: Path, line: bytes, number: int) -> dict[str, Any]:
        files.append(path.name.split(".")[-2])
        return parse(path, line, number)

    monkeypatch.setattr(_append_file, "parse_line", counting)
    return files


def index_file(store: JsonlStore) -> Path:
    (path,) = store.directory.glob("*.index")
    return path


def ledger_of(transcript: Transcript) -> Ledger:
    return transcript._ledger  # pyright: ignore[reportPrivateUsage]


async def eager(store: Store, form: MessageFormat) -> dict[str, Any]:
    """What a ledger knows that was made of a plain list."""
    stored, journal = await store.read_session("s")
    return knowledge(Ledger.replay(stored, journal, form))


def stores(folder: Path) -> Iterator[Store]:
    yield JsonlStore(folder)
    yield MemoryStore()
    yield SqlStore(f"sqlite:///{folder / 'sessions.db'}")


# --- the same as from a list ---


@pytest.mark.heavy
@settings(max_examples=100, deadline=None)
@given(STEPS, STEPS, st.sampled_from(ALL), st.integers(0, 2))
def test_a_ledger_that_reads_bodies_when_asked_equals_one_over_a_list(
    steps: list[tuple[Any, ...]], more: list[tuple[Any, ...]], form: MessageFormat, which: int
) -> None:
    async def run() -> None:
        with tempfile.TemporaryDirectory() as folder:
            store = list(stores(Path(folder)))[which]
            async with opened(store, form=form) as transcript:
                await play_steps(transcript, steps, form)
            async with opened(store, form=None) as transcript:
                assert knowledge(ledger_of(transcript)) == await eager(store, form)
                await play_steps(transcript, more, form)
                known = knowledge(ledger_of(transcript))
                stored = await store.read_session("s")
                assert (transcript.messages, transcript.view) == (stored[0], known["view"])
            async with opened(store, form=None) as transcript:
                assert knowledge(ledger_of(transcript)) == await eager(store, form)
            for index in Path(folder).glob("*.index"):
                index.unlink()
            async with opened(store, form=None) as transcript:
                assert knowledge(ledger_of(transcript)) == await eager(store, form)
            await store.aclose()

    anyio.run(run)


async def test_of_what_the_index_covers_no_line_is_judged_again(store: JsonlStore, parsed: list[str]) -> None:
    async with opened(store) as transcript:
        await transcript.append(history(OPENAI, [f"{number} " * 200 for number in range(50)]))
    parsed.clear()
    async with opened(store, form=None) as transcript:
        assert parsed.count("messages") == 0
        await transcript.append([OPENAI.user("more")])
        assert transcript.messages == (await store.read_session("s"))[0]


async def test_only_what_came_after_the_index_is_judged(
    store: JsonlStore, parsed: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    async with opened(store) as transcript:
        await transcript.append(history(OPENAI, [f"{number} " * 200 for number in range(50)]))
    monkeypatch.setattr(_lines, "MIN_INDEX_BYTES", 1_000_000)
    async with opened(store) as transcript:
        await transcript.append([OPENAI.user("more"), OPENAI.reply("fine")])
    parsed.clear()
    async with opened(store, form=None) as transcript:
        assert parsed.count("messages") == 2
        assert knowledge(ledger_of(transcript)) == await eager(store, OPENAI)


async def test_a_short_session_has_no_index(store: JsonlStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_lines, "MIN_INDEX_BYTES", 1_000_000)
    async with opened(store) as transcript:
        await transcript.append(history(OPENAI, ["short"] * 20))
    assert list(store.directory.glob("*.index")) == []


async def test_a_format_of_a_hosts_own_has_no_index(store: JsonlStore) -> None:
    async with opened(store, form=House()) as transcript:
        await transcript.append(history(House(), ["short"] * 20))
    async with opened(store, form=House()) as transcript:
        assert knowledge(ledger_of(transcript)) == await eager(store, House())
    assert list(store.directory.glob("*.index")) == []


@pytest.mark.parametrize("which", range(3))
async def test_bodies_that_were_read_are_the_callers_own(tmp_path: Path, which: int) -> None:
    store = list(stores(tmp_path))[which]
    async with opened(store) as transcript:
        await transcript.append(history(OPENAI, ["text"] * 20))
    async with opened(store) as transcript:
        before = transcript.view
        for message in [*transcript.view, *transcript.messages]:
            message["content"] = "spoilt"
        assert transcript.view == transcript.messages == before
    await store.aclose()


# --- the index, damaged ---


async def filled(store: JsonlStore, turns: int = 6, session_id: str = "s") -> None:
    async with opened(store, session_id) as transcript:
        await transcript.append(history(OPENAI, [f"{session_id} {number} " * 100 for number in range(turns)]))
        await Results(transcript, "p").trim("r2")
        await transcript.drain()
        await Results(transcript, "p").trim("r3")


async def opens_right(store: JsonlStore) -> None:
    before = messages_file(store).read_bytes()
    async with opened(store, form=None) as transcript:
        assert knowledge(ledger_of(transcript)) == await eager(store, OPENAI)
        await transcript.append([OPENAI.user("more")])
    assert messages_file(store).read_bytes().startswith(before)


@pytest.mark.heavy
async def test_an_index_that_was_cut_anywhere_loses_nothing(store: JsonlStore, parsed: list[str]) -> None:
    await filled(store)
    files = {path: path.read_bytes() for path in store.directory.iterdir()}
    whole = files[index_file(store)]
    for length in range(0, len(whole), 5):
        for path, data in files.items():
            path.write_bytes(data)
        index_file(store).write_bytes(whole[:length])
        parsed.clear()
        await opens_right(store)
        assert parsed.count("messages") >= 14, length


@pytest.mark.heavy
async def test_an_index_with_another_byte_anywhere_loses_nothing(store: JsonlStore, parsed: list[str]) -> None:
    await filled(store)
    files = {path: path.read_bytes() for path in store.directory.iterdir()}
    whole = files[index_file(store)]
    for place in range(0, len(whole), 5):
        for path, data in files.items():
            path.write_bytes(data)
        index_file(store).write_bytes(whole[:place] + bytes([whole[place] ^ 0x55]) + whole[place + 1 :])
        parsed.clear()
        await opens_right(store)
        assert parsed.count("messages") >= 14, place


@pytest.mark.parametrize("content", [b"", b"\n", b"{}\n", b"[]\n", b"null\n", b'{"hooksdk":"index"}\n', b"\0" * 5_000])
async def test_an_index_of_nonsense_with_the_right_hash_loses_nothing(store: JsonlStore, content: bytes) -> None:
    await filled(store)
    index_file(store).write_bytes(content + hashlib.sha256(content).digest())
    await opens_right(store)


@pytest.mark.parametrize("note", [b"", b"\n", b"{}\n", b"[]\n", b"null\n", b"\0" * 500])
async def test_an_index_that_fits_with_a_nonsense_in_it_loses_nothing(store: JsonlStore, note: bytes) -> None:
    await filled(store)
    index = _index.read_index(index_file(store), "s")
    assert index is not None
    _index.write_index(index_file(store), "s", index._replace(note=note))
    await opens_right(store)


async def test_an_index_that_tells_of_fewer_messages_than_it_covers_is_not_used(store: JsonlStore) -> None:
    await filled(store)
    index = _index.read_index(index_file(store), "s")
    assert index is not None
    some = Facts(OPENAI)
    for message in (await store.read_session("s"))[0][:5]:
        some.add(message)
    _index.write_index(index_file(store), "s", index._replace(note=some.dump()))
    await opens_right(store)


async def test_an_older_index_is_good_for_what_it_covers(store: JsonlStore, parsed: list[str]) -> None:
    await filled(store)
    older = index_file(store).read_bytes()
    async with opened(store) as transcript:
        await transcript.append(history(OPENAI, ["more"] * 30))
    index_file(store).write_bytes(older)
    parsed.clear()
    async with opened(store, form=None) as transcript:
        assert parsed.count("messages") == 62
        assert knowledge(ledger_of(transcript)) == await eager(store, OPENAI)


async def test_an_index_newer_than_the_messages_is_not_used(store: JsonlStore, parsed: list[str]) -> None:
    await filled(store)
    older = messages_file(store).read_bytes()
    async with opened(store) as transcript:
        await transcript.append(history(OPENAI, ["more"] * 30))
    messages_file(store).write_bytes(older)
    parsed.clear()
    await opens_right(store)
    assert parsed.count("messages") >= 14


@pytest.mark.heavy
async def test_messages_that_were_cut_anywhere_are_read_as_without_an_index(store: JsonlStore) -> None:
    await filled(store)
    files = {path: path.read_bytes() for path in store.directory.iterdir()}
    whole = files[messages_file(store)]
    for length in range(0, len(whole), 61):
        for path, data in files.items():
            path.write_bytes(data)
        messages_file(store).write_bytes(whole[:length])
        expected = await eager(store, OPENAI)
        async with opened(store, form=None) as transcript:
            assert knowledge(ledger_of(transcript)) == expected, length
            await transcript.append([OPENAI.user("more")])
        async with opened(store, form=None) as transcript:
            assert knowledge(ledger_of(transcript)) == await eager(store, OPENAI), length


async def test_an_index_of_another_session_is_not_used(store: JsonlStore, parsed: list[str]) -> None:
    await filled(store, session_id="other")
    other = index_file(store)
    await filled(store)
    (mine,) = (path for path in store.directory.glob("*.index") if path != other)
    shutil.copy(other, mine)
    for path in store.directory.glob("other*"):
        path.unlink()
    parsed.clear()
    await opens_right(store)
    assert parsed.count("messages") >= 14


@pytest.mark.parametrize("old", [b"s 3 s 3", b'"r', b"tool_call_id"])
async def test_messages_of_equal_size_that_were_edited_while_closed_are_what_is_read(
    store: JsonlStore, old: bytes
) -> None:
    await filled(store)
    path = messages_file(store)
    before, stat = path.read_bytes(), path.stat()
    edited = before.replace(old, old[:-1] + b"X", 1)
    if not _is_json(edited):
        edited = before.replace(b"s 3 s 3", b"s 3 sX3", 1)
    assert len(edited) == len(before)
    assert edited != before
    path.write_bytes(edited)

    os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    await opens_right(store)


def _is_json(data: bytes) -> bool:
    try:
        for line in data.splitlines():
            json.loads(line)
    except ValueError:
        return False
    return True


async def test_an_index_of_another_version_is_not_used(
    store: JsonlStore, parsed: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    await filled(store)
    monkeypatch.setattr(facts, "FACTS_VERSION", facts.FACTS_VERSION + 1)
    parsed.clear()
    await opens_right(store)
    assert parsed.count("messages") >= 14


async def test_a_folder_in_the_place_of_the_index_does_no_harm(store: JsonlStore) -> None:
    await filled(store)
    path = index_file(store)
    path.unlink()
    path.mkdir()
    await opens_right(store)


async def test_an_index_is_not_written_over_lines_that_somebody_else_appended(store: JsonlStore) -> None:
    await filled(store)
    async with opened(store, form=None):
        with messages_file(store).open("ab") as file:
            file.write(b'{"role":"user","content":"from elsewhere"}\n')
    await opens_right(store)


# --- a body that is not there any more ---


async def test_a_message_that_somebody_changed_is_refused_when_it_is_read(store: JsonlStore) -> None:
    await filled(store)
    async with opened(store, form=None) as transcript:
        path = messages_file(store)
        path.write_bytes(path.read_bytes().replace(b"s 4 s 4", b"s 4 sX4", 1))
        with pytest.raises(TranscriptChanged, match="somebody else changed line 11"):
            _ = transcript.messages
        assert transcript.read_result("r2").text.startswith("s 1 s 1")
        with pytest.raises(TranscriptChanged):
            transcript.read_result("r5")


async def test_messages_that_were_cut_off_are_refused_when_they_are_read(store: JsonlStore) -> None:
    await filled(store)
    async with opened(store, form=None) as transcript:
        path = messages_file(store)
        path.write_bytes(path.read_bytes()[:3_000])
        with pytest.raises(TranscriptChanged):
            _ = transcript.view


# --- the folder, and what is said of a message ---


async def test_deleting_a_session_deletes_its_index(store: JsonlStore) -> None:
    await filled(store)
    assert await store.delete_session("s")
    assert list(store.directory.iterdir()) == []


SAMPLES: list[tuple[MessageFormat, list[Message]]] = [
    (form, [
        form.user("Häuser?"),
        *form.reply_messages("Let me look.", [ToolCall("t1", "read_file", {"path": "a"}), ToolCall("t2", "now", {"zone": "UTC " * 100})]),
        *form.result_messages([
            (ToolCall("t1", "read_file", {"path": "a"}), ToolResult("text " * 300)),
            (ToolCall("t2", "now", {}), ToolResult("no", is_error=True, blocks=[
                {"type": "text", "text": "no"}, {"type": "image", "mimeType": "image/png", "data": "QUJD"}])),
        ]),
        form.reply("done"),
    ])
    for form in (OPENAI, ANTHROPIC, RESPONSES, GEMINI)
]  # fmt: skip

SAID = "61f485a6acc47fd86f8d376e0e75ff160ae60635cfee63a2d30bc1ddc4b79680"
"""What this version says of these messages."""


def test_what_is_said_of_a_message_changes_with_its_version_alone() -> None:
    """When this fails: raise FACTS_VERSION, and put what stands here now in the place of SAID."""
    said = hashlib.sha256()
    for form, sample in SAMPLES:
        one = Facts(form)
        for message in sample:
            one.add(message)
        header, _, columns = one.dump().partition(b"\n")
        texts = json.loads(header)["texts"]
        said.update(json.dumps(texts).encode() + columns)
    assert (facts.FACTS_VERSION, said.hexdigest()) == (5, SAID)


@pytest.mark.heavy
async def test_a_long_session_takes_less_memory_than_one_and_a_half_of_its_file(
    store: JsonlStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(messages, "KEPT_BYTES", 200_000)
    async with opened(store) as transcript:
        await transcript.append(
            history(get_format("openai-chat"), [f"{number} ".ljust(300) for number in range(10_000)])
        )
    size = messages_file(store).stat().st_size
    tracemalloc.start()
    try:
        async with opened(store, form=None):
            held, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert held < size
    assert peak < 1.5 * size


@pytest.mark.skipif(os.name == "nt", reason="links need rights there")
def test_an_index_is_not_written_through_a_link_that_waits_for_it(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("mine")
    place = tmp_path / "s.index"
    place.with_name(f".{place.name}.tmp").symlink_to(victim)
    _index.write_index(place, "s", _index.Index(_append_file.Covered(0, "", LineTable()), b""))
    assert (victim.read_text(), place.exists()) == ("mine", False)
