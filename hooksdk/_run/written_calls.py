"""Calls that a reply writes as text, where they do nothing: they are noticed, and the model may be told."""

from __future__ import annotations

import re
from collections.abc import Callable, Container, Iterable

from hooksdk._run.state import RunState
from hooksdk.records import CallInText

# Characters that are looked at.
MAX_TEXT = 100_000
# How many names a reminder holds.
MAX_NAMES = 3

_TOOL = r"""["'](?:tool|tool_name|toolName|function|function_name|action)["']\s*:\s*["']([^"'\s]{1,200})["']"""
_NAME = r"""["']name["']\s*:\s*["']([^"'\s]{1,200})["']"""
# A name as JSON has it, also broken JSON, and as some open models write it. Not more: prose may name tools, too.
_NAMED = re.compile(rf"{_TOOL}|{_NAME}|<function=([^>\s]{{1,200}})>")
_NAMED_AS_TOOL = re.compile(_TOOL)
# An answer that is JSON and nothing else: there the arguments may stand beside the name.
_ONLY_JSON = re.compile(r"\s*(?:```\w*|<\w+>)?\s*[\[{].*[\]}]\s*(?:```|</\w+>)?\s*", re.DOTALL)
_WITH_ARGUMENTS = re.compile(r"""["'](?:arguments|args|parameters|params|input|action_input)["']\s*:|<function=""")


def names_called_in(text: str, is_known: Callable[[str], bool]) -> list[str]:
    """The known tools that this text writes calls of, in order: `{"name": ..., "arguments": ...}` and its like, with or
    without a fence, tags or other text around it."""
    text = text[:MAX_TEXT]
    if _WITH_ARGUMENTS.search(text):
        pattern = _NAMED
    elif _ONLY_JSON.fullmatch(text):
        pattern = _NAMED_AS_TOOL
    else:
        return []
    names = (match[match.lastindex or 0] for match in pattern.finditer(text))
    # Some models write the name with what it stands in: `functions.create_issue`.
    tools = (next(filter(is_known, (name, name.rpartition(".")[2])), None) for name in names)
    return list(dict.fromkeys(tool for tool in tools if tool))


def reminder_of(names: Iterable[str], offered: Container[str], call_hint: str) -> str:
    """What to tell the model, so that its next reply makes the call."""
    first = list(names)[:MAX_NAMES]
    direct = [name for name in first if name in offered]
    deferred = [name for name in first if name not in offered]
    lines = ["Nothing was called: a call that is written as text does nothing."]
    if direct:
        lines.append(f"Call {' and '.join(direct)} as a tool call of the API.")
    if deferred:
        how = call_hint or "Use the tools that are offered to you."
        lines.append(f"{' and '.join(deferred)} {'is' if len(deferred) == 1 else 'are'} not offered directly. {how}")
    return " ".join(lines)


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
