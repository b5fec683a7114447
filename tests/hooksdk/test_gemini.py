"""Gemini's contents: parallel calls in one content, results paired by id or by name and order, signatures left alone."""

from __future__ import annotations

import base64
import re
from collections.abc import Sequence
from typing import Any

import pytest
from provider_rules import PNG, violations
from transcripts import GEMINI, opened, texts

from hooksdk import Tool, tool
from hooksdk.agent import ModelReply, run_agent
from hooksdk.calls import ToolCall, ToolResult
from hooksdk.errors import TranscriptChanged
from hooksdk.formats import Message
from hooksdk.stores import MemoryStore
from hooksdk.testing import Reply, Turn, call, open_session, play
from hooksdk.trimming import list_results, problem, read, trim

pytestmark = pytest.mark.anyio

USER: Message = {"role": "user", "parts": [{"text": "What do the logs say?"}]}
LAST: Message = {"role": "model", "parts": [{"text": "Nothing.", "thoughtSignature": "c2lnbmVk"}]}
LOG = "GET /index.html 200\n" * 100


def calling(*names: str, ids: bool = False) -> Message:
    parts: list[Message] = [{"text": "Let me think.", "thought": True}]
    for number, name in enumerate(names):
        head = {"id": f"id{number}"} if ids else {}
        parts.append({"functionCall": {**head, "name": name, "args": {"n": number}}})
    parts[1]["thoughtSignature"] = "c2lnbmVk"
    return {"role": "model", "parts": parts}


def answering(*answers: tuple[str, Any], **more: Any) -> Message:
    parts = [{"functionResponse": {"name": name, "response": response, **more}} for name, response in answers]
    return {"role": "user", "parts": parts}


# --- pairing ---


def test_calls_without_ids_go_by_their_name_and_number() -> None:
    ids = [each.id for each in GEMINI.calls(calling("read", "list", "read"))]
    assert ids == ["gemini:read:0", "gemini:list:0", "gemini:read:1"]
    assert [each.id for each in GEMINI.calls(calling("read", "read", ids=True))] == ["id0", "id1"]


async def test_parallel_calls_without_ids_are_answered_in_one_content_in_their_order() -> None:
    async with opened(MemoryStore(), form=GEMINI) as transcript:
        for turn in range(2):  # the ids come again in each turn
            await transcript.append([USER, calling("read", "list", "read")])
            for number in (2, 0, 1):
                pending = {each.id: each for each in transcript.pending}
                name = ("gemini:read:0", "gemini:list:0", "gemini:read:1")[number]
                await transcript.answer(pending[name], ToolResult(f"{turn}{number}"), None)
        assert texts(transcript, transcript.view) == ["00", "01", "02", "10", "11", "12"]
        infos = transcript.list_results()
        assert [info.arguments for info in infos] == ['{"n":0}', '{"n":1}', '{"n":2}'] * 2
        assert "id" not in transcript.view[2]["parts"][0]["functionResponse"]
        assert violations("gemini", transcript.view) == []


async def test_a_result_without_an_id_answers_the_first_call_of_its_name_that_waits() -> None:
    """`Part.from_function_response` of Google's SDK writes none, even where the call has one."""
    answers = answering(("list", {"output": "b"}), ("read", {"output": "a"}), ("read", {"output": "c"}))
    messages = [USER, calling("read", "list", "read", ids=True), answers, LAST]
    assert [(info.call_id, info.arguments) for info in list_results(messages)] == [
        ("id1", '{"n":1}'),
        ("id0", '{"n":0}'),
        ("id2", '{"n":2}'),
    ]
    async with opened(MemoryStore(), form=GEMINI) as transcript:
        await transcript.append(messages)
        assert transcript.pending == ()
        await transcript.match([*messages, USER])


