"""Histories from elsewhere: read, valid for their provider, loaded into a session and trimmed there."""

from __future__ import annotations

import base64
import copy
import json
import random
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from history_samples import (
    ANSWER,
    ANTHROPIC,
    GEMINI,
    LANGCHAIN,
    LAST,
    LONG,
    MISSING,
    OPENAI_CHAT,
    PATHS,
    PYDANTIC_AI,
    QUESTION,
    RESPONSES,
    SAMPLES,
    sqlite_file,
)
from provider_rules import PNG, is_list, is_object, neutral, violations
from test_formats_properties import SHARED, TRANSCRIPTS, transcript

from hooksdk import hooks, schema
from hooksdk.errors import ConfigError, FenceClosed
from hooksdk.formats import FORMATS, Message, get_format
from hooksdk.formats.kit import BEGINNING
from hooksdk.histories import SOURCES, History, HistoryError, read_history
from hooksdk.hooks import ResolveSecrets, Secrets
from hooksdk.testing import open_host
from hooksdk.trimming import list_results, problem, read
from tests.stage import make, playing

pytestmark = pytest.mark.anyio

EACH = pytest.mark.parametrize("source", SAMPLES)


@pytest.fixture
def anyio_backend() -> str:
    """Nothing here depends on the loop."""
    return "asyncio"


def write_lines(path: Path, items: list[Any]) -> Path:
    """A file with one item a line."""
    path.write_text("".join(json.dumps(item) + "\n" for item in items))
    return path


def events(messages: list[Message], form_name: str) -> list[Any]:
    """What happens in it, whatever the shape: texts, calls with arguments, and what each result reads."""
    form = get_format(form_name)
    happened: list[Any] = []
    for message in messages:
        if (text := form.text(message)).strip():
            happened.append(("assistant" if form.is_reply(message) else message["role"], text))
        happened += [("call", call.name, schema.parse_arguments(call.arguments)) for call in form.calls(message)]
        happened += [("result", result.text.removeprefix("Error: ")) for result in form.results(message)]
    return happened


CONVERSATION: list[Any] = [
    ("user", QUESTION),
    ("assistant", "Let me look."),
    *(("call", "read_file", {"path": path}) for path in PATHS),
    ("result", LONG),
    ("result", MISSING),
    ("assistant", ANSWER),
    ("user", LAST),
]


def test_there_is_a_sample_of_every_source() -> None:
    assert set(SAMPLES) == set(SOURCES)


@EACH
def test_each_source_is_guessed_and_the_reason_is_a_note(source: str) -> None:
    history = read_history(SAMPLES[source])
    assert history.source == ("openai-responses" if source == "openai-agents" else source)
    assert history.notes[0].startswith(f"read as {history.source}: ")
    assert history.notes[0] not in read_history(SAMPLES[source], source).notes


@EACH
@pytest.mark.parametrize("into", FORMATS)
def test_every_source_tells_the_same_conversation_in_all_formats(source: str, into: str) -> None:
    history = read_history(SAMPLES[source], source, into=into)
    happened = [event for event in events(history.messages, into) if event[0] != "system"]
    assert happened == CONVERSATION
    assert violations(into, history.messages) == []


@EACH
def test_a_file_of_lines_a_file_of_one_document_and_objects_are_read_alike(source: str, tmp_path: Path) -> None:
    sample: Any = SAMPLES[source]
    untouched = copy.deepcopy(sample)
    document = tmp_path / "history.json"
    document.write_text(json.dumps(sample, indent=1), encoding="utf-8-sig")
    histories = [read_history(sample, source), read_history(str(document), source)]
    if sample is not GEMINI:
        histories.append(read_history(write_lines(tmp_path / "history.jsonl", sample), source))
        histories.append(read_history(tuple(sample), source))
    assert all(history == histories[0] for history in histories)
    assert sample == untouched


