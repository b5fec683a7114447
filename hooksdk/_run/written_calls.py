"""Noticing calls that a reply writes as text, in one run."""

from __future__ import annotations

from hooksdk._run.state import RunState
from hooksdk._run.text_calls import names_called_in, reminder_of
from hooksdk.records import CallInText


async def notice_text_calls(state: RunState, text: str) -> None:
    """Count the calls in this text of a reply that makes none, trace them, and keep what to tell the model."""
    catalog = state.catalog
    if catalog is None:
        return
    names = names_called_in(text, lambda name: name in catalog or name in state.bridges)
    if names:
        state.reminder = reminder_of(names, {tool.name for tool in state.offered}, state.call_hint)
        state.stats.written_as_text(len(names))
        await state.trace(CallInText(names=tuple(names)))
