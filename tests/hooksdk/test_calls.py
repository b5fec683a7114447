"""`ToolCall` and `ToolResult`: values that share nothing with whoever made them or reads them."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from hooksdk import ToolCall, ToolResult
from hooksdk._schema.fresh import peek

IMAGE = {"type": "image", "data": "aGk=", "mimeType": "image/png"}
CALLS = [
    ToolCall("c", "read", {"path": ["a"]}, origin="bridge", parent_id="p"),
    ToolCall("c", "read", '{"path": "a"}'),
    ToolCall("c", "read"),
]
RESULTS = [
    ToolResult("text", structured={"n": [1]}),
    ToolResult.error("no"),
    ToolResult(blocks=[{"type": "text", "text": "see"}, IMAGE]),
    ToolResult(),
]


class CountingReads(Mapping[str, Any]):
    """Arguments that count how often they are read from end to end."""

    def __init__(self) -> None:
        self.reads = 0

    def __getitem__(self, key: str) -> Any:
        return {"path": "a"}[key]

    def __iter__(self) -> Iterator[str]:
        self.reads += 1
        return iter(["path"])

    def __len__(self) -> int:
        return 1


def test_arguments_are_copied_once_when_the_call_is_made_and_at_each_access() -> None:
    arguments = {"path": ["a"]}
    call = ToolCall("c", "read", arguments)
    arguments["path"].append("b")
    call.arguments["path"].append("c")
    assert call.arguments == {"path": ["a"]}
    counting = CountingReads()
    assert ToolCall("c", "read", counting).arguments == {"path": "a"}
    assert counting.reads == 1


def test_hooksdks_own_code_reads_a_stored_value_without_copying_it() -> None:
    assert peek(CALLS[0], "arguments") is peek(CALLS[0], "arguments")
    assert peek(CALLS[0], "arguments") == CALLS[0].arguments


def test_arguments_stay_as_they_were_written() -> None:
    assert [call.arguments for call in CALLS] == [{"path": ["a"]}, '{"path": "a"}', None]


@pytest.mark.parametrize("value", [*CALLS, *RESULTS])
def test_calls_and_results_are_equal_by_content_hashable_and_rebuilt_by_pickle_and_copy(value: Any) -> None:
    for other in (pickle.loads(pickle.dumps(value)), copy.copy(value), copy.deepcopy(value)):
        assert other == value
        assert hash(other) == hash(value)
        assert repr(other) == repr(value)
    others = [one for one in (*CALLS, *RESULTS) if one is not value]
    assert value not in others


@pytest.mark.parametrize("value", [CALLS[0], RESULTS[0]])
@pytest.mark.parametrize("name", ["id", "name", "arguments", "text", "blocks", "plain", "other"])
def test_nothing_of_a_call_or_result_can_be_changed(value: Any, name: str) -> None:
    with pytest.raises(AttributeError):
        setattr(value, name, "changed")
    with pytest.raises(AttributeError):
        delattr(value, name)


def test_a_call_and_a_result_are_shown_in_short() -> None:
    assert repr(CALLS[0]) == "ToolCall(id='c', name='read', origin='bridge')"
    assert repr(RESULTS[1]) == "ToolResult('no', is_error=True)"
    assert repr(ToolResult("x" * 61)) == f"ToolResult('{'x' * 57}...', is_error=False)"


def test_a_result_of_text_is_one_text_block() -> None:
    result = ToolResult("text")
    assert result.plain
    assert result.blocks == [{"type": "text", "text": "text"}]


def test_blocks_and_structured_are_the_results_own() -> None:
    block: dict[str, Any] = {"type": "text", "text": "see", "meta": [1]}
    structured = {"n": [1]}
    result = ToolResult(blocks=[block, IMAGE], structured=structured)
    for meta, numbers in ((block["meta"], structured["n"]), (result.blocks[0]["meta"], result.structured["n"])):
        meta.append(2)
        numbers.append(2)
    assert (result.text, result.plain) == ("see", False)
    assert (result.blocks[0]["meta"], result.structured) == ([1], {"n": [1]})


def test_another_text_replaces_all_text_blocks_and_leaves_out_the_structured_form() -> None:
    result = ToolResult(blocks=[{"type": "text", "text": "a"}, IMAGE, {"type": "text", "text": "b"}], structured=1)
    changed = result.with_text("c")
    assert (changed.text, changed.blocks) == ("c", [{"type": "text", "text": "c"}, IMAGE])
    assert changed.structured is None
    assert ToolResult("a").with_text("b", structured={"n": 1}) == ToolResult("b", structured={"n": 1})
