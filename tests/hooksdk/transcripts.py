"""Helpers of the transcript and store tests: opening sessions, whole turns, and a format of a host's own."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from hooksdk import schema
from hooksdk.calls import ToolCall, ToolResult
from hooksdk.formats import FORMATS, Message, MessageFormat, get_format
from hooksdk.formats.openai_chat import OpenAIChat
from hooksdk.stores import MemoryStore, SqlStore, Store
from hooksdk.tools import Tool
from hooksdk.transcript import DrainReport, Results, Transcript

OPENAI, ANTHROPIC, RESPONSES, GEMINI = ALL = [get_format(name) for name in FORMATS]
DISPOSABLE = Tool(name="tool_search", disposable=True)


class House(OpenAIChat):
    """A format that a host brings along."""

    name: str = "house"


def make_store(kind: str, directory: Path) -> Store:
    return MemoryStore() if kind == "memory" else SqlStore(directory)


async def open_transcript(
    store: Store, session_id: str = "s", form: MessageFormat | None = OPENAI, wait: float = 0.2
) -> Transcript:
    log = await store.open_session(session_id, wait=wait)
    try:
        transcript = await Transcript.open(log, session_id)
    except BaseException:
        await log.close()
        raise
    if form is not None:
        await transcript.use_format(form)
    return transcript


@asynccontextmanager
async def opened(
    store: Store, session_id: str = "s", form: MessageFormat | None = OPENAI, wait: float = 0.2
) -> AsyncGenerator[Transcript]:
    transcript = await open_transcript(store, session_id, form, wait)
    try:
        yield transcript
    finally:
        await transcript.close()


def call(number: int, call_id: str | None = None, name: str = "read_file") -> ToolCall:
    return ToolCall(call_id or f"c{number}", name, {"path": f"file{number}"})


def turn(form: MessageFormat, number: int, text: str, call_id: str | None = None) -> list[Message]:
    """One reply with one call, and its result."""
    made = call(number, call_id)
    return [form.reply("", [made]), *form.result_messages([(made, ToolResult(text))])]


def history(form: MessageFormat, texts: Sequence[str], call_id: str | None = None) -> list[Message]:
    """A question, one turn for each text, and a last reply: every result has been read by the model."""
    messages = [form.user("question")]
    for number, text in enumerate(texts, 1):
        messages += turn(form, number, text, call_id)
    return [*messages, form.reply("answer")]


def texts(transcript: Transcript, messages: Sequence[Message]) -> list[str]:
    """What the results in these messages read."""
    assert transcript.format
    return texts_of(transcript.format, messages)


def texts_of(form: MessageFormat, messages: Sequence[Message]) -> list[str]:
    """What the results in these messages read."""
    return [found.text for message in messages for found in form.results(message)]


def statuses(report: DrainReport) -> list[str]:
    """What became of each queued trim and restore."""
    return [trim.status for trim in report.trims]


def view_size(transcript: Transcript) -> int:
    """How many characters of JSON the model is sent."""
    return len(schema.canonical(transcript.view))


def body(number: int, length: int = 1_000) -> str:
    return f"result {number}: ".ljust(length, "x")


def shape(messages: Sequence[Message]) -> list[Any]:
    return [message["role"] for message in messages]


async def filled(store: Store, results: int = 3) -> list[Message]:
    """A closed session with one applied and one queued trim; answers what the model sees of it."""
    async with opened(store) as transcript:
        await transcript.append(history(OPENAI, [body(number) for number in range(1, results + 1)]))
        await Results(transcript, "p").trim("r1", "first")
        await transcript.drain()
        await Results(transcript, "p").trim("r2", "second")
        return transcript.view
