"""What a session sends is taken by its provider: ids that come again or are malformed, empty content, a reply at the beginning.
What is stored stays as it came, and results go by their stored ids everywhere but in the list that is sent."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from provider_rules import id_violations, in_format, neutral, violations
from test_formats_properties import TRANSCRIPTS, transcript
from transcripts import ALL, ANTHROPIC, GEMINI, OPENAI, RESPONSES, House, body, texts_of

from hooksdk import Host, ToolCall, ToolResult
from hooksdk.errors import ConfigError, TranscriptChanged, UnknownResult
from hooksdk.formats import FORMATS, Message, MessageFormat
from hooksdk.formats.sending import sendable
from hooksdk.testing import open_session
from hooksdk.trimming import list_results, problem, read, repair
from tests.stage import make

pytestmark = pytest.mark.anyio
EVERY = pytest.mark.parametrize("form", ALL, ids=FORMATS)
KIMI = "functions.read_file:0"
"""As Kimi's models write ids: the same in each turn, with characters that Anthropic refuses."""
LONG = "call_" + "x" * 80


def turn(form: MessageFormat, number: int, *ids: str, length: int = 1_000) -> list[Message]:
    """One reply that calls for each id, and the results."""
    calls = [ToolCall(call_id, "read_file", {"path": f"{number}-{at}"}) for at, call_id in enumerate(ids)]
    answered = [(call, ToolResult(body(number * 10 + at, length))) for at, call in enumerate(calls)]
    return [*form.reply_messages("", calls), *form.result_messages(answered)]


def conversation(form: MessageFormat, *turns: tuple[str, ...]) -> list[Message]:
    messages = [form.user("Read them.")]
    for number, ids in enumerate(turns, 1):
        messages += turn(form, number, *ids)
    return [*messages, *form.reply_messages("Done.")]


def ids_in(form: MessageFormat, messages: list[Message]) -> tuple[list[str], list[str]]:
    """The ids of the calls and of the results."""
    calls = [call.id for message in messages for call in form.calls(message)]
    return calls, [result.call_id for message in messages for result in form.results(message)]


def refused(form: MessageFormat, messages: list[Message]) -> list[str]:
    return [*violations(form.name, messages), *id_violations(form.name, messages)]


@EVERY
async def test_ids_that_come_again_or_are_malformed_are_others_in_the_view_and_stay_in_the_session(
    form: MessageFormat,
) -> None:
    messages = conversation(form, (KIMI,), (KIMI, "fine"), (LONG, KIMI), (LONG,))
    assert id_violations(form.name, messages)
    async with open_session() as session:
        await session.load(messages, form)
        assert session.messages == messages
        view = session.view
        assert refused(form, view) == []
        assert problem(view, form) is None
        calls, results = ids_in(form, view)
        assert calls == results
        assert calls[2] == "fine"
        assert texts_of(form, view) == texts_of(form, messages)
        assert sendable(view, form) == view
        assert repair(messages, form) == view


@EVERY
async def test_ids_that_are_fine_and_everything_else_stay_to_the_byte(form: MessageFormat) -> None:
    messages = conversation(form, ("a",), ("b", "c"))
    assert all(one is other for one, other in zip(sendable(messages, form), messages, strict=True))


@EVERY
async def test_each_request_begins_with_the_bytes_of_the_one_before_it(form: MessageFormat) -> None:
    async with open_session(tools=[make()]) as session, session.run(format=form) as run:
        await run.record(form.user("Read them."))
        before: list[Message] = []
        for number in range(5):
            await run.record(turn(form, number, KIMI, f"{KIMI}-2", KIMI))
            now = list(await run.prepare_messages())
            assert json.dumps(now).startswith(json.dumps(before)[:-1])
            assert refused(form, now) == []
            before = now


