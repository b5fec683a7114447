"""The fuzzing of `scripts/fuzz`: its readers keep their promises, and what breaks one becomes a file."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import strategies as st

from tests import fuzzing
from tests.fuzzing import READERS, Reader, again, fuzz, main


@pytest.mark.heavy
@pytest.mark.parametrize("name", READERS)
def test_a_reader_keeps_its_promise_with_whatever_it_reads(name: str, tmp_path: Path) -> None:
    assert fuzz(name, READERS[name], 200, 1, tmp_path) is None


def test_what_makes_a_reader_raise_becomes_a_file_with_the_smallest_such_text(tmp_path: Path) -> None:
    def check(text: str) -> None:
        assert len(text) < 4, "it is too long"

    file = fuzz("planted", Reader(st.text(), check), 500, 1, tmp_path)
    assert file is not None
    assert file.read_text("utf-8").startswith("planted\n'0000'\n\nAssertionError: it is too long")


def test_what_makes_a_reader_hang_becomes_a_file(tmp_path: Path) -> None:
    def check(text: str) -> None:
        re.fullmatch(r"(a|a)*b", "a" * 60 if text else "")

    file = fuzz("planted", Reader(st.text(), check), 100, 1, tmp_path, limit=0.05)
    assert file is not None
    assert "\n\nhangs: more than 0.05 s of the processor" in file.read_text("utf-8")


def test_a_finding_is_tried_once_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def check(text: str) -> None:
        assert text != "rm"

    (tmp_path / "finding.txt").write_text("planted\n'rm'\n\nit broke\n")
    monkeypatch.setattr(fuzzing, "READERS", {"planted": Reader(st.text(), check)})
    with pytest.raises(AssertionError):
        again(tmp_path / "finding.txt")
    (tmp_path / "finding.txt").write_text("planted\n'git'\n\nit broke\n")
    assert main(["--again", str(tmp_path / "finding.txt")]) == 0


def test_the_command_says_how_much_was_read_and_exits_with_one_for_a_finding(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)

    def check(text: str) -> None:
        assert text == "good"

    planted = {"good": Reader(st.just("good"), check), "bad": Reader(st.just("bad"), check)}
    monkeypatch.setattr(fuzzing, "READERS", planted)
    assert main(["0"]) == 1
    good, bad = capsys.readouterr().out.splitlines()
    assert good.split() == ["good", "500", "texts", "all", "taken"]
    (file,) = Path("fuzz-findings").iterdir()
    assert bad.endswith(str(file))
    assert main(["0", "good"]) == 0


@pytest.mark.parametrize(
    ("name", "broken", "answer", "text"),
    [
        ("commands", "CommandReader.surely", "", "rm x"),
        ("commands", "CommandReader.possibly", False, "git"),
        ("paths", "PathReader.surely", "", "../outside"),
        ("paths", "PathReader.possibly", False, "sub"),
        ("addresses", "HostReader.surely", "", "https://evil.com"),
        ("addresses", "HostReader.possibly", False, "https://example.org"),
        ("masking", "SecretMask.text", "the value", ("secret-value", "JSON", "", "")),
        ("terminal", "printable", "\x1b", "text"),
        ("terminal", "json_text", "{}", "text"),
    ],
)
def test_a_reader_that_breaks_its_promise_is_noticed(
    name: str, broken: str, answer: object, text: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    READERS[name].check(text if name != "commands" else "git")

    def answering(*_: Any, **__: Any) -> object:
        return answer

    monkeypatch.setattr(f"tests.fuzzing.{broken}", answering)
    with pytest.raises(AssertionError):
        READERS[name].check(text)