@EACH
async def test_an_imported_history_is_trimmed_and_its_next_request_is_valid(source: str) -> None:
    history = read_history(SAMPLES[source])
    async with open_host() as host, host.session("imported") as session:
        await session.load(history.messages, history.format)
        assert session.messages == history.messages
        async with session.run(format=history.format) as run:
            await run.record(get_format(history.format).user("Go on."))
            before = await run.prepare_messages()
        assert violations(history.format, before) == []
        long = next(info for info in session.results.list() if info.tokens > 500)
        assert long.tool == "read_file"
        assert (await session.trim(long.handle, "200 times DEBUG = True")).status == "applied"
        async with session.run(format=history.format) as run:
            after = await run.prepare_messages()
        assert violations(history.format, after) == []
        assert len(json.dumps(after)) < len(json.dumps(before)) / 2
        assert session.messages[: len(history.messages)] == history.messages


# What is lost


def lost(history: History) -> list[str]:
    return [note.removeprefix("left out: ") for note in history.notes if note.startswith("left out: ")]


@pytest.mark.parametrize(
    ("source", "losses"),
    [
        ("openai-chat", []),
        ("anthropic", []),
        ("openai-responses", ["items of type 'reasoning' (1)"]),
        ("gemini", ["thoughts (1)", "thought signatures (2)"]),
        ("langchain", ["artifacts of results, which the model never saw (1)"]),
        ("pydantic-ai", ["parts of kind 'thinking' (1)"]),
        ("claude-code", ["lines of type 'summary' (1)"]),
        ("openclaw", ["lines of type 'model_change' (1)"]),
    ],
)
def test_each_reader_says_what_it_left_out(source: str, losses: list[str]) -> None:
    assert lost(read_history(SAMPLES[source])) == losses


def test_histories_in_a_format_of_ours_stay_as_they_are() -> None:
    assert read_history(OPENAI_CHAT).messages == OPENAI_CHAT
    assert read_history(ANTHROPIC).messages == ANTHROPIC


@pytest.mark.parametrize(("source", "own"), [("openai-agents", "openai-responses"), ("gemini", "gemini")])
async def test_responses_items_and_gemini_contents_stay_as_they_are_where_that_is_asked_for(
    source: str, own: str
) -> None:
    sample: Any = SAMPLES[source]
    history = read_history(sample, source, into=own)
    assert history.messages == (sample["contents"] if source == "gemini" else sample)
    assert violations(own, history.messages) == []
    assert ("left out: 'systemInstruction' beside the messages, which belongs into the request" in history.notes) is (
        source == "gemini"
    )
    async with open_host() as host, host.session() as session:
        await session.load(history.messages)
        assert session.format == own
        assert (await session.trim("r1", "200 times DEBUG = True")).status == "applied"
        assert violations(own, session.view) == []
    with pytest.raises(ConfigError, match=r"cannot be read into 'mcp'. Take openai-chat or anthropic or"):
        read_history(sample, source, into="mcp")


def test_a_request_body_is_taken_apart() -> None:
    assert read_history({"model": "gpt", "messages": OPENAI_CHAT}).messages == OPENAI_CHAT
    history = read_history({"system": "Be brief.", "max_tokens": 9, "messages": ANTHROPIC})
    assert history.messages == [{"role": "system", "content": "Be brief."}, *ANTHROPIC]
    history = read_history({"instructions": "Be brief.", "input": RESPONSES, "previous_response_id": "resp_1"})
    assert history.messages[0] == {"role": "system", "content": "Be brief."}
    assert "previous_response_id" in history.notes[1]


