"""The public suites: JSON-Schema-Test-Suite, JSONTestSuite and the big list of naughty strings."""

from __future__ import annotations

import contextlib
import json
import os
from pathlib import Path
from typing import Any, cast

import pytest

from hooksdk import schema
from hooksdk.schema import BadArguments

SUITES = Path(os.environ.get("HOOKSDK_SUITES", Path(__file__).resolve().parents[3] / "shared" / "suites"))
DRAFT7 = "http://json-schema.org/draft-07/schema#"
REMOTE = "it refers to another document, and nothing is ever fetched"
NOT_DONE = {
    "draft7/optional/content.json": "contents are not decoded",
    "draft2020-12/optional/dependencies-compatibility.json": "2020-12 has no `dependencies`",
    "draft2020-12/optional/format-assertion.json": "formats are hints, not rules",
    "draft2020-12/vocabulary.json": "vocabularies of other documents are not read",
}
"""The only files in which an answer may differ from the suite's, and why."""
FLOOR = 2_505
"""How many of the suite's tests ran when this was written."""


def need(name: str) -> Path:
    path = SUITES / name
    if not path.exists():
        pytest.skip(f"the public suite {path} is not here; set HOOKSDK_SUITES to the folder that holds it")
    return path


def schema_tests() -> list[tuple[str, str, Any, Any, bool]]:
    """File, description, schema, value, validity. `optional/format` is left out: formats are hints, not rules."""
    found: list[tuple[str, str, Any, Any, bool]] = []
    root = need("json-schema")
    for draft in ("draft7", "draft2020-12"):
        for path in sorted((root / draft).rglob("*.json")):
            if path.parent.name == "format":
                continue
            for group in json.loads(path.read_text()):
                rules: Any = group["schema"]
                if draft == "draft7" and isinstance(rules, dict):
                    rules = {"$schema": DRAFT7, **cast("dict[str, Any]", rules)}
                name = path.relative_to(root).as_posix()
                found += [
                    (name, f"{group['description']}: {test['description']}", rules, test["data"], test["valid"])
                    for test in group["tests"]
                ]
    return found


@pytest.mark.heavy
def test_every_answer_is_the_suites_except_where_a_reason_is_listed():
    wrong: list[str] = []
    right = remote = excused = 0
    for file, description, rules, value, valid in schema_tests():
        problems = schema.check(rules, value)
        if (not problems) is valid:
            right += 1
        elif problems and "no other document is ever fetched" in problems[0].message:
            remote += 1  # REMOTE
        elif file in NOT_DONE:
            excused += 1
        else:
            wrong.append(f"{file}: {description}: {problems}")
    assert wrong == []
    assert right + remote + excused >= FLOOR
    assert right / (right + remote + excused) > 0.97


def test_what_refers_to_another_document_is_a_problem():
    remote = [test for test in schema_tests() if test[0].endswith("refRemote.json")]
    refused = [schema.check(rules, value) for _, _, rules, value, _ in remote]
    assert remote
    assert all(problems and problems[0].constraint == "schema" for problems in refused)


def test_no_schema_of_the_suite_is_called_broken():
    faults = {json.dumps(rules): schema.check_schema(rules) for _, _, rules, _, _ in schema_tests()}
    assert [fault for fault in faults.values() if fault] == []


def test_schemas_and_values_of_the_suite_are_cloned_equal():
    for _, _, rules, value, _ in schema_tests():
        assert schema.clone([rules, value]) == [rules, value]


def test_repair_leaves_the_suites_valid_objects_alone():
    for _, _, rules, value, valid in schema_tests():
        if valid and type(value) is type(rules) is dict and not schema.check(rules, value):
            assert schema.repair(rules, value) == value


def parsing(prefix: str) -> list[Path]:
    found = sorted(need("json-parsing").glob(f"{prefix}_*.json"))
    assert found
    return found


def read(path: Path, before: bytes = b"", after: bytes = b"") -> dict[str, Any] | None:
    try:
        return schema.parse_arguments(before + path.read_bytes() + after)
    except BadArguments:
        return None


TWICE = {"y_object_duplicated_key.json", "y_object_duplicated_key_and_value.json"}


def test_all_valid_json_is_read_except_keys_given_twice():
    assert {path.name for path in parsing("y") if read(path, b'{"value":', b"}") is None} == TWICE


BLANK = {"n_structure_no_data.json", "n_single_space.json"}


def test_all_broken_json_is_refused_except_blank_text_which_means_no_arguments():
    assert {path.name for path in parsing("n") if read(path) is not None} == BLANK & {
        path.name for path in parsing("n")
    }
    assert [path.name for path in parsing("n") if read(path, b'{"value":', b"}") is not None] == []


def test_json_left_to_the_reader_is_read_or_refused_but_never_raises():
    for path in parsing("i"):
        read(path)
        read(path, b'{"value":', b"}")


def naughty() -> list[str]:
    return json.loads(need("naughty-strings.json").read_text())


def test_naughty_strings_are_read_or_refused_as_arguments():
    for text in naughty():
        with contextlib.suppress(BadArguments):
            assert type(schema.parse_arguments(text)) is dict


def test_naughty_strings_survive_as_names_and_values():
    for text in naughty():
        value = {text: [text]}
        assert schema.parse_arguments(json.dumps(value)) == schema.clone(value) == value
        assert len(schema.fingerprint(value)) == 16
        rules = {"properties": {text: {"enum": [text]}}, "required": [text], "additionalProperties": False}
        assert schema.check(rules, {text: text}) == []
        assert len(schema.render(schema.check(rules, {text + "x": text}), text, rules)) <= 2_000


def test_naughty_strings_are_patterns_or_faults():
    for text in naughty():
        fault = schema.check_schema({"pattern": text})
        assert fault is None or isinstance(fault, str)
        schema.check({"pattern": text}, text)
