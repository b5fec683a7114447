"""The answer of a command is said once, for people and as a document."""

from __future__ import annotations

import json

import pytest

from hooksdk.cli._console import View


def an_answer() -> View:
    view = View({"tools": [{"id": "a\nb", "tokens": 1234}]}, indent=10)
    view.table(("tool", "tokens"), [("a\nb", 1234)], numbers="tokens")
    view.markup()
    view.line("note", "two\n[red]lines[/]\x1b[31m", "yellow")
    view.lines("", ["one", "two"])
    view.text("as it\nis\x1b")
    return view


def test_people_get_lines_and_tables_in_which_others_words_are_harmless(capsys: pytest.CaptureFixture[str]) -> None:
    an_answer().show(as_json=False)
    assert capsys.readouterr().out.splitlines() == [
        "tool  tokens",
        "a b   1,234",
        "",
        "note      two [red]lines[/]\N{REPLACEMENT CHARACTER}[31m",
        "          one",
        "          two",
        "as it",
        "is\N{REPLACEMENT CHARACTER}",
    ]


def test_a_program_gets_the_document_alone(capsys: pytest.CaptureFixture[str]) -> None:
    an_answer().show(as_json=True)
    assert json.loads(capsys.readouterr().out) == {"schema": 1, "tools": [{"id": "a\nb", "tokens": 1234}]}