@EVERY
async def test_trims_go_by_the_stored_ids(form: MessageFormat) -> None:
    async with open_session() as session:
        await session.load(conversation(form, (KIMI,), (KIMI,), ("last",)), form)
        await session.trim("r2", "the second")
        async with session.run(format=form) as run:
            prepared = await run.prepare_messages()
            assert [text.endswith("the second") for text in texts_of(form, prepared)] == [False, True, False]
            assert list(prepared.trimmed) == [(KIMI, 1)] == list(session.trimmed)
            assert [info.call_id for info in session.results.list()] == [KIMI, KIMI, "last"]


@EVERY
async def test_the_model_finds_a_result_by_the_id_that_it_sees(form: MessageFormat) -> None:
    async with open_session() as session:
        await session.load(conversation(form, (KIMI,), (KIMI, "b"), ("last",)), form)
        seen = ids_in(form, session.view)[1]
        assert [session.results.read(each) for each in seen[1:]] == [body(20), body(21), body(30)]
        with pytest.raises(UnknownResult, match="no tool result goes by"):
            session.results.read(f"{KIMI}-9")
    with pytest.raises(UnknownResult):
        read(conversation(form, (KIMI,), (KIMI,)), seen[1], form)


@EVERY
async def test_a_host_that_keeps_the_list_it_was_given_goes_on_with_it_also_after_a_trim(form: MessageFormat) -> None:
    async with open_session() as session:
        await session.load(conversation(form, (KIMI,), (KIMI,), ("last",)), form)
        async with session.run(format=form) as run:
            mine = list(await run.prepare_messages())
            mine.append(form.user("And now?"))
            assert await run.prepare_messages(mine) == mine
        await session.trim("r2", "the second")
        async with session.run(format=form) as run:
            mine += form.reply_messages("That is all.")
            prepared = await run.prepare_messages(mine)
            assert [text.endswith("the second") for text in texts_of(form, prepared)] == [False, True, False]
            assert len(session.messages) == len(mine)
            assert await run.prepare_messages(session.messages) == prepared


@EVERY
async def test_in_a_list_that_is_followed_the_hosts_own_ids_stay(form: MessageFormat) -> None:
    messages = conversation(form, (KIMI,), (KIMI,), ("last",))
    async with open_session() as session, session.run(format=form) as run:
        assert await run.prepare_messages(messages, follow=True) == messages
        forked = [*messages[:-1], *form.reply_messages("Otherwise.")]
        assert await run.prepare_messages(forked, follow=True) == forked


@EVERY
async def test_an_open_call_is_answered_under_either_id(form: MessageFormat) -> None:
    history = conversation(form, (KIMI,), ("b",))
    waiting = [
        *form.reply_messages(
            "", [ToolCall(KIMI, "read_file", {"path": "x"}), ToolCall(KIMI, "read_file", {"path": "y"})]
        )
    ]
    for way in ("tool", "judge", "record"):
        async with open_session() as session:
            await session.load([*history, form.user("Again."), *waiting], form)
            shown = [call for message in session.view for call in form.calls(message)][-2:]
            assert len({call.id for call in shown}) == 2
            async with session.run(format=form) as run:
                await run.resolve_tools([make()])
                if way == "record":
                    await run.record(form.result_messages([(call, ToolResult(f"{call.id} done")) for call in shown]))
                else:
                    for call in shown:
                        judged = await run.judge(call) if way == "judge" else None
                        result = await judged.execute() if judged else await run.call_tool(call)
                        assert "ran with" in result.text
                        assert await run.call_tool(call) == result  # and is not run again
                assert not run.pending
                assert refused(form, await run.prepare_messages()) == []
            assert ids_in(form, session.messages)[1][-2:] == [KIMI, KIMI]


@EVERY
async def test_an_id_that_an_earlier_call_has_in_the_view_answers_no_open_call(form: MessageFormat) -> None:
    waiting = form.reply_messages("", [ToolCall(KIMI, "read_file", {"path": "x"})])
    async with open_session() as session:
        await session.load([*conversation(form, (KIMI,), (KIMI,)), form.user("Again."), *waiting], form)
        earlier = [call for message in session.view for call in form.calls(message)][1]
        async with session.run(format=form) as run:
            with pytest.raises(TranscriptChanged, match="was made by no reply before it"):
                await run.record(form.result_messages([(earlier, ToolResult("done"))]))
            assert len(run.pending) == 1


