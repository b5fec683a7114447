"""Copying, reading, checking, explaining and repairing JSON values by their schema."""

from __future__ import annotations

import contextlib
import http.server
import json
import random
import subprocess
import sys
import threading
from collections import OrderedDict, UserDict
from collections.abc import Callable
from decimal import Decimal
from enum import IntEnum, StrEnum
from pathlib import Path
from types import MappingProxyType
from typing import Any, cast

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ids import without_address

from hooksdk import schema
from hooksdk._schema.work import Size, survey, work
from hooksdk.schema import BadArguments, Problem, Uncloneable

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(st.text(max_size=5), inner, max_size=5),
    max_leaves=20,
)
OBJECTS = st.dictionaries(st.text(max_size=5), JSON, max_size=5)


def an_object(required: list[str] | None = None, **properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": required or []}


def nested(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = {"a": value}
    return value


def nested_list(depth: int) -> list[Any]:
    value: list[Any] = list(range(1_000))
    for _ in range(depth):
        value = [value]
    return value


def only(problems: list[Problem]) -> Problem:
    [problem] = problems
    return problem


# clone, canonical, fingerprint, estimate_tokens


def containers(value: Any) -> set[int]:
    own, inner = id(value), list[Any]()
    if isinstance(value, dict):
        inner = list(cast("dict[str, Any]", value).values())
    elif isinstance(value, list):
        inner = cast("list[Any]", value)
    else:
        return set()
    return {own}.union(*map(containers, inner))


@pytest.mark.heavy
@settings(deadline=None)
@given(JSON)
def test_a_clone_is_equal_and_shares_no_container(value: Any):
    copy = schema.clone(value)
    assert copy == value
    assert type(copy) is type(value)
    assert not containers(copy) & containers(value)


def test_a_clone_keeps_tuples_and_immutable_leaves():
    value = {"a": (1, ["b"]), "c": Decimal("1.5"), "d": b"x"}
    assert schema.clone(value) == value


class Colour(StrEnum):
    RED = "red"


class Level(IntEnum):
    HIGH = 3


class Trick(dict[str, Any]):
    def items(self) -> Any:
        raise RuntimeError("boom")

    __iter__ = keys = values = items


class Broken(UserDict[str, Any]):
    def __getitem__(self, key: str) -> Any:
        raise RuntimeError("boom")


def test_a_clone_turns_subclasses_into_the_plain_types_without_running_their_methods():
    copy: dict[str, Any] = schema.clone({"a": Colour.RED, "b": Level.HIGH, "c": Trick(x=1), "d": OrderedDict(y=2)})
    assert copy == {"a": "red", "b": 3, "c": {"x": 1}, "d": {"y": 2}}
    assert [type(value) for value in copy.values()] == [str, int, dict, dict]


def test_a_clone_of_another_mapping_is_a_dict():
    assert type(schema.clone(MappingProxyType({"a": 1}))) is dict


def circle() -> Any:
    value: list[Any] = []
    value.append(value)
    return value


def wide() -> Any:
    value: list[Any] = [1]
    for _ in range(60):
        value = [value, value]
    return value


@pytest.mark.light(every=3)
@pytest.mark.parametrize(
    "value",
    [circle(), nested(10_000), wide(), {1: 2}, {None: 1}, {"a": object()}, {"a": {1}}, Broken(a=1), bytearray(b"x")],
    ids=["circle", "deep", "doubling", "int key", "None key", "object", "set", "raising", "bytearray"],
)
def test_what_cannot_be_copied_is_uncloneable(value: Any):
    with pytest.raises(Uncloneable):
        schema.clone({"value": value})


def test_two_hundred_levels_can_be_copied():
    assert schema.clone(nested(200)) == nested(200)


def test_canonical_text_does_not_depend_on_the_order_of_keys():
    assert schema.canonical({"b": 1, "a": "ü"}) == schema.canonical({"a": "ü", "b": 1}) == '{"a":"ü","b":1}'


def test_half_a_surrogate_pair_has_a_fingerprint():
    assert len(schema.fingerprint({"a": "\ud800"})) == 16


def test_true_and_one_have_different_fingerprints():
    assert schema.fingerprint([True]) != schema.fingerprint([1])


@pytest.mark.parametrize("value", [{"a": object()}, circle(), 10**5000], ids=["object", "circle", "huge"])
def test_what_is_no_json_has_no_canonical_text(value: Any):
    with pytest.raises(Uncloneable):
        schema.canonical(value)


def test_a_schema_that_takes_any_object_refuses_what_is_none_and_what_is_no_json():
    anything = {"type": "object", "additionalProperties": True}
    assert schema.check(anything, {"command": "ls", "more": [1, None]}) == []
    assert only(schema.check(anything, ["ls"])).constraint == "type"
    assert only(schema.check(anything, {"number": float("nan")})).constraint == "limit"
    assert only(schema.check(anything, {"object": object()})).constraint == "json"


def test_tokens_are_a_quarter_of_the_characters_rounded_up():
    assert schema.estimate_tokens("abcde") == 2
    assert schema.estimate_tokens("") == 0
    assert schema.estimate_tokens({"b": "üü", "a": [1, 2]}) == -(-len('{"b":"üü","a":[1,2]}') // 4)


# parse_arguments


@pytest.mark.parametrize("raw", [None, "", "  \n", {}, "{}", b"{}", '""', '"{}"'])
def test_nothing_is_no_arguments(raw: object):
    assert schema.parse_arguments(raw) == {}


def test_text_is_read_as_json():
    assert schema.parse_arguments(' {"a": [1, 2.5, "ü", null]} ') == {"a": [1, 2.5, "ü", None]}


def test_json_written_as_a_string_once_more_is_unwrapped_once():
    assert schema.parse_arguments(json.dumps('{"a": 1}')) == {"a": 1}
    with pytest.raises(BadArguments):
        schema.parse_arguments(json.dumps(json.dumps('{"a": 1}')))


def test_given_arguments_are_copied():
    given_arguments = {"a": [1]}
    read = schema.parse_arguments(given_arguments)
    read["a"].append(2)
    assert given_arguments == {"a": [1]}


@pytest.mark.parametrize(
    ("raw", "said"),
    [
        ("[1]", "array"),
        ("null", "null"),
        ("7", "integer"),
        (7, "integer"),
        ('{"a": 1, "a": 2}', "'a' is given twice"),
        ('{"a": NaN}', "NaN"),
        ('{"a": -Infinity}', "Infinity"),
        ('{"a": 1e999}', "too large"),
        ('{"a": ' + "9" * 5_000 + "}", "5,000 digits"),
        ('{"a": ' * 201 + "1" + "}" * 201, "200 levels"),
        ('{"a": ' * 100_000, "200 levels"),
        ("{'a': 1}", "line 1, column 2"),
        ('{"a": 1} x', "not valid JSON"),
        (b"\xff", "utf-8"),
        ({1: 2}, "keys must be strings"),
        (object(), "value"),
        ('{"arguments that cannot be read": "the reply was cut off"}', "the reply was cut off"),
        ({"arguments that cannot be read": "the reply was cut off"}, "the reply was cut off"),
    ],
)
def test_bad_arguments_say_what_came_and_what_to_send(raw: object, said: str):
    with pytest.raises(BadArguments) as caught:
        schema.parse_arguments(raw)
    assert said in str(caught.value)
    assert "Send one JSON object" in str(caught.value)


@pytest.mark.heavy
@settings(deadline=None)
@given(st.text() | st.binary() | JSON)
def test_reading_arguments_raises_nothing_but_bad_arguments(raw: object):
    with contextlib.suppress(BadArguments):
        assert type(schema.parse_arguments(raw)) is dict


@pytest.mark.heavy
@settings(deadline=None)
@given(OBJECTS)
def test_written_arguments_are_read_back(value: dict[str, Any]):
    assert schema.parse_arguments(json.dumps(value)) == value


# check


def test_no_schema_allows_anything():
    assert schema.check(None, object()) == []


def test_the_path_names_properties_and_indexes():
    rules = an_object(
        options=an_object(count={"type": "integer"}), rows={"items": {"properties": {"a b": {"type": "null"}}}}
    )
    problems = schema.check(rules, {"options": {"count": "x"}, "rows": [{}, {"a b": 1}]})
    assert [problem.path for problem in problems] == ["arguments.options.count", 'arguments.rows[1]["a b"]']
    assert [problem.constraint for problem in problems] == ["type", "type"]


def test_a_type_problem_says_what_is_expected_and_what_came():
    problem = only(schema.check(an_object(n={"type": ["integer", "null"]}), {"n": "x"}))
    assert problem == Problem("arguments.n", "type", 'must be integer or null; got string "x"', ["integer", "null"])


def test_a_misspelt_property_suggests_the_right_one():
    problem = only(schema.check({**an_object(count={}), "additionalProperties": False}, {"cuont": 1}))
    assert (problem.path, problem.constraint, problem.suggestion) == (
        "arguments.cuont",
        "additionalProperties",
        "count",
    )


def test_a_missing_property_names_the_near_one_that_came():
    problem = only(schema.check(an_object(["path"], path={"type": "string"}), {"pth": "x"}))
    assert (problem.path, problem.constraint, problem.suggestion) == ("arguments.path", "required", "path")
    assert '"pth" came instead' in problem.message
    assert problem.expected == {"type": "string"}


def test_a_near_enum_value_is_suggested():
    assert only(schema.check(an_object(m={"enum": ["fast", "slow", 1]}), {"m": "Fats"})).suggestion == "fast"


def test_the_branch_that_was_meant_is_explained():
    circle_rules = an_object(["kind", "r"], kind={"const": "circle"}, r={"type": "number"})
    square_rules = an_object(["kind", "a"], kind={"const": "square"}, a={"type": "number"})
    rules = an_object(shape={"anyOf": [circle_rules, square_rules, {"type": "null"}]})
    assert only(schema.check(rules, {"shape": {"kind": "square", "a": "x"}})).path == "arguments.shape.a"
    problem = only(schema.check(rules, {"shape": 3}))
    assert problem.constraint == "anyOf"
    assert "object with kind, r; object with kind, a; null" in problem.message


@pytest.mark.parametrize(
    ("rules", "value", "said"),
    [
        ({"minimum": 3}, 2, "must be >= 3"),
        ({"exclusiveMaximum": 3}, 3, "must be < 3"),
        ({"multipleOf": 5}, 3, "a multiple of 5"),
        ({"minLength": 3}, "ab", 'at least 3 characters long; got string "ab" of 2 characters'),
        ({"maxItems": 1}, [1, 2], "at most 1 items; got an array of 2"),
        ({"const": "a"}, "b", 'must be "a"'),
        ({"pattern": "^a"}, "b", "regular expression ^a"),
        ({"uniqueItems": True}, [1, 1.0], "same item twice"),
        ({"oneOf": [{}, {"type": "string"}]}, "x", "more than one of 2 forms"),
        ({"not": {"type": "null"}}, None, "must not fit"),
        ({"properties": {"a": False}}, {"a": 1}, "nothing is allowed"),
        ({"contains": {"type": "null"}}, [1], "does not meet contains"),
        ({"propertyNames": {"maxLength": 2}}, {"abc": 1}, "the name of a property"),
        ({"additionalProperties": False}, {"abc": 1}, "none is allowed"),
        ({"dependentRequired": {"a": ["b"]}}, {"a": 1}, "dependentRequired"),
    ],
)
def test_each_constraint_has_its_words(rules: dict[str, Any], value: Any, said: str):
    assert said in only(schema.check(rules, value)).message


def test_at_most_ten_problems_are_told_and_missing_names_come_first():
    rules = an_object(["must"], **{f"p{index}": {"type": "integer"} for index in range(30)})
    problems = schema.check(rules, {f"p{index}": "x" for index in range(30)})
    assert len(problems) == 10
    assert problems[0].constraint == "required"


def test_messages_and_expectations_are_short():
    rules = {"enum": ["x" * 5_000, *map(str, range(5_000))]}
    problem = only(schema.check(rules, "y" * 1_000_000))
    assert len(problem.message) <= 300
    assert len(str(problem.expected)) <= 400


SECRET = "hunter2-hunter2"


@pytest.mark.parametrize(
    "rules",
    [
        {"enum": ["hunter3-hunter2"]},
        {"type": "integer"},
        {"pattern": "^x"},
        {"maxLength": 3},
        {"not": {}},
        {"const": 1},
        {"$ref": "#/x"},
    ],
)
def test_values_are_not_quoted_where_they_may_be_secrets(rules: dict[str, Any]):
    problem = only(schema.check({"properties": {"token": rules}}, {"token": SECRET}, root="config", quote_values=False))
    assert SECRET not in problem.message
    assert problem.suggestion is None


def test_the_dialect_that_the_schema_names_is_honoured():
    tuples = {"items": [{"type": "integer"}]}
    assert schema.check_schema(tuples) is not None
    for dialect in ("http://json-schema.org/draft-07/schema#", "https://json-schema.org/draft/2019-09/schema"):
        assert only(schema.check({"$schema": dialect, **tuples}, ["x"])).path == "arguments[0]"
    assert only(
        schema.check({"$schema": "http://json-schema.org/draft-04/schema", "minimum": 1, "exclusiveMinimum": True}, 1)
    )
    assert only(schema.check({"prefixItems": [{"type": "integer"}]}, ["x"])).path == "arguments[0]"


@pytest.mark.parametrize(
    "broken",
    [
        {"type": "any"},
        {"type": 5},
        {"properties": 5},
        {"properties": {"a": 5}},
        {"required": True},
        {"required": [1]},
        {"enum": 5},
        {"pattern": "("},
        {"pattern": "^(?=a"},
        {"pattern": r"(?<!(\1"},
        {"patternProperties": {"[": {}}},
        {"minLength": -1},
        {"minLength": True},
        {"multipleOf": 0},
        {"anyOf": []},
        {"anyOf": {"a": 1}},
        {"$ref": 5},
        {"$defs": {"a": {"items": {"type": "x"}}}},
        {"exclusiveMinimum": True},
        {"dependentRequired": {"a": "b"}},
        {"a": nested(300)},
        {"a": circle()},
        {"a": object()},
        {1: 2},
        "string",
        5,
    ],
    ids=lambda each: without_address(each)[:40],
)
def test_a_broken_schema_is_one_problem(broken: Any):
    assert schema.check_schema(broken)
    problem = only(schema.check(broken, {}))
    assert problem.constraint == "schema"
    assert len(problem.message) <= 300


def test_a_usable_schema_has_no_fault():
    rules = an_object(["a"], a={"$ref": "#/$defs/A", "description": None, "title": 5}) | {"$defs": {"A": True}}
    assert schema.check_schema(rules) is None
    assert schema.check_schema(True) is None


@pytest.mark.heavy
@given(JSON, JSON)
@settings(max_examples=300, deadline=None)
def test_a_check_never_raises(rules: Any, value: Any):
    assert isinstance(schema.check(rules, value), list)


KEYWORDS = [
    "type",
    "properties",
    "required",
    "enum",
    "items",
    "anyOf",
    "$ref",
    "minLength",
    "pattern",
    "not",
    "$id",
    "if",
    "$anchor",
]


@pytest.mark.heavy
@given(
    st.dictionaries(st.sampled_from([*KEYWORDS, "unevaluatedProperties", "allOf", "$dynamicRef", "$schema"]), JSON),
    JSON,
)
@settings(max_examples=300, deadline=None)
def test_a_check_with_nonsense_keywords_never_raises(rules: Any, value: Any):
    assert isinstance(schema.check(rules, value), list)
    assert isinstance(schema.check({"$defs": {"x": rules}, "properties": {"a": rules}}, {"a": value}), list)


def test_a_schema_that_was_changed_is_compiled_anew():
    rules: dict[str, Any] = an_object(a={"type": "integer"})
    assert schema.check(rules, {"a": 1}) == []
    rules["properties"]["a"]["type"] = "string"
    assert only(schema.check(rules, {"a": 1})).constraint == "type"
    rules["properties"]["a"] = {"const": 1}
    assert schema.check(rules, {"a": 1}) == []
    rules["properties"]["a"]["const"] = True
    assert only(schema.check(rules, {"a": 1})).constraint == "const"


def test_other_mappings_and_subclasses_are_checked_as_what_they_hold():
    rules = MappingProxyType(an_object(a={"type": "string"}, b={"type": "array"}))
    assert schema.check(rules, {"a": Colour.RED, "b": (1, 2)}) == []
    assert only(schema.check(rules, MappingProxyType({"a": Level.HIGH}))).path == "arguments.a"


@pytest.mark.parametrize(
    "value", [{"a": object()}, {1: 2}, {"a": {1}}, {"a": float("nan")}, {"a": float("inf")}, Broken(a=1)]
)
def test_what_is_no_json_is_a_problem(value: Any):
    assert only(schema.check({}, value)).constraint in {"json", "limit"}


def test_many_threads_may_check_at_once():
    rules = {"$defs": {"t": an_object(next={"$ref": "#/$defs/t"}, n={"type": "integer"})}, "$ref": "#/$defs/t"}
    failed: list[Any] = []

    def work(seed: int) -> None:
        for _ in range(100):
            value: Any = {"n": seed}
            for _ in range(seed):
                value = {"next": value, "n": 1}
            failed.extend(schema.check(rules, value))

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == []


# patterns


@pytest.mark.parametrize(
    ("pattern", "fits", "fails"),
    [
        (r"^\d+$", "12", "१२"),
        (r"^\w+$", "ab_1", "é"),
        (r"^\p{L}+$", "éß", "a1"),
        ("a$", "a", "a\n"),
        (r"^(?=.*[a-z])(?=.*\d)(?!.*\s).{8,64}$", "abcdefg1", "abcdefgh"),
        (r"^(?!-)(?:[a-z0-9-]{1,63}\.)+[a-z]{2,}$", "a-b.example.com", "-a.com"),
        (r"^https?://(?!localhost)[a-z.]+$", "https://a.b", "https://localhost"),
        (r"^(['\"])x\1$", "'x'", "'x\""),
        (r"^(?<q>a|b)\k<q>$", "aa", "ab"),
        ("^\U0001f432$", "\U0001f432", "x"),
        (r"^[\w-.]+@[\w-\.]+$", "a.b-c@d", "é@a"),
        (r"^[^\]]$", "x", "]"),
        (r"^[\d\D]\Z", "x", "x\n"),
        (r"^[^]$", "\n", ""),
        (r"^[\[&~-]+$", "[&~-", "x"),
        (r"^\cA\/\u0041\x42$", "\x01/AB", "x"),
        ("^{x}$", "{x}", "x"),
        ("^.$", "\U0001f432", "\n"),
        ("^a.c$", "a\ud800c", "ac"),
        (r"^(?s:.)$", "\n", "ab"),
        (r"\bfoo\b", "a foo", "éfoo1"),
        (r"^x(?=[[&])", "x[", "x"),
    ],
)
def test_a_pattern_is_read_as_ecmascript_reads_it(pattern: str, fits: str, fails: str):
    assert schema.check({"pattern": pattern}, fits) == []
    assert only(schema.check({"pattern": pattern}, fails)).constraint == "pattern"


# bounded work


def doubling(keyword: str, levels: int, **leaf: Any) -> dict[str, Any]:
    defs: dict[str, Any] = {f"l{level}": {keyword: [{"$ref": f"#/$defs/l{level + 1}"}] * 2} for level in range(levels)}
    return {"$defs": {**defs, f"l{levels}": leaf}, "$ref": "#/$defs/l0"}


EVIL = "^(a+)+$"
WORD = "a" * 40 + "!"
LONG = ["k" * 30 + str(index) for index in range(2_000)]
WIDE_RULES: dict[str, Any] = {f"p{index}": {} for index in range(4_000)}
HOSTILE: dict[str, tuple[Any, Any]] = {
    "pattern": ({"pattern": EVIL}, WORD),
    "pattern on a long text": ({"pattern": EVIL}, "a" * 1_000_000 + "!"),
    "pattern in a name": ({"propertyNames": {"pattern": EVIL}}, {WORD: 1}),
    "patternProperties": ({"patternProperties": {EVIL: {}}, "additionalProperties": False}, {WORD: 1}),
    "unevaluatedProperties": ({"patternProperties": {EVIL: {}}, "unevaluatedProperties": False}, {WORD: 1}),
    "pattern under another $schema": (
        {"properties": {"a": {"$schema": "http://json-schema.org/draft-07/schema#", "pattern": EVIL}}},
        {"a": WORD},
    ),
    "pattern behind look-around": ({"pattern": "x?(?=(a+)+$)"}, WORD),
    "pattern with a back-reference": ({"pattern": r"(a*)*\1$"}, WORD),
    "pattern of choices": ({"pattern": "(a|a)" * 40 + r"(b)\1"}, WORD),
    "pattern of counts": ({"pattern": "((((a{10}){10}){10}){10}){10}"}, "a" * 100_000),
    "pattern of letters": ({"pattern": r"\p{L}{1000}"}, "é" * 1_000),
    "doubling allOf": (doubling("allOf", 40, type="null"), {}),
    "doubling anyOf": (doubling("anyOf", 30, type="null"), {}),
    "doubling unevaluated": ({**doubling("allOf", 30, type="object"), "unevaluatedProperties": False}, {"a": 1}),
    "doubling per level of the value": ({"properties": {"a": {"allOf": [{"$ref": "#"}] * 2}}}, nested(100)),
    "self": ({"$ref": "#"}, {}),
    "self in a choice": ({"anyOf": [{"$ref": "#"}, {"$ref": "#"}]}, {}),
    "self denied": ({"not": {"$ref": "#"}}, {}),
    "self by turns": ({"$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}, "$ref": "#/$defs/a"}, {}),
    "dynamic self": ({"$dynamicAnchor": "x", "$dynamicRef": "#x"}, {}),
    "deep arguments": ({"type": "object"}, nested(10_000)),
    "many values": ({"type": "array", "uniqueItems": True}, [0] * 1_000_000),
    "unique numbers": ({"uniqueItems": True}, [*range(49_000), 0]),
    "unique numbers of one hash": ({"uniqueItems": True}, [*(index * (2**61 - 1) for index in range(1, 20_000)), 2**61 - 1]),
    "unique objects": ({"uniqueItems": True}, [*({"a": index} for index in range(10_000)), {"a": 0}]),
    "giant enum": ({"enum": list(range(19_000))}, "x"),
    "larger enum": ({"enum": list(range(1_000_000))}, "x"),
    "enum of objects": ({"enum": [{"a": [index] * 5} for index in range(2_500)]}, {"a": [1] * 6}),
    "huge number": ({"multipleOf": 7}, 10**100_000),
    "large number and a fraction": ({"multipleOf": 0.01}, 10**400 + 1),
    "huge number in the schema": ({"maximum": 10**100_000}, 1),
    "contains and unevaluatedItems": ({"contains": {"type": "integer"}, "unevaluatedItems": False}, [*range(10_000), "x"]),
    "large text in many choices": ({"anyOf": [{"type": "integer"}] * 300}, "x" * 5_000_000),
    "many names and many patterns": (
        {"patternProperties": {f"^k{index}x": {} for index in range(500)}, "additionalProperties": False},
        {f"z{index}": 1 for index in range(3_000)},
    ),
    "near names": ({"properties": dict.fromkeys(LONG, True), "additionalProperties": False}, {name + "x": 1 for name in LONG}),
    "near required names": ({"required": LONG}, {name + "x": 1 for name in LONG}),
    "near enum values": ({"enum": LONG}, LONG[0] + "x"),
    "many broken rules": ({"dependentRequired": {f"k{i}": [f"z{j}" for j in range(99)] for i in range(150)}}, {f"k{i}": 1 for i in range(150)}),
}  # fmt: skip


WIDE = {f"p{index}": 1 for index in range(4_000)}
VARIANTS = [an_object([f"z{index}"], **{f"p{each}": {"type": "integer"} for each in range(10)}) for index in range(200)]
HOSTILE.update({
    "one wide schema in many places": (
        {"$defs": {"a": an_object(**WIDE_RULES) | {"additionalProperties": False}}, "allOf": [{"$ref": "#/$defs/a"}] * 900},
        WIDE,
    ),
    "large text in many negations": ({"allOf": [{"not": {"maxLength": 9e9}}] * 900}, "x" * 5_000_000),
    "rows of no variant": ({"items": {"anyOf": VARIANTS}}, [{f"p{index}": "x" for index in range(10)}] * 4_000),
    "unique within unique": ({"uniqueItems": True, "items": {"$ref": "#"}}, [*nested_list(150), 1, 1]),
    "pattern on many long texts": ({"items": {"pattern": "[^a]{1,3000}x"}}, ["é" * 3_000] * 100),
    "classes never closed": ({"pattern": "[a" * 2_500}, "a"),
    "optional parts before look-ahead": ({"pattern": "a?" * 30 + "a(?=b)"}, "a" * 30),
    "resources of many names": (
        {"$id": "http://x/", "$defs": {f"d{index}": {"$id": f"http://x/{index}", "allOf": [{"$ref": f"{index + 1}"}] * 2} for index in range(30)} | {"end": {"$id": "http://x/30", "type": "null"}}, "not": {"$ref": "0"}},
        None,
    ),
})  # fmt: skip


def calls_of(action: Callable[[], object]) -> int:
    """How many functions are called, Python's and C's: the same count on every machine."""
    count = 0

    def profile(_frame: object, event: str, _argument: object) -> None:
        nonlocal count
        count += event in {"call", "c_call"}

    sys.setprofile(profile)
    try:
        action()
    finally:
        sys.setprofile(None)
    return count


@pytest.mark.heavy
@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_schema_or_value_costs_few_steps_and_ends_in_a_problem(name: str):
    rules, value = HOSTILE[name]
    problems: list[Problem] = []
    work.begin(Size(0, 0), None)
    calls = calls_of(lambda: problems.extend(schema.check(rules, value)))
    text = schema.render(problems, "tool", rules)
    assert 1 <= len(problems) <= 10
    assert len(text) <= 2_000
    size = survey(value)
    assert work.limit <= 20_000 + 10 * size.values + size.characters // 50
    assert calls <= 1_000_000 + 10 * work.limit, "a step stands for a bounded number of calls"


@pytest.mark.heavy
@pytest.mark.parametrize("name", sorted(HOSTILE.keys() - {"rows of no variant"}))  # three seconds a check
def test_the_same_check_takes_the_same_steps_again(name: str):
    rules, value = HOSTILE[name]
    schema.check(rules, value)
    first = (work.steps, schema.check(rules, value))
    assert (work.steps, schema.check(rules, value)) == first


@pytest.mark.heavy
@pytest.mark.parametrize(
    "rules",
    [
        {"pattern": r"\p{L}{64}"},
        {"enum": [{"a": index} for index in range(9_000)]},
        doubling("allOf", 500),
        {"$defs": {f"d{index}": {"$anchor": f"a{index}"} for index in range(5_000)}},
        {"properties": {f"p{index}": {"pattern": f"a{index}"} for index in range(5_000)}},
    ],
    ids=["letters", "values", "levels", "anchors", "patterns"],
)
def test_the_first_check_with_a_hostile_schema_is_bounded_too(rules: dict[str, Any]):
    rules["$comment"] = random.random()  # not compiled yet
    assert calls_of(lambda: schema.check(rules, "x")) < 1_500_000


def test_no_clock_is_read_in_the_schema_folder():
    folder = Path(schema.__file__).parent / "_schema"
    imports = [line for path in folder.glob("*.py") for line in path.read_text().splitlines() if "import" in line]
    assert [line for line in imports if "import time" in line] == []


ROWS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "columns": (
        an_object(["a"], a={"type": "integer"}, b={"anyOf": [{"type": "string"}, {"type": "null"}]}),
        {"a": 1, "b": None},
    ),
    "variants": (
        {"oneOf": [an_object(["kind", "n"], kind={"const": kind}, n={"type": "integer"}) for kind in "wxyz"]},
        {"kind": "z", "n": 1},
    ),
    "checked text": (
        an_object(["sku", "mode"], sku={"type": "string", "pattern": r"^[A-Z]{3}-\d+$"}, mode={"enum": ["a", "b"]}),
        {"sku": "ABC-12", "mode": "b"},
    ),
}


@pytest.mark.heavy
@pytest.mark.parametrize("name", ROWS)
def test_five_thousand_rows_are_accepted_with_steps_to_spare(name: str):
    row, value = ROWS[name]
    assert schema.check(an_object(rows={"items": row}), {"rows": [value] * 5_000}) == []
    assert work.steps < work.limit * 0.7


def test_a_call_may_carry_a_large_text():
    rules = an_object(["path", "content"], path={"type": "string"}, content={"type": "string", "minLength": 1})
    assert schema.check(rules, {"path": "a", "content": "x" * 20_000_000}) == []


def test_a_key_given_twice_is_found_without_a_search_for_each():
    text = json.dumps({f"key{index}": index for index in range(16_000)})[:-1] + ', "key15999": 1}'
    with pytest.raises(BadArguments, match="'key15999' is given twice"):
        schema.parse_arguments(text)
    with contextlib.suppress(BadArguments):
        assert calls_of(lambda: schema.parse_arguments(text)) < 100_000


def test_a_value_nested_150_levels_can_be_checked():
    assert schema.check({"properties": {"a": {"$ref": "#"}}}, nested(150)) == []


# the network


@pytest.fixture
def canary():
    seen: list[str] = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            seen.append(self.path)
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b"{}")

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base's name
            return

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}", seen
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.mark.heavy
def test_no_reference_sends_a_request(canary: tuple[str, list[str]]):
    url, seen = canary
    for rules in (
        {"$ref": f"{url}/a.json"},
        {"$id": f"{url}/root.json", "$ref": "other.json"},
        {"$schema": f"{url}/dialect", "$ref": f"{url}/b.json#/x"},
        {"$dynamicRef": f"{url}/c.json"},
        {"$schema": "http://json-schema.org/draft-07/schema#", "$ref": f"{url}/d.json"},
        {"$ref": f"{url}/e.json", "unevaluatedProperties": False},
    ):
        assert only(schema.check(rules, {"a": 1})).constraint == "schema"
    assert seen == []


def test_no_reference_reads_a_file(tmp_path: Path):
    (tmp_path / "a.json").write_text("{}")
    problem = only(schema.check({"$ref": (tmp_path / "a.json").as_uri()}, {}))
    assert problem.constraint == "schema"
    assert "no other document is ever fetched" in problem.message


@pytest.mark.heavy
def test_importing_the_module_loads_no_validator():
    # Only this module and what it imports: the package's own start is measured elsewhere.
    code = (
        "import sys, importlib, types; package = types.ModuleType('hooksdk'); package.__path__ = [sys.argv[1]];"
        "sys.modules['hooksdk'] = package; importlib.import_module('hooksdk.schema').clone({});"
        "print([name for name in sys.modules if name.split('.')[0] in ('jsonschema', 'referencing')])"
    )
    folder = str(Path(schema.__file__).parent)
    assert (
        subprocess.run([sys.executable, "-c", code, folder], capture_output=True, text=True, check=True).stdout
        == "[]\n"
    )


# render


def test_what_the_message_says_already_is_not_said_again():
    rules = an_object(["path"], path={"type": "string"}, count={"minimum": 0}, mode={"enum": ["fast", "slow"]})
    text = schema.render(schema.check(rules, {"count": -1, "mode": "x"}), "read_file", rules)
    assert "must be >= 0; got integer -1.\n" in text, "`Expected: 0` would be read as the value to send"
    assert text.count("fast") == 1
    assert 'Expected: {"type": "string"}' in text


def test_the_model_is_told_all_it_needs_to_send_the_call_again():
    rules = {
        **an_object(["path"], path={"type": "string"}, mode={"enum": ["fast", "slow"]}),
        "additionalProperties": False,
    }
    text = schema.render(schema.check(rules, {"pth": 1, "mode": "fsat"}), "read_file", rules)
    for part in (
        "read_file was not invoked",
        "arguments.path (required)",
        'Did you mean "path"?',
        '"fast", "slow"',
        "Required: path",
    ):
        assert part in text


def test_a_refusal_has_at_most_two_thousand_characters():
    problem = Problem("p" * 300, "c" * 300, "m" * 300, "e" * 400, "s" * 300)
    text = schema.render([problem] * 10, "t" * 5_000, {"required": ["r" * 5_000]})
    assert len(text) <= 2_000
    assert "more." in text
    assert text.endswith("Send the call again with these corrected.")


# repair

TOOL: dict[str, Any] = {
    **an_object(
        ["repo"],
        repo={"type": "string"},
        count={"type": "integer"},
        share={"type": "number"},
        on={"type": "boolean"},
        mode={"enum": ["fast", "slow"]},
        maybe={"anyOf": [{"type": "integer"}, {"type": "null"}]},
        tags={"type": "array", "items": {"type": "integer"}},
        options=an_object(count={"type": "integer"}, deep=an_object(x={"type": "number"})),
        who={"$ref": "#/$defs/who"},
    ),
    "additionalProperties": False,
    "$defs": {"who": an_object(["name"], name={"type": "string"}, age={"type": "integer"})},
}


@pytest.mark.parametrize(
    ("given_arguments", "meant"),
    [
        ({"count": "42"}, {"count": 42}),
        ({"share": "-1.5e2"}, {"share": -150.0}),
        ({"on": "True"}, {"on": True}),
        ({"on": "false"}, {"on": False}),
        ({"maybe": "7"}, {"maybe": 7}),
        ({"maybe": "null"}, {"maybe": None}),
        ({"tags": '["1", 2]'}, {"tags": [1, 2]}),
        ({"options": '{"count": "3"}'}, {"options": {"count": 3}}),
        ({"who": '{"name": "n", "age": "4"}'}, {"who": {"name": "n", "age": 4}}),
        ({"count": None, "mode": None}, {}),
        ({"count": "", "mode": ""}, {}),
        ({"options.count": "5", "options.deep.x": 1}, {"options": {"count": 5, "deep": {"x": 1}}}),
    ],
    ids=without_address,
)
def test_what_a_weak_model_wrote_is_repaired(given_arguments: dict[str, Any], meant: dict[str, Any]):
    assert schema.repair(TOOL, {"repo": "r", **given_arguments}) == {"repo": "r", **meant}


FOLDED = an_object(["resource_type"], resource_type={"type": "string"}, name={"type": "string"})


@pytest.mark.parametrize("key", ["resourceType", "resource-type", "Resource_Type", "resourcetype"])
def test_an_unknown_key_that_folds_to_a_missing_required_one_takes_its_place(key: str):
    closed = {**FOLDED, "additionalProperties": False}
    for rules in (FOLDED, closed):
        assert schema.fit(rules, {key: "pod", "name": "a"}) == ({"name": "a", "resource_type": "pod"}, [])
    inner = an_object(["target"], target=closed)
    assert schema.fit(inner, {"target": {key: "pod"}}) == ({"target": {"resource_type": "pod"}}, [])


@pytest.mark.parametrize(
    ("rules", "written"),
    [
        (FOLDED, {"resourceType": "pod", "resource-type": "service"}),
        (FOLDED, {"resourceType": "pod", "resource_type": "service"}),
        (FOLDED, {"resourceTypes": "pod"}),
        (an_object(["resource_type"], resource_type={}, resourceType={}), {"resourceType": "pod"}),
        (an_object([], resource_type={}), {"resourceType": "pod"}),
        ({**FOLDED, "additionalProperties": True}, {"resourceType": "pod"}),
        ({**FOLDED, "additionalProperties": {"type": "string"}}, {"resourceType": "pod"}),
        ({**FOLDED, "patternProperties": {"^r": {}}}, {"resourceType": "pod"}),
    ],
    ids=without_address,
)
def test_a_key_is_not_renamed_where_another_may_be_meant(rules: dict[str, Any], written: dict[str, Any]):
    assert schema.repair(rules, written) == written


@pytest.mark.parametrize("wrapper", ["arguments", "args", "input", "parameters", "params"])
def test_a_wrapper_is_taken_off(wrapper: str):
    assert schema.repair(TOOL, {wrapper: {"repo": "r", "count": "1"}}) == {"repo": "r", "count": 1}
    assert schema.repair(TOOL, {wrapper: '{"repo": "r"}'}) == {"repo": "r"}
    assert schema.repair(TOOL, {f"{wrapper}.repo": "r"}) == {"repo": "r"}


@pytest.mark.parametrize(
    "doubtful",
    [
        {"count": "4.5"}, {"count": "042"}, {"count": " 4"}, {"on": "yes"}, {"on": 1}, {"repo": None}, {"repo": 42}, {"tags": "1,2"},
        {"args": {"other": 1}}, {"args": 1}, {"options.nothing": 1}, {"mode": "FAST"}, {"tags": "x"}, {"who": '{"a": 1, "a": 2}'},
    ],
    ids=without_address,
)  # fmt: skip
def test_what_is_in_doubt_stays(doubtful: dict[str, Any]):
    assert schema.repair(TOOL, doubtful) == doubtful


def test_a_string_that_looks_like_a_number_stays_a_string():
    assert schema.repair(TOOL, {"repo": "42", "count": "1"}) == {"repo": "42", "count": 1}


OPEN = an_object([], state={"type": "string"}, count={"type": "integer"}, filter=an_object(label={"type": "string"}))
"""Says nothing of other arguments, so that none is refused."""


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ({"arguments": {"state": "open"}}, {"state": "open"}),
        ({"params": '{"state": "open"}'}, {"state": "open"}),
        ({"input": {"count": "1"}}, {"count": 1}),
        ({"state": "open", "args.count": 1}, {"state": "open", "count": 1}),
        ({"state": "open", "filter.label": "bug"}, {"state": "open", "filter": {"label": "bug"}}),
    ],
    ids=without_address,
)
def test_what_passes_only_because_a_schema_is_silent_is_repaired(written: dict[str, Any], meant: dict[str, Any]):
    assert schema.repair(OPEN, written) == meant