def test_the_model_of_anthropic_gets_its_own_format_and_its_thinking_back() -> None:
    langchain, pydantic = copy.deepcopy(LANGCHAIN), copy.deepcopy(PYDANTIC_AI)
    thinking = {"type": "thinking", "thinking": "Hm.", "signature": "c2ln", "index": 0}
    use: dict[str, Any] = {"type": "tool_use", "id": "call_0", "name": "read_file", "input": {}}
    langchain[2]["data"]["content"] = [thinking, {"type": "text", "text": "Let me look."}, use]
    pydantic[1]["provider_name"] = pydantic[1]["parts"][0]["provider_name"] = "anthropic"
    for source in (langchain, pydantic):
        history = read_history(source)
        assert history.format == "anthropic"
        reply = next(message for message in history.messages if message["role"] == "assistant")
        assert [block["type"] for block in reply["content"]] == ["thinking", "text", "tool_use", "tool_use"]
        assert reply["content"][0]["signature"]
        assert violations("anthropic", history.messages) == []


WITH_IMAGES: dict[str, list[Any]] = {
        "openclaw": [
            {"role": "user", "content": [{"type": "text", "text": "See"}, {"type": "image", "mimeType": "image/png", "data": PNG}]},
            {"role": "assistant", "content": [{"type": "toolCall", "id": "c1", "name": "shot", "arguments": {}}]},
            {"role": "toolResult", "toolCallId": "c1", "content": [{"type": "image", "mimeType": "image/png", "data": PNG}]},
        ],
        "gemini": [
            {"role": "user", "parts": [{"text": "See"}, {"inline_data": {"mime_type": "image/png", "data": PNG}}]},
            {"role": "model", "parts": [{"function_call": {"id": "c1", "name": "shot", "args": {}}}]},
            {
                "role": "user",
                "parts": [
                    {
                        "function_response": {
                            "id": "c1", "name": "shot", "response": {},
                            "parts": [{"inline_data": {"mime_type": "image/png", "data": PNG}}],
                        }
                    }
                ],
            },
        ],
        "openai-responses": [
            {"role": "user", "content": [{"type": "input_text", "text": "See"}, {"type": "input_image", "image_url": f"data:image/png;base64,{PNG}"}]},
            {"type": "function_call", "call_id": "c1", "name": "shot", "arguments": "{}"},
            {"type": "function_call_output", "call_id": "c1", "output": [{"type": "input_image", "image_url": f"data:image/png;base64,{PNG}"}]},
        ],
        "langchain": [
            {"type": "human", "data": {"content": [{"type": "text", "text": "See"}, {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PNG}"}}]}},
            {"type": "ai", "data": {"content": "", "tool_calls": [{"id": "c1", "name": "shot", "args": {}}]}},
            {"type": "tool", "data": {"content": [{"type": "image", "source_type": "base64", "mime_type": "image/png", "data": PNG}], "tool_call_id": "c1"}},
        ],
        "pydantic-ai": [
            {"kind": "request", "parts": [{"part_kind": "user-prompt", "content": ["See", {"kind": "binary", "media_type": "image/png", "data": base64.urlsafe_b64encode(base64.b64decode(PNG)).decode()}]}]},
            {"kind": "response", "parts": [{"part_kind": "tool-call", "tool_name": "shot", "args": None, "tool_call_id": "c1"}]},
            {"kind": "request", "parts": [{"part_kind": "tool-return", "tool_name": "shot", "tool_call_id": "c1", "content": {"kind": "binary", "media_type": "image/png", "data": PNG}}]},
        ],
}  # fmt: skip


@pytest.mark.parametrize("source", WITH_IMAGES)
def test_images_stay_images_where_the_target_takes_them_and_are_named_where_not(source: str) -> None:
    messages = WITH_IMAGES[source]
    history = read_history(messages, into="anthropic")
    assert history.source == source
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG}}
    assert history.messages[0]["content"] == [{"type": "text", "text": "See"}, image]
    assert [block for block in read(history.messages, "r1", "anthropic").blocks if block["type"] == "image"] == [
        {"type": "image", "mimeType": "image/png", "data": PNG}
    ]
    assert violations("anthropic", history.messages) == []
    history = read_history(messages, into="openai-chat")
    assert history.messages[0]["content"][1] == {
        "type": "image_url",
        "image_url": {"url": f"data:image/png;base64,{PNG}"},
    }
    assert "[image image/png" in history.messages[2]["content"]
    assert "an image or file of a result, named in its text (1)" in lost(history)
    assert violations("openai-chat", history.messages) == []


def test_what_is_no_image_and_no_pdf_is_named_in_the_text() -> None:
    parts = ["See", {"kind": "document-url", "url": "http://x/d.pdf", "media_type": "application/pdf"}]
    audio = {"kind": "binary", "data": "AAAA", "media_type": "audio/wav"}
    pdf = {"kind": "binary", "data": "JVBE", "media_type": "application/pdf"}
    content = [*parts, audio, pdf, {"kind": "text", "content": "read me"}]
    items = [{"kind": "request", "parts": [{"part_kind": "user-prompt", "content": content}]}]
    blocks = read_history(items, into="anthropic").messages[0]["content"]
    assert [block["type"] for block in blocks] == ["text", "document", "text", "document", "text"]
    assert (blocks[2]["text"], blocks[4]["text"]) == ("[audio/wav, 4 characters]", "read me")
    history = read_history(items, into="openai-chat")
    assert [part["type"] for part in history.messages[0]["content"]] == ["text", "text", "input_audio", "file", "text"]
    assert history.messages[0]["content"][3]["file"]["file_data"] == "data:application/pdf;base64,JVBE"
    assert lost(history) == ["an image or file of a user's message, named in its text (1)"]


def test_a_file_that_openai_keeps_is_named() -> None:
    parts = [{"type": "input_file", "file_id": "file-1"}, {"type": "input_file", "file_url": "http://x/d.pdf"}]
    history = read_history([{"role": "user", "content": parts}], "openai-responses")
    assert history.messages[0]["content"][0]["text"] == "[input_file file-1]"
    assert lost(history)[0] == "parts of type 'input_file', which OpenAI keeps under an id (1)"
    with pytest.raises(HistoryError, match="expected a Responses item"):
        read_history([{"content": "x"}], "openai-responses")


def test_a_system_message_in_the_middle_is_the_users_for_anthropic() -> None:
    history = read_history([*LANGCHAIN, LANGCHAIN[0]], into="anthropic")
    assert history.messages[-1] == {"role": "user", "content": "Be brief."}
    assert "a system message in the middle is the user's here" in history.notes
    assert violations("anthropic", history.messages) == []


def test_a_retry_without_a_tool_and_newer_instructions_are_read() -> None:
    items = copy.deepcopy(PYDANTIC_AI)
    items[-1]["instructions"] = "Be long."
    items[-1]["parts"].insert(0, {"part_kind": "retry-prompt", "tool_name": None, "content": "Plain text, please."})
    history = read_history(items)
    assert history.messages[0] == {"role": "system", "content": "Be long."}
    assert history.messages[-2] == {"role": "user", "content": "Plain text, please."}
    assert "left out: earlier instructions, which newer ones replaced (1)" in history.notes


def test_langchains_other_spellings_are_read() -> None:
    flat = [message["data"] for message in LANGCHAIN]
    names = {"system": "SystemMessage", "human": "HumanMessage", "ai": "AIMessage", "tool": "ToolMessage"}
    dumped = [
        {"lc": 1, "type": "constructor", "id": ["langchain", "schema", "messages", names[one["type"]]], "kwargs": one}
        for one in flat
    ]
    for spelling in (flat, dumped):
        assert read_history(spelling).messages == read_history(LANGCHAIN).messages


def test_gemini_is_read_with_the_keys_of_its_python_library() -> None:
    text = json.dumps(GEMINI)
    for camel, snake in {
        "systemInstruction": "system_instruction", "functionCall": "function_call",
        "functionResponse": "function_response", "thoughtSignature": "thought_signature",
    }.items():  # fmt: skip
        text = text.replace(camel, snake)
    assert read_history(json.loads(text)).messages == read_history(GEMINI).messages


def test_responses_calls_of_other_types_keep_their_results() -> None:
    history = read_history(
        [
            {"role": "user", "content": "Go"},
            {"type": "local_shell_call", "id": "l", "call_id": "c1", "action": {"type": "exec", "command": ["ls"]}},
            {"type": "local_shell_call_output", "call_id": "c1", "output": "a.py"},
            {"type": "custom_tool_call", "call_id": "c2", "name": "patch", "input": "*** Begin"},
            {"type": "custom_tool_call_output", "call_id": "c2", "output": "done"},
            {
                "type": "mcp_call",
                "id": "mcp_1",
                "name": "find",
                "arguments": '{"q":1}',
                "output": "three",
                "error": None,
            },
            {"type": "web_search_call", "id": "ws_1", "status": "completed"},
        ]
    )
    assert events(history.messages, history.format) == [
        ("user", "Go"),
        ("call", "local_shell", {"type": "exec", "command": ["ls"]}),
        ("result", "a.py"),
        ("call", "patch", {"input": "*** Begin"}),
        ("result", "done"),
        ("call", "find", {"q": 1}),
        ("result", "three"),
    ]
    assert lost(history) == ["items of type 'web_search_call' (1)"]


# What is repaired


def test_a_call_without_a_result_gets_an_error_and_the_note_names_it() -> None:
    for source, call_id in [("openai-responses", "call_1"), ("pydantic-ai", "c1"), ("langchain", "call_1")]:
        items = [item for item in SAMPLES[source] if MISSING not in json.dumps(item) or source == "pydantic-ai"]
        if source == "pydantic-ai":
            items = copy.deepcopy(items)
            del items[2]["parts"][1]
        history = read_history(items)
        assert violations(history.format, history.messages) == []
        assert any(f"put in: an error result for call '{call_id}' of read_file" in note for note in history.notes)
    history = read_history([message for message in OPENAI_CHAT if message.get("tool_call_id") != "call_1"])
    assert violations("openai-chat", history.messages) == []
    assert history.notes[1] == "put in: an error result for each call that had none (1 messages)"


def test_a_result_without_its_call_is_left_out_and_named() -> None:
    history = read_history(LANGCHAIN[3:])
    assert lost(history)[1:] == [
        "a result that answers no open call: 'call_0' at item 0 (1)",
        "a result that answers no open call: 'call_1' at item 1 (1)",
    ]
    assert violations(history.format, history.messages) == []


def test_a_history_for_anthropic_begins_with_a_user() -> None:
    history = read_history([LANGCHAIN[0], *LANGCHAIN[2:]], into="anthropic")
    assert violations("anthropic", history.messages) == []
    assert [message["role"] for message in history.messages[:3]] == ["system", "user", "assistant"]


def test_ids_and_names_that_a_provider_would_refuse_are_changed_and_that_is_said() -> None:
    call: dict[str, Any] = {"id": "a|b", "name": "fs.read", "args": {}}
    turn: list[dict[str, Any]] = [
        {"type": "ai", "data": {"content": "", "tool_calls": [call]}},
        {"type": "tool", "data": {"content": "text", "tool_call_id": "a|b"}},
    ]
    items = [LANGCHAIN[1], *turn, *turn]
    for into in ("anthropic", "openai-chat"):
        history = read_history(items, into=into)
        assert violations(into, history.messages) == []
        assert any("the tool 'fs.read' is 'fs_read' here" in note for note in history.notes)
    blocks = [block for message in read_history(items, into="anthropic").messages for block in message["content"]]
    assert [block["id"] for block in blocks if "id" in block] == ["a_b", "a_b-2"]


def test_results_of_one_reply_in_several_messages_are_put_into_one() -> None:
    first, second = ({"role": "user", "content": [block]} for block in ANTHROPIC[2]["content"])
    history = read_history([*ANTHROPIC[:2], first, second, *ANTHROPIC[3:]])
    assert history.messages == ANTHROPIC
    assert history.notes[1] == "the results of each reply are put into one message"


# What is refused


def test_a_line_that_is_no_json_is_named(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "chat.jsonl", OPENAI_CHAT)
    path.write_text(path.read_text().replace("\n", "\n{'role'}\n", 1))
    with pytest.raises(
        HistoryError, match=r"chat.jsonl, line 2: this is not valid JSON. Correct this line, or remove it"
    ):
        read_history(path)


def test_a_last_line_that_is_cut_off_is_left_out(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "chat.jsonl", OPENAI_CHAT)
    path.write_text(path.read_text()[:-20])
    history = read_history(path)
    assert history.messages == OPENAI_CHAT[:-1]
    assert "left out line 7, which is cut off" in history.notes


def test_a_wrong_message_is_named_by_file_and_line(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "chat.jsonl", [OPENAI_CHAT[0], *OPENAI_CHAT[3:]])
    with pytest.raises(HistoryError, match=r"chat.jsonl, line 2: it answers call 'call_0', which was made by no reply"):
        read_history(path)
    with pytest.raises(
        HistoryError, match=r"item 1: expected a content with 'role' and 'parts', but this item has the keys"
    ):
        read_history([GEMINI["contents"][0], {"role": "user", "content": "x"}], "gemini")


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ([], "it has no messages"),
        (7, "expected a list of messages, but this is integer"),
        (["hello"], "item 0: expected an object, but this is string"),
        ([object()], "which is not JSON. Pass plain dicts"),
        ([{"speaker": "ann"}], "expected a history of claude-code, .*but this item has the keys 'speaker'"),
        (
            [{"type": "summary", "uuid": "u"}, {"type": "user", "uuid": "v", "message": {"content": ""}}],
            "no message in it",
        ),
    ],
)
def test_what_is_no_history_is_refused_with_advice(source: Any, words: str) -> None:
    with pytest.raises(HistoryError, match=words):
        read_history(source)


