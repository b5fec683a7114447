"""Trace records: typed, documented, and described by a JSON Schema that the written lines keep."""

from __future__ import annotations

import dataclasses
import json
import re
import runpy
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from hooksdk import hooks, records
from hooksdk.hooks import BeforeToolCall, Block, Trace
from hooksdk.records import RECORDS
from hooksdk.testing import call, open_session, play

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "reference" / "trace.md"
SCHEMA = PAGE.with_name("trace.schema.json")


class NoDeletes:
    @hooks.before_tool_call(tools="delete_*")
    def judge(self, event: BeforeToolCall) -> Block:
        return Block("nothing is deleted here")


def read_file(path: str) -> str:
    return "x" * 10


def delete_file(path: str) -> str:
    return "gone"


def test_the_kind_is_the_classs_name_in_snake_case_but_for_hooks() -> None:
    assert records.CallStarted.kind == "call_started"
    assert records.HookFired.kind == "hook"
    assert len(RECORDS) == len([name for name in records.__all__ if name[0].isupper() and name != "RECORDS"]) - 5


@pytest.mark.parametrize("kind", RECORDS)
def test_a_record_is_frozen_and_keyword_only(kind: str) -> None:
    assert all(field.kw_only for field in dataclasses.fields(RECORDS[kind]))
    blank: Any = object.__new__(RECORDS[kind])
    for field in dataclasses.fields(RECORDS[kind]):
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(blank, field.name, None)


def test_the_reference_lists_every_kind_with_its_class_and_fields_in_order() -> None:
    rows = re.findall(r"^\| `(\w+)` \| `(\w+)` \| [^|]+ \| ([^|]+) \|$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    listing = [(kind, name, re.findall(r"`(\w+)`", fields)) for kind, name, fields in rows]
    assert listing == [
        (kind, record.__name__, [field.name for field in dataclasses.fields(record)])
        for kind, record in RECORDS.items()
    ]


def test_the_json_schema_in_the_reference_is_that_of_the_classes() -> None:
    script = runpy.run_path(str(ROOT / "scripts" / "trace_schema.py"))
    assert json.loads(SCHEMA.read_text(encoding="utf-8")) == script["whole"](), "run scripts/trace_schema.py"


@pytest.mark.anyio
async def test_what_trace_file_writes_of_a_run_fits_the_schema(tmp_path: Path) -> None:
    path = tmp_path / "trace.jsonl"
    config = {"plugins": {"trace_file": {"config": {"path": str(path)}}}}
    script = [[call("read_file", path="a"), call("delete_file", path="a"), call("no_such_tool")], "Done."]
    async with open_session(NoDeletes, "trace_file", tools=[read_file, delete_file], config=config) as session:
        await play(session, script)
    lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    assert {line["kind"] for line in lines} > {"session_started", "decision", "call_finished", "run_ended"}
    validator: Any = jsonschema.Draft202012Validator(json.loads(SCHEMA.read_text(encoding="utf-8")))
    for line in lines:
        validator.validate(line)


def test_the_schema_refuses_a_known_kind_with_a_wrong_field() -> None:
    validator: Any = jsonschema.Draft202012Validator(json.loads(SCHEMA.read_text(encoding="utf-8")))
    head = {"schema": 1, "time": 1.5, "session_id": "s", "run_id": "r", "attempt": 1, "agent_id": "main"}
    assert validator.is_valid({**head, "kind": "attempt_started", "attempt": 2, "reason": ""})
    assert not validator.is_valid({**head, "kind": "run_started", "trigger": 3, "model": None})
    assert validator.is_valid({**head, "kind": "a_kind_to_come"})


@pytest.mark.anyio
async def test_what_is_mutable_in_a_record_is_a_fresh_copy_at_each_access() -> None:
    stats: list[Any] = []

    class Meddler:
        @hooks.trace
        async def change(self, event: Trace) -> None:
            if isinstance(event.record, records.RunEnded):
                stats.append(dict(event.record.stats))
                event.record.stats.clear()  # type: ignore[attr-defined]
                assert event.record.as_dict()["stats"] == stats[0]

    async with open_session(Meddler) as session:
        await play(session, ["Done."])
    assert stats
    assert stats[0]["model_calls"] == 1