async def test_what_the_run_recorded_may_be_recorded_again_without_ids() -> None:
    async with opened(MemoryStore(), form=GEMINI) as transcript:
        await transcript.append([USER, calling("read", "read", ids=True)])
        for number, each in enumerate(transcript.pending):
            await transcript.answer(each, ToolResult(f"text {number}"), None)
        await transcript.append([answering(("read", {"output": "text 0"}), ("read", {"output": "text 1"}))])
        assert len(transcript.messages) == 3
        theirs = {"functionResponse": {"name": "read", "response": {"result": "text 0"}}}
        other = {"function_response": {"name": "read", "response": {"output": "text 1"}}}
        mine = [*transcript.view[:2], {"role": "user", "parts": [theirs, other]}, LAST]
        assert await transcript.match(mine) == [LAST]


async def test_a_result_that_nobody_asked_for_is_refused_by_its_name() -> None:
    async with opened(MemoryStore(), form=GEMINI) as transcript:
        await transcript.append([USER, calling("read")])
        with pytest.raises(TranscriptChanged, match="it answers call 'list', which was made by no reply before it"):
            await transcript.append([answering(("list", {"output": "x"}))])


async def test_results_of_one_turn_in_two_contents_are_refused() -> None:
    async with opened(MemoryStore(), form=GEMINI) as transcript:
        await transcript.append([USER, calling("read", "list")])
        one, other = answering(("read", {"output": "a"})), answering(("list", {"output": "b"}))
        with pytest.raises(TranscriptChanged, match=r"no result for gemini:list:0, and all results .* in one message"):
            await transcript.append([one, other])
        assert violations("gemini", [USER, calling("read", "list"), one, other])
        await transcript.append([{**one, "parts": [*one["parts"], *other["parts"]]}])


async def test_calls_in_a_content_after_a_reply_are_refused() -> None:
    assert violations("gemini", [USER, LAST, calling("read"), answering(("read", {"output": "x"}))])
    assert "Put the parts of one reply into one message" in str(problem([USER, LAST, calling("read")]))
    async with opened(MemoryStore(), form=GEMINI) as transcript:
        await transcript.append([USER, LAST])
        with pytest.raises(TranscriptChanged, match="a reply stands before it"):
            await transcript.append([calling("read")])
        await transcript.compact([USER, LAST])
        with pytest.raises(TranscriptChanged, match="a reply stands before it"):
            await transcript.append([calling("read")])
        await transcript.compact([USER])
        await transcript.append([calling("read")])


# --- results ---


@pytest.mark.parametrize(
    ("response", "text", "is_error"),
    [
        ({"output": "x"}, "x", False),
        ({"result": "x"}, "x", False),
        ({"error": "x"}, "x", True),
        ({}, "{}", False),
        ({"output": 1}, '{"output": 1}', False),
        ({"text": "x", "more": [1]}, '{"text": "x", "more": [1]}', False),
        ({"error": {"code": 7}, "output": None}, '{"error": {"code": 7}, "output": null}', True),
        ({"error": None, "output": "x"}, '{"error": null, "output": "x"}', False),
    ],
)
def test_a_response_reads_as_its_text(response: Any, text: str, is_error: bool) -> None:
    message = answering(("f", response))
    (result,) = GEMINI.results(message)
    assert (result.text, result.is_error, result.why_not) == (text, is_error, None)
    after = GEMINI.replace(message, 0, "short")
    assert [(each.text, each.is_error) for each in GEMINI.results(after)] == [("short", is_error)]


def test_errors_and_structured_results_are_written() -> None:
    a, b, c = (ToolCall(each, "f") for each in "abc")
    answered = [(a, ToolResult.error("no such file")), (b, ToolResult(structured={"x": 1})), (c, ToolResult.error(" "))]
    (message,) = GEMINI.result_messages(answered)
    assert [part["functionResponse"]["response"] for part in message["parts"]] == [
        {"error": "no such file"},
        {"output": '{"x": 1}'},
        {"error": "The tool failed without a message."},
    ]
    assert GEMINI.results(GEMINI.replace(message, 0, " "))[0].text == "The tool failed without a message."