@pytest.mark.parametrize(
    "written",
    [{"other": 1}, {"args": {"other": 1}}, {"filter.other": 1}, {"args.other": 1}, {"state": "", "x": None}],
    ids=without_address,
)
def test_what_a_silent_schema_does_not_explain_stays(written: dict[str, Any]):
    assert schema.repair(OPEN, written) == written


@pytest.mark.parametrize("more", [{"additionalProperties": True}, {"patternProperties": {"x": {}}}], ids=str)
def test_where_others_are_welcome_they_are_let_alone(more: dict[str, Any]):
    assert schema.repair({**OPEN, **more}, {"arguments": {"state": "open"}}) == {"arguments": {"state": "open"}}


def test_a_property_named_like_a_wrapper_is_no_wrapper():
    rules = an_object(["input"], input=an_object(n={"type": "integer"}))
    assert schema.repair(rules, {"input": {"n": "1"}}) == {"input": {"n": 1}}


def test_what_fits_is_answered_as_it_came_after_one_check():
    arguments: dict[str, Any] = {"repo": "r", "count": 1, "options": {"count": 3}}
    fitted, problems = schema.fit(TOOL, arguments)
    assert fitted is arguments
    assert problems == []
    check = calls_of(lambda: schema.check(TOOL, arguments))
    assert calls_of(lambda: schema.fit(TOOL, arguments)) < 1.5 * check


