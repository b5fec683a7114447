"""Copying, reading, checking, explaining and repairing JSON values by their schema."""

from __future__ import annotations

import contextlib
import gc
import http.server
import json
import marshal
import random
import subprocess
import sys
import threading
import time
import timeit
from collections import OrderedDict, UserDict
from collections.abc import Iterator
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
from hooksdk._schema.engine import compile_schema
from hooksdk.schema import BadArguments, Problem, Uncloneable

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(st.text(max_size=5), inner, max_size=5),
    max_leaves=20,
)
OBJECTS = st.dictionaries(st.text(max_size=5), JSON, max_size=5)


@pytest.fixture(params=["python", "fast"])
def engine(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param == "fast":
        pytest.importorskip("jsonschema_rs", reason="the extra `fast` is not installed")
    monkeypatch.setattr(schema, "use_fast", request.param == "fast")
    return request.param


def an_object(required: list[str] | None = None, **properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": required or []}


def nested(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = {"a": value}
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
    ],
)
def test_bad_arguments_say_what_came_and_what_to_send(raw: object, said: str):
    with pytest.raises(BadArguments) as caught:
        schema.parse_arguments(raw)
    assert said in str(caught.value)
    assert "Send one JSON object" in str(caught.value)


@given(st.text() | st.binary() | JSON)
def test_reading_arguments_raises_nothing_but_bad_arguments(raw: object):
    with contextlib.suppress(BadArguments):
        assert type(schema.parse_arguments(raw)) is dict


@given(OBJECTS)
def test_written_arguments_are_read_back(value: dict[str, Any]):
    assert schema.parse_arguments(json.dumps(value)) == value


# check


def test_no_schema_allows_anything():
    assert schema.check(None, object()) == []


@pytest.mark.usefixtures("engine")
def test_the_path_names_properties_and_indexes():
    rules = an_object(
        options=an_object(count={"type": "integer"}), rows={"items": {"properties": {"a b": {"type": "null"}}}}
    )
    problems = schema.check(rules, {"options": {"count": "x"}, "rows": [{}, {"a b": 1}]})
    assert [problem.path for problem in problems] == ["arguments.options.count", 'arguments.rows[1]["a b"]']
    assert [problem.constraint for problem in problems] == ["type", "type"]


@pytest.mark.usefixtures("engine")
def test_a_type_problem_says_what_is_expected_and_what_came():
    problem = only(schema.check(an_object(n={"type": ["integer", "null"]}), {"n": "x"}))
    assert problem == Problem("arguments.n", "type", 'must be integer or null; got string "x"', ["integer", "null"])


@pytest.mark.usefixtures("engine")
def test_a_misspelt_property_suggests_the_right_one():
    problem = only(schema.check({**an_object(count={}), "additionalProperties": False}, {"cuont": 1}))
    assert (problem.path, problem.constraint, problem.suggestion) == (
        "arguments.cuont",
        "additionalProperties",
        "count",
    )


@pytest.mark.usefixtures("engine")
def test_a_missing_property_names_the_near_one_that_came():
    problem = only(schema.check(an_object(["path"], path={"type": "string"}), {"pth": "x"}))
    assert (problem.path, problem.constraint, problem.suggestion) == ("arguments.path", "required", "path")
    assert '"pth" came instead' in problem.message
    assert problem.expected == {"type": "string"}


@pytest.mark.usefixtures("engine")
def test_a_near_enum_value_is_suggested():
    assert only(schema.check(an_object(m={"enum": ["fast", "slow", 1]}), {"m": "Fats"})).suggestion == "fast"


@pytest.mark.usefixtures("engine")
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
@pytest.mark.usefixtures("engine")
def test_each_constraint_has_its_words(rules: dict[str, Any], value: Any, said: str):
    assert said in only(schema.check(rules, value)).message


@pytest.mark.usefixtures("engine")
def test_at_most_ten_problems_are_told_and_missing_names_come_first():
    rules = an_object(["must"], **{f"p{index}": {"type": "integer"} for index in range(30)})
    problems = schema.check(rules, {f"p{index}": "x" for index in range(30)})
    assert len(problems) == 10
    assert problems[0].constraint == "required"


@pytest.mark.usefixtures("engine")
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
@pytest.mark.usefixtures("engine")
def test_values_are_not_quoted_where_they_may_be_secrets(rules: dict[str, Any]):
    problem = only(schema.check({"properties": {"token": rules}}, {"token": SECRET}, root="config", quote_values=False))
    assert SECRET not in problem.message
    assert problem.suggestion is None


@pytest.mark.usefixtures("engine")
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
@pytest.mark.usefixtures("engine")
def test_a_broken_schema_is_one_problem(broken: Any):
    assert schema.check_schema(broken)
    problem = only(schema.check(broken, {}))
    assert problem.constraint == "schema"
    assert len(problem.message) <= 300


def test_a_usable_schema_has_no_fault():
    rules = an_object(["a"], a={"$ref": "#/$defs/A", "description": None, "title": 5}) | {"$defs": {"A": True}}
    assert schema.check_schema(rules) is None
    assert schema.check_schema(True) is None


@given(JSON, JSON)
@settings(max_examples=300)
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


@given(
    st.dictionaries(st.sampled_from([*KEYWORDS, "unevaluatedProperties", "allOf", "$dynamicRef", "$schema"]), JSON),
    JSON,
)
@settings(max_examples=300)
def test_a_check_with_nonsense_keywords_never_raises(rules: Any, value: Any):
    assert isinstance(schema.check(rules, value), list)
    assert isinstance(schema.check({"$defs": {"x": rules}, "properties": {"a": rules}}, {"a": value}), list)


@pytest.mark.usefixtures("engine")
def test_a_schema_that_was_changed_is_compiled_anew():
    rules: dict[str, Any] = an_object(a={"type": "integer"})
    assert schema.check(rules, {"a": 1}) == []
    rules["properties"]["a"]["type"] = "string"
    assert only(schema.check(rules, {"a": 1})).constraint == "type"
    rules["properties"]["a"] = {"const": 1}
    assert schema.check(rules, {"a": 1}) == []
    rules["properties"]["a"]["const"] = True
    assert only(schema.check(rules, {"a": 1})).constraint == "const"


@pytest.mark.usefixtures("engine")
def test_other_mappings_and_subclasses_are_checked_as_what_they_hold():
    rules = MappingProxyType(an_object(a={"type": "string"}, b={"type": "array"}))
    assert schema.check(rules, {"a": Colour.RED, "b": (1, 2)}) == []
    assert only(schema.check(rules, MappingProxyType({"a": Level.HIGH}))).path == "arguments.a"


@pytest.mark.parametrize(
    "value", [{"a": object()}, {1: 2}, {"a": {1}}, {"a": float("nan")}, {"a": float("inf")}, Broken(a=1)]
)
@pytest.mark.usefixtures("engine")
def test_what_is_no_json_is_a_problem(value: Any):
    assert only(schema.check({}, value)).constraint in {"json", "limit"}


@pytest.mark.usefixtures("engine")
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
        (r"^\ud83d\udc32$", "\U0001f432", "x"),
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
@pytest.mark.usefixtures("engine")
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
    "many anchors": ({"$defs": {f"d{index}": {"$anchor": f"a{index}"} for index in range(5_000)}}, {}),
    "many broken rules": ({"dependentRequired": {f"k{i}": [f"z{j}" for j in range(99)] for i in range(150)}}, {f"k{i}": 1 for i in range(150)}),
}  # fmt: skip


