"""`hooksdk sessions import`: a file from elsewhere becomes a session."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from commands import hooksdk
from history_samples import CLAUDE_CODE, GEMINI, LONG, sqlite_file

from hooksdk import Host
from hooksdk.config import Config
from hooksdk.histories import read_history
from hooksdk.stores import SqlStore
from tests.postgres import Postgres

pytestmark = [pytest.mark.heavy, pytest.mark.anyio]


@pytest.fixture
def anyio_backend() -> str:
    """The command brings its own event loop."""
    return "asyncio"


@pytest.fixture
def transcript(tmp_path: Path) -> Path:
    """Claude Code's file."""
    path = tmp_path / "5f1c.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in CLAUDE_CODE))
    return path


async def test_the_session_is_there_with_results_that_can_be_trimmed(tmp_path: Path, transcript: Path) -> None:
    done = await hooksdk("sessions", "import", transcript.name, "--store", "kept-here", folder=tmp_path)
    assert done.code == 0
    assert "imported  session 5f1c in jsonl:kept-here" in done.out
    assert "5 messages, 2 tool results of about" in done.out
    assert "claude-code, kept as anthropic" in done.out
    assert "note      left out: lines of type 'summary' (1)" in done.out
    async with Host(store=SqlStore(tmp_path / "kept-here"), config=Config()) as host, host.session("5f1c") as session:
        assert session.messages == read_history(CLAUDE_CODE).messages
        assert (await session.trim("r1", "DEBUG is on")).status == "applied"
        assert LONG not in str(session.view)


async def test_one_document_says_all_of_it(tmp_path: Path) -> None:
    (tmp_path / "history.json").write_text(json.dumps(GEMINI))
    options = ["--store", "s", "--session", "team/ann", "--format", "gemini", "--into", "anthropic", "--json"]
    done = await hooksdk("sessions", "import", "history.json", *options, folder=tmp_path)
    answer = json.loads(done.out)
    notes = answer.pop("notes")
    assert answer == {
        "schema": 1,
        "session": "team/ann",
        "store": "jsonl:s",
        "source": "gemini",
        "format": "anthropic",
        "messages": 6,
        "results": 2,
        "trimmable": 1,
        "result_tokens": answer["result_tokens"],
    }
    assert answer["result_tokens"] > 600
    assert "left out: thoughts (1)" in notes


async def test_a_database_is_named_without_its_password(tmp_path: Path, transcript: Path, postgres: Postgres) -> None:
    url = postgres.url().replace("hooksdk@", "hooksdk:s3cret@")
    for option in ([], ["--session", "again", "--json"]):
        done = await hooksdk("sessions", "import", transcript.name, "--store", url, *option, folder=tmp_path)
        assert done.code == 0, done.err
        assert "postgresql://hooksdk:***@/postgres" in done.out
        assert "s3cret" not in done.out + done.err


async def test_a_session_that_has_messages_stays_as_it_is(tmp_path: Path, transcript: Path) -> None:
    for code, words in [(0, ""), (1, "session '5f1c' has messages already; write --session with a new id")]:
        done = await hooksdk("sessions", "import", str(transcript), "--store", "s", folder=tmp_path)
        assert done.code == code
        assert words in done.err


async def test_what_is_wrong_is_one_line_and_nothing_is_stored(tmp_path: Path, transcript: Path) -> None:
    lines = transcript.read_text().splitlines()
    transcript.write_text("\n".join([*lines[:3], "no JSON", *lines[3:]]) + "\n")
    done = await hooksdk("sessions", "import", str(transcript), "--store", "s", folder=tmp_path)
    assert done.code == 1
    assert "5f1c.jsonl, line 4: this is not valid JSON. Correct this line, or remove it" in done.err
    assert not (tmp_path / "s").exists()
    done = await hooksdk("sessions", "import", str(transcript), "--format", "gemni", folder=tmp_path)
    assert "Did you mean 'gemini'?" in done.err
    (tmp_path / "hooksdk.toml").write_text('store = "memory"\n')
    done = await hooksdk("sessions", "import", str(transcript), folder=tmp_path)
    assert "the store is in memory, so the session would be gone at once; write --store FOLDER" in done.err


async def test_one_conversation_of_a_file_with_several_is_named(tmp_path: Path) -> None:
    file = sqlite_file(tmp_path / "all.db", "ann", "bob")
    done = await hooksdk("sessions", "import", str(file), "--store", str(tmp_path / "store"), folder=tmp_path)
    assert (done.code, "it holds 2 sessions: 'ann', 'bob'" in done.err) == (1, True)
    arguments = ["--session", "bob", "--store", str(tmp_path / "store"), "--json"]
    done = await hooksdk("sessions", "import", str(file), *arguments, folder=tmp_path)
    assert (done.json()["session"], done.json()["source"]) == ("bob", "openai-responses")
