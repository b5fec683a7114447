"""A value of a secret is found however it is escaped, in steps as many as the text has characters, and nothing else is."""

from __future__ import annotations

import importlib
import json
import re
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any, cast

import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from hooksdk import Tool, ToolResult, hooks
from hooksdk._masking import escapes
from hooksdk._masking.escapes import MAX_DEPTH, fold, folded, readings, unescaped
from hooksdk._masking.mask import SecretMask
from hooksdk._masking.matcher import Sieve
from hooksdk.hooks import ResolveSecrets, Secrets
from tests.hooksdk.writers import LISTED, OTHERS
from tests.stage import make, playing

pytestmark = pytest.mark.anyio

VALUE = "aK7q/Zx+w2&Lm<Pq>R's\"t=9Yb4"
HARD = [
    "correct horse-battery_staple",
    'pä$$wörd \\ 100% 🔑 k"ey',
    "-----BEGIN KEY-----\ncanary00MIIE/QIB+DANBg\n-----END KEY-----\n",
]
PLACEHOLDER = "{{secret:KEY}}"
DUMPS = {"xxd", "hexdump -C"}


def mask_of(*values: str) -> SecretMask:
    return SecretMask((f"KEY{number or ''}", value) for number, value in enumerate(values))


# The writers


@pytest.mark.light(every=9)
@pytest.mark.parametrize("name", [*LISTED, *OTHERS])
async def test_a_value_is_found_in_what_servers_and_programs_write(name: str) -> None:
    write = {**LISTED, **OTHERS}[name]

    class Vault:
        @hooks.resolve_secrets
        def resolve(self, event: ResolveSecrets) -> Secrets:
            return Secrets(dict.fromkeys(event.names, VALUE))

    def serve(arguments: dict[str, Any]) -> ToolResult:
        return ToolResult(f"before\n{write(arguments['key'])}\nafter", structured={"said": write(arguments["key"])})

    tools: list[Tool] = [make("serve", serve, properties={})]
    async with playing(Vault, tools=tools) as stage:
        result = await stage.call("serve", {"key": PLACEHOLDER})
    for text in (result.text, json.dumps(result.structured)):
        assert PLACEHOLDER in text
        assert not any(VALUE[at : at + 6] in text for at in range(len(VALUE) - 6))
    assert result.text.startswith("before\n")
    assert result.text.endswith("\nafter")


@pytest.mark.light(every=9)
@pytest.mark.parametrize("value", HARD)
@pytest.mark.parametrize("name", [*LISTED, *OTHERS])
def test_so_are_words_other_alphabets_and_keys_of_several_lines(name: str, value: str) -> None:
    write = {**LISTED, **OTHERS}[name]
    assert PLACEHOLDER in mask_of(value).text(write(value))


SIGNS = "abcdefghijkmnopqrstuvwxyzABCDEFGHJKLMNPQRSTUVWXYZ0123456789-_/+&<>'\"=%\\ .:,;?#@!$*()[]{}|~^`äéßИ语🔑"


def is_plain_enough(value: str) -> bool:
    """False for what is too short to be found in every form: of eight characters, the last of which would be read as an escape."""
    return value == value.strip() and all(len(fold(one)) >= 8 for one in (value, HALF_ESCAPE.sub("", value)))


HALF_ESCAPE = re.compile(r"[%\\&][0-9a-zA-Z#{]*$")
VALUES = st.text(SIGNS, min_size=8, max_size=48).filter(is_plain_enough)
ENCODED = {
    name
    for name in OTHERS
    if "base64" in name or "hex" in name or name in {"xxd", "bytes of C", "mail", "buffer of Node"}
}
BROKEN = {"two texts in a program", "in colour", "marked on a page", "with places to break"}
"""They take a text apart, and would take an escape apart, too."""
DEPTHS = {"JSON in JSON": 2, "JSON in JSON in an address": 3, "URL twice": 2}
ESCAPED = sorted({*LISTED, *OTHERS} - ENCODED - BROKEN - {"hex in groups of four", "hex with colons"})
FRAMED = {
    "buffer of Node",
    "header of curl -v",
    "line of a diff",
    "mail",
    "base64 in lines",
    "base64 of JSON",
    "xxd",
    "hexdump -C",
}
"""They write more than the value."""