@pytest.fixture
def no_collector() -> Iterator[None]:
    """No garbage is collected meanwhile; to collect it all beforehand takes long where thousands of tests are known."""
    gc.disable()
    yield
    gc.enable()


@pytest.mark.parametrize("name", HOSTILE)
@pytest.mark.usefixtures("engine", "no_collector")
def test_a_hostile_schema_or_value_costs_little_and_ends_in_a_problem(name: str):
    rules, value = HOSTILE[name]
    schema.check({"type": "object"}, {})
    best = 10.0
    for _ in range(5):  # the machine is shared: the best of five; without bounds these take seconds to hours
        start = time.perf_counter()
        problems = schema.check(rules, value)
        text = schema.render(problems, "tool", rules)
        best = min(best, time.perf_counter() - start)
        assert 1 <= len(problems) <= 10
        assert len(text) <= 2_000
        if best < 0.1:
            break
    assert best < 1.0


@pytest.mark.usefixtures("no_collector")
def test_the_first_check_with_a_hostile_schema_is_bounded_too():
    letters, values, levels = (
        {"pattern": r"\p{L}{64}"},
        {"enum": [{"a": index} for index in range(9_000)]},
        doubling("allOf", 500),
    )
    hostile: list[dict[str, Any]] = [letters, values, levels]
    for rules in hostile:
        rules["$comment"] = random.random()  # not compiled yet
        start = time.perf_counter()
        schema.check(rules, "x")
        assert time.perf_counter() - start < 1


