"""hooksdk in the Claude Agent SDK, before its real program and a scripted model."""

from __future__ import annotations

import pytest

pytest.importorskip("claude_agent_sdk", reason="hooksdk[claude-sdk] is not installed")
pytestmark = [pytest.mark.heavy, pytest.mark.anyio]

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
from claude_agent_sdk import (
    AgentDefinition,
    ClaudeAgentOptions,
    ClaudeSDKClient,
    HookMatcher,
    PermissionResultAllow,
    PermissionResultDeny,
    ResultMessage,
    create_sdk_mcp_server,
    query,
    tool,
)

from hooksdk import Approval, Host, MemoryStore, hooks
from hooksdk.adapters.claude_sdk import HookSDK
from hooksdk.errors import WrongArgument
from hooksdk.hooks import (
    AfterToolCall,
    AgentEnd,
    AgentStart,
    Ask,
    BeforeAnswer,
    BeforeToolCall,
    Block,
    Replace,
    Rewrite,
    RewriteToolCall,
    TransformToolResult,
)
from hooksdk.sync import LazyHost
from hooksdk.testing import ConformanceCase, Turn, call, conformance_cases, open_host, recorder
from hooksdk.testing.server import ScriptedServer
from tests.hooksdk.claude_sdk_driver import ClaudeSDKDriver, need_program, options_of
from tests.hooksdk.test_conformance import hold, in_ci_a_few

LIST = call("Bash", command="echo AKIA1; ls")
SEEN = ("agent_start", "after_tool_call", "agent_end")


class Asks:
    @hooks.before_tool_call
    def judge(self, event: BeforeToolCall) -> Ask:
        return Ask("List it?")


@pytest.fixture(autouse=True)
def program() -> None:
    need_program()


@asynccontextmanager
async def served(folder: Path, script: Any, **more: Any) -> AsyncGenerator[tuple[ScriptedServer, ClaudeAgentOptions]]:
    """A model that follows the script, and options of an agent that has Bash, unasked."""
    async with ScriptedServer(script) as server:
        settings: dict[str, Any] = {"tools": ["Bash"], "allowed_tools": ["Bash"]}
        yield server, options_of(server, folder / "home", **settings | more)


async def ask(client: ClaudeSDKClient, prompt: str = "go") -> ResultMessage:
    await client.query(prompt)
    (result,) = [one async for one in client.receive_response() if isinstance(one, ResultMessage)]
    return result


async def play(host: Host, folder: Path, script: Any, **more: Any) -> Sequence[Turn]:
    """One prompt to an agent; what its model was sent."""
    async with served(folder, script, **more) as (server, options), HookSDK(host).client(options) as client:
        assert not (await ask(client)).is_error
    return server.turns


def told(seen: Any) -> list[tuple[str, str]]:
    return [(one.call.name, one.status) for one in seen.of(AfterToolCall)]


@in_ci_a_few
@pytest.mark.parametrize("case", conformance_cases(), ids=str)
async def test_conformance(case: ConformanceCase, request: pytest.FixtureRequest):
    await hold(case, ClaudeSDKDriver(), request)


@pytest.mark.parametrize(("granted", "status"), [(True, "ok"), (False, "blocked")])
async def test_what_a_policy_asks_about_is_asked_by_can_use_tool_also_where_the_tool_is_allowed(
    tmp_path: Path, granted: bool, status: str
):
    asked: list[str | None] = []

    async def person(
        name: str, arguments: dict[str, Any], context: Any
    ) -> PermissionResultAllow | PermissionResultDeny:
        asked.append(context.decision_reason)
        return PermissionResultAllow() if granted else PermissionResultDeny(message="not today")

    seen = recorder(*SEEN)
    async with Host([seen, Asks], config={"allow": []}, store=MemoryStore(), folder=tmp_path) as host:
        turns = await play(host, tmp_path, [LIST, "done"], can_use_tool=person, allowed_tools=[])
    assert (asked, told(seen)) == (["List it?"], [("Bash", status)])
    assert ("AKIA1" if granted else "not today") in turns[1].result.text


async def test_where_nobody_can_be_asked_the_call_does_not_run(tmp_path: Path):
    seen = recorder(*SEEN)
    async with Host([seen, Asks], config={"allow": []}, store=MemoryStore(), folder=tmp_path) as host:
        turns = await play(host, tmp_path, [LIST, "done"])
    assert ("AKIA1" in turns[1].result.text, told(seen)) == (False, [("Bash", "blocked")])