@given(VALUES, st.sampled_from(sorted({**LISTED, **OTHERS})))
@settings(max_examples=250, deadline=None)
def test_whatever_the_value_no_writer_hides_it_and_what_stands_around_it_stays(value: str, name: str) -> None:
    assume(name not in BROKEN or not unescaped(value))
    masked = mask_of(value).text(f"before\n{({**LISTED, **OTHERS})[name](value)}\nafter")
    assert masked.startswith("before\n")
    assert masked.endswith("\nafter")
    left = masked.removeprefix("before\n").removesuffix("\nafter").split(PLACEHOLDER)
    assert len(left) > 1
    assert len("".join(left)) < 20 or name in FRAMED


def written_by(names: list[str], value: str) -> str:
    """As they write it one after another; no case where one of them would take an escape apart, or there are too many."""
    first, *others = names
    if others and (wraps := sum("lines" in name for name in names)):
        # A line end may take an escape apart, but not one in another.
        assume(wraps == len(others) == 1 and first not in BROKEN and "\\" not in value and not DEPTHS.keys() & {*names})
    # What is taken apart is compared without blanks and quotes, for which it must be long enough once it is decoded.
    assume(first not in BROKEN or all(len(fold(read)) >= 8 for read in unescaped(value)))
    assume(sum(DEPTHS.get(name, 1) for name in names) <= MAX_DEPTH)
    for name in names:
        value = {**LISTED, **OTHERS}[name](value)
    return value


@pytest.mark.heavy
@given(VALUES, st.sampled_from([*ESCAPED, *sorted(BROKEN)]), st.lists(st.sampled_from(ESCAPED), min_size=1, max_size=2))
@example("@-ä0@Hß\\<%:bäS\\gDQß)<J8", "JSON of .NET", ["Markdown", "JSON in JSON in an address"])
@example("ßtXJ5LYkxAäz<*#c\\f!',<ym%%V@6\\8", "JSON of PHP", ["JSON in JSON", "JSON in JSON"])
@example("KjäK@K`|4Qé%ßoa:Qt}j)5yTVhhdNe_(<", "encodeURI", ["printf %q", "JSON of Go"])
@example('^:b a"y🔑%c)KG%qX^ИYFpnj=R`%MqX/6&=D🔑):]g🔑]Aw)P_1', "configparser", ["an address in lines"])
@example("azm🔑<!ä3}W", "escape() of old JavaScript", ["JSON"])
@example('&2?"p$q[AEzq8ZQ$', "Compose file", ["an address in lines"])
@example('"WBmThE5DM$ZfF', "encodeURIComponent", ["printf %q", "configparser"])
@settings(max_examples=250, deadline=None)
def test_nor_do_two_or_three_of_them_after_one_another(value: str, first: str, others: list[str]) -> None:
    assert PLACEHOLDER in mask_of(value).text(f"before {written_by([first, *others], value)} after")


LIKE_ESCAPES = [
    *(
        "%",
        "%%",
        "%2",
        "%20",
        "%00",
        "%22",
        "%25",
        "%5C",
        "%c3%a9",
        "%u",
        "&",
        "&#",
        "&amp;",
        "&lt;",
        "&quot;",
        "&#x41;",
    ),
    *("\\", "\\\\", "\\u", "\\x", "\\n", "\\0", "\\1", "\\u00e9", "$", "$$", "=", "=3D", "00", "41", "x41", "u0041"),
]
OWN_ESCAPES = st.lists(st.sampled_from(LIKE_ESCAPES) | st.sampled_from(SIGNS), min_size=3, max_size=12).map("".join)
WRITERS = st.lists(st.sampled_from(ESCAPED), max_size=2)


