"""Assertions about the outcome of a call; a failed one says why."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NoReturn

from hooksdk.approvals import ApprovalRequest
from hooksdk.calls import ToolResult
from hooksdk.hooks import AfterToolCall
from hooksdk.run import JudgedCall
from hooksdk.testing._session import Played
from hooksdk.testing._verdicts import CallVerdict
from hooksdk.values import clip

# The values that the assertions take: a run that was played (its only call, or that of `tool=`), one of its calls, a
# call that was judged, one of a replay, or a result.
Settled = Played | AfterToolCall | JudgedCall | CallVerdict | ToolResult

_BLOCKED = re.compile(
    r"(?:Error: )?Blocked(?: by (?P<by>[^:\n]+))?: (?:plugin '(?P<failed>[^']+)' failed)?(?P<reason>.*)", re.DOTALL
)
# The status that a call with this outcome of a replay would have.
_STATUS_OF = {"block": "blocked", "withhold": "blocked", "answer": "answered", "allow": "ok", "rewrite": "ok"}
_SHOWN_CHARS = 200


@dataclass
class _Facts:
    """The facts about one call that the assertions compare.

    Attributes:
        questions: Plugin and title of each; None where that is not known.
    """

    tool: str
    status: str
    text: str
    by: str = ""
    reason: str = ""
    questions: Sequence[tuple[str, str]] | None = field(default_factory=list[tuple[str, str]])

    def __str__(self) -> str:
        asked = "".join(f", asked by {plugin}: {title!r}" for plugin, title in self.questions or ())
        name = self.tool or "the call"
        return f"{name} is {self.status or 'judged, and has no result'}{asked}: {clip(self.text, _SHOWN_CHARS)!r}"


def assert_blocked(
    result: Settled, *, tool: str | None = None, by: str | None = None, reason: str | None = None
) -> None:
    """The call was not run: a policy blocked it, a person refused it, or a policy failed. `by` is the plugin's id;
    `reason` is part of what the model reads."""
    __tracebackhide__ = True
    facts = _facts(result, tool)
    if facts.status != "blocked":
        _fail(facts, "blocked")
    if by is not None and facts.by != by:
        if facts.questions and not facts.by:
            _fail(facts, f"blocked by {by!r}", "A person was asked and refused: assert_asked(...) says who asked")
        _fail(facts, f"blocked by {by!r}", f"It was blocked by {facts.by or 'nobody with a name'!r}")
    if reason is not None and reason not in facts.reason:
        _fail(facts, f"blocked because of {reason!r}", f"The reason is {facts.reason!r}")


def assert_ran(result: Settled, *, tool: str | None = None, text: str | None = None) -> None:
    """The tool ran, and without an error. `text` is part of its result. In a replay: it would run, with whatever
    arguments."""
    __tracebackhide__ = True
    facts = _facts(result, tool)
    if facts.status != "ok":
        _fail(facts, "run without an error")
    if text is not None and text not in facts.text:
        _fail(facts, f"with {text!r} in its result")


def assert_answered(result: Settled, *, tool: str | None = None, text: str | None = None) -> None:
    """A plugin answered in the tool's place. `text` is part of the answer."""
    __tracebackhide__ = True
    facts = _facts(result, tool)
    if facts.status != "answered":
        _fail(facts, "answered by a plugin")
    if text is not None and text not in facts.text:
        _fail(facts, f"answered with {text!r}")


def assert_asked(
    result: Played | JudgedCall | CallVerdict,
    *,
    tool: str | None = None,
    by: str | None = None,
    title: str | None = None,
) -> None:
    """A person was asked about the call, whatever the answer. `by` is the plugin that asks, `title` part of its
    question."""
    __tracebackhide__ = True
    facts = _facts(result, tool, only_asked=True)
    if facts.questions is None:
        kind = type(result).__name__
        raise TypeError(
            f"{kind} does not know what was asked: give the whole run, assert_asked(played, tool={facts.tool!r})"
        )
    if not facts.questions:
        _fail(facts, "asked about")
    if not any(by in {None, plugin} and (title or "") in words for plugin, words in facts.questions):
        _fail(facts, " ".join(filter(None, ["asked about", by and f"by {by!r}", title and f"with {title!r}"])))


def _fail(facts: _Facts, expected: str, more: str = "") -> NoReturn:
    __tracebackhide__ = True
    raise AssertionError(
        f"expected {facts.tool or 'the call'} to be {expected}, but {facts}. {more}".rstrip(". ") + "."
    )


def _facts(result: Settled, tool: str | None, *, only_asked: bool = False) -> _Facts:
    __tracebackhide__ = True
    if isinstance(result, Played):
        return _of_run(result, tool, only_asked=only_asked)
    facts = _of_call(result)
    if tool is not None and facts.tool and facts.tool != tool:
        raise AssertionError(f"expected a call of {tool!r}, but {facts}")
    return facts


def _of_run(played: Played, tool: str | None, *, only_asked: bool) -> _Facts:
    __tracebackhide__ = True
    names = [one.call.name for one in played.calls]
    asked = {one.call.name for one in played.questions}
    if tool is None and only_asked and len(asked) == 1:
        tool = next(iter(asked))
    if tool is None and len(names) != 1:
        raise AssertionError(f"the run has {len(names)} calls, so name one with tool=...; they are {names}")
    name = tool or names[0]
    is_one = names.count(name) == 1 or not only_asked
    facts = _of_call(played.call(name)) if is_one else _Facts(name, "called several times", "")
    facts.questions = _questions([one for one in played.questions if one.call.name == facts.tool])
    return facts


def _of_call(result: AfterToolCall | JudgedCall | CallVerdict | ToolResult) -> _Facts:
    if isinstance(result, CallVerdict):
        status = _STATUS_OF.get(result.outcome, result.outcome)
        asked = [(result.by, result.reason)] if result.outcome == "ask" else []
        return _Facts(result.tool, status, result.reason, result.by, result.reason, asked)
    if isinstance(result, JudgedCall):
        text = result.result.text if result.result else ""
        asked = _questions([result.pending]) if result.pending else []
        facts = _Facts(result.call.name, result.status or "", text, questions=asked)
    elif isinstance(result, ToolResult):
        blocked = result.is_error and _BLOCKED.match(result.text)
        status = "blocked" if blocked else "error" if result.is_error else "ok"
        facts = _Facts("", status, result.text, questions=None)
    else:
        facts = _Facts(result.call.name, result.status, result.result.text, questions=None)
    if facts.status == "blocked":
        match = _BLOCKED.match(facts.text)
        facts.by = (match["by"] or match["failed"] or "") if match else ""
        facts.reason = match["reason"] if match and not match["failed"] else facts.text
    return facts


def _questions(requests: Sequence[ApprovalRequest]) -> list[tuple[str, str]]:
    return [(one.plugin, one.title) for request in requests for one in request.questions]
