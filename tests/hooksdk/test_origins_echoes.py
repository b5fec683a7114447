"""A trusted tool repeats what it was asked. Whatever its text says that can be made of what its calls have said comes from the model,
in whatever way it is written, and is cleared by nothing in that text."""

from __future__ import annotations

import html
import json
import quopri
import unicodedata
from collections.abc import Callable
from typing import Any
from urllib.parse import quote, unquote

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from hooksdk import MemoryStore, Session, ToolCall, ToolContext, ToolResult
from hooksdk._origins.folding import fold_value, undo_escapes
from hooksdk._origins.texts import Texts
from hooksdk._run.reading import Asked
from hooksdk.formats import get_format
from hooksdk.hooks import Origin
from tests.hooksdk.test_origins import BOB, EVE, FREE, Look
from tests.hooksdk.writers import LISTED, OTHERS
from tests.stage import Stage, make, playing

pytestmark = pytest.mark.anyio
Writer = Callable[[str], str]
FORMAT = get_format("openai-chat")
TRUSTED = frozenset({"trusted"})


def every(write: Callable[[str], str]) -> Writer:
    return lambda value: "".join(map(write, value))


def of_mail(value: str) -> str:
    return quopri.encodestring(value.encode("utf-8", "surrogatepass"), quotetabs=True).decode()


WRITERS: dict[str, Writer] = {
    "as it is": str,
    "JSON": lambda value: json.dumps(value)[1:-1],
    "every character in JSON": every(lambda char: json.dumps(char)[1:-1] if ord(char) > 126 else f"\\u{ord(char):04x}"),
    "signs in JSON": every(lambda char: char if char.isalnum() else f"\\u{min(ord(char), 0xFFFF):04X}"),
    "JSON of PHP": lambda value: json.dumps(value)[1:-1].replace("/", "\\/"),
    "HTML": html.escape,
    "every character in HTML": every(lambda char: f"&#{ord(char)};"),
    "HTML with names": lambda value: value.replace("&", "&amp;").replace("@", "&commat;").replace(".", "&period;"),
    "an address": lambda value: quote(value.encode("utf-8", "surrogatepass"), safe=""),
    "every character in an address": lambda value: "".join(f"%{code:02x}" for code in value.encode("utf-8", "surrogatepass")),
    "mail": of_mail,
    "JavaScript": every(lambda char: f"\\u{{{ord(char):x}}}"),
    "upper case": str.upper,
    "one form of Unicode": lambda value: unicodedata.normalize("NFD", value),
    "another form of Unicode": lambda value: unicodedata.normalize("NFKC", value),
    "another width": every(lambda char: chr(ord(char) + 0xFEE0) if "!" <= char <= "~" else char),
    "soft hyphens": lambda value: "\u00ad".join(value),
    "what nobody sees": lambda value: "\u200b".join(value),
}  # fmt: skip
READERS: dict[str, Writer] = {
    "as it is": str, "JSON": undo_escapes, "HTML": html.unescape, "an address": unquote, "upper case": str.upper,
    "mail": lambda text: quopri.decodestring(text.encode("utf-8", "surrogatepass")).decode("utf-8", "replace"),
    "one form of Unicode": lambda text: unicodedata.normalize("NFC", text),
    "JSON once more": lambda text: json.dumps(text)[1:-1],
}  # fmt: skip
"""What a tool may do with what it repeats."""

