"""Long arguments of old calls are shortened like results: under handles of their own, and nothing else changes."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from transcripts import ALL, opened

from hooksdk import ToolCall, ToolResult
from hooksdk.errors import UnknownResult
from hooksdk.formats import FORMATS, HasArguments, Message, MessageFormat, get_format
from hooksdk.formats.kit import arguments_of
from hooksdk.stores import MemoryStore, Store
from hooksdk.transcript import Results, Transcript
from hooksdk.trimming import list_results, problem, read, trim

pytestmark = pytest.mark.anyio

POEM = "Shall I compare thee to a summer's day?\n" * 50
EDITS = [{"old": "day", "new": "night" * 300}]
WRITE = ToolCall("w", "write_file", {"path": "poem.md", "content": POEM, "edits": EDITS, "mode": 420})
LOOK = ToolCall("l", "look", {})


def written(form: MessageFormat) -> list[Message]:
    """A question, a turn of three calls of which the second has long arguments, and the answer."""
    calls = [LOOK, WRITE, ToolCall("m", "look", {"path": "x"})]
    results = [(one, ToolResult("done")) for one in calls]
    return [
        form.user("Write!"),
        *form.reply_messages("Yes.", calls),
        *form.result_messages(results),
        form.reply("Written."),
    ]


def arguments_in(form: MessageFormat, messages: list[Message]) -> list[Any]:
    return [arguments_of(call.arguments) for message in messages for call in form.calls(message)]


@pytest.fixture
async def transcript(store: Store, form: MessageFormat) -> AsyncIterator[Transcript]:
    async with opened(store, form=form) as transcript:
        await transcript.append(written(form))
        yield transcript


async def trimmed(transcript: Transcript, handle: str, replacement: str | None = None) -> str:
    receipt = await Results(transcript, "p").trim(handle, replacement)
    assert receipt.status == "queued", receipt
    await transcript.drain()
    return receipt.text


async def test_long_arguments_are_listed_before_the_result_of_their_call(transcript: Transcript) -> None:
    infos = transcript.list_results(arguments=True)
    assert [(info.handle, info.argument) for info in infos] == [
        ("r1", ""), ("r2.content", "content"), ("r2.edits", "edits"), ("r2", ""), ("r3", ""),
    ]  # fmt: skip
    content = infos[1]
    assert (content.tool, content.characters, content.trimmable) == ("write_file", len(POEM), True)
    assert "Written" not in str(transcript.messages[content.position])
    assert transcript.format is not None
    assert "write_file" in [call.name for call in transcript.format.calls(transcript.messages[content.position])]


async def test_results_alone_are_listed_unless_arguments_are_asked_for(transcript: Transcript) -> None:
    assert [info.handle for info in transcript.list_results()] == ["r1", "r2", "r3"]


async def test_a_trimmed_argument_is_a_note_and_everything_else_stays(
    transcript: Transcript, form: MessageFormat
) -> None:
    before = transcript.view
    note = await trimmed(transcript, "r2.content", "sonnet 18")
    assert note.startswith("[Argument r2.content of write_file was trimmed: 2,000 characters.")
    assert note.endswith("Summary: sonnet 18")
    wanted = arguments_in(form, before)
    wanted[1] = {**wanted[1], "content": note}
    assert arguments_in(form, transcript.view) == wanted
    others = [message for message in before if all(call.name != "write_file" for call in form.calls(message))]
    assert all(message in transcript.view for message in others)
    assert arguments_in(form, transcript.messages)[1] == WRITE.arguments


async def test_an_argument_that_is_no_text_becomes_the_note_as_well(
    transcript: Transcript, form: MessageFormat
) -> None:
    note = await trimmed(transcript, "r2.edits")
    assert arguments_in(form, transcript.view)[1]["edits"] == note
    assert json.loads(transcript.read_result("r2.edits").text) == EDITS


async def test_two_arguments_of_one_call_are_trimmed_one_by_one(transcript: Transcript, form: MessageFormat) -> None:
    notes = [await trimmed(transcript, f"r2.{name}") for name in ("content", "edits")]
    shown = arguments_in(form, transcript.view)[1]
    assert [shown["content"], shown["edits"], shown["path"]] == [*notes, "poem.md"]


async def test_it_is_read_and_restored_to_the_byte(transcript: Transcript) -> None:
    before = transcript.view
    await trimmed(transcript, "R2.content")
    assert Results(transcript, "p").read("r2.content") == POEM
    assert (await Results(transcript, "p").restore("r2.content")).status == "queued"
    await transcript.drain()
    assert transcript.view == before


async def test_a_list_that_its_host_keeps_may_have_it_either_way(transcript: Transcript) -> None:
    whole = transcript.view
    await trimmed(transcript, "r2.content")
    for messages in (whole, transcript.view, transcript.messages):
        assert (await transcript.match(messages), len(transcript.view)) == ([], len(whole))


async def test_it_stays_trimmed_in_a_session_that_is_opened_again(store: Store, form: MessageFormat) -> None:
    async with opened(store, form=form) as transcript:
        await transcript.append(written(form))
        await trimmed(transcript, "r2.content")
        await Results(transcript, "p").trim("r2.edits")
        shown, infos = transcript.view, transcript.list_results(arguments=True)
    async with opened(store, form=form) as transcript:
        assert (transcript.view, transcript.list_results(arguments=True)) == (shown, infos)
        assert [info.handle for info in infos if info.queued] == ["r2.edits"]


async def test_the_newest_call_keeps_its_arguments_until_the_model_has_read_the_result(form: MessageFormat) -> None:
    async with opened(MemoryStore(), form=form) as transcript:
        await transcript.append(written(form)[:-1])
        receipt = await Results(transcript, "p").trim("r2.content")
        assert (receipt.status, receipt.text) == (
            "not_trimmed",
            "r2.content cannot be trimmed: the model has not read it yet",
        )


async def test_an_argument_that_is_short_or_unknown_has_no_handle(transcript: Transcript) -> None:
    for handle in ("r2.path", "r2.mode", "r2.nothing", "r1.content", "r2."):
        with pytest.raises(UnknownResult, match="r1 to r3"):
            transcript.read_result(handle)


@pytest.mark.parametrize("name", ["new text", "Inhalt\N{EM DASH}neu", "日本", "x" * 100])
def test_an_argument_goes_by_the_handle_in_its_note_whatever_its_name_is(form: MessageFormat, name: str) -> None:
    call = ToolCall("w", "write_file", {name: POEM, "path": "poem.md"})
    messages = [
        form.user("Write!"),
        *form.reply_messages("", [call]),
        *form.result_messages([(call, ToolResult("done"))]),
        form.reply("Ok."),
    ]
    (handle, _) = [info.handle for info in list_results(messages, form, arguments=True)]
    (shown, *_) = arguments_in(form, trim(messages, [handle], form))
    in_note = shown[name].split()[1]
    assert in_note.isascii()
    assert read(messages, handle, form).text == read(messages, in_note, form).text == POEM


def test_a_handle_in_a_note_that_may_mean_two_arguments_means_none() -> None:
    form = get_format("anthropic")
    call = ToolCall("w", "write_file", {"a b": POEM, "a/b": EDITS, "a!b": POEM})
    messages = [
        form.user("Write!"),
        form.reply("", [call]),
        *form.result_messages([(call, ToolResult("done"))]),
        form.reply("Ok."),
    ]
    assert read(messages, "r1.a b", form).text == POEM
    with pytest.raises(UnknownResult):
        read(messages, "r1.a_b", form)


def test_a_long_argument_without_a_name_does_not_stand_in_the_way_of_the_result(form: MessageFormat) -> None:
    call = ToolCall("w", "write_file", {"": POEM})
    messages = [
        form.user("Write!"),
        *form.reply_messages("", [call]),
        *form.result_messages([(call, ToolResult(POEM * 2))]),
        form.reply("Ok."),
    ]
    assert [info.handle for info in list_results(messages, form, arguments=True)] == ["r1"]
    assert read(messages, "r1", form).text == POEM * 2
    assert len(str(trim(messages, ["r1"], form))) < len(str(messages))


async def test_arguments_that_are_no_json_are_left_alone() -> None:
    form = get_format("openai-chat")
    call = ToolCall("w", "write_file", '{"content": "' + POEM)
    async with opened(MemoryStore(), form=form) as transcript:
        await transcript.append([
            form.user("Write!"), form.reply("", [call]), *form.result_messages([(call, ToolResult("done"))]), form.reply("Oh.")
        ])  # fmt: skip
        assert [info.handle for info in transcript.list_results(arguments=True)] == ["r1"]


def test_a_plain_list_is_shortened_in_the_same_way(form: MessageFormat) -> None:
    messages = written(form)
    handles = [info.handle for info in list_results(messages, form, arguments=True) if info.trimmable]
    shorter = trim(messages, handles, form)
    assert (handles, problem(shorter, form)) == (["r2.content", "r2.edits"], None)
    assert read(messages, "r2.content", form).text == POEM
    assert "recall" not in str(shorter)
    assert arguments_in(form, messages)[1] == WRITE.arguments


names = st.sampled_from(["content", "path", "input", "x"])
given_arguments = st.dictionaries(names, st.text(max_size=20) | st.integers() | st.none())


@pytest.mark.parametrize("form", ALL, ids=FORMATS)
@given(calls=st.lists(given_arguments, min_size=1, max_size=4), data=st.data())
def test_a_format_changes_the_arguments_of_one_call_and_nothing_else(
    form: MessageFormat, calls: list[dict[str, Any]], data: st.DataObject
) -> None:
    assert isinstance(form, HasArguments)
    messages = form.reply_messages("text", [ToolCall(f"c{at}", "f", each) for at, each in enumerate(calls)])
    at = data.draw(st.integers(0, len(messages) - 1))
    found = form.calls(messages[at])
    if not found:
        return
    index = data.draw(st.integers(0, len(found) - 1))
    texts = data.draw(st.dictionaries(names, st.text(st.characters(codec="utf-8")), min_size=1))
    changed = form.with_arguments(messages[at], index, texts)
    expected = [arguments_of(call.arguments) for call in found]
    expected[index] = {**(expected[index] or {}), **texts}
    assert [arguments_of(call.arguments) for call in form.calls(changed)] == expected
    assert [(call.id, call.name, type(call.arguments)) for call in form.calls(changed)] == [
        (call.id, call.name, type(call.arguments)) for call in found
    ]
    assert form.text(changed) == form.text(messages[at])
    assert form.check(changed) is None


@pytest.mark.parametrize(
    ("name", "message"),
    [
        (
            "openai-chat",
            {"role": "assistant", "content": None, "function_call": {"name": "f", "arguments": '{"x": "1"}'}},
        ),
        (
            "openai-chat",
            {"role": "assistant", "tool_calls": [{"id": "a", "type": "custom", "custom": {"name": "f", "input": "x"}}]},
        ),
        ("openai-responses", {"type": "custom_tool_call", "call_id": "a", "name": "f", "input": "x"}),
        ("gemini", {"role": "model", "parts": [{"function_call": {"name": "f", "args": {"x": "1"}}}]}),
    ],
)
def test_other_shapes_of_calls_keep_theirs(name: str, message: Message) -> None:
    form = get_format(name)
    assert isinstance(form, HasArguments)
    (argument,) = arguments_of(form.calls(message)[0].arguments) or {}
    changed = form.with_arguments(message, 0, {argument: "new"})
    assert arguments_of(form.calls(changed)[0].arguments) == {argument: "new"}
    assert (form.check(changed), changed.keys()) == (None, message.keys())