@pytest.mark.usefixtures("engine")
def test_a_value_nested_150_levels_can_be_checked():
    assert schema.check({"properties": {"a": {"$ref": "#"}}}, nested(150)) == []


@pytest.mark.usefixtures("engine")
def test_five_thousand_rows_can_be_checked():
    rules = an_object(
        rows={"items": an_object(["a"], a={"type": "integer"}, b={"anyOf": [{"type": "string"}, {"type": "null"}]})}
    )
    assert schema.check(rules, {"rows": [{"a": index, "b": None} for index in range(5_000)]}) == []


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


@pytest.mark.usefixtures("engine")
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


@pytest.mark.usefixtures("engine")
def test_no_reference_reads_a_file(tmp_path: Path):
    (tmp_path / "a.json").write_text("{}")
    problem = only(schema.check({"$ref": (tmp_path / "a.json").as_uri()}, {}))
    assert problem.constraint == "schema"
    assert "no other document is ever fetched" in problem.message


def test_importing_the_module_loads_no_validator():
    # Only this module and what it imports: the package's own start is measured elsewhere.
    code = (
        "import sys, importlib, types; package = types.ModuleType('hooksdk'); package.__path__ = [sys.argv[1]];"
        "sys.modules['hooksdk'] = package; importlib.import_module('hooksdk.schema').clone({});"
        "print([name for name in sys.modules if name.split('.')[0] in ('jsonschema', 'referencing', 'jsonschema_rs')])"
    )
    folder = str(Path(schema.__file__).parent)
    assert (
        subprocess.run([sys.executable, "-c", code, folder], capture_output=True, text=True, check=True).stdout
        == "[]\n"
    )


# render


@pytest.mark.usefixtures("engine")
def test_what_the_message_says_already_is_not_said_again():
    rules = an_object(["path"], path={"type": "string"}, count={"minimum": 0}, mode={"enum": ["fast", "slow"]})
    text = schema.render(schema.check(rules, {"count": -1, "mode": "x"}), "read_file", rules)
    assert "must be >= 0; got integer -1.\n" in text, "`Expected: 0` would be read as the value to send"
    assert text.count("fast") == 1
    assert 'Expected: {"type": "string"}' in text


@pytest.mark.usefixtures("engine")
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
@pytest.mark.usefixtures("engine")
def test_what_a_weak_model_wrote_is_repaired(given_arguments: dict[str, Any], meant: dict[str, Any]):
    assert schema.repair(TOOL, {"repo": "r", **given_arguments}) == {"repo": "r", **meant}


@pytest.mark.parametrize("wrapper", ["arguments", "args", "input", "parameters", "params"])
@pytest.mark.usefixtures("engine")
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
@pytest.mark.usefixtures("engine")
def test_what_is_in_doubt_stays(doubtful: dict[str, Any]):
    assert schema.repair(TOOL, doubtful) == doubtful


@pytest.mark.usefixtures("engine")
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
@pytest.mark.usefixtures("engine")
def test_what_passes_only_because_a_schema_is_silent_is_repaired(written: dict[str, Any], meant: dict[str, Any]):
    assert schema.repair(OPEN, written) == meant


@pytest.mark.parametrize(
    "written",
    [{"other": 1}, {"args": {"other": 1}}, {"filter.other": 1}, {"args.other": 1}, {"state": "", "x": None}],
    ids=without_address,
)
@pytest.mark.usefixtures("engine")
def test_what_a_silent_schema_does_not_explain_stays(written: dict[str, Any]):
    assert schema.repair(OPEN, written) == written


@pytest.mark.parametrize("more", [{"additionalProperties": True}, {"patternProperties": {"x": {}}}], ids=str)
def test_where_others_are_welcome_they_are_let_alone(more: dict[str, Any]):
    assert schema.repair({**OPEN, **more}, {"arguments": {"state": "open"}}) == {"arguments": {"state": "open"}}


def test_a_property_named_like_a_wrapper_is_no_wrapper():
    rules = an_object(["input"], input=an_object(n={"type": "integer"}))
    assert schema.repair(rules, {"input": {"n": "1"}}) == {"input": {"n": 1}}