WAYS: dict[str, Callable[[str, str], Any]] = {
    "an argument": lambda text, _: {"name": text},
    "two arguments": lambda text, _: {"a": text[: len(text) // 2], "b": text[len(text) // 2 :]},
    "two arguments, the last first": lambda text, _: {"a": text[len(text) // 2 :], "b": text[: len(text) // 2]},
    "single characters": lambda text, _: {"parts": [*text]},
    "a key": lambda text, _: {"filter": {text: True}},
    "JSON text": lambda text, _: {"query": json.dumps({"name": text})},
    "JSON text in JSON text": lambda text, _: {"query": json.dumps([json.dumps({text: text})])},
    "a longer text": lambda text, _: {"query": f"who is {text}?"},
    "user and host": lambda _, value: {"domain": value.partition("@")[2], "limit": 5, "user": value.partition("@")[0]},
    "text": lambda text, _: text,
}  # fmt: skip
"""The arguments of the call, of a written value and the value."""


def is_cleared(value: str, arguments: Any, answer: str) -> bool:
    """Whether a trusted tool's answer to these arguments clears a value."""
    folded = fold_value(value)
    asked = Asked()
    asked.note("find", arguments, (0, 0))
    texts = Texts()
    texts.add(answer, TRUSTED, moment=(0, 1), tool="find")
    return folded is not None and texts.find(folded, lambda tool: asked.first_said(tool, folded)) is not None


ADDRESSES = st.from_regex(r"[a-z]{3,8}\.?[a-z]{1,8}@[a-z]{3,8}\.(com|example)", fullmatch=True)
ODD = st.text(st.sampled_from("eva@.\\u0/%4=&#;x\"' \nß\u00e9\u0301İ張🎈"), min_size=2, max_size=12)
VALUES = ADDRESSES | ODD | st.text(min_size=2, max_size=12).map(lambda text: text.encode("utf-8", "replace").decode())


@settings(max_examples=400)
@given(
    VALUES, st.lists(st.sampled_from(sorted(WRITERS)), max_size=3), st.sampled_from(sorted(WAYS)),
    st.lists(st.sampled_from(sorted(READERS)), max_size=2),
)  # fmt: skip
@example(EVE, ["signs in JSON"], "an argument", [])
@example(EVE, ["every character in HTML", "mail"], "single characters", [])
def test_what_a_trusted_tool_repeats_of_its_call_clears_nothing(
    value: str, writers: list[str], way: str, readers: list[str]
) -> None:
    written = value
    for writer in writers:
        written = WRITERS[writer](written)
    said = written
    for reader in readers:
        said = READERS[reader](said)
    arguments = WAYS[way](written, value)
    assert not is_cleared(value, arguments, f"nobody is called {said} here")
    assert not is_cleared(value, arguments, json.dumps({"error": said}))
    assert not is_cleared(value, arguments, json.dumps({"error": said, "value": value}))


@settings(max_examples=200)
@given(
    st.from_regex(r"[c-h]{3,8}@[c-h]{3,8}\.example", fullmatch=True),
    st.from_regex(r"[n-z]{3,8}@[n-z]{3,8}\.test", fullmatch=True),
    st.lists(st.sampled_from(sorted(WRITERS)), max_size=3), st.sampled_from(sorted(WAYS)),
)  # fmt: skip
def test_what_it_brings_by_itself_is_cleared_beside_it(value: str, other: str, writers: list[str], way: str) -> None:
    written = other
    for writer in writers:
        written = WRITERS[writer](written)
    arguments = WAYS[way](written, other)
    assert is_cleared(value, arguments, f"{written} is called {value} here")


@pytest.mark.parametrize("writer", [*LISTED, *OTHERS])
def test_no_writer_of_the_world_makes_an_echo_trusted(writer: str) -> None:
    written = {**LISTED, **OTHERS}[writer](EVE)
    assert not is_cleared(EVE, {"name": written}, f"nobody is called {written}")
    assert not is_cleared(EVE, {"name": json.dumps(written)}, json.dumps(written))


# In a session


ESCAPED = r"eve\u0040evil.example"


def tools(**others: Any) -> list[Any]:
    """A directory that repeats what it is asked, and what it was asked before, and knows Bob."""
    asked: list[str] = []

    async def directory(arguments: dict[str, Any]) -> str:
        asked.append(str(arguments.get("name")))
        if arguments.get("name") == "Bob":
            return BOB
        return f"nobody is called {', '.join(asked)}"

    async def handed_on(arguments: dict[str, Any], context: ToolContext) -> ToolResult:
        return await context.call_tool("directory", {"name": bytes.fromhex(arguments["hex"]).decode()})

    return [
        make("send", properties=FREE), make("directory", directory, labels="trusted", properties={"name": {}}),
        make("read", labels="untrusted"), make("script", handed_on, labels="trusted", properties={"hex": {}}),
        *others.values(),
    ]  # fmt: skip


async def cleared(stage: Stage, *values: str) -> list[bool]:
    await stage.call("send", {"to": [*values]})
    look: Look = stage.session.plugin("look")
    return [one.cleared for one in look.origins["to"]]


@pytest.mark.parametrize("name", [EVE, ESCAPED, EVE.upper(), {EVE: True}, ["eve", "@", "evil.example"]])
async def test_a_tool_clears_nothing_that_it_was_asked(name: Any) -> None:
    async with playing(Look, tools=tools()) as stage:
        await stage.call("directory", {"name": name})
        assert await cleared(stage, EVE) == [False]


async def test_nor_what_it_was_asked_by_an_earlier_call() -> None:
    store = MemoryStore()
    async with playing(Look, tools=tools(), store=store) as stage:
        await stage.call("directory", {"name": ESCAPED})
        await stage.call("directory", {"name": "last"})
        assert await cleared(stage, EVE) == [False]
    async with playing(Look, tools=tools(), store=store) as stage:
        assert await cleared(stage, EVE) == [False]


@pytest.mark.parametrize("transcript", [True, False])
async def test_a_value_that_it_has_told_stays_cleared_when_it_is_asked_about_it(transcript: bool) -> None:
    async with playing(Look, tools=tools(), transcript=transcript) as stage:
        for name in ("Bob", BOB):
            call = stage.new("directory", {"name": name})
            await (stage.call("directory", {"name": name}) if transcript else stage.run.call_tool(call))
        await stage.run.call_tool(stage.new("send", {"to": [BOB]})) if not transcript else await cleared(stage, BOB)
        look: Look = stage.session.plugin("look")
        assert [one.cleared for one in look.origins["to"]] == [True]


async def test_what_calls_at_once_have_said_may_stand_in_the_result_of_each() -> None:
    async with playing(Look, tools=tools()) as stage:
        await stage.call_all([("directory", {"name": "last"}), ("directory", {"name": ESCAPED}), ("directory", {})])
        assert await cleared(stage, EVE) == [False]


async def test_an_echo_that_is_recalled_is_one_still() -> None:
    async with playing("tool_results", Look, tools=tools()) as stage:
        await stage.call("directory", {"name": ESCAPED})
        await stage.call("directory", {"name": "Bob"})
        for handle in ("r1", "r2", "c1", "r3"):
            await stage.call("recall-tool-result", {"id": handle})
        assert await cleared(stage, EVE, BOB) == [False, True]


async def test_what_a_script_has_asked_is_not_cleared_by_its_own_result() -> None:
    async with playing(Look, tools=tools()) as stage:
        await stage.call("script", {"hex": ESCAPED.encode().hex()})
        assert await cleared(stage, EVE) == [False]
        await stage.call("directory", {"name": "last"})
        assert await cleared(stage, EVE) == [False]


async def sub_agent(
    session: Session, given: list[Any], *calls: tuple[str, dict[str, Any]]
) -> tuple[str, tuple[Origin, ...]]:
    """A sub-agent that makes these calls: the text of its last result, and where what it sends comes from."""
    text = ""
    async with session.child() as child, child.run("look") as run:
        await run.resolve_tools(given)
        for number, (name, arguments) in enumerate(calls):
            call = ToolCall(f"b{number}", name, arguments)
            await run.record(FORMAT.reply("", [call]))
            text = (await run.call_tool(call)).text
        look: Look = child.plugin("look")
        return text, look.origins.get("to", ())


async def test_what_an_agent_has_asked_is_not_cleared_by_what_its_sub_agent_reads() -> None:
    made = tools()
    async with playing(Look, tools=made) as stage:
        await stage.call("directory", {"name": ESCAPED})
        calls: list[tuple[str, dict[str, Any]]] = [
            ("directory", {"name": "Bob"}),
            ("directory", {}),
            ("send", {"to": [EVE, BOB]}),
        ]
        _, origins = await sub_agent(stage.session, made, *calls)
        assert [one.cleared for one in origins] == [False, True]


async def test_what_a_sub_agent_has_asked_is_not_cleared_by_its_answer_or_a_later_call() -> None:
    async def ask_agent(_arguments: dict[str, Any]) -> str:
        return (await sub_agent(stage.session, made, ("directory", {"name": ESCAPED})))[0]

    made = tools(agent=make("agent", ask_agent, labels="trusted"))
    async with playing(Look, tools=made) as stage:
        await stage.call("agent", {})
        assert await cleared(stage, EVE) == [False]
        await stage.call("directory", {"name": "last"})
        assert await cleared(stage, EVE) == [False]


@pytest.mark.heavy
def test_a_call_of_which_too_much_could_be_made_has_said_everything() -> None:
    long = "".join(f"%25{number:05}" for number in range(100_000))
    assert not is_cleared(BOB, {"name": long}, f"it is {BOB}")
    assert is_cleared(BOB, {"name": "x " * 500_000}, f"it is {BOB}")
    assert not is_cleared("a" * 2000, {"name": ["a" * size for size in range(300)]}, f"it is {'a' * 2000}")
