"""A condition that names a place in the arguments looks at all that a tool may take for it: each spelling of the name, and each
value of several that stand side by side."""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Callable
from typing import Any

import pytest

from hooksdk import Tool
from tests.builtin_plugins.test_policy_conditions import SILENT, allows, denies
from tests.builtin_plugins.test_policy_origins import ANN, EVE, acting, ran, rule, send

pytestmark = pytest.mark.anyio
Spelling = Callable[[Any, Any], dict[str, Any]]
"""Arguments with a value, and where there is room with another one beside it."""

SPELLINGS: dict[str, Spelling] = {
    "as the rule names it": lambda value, other: {"message": {"to": value}},
    "a key with a dot": lambda value, other: {"message.to": value},
    "beside a key with a dot": lambda value, other: {"message.to": other, "message": {"to": value}},
    "before a key with a dot": lambda value, other: {"message": {"to": value}, "message.to": other},
    "beside a key with a dot that is empty": lambda value, other: {"message.to": {}, "message": {"to": value}},
    "a key with a dot beside the object": lambda value, other: {"message": {"to": other}, "message.to": value},
    "below a key with two dots": lambda value, other: {"message.to.mail": value},
    "below a key with two dots beside the object": lambda value, other: {"message": {"to": other}, "message.to.mail": value},
    "a list of objects": lambda value, other: {"message": [{"to": value}]},
    "the second of a list": lambda value, other: {"message": [{"to": other}, {"to": value}]},
    "a list in a list": lambda value, other: {"message": [[{"to": value}]]},
    "an object with numbers for keys": lambda value, other: {"message": {"0": {"to": value}}},
    "keys with numbers beside a list": lambda value, other: {"message": [{"to": other}], "message.0.to": value},
    "brackets": lambda value, other: {"message[to]": value},
    "brackets beside the object": lambda value, other: {"message": {"to": other}, "message[to]": value},
    "brackets with a place in a list": lambda value, other: {"message[0][to][]": value},
    "a JSON pointer": lambda value, other: {"/message/to": value},
    "another case": lambda value, other: {"message": {"to": other}, "Message": {"To": value}},
    "another case within": lambda value, other: {"message": {"to": other, "TO": value}},
    "another width": lambda value, other: {"message": {"to": other}, "\uff4dessage": {"\uff54o": value}},
    "blanks around": lambda value, other: {"message": {"to": other, " to ": value}},
    "JSONPath": lambda value, other: {"message": {"to": other}, "$['message'].*[\"to\"]": value},
    "a character that nobody sees": lambda value, other: {"message": {"to": other}, "\ufeffmess\u200bage": {"to\u00ad": value}},
    "a dot that is escaped": lambda value, other: {"message": {"to": other}, "message\\.to": value},
    "JSON text": lambda value, other: {"message": json.dumps({"to": value})},
    "JSON text of a JSON string": lambda value, other: {"message": json.dumps(json.dumps(json.dumps({"to": value})))},
    "JSON text behind a mark of its order of bytes": lambda value, other: {"message": "\ufeff" + json.dumps({"to": value})},
    "JSON text behind a comment": lambda value, other: {"message": "/* mail */" + json.dumps({"to": value})},
    "JSON text in JSON text": lambda value, other: {"message": json.dumps([json.dumps({"to": value})])},
    "JSON text with a key twice": lambda value, other: {"message": f'{{"to": {json.dumps(value)}, "to": {json.dumps(other)}}}'},
    "JSON text that only some parsers take": lambda value, other: {"message": f"{{to: {json.dumps(value)},}}"},
}  # fmt: skip
VERY_NAME = {
    "as the rule names it", "a key with a dot", "beside a key with a dot", "before a key with a dot",
    "beside a key with a dot that is empty", "a key with a dot beside the object", "below a key with two dots",
    "below a key with two dots beside the object", "a list of objects", "the second of a list", "a list in a list",
}  # fmt: skip
"""Where something stands at the place for an allow as well."""

UNREADABLE = {"JSON text with a key twice", "JSON text that only some parsers take", "JSON text behind a comment"}
CONDITIONS: dict[str, tuple[Any, str, str]] = {
    "path_inside": (["/etc"], "/etc/passwd", "/srv/a"),
    "path_outside": (["/srv"], "/etc/passwd", "/srv/a"),
    "path_name": ([".env"], "/srv/.env", "/srv/a"),
    "url_host": (["evil.example"], "https://evil.example/x", "https://corp.example/x"),
    "command": (["rm"], "rm x", "ls x"),
}
"""What each lists, what it stops and what it lets through."""