def test_files_that_cannot_be_read_are_refused(tmp_path: Path) -> None:
    with pytest.raises(HistoryError, match="it cannot be read: No such file"):
        read_history(tmp_path / "missing.json")
    path = tmp_path / "history.json"
    for content, words in [
        (b"", "it is empty"),
        (b"\xff\xfe", "it is no UTF-8 text"),
        (b'[\n{"role": }]', "history.json, line 2: this is not valid JSON"),
        (b'{"role": "user", "content": "x"}\n7\n', "history.json, line 2: expected a JSON object, but this is integer"),
    ]:
        path.write_bytes(content)
        with pytest.raises(HistoryError, match=words):
            read_history(path)
    with pytest.raises(ConfigError, match=r"'langchian' is no source of histories.*Did you mean 'langchain'\?"):
        read_history(OPENAI_CHAT, "langchian")


def test_the_file_of_openai_agents_sessions_is_read(tmp_path: Path) -> None:
    history = read_history(sqlite_file(tmp_path / "one.db", "ann"))
    assert history.messages == read_history(RESPONSES).messages
    with pytest.raises(
        HistoryError,
        match=r"two.db: it holds 2 sessions: 'ann', 'bob'. Say which: read_history\('two.db', session='ann'\)",
    ):
        read_history(sqlite_file(tmp_path / "two.db", "ann", "bob"))
    with pytest.raises(HistoryError, match=r"and none is 'bbo'. Did you mean 'bob'\?"):
        read_history(tmp_path / "two.db", session="bbo")
    assert read_history(tmp_path / "two.db", session="bob").messages == history.messages
    with closing(sqlite3.connect(tmp_path / "other.db")) as database, database:
        database.execute("CREATE TABLE notes (id INTEGER)")
    with pytest.raises(HistoryError, match="an SQLite file, but not one of openai-agents' sessions"):
        read_history(tmp_path / "other.db")