async def test_the_hosts_approver_is_asked_first_and_its_yes_is_not_asked_once_more(tmp_path: Path):
    async def yes(request: Any) -> Approval:
        return Approval(True, by="ann")

    seen = recorder(*SEEN)
    async with open_host(seen, Asks, approver=yes) as host:
        turns = await play(host, tmp_path, [LIST, "done"], allowed_tools=[])
    assert ("AKIA1" in turns[1].result.text, told(seen)) == (True, [("Bash", "ok")])


async def test_no_objection_does_not_allow_what_claude_would_ask_about(tmp_path: Path):
    seen = recorder(*SEEN)
    async with open_host(seen) as host:
        turns = await play(host, tmp_path, [call("Bash", command="touch a"), "done"], allowed_tools=[])
    assert "needs approval" in turns[1].result.text
    assert told(seen) == [("Bash", "not_run")]
    assert not (tmp_path / "home" / "a").exists()


async def test_other_arguments_run_and_a_changed_result_has_the_tools_own_shape(tmp_path: Path):
    class Changes:
        @hooks.rewrite_tool_call
        def rewrite(self, event: RewriteToolCall) -> Rewrite:
            return Rewrite({"command": str(event.arguments["command"]).replace("danger", "safe")})

        @hooks.transform_tool_result
        def redact(self, event: TransformToolResult) -> Replace:
            return Replace(event.result.text.replace("AKIA", "[key]"))

    async with open_host(Changes) as host:
        turns = await play(host, tmp_path, [call("Bash", command="echo AKIA1; touch danger"), "done"])
    assert (tmp_path / "home" / "safe").exists()
    assert turns[1].result.text == "[key]1"


async def test_a_result_that_nobody_could_look_through_is_withheld(tmp_path: Path):
    async with open_host() as host:
        (matcher,) = (HookSDK(host).options().hooks or {})["PostToolUse"]
    payload: Any = {
        "hook_event_name": "PostToolUse", "session_id": "s1", "transcript_path": "", "cwd": str(tmp_path), "tool_name": "Bash",
        "tool_input": {"command": "cat a"}, "tool_use_id": "c1", "tool_response": {"stdout": "AKIA1", "stderr": ""},
    }  # fmt: skip
    output: Any = await matcher.hooks[0](payload, "c1", {"signal": None})
    changed = output["hookSpecificOutput"]["updatedToolOutput"]
    assert (changed["stderr"], "withheld" in changed["stdout"], "AKIA1" in changed["stdout"]) == ("", True, False)


async def test_a_tool_that_fails_is_an_error_with_its_words(tmp_path: Path):
    seen = recorder(*SEEN)
    async with open_host(seen) as host:
        await play(host, tmp_path, [call("Bash", command="echo broken >&2; exit 3"), "done"])
    (one,) = seen.of(AfterToolCall)
    assert (one.status, "broken" in one.result.text) == ("error", True)


async def test_a_tool_of_a_server_belongs_to_it_by_its_name(tmp_path: Path):
    class NoNotes:
        @hooks.before_tool_call(tools="mcp:notes:read")
        def judge(self, event: BeforeToolCall) -> Block:
            return Block(f"{event.tool.owner} is closed")

    @tool("read", "Read a note.", {"type": "object", "properties": {}})
    async def read(arguments: Any) -> dict[str, Any]:
        raise AssertionError(f"it should not have run with {arguments}")

    async with open_host(NoNotes) as host:
        servers: Any = {"notes": create_sdk_mcp_server("notes", tools=[read])}
        turns = await play(host, tmp_path, [call("mcp__notes__read"), "done"], mcp_servers=servers)
    assert "notes is closed" in turns[1].result.text


