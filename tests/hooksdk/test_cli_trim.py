"""`hooksdk trim`: another program's history with short results, in that program's own format."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from commands import hooksdk
from history_samples import (
    ANTHROPIC,
    CLAUDE_CODE,
    GEMINI,
    LANGCHAIN,
    LONG,
    OPENAI_CHAT,
    PYDANTIC_AI,
    SAMPLES,
    sqlite_file,
)

from hooksdk.histories import read_history
from hooksdk.trimming import list_results

pytestmark = [pytest.mark.heavy, pytest.mark.anyio]
LINES = ("claude-code", "openclaw")


@pytest.fixture
def anyio_backend() -> str:
    """The command brings its own event loop."""
    return "asyncio"


def written(path: Path, sample: Any, *, lines: bool = False) -> Path:
    """The sample as a file, in a spelling of its own: spaces, a BOM, no newline at the end."""
    text = "\r\n".join(json.dumps(one, ensure_ascii=False) for one in sample) if lines else json.dumps(sample, indent=3)
    path.write_bytes(("\ufeff" + text).encode())
    return path


@pytest.mark.parametrize("source", SAMPLES)
async def test_only_the_old_results_text_is_another(tmp_path: Path, source: str) -> None:
    file = written(tmp_path / "old", SAMPLES[source], lines=source in LINES)
    before = file.read_bytes()
    done = await hooksdk("trim", "old", "-o", "new", "--older", "1", "--json", folder=tmp_path)
    assert (done.code, done.err) == (0, "")
    assert file.read_bytes() == before
    after = (tmp_path / "new").read_bytes()
    head = next(at for at, (one, other) in enumerate(zip(before, after, strict=False)) if one != other)
    tail = next(at for at, (one, other) in enumerate(zip(before[::-1], after[::-1], strict=False)) if one != other)
    assert len(before) - head - tail < len(json.dumps(LONG)) + 200  # one place, about as long as the result
    assert "DEBUG" in before.decode()[head - 20 :]
    assert "DEBUG" not in after.decode()
    told = done.json()
    history = read_history(tmp_path / "new", source)
    results = list_results(history.messages, history.format)
    assert "[Result r1 of read_file was trimmed: 2,600 characters.]" in str(history.messages)
    assert (told["trimmed"], told["before"]["results"]) == (1, 2)
    assert told["after"]["tokens"] == sum(one.tokens for one in results)
    assert told["before"]["characters"] - told["after"]["characters"] > 2_500
    assert read_history(tmp_path / "new").source == read_history(file).source


async def test_young_results_stay_and_the_copy_is_equal(tmp_path: Path) -> None:
    file = written(tmp_path / "old", OPENAI_CHAT)
    done = await hooksdk("trim", "old", "-o", "new", folder=tmp_path)
    assert (done.code, "trimmed  0 of 2 tool results" in done.out) == (0, True)
    assert (tmp_path / "new").read_bytes() == file.read_bytes()


async def test_the_programs_themselves_load_the_copy(tmp_path: Path) -> None:
    messages = pytest.importorskip("langchain_core.messages")
    adapter = pytest.importorskip("pydantic_ai.messages").ModelMessagesTypeAdapter
    for name, sample in {"langchain": LANGCHAIN, "pydantic": PYDANTIC_AI}.items():
        written(tmp_path / name, sample)
        assert (await hooksdk("trim", name, "-o", f"{name}.new", "--older", "0", folder=tmp_path)).code == 0
    loaded = messages.messages_from_dict(json.loads((tmp_path / "langchain.new").read_text("utf-8-sig")))
    assert [one.type for one in loaded] == ["system", "human", "ai", "tool", "tool", "ai", "human"]
    assert len(adapter.validate_json((tmp_path / "pydantic.new").read_text("utf-8-sig"))) == 5


async def test_a_branch_that_was_given_up_and_a_cut_off_line_stay(tmp_path: Path) -> None:
    side = {**CLAUDE_CODE[6], "uuid": "x1", "isSidechain": True}
    file = written(tmp_path / "old.jsonl", [*CLAUDE_CODE[:6], side, *CLAUDE_CODE[6:]], lines=True)
    file.write_bytes(file.read_bytes() + b'\n{"type": "us')
    done = await hooksdk("trim", "old.jsonl", "-o", "new", "--older", "0", folder=tmp_path)
    assert done.code == 0, done.err
    lines = (tmp_path / "new").read_text("utf-8-sig").splitlines()
    assert (["DEBUG" in line for line in lines[6:8]], lines[-1]) == (
        [True, False],
        '{"type": "us',
    )


async def test_a_result_whose_text_looks_like_a_result_is_one_place(tmp_path: Path) -> None:
    odd = json.dumps({"tool_call_id": "x", "content": LONG})
    sample = json.loads(json.dumps(GEMINI))
    sample["contents"][2]["parts"][0]["functionResponse"]["response"] = {
        "output": {"tool_call_id": "x", "content": LONG}
    }
    written(tmp_path / "old", sample)
    assert (await hooksdk("trim", "old", "-o", "new", "--older", "0", folder=tmp_path)).code == 0
    new = json.loads((tmp_path / "new").read_text("utf-8-sig"))
    assert "was trimmed" in new["contents"][2]["parts"][0]["functionResponse"]["response"]["output"]
    written(tmp_path / "text", [*OPENAI_CHAT[:3], {**OPENAI_CHAT[3], "content": odd}, *OPENAI_CHAT[4:]])
    assert (await hooksdk("trim", "text", "-o", "other", "--older", "0", folder=tmp_path)).code == 0
    assert "DEBUG" not in (tmp_path / "other").read_text("utf-8-sig")


async def test_a_database_is_copied_and_only_the_named_conversation_is_shorter(tmp_path: Path) -> None:
    sqlite_file(tmp_path / "all.db", "ann", "bob")
    done = await hooksdk("trim", "all.db", "-o", "new.db", "--older", "0", folder=tmp_path)
    assert (done.code, "--session ann" in done.err, (tmp_path / "new.db").exists()) == (1, True, False)
    done = await hooksdk("trim", "all.db", "-o", "new.db", "--older", "0", "--session", "bob", folder=tmp_path)
    assert done.code == 0, done.err
    with closing(sqlite3.connect(tmp_path / "new.db")) as database:
        rows = database.execute("SELECT session_id, message_data FROM agent_messages ORDER BY id").fetchall()
    assert [name for name, text in rows if "DEBUG" in text] == ["ann"]
    assert (tmp_path / "new.db").read_bytes().count(b"DEBUG = True") == 200
    done = await hooksdk("trim", "all.db", "-o", "all.db", "--session", "bob", "--replace", folder=tmp_path)
    assert (done.code, "Name another" in done.err) == (1, True)


async def test_no_file_is_written_over_without_a_word(tmp_path: Path) -> None:
    file = written(tmp_path / "old", ANTHROPIC)
    file.chmod(0o640)
    before = file.read_bytes()
    done = await hooksdk("trim", "old", "-o", "old", "--older", "0", folder=tmp_path)
    assert (done.code, file.read_bytes()) == (1, before)
    assert "old is there already: give another name, or --replace to write over it" in done.err
    done = await hooksdk("trim", "old", "-o", "old", "--older", "0", "--replace", folder=tmp_path)
    assert (done.code, "DEBUG" in file.read_text("utf-8-sig"), file.stat().st_mode & 0o777) == (0, False, 0o640)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "it is empty"),
        (b"[]", "it has no messages"),
        (b"\xff\xfe[", "it is no UTF-8 text"),
        (b'{"role": "user"}\nno JSON\n', "line 2: this is not valid JSON"),
        (b"[" * 900 + b"]" * 900, "expected an object"),
        (b"[" * 100_000, "nested too deep"),
    ],
)
async def test_what_is_wrong_is_told_and_nothing_is_written(tmp_path: Path, content: bytes, words: str) -> None:
    (tmp_path / "old").write_bytes(content)
    done = await hooksdk("trim", "old", "-o", "new", folder=tmp_path)
    assert (done.code, words in done.err, (tmp_path / "new").exists()) == (1, True, False), done.err


async def test_a_folder_that_is_not_there_is_told(tmp_path: Path) -> None:
    written(tmp_path / "old", ANTHROPIC)
    done = await hooksdk("trim", "old", "-o", "no/new", folder=tmp_path)
    assert (done.code, "no/new cannot be written: No such file or directory" in done.err) == (1, True)