def test_what_cannot_be_repaired_is_answered_as_it_came_with_what_is_wrong():
    arguments = {"repo": 1}
    fitted, problems = schema.fit(TOOL, arguments)
    assert fitted is arguments
    assert only(problems).path == "arguments.repo"


def test_what_is_repaired_is_another_object_and_what_is_still_wrong_is_told():
    arguments: dict[str, Any] = {"count": "1"}
    fitted, problems = schema.fit(TOOL, arguments)
    assert (fitted, arguments) == ({"count": 1}, {"count": "1"})
    assert only(problems).path == "arguments.repo"


def test_hundreds_of_references_in_a_row_are_not_followed_for_a_repair():
    links = {f"l{index}": {"anyOf": [{"$ref": f"#/$defs/l{index + 1}"}, {"type": "null"}]} for index in range(600)}
    chain = {"anyOf": [{"type": "string"}, {"$ref": "#/$defs/l0"}]}
    rules = {**an_object(a=chain, n={"type": "integer"}), "$defs": {**links, "l600": {"type": "string"}}}
    fitted, problems = schema.fit(rules, {"a": "x", "n": "3"})
    assert fitted == {"a": "x", "n": "3"}
    assert only(problems).path == "arguments.n"


def test_a_local_reference_is_followed_within_its_schema():
    rules = {"$defs": {"a/b": {"anyOf": [True, {"type": "null"}]}}}
    assert schema.local_target(rules, "#") is rules
    assert schema.local_target(rules, "#/$defs/a~1b/anyOf/1") == {"type": "null"}
    for reference in ("#/$defs/c", "#name", "https://a.b/c", "#/$defs/a~1b/anyOf/2", None):
        with pytest.raises(LookupError):
            schema.local_target(rules, reference)


