"""The four formats convert into each other: twelve ways, and back. What is lost on a way is what the docs' table says."""

from __future__ import annotations

import json
from itertools import permutations
from pathlib import Path
from typing import Any

import pytest
from provider_rules import PNG, id_violations, violations
from test_formats_properties import TRANSCRIPTS, transcript
from test_formats_sdks import accepts
from test_histories import events

from hooksdk.formats import FORMATS, Message, get_format
from hooksdk.formats.kit import BEGINNING
from hooksdk.histories import History, read_history
from hooksdk.testing import open_session
from hooksdk.trimming import list_results, problem, read

pytestmark = pytest.mark.anyio
WAYS = list(permutations(FORMATS, 2))
EACH_WAY = pytest.mark.parametrize(("source", "into"), WAYS)
DOCS = Path(__file__).parents[2] / "docs" / "how-to" / "i-have-a-history.md"
PNG_URL = f"data:image/png;base64,{PNG}"
PDF = "JVBERi0xLjQK"
PDF_URL = f"data:application/pdf;base64,{PDF}"
ARGUMENTS = {"path": "a.txt"}


def again(history: History) -> Any:
    """What a reader takes of it: the messages, with what stands beside them."""
    return {"contents": history.messages, "systemInstruction": history.system} if history.system else history.messages


def told(messages: list[Message], form_name: str, system: str = "") -> list[Any]:
    """What happens in it, one text of several that follow each other."""
    happened: list[Any] = [("system", system)] if system else []
    for event in events(messages, form_name):
        if event != ("user", BEGINNING) and happened and event[0] == happened[-1][0] in ("assistant", "user", "system"):
            happened[-1] = (event[0], f"{happened[-1][1]}\n{event[1]}")
        elif event != ("user", BEGINNING):
            happened.append(event)
    return happened


def lost(history: History) -> list[str]:
    """What was left out, without the counts."""
    return [
        note.removeprefix("left out: ").rpartition(" (")[0] for note in history.notes if note.startswith("left out: ")
    ]


def check(history: History, *, sdk: bool = True) -> None:
    form = history.format
    assert violations(form, history.messages) == []
    assert id_violations(form, history.messages) == []
    assert problem(history.messages, form) is None
    if sdk:
        accepts(form)(history.messages)


@pytest.mark.in_ci(every=4)
@pytest.mark.heavy
@EACH_WAY
def test_real_transcripts_come_through_every_way_and_back_with_every_text_call_and_result(
    source: str, into: str
) -> None:
    results = 0
    for path in TRANSCRIPTS:
        original = list(transcript(path))
        whole = read_history(original, "openai-chat").messages
        first = read_history(whole, "openai-chat", into=source)
        there = read_history(again(first), source, into=into)
        back = read_history(again(there), into, into=source)
        for history in (there, back):
            check(history)
            assert lost(history) == []
        wanted = told(whole, "openai-chat")
        assert told(there.messages, into, there.system) == wanted
        assert told(back.messages, source, back.system) == wanted
        tools = [info.tool for info in list_results(whole, "openai-chat")]
        assert [info.tool for info in list_results(there.messages, into)] == tools
        assert [info.tool for info in list_results(back.messages, source)] == tools
        results += len(tools)
    assert (len(TRANSCRIPTS), results) == (29, 270)