async def test_a_sub_agents_calls_are_judged_in_a_session_below_with_its_type_as_its_name(tmp_path: Path):
    class NotTheHelper:
        @hooks.before_tool_call(tools="Bash")
        def judge(self, event: BeforeToolCall) -> Block | None:
            return Block("not for helpers") if event.info.agents[-1] == "lister" else None

    def script(turn: Turn) -> Any:
        if "list for me" in turn.prompt:
            return "listed" if turn.results else LIST
        if not turn.results:
            agent = next(name for name in ("Agent", "Task") if name in turn.offered)
            what = {
                "description": "list",
                "prompt": "list for me",
                "subagent_type": "lister",
                "run_in_background": False,
            }
            return [LIST, call(agent, **what)]
        return "done"

    lister = AgentDefinition(description="Lists.", prompt="List.", tools=["Bash"], background=False)
    seen = recorder(*SEEN)
    async with open_host(seen, NotTheHelper) as host:
        await play(host, tmp_path, script, tools=["Bash", "Task"], agents={"lister": lister})
    calls = [
        (one.status, "/" in one.info.session_id, one.info.agents)
        for one in seen.of(AfterToolCall)
        if one.call.name == "Bash"
    ]
    assert sorted(calls, reverse=True) == [
        ("ok", False, ("claude-code",)),
        ("blocked", True, ("claude-code", "lister")),
    ]
    assert [one.reason for one in seen.of(AgentEnd)] == ["completed", "completed"]


async def test_a_sub_agent_in_the_background_is_judged_after_the_stop_of_the_agent_that_began_it(tmp_path: Path):
    def script(turn: Turn) -> Any:
        if "list for me" in turn.prompt:
            texts = [result.text for result in turn.results]
            return "listed" if "AKIA1" in str(texts) else LIST if texts else call("Bash", command="sleep 1")
        if turn.results or turn.number > 1:
            return "done"
        return call("Agent", description="list", prompt="list for me", subagent_type="lister", run_in_background=True)

    lister = AgentDefinition(description="Lists.", prompt="List.", tools=["Bash"])
    seen = recorder(*SEEN)
    async with (
        open_host(seen) as host,
        served(tmp_path, script, tools=["Bash", "Task"], agents={"lister": lister}) as (_, options),
        HookSDK(host).client(options) as client,
    ):
        await ask(client)
        assert [one.reason for one in seen.of(AgentEnd)] == ["completed"]
        with anyio.fail_after(120):
            async for message in client.receive_messages():
                if isinstance(message, ResultMessage):  # of what Claude made of the sub-agent's answer
                    break
    assert sorted(told(seen)) == [("Agent", "ok"), ("Bash", "ok"), ("Bash", "ok")]
    assert {one.reason for one in seen.of(AgentEnd)} == {"completed"}
    assert len(seen.of(AgentEnd)) == len(seen.of(AgentStart))


async def test_a_prompt_that_is_blocked_never_reaches_the_model(tmp_path: Path):
    class Closed:
        @hooks.agent_start
        def judge(self, event: AgentStart) -> Block:
            return Block(f"closed for {event.input}")

    texts: list[str] = []
    async with (
        open_host(Closed) as host,
        served(tmp_path, ["hello"]) as (server, options),
        HookSDK(host).client(options) as client,
    ):
        await client.query("all")
        texts += [str(message) async for message in client.receive_response()]
    assert server.turns == []
    assert "closed for all" in "".join(texts)


def waiting() -> tuple[anyio.Event, dict[str, Any]]:
    """A tool that waits for ever, as options of an agent; and when it has begun."""
    reached = anyio.Event()

    @tool("wait", "Wait.", {"type": "object", "properties": {}})
    async def wait(arguments: Any) -> dict[str, Any]:
        reached.set()
        await anyio.sleep_forever()
        return arguments

    servers = {"own": create_sdk_mcp_server("own", tools=[wait])}
    return reached, {"mcp_servers": servers, "allowed_tools": ["mcp__own"]}


async def interrupted(client: ClaudeSDKClient, reached: anyio.Event) -> None:
    await client.query("wait")
    await reached.wait()
    await client.interrupt()


async def test_an_interrupted_run_ends_as_cancelled_and_the_next_prompt_begins_another(tmp_path: Path):
    reached, more = waiting()
    seen = recorder(*SEEN)
    async with (
        open_host(seen) as host,
        served(tmp_path, [call("mcp__own__wait"), "done"], **more) as (_, options),
        HookSDK(host).client(options) as client,
    ):
        await interrupted(client, reached)
        assert [one.reason for one in seen.of(AgentEnd)] == ["cancelled"]
        assert [message async for message in client.receive_response()]
        await ask(client, "go on")
    assert told(seen) == [("mcp__own__wait", "error")]
    assert [one.reason for one in seen.of(AgentEnd)] == ["cancelled", "completed"]
    assert [one.input for one in seen.of(AgentStart)] == ["wait", "go on"]


