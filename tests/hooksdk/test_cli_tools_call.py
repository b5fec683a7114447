"""`hooksdk tools call`: one call from a shell, which goes the way of a model's."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from commands import hooksdk, write_servers
from mcp_servers import script

pytestmark = [pytest.mark.heavy, pytest.mark.anyio]

DESK = """
from hooksdk import hooks, tool

class Desk:
    @tool
    def add(self, one: int, more: list[int] = []) -> int:
        "Add numbers."
        return one + sum(more)

    @tool
    def shout(self, text: str) -> str:
        "Say it loudly."
        return text.upper()

    @tool
    def ring(self) -> str:
        "Ring the bell."
        return "ding"

    @hooks.before_tool_call(tools=["ring"])
    def ask(self, event):
        return hooks.Ask("Ring the bell?")

    @hooks.before_tool_call(tools=["shout"])
    def hush(self, event):
        return hooks.Block("not after ten") if "loud" in event.arguments["text"] else None
"""


@pytest.fixture
def anyio_backend() -> str:
    """The command brings its own event loop."""
    return "asyncio"


@pytest.fixture
def desk(tmp_path: Path) -> Path:
    (tmp_path / "desk.py").write_text(DESK)
    return tmp_path


async def call(desk: Path, *arguments: str, stdin: str | None = None):
    return await hooksdk(
        "tools", "call", *arguments, "--plugin", str(desk / "desk.py"), "--project", str(desk), folder=desk, stdin=stdin
    )


@pytest.mark.parametrize(
    ("words", "stdin"),
    [(("one=1", "more=[2, 3]"), None), (('{"one": 1, "more": [2, 3]}',), None), (("-",), '{"one": 1, "more": [2, 3]}')],
)
async def test_arguments_are_pairs_or_one_object_or_come_from_stdin(
    desk: Path, words: tuple[str, ...], stdin: str | None
) -> None:
    done = await call(desk, "add", *words, stdin=stdin)
    assert (done.code, done.out) == (0, "6\n")


async def test_a_value_may_hold_an_equals_sign(desk: Path) -> None:
    assert (await call(desk, "shout", "text=a=b")).out == "A=B\n"


async def test_a_word_that_is_no_pair_is_a_usage_error(desk: Path) -> None:
    done = await call(desk, "add", "one")
    assert done.code == 2
    assert "'one' is no KEY=VALUE, and no JSON object" in done.err


@pytest.mark.parametrize(("words", "stdin"), [(('{"one": 1',), None), (("-",), '{"one": 1')])
async def test_json_that_cannot_be_read_is_told_before_any_server_is_started(
    desk: Path, words: tuple[str, ...], stdin: str | None
) -> None:
    (desk / "mcp.json").write_text('{"mcpServers": {"hung": {"command": "/bin/sh", "args": ["-c", "touch started"]}}}')
    done = await call(desk, "add", *words, "--mcp", str(desk / "mcp.json"), stdin=stdin)
    assert (done.code, done.out) == (2, "")
    assert "JSON" in done.complaint
    assert not (desk / "started").exists()


async def test_wrong_arguments_are_answered_as_to_a_model_with_the_code_1(desk: Path) -> None:
    done = await call(desk, "add", "one=x")
    assert done.code == 1
    assert 'arguments.one (type): must be integer; got string "x"' in done.out
    assert done.complaint == "not run     wrong arguments for plugin:desk:add"


async def test_the_projects_policies_judge_the_call(desk: Path) -> None:
    done = await call(desk, "shout", "text=loud")
    assert done.code == 1
    assert "not after ten" in done.out


async def test_an_unknown_name_gets_the_nearest_one(desk: Path) -> None:
    done = await call(desk, "ad", "one=1")
    assert done.code == 1
    assert "Did you mean add?" in done.out
    assert done.complaint == "not run     there is no tool ad"


async def test_an_approval_is_refused_where_nobody_can_be_asked_and_granted_with_yes(desk: Path) -> None:
    assert (await call(desk, "ring")).code == 1
    assert (await call(desk, "ring", "--yes")).out == "ding\n"


async def test_json_tells_the_tool_the_status_and_the_whole_result(desk: Path) -> None:
    answer = (await call(desk, "add", "one=1", "--json")).json()
    assert answer == {
        "schema": 1,
        "tool": "plugin:desk:add",
        "status": "ok",
        "is_error": False,
        "text": "1",
        "blocks": [{"type": "text", "text": "1"}],
        "structured": 1,
    }


async def test_nothing_is_kept(desk: Path) -> None:
    await call(desk, "add", "one=1")
    assert not list((desk / "kept").rglob("*.messages.jsonl"))


async def test_a_call_by_its_id_waits_for_no_other_server(tmp_path: Path) -> None:
    started = tmp_path / "started"
    other = {"command": sys.executable, "args": ["-c", f"open({str(started)!r}, 'w'); input()"]}
    servers = write_servers(tmp_path / "mcp.json", other=other, plain=script("quick"))
    done = await hooksdk("tools", "call", "mcp:plain:add", "a=2", "b=3", "--mcp", servers, folder=tmp_path)
    assert (done.code, done.out) == (0, "5\n")
    assert "(plain 6)" in done.err
    assert not started.exists()


async def test_for_an_id_of_no_server_here_all_are_asked(tmp_path: Path) -> None:
    servers = write_servers(tmp_path / "mcp.json")
    done = await hooksdk("tools", "call", "mcp:plane:add", "a=2", "b=3", "--mcp", servers, folder=tmp_path)
    assert done.code == 1
    assert "servers     6 tools (plain 6)" in done.err
    assert "there is no such tool" in done.out