@pytest.mark.heavy
@settings(deadline=None)
@given(OBJECTS)
def test_repair_never_changes_arguments_that_fit(arguments: dict[str, Any]):
    kinds = {"a": {"type": ["integer", "string"]}, "": {"type": "array"}}
    rules = {"properties": kinds, "additionalProperties": True}
    if not schema.check(rules, arguments):
        assert schema.repair(rules, arguments) == arguments
    assert schema.repair(None, arguments) == arguments
    assert schema.repair({}, arguments) == arguments


@pytest.mark.heavy
@settings(deadline=None)
@given(st.dictionaries(st.sampled_from([*TOOL["properties"], "args", "options.count", "x.y"]), JSON))
def test_repair_makes_nothing_worse_and_leaves_its_input_alone(arguments: dict[str, Any]):
    before = schema.clone(arguments)
    repaired = schema.repair(TOOL, arguments)
    assert arguments == before
    assert len(schema.check(TOOL, repaired)) <= len(schema.check(TOOL, arguments))
    assert not containers(repaired) & containers(arguments)


@pytest.mark.heavy
@pytest.mark.parametrize("name", ["doubling anyOf", "self in a choice", "near names"])
def test_repair_of_a_hostile_schema_is_bounded(name: str):
    rules, value = HOSTILE[name]
    assert calls_of(lambda: schema.repair({"required": ["a"], **rules}, value)) < 3_000_000