RICH: dict[str, Any] = {
    "openai-chat": [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": [
            {"type": "text", "text": "See"}, {"type": "image_url", "image_url": {"url": PNG_URL}},
            {"type": "file", "file": {"filename": "a.pdf", "file_data": PDF_URL}},
            {"type": "input_audio", "input_audio": {"data": "UklGRg==", "format": "wav"}},
        ]},
        {"role": "assistant", "content": "Let me look.", "reasoning_content": "Hm.", "tool_calls": [
            {"id": one, "type": "function", "function": {"name": "shot", "arguments": json.dumps(ARGUMENTS)}} for one in "ab"]},
        {"role": "tool", "tool_call_id": "a", "content": "a picture"},
        {"role": "tool", "tool_call_id": "b", "content": "Error: no such file"},
        {"role": "assistant", "content": "Done."},
    ],
    "anthropic": [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": [
            {"type": "text", "text": "See"}, {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG}},
            {"type": "document", "title": "a.pdf", "source": {"type": "base64", "media_type": "application/pdf", "data": PDF}},
        ]},
        {"role": "assistant", "content": [
            {"type": "thinking", "thinking": "Hm.", "signature": "c2ln"}, {"type": "text", "text": "Let me look."},
            *({"type": "tool_use", "id": one, "name": "shot", "input": ARGUMENTS} for one in "ab")]},
        {"role": "user", "content": [
            {"type": "tool_result", "tool_use_id": "a", "content": [
                {"type": "text", "text": "a picture"}, {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG}}]},
            {"type": "tool_result", "tool_use_id": "b", "is_error": True, "content": "no such file"},
        ]},
        {"role": "assistant", "content": [{"type": "text", "text": "Done."}]},
    ],
    "openai-responses": [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": [
            {"type": "input_text", "text": "See"}, {"type": "input_image", "detail": "auto", "image_url": PNG_URL},
            {"type": "input_file", "filename": "a.pdf", "file_data": PDF_URL}]},
        {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "gAAA"},
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Let me look."}]},
        *({"type": "function_call", "call_id": one, "name": "shot", "arguments": json.dumps(ARGUMENTS)} for one in "ab"),
        {"type": "function_call_output", "call_id": "a", "output": [
            {"type": "input_text", "text": "a picture"}, {"type": "input_image", "detail": "auto", "image_url": PNG_URL}]},
        {"type": "function_call_output", "call_id": "b", "output": "Error: no such file"},
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Done."}]},
    ],
    "gemini": {
        "systemInstruction": {"parts": [{"text": "Be brief."}]},
        "contents": [
            {"role": "user", "parts": [
                {"text": "See"}, {"inlineData": {"mimeType": "image/png", "data": PNG}},
                {"inlineData": {"mimeType": "application/pdf", "data": PDF}}, {"inlineData": {"mimeType": "audio/wav", "data": "UklGRg=="}}]},
            {"role": "model", "parts": [
                {"text": "Hm.", "thought": True}, {"text": "Let me look."},
                *({"functionCall": {"id": one, "name": "shot", "args": ARGUMENTS}, "thoughtSignature": "c2ln"} for one in "ab")]},
            {"role": "user", "parts": [
                {"functionResponse": {"id": "a", "name": "shot", "response": {"output": "a picture"},
                                      "parts": [{"inlineData": {"mimeType": "image/png", "data": PNG}}]}},
                {"functionResponse": {"id": "b", "name": "shot", "response": {"error": "no such file"}}}]},
            {"role": "model", "parts": [{"text": "Done."}]},
        ],
    },
}  # fmt: skip
"""A conversation with everything that each format has a place for."""

WORDS = {
    "reasoning of a reply": "reasoning",
    "items of type 'reasoning'": "reasoning",
    "thinking of a reply": "thinking",
    "thoughts": "thoughts",
    "thought signatures": "signatures",
    "an image or file of a user's message, named in its text": "audio",
    "an image or file of a result, named in its text": "images and files of results",
}
"""What is lost of the rich conversations, as the docs' table says it."""


@pytest.mark.light(every=5)
@EACH_WAY
async def test_all_that_has_a_place_arrives_and_the_rest_is_named(source: str, into: str) -> None:
    history = read_history(RICH[source], source, into=into)
    check(history)
    system = ("system", "Be brief.")
    assert told(history.messages, into, history.system)[0] == system
    calls = [("call", "shot", ARGUMENTS)] * 2
    happened = told(history.messages, into)
    assert [one for one in happened if one[0] == "call"] == calls
    assert [one[1].splitlines()[0] for one in happened if one[0] == "result"] == ["a picture", "no such file"]
    assert [one for one in happened if one[0] == "assistant"] == [("assistant", "Let me look."), ("assistant", "Done.")]
    infos = list_results(history.messages, into)
    assert [info.is_error for info in infos] == [False, True]
    kept = json.dumps(history.messages)
    in_results = source != "openai-chat" and into != "openai-chat"
    assert (kept.count(PNG), kept.count(PDF)) == (1 + in_results, 1)
    images = [block["data"] for block in read(history.messages, "r1", into).blocks if block["type"] == "image"]
    assert images == [PNG] * in_results
    assert set(lost(history)) <= WORDS.keys()
    async with open_session() as session:
        await session.load(history.messages, into)
        assert session.view == history.messages


