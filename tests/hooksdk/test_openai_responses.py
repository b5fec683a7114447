"""OpenAI's Responses API: one item is one message, and the items of a reply belong together."""

from __future__ import annotations

import re
from typing import Any

import pytest
from provider_rules import PNG, violations
from transcripts import RESPONSES, opened, texts

from hooksdk import Tool, hooks
from hooksdk.calls import ToolCall, ToolResult
from hooksdk.errors import TranscriptChanged
from hooksdk.formats import Message
from hooksdk.hooks import AfterModelCall
from hooksdk.stores import MemoryStore
from hooksdk.testing import open_session
from hooksdk.trimming import list_results, read, trim
from tests.stage import playing

pytestmark = pytest.mark.anyio

USER: Message = {"role": "user", "content": "What do the logs say?"}
REASONING: Message = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "Z0FBQUFB", "status": None}
PROSE: Message = {
    "type": "message",
    "id": "msg_1",
    "role": "assistant",
    "status": "completed",
    "content": [{"type": "output_text", "text": "I read them.", "annotations": []}],
}
LOG = "GET /index.html 200\n" * 100


def item(number: int, **more: Any) -> Message:
    call: Message = {"type": "function_call", "id": f"fc_{number}", "call_id": f"call_{number}", "name": "read_file"}
    return {**call, "arguments": f'{{"path": "{number}.log"}}', "status": "completed", **more}


def output(number: int, content: Any = LOG) -> Message:
    return {"type": "function_call_output", "call_id": f"call_{number}", "output": content}


# --- a reply is several items ---


async def test_the_output_of_a_response_is_one_reply_with_all_its_calls() -> None:
    seen: list[AfterModelCall] = []

    class Watch:
        @hooks.after_model_call
        async def reply(self, event: AfterModelCall) -> None:
            seen.append(event)

    async def read_file(arguments: dict[str, Any]) -> str:
        return f"text of {arguments['path']}"

    response = [REASONING, PROSE, item(1), item(2)]
    async with open_session(Watch) as session, session.run(format="openai-responses") as run:
        await run.resolve_tools([Tool(name="read_file", source="host", execute=read_file)])
        await run.record(USER)
        await run.record(response, usage={"input_tokens": 10}, stop_reason="completed")
        for call in reversed(run.pending):
            await run.call_tool(call)
        sent = await run.prepare_messages()
        usage = run.stats["usage"]
    assert sent == [USER, *response, output(1, "text of 1.log"), output(2, "text of 2.log")]
    assert violations("openai-responses", sent) == []
    assert usage == {"input_tokens": 10}
    assert [event.message for event in seen] == response
    assert [event.stop_reason for event in seen] == [None, None, None, "completed"]


async def test_a_whole_response_is_recorded_as_a_request_takes_it_and_says_why_it_ended() -> None:
    search: Message = {
        "type": "tool_search_call",
        "id": "tsc_1",
        "call_id": None,
        "execution": "server",
        "arguments": {},
    }
    response: Message = {
        "object": "response", "status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"},
        "output": [{**REASONING, "status": "completed"}, {**search, "created_by": "model"}, {**PROSE, "phase": None}],
    }  # fmt: skip
    seen: list[AfterModelCall] = []

    class Watch:
        @hooks.after_model_call
        async def reply(self, event: AfterModelCall) -> None:
            seen.append(event)

    async with open_session(Watch) as session, session.run(format="openai-responses") as run:
        await run.record(USER)
        await run.record(response)
        reasoning = {key: value for key, value in REASONING.items() if value is not None}
        assert session.messages[1:] == [reasoning, {key: search[key] for key in search if key != "call_id"}, PROSE]
    assert seen[-1].stop_reason == "max_output_tokens"