def test_a_structured_response_counts_whole_and_can_be_trimmed() -> None:
    messages = [USER, calling("f"), answering(("f", {"text": "short", "type": "image", "rows": [LOG]})), LAST]
    (info,) = list_results(messages)
    assert info.characters > len(LOG)
    assert len(str(trim(messages, ["r1"]))) < len(str(messages)) - len(LOG)


def test_images_stand_in_the_parts_of_a_response_and_come_back_whole() -> None:
    data = base64.b64encode(bytes(3_000)).decode()
    image = {"type": "image", "data": data, "mimeType": "image/png"}
    gif = {"type": "image", "data": data, "mimeType": "image/gif"}
    result = ToolResult("see", blocks=[{"type": "text", "text": "see"}, image, gif])
    (message,) = GEMINI.result_messages([(ToolCall("gemini:f:0", "f"), result)])
    answer = message["parts"][0]["functionResponse"]
    assert answer["parts"] == [{"inlineData": {"mimeType": "image/png", "data": data}}]
    assert answer["response"] == {"output": f"see\n[image image/gif, {len(data):,} characters]"}
    messages = [USER, calling("f"), message, LAST]
    assert list_results(messages)[0].tokens >= 1_600
    assert read(messages, "r1").blocks[1] == image
    after = trim(messages, ["r1"])
    assert "parts" not in after[2]["parts"][0]["functionResponse"]
    assert violations("gemini", messages) == violations("gemini", after) == []


def test_a_response_with_a_part_of_an_unknown_kind_cannot_be_trimmed() -> None:
    (result,) = GEMINI.results(answering(("f", {"output": LOG}), parts=[{"hologram": {}}]))
    assert result.why_not == "it holds a part of a kind that is not known: hologram"


def test_a_trim_changes_one_response_and_no_signature() -> None:
    messages = [USER, calling("f", "g", ids=True), answering(("f", {"output": LOG}), ("g", {"output": "x"})), LAST]
    messages[2]["parts"][0]["functionResponse"] |= {"id": "id0", "scheduling": "SILENT"}
    after = trim(messages, ["id0"])
    assert [after[at] for at in (0, 1, 3)] == [messages[at] for at in (0, 1, 3)]
    changed = after[2]["parts"][0]["functionResponse"]
    assert changed == {**messages[2]["parts"][0]["functionResponse"], "response": changed["response"]}
    assert after[2]["parts"][1] == messages[2]["parts"][1]


def test_contents_of_googles_sdk_are_read_and_keep_their_spelling() -> None:
    types: Any = pytest.importorskip("google.genai.types", reason="google-genai is not installed")
    call_part = types.Part(function_call=types.FunctionCall(name="f", args={"x": 1}), thought_signature=b"signed")
    answer = types.Part.from_function_response(name="f", response={"output": LOG})
    contents = [
        types.UserContent("go"),
        types.ModelContent([types.Part(text="hm", thought=True), call_part]),
        types.UserContent([answer]),
        types.ModelContent("fine"),
    ]
    messages = [each.model_dump(mode="json", exclude_none=True) for each in contents]
    assert [GEMINI.check(message) for message in messages] == [None] * 4
    assert [GEMINI.text(message) for message in messages] == ["go", "", "", "fine"]
    after = trim(messages, ["r1"])
    assert set(after[2]["parts"][0]) == {"function_response"}
    assert len(str(after)) < 1_000
    with_nulls = [each.model_dump(mode="json") for each in contents]
    assert [GEMINI.check(message) for message in with_nulls] == [None] * 4
    assert [info.tool for info in list_results(with_nulls)] == ["f"]


# --- other messages ---


def test_context_stands_beside_no_result() -> None:
    asked = [USER, calling("f"), answering(("f", {"output": "x"}))]
    assert GEMINI.add_context(asked, "note") == [*asked, GEMINI.user("note")]
    assert GEMINI.add_context([USER], "note") == [{**USER, "parts": [*USER["parts"], {"text": "note"}]}]
    assert GEMINI.add_context(asked[:2], "note")[1:] == asked[1:2]
    assert violations("gemini", GEMINI.add_context(asked, "note")) == []


