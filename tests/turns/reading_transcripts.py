"""What a transcript holds, in any format."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hooksdk.formats import get_format


def call_ids(form: str, messages: Sequence[dict[str, Any]]) -> list[str]:
    """The ids of all calls, in order."""
    return [call.id for message in messages for call in get_format(form).calls(message)]


def answers(form: str, messages: Sequence[dict[str, Any]]) -> list[tuple[str, str]]:
    """Id and text of all results, in order."""
    return [(found.call_id, found.text) for message in messages for found in get_format(form).results(message)]


def assert_sendable(form: str, messages: Sequence[dict[str, Any]]) -> None:
    """Every call is answered exactly once, right after the reply that made it."""
    reader = get_format(form)
    waiting: list[str] = []
    goes_on = False
    for message in messages:
        found = [one.call_id for one in reader.results(message)]
        for call_id in found:
            assert call_id in waiting, f"a result of {call_id}, which is not waited for"
            waiting.remove(call_id)
        goes_on = goes_on and reader.is_reply(message)
        assert found or not waiting or goes_on, f"{waiting} have no result before {message}"
        waiting += [call.id for call in reader.calls(message)]
        goes_on = reader.joined and reader.is_reply(message)
    assert not waiting, f"{waiting} have no result"