@pytest.mark.heavy
@given(OWN_ESCAPES.filter(is_plain_enough), st.sampled_from([*ESCAPED, *sorted(BROKEN)]), WRITERS)
@example("0000%00:", "two lines of Windows, in JSON", [])
@example("%20é41语x", "Compose file", ["HTML of Go", "JSON"])
@example('4&amp;&#?"', "two lines of Windows, in JSON", ["bytes of Python"])
@example("UИ41 %20$$%%\\Zx", "two texts in a program", ["Python", "JSON of PHP"])
@example(";&#SAf2&quot;\\xb", "with places to break", ["as it is"])
@example("w9$x41%22?", "configparser", ["two lines of Windows, in JSON"])
@example("%20&%c3%a9U%00é", "an address in lines", ["JSON"])
@example(":r%2200>%00:%%`);%2", "HTML of PHP", [])
@example("%c3%a9$R\\10$$\\uU~$\\x", "configparser", [])
@example("%<@n2%20%5c17$$x41", "two texts in a program", ["configparser"])
@example("d%5C0>=3D", "two lines", ["Python"])
@settings(max_examples=500, deadline=None)
def test_a_value_whose_letters_look_like_an_escape_is_found_within_the_escapes_of_others(
    value: str, first: str, others: list[str]
) -> None:
    assert PLACEHOLDER in mask_of(value).text(f"before\n{written_by([first, *others], value)}\nafter")


@pytest.mark.slow
@pytest.mark.timeout(1_800)
@given(OWN_ESCAPES.filter(is_plain_enough), st.sampled_from([*ESCAPED, *sorted(BROKEN)]), WRITERS)
@settings(max_examples=20_000, deadline=None)
def test_so_are_very_many_such_values(value: str, first: str, others: list[str]) -> None:
    assert PLACEHOLDER in mask_of(value).text(f"before\n{written_by([first, *others], value)}\nafter")


def test_an_attribute_of_what_is_marked_is_read_as_well() -> None:
    page = f'<span data-token="{LISTED["HTML of PHP"](VALUE)}">it is <span class="hl k-1">{VALUE[:9]}</span>{VALUE[9:]}</span>'
    assert (
        mask_of(VALUE).text(page) == f'<span data-token="{PLACEHOLDER}">it is <span class="hl k-1">{PLACEHOLDER}</span>'
    )


# Parts of a value


@pytest.mark.parametrize(
    ("text", "masked"),
    [
        (f"the key is {VALUE[:20]}…", f"the key is {PLACEHOLDER}…"),
        (f"the key is {VALUE[:20]}... and more", f"the key is {PLACEHOLDER}... and more"),
        (f"the key is {VALUE[:20]}\n[truncated]", f"the key is {PLACEHOLDER}\n[truncated]"),
        (f"the key is {VALUE[:18]}", f"the key is {PLACEHOLDER}"),
        (f"{VALUE[8:]} is the key", f"{PLACEHOLDER} is the key"),
        (f"...{VALUE[8:]} is the key", f"...{PLACEHOLDER} is the key"),
        (f'{{"key": "{json.dumps(VALUE)[1:-9]}…"}}', f'{{"key": "{PLACEHOLDER}…"}}'),
        ("the key is aK7q%2FZx%2Bw2%26Lm%3CPq%3…", f"the key is {PLACEHOLDER}%3…"),
        ("the key is aK7q/Zx\\u002Bw2\\u0026Lm\\u003CPq\\u00", f"the key is {PLACEHOLDER}\\u00"),
    ],
)  # fmt: skip
def test_the_most_of_a_value_is_masked_where_a_text_was_cut_off(text: str, masked: str) -> None:
    assert mask_of(VALUE).text(text) == masked


@pytest.mark.parametrize(
    "text", [f"the key is {VALUE[:15]}…", VALUE[:7], VALUE[-7:], f"the key {VALUE[:20]} is too short", f"z{VALUE[9:]}"]
)
def test_less_than_half_of_it_or_half_of_it_elsewhere_is_not(text: str) -> None:
    assert mask_of(VALUE).text(text) == text