@given(OBJECTS)
def test_repair_never_changes_arguments_that_fit(arguments: dict[str, Any]):
    kinds = {"a": {"type": ["integer", "string"]}, "": {"type": "array"}}
    rules = {"properties": kinds, "additionalProperties": True}
    if not schema.check(rules, arguments):
        assert schema.repair(rules, arguments) == arguments
    assert schema.repair(None, arguments) == arguments
    assert schema.repair({}, arguments) == arguments


@given(st.dictionaries(st.sampled_from([*TOOL["properties"], "args", "options.count", "x.y"]), JSON))
def test_repair_makes_nothing_worse_and_leaves_its_input_alone(arguments: dict[str, Any]):
    before = schema.clone(arguments)
    repaired = schema.repair(TOOL, arguments)
    assert arguments == before
    assert len(schema.check(TOOL, repaired)) <= len(schema.check(TOOL, arguments))
    assert not containers(repaired) & containers(arguments)


def test_repair_of_a_hostile_schema_is_bounded():
    start = time.perf_counter()
    for name in ("doubling anyOf", "self in a choice", "near names"):
        rules, value = HOSTILE[name]
        schema.repair({"required": ["a"], **rules}, value)
    assert time.perf_counter() - start < 0.5


# both engines, and speed


def test_the_two_engines_agree_on_random_values(monkeypatch: pytest.MonkeyPatch):
    pytest.importorskip("jsonschema_rs", reason="the extra `fast` is not installed")
    dice = random.Random(7)
    rules: list[dict[str, Any]] = [
        {"multipleOf": 3}, {"minimum": 2, "exclusiveMaximum": 5}, {"enum": [1, "1", True, None, [1], {"a": 1.0}]}, {"const": 0},
        {"uniqueItems": True}, {"type": "integer"}, {"type": ["number", "null"]}, {"minLength": 2}, {"pattern": r"^\w\s?\D$"},
        {"items": {"type": "integer"}}, {"contains": {"const": True}}, {"not": {"type": "boolean"}}, {"minProperties": 1},
        {"properties": {"a": {"type": "integer"}}, "required": ["b"]}, {"oneOf": [{"type": "integer"}, {"minimum": 2}]},
        {"patternProperties": {"^a": {"type": "null"}}, "additionalProperties": {"type": "integer"}}, {"propertyNames": {"maxLength": 1}},
        {"allOf": [{"properties": {"a": {}}}], "unevaluatedProperties": False}, {"prefixItems": [{}], "unevaluatedItems": False},
    ]  # fmt: skip
    leaves = [
        0,
        1,
        -0.0,
        1.0,
        2.5,
        3,
        6,
        2**63,
        2**70,
        1e300,
        True,
        False,
        None,
        "",
        "a",
        "ab",
        "a b",
        "é1",
        "a\n",
        "1",
        "\u2028a",
    ]

    def value(depth: int) -> Any:
        kind = dice.random()
        if depth and kind < 0.3:
            return [value(depth - 1) for _ in range(dice.randrange(4))]
        if depth and kind < 0.6:
            return {dice.choice(["a", "b", "ab", ""]): value(depth - 1) for _ in range(dice.randrange(4))}
        return dice.choice(leaves)

    assert all(compile_schema(rule).fast is not None for rule in rules)
    for _ in range(1_000):
        each = value(2)
        for rule in rules:
            monkeypatch.setattr(schema, "use_fast", True)
            quick = schema.check(rule, each)
            monkeypatch.setattr(schema, "use_fast", False)
            assert schema.check(rule, each) == quick


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


def test_checking_ordinary_arguments_costs_at_most_a_third_more_than_a_kept_validator(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(schema, "use_fast", False)
    for rules, arguments in ordinary():
        raw = jsonschema.Draft202012Validator(rules)
        assert schema.check(rules, arguments) == []
        ours = min(timeit.repeat(lambda: schema.check(rules, arguments), number=50, repeat=15))  # noqa: B023
        theirs = min(timeit.repeat(lambda: list(cast("Any", raw).iter_errors(arguments)), number=50, repeat=15))  # noqa: B023
        assert ours <= 1.3 * theirs


def test_a_clone_costs_at_most_two_and_a_half_marshal_round_trips():
    ours = min(timeit.repeat(lambda: schema.clone(TOOL), number=100, repeat=15))
    theirs = min(timeit.repeat(lambda: marshal.loads(marshal.dumps(TOOL)), number=100, repeat=15))
    assert ours <= 2.5 * theirs