async def test_items_that_are_recorded_as_they_are_streamed_are_one_reply() -> None:
    async with opened(MemoryStore(), form=RESPONSES) as transcript:
        for each in (USER, REASONING, item(1), item(2), PROSE):
            await transcript.append([each])
        assert ([call.id for call in transcript.pending], transcript.replies) == (["call_1", "call_2"], 1)
        await transcript.answer(transcript.pending[1], ToolResult("two"), None)
        await transcript.answer(transcript.pending[0], ToolResult("one"), None)
        assert texts(transcript, transcript.view) == ["one", "two"]
        await transcript.append([REASONING, PROSE])
        assert transcript.replies == 2


async def test_a_waiting_result_of_a_reply_in_items_survives_a_reopening() -> None:
    store = MemoryStore()
    async with opened(store, form=RESPONSES) as transcript:
        await transcript.append([USER, REASONING, item(1), item(2)])
        await transcript.answer(transcript.pending[1], ToolResult("two"), None)
    async with opened(store, form=RESPONSES) as transcript:
        assert [call.id for call in transcript.pending] == ["call_1"]
        await transcript.answer(transcript.pending[0], ToolResult("one"), None)
        assert texts(transcript, transcript.view) == ["one", "two"]


async def test_what_a_hosted_tool_leaves_between_two_calls_ends_no_reply() -> None:
    hosted: list[Message] = [
        {"type": "shell_call", "id": "sh_1", "call_id": "call_s", "action": {"commands": ["ls"]}},
        {"type": "shell_call_output", "call_id": "call_s", "output": []},
    ]
    async with opened(MemoryStore(), form=RESPONSES) as transcript:
        await transcript.append([USER, item(1), *hosted, item(2)])
        assert [call.id for call in transcript.pending] == ["call_1", "call_2"]
        assert transcript.list_results() == []


@pytest.mark.parametrize("one_by_one", [True, False])
async def test_reasoning_that_nothing_follows_stays_stored_and_is_not_sent(one_by_one: bool) -> None:
    store = MemoryStore()
    items = [USER, REASONING, item(1), output(1), PROSE, USER, REASONING, USER]
    async with opened(store, form=RESPONSES) as transcript:
        for batch in [[each] for each in items] if one_by_one else [items]:
            await transcript.append(batch)
            assert violations("openai-responses", transcript.view) == []
        assert transcript.messages == items
        assert transcript.view == [*items[:6], USER]
        await transcript.append([REASONING])
        assert transcript.view[-1] == USER
        await transcript.append([PROSE])
        view = transcript.view
        assert view[-2:] == [REASONING, PROSE]
        assert await transcript.match([*items, REASONING, PROSE, USER]) == [USER]  # the host's list has all the others
    async with opened(store, form=RESPONSES) as transcript:
        assert transcript.view == [*view, USER]


async def test_a_compaction_keeps_what_follows_reasoning_that_was_left_out() -> None:
    other: Message = {"role": "user", "content": "Never mind."}
    async with opened(MemoryStore(), form=RESPONSES) as transcript:
        await transcript.append([USER, PROSE, USER, REASONING, other])
        await transcript.compact([USER, other])
        assert transcript.view == [USER, other]
        await transcript.append([PROSE])
        await transcript.compact([{"role": "user", "content": "summary"}, USER, REASONING, other, PROSE])
        assert transcript.view == [{"role": "user", "content": "summary"}, USER, other, PROSE]


async def test_a_call_without_a_result_gets_one_before_the_next_message() -> None:
    async with opened(MemoryStore(), form=RESPONSES) as transcript:
        await transcript.append([USER, REASONING, item(1), item(2), output(1), USER])
        assert [result.is_error for item in transcript.view for result in RESPONSES.results(item)] == [False, True]
        assert violations("openai-responses", transcript.view) == []


async def test_a_compaction_cannot_part_a_reply_whose_call_is_open() -> None:
    async with opened(MemoryStore(), form=RESPONSES) as transcript:
        await transcript.append([USER, REASONING, item(1)])
        with pytest.raises(TranscriptChanged, match="call 'call_1' waits for its result"):
            await transcript.compact([USER, item(1)])
        await transcript.compact([USER, REASONING, item(1)])


