"""The pytest plugin, in runs of pytest of their own: beside other plugins, without them, and switched off."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.heavy

QUIET = ("-q", "-p", "no:cacheprovider", "-p", "no:xdist", "-p", "no:timeout", "-W", "error")
AUTO = ("-p", "asyncio", "-o", "asyncio_mode=auto", "-o", "asyncio_default_fixture_loop_scope=function")
NO_AUTO = ("-p", "no:asyncio")


def run(folder: Path, code: str, *options: str, beside: tuple[str, ...] = NO_AUTO) -> str:
    """What pytest prints about a file of tests in an empty folder."""
    (folder / "test_mine.py").write_text(code)
    found = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST", "HOOKSDK"))}
    command = [sys.executable, "-m", "pytest", *QUIET, *beside, *options]
    done = subprocess.run(command, cwd=folder, env=found, capture_output=True, text=True, check=False)
    return done.stdout + done.stderr


PLUGIN = """
import pytest

from hooksdk import hooks
from hooksdk.hooks import Ask, BeforeToolCall, Block
from hooksdk.testing import ScriptedApprover, assert_asked, assert_blocked, assert_ran, call


class NoSecrets:
    @hooks.before_tool_call(tools="read_*")
    def judge(self, event: BeforeToolCall) -> Block | None:
        return Block("secrets stay here") if event.arguments["path"].endswith(".env") else None


def read_file(path: str) -> str:
    "Read a file."
    return f"content of {path}"

"""
FIXTURES = (
    PLUGIN
    + """
@pytest.mark.hook_loops
def test_on_both_loops(hook_session, hook_loop):
    session = hook_session(NoSecrets, tools=[read_file])
    played = session.play([[call("read_file", path=".env")], "No."])
    assert_blocked(played, by="no_secrets", reason="secrets stay")
    print("on", hook_loop)


def test_on_one(hook_session, hook_loop, scripted_model):
    assert hook_loop == "asyncio"
    session = hook_session(NoSecrets, tools=[read_file])
    assert_ran(session.play(scripted_model([call("read_file", path="a"), "Read."])), text="content of a")


def test_real_servers(hook_session, tool_server, model_server):
    import json
    import urllib.request

    server = model_server(["Hello."])
    body = json.dumps({"messages": [{"role": "user", "content": "hi"}]}).encode()
    answer = json.loads(urllib.request.urlopen(server.openai_url + "/chat/completions", body).read())
    assert answer["choices"][0]["message"]["content"] == "Hello."
    session = hook_session(NoSecrets, servers=tool_server(read_file, name="disk").config)
    assert session.play([call("read_file", path="a"), "Read."]).call("read_file").tool.id == "mcp:disk:read_file"
"""
)
ASYNC = (
    PLUGIN
    + """
from hooksdk.testing import open_session, play


@pytest.fixture
def anyio_backend():
    return "asyncio"


MARK
async def test_in_a_loop(hook_session):
    session = hook_session(NoSecrets, tools=[read_file])
    assert_blocked(session.play([call("read_file", path=".env"), "No."]))
    async with open_session(NoSecrets, tools=[read_file]) as opened:
        assert_blocked(await play(opened, [call("read_file", path=".env"), "No."]))
"""
)


@pytest.mark.parametrize("others", [NO_AUTO, AUTO, (*NO_AUTO, "-p", "no:anyio")], ids=["anyio", "auto", "neither"])
def test_the_fixtures_work_beside_other_plugins_and_without_them(tmp_path: Path, others: tuple[str, ...]) -> None:
    printed = run(tmp_path, FIXTURES, "--strict-markers", "-rP", beside=others)
    assert "4 passed" in printed, printed
    assert "on asyncio" in printed
    assert "on trio" in printed


@pytest.mark.parametrize(
    ("mark", "others"),
    [("@pytest.mark.anyio", NO_AUTO), ("", AUTO)],
    ids=["anyio", "auto"],
)
def test_an_async_test_may_use_them_on_whoevers_loop_it_runs(
    tmp_path: Path, mark: str, others: tuple[str, ...]
) -> None:
    printed = run(tmp_path, ASYNC.replace("MARK", mark), beside=others)
    assert "1 passed" in printed, printed


def test_what_a_test_leaves_open_or_unused_fails_it(tmp_path: Path) -> None:
    printed = run(
        tmp_path,
        PLUGIN
        + """