def test_the_usual_beginning_of_a_key_is_no_part_of_it() -> None:
    key = (
        "-----BEGIN OPENSSH PRIVATE KEY-----\n"
        + "\n".join([VALUE[:10] * 7] * 30)
        + "\n-----END OPENSSH PRIVATE KEY-----\n"
    )
    mask = mask_of(key, "postgres://admin:pw12345@db.internal:5432/shop")
    for text in (
        "-----BEGIN OPENSSH PRIVATE KEY-----",
        "key.pem: -----BEGIN OPENSSH PRIVATE KEY-----\n...",
        "postgres",
        "postgres://admin:…",
    ):
        assert mask.text(text) == text
    assert mask.text(key[:120]) == PLACEHOLDER
    assert mask.text(f"line 7: {VALUE[:10] * 7}") == f"line 7: {PLACEHOLDER}"


def test_of_two_values_that_begin_alike_the_one_that_stands_there_is_named() -> None:
    long = f"{VALUE}-and-more"
    assert mask_of(VALUE, long).text(f"it is {VALUE}") == f"it is {PLACEHOLDER}"
    assert mask_of(VALUE, long).text(f"it is {long}") == "it is {{secret:KEY1}}"


# What stays


@pytest.mark.light(every=9)
@pytest.mark.parametrize(
    "value", ["hunter2-password", "12345678", "k7Qz", "p@ss", "a b+c", "%41%42%43%44", "密碼密碼", "C:\\new\\table"]
)
@pytest.mark.parametrize(
    "text",
    [
        "100% of 50% ab", "C:\\users\\new", "a &amp; b", "?a=1&b=2&copy=3", "{{secret:KEY}}", "{{secret:hunter2-password}}"[:9], "1234567", "ABCD",
        "............", "pass p@s", "K7qz", "...", "", "\\", "%", "&", "&#", "=\n", "\0", "passwordhunter2", "a bc", "\ud800",
    ],
)  # fmt: skip
def test_harmless_text_stays(value: str, text: str) -> None:
    assert mask_of(value).text(text) == text


TEXTS = st.text("ab1%\\&#x;u0'\"+ \n-=<>…/." + VALUE, max_size=200)


@given(TEXTS, st.text(SIGNS, min_size=14, max_size=30))
@settings(max_examples=200, deadline=None)
def test_a_text_without_the_value_stays(text: str, value: str) -> None:
    plain = fold(value)
    assume(len(plain) >= 14)
    assume(
        not any(plain[at : at + 7] in fold(read) for read in [text, *unescaped(text)] for at in range(len(plain) - 6))
    )
    assert mask_of(value).text(text) == text


@given(
    st.lists(
        st.one_of(TEXTS, st.sampled_from([VALUE, LISTED["JSON of .NET"](VALUE), VALUE[:20], VALUE[10:]])), max_size=8
    )
)
@settings(max_examples=200, deadline=None)
def test_a_json_value_is_masked_as_each_of_its_texts_is(texts: list[str]) -> None:
    mask = mask_of(VALUE, "p@ss", "abababab")
    assert mask.value(texts) == [mask.text(text) for text in texts]
    assert mask.value({text: {"of": [text, 1, True, None]} for text in texts}) == {
        mask.text(text): {"of": [mask.text(text), 1, True, None]} for text in texts
    }


@given(TEXTS, TEXTS)
@settings(max_examples=200, deadline=None)
def test_what_is_masked_stays_so(before: str, after: str) -> None:
    mask = mask_of(VALUE, "KEY1", "secret")
    once = mask.text(f"{before} {VALUE} {after}")
    assert VALUE not in once
    assert mask.text(once) == once


# Where it stands


@given(st.text("ab1%\\&#x;u0'\"+ \n-=İςß🔑\xa0", max_size=80))
@settings(max_examples=300, deadline=None)
def test_each_character_of_a_reading_stands_somewhere_in_the_text(text: str) -> None:
    for reading in readings(text):
        for read in (reading, folded(reading)):
            places = read.origin([(at, at + 1) for at in range(len(read.text))])
            assert all(0 <= start < end <= len(text) for start, end in places)
            assert places == sorted(places)
            assert read.origin([(0, len(read.text))])[0][1] <= len(text)


