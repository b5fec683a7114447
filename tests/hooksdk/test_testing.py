"""The plugin authors' kit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from kit_examples import NoSecrets, read_file

from hooksdk import Host, MemoryStore, PluginState, Tool, ToolCall, hooks, tool
from hooksdk.approvals import Approval
from hooksdk.errors import ConfigError, PluginRefused, RunBlocked
from hooksdk.hooks import (
    Ask,
    AssembleTools,
    BeforeToolCall,
    Block,
    Offer,
    UnwrapToolCall,
)
from hooksdk.testing import (
    Call,
    Reply,
    ScriptedApprover,
    ScriptedModel,
    Turn,
    call,
    open_host,
    open_session,
    play,
    say,
)

pytestmark = pytest.mark.anyio
both_formats = pytest.mark.parametrize("form", ["openai-chat", "anthropic"])


class AsksFirst:
    @hooks.before_tool_call
    def judge(self, event: BeforeToolCall) -> Ask | None:
        return Ask(f"read {event.arguments['path']}?")


# ScriptedModel and Turn


@both_formats
async def test_a_script_reads_what_came_back_and_reacts(form: str):
    def script(turn: Turn) -> Any:
        if turn.number == 1:
            return [call("read_file", path="secret"), call("read_file", path="b")]
        if turn.results[0].is_error:
            return say(f"refused: {turn.results[0].text}; got {turn.results[1].text}")
        return "never"

    async with open_session(NoSecrets, tools=[read_file]) as session:
        played = await play(session, script, format=form)
    assert "that file is secret" in played.text
    assert played.text.endswith("got content of b")
    assert [one.status for one in played.calls] == ["blocked", "ok"]


@both_formats
async def test_a_turn_shows_definitions_prompt_and_results_alike_in_every_format(form: str):
    async with open_session(tools=[read_file]) as session:
        script = [[call("read_file", path="a"), Call("read_file", {"path": "missing"}, id="mine")], "done"]
        played = await play(session, script, "please read", format=form, system="Be brief.")
    first, second = played.turns
    assert (first.number, first.offered, first.prompt, first.results) == (1, ["read_file"], "please read", [])
    definition = first.definitions["read_file"]
    assert definition["description"] == "Read a file."
    assert definition["parameters"]["properties"]["path"]["description"] == "Where it lies."
    assert [(one.call_id, one.tool, one.is_error) for one in second.results] == [
        ("c1", "read_file", False),
        ("mine", "read_file", True),
    ]
    assert second.prompt == "please read"
    assert second.result_of("read_file").text == "content of a"


@both_formats
async def test_a_script_finds_the_bridge_searches_reads_and_calls(form: str):
    class Search:
        """A bridge in a few lines: everything deferrable is behind it."""

        @hooks.assemble_tools
        def hide(self, event: AssembleTools) -> Offer | None:
            names = [one.name for one in event.deferrable]

            def search(arguments: dict[str, Any]) -> dict[str, Any]:
                return {"names": names}

            anything = {"type": "object"}
            found = Tool(name="tool_search", parameters=anything, execute=search)
            return Offer([found, Tool(name="tool_call", parameters=anything)], defer=names)

        @hooks.unwrap_tool_call
        def unwrap(self, event: UnwrapToolCall) -> ToolCall | None:
            if event.call.name == "tool_call":
                return ToolCall(event.call.id, event.arguments["name"], event.arguments["arguments"])
            return None

    def script(turn: Turn) -> Any:
        if "tool_search" in turn.offered and turn.number == 1:
            return call("tool_search", queries=["open an issue"])
        if turn.number == 2:
            found = turn.result.json()["names"]
            return call("tool_call", name=found[0], arguments={"title": "Broken"})
        return f"made {turn.result.text}"

    def create(arguments: dict[str, Any]) -> str:
        return f"issue 1: {arguments['title']}"

    remote = Tool(name="create_issue", source="mcp", owner="github", parameters={"type": "object"}, execute=create)
    async with open_session(Search, tools=[remote]) as session:
        played = await play(session, script, format=form)
    assert played.turns[0].offered == ["tool_search", "tool_call"]
    assert played.text == "made issue 1: Broken"
    assert played.call("create_issue").call.origin == "bridge"


async def test_prose_and_calls_may_stand_in_one_reply():
    async with open_session(tools=[read_file]) as session:
        played = await play(session, [say("let me look", call("read_file", path="a")), "done"])
    assert played.messages[1]["content"] == "let me look"
    assert played.call("read_file").status == "ok"


async def test_a_script_may_be_async():
    async def script(turn: Turn) -> str:
        return "later"

    async with open_session() as session:
        assert (await play(session, script)).text == "later"


async def test_a_script_that_runs_out_says_how_many_replies_it_had():
    async with open_session(tools=[read_file]) as session:
        with pytest.raises(AssertionError, match="the script has 1 replies, and the model was asked for number 2"):
            await play(session, [call("read_file", path="a")])


async def test_asking_for_the_one_result_says_what_there_was_instead():
    async with open_session() as session:
        with pytest.raises(AssertionError, match="turn 1 has 0 results, not one"):
            await play(session, lambda turn: turn.result.text)
        with pytest.raises(AssertionError, match="turn 1 has no result of 'x'"):
            await play(session, lambda turn: turn.result_of("x").text)


async def test_arguments_may_be_the_broken_text_of_a_weak_model():
    async with open_session(tools=[read_file]) as session:
        played = await play(session, [Call("read_file", "{'path': "), "done"])
    assert played.call("read_file").status == "invalid"


async def test_a_reply_tells_its_usage_by_estimate_unless_given():
    model = ScriptedModel([Reply("x" * 400), Reply("x", usage={"total_tokens": 1}, stop_reason="length")])
    first = await model.reply([{"role": "user", "content": "hi"}], [])
    second = await model.reply([], [])
    assert first.usage is not None
    assert first.usage["output_tokens"] > 100
    assert (second.usage, second.stop_reason) == ({"total_tokens": 1}, "length")


async def test_one_model_may_play_several_runs():
    model = ScriptedModel(["one", "two"])
    async with open_session() as session:
        assert [(await play(session, model)).text, (await play(session, model)).text] == ["one", "two"]
    assert [turn.number for turn in model.turns] == [1, 2]


# Sessions


async def test_a_test_session_reads_no_configuration_and_loads_no_installed_plugin(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    (tmp_path / "hooksdk.toml").write_text("nonsense = 1\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOOKSDK_STORE", "jsonl:elsewhere")
    async with open_host(NoSecrets) as host:
        assert [plugin.id for plugin in host.plugins if plugin.loaded] == ["testing_kit", "no_secrets"]
        assert isinstance(host.store, MemoryStore)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["hooksdk.toml"]


async def test_configuration_reaches_the_plugins_and_is_checked():
    class Counting:
        def __init__(self, config: dict[str, Any]) -> None:
            self.calls = config["calls"]

        @tool
        def count(self) -> int:
            """Count."""
            return self.calls

    async with open_session(Counting, config={"plugins": {"counting": {"config": {"calls": 3}}}}) as session:
        assert session.plugin("counting").calls == 3
    with pytest.raises(ConfigError, match="Did you mean 'timeouts'"):
        async with open_session(config={"timeout": {}}):
            pass


async def test_an_installed_plugin_that_is_not_there_is_named():
    with pytest.raises(PluginRefused, match="plugin 'no_such_plugin' refused: no installed plugin has this id"):
        async with open_session("no_such_plugin"):
            pass


async def test_the_same_store_resumes_the_session_with_its_state():
    class Counting:
        def __init__(self, state: PluginState) -> None:
            self.state = state

        @tool
        def count(self) -> int:
            """Count."""
            self.state["calls"] = self.state.get("calls", 0) + 1
            return self.state["calls"]

    store = MemoryStore()
    for expected in ("1", "2"):
        async with open_session(Counting, store=store) as session:
            assert session.resumed is (expected == "2")
            assert (await play(session, [call("count"), "ok"])).call("count").result.text == expected


async def test_tools_of_one_play_replace_those_of_the_session():
    other = Tool(name="other", source="mcp", owner="x")
    async with open_session(tools=[read_file]) as session:
        assert (await play(session, ["ok"])).turns[0].offered == ["read_file"]
        assert (await play(session, ["ok"], tools=[other])).turns[0].offered == ["other"]


async def test_a_play_shows_the_calls_of_its_own_run_only():
    async with open_session(tools=[read_file]) as session:
        await play(session, [call("read_file", path="a"), "ok"])
        played = await play(session, [call("read_file", path="b"), "ok"])
    assert [one.arguments for one in played.calls] == [{"path": "b"}]
    assert len(played.turns) == 2


async def test_asking_for_a_call_that_was_not_made_lists_those_that_were():
    async with open_session(tools=[read_file]) as session:
        played = await play(session, [call("read_file", path="a"), "ok"])
    with pytest.raises(
        AssertionError, match=r"'write_file' was called 0 times, not once; the calls were \['read_file'\]"
    ):
        played.call("write_file")


async def test_play_needs_a_session_of_the_kit():
    async with Host(store=MemoryStore(), config={"allow": []}) as host, host.session() as session:
        with pytest.raises(TypeError, match="expected a session of open_session"):
            await play(session, ["ok"])


async def test_a_refused_run_is_raised_to_the_test():
    class Closed:
        @hooks.agent_start
        def refuse(self, event: hooks.AgentStart) -> Block | None:
            return Block("closed today")

    async with open_session(Closed) as session:
        with pytest.raises(RunBlocked, match="closed today"):
            await play(session, ["never"])


# Approvals


async def test_scripted_approvals_are_given_in_order_and_the_last_one_stays():
    approver = ScriptedApprover(True, "not on a Friday")
    async with open_session(AsksFirst, tools=[read_file], approver=approver) as session:
        played = await play(session, [[call("read_file", path=path)] for path in "abc"] + ["ok"])
    assert [one.status for one in played.calls] == ["ok", "blocked", "blocked"]
    assert "not on a Friday" in played.calls[1].result.text
    assert [request.title for request in approver.requests] == ["read a?", "read b?", "read c?"]


async def test_an_approver_without_a_script_grants_everything():
    async with open_session(AsksFirst, tools=[read_file], approver=ScriptedApprover()) as session:
        assert (await play(session, [call("read_file", path="a"), "ok"])).call("read_file").status == "ok"


async def test_an_approval_may_be_given_whole():
    approver = ScriptedApprover(Approval(False, "because"), False)
    async with open_session(AsksFirst, tools=[read_file], approver=approver) as session:
        played = await play(session, [[call("read_file", path=path)] for path in "ab"] + ["ok"])
    assert "because" in played.calls[0].result.text
    assert played.calls[1].status == "blocked"


async def test_without_an_approver_every_question_is_refused():
    async with open_session(AsksFirst, tools=[read_file]) as session:
        assert (await play(session, [call("read_file", path="a"), "ok"])).call("read_file").status == "blocked"
