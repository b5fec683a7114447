"""`hooksdk policy check`: which rule decides a call, and why."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from hooksdk import Host, Tool, ToolCall
from hooksdk.stores import SqlStore

pytest.importorskip("mcp", reason="needs the extra `mcp`")

from commands import hooksdk, write_servers

pytestmark = [pytest.mark.heavy, pytest.mark.anyio]

CONFIG = """
[plugins.tool_policy.config]
default = "deny"

[[plugins.tool_policy.config.rules]]
action = "allow"
tools = "mcp:files:*"
path_inside = "/workspace"

[[plugins.tool_policy.config.rules]]
action = "ask"
tools = "send_mail"
requester = { is_owner = true }
title = "Send it?"

[[plugins.tool_policy.config.rules]]
action = "deny"
path_inside = "/etc"
reason = "nothing in there"

[[plugins.tool_policy.config.rules]]
action = "allow"
tools = "mcp:plain:*"
"""


@pytest.fixture
def anyio_backend() -> str:
    """The command brings its own event loop."""
    return "asyncio"


async def check(folder: Path, call: object, *options: str, config: str = CONFIG) -> tuple[int, Any]:
    (folder / "hooksdk.toml").write_text(config)
    (folder / "call.json").write_text(call if isinstance(call, str) else json.dumps(call))
    done = await hooksdk("policy", "check", "call.json", "--json", *options, folder=folder)
    return done.code, done.json() if done.out else done.err


MISSPELT = """
[[plugins.tool_policy.config.rules]]
action = "deny"
tools = "add"
path_name = { lft = ".env" }
"""


@pytest.mark.parametrize(
    ("call", "names_it"),
    [
        ({"tool": "add", "arguments": {"left": 1}}, True),  # near to what the call has
        ({"tool": "add", "arguments": {"other": 1}}, False),  # the tool may have it all the same
        ({"tool": "add", "arguments": {"left": 1}, "parameters": {"properties": {"left": {}, "x": {}}}}, True),
        ({"tool": "subtract", "arguments": {"left": 1}}, False),  # the rule is about another one
    ],
)
async def test_a_rule_that_names_an_argument_which_the_tool_has_not_is_a_problem_though_the_call_runs(
    call: dict[str, Any], names_it: bool, tmp_path: Path
) -> None:
    code, answer = await check(tmp_path, call, config=MISSPELT)
    assert (code, answer["verdict"], len(answer["misspelt"])) == (int(names_it), "allow", int(names_it))


def _read(arguments: dict[str, Any]) -> str:
    return "read"


async def test_a_limit_is_judged_by_what_the_store_says_was_used_and_nothing_is_counted(tmp_path: Path) -> None:
    rule = {"action": "deny", "tools": "read_*", "limit": {"calls": 1, "per": "requester"}, "reason": "enough"}
    settings = {"allow": ["tool_policy"], "plugins": {"tool_policy": {"config": {"rules": [rule]}}}}
    lines = '[[plugins.tool_policy.config.rules]]\naction = "deny"\ntools = "read_*"\nreason = "enough"\n'
    config = f'{lines}limit = {{ calls = 1, per = "requester" }}\n'
    tool = Tool(name="read_file", source="host", execute=_read)
    call = {"tool": "read_file", "arguments": {"path": "a"}, "requester": {"id": "ann"}}
    told: Any = {}
    for _ in range(2):
        code, told = await check(tmp_path, call, config=config)
        assert (code, told["verdict"]) == (0, "allow")
    assert "once its limit is reached" in told["tool_policy"]["do_not_fit"][0]["why"]
    host = Host(store=SqlStore(tmp_path / "kept"), config=settings)
    async with host, host.session("s") as session, session.run(requester={"id": "ann"}) as run:
        await run.resolve_tools([tool])
        assert (await run.call_tool(ToolCall("c", "read_file", {}))).text == "read"
    code, told = await check(tmp_path, call, config=config)
    assert (code, told["verdict"]) == (1, "block")
    assert "enough: used: 1 of 1 call for this requester" in told["reason"]


async def test_an_allowed_call_answers_zero_and_the_rule(tmp_path: Path) -> None:
    code, told = await check(tmp_path, {"tool": "mcp:files:write", "arguments": {"path": "/workspace/a", "mode": "x"}})
    assert (code, told["schema"], told["verdict"]) == (0, 1, "allow")
    assert told["tool_policy"]["deciding"]["number"] == 1
    assert told["judges"] == ["tool_policy"]


async def test_a_blocked_call_answers_one_the_deciding_rule_and_why(tmp_path: Path) -> None:
    code, told = await check(tmp_path, {"tool": "mcp:files:write", "arguments": {"path": "/etc/passwd"}})
    deciding = told["tool_policy"]["deciding"]
    assert (code, told["verdict"], deciding["number"]) == (1, "block", 3)
    assert told["reason"] == "Blocked by tool_policy: nothing in there"
    assert "'path'" in deciding["why"]
    (other,) = told["tool_policy"]["do_not_fit"]
    assert (other["number"], other["why"]) == (1, "the argument 'path' does not lie inside /workspace")


async def test_what_would_be_asked_answers_one_and_the_question(tmp_path: Path) -> None:
    code, told = await check(tmp_path, {"tool": "send_mail", "requester": {"is_owner": True}})
    assert (code, told["verdict"]) == (1, "ask")
    assert told["questions"][0]["title"] == "Send it?"
    _, told = await check(tmp_path, {"tool": "send_mail"})
    assert told["verdict"] == "withheld"
    assert told["tool_policy"]["deciding"]["text"] == 'default = "deny"'
    assert "not about this run" in told["tool_policy"]["do_not_fit"][-1]["why"]


async def test_a_rule_that_is_near_to_the_tool_is_told(tmp_path: Path) -> None:
    rule = '[[plugins.tool_policy.config.rules]]\naction = "deny"\ntools = "delete_*"\n'
    code, told = await check(tmp_path, {"tool": "mcp:github:issueDelete"}, config=rule)
    assert (code, told["verdict"]) == (0, "allow")
    (near,) = told["tool_policy"]["near_misses"]
    assert near["number"] == 1
    assert near["why"] == "'delete_*' has the same words as 'mcp:github:issueDelete', and does not mean it"
    done = await hooksdk("policy", "check", "call.json", folder=tmp_path)
    assert 'near miss    rule 1: action = "deny", tools = "delete_*"' in done.out
    code, told = await check(tmp_path, {"tool": "mcp:github:deleteIssue"}, config=rule)
    assert (told["verdict"], told["tool_policy"]["near_misses"]) == ("withheld", [])


async def test_a_handler_that_is_near_to_the_tool_is_told_where_the_call_would_run(tmp_path: Path) -> None:
    (tmp_path / "guard.py").write_text(
        "from hooksdk import hooks\nfrom hooksdk.hooks import BeforeToolCall, Block\n\n"
        "@hooks.before_tool_call(tools='delete_*')\n"
        "def judge(event: BeforeToolCall) -> Block:\n    return Block('nothing is deleted')\n"
    )
    near = "'delete_*' has the same words as 'mcp:github:bulkDelete', and does not mean it"
    call = {"tool": "mcp:github:bulkDelete"}
    code, told = await check(tmp_path, call, "--plugin", "guard.py", config="")
    assert (code, told["near_misses"]) == (0, [{"plugin": "guard", "why": near}])
    done = await hooksdk("policy", "check", "call.json", "--plugin", "guard.py", folder=tmp_path)
    assert f"near miss    plugin 'guard', before_tool_call(tools=...): {near}" in done.out
    code, told = await check(tmp_path, {"tool": "mcp:github:deleteIssue"}, "--plugin", "guard.py", config="")
    assert (code, told["near_misses"]) == (1, [])


async def test_a_tool_of_a_server_is_stopped_by_a_rule_in_another_style(tmp_path: Path) -> None:
    servers = write_servers(tmp_path / "mcp.json")
    config = (
        "[plugins.tool_policy.config]\nrules = [{ action = 'deny', tools = 'mcp:Plain:processId', reason = 'no' }]\n"
    )
    (tmp_path / "hooksdk.toml").write_text(config)
    done = await hooksdk("tools", "call", "process_id", "--mcp", servers, folder=tmp_path)
    assert (done.code, done.out.strip()) == (
        1, "'process_id' was not run: it is withheld from this run (no). Do not retry.",
    )  # fmt: skip


async def test_other_plugins_judge_too(tmp_path: Path) -> None:
    (tmp_path / "hooksdk_plugins.py").write_text(
        "from hooksdk import hooks\nfrom hooksdk.hooks import BeforeToolCall, Block\n\n"
        "@hooks.before_tool_call\ndef judge(event: BeforeToolCall) -> Block:\n    return Block('never on a Sunday')\n"
    )
    call = {"tool": "mcp:files:write", "arguments": {"path": "/workspace/a"}}
    (tmp_path / "call.json").write_text(json.dumps(call))
    (tmp_path / "user" / "hooksdk").mkdir(parents=True)
    (tmp_path / "user" / "hooksdk" / "config.toml").write_text(CONFIG)
    variables = {"XDG_CONFIG_HOME": str(tmp_path / "user"), "HOOKSDK_PLUGINS_FILE": "true"}
    done = await hooksdk("policy", "check", "call.json", folder=tmp_path, variables=variables)
    assert done.code == 1
    assert "never on a Sunday" in done.out
    assert "decided by   rule 1:" in done.out


async def test_the_call_may_come_from_stdin_and_is_told_in_words(tmp_path: Path) -> None:
    (tmp_path / "hooksdk.toml").write_text(CONFIG)
    call = json.dumps({"tool": "mcp:files:write", "arguments": {"path": "/etc/\u001b[2Jx"}})
    done = await hooksdk("policy", "check", "-", folder=tmp_path, stdin=call)
    assert done.code == 1
    assert done.out.splitlines()[0] == "block        mcp:files:write"
    assert 'decided by   rule 3: action = "deny", path_inside = "/etc"' in done.out
    assert "\x1b" not in done.out


async def test_with_a_server_its_own_schema_counts_and_nothing_runs(tmp_path: Path) -> None:
    servers = write_servers(tmp_path / "mcp.json")
    code, told = await check(tmp_path, {"tool": "folder"}, "--mcp", servers)
    assert (code, told["verdict"], told["tool"], told["tool_as_written"]) == (0, "allow", "mcp:plain:folder", False)
    code, told = await check(tmp_path, {"tool": "fodler"}, "--mcp", servers)
    assert code == 2
    assert "Did you mean 'folder'?" in told


async def test_on_the_line_the_schema_of_a_server_says_what_the_words_are_as_for_a_call(tmp_path: Path) -> None:
    servers = write_servers(tmp_path / "mcp.json")
    for word in ("7", "true", "null", "[1]", '"7"'):
        code, told = await on_the_line(tmp_path, "environment", f"name={word}", "--mcp", servers)
        assert (code, told["verdict"]) == (0, "allow"), told


async def test_without_the_policy_it_says_so(tmp_path: Path) -> None:
    code, told = await check(tmp_path, {"tool": "x"}, config="")
    assert (code, told["verdict"], told["tool_policy"], told["judges"]) == (0, "allow", None, [])


@pytest.mark.parametrize(
    ("call", "problem"),
    [
        ({"tol": "x"}, "Did you mean 'tool'?"),
        ({"arguments": {}}, "tool"),
        ({"tool": "x", "arguments": []}, "arguments"),
        ({"tool": "x", "trigger": "cron"}, "trigger"),
        ({"tool": "x", "annotations": {"destructiv": True}}, "Did you mean 'destructive'?"),
        ({"tool": "mpc:x:y"}, "source"),
        ([], "dictionary"),
        ("{", "call.json: it is no JSON: "),
        ("[" * 100_000, "call.json"),
    ],
)
async def test_a_file_that_is_no_call_is_told_and_answers_two(call: object, problem: str, tmp_path: Path) -> None:
    code, told = await check(tmp_path, call)
    assert code == 2
    assert problem in told
    assert told.startswith("hooksdk: ")


# A call without a file of our own making


async def on_the_line(folder: Path, *words: str) -> tuple[int, Any]:
    (folder / "hooksdk.toml").write_text(CONFIG)
    done = await hooksdk("policy", "check", *words, "--json", folder=folder)
    return done.code, done.json() if done.out else done.err


async def test_a_call_can_be_asked_about_on_the_line(tmp_path: Path) -> None:
    code, told = await on_the_line(tmp_path, "mcp:files:write", "path=/workspace/a", "n=3")
    assert (code, told["verdict"], told["tool"]) == (0, "allow", "mcp:files:write")
    code, told = await on_the_line(tmp_path, "mcp:files:write", "path=/etc/passwd")
    assert (code, told["verdict"], told["tool_policy"]["deciding"]["number"]) == (1, "block", 3)
    code, told = await on_the_line(tmp_path, "mcp:files:write", '{"path": "/etc/passwd"}')
    assert (code, told["verdict"]) == (1, "block")


async def test_on_the_line_the_project_is_the_workspace(tmp_path: Path) -> None:
    inside = '[plugins.tool_policy.config]\ndefault = "deny"\n[[plugins.tool_policy.config.rules]]\naction = "allow"\npath_inside = "."\n'
    (tmp_path / "hooksdk.toml").write_text(inside)
    done = await hooksdk("policy", "check", "write", f"path={tmp_path / 'a'}", folder=tmp_path)
    assert done.out.startswith("allow ")
    done = await hooksdk("policy", "check", "write", "path=/etc/passwd", folder=tmp_path)
    assert done.out.startswith("block ")


@pytest.mark.parametrize(
    "call",
    [
        {"name": "mcp:files:write", "arguments": {"path": "/etc/a"}},
        {"method": "tools/call", "params": {"name": "mcp:files:write", "arguments": {"path": "/etc/a"}}},
        {"id": "c1", "type": "function", "function": {"name": "mcp:files:write", "arguments": '{"path": "/etc/a"}'}},
        {"type": "function_call", "call_id": "c1", "name": "mcp:files:write", "arguments": '{"path": "/etc/a"}'},
        {"type": "tool_use", "id": "c1", "name": "mcp:files:write", "input": {"path": "/etc/a"}},
    ],
    ids=["mcp", "mcp-request", "openai-chat", "openai-responses", "anthropic"],
)
async def test_a_file_may_hold_the_call_as_a_provider_or_mcp_writes_it(call: object, tmp_path: Path) -> None:
    code, told = await check(tmp_path, call)
    assert (code, told["verdict"], told["tool_policy"]["deciding"]["number"]) == (1, "block", 3)


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["write", "path"], "'path' is no KEY=VALUE"),
        (["write", "{"], "the arguments are no JSON"),
        (["gone.json"], "gone.json: No such file"),
        (["hooksdk.toml"], "it is no JSON"),
    ],
)
async def test_what_is_no_call_on_the_line_is_told_and_answers_two(
    words: list[str], problem: str, tmp_path: Path
) -> None:
    code, told = await on_the_line(tmp_path, *words)
    assert code == 2
    assert problem in told


async def test_arguments_stand_in_the_file_or_on_the_line(tmp_path: Path) -> None:
    (tmp_path / "call.json").write_text('{"name": "write"}')
    code, told = await on_the_line(tmp_path, "call.json", "path=a")
    assert code == 2
    assert "call.json holds the arguments already: leave path=a out" in told