@EVERY
async def test_a_compaction_of_the_view_keeps_the_results_that_it_keeps(form: MessageFormat) -> None:
    async with open_session() as session:
        await session.load(conversation(form, (KIMI,), (KIMI,), ("last",)), form)
        async with session.run(format=form) as run:
            view = session.view
            kept = view[-1 - len(turn(form, 3, "last")) - len(turn(form, 2, KIMI)) :]
            async with run.compaction() as compaction:
                await compaction.replace([form.user("They were read."), *kept])
        assert [info.why_not for info in session.results.list()][1:] == [None, None]
        assert (await session.trim("r2", "the second")).status == "applied"
        assert refused(form, session.view) == []


async def test_what_a_plugin_sees_and_puts_in_place_is_mended_as_it_leaves() -> None:
    from hooksdk import hooks
    from hooksdk.hooks import BeforeModelCall, ReplaceMessages

    seen: list[list[str]] = []

    class Shorter:
        @hooks.before_model_call
        async def shorter(self, event: BeforeModelCall) -> ReplaceMessages:
            seen.append(ids_in(ANTHROPIC, [dict(message) for message in event.messages])[0])
            return ReplaceMessages([dict(message) for message in event.messages][1:])

    async with Host([Shorter]) as host, host.session("s") as session:
        await session.load(conversation(ANTHROPIC, (KIMI,), (KIMI,)), "anthropic")
        async with session.run(format="anthropic") as run:
            prepared = await run.prepare_messages()
            assert prepared.replaced
            assert refused(ANTHROPIC, prepared) == []
    assert seen == [[KIMI, KIMI]]


def anthropic(*blocks: Any, role: str = "user") -> Message:
    return {"role": role, "content": list(blocks)}


