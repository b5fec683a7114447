"""What verifying an export of a chain sees: it is as good as the chain, and what was done to it is named."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from builtin_plugins.audit._recorder import StoreChain
from builtin_plugins.audit._writer import FileChain
from hooksdk import MemoryStore
from hooksdk.audit import (
    Head,
    Report,
    StoredValues,
    event_of,
    file_source,
    parse_line,
    public_text,
    read_records,
    record_in,
    seal,
    verify,
)
from hooksdk.cli._app import run
from tests.builtin_plugins.chains import KEY, OTHER_KEY, Written, write

PUB = public_text(KEY.public_key())
Events = list[dict[str, Any]]


@pytest.fixture
def written(tmp_path: Path) -> Written:
    """A chain in three files, whose second begins with a line that a crash left unfinished."""
    chain = write(tmp_path, 2, max_bytes=800)
    with chain.path.open("ab") as file:
        file.write(b'{"n":4,"prev"')
    more = write(tmp_path, 3, max_bytes=800)
    return Written(chain.path, [*chain.heads, *more.heads])


@pytest.fixture
def exported(written: Written, tmp_path: Path) -> Path:
    out = tmp_path / "events.jsonl"
    assert run(["audit", "export", str(written.path), "-o", str(out)]) == 0
    return out


def checked(path: Path, *heads: Head) -> Report:
    return verify([file_source(path)], KEY.public_key(), heads)


def found(path: Path, *heads: Head) -> tuple[str, str]:
    damage = checked(path, *heads).damage
    return ("", "") if damage is None else (damage.kind, damage.text.removeprefix(f"{path}, "))


def events_of(path: Path) -> Events:
    return [json.loads(line) for line in path.read_text().splitlines()]


def put(path: Path, events: Events) -> None:
    path.write_text("".join(f"{json.dumps(event)}\n" for event in events))


def test_an_export_is_verified_as_the_chain_is(written: Written, exported: Path) -> None:
    assert len(written.files) > 2
    whole, again = written.check(written.heads[-1]), checked(exported, written.heads[-1])
    assert (again.damage, again.records, again.head) == (None, whole.records, whole.head)
    assert "line_torn" in {one.kind for file in written.files for one in read_records(file)}


def test_a_batch_is_verified_too_however_it_is_indented(
    written: Written, exported: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    batch = tmp_path / "batch.json"
    for indent in (None, 2):
        batch.write_text(json.dumps(events_of(exported), indent=indent))
        assert found(batch, written.heads[-1]) == ("", "")
    assert run(["audit", "verify", str(batch), "--key", PUB]) == 0
    assert run(["audit", "head", str(batch)]) == 0
    assert str(written.heads[-1]) in capsys.readouterr().out
    batch.write_text(batch.read_text()[:-9])
    assert found(batch)[0] == "changed"
    batch.write_text("[]")
    assert found(batch)[0] == "empty"


@pytest.mark.anyio
async def test_a_chain_in_a_store_is_exported_and_verified_as_one_in_files(tmp_path: Path) -> None:
    values, chain = StoredValues(MemoryStore()), StoreChain(KEY)
    for number in range(4):
        await chain.append(values, {"kind": "decision", "call_id": f"c{number}"})
    lines = [line async for line in _lines(values)]
    put(tmp_path / "events.jsonl", [event_of(record, PUB) for line in lines if (record := record_in(line))])
    assert chain.head is not None
    assert found(tmp_path / "events.jsonl", chain.head) == ("", "")


async def _lines(values: StoredValues) -> AsyncIterator[bytes]:
    for key in await values.keys():
        yield (await values.get(key)).encode()


Change = Callable[[Events], Events]


def _with(**fields: Any) -> Change:
    return lambda events: [*events[:2], {**events[2], **fields}, *events[3:]]


DAMAGES: list[tuple[Change, str, str]] = [
    (_with(data={"n": 3, "kind": "decision", "call_id": "c9"}), "changed", "event 3 says something else"),
    (_with(subject="another"), "changed", "event 3 says something else"),
    (_with(more=True), "changed", "event 3 says something else"),
    (_with(signedline="{}"), "changed", "event 3 is an event without the signed line"),
    (_with(signedline=None), "changed", "event 3 is an event without the signed line"),
    (_with(source="urn:hooksdk:audit:another"), "changed", "event 3 is an event of another source"),
    (lambda events: [*events[:2], {"specversion": "1.0", "type": "build.done"}, *events[3:]], "changed", "event 3"),
    (lambda events: [*events[:2], *events[3:]], "left_out", "event 3 is record 4"),
    (lambda events: events[2:], "left_out", "event 1 does not begin a file"),
    (lambda events: [*events[:3], events[2], *events[3:]], "added", "event 4 is record 3"),
    (lambda events: [*events, *events], "added", "is record 1, which should stand before, or once"),
    (lambda events: [events[1], events[0], *events[2:]], "left_out", "event 1"),
]


@pytest.mark.parametrize(("change", "kind", "words"), DAMAGES)
def test_what_was_done_to_an_export_is_named(exported: Path, change: Change, kind: str, words: str) -> None:
    put(exported, change(events_of(exported)))
    got, text = found(exported)
    assert got == kind
    assert words in text


def test_one_and_true_are_two_values(tmp_path: Path) -> None:
    chain = FileChain(tmp_path / "audit.jsonl", KEY)
    chain.append({"kind": "decision", "shadow": True})
    chain.close()
    events = [event_of(one, PUB) for one in read_records(tmp_path / "audit.jsonl")]
    events[1]["data"]["shadow"] = 1
    put(tmp_path / "events.jsonl", events)
    assert found(tmp_path / "events.jsonl")[0] == "changed"


def test_a_key_that_is_there_twice_makes_no_event(exported: Path) -> None:
    exported.write_text(exported.read_text().replace('"subject": "s"', '"subject": "t", "subject": "s"', 1))
    assert found(exported)[0] == "changed"


def test_a_record_that_another_key_signed_is_no_record_of_the_chain(exported: Path) -> None:
    events = events_of(exported)
    record = parse_line(events[2]["signedline"].encode())
    assert record is not None
    forged = parse_line(seal(record.fields, OTHER_KEY))
    assert forged is not None
    put(exported, [*events[:2], event_of(forged, PUB), *events[3:]])
    assert found(exported)[0] in {"changed", "added"}


def test_the_export_of_another_chain_is_told(tmp_path: Path) -> None:
    chain = write(tmp_path, key=OTHER_KEY)
    put(
        tmp_path / "events.jsonl",
        [event_of(one, public_text(OTHER_KEY.public_key())) for one in read_records(chain.path)],
    )
    assert found(tmp_path / "events.jsonl") == (
        "changed",
        "event 1 is an event of another source than the chain with this key",
    )


def test_an_export_that_was_cut_is_told(written: Written, exported: Path) -> None:
    content = exported.read_bytes()
    exported.write_bytes(content[:-40])
    assert found(exported) == ("cut", f"event {len(content.splitlines())} ends in the middle of an event")
    exported.write_bytes(content[: content[:-1].rindex(b"\n") + 1])
    assert found(exported) == ("", "")  # as of the chain itself, a head alone shows it
    assert found(exported, written.heads[-1])[0] == "cut"


@pytest.mark.parametrize(
    "content", [b"", b"\n", b"{}", b"[", b"\xff\xfe", b'{"specversion": "1.0"}\n', b"[1, 2]", b"[" * 100_000]
)
def test_what_is_no_export_is_no_chain(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "events.jsonl"
    path.write_bytes(content)
    assert found(path)[0] in {"changed", "empty", "cut"}


# Times


def times(tmp_path: Path, *seconds: float) -> Report:
    lines: list[bytes] = []
    for number, time in enumerate(seconds, 1):
        before = parse_line(lines[-1]) if lines else None
        kind = {"kind": "decision"} if before else {"kind": "chain_begun", "schema": 1, "key": PUB}
        lines.append(seal({"n": number, "prev": before.hash if before else "0" * 64, "time": time, **kind}, KEY))
    (tmp_path / "audit.jsonl").write_bytes(b"".join(line + b"\n" for line in lines))
    return checked(tmp_path / "audit.jsonl")


def test_times_that_run_backwards_are_noted_and_are_no_damage(tmp_path: Path) -> None:
    once = times(tmp_path, 1_000, 5_000, 1_400, 1_500)
    assert once.damage is None
    assert once.notes == [
        "time runs backwards once, by 3,600 s at record 3: a clock was set back, or the writers' clocks differ"
    ]
    assert (
        times(tmp_path, 9_000, 5_000, 1_000)
        .notes[0]
        .startswith("time runs backwards 2 times, first by 4,000 s at record 2")
    )


def test_clocks_that_differ_by_less_than_a_second_are_not_worth_a_note(tmp_path: Path) -> None:
    assert times(tmp_path, 1_000, 999.5, 1_000).notes == []