def mutated(sample: Any, chance: random.Random) -> Any:
    """The sample with one to three values gone, or replaced by something else."""
    fresh = copy.deepcopy(sample)
    for _ in range(chance.randint(1, 3)):
        holder, key = chance.choice(places(fresh))
        if chance.random() < 0.3:
            del holder[key]
        else:
            others: list[Any] = [None, 7, "x", "", [], {}, [None], {"a": None}, True, ["x"], 1.5, [{}]]
            holder[key] = copy.deepcopy(chance.choice(others))
    return fresh


def places(value: Any) -> list[Any]:
    """Every value inside this one, as what holds it and its key."""
    keys: list[Any] = list(value) if is_object(value) else list(range(len(value))) if is_list(value) else []
    return [place for key in keys for place in ((value, key), *places(value[key]))]


@pytest.mark.light(every=5)
@EACH
def test_whatever_is_wrong_in_a_history_it_is_refused_clearly_or_valid(source: str) -> None:
    chance, valid = random.Random(7), 0
    for _ in range(150):
        sample = mutated(SAMPLES[source], chance)
        try:
            history = read_history(sample, chance.choice([None, source]), into=chance.choice([None, *FORMATS]))
        except (HistoryError, ConfigError) as error:
            assert len(str(error)) > 30  # noqa: PT017 - either is right
            continue
        assert problem(history.messages, history.format) is None
        if (
            history.format != history.source != "openai-agents"
        ):  # in its own format it stays as it is, but for what is known to be refused
            assert violations(history.format, history.messages) == []
        valid += 1
    assert valid > 10