async def test_a_run_that_a_client_of_the_sdks_own_has_left_ends_with_the_next_prompt(tmp_path: Path):
    reached, more = waiting()
    seen = recorder(*SEEN)
    async with (
        open_host(seen) as host,
        served(tmp_path, [call("mcp__own__wait"), "done"], **more) as (_, options),
        ClaudeSDKClient(HookSDK(host).options(options)) as client,
    ):
        await interrupted(client, reached)
        assert [message async for message in client.receive_response()]
        assert seen.of(AgentEnd) == []
        await ask(client, "go on")
    assert told(seen) == [("mcp__own__wait", "error")]
    assert [one.reason for one in seen.of(AgentEnd)] == ["cancelled", "completed"]


async def test_what_a_person_types_while_claude_works_is_a_run_of_its_own(tmp_path: Path):
    seen = recorder(*SEEN)
    async with (
        open_host(seen) as host,
        served(tmp_path, [call("Bash", command="sleep 1"), "done", "and done"]) as (_, options),
        HookSDK(host).client(options) as client,
    ):
        await client.query("sleep")
        async for message in client.receive_messages():
            if "ToolUseBlock" in str(message):
                await client.query("and then?")
            elif isinstance(message, ResultMessage):
                break
    assert [one.input for one in seen.of(AgentStart)] == ["sleep", "and then?"]
    assert ([one.reason for one in seen.of(AgentEnd)], told(seen)) == (["completed", "completed"], [("Bash", "ok")])


async def test_a_call_that_cannot_be_judged_does_not_run(tmp_path: Path):
    async with open_host() as host:
        pass
    async with (
        served(tmp_path, [call("Bash", command="touch a"), "done"]) as (server, options),
        HookSDK(host).client(options) as client,
    ):
        await ask(client)
    assert server.turns == []  # the prompt already was refused
    assert not (tmp_path / "home" / "a").exists()


async def test_hooks_of_ones_own_stay_and_the_options_are_not_changed(tmp_path: Path):
    own: list[str] = []

    async def note(payload: Any, _id: Any, _context: Any) -> Any:
        own.append(payload["hook_event_name"])
        return {}

    more: dict[str, Any] = {
        "hooks": {"PreToolUse": [HookMatcher(hooks=[note])], "PreCompact": [HookMatcher(hooks=[note])]}
    }
    seen = recorder(*SEEN)
    async with open_host(seen) as host, served(tmp_path, [LIST, "done"], **more) as (_, options):
        async with HookSDK(host).client(options) as client:
            await ask(client)
        assert {name: len(found) for name, found in (options.hooks or {}).items()} == {"PreToolUse": 1, "PreCompact": 1}
        added = HookSDK(host).options(options).hooks or {}
        assert {name: len(found) for name, found in added.items() if name.startswith("Pre")} == {
            "PreToolUse": 2,
            "PreCompact": 1,
        }
    assert (own, told(seen)) == (["PreToolUse"], [("Bash", "ok")])


async def test_a_lazy_host_judges_the_query_of_a_plain_program(tmp_path: Path):
    class NoLists:
        @hooks.before_tool_call
        def judge(self, event: BeforeToolCall) -> Block:
            return Block("nothing is listed")

    async with served(tmp_path, [LIST, "done"]) as (server, options):
        hooked = HookSDK(LazyHost([NoLists], config={"allow": []}, folder=tmp_path))

        async def main() -> None:
            _ = [message async for message in query(prompt="go", options=hooked.options(options))]

        await anyio.to_thread.run_sync(anyio.run, main)
    assert "nothing is listed" in server.turns[1].result.text


async def test_an_option_that_no_run_has_is_refused_with_the_one_that_is_meant():
    async with open_host() as host:
        with pytest.raises(WrongArgument, match="requester"):
            HookSDK(host, requestor={"id": "ann"})


async def test_an_answer_that_a_plugin_blocks_stands_there_and_its_run_ends_as_blocked(tmp_path: Path):
    class Blocks:
        @hooks.before_answer
        def judge(self, event: BeforeAnswer) -> Block:
            return Block(f"not {event.text}")

    seen = recorder(*SEEN)
    async with (
        open_host(seen, Blocks) as host,
        served(tmp_path, ["It is Rome."]) as (_, options),
        HookSDK(host).client(options) as client,
    ):
        assert (await ask(client)).result == "It is Rome."
    (end,) = seen.of(AgentEnd)
    assert (end.reason, end.error) == ("blocked", "run blocked by plugin 'blocks': not It is Rome.")