BLANK: Message = {"type": "text", "text": " \n"}
HELLO: Message = {"type": "text", "text": "Hello"}
UNSIGNED: Message = {"type": "thinking", "thinking": "Hm.", "signature": ""}
FAILED = {"type": "tool_result", "tool_use_id": "a", "is_error": True}
USED: Message = {"type": "tool_use", "id": "a", "name": "f", "input": {}}
ASKED: Message = {"role": "user", "content": "go"}
CALLED: Message = {"role": "assistant", "content": [USED]}
CHAT_CALLED = OPENAI.reply("", [ToolCall("a", "f", {})])
TOLD: Message = {"role": "user", "parts": [{"text": "go"}]}
MODEL: Message = {"role": "model", "parts": [{"functionCall": {"name": "f", "args": {}}}]}
REFUSED: list[tuple[MessageFormat, list[Message], str]] = [
    (ANTHROPIC, [{"role": "assistant", "content": "Hello"}, ASKED], "message 0: a user must speak before it"),
    (ANTHROPIC, [{"role": "system", "content": "Be brief."}, anthropic(HELLO, role="assistant"), ASKED], "message 1: a user"),
    (ANTHROPIC, [ASKED, {"role": "assistant", "content": []}, ASKED], "message 1: its content is empty"),
    (ANTHROPIC, [ASKED, {"role": "assistant", "content": ""}, ASKED], "message 1: its content is blank"),
    (ANTHROPIC, [anthropic(HELLO, BLANK)], "message 0: it has a blank text"),
    (ANTHROPIC, [ASKED, anthropic(UNSIGNED, HELLO, role="assistant"), ASKED], "message 1: it has thinking without"),
    (ANTHROPIC, [ASKED, anthropic(UNSIGNED, role="assistant"), ASKED], "message 1: its reply was cut off"),
    (ANTHROPIC, [ASKED, CALLED, anthropic({**FAILED, "content": ""})], "message 2: a result that is an error must"),
    (ANTHROPIC, [ASKED, CALLED, anthropic({**FAILED, "content": [{"type": "image", "source": {}}]})], "message 2: a result"),
    (ANTHROPIC, [ASKED, CALLED, anthropic({**FAILED, "is_error": False, "content": [BLANK]})], "message 2: a result has"),
    (ANTHROPIC, conversation(ANTHROPIC, ("a",), ("a",)), "message 3: message 1 has a call with the id 'a' already"),
    (ANTHROPIC, conversation(ANTHROPIC, ("a", "a")), "message 1: message 1 has a call with the id 'a' already"),
    (ANTHROPIC, conversation(ANTHROPIC, (KIMI,)), f"message 1: the id of call '{KIMI}' is too long, or has"),
    (OPENAI, conversation(OPENAI, (LONG,)), "message 1: the id of call"),
    (OPENAI, [ASKED, {"role": "assistant", "content": None}], "message 1: it has no content"),
    (OPENAI, [ASKED, {"role": "assistant", "content": "Hi", "tool_calls": []}], "message 1: its 'tool_calls' are an empty"),
    (OPENAI, [{"role": "user", "content": []}], "message 0: its content is an empty list"),
    (OPENAI, [ASKED, {**CHAT_CALLED, "content": [UNSIGNED]}, *OPENAI.result_messages([(ToolCall("a", "f", {}), ToolResult("x"))])],
     "message 1: it has thinking"),
    (OPENAI, [ASKED, CHAT_CALLED, {"role": "tool", "tool_call_id": "a", "content": None}], "message 2: it has no content"),
    (RESPONSES, conversation(RESPONSES, (LONG,)), "message 1: the id of call"),
    (RESPONSES, [ASKED, {"role": "assistant", "content": [{"type": "input_text", "text": "Hi"}]}], "message 1: the text of"),
    (RESPONSES, [{"role": "user", "content": [UNSIGNED, {"type": "input_text", "text": "Hi"}]}], "message 0: it has thinking"),
    (RESPONSES, [ASKED, {"type": "message", "id": "x", "role": "assistant", "content": "Hi"}], "message 1: its 'id' does not"),
    (GEMINI, [MODEL], "message 0: a user must speak before it"),
    (GEMINI, [TOLD, {"role": "model", "parts": [{"text": ""}]}], "message 1: it has a part of empty text"),
    (GEMINI, [TOLD, {"role": "model", "parts": []}], "message 1: it has no parts"),
]  # fmt: skip


@pytest.mark.parametrize(("form", "messages", "words"), REFUSED)
async def test_what_a_provider_is_known_to_refuse_is_told_mended_and_not_sent(
    form: MessageFormat, messages: list[Message], words: str
) -> None:
    before = copy.deepcopy(messages)
    assert str(problem(messages, form)).startswith(words)
    assert problem(repair(messages, form), form) is None
    assert refused(form, repair(messages, form)) == [] or form.calls(messages[-1])
    assert messages == before
    async with open_session() as session:
        await session.load(messages, form)
        assert problem(session.view, form) is None
        view = session.view
        async with session.run(format=form) as run:
            mine = list(await run.prepare_messages())
            assert problem(mine, form) is None
            mine.append(form.user("Go on."))
            assert await run.prepare_messages(mine) == mine
        assert len(session.messages) >= len(view) - 1


def test_what_is_no_rule_is_not_told() -> None:
    signed: Message = {"type": "thinking", "thinking": "Hm.", "signature": "c2ln"}
    assert problem([ASKED, anthropic(signed, HELLO, role="assistant")], ANTHROPIC) is None
    assert problem([{"role": "assistant", "content": "Hello"}, ASKED], OPENAI) is None
    assert problem(conversation(OPENAI, ("a",), ("a",)), OPENAI) is None
    signature = {"text": "", "thoughtSignature": "c2ln"}
    assert problem([TOLD, {"role": "model", "parts": [signature]}], GEMINI) is None
    empty = {"type": "message", "id": "msg_1", "role": "assistant", "content": [{"type": "output_text", "text": "Hi"}]}
    assert problem([ASKED, empty], RESPONSES) is None