async def test_a_reminder_is_made_only_of_a_reply_without_calls() -> None:
    prose = {"role": "assistant", "content": '{"name": "read_file", "arguments": {}}'}
    async with playing(tools=[Tool(name="read_file", source="host", execute=len)], format="openai-responses") as stage:
        await stage.run.record(USER)
        await stage.run.record([prose, item(1)])
        assert stage.run.reminder is None
        await stage.run.record([output(1), prose])
        assert "read_file" in (stage.run.reminder or "")


def test_a_reply_that_needs_several_items_is_told() -> None:
    calls = [ToolCall("a", "f", {}), ToolCall("b", "f", {})]
    with pytest.raises(ValueError, match=r"2 calls and text is 3 items.*reply_messages"):
        RESPONSES.reply("so", calls)
    assert [each["type"] for each in RESPONSES.reply_messages("so", calls)] == ["message", *["function_call"] * 2]
    assert RESPONSES.reply("", calls[:1])["call_id"] == "a"
    assert RESPONSES.reply_messages("")[0]["content"] == ""


# --- calls and results ---


def test_a_custom_tools_call_is_answered_by_an_item_of_its_own_type() -> None:
    custom = {"type": "custom_tool_call", "id": "ctc_1", "call_id": "call_1", "name": "run", "input": "1 + 1"}
    assert RESPONSES.check(custom) is None
    (call,) = RESPONSES.calls(custom)
    assert (call.id, call.arguments) == ("custom_tool_call:call_1", {"input": "1 + 1"})
    answers = RESPONSES.result_messages([(call, ToolResult("2"))])
    assert answers == [{"type": "custom_tool_call_output", "call_id": "call_1", "output": "2"}]
    assert RESPONSES.results(answers[0])[0].call_id == call.id
    assert violations("openai-responses", [USER, custom, *answers]) == []
    made = RESPONSES.reply("", [call])
    assert {**custom, "id": "x"} == {**made, "id": "x"}


def test_arguments_stay_the_text_that_the_model_wrote() -> None:
    assert RESPONSES.calls(item(1, arguments="{x"))[0].arguments == "{x"


def test_an_error_says_that_it_is_one() -> None:
    (answer,) = RESPONSES.result_messages([(ToolCall("a", "f"), ToolResult.error("no such file"))])
    assert answer["output"] == "Error: no such file"
    assert RESPONSES.results(answer)[0].is_error


def test_images_and_pdf_files_go_as_parts_and_come_back_whole() -> None:
    image = {"type": "image", "data": PNG, "mimeType": "image/png"}
    pdf = {"type": "resource", "resource": {"uri": "a.pdf", "mimeType": "application/pdf", "blob": "JVBERi0x"}}
    result = ToolResult("see", blocks=[{"type": "text", "text": "see"}, image, pdf])
    (answer,) = RESPONSES.result_messages([(ToolCall("call_1", "read_file"), result)])
    assert [part["type"] for part in answer["output"]] == ["input_text", "input_image", "input_file"]
    assert RESPONSES.results(answer)[0].text == (
        f"see\n[input_image image/png, {len(PNG) + 22} characters]\n[input_file a.pdf application/pdf, 36 characters]"
    )
    messages = [USER, item(1), answer, PROSE]
    (info,) = list_results(messages)
    assert 1_600 + 3_000 <= info.tokens < 5_000
    blocks = read(messages, "r1").blocks
    assert blocks[1] == image
    assert blocks[2]["resource"]["blob"] == "JVBERi0x"
    assert [part["type"] for part in trim(messages, ["r1"])[2]["output"]] == ["input_text"]


