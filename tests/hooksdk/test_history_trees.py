"""Transcripts that are trees: Claude Code's and OpenClaw's hold what was tried and given up beside the conversation."""

from __future__ import annotations

import copy
import random
from typing import Any

import pytest
from history_samples import ANSWER, CLAUDE_CODE, LAST, LONG, OPENCLAW, QUESTION, claude_line, claw_line, claw_reply
from provider_rules import PNG, violations

from hooksdk.formats import Message
from hooksdk.histories import History, HistoryError, read_history
from hooksdk.trimming import list_results

WHOLE = read_history(CLAUDE_CODE)
TEXT: list[Any] = [{"type": "text", "text": "text"}]


def user(entry: str, parent: str | None, text: str) -> dict[str, Any]:
    """A person's line in OpenClaw's session."""
    return claw_line(entry, parent, {"role": "user", "content": text})


def read_valid(lines: list[Any]) -> History:
    """The history, which Anthropic's API must take."""
    history = read_history(lines)
    assert violations("anthropic", history.messages) == []
    return history


def texts(messages: list[Message]) -> list[str]:
    """All that is said, with the roles left out."""
    contents = [message["content"] for message in messages]
    return [
        text
        for content in contents
        for text in ([content] if isinstance(content, str) else [block.get("text", "") for block in content])
        if text
    ]


# Claude Code


def test_the_lines_of_one_reply_become_one_message_and_its_results_one() -> None:
    assert [message["role"] for message in WHOLE.messages] == ["user", "assistant", "user", "assistant", "user"]
    assert [block["type"] for block in WHOLE.messages[1]["content"]] == ["thinking", "text", "tool_use", "tool_use"]
    assert [block["tool_use_id"] for block in WHOLE.messages[2]["content"]] == ["toolu_0", "toolu_1"]
    assert len(list_results(WHOLE.messages, WHOLE.format)) == 2


@pytest.mark.parametrize("order", [[5, 7, 6, 8], [5, 6, 7, 8], [5, 6, 8, 7]], ids=str)
def test_results_join_their_reply_in_whatever_order_parallel_calls_were_written(order: list[int]) -> None:
    """A call's result may stand before the line of the next call: tools run while the reply still streams."""
    lines = [CLAUDE_CODE[0], *CLAUDE_CODE[1:4], *(CLAUDE_CODE[at - 1] for at in order), *CLAUDE_CODE[8:]]
    assert read_valid(lines).messages == WHOLE.messages


def test_side_chains_are_left_out_and_a_sub_agents_own_file_is_read() -> None:
    side = [
        claude_line("user", "s1", None, "Count the files.", isSidechain=True),
        claude_line("assistant", "s2", "s1", [{"type": "text", "text": "Three."}], "msg_9", isSidechain=True),
    ]
    history = read_valid([*CLAUDE_CODE[:5], *side, *CLAUDE_CODE[5:]])
    assert history.messages == WHOLE.messages
    assert "left out: lines of side chains (sub-agents) (2)" in history.notes
    assert texts(read_valid(side).messages) == ["Count the files.", "Three."]


def test_a_branch_that_was_given_up_is_left_out() -> None:
    again = claude_line("user", "u1b", None, "Which file?")
    answer = claude_line("assistant", "a1b", "u1b", TEXT, "msg_8")
    history = read_valid([again, answer, *CLAUDE_CODE])
    assert history.messages == WHOLE.messages
    assert "left out: lines of branches that were given up, or that a compaction stands for (2)" in history.notes


def test_after_a_compaction_its_summary_is_the_beginning() -> None:
    boundary = {
        "type": "system",
        "subtype": "compact_boundary",
        "uuid": "b1",
        "parentUuid": None,
        "logicalParentUuid": "u2",
    }
    summary = claude_line("user", "u3", "b1", "This session continues: config.py has it.", isCompactSummary=True)
    history = read_valid([*CLAUDE_CODE, boundary, summary, claude_line("assistant", "a9", "u3", TEXT, "msg_7")])
    assert texts(history.messages) == ["This session continues: config.py has it.", "text"]
    assert "left out: lines of branches that were given up, or that a compaction stands for (9)" in history.notes


def test_a_chain_with_a_missing_link_goes_on_with_the_line_before() -> None:
    lines = copy.deepcopy(CLAUDE_CODE)
    lines[-1]["parentUuid"] = "never written"
    history = read_valid(lines)
    assert history.messages == WHOLE.messages
    assert any("names a parent that is not in the file" in note for note in history.notes)