def test_calls_whose_ids_the_message_does_not_hold_stay_as_they_are() -> None:
    legacy: list[Message] = [
        {"role": "assistant", "content": None, "function_call": {"name": "f", "arguments": "{}"}},
        {"role": "function", "name": "f", "content": "x"},
    ]
    assert sendable([ASKED, *legacy, *legacy], OPENAI) == [ASKED, *legacy, *legacy]
    contents = [
        TOLD,
        MODEL,
        {"role": "user", "parts": [{"functionResponse": {"name": "f", "response": {"output": "x"}}}]},
    ]
    assert sendable([*contents, *contents], GEMINI) == [*contents, *contents]
    custom = [
        {"type": "custom_tool_call", "call_id": "c", "name": "g", "input": "1"},
        {"type": "custom_tool_call_output", "call_id": "c", "output": "x"},
    ]
    assert [item["call_id"] for item in sendable([*custom, *custom], RESPONSES)] == ["c", "c", "c-2", "c-2"]


def test_a_format_of_ones_own_without_rules_is_sent_as_it_is() -> None:
    class Bare:
        name = "bare"

        def __init__(self) -> None:
            for method in ("calls", "check", "is_reply", "results", "tools", "replace", "result_messages", "add_context",
                           "user", "reply", "reply_messages", "text"):  # fmt: skip
                setattr(self, method, getattr(OPENAI, method))
            self.grouped = self.joined = False

    bare: Any = Bare()
    messages = conversation(OPENAI, ("a",), ("a",))
    assert sendable(messages, bare) == messages
    assert problem(messages, bare) is None
    assert sendable(messages, House()) != messages


NASTY = st.sampled_from(["a", "a-2", "a-2-2", KIMI, "functions_read_file_0", LONG, LONG + "y", LONG[:40], "é", "-"])
TURNS = st.lists(st.lists(NASTY, min_size=1, max_size=3), max_size=6)


@pytest.mark.light(every=5)
@EVERY
@settings(max_examples=100, deadline=None)
@given(turns=TURNS)
def test_whatever_the_ids_pairs_stay_paired_and_earlier_ones_do_not_depend_on_later_ones(
    form: MessageFormat, turns: list[list[str]]
) -> None:
    messages = conversation(form, *(tuple(ids) for ids in turns))
    sent = sendable(messages, form)
    assert refused(form, sent) == []
    assert problem(sent, form) is None
    assert sendable(sent, form) == sent
    calls, results = ids_in(form, sent)
    assert calls == results
    assert texts_of(form, sent) == texts_of(form, messages)
    for end in range(len(messages)):
        assert sendable(messages[:end], form) == sent[:end]
    assert [(info.tool, info.arguments) for info in list_results(sent, form)] == [
        (info.tool, info.arguments) for info in list_results(messages, form)
    ]


@pytest.mark.light(every=5)
@EVERY
async def test_every_real_transcript_is_sent_as_its_provider_takes_it_though_ids_come_again(
    form: MessageFormat,
) -> None:
    reused = 0
    for path in TRANSCRIPTS:
        messages = in_format(form.name, neutral(list(copy.deepcopy(transcript(path)))))
        async with open_session() as session:
            await session.load(messages, form)
            reused += bool(id_violations(form.name, session.messages))
            assert refused(form, session.view) == []
            assert problem(session.view, form) is None
            assert texts_of(form, session.view) == texts_of(form, session.messages)
    assert reused >= 3


def test_a_result_without_its_call_cannot_be_mended() -> None:
    with pytest.raises(ConfigError, match="message 1: it answers call 'c'"):
        repair([ASKED, anthropic({"type": "tool_result", "tool_use_id": "c", "content": "x"})], ANTHROPIC)