def ordinary() -> list[tuple[dict[str, Any], dict[str, Any]]]:
    item = an_object(["sku"], sku={"type": "string", "pattern": r"^[A-Z]{3}-\d+$"}, n={"type": "integer", "minimum": 1})
    order = {
        **an_object(["items"], items={"type": "array", "items": {"$ref": "#/$defs/item"}}),
        "$defs": {"item": item},
    }
    query = an_object(
        ["q"], q={"type": "string", "minLength": 1}, sort={"enum": ["asc", "desc"]}, tags={"items": {"type": "string"}}
    )
    return [(TOOL, {"repo": "x", "count": 1, "tags": [1, 2], "options": {"count": 3}}), (order, {"items": [{"sku": "ABC-1", "n": 2}] * 3}), (query, {"q": "x", "sort": "asc", "tags": ["a"]})]  # fmt: skip


def test_checking_ordinary_arguments_takes_fewer_calls_than_a_kept_validator_of_jsonschema():
    for rules, arguments in ordinary():
        raw: Any = jsonschema.Draft202012Validator(rules)
        assert schema.check(rules, arguments) == list(raw.iter_errors(arguments)) == []
        assert calls_of(lambda: schema.check(rules, arguments)) < calls_of(lambda: list(raw.iter_errors(arguments)))  # noqa: B023