async def test_an_agent_plays_in_this_format() -> None:
    @tool
    def add(a: int, b: int) -> str:
        """Add two numbers."""
        return str(a + b)

    def script(turn: Turn) -> Reply | str:
        if turn.number == 1:
            assert turn.definitions["add"]["parameters"]["required"] == ["a", "b"]
            return Reply("Both.", calls=[call("add", a=1, b=2), call("add", a=3, b=4)])
        return " and ".join(result.text for result in turn.results if result.tool == "add")

    async with open_session(tools=[add]) as session:
        outcome = await play(session, script, "Add.", format="gemini")
        assert violations("gemini", session.messages) == []
    assert outcome.text == "3 and 7"


async def test_calls_without_ids_are_told_apart_in_each_turn_of_a_run() -> None:
    async def add(arguments: dict[str, int]) -> str:
        return str(arguments["a"] + arguments["b"])

    class NoIds:
        """A model that writes no ids, as Gemini's models before the third generation."""

        name, format, context_window = "no-ids", "gemini", None

        async def reply(self, messages: Sequence[Message], tools: Sequence[Message]) -> ModelReply:
            number = len(messages)
            arguments = [{"a": number, "b": each} for each in (10, 20)]
            calls: list[Message] = [{"functionCall": {"name": "add", "args": each}} for each in arguments]
            return ModelReply(message={"role": "model", "parts": calls} if number < 5 else LAST)

    async with open_session() as session:
        await run_agent(session, NoIds(), "Add.", tools=[Tool(name="add", source="host", execute=add)])
        answers = [found.text for message in session.messages for found in GEMINI.results(message)]
        assert (answers, violations("gemini", session.messages)) == (["11", "21", "13", "23"], [])


def test_tools_are_declarations_of_one_object() -> None:
    assert GEMINI.tools([]) == []
    (definitions,) = GEMINI.tools([Tool(name=each, description="Add.") for each in "ab"])
    assert [each["name"] for each in definitions["functionDeclarations"]] == ["a", "b"]
    assert definitions["functionDeclarations"][0]["parametersJsonSchema"] == {"type": "object", "properties": {}}


WRONG: list[tuple[Any, str]] = [
    ("x", "must be an object with a 'role' and 'parts', not text"),
    ({"role": "boss", "parts": []}, "'role' of user, model, function; it is 'boss'"),
    ({"role": 7, "parts": []}, "it is a number"),
    ({"role": "user", "content": "x"}, "of another format"),
    ({"role": "user"}, "'parts' must be a list, not null"),
    ({"role": "user", "parts": ["x"]}, r"parts\[0\] must be an object"),
    ({"role": "user", "parts": [{"text": 7}]}, r"parts\[0\].text must be text, not a number"),
    ({**calling("f"), "role": "user"}, r"a functionCall belongs into a message of role 'model', not 'user'"),
    ({**answering(("f", {})), "role": "model"}, r"a functionResponse belongs into a message of role 'user'"),
    ({"role": "model", "parts": [{"functionCall": {}}]}, "with a 'name' of text"),
    (
        {"role": "model", "parts": [{"functionCall": {"name": "f", "args": "{}"}}]},
        "args must be an object, not text",
    ),
    (answering(("f", "x")), "response must be an object, not text"),
]


@pytest.mark.parametrize(("message", "words"), WRONG)
def test_what_is_wrong_with_a_content_is_said(message: Any, words: str) -> None:
    assert re.search(words, GEMINI.check(message) or "")


def test_other_parts_and_missing_roles_are_fine() -> None:
    assert GEMINI.check({"parts": [{"text": "x"}, {"inlineData": {"mimeType": "image/png", "data": PNG}}]}) is None
    assert GEMINI.check({"role": "model", "parts": [{"executableCode": {"code": "1"}}, {"hologram": 1}]}) is None