def test_the_docs_table_says_what_each_way_loses() -> None:
    for source in FORMATS:
        cells = [
            ", ".join(WORDS[each] for each in lost(read_history(RICH[source], source, into=into))) or "nothing"
            if into != source else "the same"
            for into in FORMATS
        ]  # fmt: skip
        assert f"| `{source}` | {' | '.join(cells)} |" in DOCS.read_text().splitlines()


@EACH_WAY
def test_a_rich_conversation_comes_back_with_what_both_formats_have_a_place_for(source: str, into: str) -> None:
    there = read_history(RICH[source], source, into=into)
    back = read_history(again(there), into, into=source)
    check(back)
    assert json.dumps(back.messages).count(PNG) == (2 if "openai-chat" not in (source, into) else 1)
    assert lost(read_history(again(back), source, into=into)) == [] or into == "openai-chat"


CALL: dict[str, Any] = {"id": "a", "type": "function", "function": {"name": "f", "arguments": "no JSON"}}
ANSWER: dict[str, Any] = {"role": "tool", "tool_call_id": "a", "content": "x"}
USER: dict[str, Any] = {"role": "user", "content": "go"}


@pytest.mark.parametrize("into", FORMATS[1:])
def test_arguments_that_are_no_json_come_back_as_the_model_wrote_them(into: str) -> None:
    messages = [USER, {"role": "assistant", "content": None, "tool_calls": [CALL]}, ANSWER]
    there = read_history(messages, "openai-chat", into=into)
    check(there)
    assert read_history(there.messages, into, into="openai-chat").messages == messages


def test_gemini_gets_a_signature_for_calls_of_a_turn_that_goes_on_and_for_no_others() -> None:
    call = {**CALL, "function": {"name": "f", "arguments": "{}"}}
    turn = [USER, {"role": "assistant", "content": None, "tool_calls": [call]}, ANSWER]
    for messages, signed in (
        ([*turn, *turn], [False, True]),
        ([*turn, {"role": "assistant", "content": "Done."}], [False]),
    ):
        history = read_history(messages, "openai-chat", into="gemini")
        check(history)
        parts = [part for content in history.messages for part in content["parts"] if "functionCall" in part]
        assert ["thoughtSignature" in part for part in parts] == signed
        assert lost(read_history(history.messages, "gemini")) == []


def test_replies_that_follow_each_other_are_one_content_for_gemini_and_a_user_comes_before_calls() -> None:
    call = {**CALL, "function": {"name": "f", "arguments": "{}"}}
    messages = [
        {"role": "assistant", "content": "First."},
        {"role": "assistant", "content": "Then.", "tool_calls": [call]},
        ANSWER,
    ]
    history = read_history(messages, "openai-chat", into="gemini")
    check(history)
    assert [len(content["parts"]) for content in history.messages] == [1, 3, 1]
    assert "a user's message is put before the first reply: its provider wants one" in history.notes
    middle = read_history([USER, {"role": "system", "content": "Be brief."}], "openai-chat", into="gemini")
    assert (middle.system, middle.messages[1]) == ("", {"role": "user", "parts": [{"text": "Be brief."}]})


