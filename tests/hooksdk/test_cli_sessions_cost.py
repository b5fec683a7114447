"""`hooksdk sessions cost`: the bill of a history under several policies."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from commands import hooksdk
from history_samples import CLAUDE_CODE, GEMINI
from transcripts import ANTHROPIC, OPENAI, body, history

from hooksdk.formats import Message, MessageFormat

pytestmark = [pytest.mark.heavy, pytest.mark.anyio]

POLICIES = [
    "untrimmed", "everything old, at each run's end", "everything old, before each request", "clear_tool_results",
    "the least possible",
]  # fmt: skip


def messages_of(form: MessageFormat) -> list[Message]:
    return [*history(form, [body(number, 4_000) for number in range(6)]), form.user("And now?"), form.reply("Nothing.")]


@pytest.mark.parametrize("form", [OPENAI, ANTHROPIC], ids=["openai-chat", "anthropic"])
@pytest.mark.parametrize("kind", ["list", "lines", "request", "stdin"])
async def test_it_reads_a_history_and_prints_a_row_for_each_policy(
    tmp_path: Path, form: MessageFormat, kind: str
) -> None:
    messages = messages_of(form)
    lines = "\n".join(json.dumps(message) for message in messages)
    text = {"list": json.dumps(messages), "request": json.dumps({"model": "any", "messages": messages})}.get(
        kind, lines
    )
    (tmp_path / "history").write_text(text)
    argument = "-" if kind == "stdin" else "history"
    done = await hooksdk("sessions", "cost", argument, folder=tmp_path, stdin=text)
    assert done.code == 0, done.err
    first, note, head, *rows = done.out.splitlines()
    assert first == f"{len(messages)} messages in format {form.name}, 8 requests"
    assert note.startswith(f"note  read as {form.name}: ")
    assert head.split() == ["policy", "tokens", "share", "bill", "share", "trims", "drains"]
    assert [row.partition("  ")[0] for row in rows] == POLICIES


async def test_as_json_it_says_what_was_read_and_written(tmp_path: Path) -> None:
    (tmp_path / "history.json").write_text(json.dumps(messages_of(OPENAI)))
    arguments = ["history.json", "--json", "--trigger", "2000", "--write", "2", "--pause", "400"]
    done = await hooksdk("sessions", "cost", *arguments, folder=tmp_path)
    answer = done.json()
    assert (answer["source"], answer["format"], answer["messages"], answer["requests"]) == (*["openai-chat"] * 2, 16, 8)
    assert answer["prices"] == {"read": 0.1, "write": 2, "life": 300}
    whole, *_, cleared, least = answer["policies"]
    assert (whole["policy"], whole["bill_share"], whole["trims"]) == ("untrimmed", 1, 0)
    assert whole["bill"] == pytest.approx(0.1 * whole["read"] + 2 * whole["written"])
    assert whole["tokens"] == whole["read"] + whole["written"]
    assert (cleared["policy"], cleared["trims"]) == ("clear_tool_results", 4)
    assert least["bill"] <= cleared["bill"] < whole["bill"]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ('{"role": "user", "content": "a"}\n{"role": "us\n', "history, line 2: this is not valid JSON"),
        ("[1]", "history, item 0: expected an object, but this is integer"),
        ("3", "history: expected a list of messages, but this is integer"),
        ('[{"content": "a"}]', "history, item 0: expected a history of"),
        ("\udcff", "history: it is no UTF-8 text"),
    ],
)
async def test_a_file_that_is_no_history_is_refused_with_its_place(tmp_path: Path, text: str, problem: str) -> None:
    (tmp_path / "history").write_bytes(text.encode("utf-8", "surrogateescape"))
    done = await hooksdk("sessions", "cost", "history", folder=tmp_path)
    assert done.code != 0
    assert problem in " ".join(done.err.split())


@pytest.mark.parametrize("option", [["--format", "klingon"], ["--read", "-1"], ["--read", "nan"], ["--write", "inf"]])
async def test_an_option_that_cannot_be_is_refused(tmp_path: Path, option: list[str]) -> None:
    (tmp_path / "history").write_text("[]")
    done = await hooksdk("sessions", "cost", "history", *option, folder=tmp_path)
    assert done.code in {2, 3}
    assert option[-1] in done.err or option[0] in done.err


async def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    done = await hooksdk("sessions", "cost", "nothing.json", folder=tmp_path)
    assert done.code == 1
    assert "nothing.json: it cannot be read: No such file or directory" in " ".join(done.err.split())


async def test_it_reads_what_import_reads(tmp_path: Path) -> None:
    (tmp_path / "5f1c.jsonl").write_text("".join(json.dumps(line) + "\n" for line in CLAUDE_CODE))
    answer = (await hooksdk("sessions", "cost", "5f1c.jsonl", "--json", folder=tmp_path)).json()
    assert (answer["source"], answer["format"], answer["messages"]) == ("claude-code", "anthropic", 5)
    assert any(note.startswith("left out: ") for note in answer["notes"])


async def test_a_format_of_ours_is_counted_as_it_was_sent(tmp_path: Path) -> None:
    (tmp_path / "contents.json").write_text(json.dumps(GEMINI))
    answer = (await hooksdk("sessions", "cost", "contents.json", "--json", folder=tmp_path)).json()
    assert (answer["source"], answer["format"], answer["messages"]) == ("gemini", "gemini", len(GEMINI["contents"]))
