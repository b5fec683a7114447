"""What verifying a chain sees: each kind of damage, with and without a head that was kept elsewhere."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hooksdk.audit import Head, parse_line, seal
from tests.builtin_plugins.chains import KEY, OTHER_KEY, Written, write


@pytest.fixture
def written(tmp_path: Path) -> Written:
    """Six records in one file: the one that begins the chain, and five."""
    return write(tmp_path)


@pytest.fixture
def rotated(tmp_path: Path) -> Written:
    """A chain in four files: each record, after the one that begins its file, puts the file aside."""
    return write(tmp_path, 4, max_bytes=400)


def found(written: Written, *heads: Head, **options: Any) -> tuple[str, int | None]:
    """What is told: the kind of damage, and the first record of it."""
    damage = written.check(*heads, **options).damage
    return ("", None) if damage is None else (damage.kind, damage.record)


def resigned(line: bytes, key: Any = KEY, **fields: Any) -> bytes:
    """The record with other fields, signed."""
    record = parse_line(line)
    assert record is not None
    return seal({**record.fields, **fields}, key)


# Without a head


def test_a_chain_that_nobody_touched_is_whole(written: Written) -> None:
    report = written.check()
    assert (report.damage, report.records, report.head, report.notes) == (None, 6, written.heads[-1], [])


@pytest.mark.parametrize("number", range(1, 7))
def test_a_changed_record_is_named(written: Written, number: int) -> None:
    lines = written.lines()
    lines[number - 1] = lines[number - 1].replace(b'"time":1', b'"time":2')
    written.put(lines)
    assert found(written) == ("changed", number)


@pytest.mark.parametrize("number", range(1, 6))
def test_a_record_that_was_left_out_is_named(written: Written, number: int) -> None:
    lines = written.lines()
    del lines[number - 1]
    written.put(lines)
    assert found(written) == ("left_out", number)


def test_a_record_that_was_written_twice_is_named(written: Written) -> None:
    lines = written.lines()
    written.put([*lines[:3], lines[1], *lines[3:]])
    assert found(written) == ("added", 2)


def test_a_record_of_another_chain_of_the_same_key_is_named(written: Written, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    lines, others = written.lines(), write(tmp_path / "other", session="another").lines()
    lines[3] = others[3]
    written.put(lines)
    assert found(written) == ("added", 4)


def test_a_record_that_was_made_up_is_named(written: Written) -> None:
    lines = written.lines()
    head = written.heads[-1]
    written.put([*lines, seal({"n": head.number + 1, "prev": head.hash, "kind": "decision"}, OTHER_KEY)])
    assert found(written) == ("changed", 7)


def test_two_records_that_changed_places_are_seen(written: Written) -> None:
    lines = written.lines()
    lines[2], lines[3] = lines[3], lines[2]
    written.put(lines)
    assert found(written) == ("left_out", 3)


def test_records_that_were_made_anew_with_another_key_are_named_from_the_first_on(written: Written) -> None:
    lines = written.lines()
    for at in range(3, 6):  # every hash fits
        before = parse_line(lines[at - 1])
        assert before is not None
        lines[at] = resigned(lines[at], OTHER_KEY, prev=before.hash)
    written.put(lines)
    report = written.check()
    assert (found(written), report.head) == (("changed", 4), Head(3, written.heads[1].hash))


def test_a_signature_in_another_spelling_of_base64_counts_as_a_change(written: Written) -> None:
    lines = written.lines()
    spare = {ord("A"): b"B", ord("Q"): b"R", ord("g"): b"h", ord("w"): b"x"}  # the last two bits say nothing
    lines[-1] = lines[-1][:-5] + spare[lines[-1][-5]] + lines[-1][-4:]
    written.put(lines)
    assert found(written)[0] == "changed"


def test_a_line_that_is_no_record_is_named(written: Written) -> None:
    lines = written.lines()
    written.put([*lines[:2], b"# mine", *lines[2:]])
    assert found(written) == ("changed", 3)


def test_files_are_read_in_the_order_of_their_records_however_they_are_given(rotated: Written) -> None:
    assert len(rotated.files) == 4
    assert found(rotated, files=rotated.files[::-1]) == ("", None)


def test_a_file_that_is_missing_in_the_middle_is_seen(rotated: Written) -> None:
    one, _, *others = rotated.files
    assert found(rotated, files=[one, *others]) == ("left_out", 3)


def test_first_files_that_are_missing_are_seen_unless_the_chain_says_that_keep_removed_them(rotated: Written) -> None:
    assert found(rotated, files=rotated.files[1:]) == ("left_out", 1)


def test_a_file_that_is_there_twice_is_seen(rotated: Written, tmp_path: Path) -> None:
    copy = tmp_path / "copy.jsonl"
    copy.write_bytes(rotated.files[1].read_bytes())
    assert found(rotated, files=[*rotated.files, copy]) == ("added", 3)


@pytest.mark.parametrize("forward", [True, False])
def test_a_record_that_was_moved_to_the_next_file_or_back_is_seen(rotated: Written, *, forward: bool) -> None:
    one, two = rotated.files[:2]
    before, after = rotated.lines(one), rotated.lines(two)
    if forward:
        before, after = before[:-1], [before[-1], *after]
    else:
        before, after = [*before, after[0]], after[1:]
    rotated.put(before, one)
    rotated.put(after, two)
    assert found(rotated)[0] == "added"


def test_an_empty_file_is_no_chain(written: Written) -> None:
    written.put([])
    assert found(written) == ("empty", None)


# What only a head shows


def test_a_cut_end_is_seen_against_a_head_alone(written: Written) -> None:
    written.put(written.lines()[:4])
    assert found(written) == ("", None)
    assert found(written, written.heads[-1]) == ("cut", 5)


def test_a_last_file_that_was_removed_is_a_cut_end(rotated: Written) -> None:
    files = rotated.files[:-1]
    assert found(rotated, files=files) == ("", None)
    assert found(rotated, rotated.heads[-1], files=files)[0] == "cut"


def test_a_chain_that_the_holder_of_the_key_made_anew_is_seen_against_a_head_alone(
    written: Written, tmp_path: Path
) -> None:
    (tmp_path / "anew").mkdir()
    anew = write(tmp_path / "anew", session="harmless")
    assert found(anew) == ("", None)
    assert found(anew, written.heads[2]) == ("anew", 4)


def test_an_older_head_says_nothing_of_what_came_after_it(written: Written) -> None:
    lines = written.lines()
    written.put(lines[:5])
    assert found(written, written.heads[2]) == ("", None)


def test_a_head_before_the_first_file_vouches_for_its_beginning(rotated: Written) -> None:
    first = rotated.heads[0]
    assert found(rotated, first, files=rotated.files[1:]) == ("", None)
    assert found(rotated, Head(first.number, "0" * 64), files=rotated.files[1:]) == ("left_out", 1)


# Any damage at all


@pytest.fixture(scope="module")
def long(tmp_path_factory: pytest.TempPathFactory) -> Written:
    return write(tmp_path_factory.mktemp("chain"), 12)


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_any_single_edit_deletion_insertion_or_swap_is_found_and_only_a_cut_end_needs_the_head(
    long: Written, data: st.DataObject
) -> None:
    lines = list(ORIGINAL := tuple(long.lines()))
    how = data.draw(st.sampled_from(["byte", "delete", "insert", "swap", "repeat"]))
    at = data.draw(st.integers(0, len(lines) - 1))
    if how == "byte":
        line, place = bytearray(lines[at]), data.draw(st.integers(0, len(lines[at]) - 1))
        line[place] ^= data.draw(st.integers(1, 255))
        lines[at] = bytes(line)
    elif how == "delete":
        del lines[at]
    elif how == "insert":
        lines.insert(data.draw(st.integers(0, len(lines))), data.draw(st.binary(max_size=40)))
    elif how == "repeat":
        lines.insert(at, lines[data.draw(st.integers(0, len(lines) - 1))])
    else:
        other = data.draw(st.integers(0, len(lines) - 1).filter(lambda place: place != at))
        lines[at], lines[other] = lines[other], lines[at]
    try:
        long.put(lines)
        is_cut = tuple(lines) == ORIGINAL[: len(lines)] and len(lines) < len(ORIGINAL)
        assert (found(long) == ("", None)) is is_cut
        damage = long.check(long.heads[-1]).damage
        assert damage is not None
        if how == "byte":
            assert (damage.kind, damage.record) == ("changed", at + 1)
    finally:
        long.put(ORIGINAL)