# A session takes it


async def test_a_session_that_has_messages_or_an_open_run_takes_no_history() -> None:
    async with open_host() as host, host.session() as session:
        async with session.run() as run:
            with pytest.raises(FenceClosed):
                await session.load(OPENAI_CHAT)
            await run.record(OPENAI_CHAT[1])
        with pytest.raises(ConfigError, match=r"has 1 messages already. Load the history into a session with a new id"):
            await session.load(OPENAI_CHAT)
        assert session.messages == [OPENAI_CHAT[1]]


async def test_a_list_that_cannot_be_repaired_is_refused_with_its_place_and_nothing_is_stored() -> None:
    async with open_host() as host, host.session() as session:
        with pytest.raises(ConfigError, match="message 1: it answers call 'call_0'"):
            await session.load([OPENAI_CHAT[1], *OPENAI_CHAT[3:]])
        assert (session.messages, session.format) == ([], None)
        await session.load([message for message in OPENAI_CHAT if message.get("tool_call_id") != "call_0"])
        assert violations("openai-chat", session.messages) == []


async def test_a_sub_agents_session_masks_the_secrets_of_its_parent_in_what_it_loads() -> None:
    class Vault:
        @hooks.resolve_secrets
        def secret(self, event: ResolveSecrets) -> Secrets:
            return Secrets({"KEY": "hunter2-hunter2"})

    async with playing(Vault, tools=[make()]) as stage:
        await stage.call("read_file", {"path": "{{secret:KEY}}"})
        async with stage.session.child() as child:
            await child.load([{"role": "user", "content": "It is hunter2-hunter2."}])
            assert child.messages == [{"role": "user", "content": "It is {{secret:KEY}}."}]