def test_lines_that_are_there_twice_and_notices_count_once() -> None:
    notice = claude_line("assistant", "x", "r2", [{"type": "text", "text": "API Error"}], "m", isApiErrorMessage=True)
    answer = {**CLAUDE_CODE[8], "parentUuid": "x"}
    history = read_valid([*CLAUDE_CODE[:8], notice, answer, answer, CLAUDE_CODE[9]])
    assert history.messages == WHOLE.messages
    assert "left out: lines that are there twice (1)" in history.notes
    assert "left out: notices of Claude Code itself, such as errors of the API (1)" in history.notes


def test_a_session_that_broke_off_during_parallel_calls_is_complete_again() -> None:
    history = read_valid([*CLAUDE_CODE[:7], claude_line("user", "u5", "r1", "[Request interrupted by user]")])
    assert [block.get("is_error", False) for block in history.messages[2]["content"]] == [False, True]
    assert any("put in: an error result for call 'toolu_1' of read_file" in note for note in history.notes)


def test_images_and_documents_of_results_stay_whole() -> None:
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG}}
    lines = copy.deepcopy(CLAUDE_CODE)
    lines[6]["message"]["content"][0]["content"] = [image]
    assert read_valid(lines).messages[2]["content"][0]["content"] == [image]


@pytest.mark.parametrize("seed", range(20))
def test_no_loss_of_lines_makes_a_transcript_unsendable(seed: int) -> None:
    chance = random.Random(seed)
    for sample in (CLAUDE_CODE, OPENCLAW):
        for _ in range(20):
            lines = [line for line in sample if chance.random() < 0.7]
            try:
                read_valid(lines)
            except HistoryError as error:
                assert "no message" in str(error) or "expected a history of" in str(error)  # noqa: PT017 - either is right


# OpenClaw


def test_thinking_stays_where_anthropic_signed_it() -> None:
    history = read_valid(OPENCLAW)
    assert [block["type"] for block in history.messages[1]["content"]] == ["thinking", "text", "tool_use", "tool_use"]
    other = copy.deepcopy(OPENCLAW)
    other[3]["message"]["api"] = "openai-responses"
    history = read_valid(other)
    assert [block["type"] for block in history.messages[1]["content"]] == ["text", "tool_use", "tool_use"]
    assert "left out: thinking that Anthropic's API did not sign (1)" in history.notes


def test_messages_without_their_entries_are_read_too() -> None:
    messages = [line["message"] for line in OPENCLAW if "message" in line]
    assert read_valid(messages).messages == read_history(OPENCLAW).messages


def test_the_newest_branch_is_read() -> None:
    old = [user("x1", "e2", "Stop."), claw_line("x2", "x1", claw_reply({"type": "text", "text": "Stopped."}))]
    history = read_valid([*OPENCLAW[:4], *old, *OPENCLAW[4:]])
    assert history.messages == read_history(OPENCLAW).messages
    assert "left out: lines of branches that were given up (2)" in history.notes


def test_a_compaction_stands_for_what_it_summarised() -> None:
    compaction = {"type": "compaction", "id": "k", "parentId": "e6", "summary": "They asked.", "firstKeptEntryId": "e5"}
    branch = {"type": "branch_summary", "id": "b", "parentId": "k", "summary": "Tried git blame."}
    custom = {
        "type": "custom_message",
        "id": "m",
        "parentId": "b",
        "customType": "x",
        "content": "Note.",
        "display": True,
    }
    shell = {"role": "bashExecution", "command": "ls", "output": "a.py", "exitCode": 0}
    history = read_valid([*OPENCLAW, compaction, branch, custom, claw_line("e7", "m", shell)])
    assert texts(history.messages) == ["They asked.", ANSWER, LAST, "Tried git blame.", "Note.", "Ran `ls`:\na.py"]
    assert "left out: lines that a compaction stands for (5)" in history.notes


def test_a_reply_that_was_broken_off_is_left_out_with_its_results() -> None:
    lines = copy.deepcopy(OPENCLAW)
    lines[3]["message"]["stopReason"] = "aborted"
    history = read_valid(lines)
    assert texts(history.messages) == [QUESTION, ANSWER, LAST]
    assert LONG not in str(history.messages)
    assert "left out: replies that were broken off, with the results of their calls (1)" in history.notes


def test_a_missing_parent_and_an_unknown_role_are_told() -> None:
    history = read_valid([*OPENCLAW[:2], *OPENCLAW[6:]])
    assert any("names a parent that is not there" in note for note in history.notes)
    with pytest.raises(
        HistoryError, match="item 1: expected a message of role user, assistant or toolResult, not 'robot'"
    ):
        read_history([user("e1", None, "Hi"), claw_line("e2", "e1", {"role": "robot"})])