@given(st.text("ab1%\\&#x;u0'\"+ \n-=İςß🔑\xa0\x1c", max_size=80))
@settings(max_examples=300, deadline=None)
def test_folding_keeps_one_character_for_each_that_is_compared(text: str) -> None:
    kept = [char for char in text if fold(char)]
    assert len(fold(text)) == len(kept)
    assert fold(text) == "".join(map(fold, kept))


@given(
    st.lists(st.text("abcdé", min_size=8, max_size=40), min_size=1, max_size=20),
    st.text("abcdé", max_size=60),
    st.data(),
)
@settings(max_examples=300, deadline=None)
def test_the_sieve_lets_nothing_fall_through_that_is_there(texts: list[str], around: str, data: st.DataObject) -> None:
    one, at = data.draw(st.sampled_from(texts)), data.draw(st.integers(0, len(around)))
    whole = f"{around[:at]}{one}{around[at:]}"
    assert one in Sieve(texts).sift(whole.encode())
    assert set(Sieve(texts).sift(whole.encode())) >= {text for text in texts if text in whole}


# What it costs

HOSTILE: dict[str, Callable[[int], str]] = {
    **{repr(one): lambda n, one=one: one * (n // len(one)) for one in (
        "\\", "%", "&", "&#", "&#1", "&amp;", "%25", "\\u005c", "\\\\u005c", "\\x", "\\ud83d", "%f0%9f", "%E0%80", "<b ", "<span ", "\x1b[", "=\n", "=3D", ".", "...",
        "…", "\0", "'", "\"'", "+", " ", "\n", "\r\n", "%\n", "%2\n                ", "0: ", "0000: 6162 6364  ab\n", "6b", "6b:", "0x", "-", "a", "{{secret:KEY}}",
        "{{secret:", VALUE, VALUE[:18], VALUE[:18] + "…", "…" + VALUE[8:], VALUE[:-1], "&" + "a" * 31, "\u200b", "é", "[truncated",
    )},
    "nested percents": lambda n: "%" + "25" * (n // 2),
    "nested ampersands": lambda n: "&" + "amp;" * (n // 4),
    "nested backslashes in addresses": lambda n: "%5C" * (n // 6) + "\\" * (n // 2),
}  # fmt: skip


def steps_of(text: str) -> int:
    """How many lines of the masking a text takes, and how many characters its readings have."""
    mask, lines = mask_of(VALUE, "p@ss", "abababab"), 0

    def count(frame: FrameType, event: str, _argument: object) -> Any:
        nonlocal lines
        lines += event == "line"
        return count if "_masking" in frame.f_code.co_filename else None

    sys.settrace(count)
    try:
        mask.text(text)
    finally:
        sys.settrace(None)
    return lines + sum(len(reading.text) for reading in readings(text))


@pytest.mark.light(every=9)
@pytest.mark.parametrize("name", HOSTILE)
def test_a_text_of_twice_the_length_takes_at_most_twice_the_steps(name: str) -> None:
    once, twice = (steps_of(HOSTILE[name](size)) for size in (3_000, 6_000))
    assert twice <= 2.2 * once
    assert twice <= 40 * 6_000


def test_no_escape_is_longer_than_so_many_characters() -> None:
    parser: Any = importlib.import_module("re._parser")
    patterns = {
        name: cast("re.Pattern[str]", one) for name, one in vars(escapes).items() if isinstance(one, re.Pattern)
    }
    assert "ESCAPES" in patterns
    del patterns["_NOISE"]  # a row of single characters
    for name, pattern in patterns.items():
        assert parser.parse(pattern.pattern, pattern.flags & ~re.UNICODE).getwidth()[1] <= 2_000, name


def test_a_text_is_decoded_so_often_and_no_more() -> None:
    deep = "%" + "25" * 50 + "2B"
    assert len(unescaped(deep)) == MAX_DEPTH