async def test_a_session_guesses_the_format_of_a_list() -> None:
    async with open_host() as host, host.session() as session:
        await session.load(ANTHROPIC)
        assert session.format == "anthropic"


# Real transcripts


def as_responses(turns: list[Any]) -> list[Any]:
    items: list[Any] = []
    for turn in turns:
        if "user" in turn:
            items.append({"role": "user", "content": turn["user"]})
            continue
        if turn["text"]:
            items.append(
                {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": turn["text"]}]}
            )
        items += [
            {"type": "function_call", "call_id": call_id, "name": name, "arguments": json.dumps(arguments)}
            for call_id, name, arguments in turn["calls"]
        ]
        items += [
            {"type": "function_call_output", "call_id": call_id, "output": text} for call_id, text, _ in turn["results"]
        ]
    return items


def as_gemini(turns: list[Any]) -> list[Any]:
    contents: list[Any] = []
    for turn in turns:
        if "user" in turn:
            contents.append({"role": "user", "parts": [{"text": turn["user"]}]})
            continue
        calls = [{"functionCall": {"name": name, "args": arguments}} for _, name, arguments in turn["calls"]]
        contents.append({"role": "model", "parts": [{"text": turn["text"]}, *calls]})
        pairs = zip(turn["calls"], turn["results"], strict=False)
        responses = [
            {"functionResponse": {"name": call[1], "response": {"result": result[1]}}} for call, result in pairs
        ]
        contents += [{"role": "user", "parts": responses}] if responses else []
    return contents


def as_langchain(turns: list[Any]) -> list[Any]:
    items: list[Any] = []
    for turn in turns:
        if "user" in turn:
            items.append({"type": "human", "data": {"content": turn["user"]}})
            continue
        calls = [{"id": call_id, "name": name, "args": arguments} for call_id, name, arguments in turn["calls"]]
        items.append({"type": "ai", "data": {"content": turn["text"], "tool_calls": calls}})
        items += [{"type": "tool", "data": {"content": text, "tool_call_id": one}} for one, text, _ in turn["results"]]
    return items


def as_claude_code(turns: list[Any]) -> list[Any]:
    lines: list[Any] = []

    def add(line_type: str, content: Any, message_id: str = "") -> None:
        parent = lines[-1]["uuid"] if lines else None
        message = {"role": line_type, "content": content, "id": message_id}
        lines.append({"type": line_type, "uuid": f"u{len(lines)}", "parentUuid": parent, "message": message})

    for turn in turns:
        if "user" in turn:
            add("user", turn["user"])
            continue
        message_id = f"msg_{len(lines)}"
        add("assistant", [{"type": "text", "text": turn["text"]}], message_id)
        for call_id, name, arguments in turn["calls"]:
            add("assistant", [{"type": "tool_use", "id": call_id, "name": name, "input": arguments}], message_id)
        for call_id, text, _ in turn["results"]:
            add("user", [{"type": "tool_result", "tool_use_id": call_id, "content": text}])
    return lines


WRITERS = {
    "openai-responses": as_responses,
    "gemini": as_gemini,
    "langchain": as_langchain,
    "claude-code": as_claude_code,
}


@pytest.mark.light(every=5)
@pytest.mark.skipif(not TRANSCRIPTS, reason=f"the real transcripts are not at {SHARED / 'benchmarks' / 'transcripts'}")
@pytest.mark.parametrize("source", WRITERS)
def test_real_transcripts_come_back_the_same_from_every_shape(source: str) -> None:
    calls = 0
    for path in TRANSCRIPTS:
        turns = neutral(list(transcript(path)))
        wanted = events(
            read_history([one for one in transcript(path) if one["role"] != "system"]).messages, "openai-chat"
        )
        for into in ("openai-chat", "anthropic"):
            history = read_history(WRITERS[source](turns), into=into)
            assert history.source == source
            assert violations(into, history.messages) == []
            happened = [one for one in events(history.messages, into) if one != ("user", BEGINNING)]
            assert happened == wanted
        calls += len(list_results(history.messages, history.format))
    assert calls > 200


@pytest.mark.heavy
@pytest.mark.skipif(not TRANSCRIPTS, reason=f"the real transcripts are not at {SHARED / 'benchmarks' / 'transcripts'}")
async def test_every_real_transcript_is_imported_trimmed_and_sent_on() -> None:
    trimmed = 0
    async with open_host() as host:
        for path in TRANSCRIPTS:
            history = read_history(path)
            async with host.session(path.stem) as session:
                await session.load(history.messages, history.format)
                for info in session.results.list()[:2]:
                    trimmed += info.trimmable and (await session.results.trim(info.handle)).status == "applied"
                await session.drain()
                async with session.run() as run:
                    await run.record({"role": "user", "content": "Go on."})
                    assert violations("openai-chat", await run.prepare_messages()) == []
    assert trimmed > 30