def test_a_trim_changes_the_output_and_nothing_else() -> None:
    mark = {"prompt_cache_breakpoint": {"mode": "explicit"}}
    second = output(2, [{"type": "input_text", "text": LOG, **mark}]) | {"id": "fco_2", "status": "completed"}
    messages = [USER, REASONING, item(1), item(2), output(1), second, REASONING, PROSE]
    shorter = trim(messages, ["r1", "r2"])
    assert [one for one, other in zip(messages, shorter, strict=True) if one != other] == [output(1), second]
    assert shorter[5] == {**second, "output": [{**mark, "type": "input_text", "text": shorter[5]["output"][0]["text"]}]}
    assert violations("openai-responses", shorter) == []


@pytest.mark.parametrize("content", [[{"type": "hologram"}], ["x"]])
def test_parts_of_an_unknown_type_cannot_be_trimmed(content: Any) -> None:
    assert "not known" in str(RESPONSES.results(output(1, content))[0].why_not)


def test_context_stands_before_a_reply_whose_call_waits() -> None:
    made = RESPONSES.add_context([USER, REASONING, item(1), item(2), output(1)], "note")
    assert RESPONSES.text(made[0]).endswith("note")
    assert made[1:] == [REASONING, item(1), item(2), output(1)]
    assert RESPONSES.add_context([REASONING, item(1)], "note") == [RESPONSES.user("note"), REASONING, item(1)]


# --- checking ---


@pytest.mark.parametrize(
    ("message", "words"),
    [
        ("x", "must be an object with a 'role' or a 'type', not text"),
        ({}, "'role' of user, system, developer, assistant, or the 'type' of another item; it is missing"),
        ({"role": "boss"}, "it is 'boss'"),
        ({"role": 7, "type": "message"}, "it is a number"),
        ({"role": "user", "type": 7}, "'type' must be text, not a number"),
        ({"role": "user", "content": None}, "'content' must be text or a list of parts, not null"),
        ({"role": "user", "content": ["x"]}, r"content\[0\] must be an object with a 'type'"),
        ({"role": "user", "content": [{"type": "input_text"}]}, r"content\[0\].text must be text, not null"),
        ({"role": "user", "content": [{"type": "text", "text": "x"}]}, "format 'openai-chat'"),
        ({"role": "user", "content": [{"type": "tool_result"}]}, "format 'anthropic'"),
        ({"role": "tool", "tool_call_id": "a", "content": "x"}, "format 'openai-chat'"),
        ({"role": "assistant", "content": None, "tool_calls": []}, "format 'openai-chat'"),
        ({"role": "user", "parts": []}, "format 'gemini'"),
        ({"type": "text", "text": "x"}, "the type of a part of a message"),
        ({"type": "assistant", "message": {"role": "assistant", "content": "x"}}, "no type of an item"),
        ({"type": "function_call"}, "needs a 'call_id'"),
        (item(1, name=None), "needs a 'name'"),
        (item(1, arguments={}), "'arguments' must be text, not an object"),
        ({"type": "custom_tool_call", "call_id": "a", "name": "f"}, "'input' must be text, not null"),
        ({"type": "function_call_output", "output": "x"}, "needs a 'call_id'"),
        (output(1, None), "'output' must be text or a list of parts, not null"),
        (output(1, [7]), r"output\[0\] must be an object"),
    ],
)
def test_what_is_wrong_with_an_item_is_said(message: Any, words: str) -> None:
    assert re.search(words, RESPONSES.check(message) or "")


@pytest.mark.parametrize(
    "each",
    [
        REASONING,
        PROSE,
        {"type": "item_reference", "id": "msg_1"},
        {"type": "compaction", "id": "cmp_1", "encrypted_content": "x"},
        {"type": "hologram", "anything": 1},
        {"role": "user", "content": [{"type": "input_image", "image_url": "https://example.com/a.png"}]},
    ],
)
def test_items_of_other_types_are_kept_as_they_are(each: Message) -> None:
    assert RESPONSES.check(each) is None
    assert (RESPONSES.calls(each), RESPONSES.results(each)) == ([], [])


def test_a_refusal_is_prose() -> None:
    assert RESPONSES.text({"role": "assistant", "content": [{"type": "refusal", "refusal": "no"}]}) == "no"