@pytest.mark.light(every=9)
@pytest.mark.parametrize("spelling", SPELLINGS)
@pytest.mark.parametrize("key", CONDITIONS)
def test_a_deny_looks_at_each_spelling_of_the_place_that_it_names(key: str, spelling: str) -> None:
    wanted, bad, good = CONDITIONS[key]
    condition: dict[str, Any] = {key: {"message.to": wanted}}
    assert denies(SILENT, SPELLINGS[spelling](bad, good), **condition)
    assert denies(SILENT, SPELLINGS[spelling](good, good), **condition) == (spelling in UNREADABLE)


@pytest.mark.parametrize("key", CONDITIONS)
def test_a_deny_looks_into_json_text_that_stands_at_the_place(key: str) -> None:
    wanted, bad, _ = CONDITIONS[key]
    condition: dict[str, Any] = {key: {"message.to": wanted}}
    for text in (json.dumps([bad]), json.dumps({"x": {"y": bad}}), json.dumps(json.dumps([bad]))):
        assert denies(SILENT, {"message": {"to": text}}, **condition), text


async def spellings_that_run(value: str, other: object, action: str, **condition: Any) -> set[str]:
    """The spellings with which a call runs under this one rule."""
    async with acting(rule(action, **condition), default="deny" if action == "allow" else "allow") as stage:
        return {name for name, spelled in SPELLINGS.items() if ran(await send(stage, **spelled(value, other)))}


@pytest.mark.parametrize("other", [True, {}, ANN])
async def test_a_value_is_asked_after_in_each_spelling_of_the_place_that_a_rule_names(other: object) -> None:
    assert await spellings_that_run(EVE, other, "deny", values_from_elsewhere=["message.to"]) == set()
    good = await spellings_that_run(ANN, other, "deny", values_from_elsewhere=["message.to"])
    assert good == SPELLINGS.keys() - UNREADABLE


@pytest.mark.parametrize("other", [True, {}, ANN])
async def test_an_allow_by_values_fits_no_spelling_of_a_value_from_elsewhere(other: object) -> None:
    assert await spellings_that_run(EVE, other, "allow", values_from=["message.to"]) == set()


async def test_another_spelling_alone_does_not_stand_at_the_place_that_an_allow_names() -> None:
    assert await spellings_that_run(ANN, None, "allow", values_from=["message.to"]) == VERY_NAME


@pytest.mark.parametrize("key", ["path_inside", "url_host", "command"])
def test_an_allow_fits_no_call_that_has_another_spelling_of_the_place_beside_it(key: str) -> None:
    wanted, bad, good = {
        **CONDITIONS,
        "path_inside": (["/srv"], "/etc/x", "/srv/a"),
        "url_host": (["corp.example"], "https://e.example", "https://corp.example/x"),
        "command": (["ls"], "rm x", "ls x"),
    }[key]
    tool = Tool(name="send", parameters={"type": "object", "properties": {"message": {"type": "object"}, "note": {}}})
    condition: dict[str, Any] = {key: {"message.to": wanted}}
    assert allows(tool, {"message": {"to": good}, "note": "x"}, **condition)
    for name in ("TO", " to", "to\u200b", "0.to", "[to]"):
        assert not allows(tool, {"message": {"to": good, name: bad}}, **condition), name


@pytest.mark.parametrize("line", ["[ -f x ] && ls", "{ ls; }", "[[ -f x ]] && ls", "// x", '"{x}"'])
def test_a_text_that_only_begins_like_json_is_read_as_it_stands(line: str) -> None:
    assert not denies(SILENT, {"command": line}, command={"command": ["rm"]})
    assert not denies(SILENT, {"to": line}, path_name={"to": [".env"]})


def test_a_name_is_the_same_in_both_forms_of_unicode() -> None:
    for form in ("NFC", "NFD"):
        name, key = unicodedata.normalize("NFC", "café"), unicodedata.normalize(form, "café")
        assert denies(SILENT, {key: "/etc/passwd"}, path_inside={name: ["/etc"]})


def test_a_file_that_happens_to_be_json_is_no_argument() -> None:
    """Who writes a file writes no path: only a name that goes into the text is looked for in it."""
    content = json.dumps({"path": "/etc/passwd", "to": EVE})
    assert not denies(SILENT, {"path": "/srv/a.json", "content": content}, path_inside=["/etc"])
    assert not denies(SILENT, {"path": "/srv/a.json", "content": content}, path_inside={"path": ["/etc"]})


async def test_a_key_alone_does_not_stand_at_the_place_that_an_allow_names() -> None:
    async with acting(rule("allow", values_from=["message.to"]), default="deny") as stage:
        assert not ran(await send(stage, message={"to": {EVE.partition("@")[0]: True}}))
        assert not ran(await send(stage, message={"to": {"mallory": True}, "To": ANN}))
