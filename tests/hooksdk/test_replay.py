"""What plugins would have done with a recorded session."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from history_samples import CLAUDE_CODE

from hooksdk import Annotations, MemoryStore, PluginState, Tool, hooks
from hooksdk.calls import ToolCall, ToolResult
from hooksdk.errors import ConfigError, PluginRefused
from hooksdk.formats import FORMATS, get_format
from hooksdk.histories import HistoryError
from hooksdk.hooks import (
    AgentStart,
    Answer,
    Ask,
    BeforeToolCall,
    Block,
    NarrowTools,
    Rewrite,
    RewriteToolCall,
    TransformToolResult,
    Withhold,
)
from hooksdk.testing import DecisionSnapshot, call, open_session, play, replay, replay_async, without_prose
from hooksdk.testing._verdicts import differences, snapshot_of


def session(*calls: tuple[str, dict[str, Any], str], form: str = "openai-chat", runs: int = 1) -> list[Any]:
    """A history in which the model makes these calls, each with its result, in as many runs."""
    message_format = get_format(form)
    messages: list[Any] = []
    for _ in range(runs):
        messages.append(message_format.user("Do it."))
        for number, (tool, arguments, text) in enumerate(calls):
            one = ToolCall(f"c{number}", tool, arguments)
            result = ToolResult(text, is_error=text.startswith(("Blocked", "failed")))
            messages += [*message_format.reply_messages("", [one]), *message_format.result_messages([(one, result)])]
        messages += message_format.reply_messages("Done.")
    return messages


class NoDeletes:
    @hooks.before_tool_call(tools="delete_*")
    def judge(self, event: BeforeToolCall) -> Block:
        return Block(f"{event.arguments['path']} stays")


class AsksToSend:
    @hooks.before_tool_call(tools="send_*")
    def judge(self, event: BeforeToolCall) -> Ask:
        return Ask("Send it?")


class Lowers:
    @hooks.rewrite_tool_call(tools="read_*")
    def change(self, event: RewriteToolCall) -> Rewrite:
        return Rewrite({**event.arguments, "path": event.arguments["path"].lower()})


class Answers:
    @hooks.before_tool_call(tools="now")
    def judge(self, event: BeforeToolCall) -> Answer:
        return Answer("noon")


class Raises:
    @hooks.before_tool_call
    def judge(self, event: BeforeToolCall) -> Block | None:
        raise RuntimeError("broken")


@pytest.mark.parametrize("form", FORMATS)
def test_every_call_is_judged_in_order_whatever_the_format(form: str) -> None:
    history = session(
        ("read_file", {"path": "A"}, "text"), ("delete_file", {"path": "b"}, "gone"), ("send_mail", {"to": "ann"}, "sent"),
        ("now", {}, "11:58"), ("list_files", {}, "a, b"), form=form,
    )  # fmt: skip
    decisions = replay(history, [NoDeletes, AsksToSend, Lowers, Answers], format=form)
    assert [(one.tool, one.outcome, one.by, one.reason) for one in decisions.calls] == [
        ("read_file", "rewrite", "lowers", ""),
        ("delete_file", "block", "no_deletes", "b stays"),
        ("send_mail", "ask", "asks_to_send", "Send it?"),
        ("now", "answer", "answers", "noon"),
        ("list_files", "allow", "", ""),
    ]
    assert decisions.call("read_file").becomes == {"path": "a"}
    assert decisions.counts == {"rewrite": 1, "block": 1, "ask": 1, "answer": 1, "allow": 1}


def test_nothing_is_executed() -> None:
    ran: list[str] = []

    def delete_file(path: str) -> str:
        """Delete a file."""
        ran.append(path)
        return "gone"

    history = session(("delete_file", {"path": "a"}, "gone then"))
    assert replay(history, [], tools=[delete_file]).calls[0].outcome == "allow"
    assert ran == []


def test_a_plugin_sees_the_recorded_result_of_a_call_that_would_run_and_nothing_of_one_that_would_not() -> None:
    seen: list[tuple[str, str]] = []

    class Watches:
        @hooks.transform_tool_result
        def see(self, event: TransformToolResult) -> None:
            seen.append((event.tool.name if event.tool else "", event.result.text))

    replay(session(("read_file", {}, "the text"), ("delete_file", {"path": "b"}, "gone")), [NoDeletes, Watches])
    assert seen == [("read_file", "the text"), ("delete_file", "Blocked by no_deletes: b stays")]


def test_state_goes_on_from_call_to_call_and_from_run_to_run() -> None:
    class Budget:
        def __init__(self, state: PluginState) -> None:
            self.state = state

        @hooks.before_tool_call
        def spend(self, event: BeforeToolCall) -> Block | None:
            self.state["used"] = self.state.get("used", 0) + 1
            return Block("spent") if self.state["used"] > 3 else None

    decisions = replay(session(("now", {}, "noon"), ("now", {}, "noon"), runs=2), [Budget])
    assert [(one.run, one.outcome) for one in decisions.calls] == [
        (1, "allow"),
        (1, "allow"),
        (2, "allow"),
        (2, "block"),
    ]


def test_the_person_is_taken_to_have_answered_as_the_record_shows() -> None:
    class AskUntilYes:
        def __init__(self, state: PluginState) -> None:
            self.state = state

        @hooks.before_tool_call
        def ask(self, event: BeforeToolCall) -> Ask | None:
            return None if self.state.get("yes") else Ask("May it?")

        @hooks.transform_tool_result
        def remember(self, event: TransformToolResult) -> None:
            self.state["yes"] = not event.result.is_error

    refused = "Blocked: 'May it?' was not approved: a person said no"
    decisions = replay(session(("send", {}, refused), ("send", {}, "sent"), ("send", {}, "sent")), [AskUntilYes])
    assert [(one.recorded, one.outcome) for one in decisions.calls] == [
        ("blocked", "ask"),
        ("ok", "ask"),
        ("ok", "allow"),
    ]


def test_a_call_differs_where_it_would_go_otherwise_than_it_went() -> None:
    history = session(
        ("delete_file", {"path": "a"}, "gone"), ("delete_file", {"path": "b"}, "Blocked by other: no"),
        ("read_file", {"path": "c"}, "text"), ("write_file", {}, "Blocked by other: no"), ("write_file", {}, "failed: full"),
    )  # fmt: skip
    decisions = replay(history, [NoDeletes])
    assert [(one.recorded, one.outcome, one.differs) for one in decisions.calls] == [
        ("ok", "block", True), ("blocked", "block", False), ("ok", "allow", False), ("blocked", "allow", True),
        ("error", "allow", False),
    ]  # fmt: skip


def test_a_call_without_a_result_is_judged_too() -> None:
    history = session(("delete_file", {"path": "a"}, "gone"))[:2]
    (verdict,) = replay(history, [NoDeletes]).calls
    assert (verdict.recorded, verdict.outcome) == ("none", "block")


def test_arguments_that_cannot_be_read_are_an_invalid_call_and_the_next_one_is_judged() -> None:
    history = session(("delete_file", {"path": "a"}, "gone"), ("delete_file", {"path": "b"}, "gone"))
    history[1]["tool_calls"][0]["function"]["arguments"] = '{"path": '
    assert [one.outcome for one in replay(history, [NoDeletes]).calls] == ["invalid", "block"]


def test_a_policy_that_fails_blocks_and_is_named() -> None:
    (verdict,) = replay(session(("now", {}, "noon")), [Raises]).calls
    assert (verdict.outcome, verdict.by) == ("block", "raises")


def test_a_run_that_would_not_begin_blocks_its_calls_and_no_others() -> None:
    class OnlyPolite:
        @hooks.agent_start
        def judge(self, event: AgentStart) -> Block | None:
            return None if "please" in str(event.input) else Block("say please")

    history = session(("now", {}, "noon"), runs=2)
    history[4]["content"] = "Once more, please."
    first, second = replay(history, [OnlyPolite]).calls
    assert (first.outcome, first.by, first.reason) == ("block", "only_polite", "the run is blocked: say please")
    assert (second.run, second.outcome) == (2, "allow")


def test_a_tool_that_would_be_withheld_is_told_with_the_reason() -> None:
    class NoMail:
        @hooks.narrow_tools
        def narrow(self, event: NarrowTools) -> Withhold:
            return Withhold(["send_mail"], reason="no mail today")

    (verdict,) = replay(session(("send_mail", {"to": "ann"}, "sent")), [NoMail]).calls
    assert verdict.outcome == "withhold"
    assert "no mail today" in verdict.reason


def test_a_call_of_tool_searchs_bridge_is_judged_as_the_call_that_it_stands_for() -> None:
    history = session(("tool_call", {"name": "delete_file", "arguments": {"path": "a"}}, "gone"))
    (verdict,) = replay(history, [NoDeletes]).calls
    assert (verdict.tool, verdict.arguments, verdict.outcome) == ("delete_file", {"path": "a"}, "block")


@pytest.mark.parametrize("form", sorted(FORMATS))
def test_the_calls_of_a_batch_are_judged_one_by_one_with_what_the_record_has_of_each(form: str) -> None:
    calls = [{"name": f"{verb}_file", "arguments": {"path": "A"}} for verb in ("read", "delete", "delete", "send")]
    results = [
        {"call": 1, "name": "read_file", "status": "ok", "result": {"lines": 3}},
        {"call": 2, "name": "delete_file", "status": "ok", "result": "gone"},
        {"call": 3, "name": "delete_file", "status": "blocked", "result": "Blocked by other: no"},
        {"call": 4, "name": "send_file", "status": "not_called", "result": "there is no tool called 'send_file'."},
    ]
    history = session(("tool_call", {"calls": calls}, json.dumps({"results": results})), form=form)
    verdicts = replay(history, [NoDeletes, Lowers]).calls
    assert [(one.tool, one.recorded, one.outcome) for one in verdicts] == [
        ("read_file", "ok", "rewrite"), ("delete_file", "ok", "block"), ("delete_file", "blocked", "block"),
        ("send_file", "blocked", "allow"),
    ]  # fmt: skip
    refused = session(("tool_call", {"calls": calls}, "Blocked by other: one at a time"), form=form)
    assert {one.recorded for one in replay(refused, [NoDeletes]).calls} == {"blocked"}


def test_repeated_call_ids_are_calls_of_their_own() -> None:
    history = session(("delete_file", {"path": "a"}, "gone"), ("read_file", {"path": "b"}, "text"), runs=3)
    assert [one.outcome for one in replay(history, [NoDeletes]).calls] == ["block", "allow"] * 3


def test_claude_codes_file_is_read_and_tools_of_servers_are_taken_as_theirs(tmp_path: Path) -> None:
    class NoServers:
        @hooks.before_tool_call(tools="mcp:*:*")
        def judge(self, event: BeforeToolCall) -> Block:
            return Block(f"nothing of {event.tool.owner}")

    text = re.sub(
        r'("type": "tool_use".*?"name": )"\w+"', r'\1"mcp__github__get_file"', json.dumps(CLAUDE_CODE), count=1
    )
    path = tmp_path / "5f1c.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in json.loads(text)))
    decisions = replay(path, [NoServers])
    assert "nothing of github" in [one.reason for one in decisions.calls]
    assert any("read as claude-code" in note for note in decisions.notes)


# Definitions


@pytest.mark.parametrize(
    "definition",
    [
        {"id": "mcp:mail:send", "parameters": {"type": "object", "required": ["to"]}},
        {"name": "send", "source": "mcp", "owner": "mail", "inputSchema": {"type": "object", "required": ["to"]}},
        {
            "type": "function",
            "source": "mcp",
            "owner": "mail",
            "function": {"name": "send", "parameters": {"required": ["to"]}},
        },
    ],
)
def test_a_file_of_definitions_counts_in_whichever_shape(tmp_path: Path, definition: dict[str, Any]) -> None:
    class NoMail:
        @hooks.before_tool_call(tools="mcp:mail:send")
        def judge(self, event: BeforeToolCall) -> Block:
            return Block("no mail")

    path = tmp_path / "tools.json"
    path.write_text(json.dumps({"tools": [definition]}))
    decisions = replay(session(("send", {"to": "ann"}, "sent"), ("send", {}, "sent")), [NoMail], tools=path)
    assert [one.outcome for one in decisions.calls] == ["block", "invalid"]


def test_every_wrong_definition_of_a_file_is_told(tmp_path: Path) -> None:
    path = tmp_path / "tools.json"
    path.write_text('["send", {"description": "?"}, {"name": "x", "source": "elsewhere"}]')
    with pytest.raises(ConfigError) as error:
        replay(session(("send", {}, "sent")), [], tools=path)
    assert [problem.partition(":")[0] for problem in error.value.problems] == ["tool 1", "tool 2", "tool 3"]


def test_annotations_of_given_tools_are_seen() -> None:
    class NoDestruction:
        @hooks.before_tool_call
        def judge(self, event: BeforeToolCall) -> Block | None:
            return Block("no") if event.tool.annotations.destructive else None

    tool = Tool(name="wipe", source="host", annotations=Annotations(destructive=True))
    decisions = replay(session(("wipe", {}, "gone"), ("look", {}, "x")), [NoDestruction], tools=[tool])
    assert [one.outcome for one in decisions.calls] == ["block", "allow"]


# Plugins and sources


def test_plugins_may_be_files_classes_in_words_and_ids(tmp_path: Path) -> None:
    path = tmp_path / "own_policy.py"
    path.write_text(
        "from hooksdk import hooks\nfrom hooksdk.hooks import BeforeToolCall, Block\n\n\n@hooks.before_tool_call(tools='now')\n"
        "def judge(event: BeforeToolCall) -> Block:\n    return Block('no time')\n"
    )
    config = {
        "plugins": {"tool_policy": {"config": {"rules": [{"tools": "send", "action": "deny", "reason": "quiet"}]}}}
    }
    history = session(("now", {}, "noon"), ("send", {}, "sent"), ("delete_file", {"path": "a"}, "gone"))
    decisions = replay(history, [path, "tool_policy", f"{__name__}:NoDeletes"], config=config)
    assert [one.by for one in decisions.calls] == ["own_policy", "tool_policy", "no_deletes"]


def test_an_unknown_id_is_refused_with_the_nearest() -> None:
    with pytest.raises(PluginRefused, match="Did you mean 'tool_policy'"):
        replay(session(("now", {}, "noon")), ["tool_polcy"])


def test_a_trace_is_refused_since_it_has_no_arguments(tmp_path: Path) -> None:
    path = tmp_path / "trace.jsonl"
    line = {"schema": 1, "time": 1.0, "kind": "call_started", "session_id": "ann", "run_id": "r", "attempt": 1}
    path.write_text(json.dumps(line) + "\n" + json.dumps({**line, "session_id": "bob"}) + "\n")
    with pytest.raises(HistoryError, match=r"no arguments of calls.*'ann', 'bob'"):
        replay(path, [NoDeletes])


@pytest.mark.anyio
async def test_a_session_of_hooksdk_can_be_replayed_from_its_messages() -> None:
    def delete_file(path: str) -> str:
        """Delete a file."""
        return "gone"

    async with open_session(NoDeletes, tools=[delete_file], store=MemoryStore()) as opened:
        await play(opened, [call("delete_file", path="a"), "No."])
        messages = opened.messages
    (verdict,) = (await replay_async(messages, [NoDeletes])).calls
    assert (verdict.recorded, verdict.outcome, verdict.differs) == ("blocked", "block", False)


# Snapshots


def test_a_snapshot_has_no_values_and_names_stand_for_those_that_a_reason_quotes(tmp_path: Path) -> None:
    history = session(("delete_file", {"path": "s3cret-value", "deep": [{"key": "other-secret"}]}, "gone"))

    class Quotes:
        @hooks.before_tool_call
        def judge(self, event: BeforeToolCall) -> Block:
            return Block(f"{event.arguments['path']} and {event.arguments['deep'][0]['key']} stay")

    decisions = replay(history, [Quotes, Lowers])
    assert decisions == DecisionSnapshot(tmp_path / "a.decisions.json", update=True)
    text = (tmp_path / "a.decisions.json").read_text()
    assert "secret" not in text
    assert "{path} and {deep.0.key} stay" in text
    with_values = snapshot_of(decisions, values=True)
    assert with_values["calls"][0]["arguments"]["path"] == "s3cret-value"
    assert with_values["calls"][0]["reason"] == "s3cret-value and other-secret stay"


def test_a_snapshot_is_one_line_a_call_and_reads_back_equal(tmp_path: Path) -> None:
    history = session(("delete_file", {"path": "a"}, "gone"), ("read_file", {"path": "B"}, "text"))
    path = tmp_path / "a.decisions.json"
    assert replay(history, [NoDeletes, Lowers]) == DecisionSnapshot(path, update=True)
    assert sum('"call":' in line for line in path.read_text().splitlines()) == 2
    assert replay(history, [NoDeletes, Lowers]) == DecisionSnapshot(path)
    assert replay(history, [NoDeletes]) != DecisionSnapshot(path)


def test_a_difference_says_what_was_and_what_is() -> None:
    history = session(("delete_file", {"path": "a"}, "gone"))
    before = snapshot_of(replay(history, [NoDeletes]))
    assert differences(before, replay(history, [])) == [
        "call 1, delete_file: was block by no_deletes: a stays, now allow"
    ]
    other = session(("delete_file", {"path": "b"}, "gone"), ("now", {}, "noon"))
    assert differences(before, replay(other, [NoDeletes])) == [
        "call 1, delete_file: the snapshot is of another call (delete_file)",
        "the snapshot has 1 calls, and the session has 2",
    ]


@pytest.mark.parametrize("text", ["[]", "{", '{"schema": 2, "calls": []}', '{"schema": 1, "calls": [1]}'])
def test_a_file_that_is_no_snapshot_is_an_error_that_names_it(tmp_path: Path, text: str) -> None:
    path = tmp_path / "a.decisions.json"
    path.write_text(text)
    with pytest.raises(ConfigError, match=r"a\.decisions\.json"):
        DecisionSnapshot(path).explain(replay(session(("now", {}, "noon")), []))


@pytest.mark.parametrize("form", FORMATS)
def test_a_history_without_its_prose_is_decided_alike(form: str) -> None:
    history = session(
        ("delete_file", {"path": "a"}, "private text"), ("delete_file", {"path": "b"}, "Blocked by other: private"),
        ("now", {}, "failed: private"), form=form, runs=2,
    )  # fmt: skip
    bare = without_prose(history, get_format(form))
    assert "private" not in json.dumps(bare)
    assert "Do it" not in json.dumps(bare)
    whole, short = replay(history, [NoDeletes], format=form), replay(bare, [NoDeletes], format=form)
    assert snapshot_of(short, values=True) == snapshot_of(whole, values=True)
    assert [one.recorded for one in short.calls] == [one.recorded for one in whole.calls]