ODD: list[tuple[str, dict[str, Any], str, str]] = [
    ("openai-chat", {"role": "user", "content": [{"type": "file", "file": {"file_id": "f1"}}]}, "[file f1]",
     "files that OpenAI keeps under an id, named in the text"),
    ("openai-chat", {"role": "user", "content": [{"type": "video", "x": 1}, {"type": "text", "text": "Hi"}]}, "Hi", "parts of type 'video'"),
    ("openai-chat", {"role": "user", "name": "ann", "content": "Hi"}, "Hi", "names of speakers"),
    ("anthropic", {"role": "user", "content": [{"type": "search_result", "title": "t", "source": "s", "content": []}]}, "[search_result t]",
     "search_result of a user's message, named in its text"),
    ("anthropic", {"role": "user", "content": [{"type": "document", "source": {"type": "file", "file_id": "f"}}]}, "[file]",
     "an image or file of a user's message, named in its text"),
    ("anthropic", {"role": "user", "content": [{"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "Hi"}}]}, "Hi", ""),
    ("openai-responses", {"role": "user", "content": [{"type": "input_text", "text": "Hi"}, {"type": "input_audio"}]}, "Hi\n[input_audio ]",
     "parts of type 'input_audio', which OpenAI keeps under an id"),
]  # fmt: skip


@pytest.mark.parametrize(("source", "message", "text", "loss"), ODD)
def test_what_is_seldom_is_named_too(source: str, message: dict[str, Any], text: str, loss: str) -> None:
    for into in FORMATS:
        if into != source:
            history = read_history([message], source, into=into)
            check(history)
            assert told(history.messages, into)[-1] == ("user", text)
            assert lost(history) == ([loss] if loss else [])


@pytest.mark.parametrize(
    ("into", "kept"), [("anthropic", "url"), ("openai-chat", "url"), ("openai-responses", "url"), ("gemini", "fileUri")]
)
def test_images_and_files_by_their_address_stay_so_where_the_provider_fetches_them(into: str, kept: str) -> None:
    image, file = "https://example.com/a.png", "https://example.com/a.pdf"
    content = [{"type": "input_image", "image_url": image}, {"type": "input_file", "file_url": file}]
    reader = "openai-responses"
    if into == reader:
        reader = "anthropic"
        content = [
            {"type": "image", "source": {"type": "url", "url": image}},
            {"type": "document", "source": {"type": "url", "url": file}},
        ]
    history = read_history([{"role": "user", "content": content}], reader, into=into)
    check(history)
    written = json.dumps(history.messages)
    assert written.count(kept) >= 1
    assert image in written
    assert (file in written, lost(history)) == (True, []) or into == "openai-chat"
    unknown = [{"type": "image", "source": {"type": "url", "url": "https://example.com/picture"}}]
    nameless = read_history([{"role": "user", "content": unknown}], "anthropic", into="gemini")
    assert lost(nameless) == ["an image or file of a user's message, named in its text"]


def test_a_refusal_and_the_calls_of_older_shapes_are_read() -> None:
    messages: list[Message] = [
        USER,
        {"role": "assistant", "content": None, "function_call": {"name": "f", "arguments": "{}"}},
        {"role": "function", "name": "f", "content": "x"},
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [{"id": "c", "type": "custom", "custom": {"name": "g", "input": "1"}}],
        },
        {"role": "tool", "tool_call_id": "c", "content": "y"},
        {"role": "assistant", "content": None, "refusal": "I cannot."},
    ]
    for into in FORMATS[1:]:
        history = read_history(messages, "openai-chat", into=into)
        check(history)
        assert told(history.messages, into)[1:] == [
            ("call", "f", {}), ("result", "x"), ("call", "g", {"input": "1"}), ("result", "y"), ("assistant", "I cannot."),
        ]  # fmt: skip
        assert "a custom tool's call is a function's here, with its text under 'input'" in history.notes


def test_histories_in_a_format_of_ours_are_mended_where_the_provider_would_refuse_them() -> None:
    form = get_format("anthropic")
    history = read_history([{"role": "assistant", "content": [{"type": "text", "text": " "}]}, USER], "anthropic")
    assert [form.is_reply(message) for message in history.messages] == [False, True, False]
    assert history.notes == (
        "mended what the provider would refuse (message 0: a user must speak before it, and 1 more)",
    )
    check(history)


def test_a_reply_comes_first_and_the_operator_speaks_in_the_middle() -> None:
    call = {**CALL, "function": {"name": "f", "arguments": "{}"}}
    messages = [
        {"role": "assistant", "content": None, "tool_calls": [call]},
        ANSWER,
        {"role": "system", "content": "Be brief."},
    ]
    for into in FORMATS[1:]:
        history = read_history(messages, "openai-chat", into=into)
        check(history)
        assert told(history.messages, into)[-1][1] == "Be brief."