def test_leaves_a_run_open(hook_session):
    async def begin(session):
        await session.run().__aenter__()

    hook_session(NoSecrets).run(begin)


def test_leaves_replies(hook_session, scripted_model):
    hook_session(tools=[read_file]).play(scripted_model(["Done.", "never said"]))
""",
    )
    assert "2 passed, 2 errors" in printed, printed
    assert "the test has left open: a run of session 'test'" in printed
    assert "the script has 2 replies, and the model was asked 1 times" in printed


def test_a_failed_assertion_says_what_became_of_the_call_at_the_line_of_the_test(tmp_path: Path) -> None:
    printed = run(
        tmp_path,
        PLUGIN
        + """
def test_it(hook_session):
    session = hook_session(NoSecrets, tools=[read_file])
    assert_blocked(session.play([call("read_file", path="a"), "Read."]), by="no_secrets")
""",
    )
    assert "AssertionError: expected read_file to be blocked, but read_file is ok: 'content of a'." in printed
    assert "_asserts.py" not in printed


SNAPSHOT = """
import pytest

from hooksdk.testing import replay

SESSION = [
    {"role": "user", "content": "Read."},
    {"role": "assistant", "tool_calls": [
        {"id": "c1", "type": "function", "function": {"name": "read_file", "arguments": '{"path": ".env"}'}}]},
    {"role": "tool", "tool_call_id": "c1", "content": "text"},
]
"""


def test_a_snapshot_is_written_when_it_is_asked_for_and_only_then(tmp_path: Path) -> None:
    code = (
        PLUGIN
        + SNAPSHOT
        + """
@pytest.mark.parametrize("name", ["a/b", "c"])
def test_it(decision_snapshot, name):
    assert replay(SESSION, [NoSecrets]) == decision_snapshot
    assert replay(SESSION, []) == decision_snapshot("nobody")
"""
    )
    assert "there is no test_mine.test_it-a-b.decisions.json yet: pytest --hooksdk-update writes it" in run(
        tmp_path, code
    )
    assert list(tmp_path.glob("*.json")) == []
    assert "2 passed" in run(tmp_path, code, "--hooksdk-update")
    assert len(list(tmp_path.glob("*.decisions.json"))) == 4
    assert "2 passed" in run(tmp_path, code)
    printed = run(tmp_path, code.replace("secrets stay here", "secrets are secret"))
    assert "was block by no_secrets: secrets stay here, now block by no_secrets: secrets are secret" in printed


def test_it_can_be_switched_off(tmp_path: Path) -> None:
    printed = run(tmp_path, "def test_it(hook_session): ...\n", "-p", "no:hooksdk")
    assert "fixture 'hook_session' not found" in printed


def test_a_misspelt_loop_is_told(tmp_path: Path) -> None:
    printed = run(tmp_path, "import pytest\n@pytest.mark.hook_loops('curio')\ndef test_it(hook_session): ...\n")
    assert "hook_loops('curio'): the event loops are asyncio and trio" in printed


def test_a_foreign_suite_gets_no_fixture_and_hooksdk_is_not_imported(tmp_path: Path) -> None:
    printed = run(
        tmp_path,
        """
import sys


def test_it(request):
    assert not [name for name in sys.modules if name.partition(".")[0] in {"hooksdk", "builtin_plugins", "pydantic"}]
    assert request.fixturenames == ["request"]
""",
        "-p",
        "no:hypothesispytest",
        "-p",
        "no:langsmith_plugin",  # it comes with langchain, and imports pydantic
    )
    assert "1 passed" in printed, printed
