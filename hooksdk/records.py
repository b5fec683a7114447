"""What the trace holds: one class for each kind of record, in the order in which a run writes them.

Records hold names, sizes and times; never arguments, results, messages or secrets. But tool names, the reasons of
`withheld` and progress texts are what servers, plugins and tools wrote, and a tool may tell its progress in the words
of its arguments. New kinds and new fields may be added; read what you know.

    @hooks.trace
    def show(self, event: Trace) -> None:
        match event.record:
            case records.CallFinished(name=name, status="blocked"):
                print(name, "was blocked")
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, ClassVar, Literal

from hooksdk._schema.fresh import Fresh
from hooksdk.calls import CallOrigin
from hooksdk.values import as_list, as_object

__all__ = [
    "RECORDS", "AnswerJudged", "ApprovalAnswered", "ApprovalAsked", "AttemptStarted", "CallFinished", "CallInText",
    "CallStarted", "CallStatus", "Content", "Decision", "EndReason", "HookFired", "ModelCalled", "ModelReplied",
    "Progress", "Record", "RestoreQueued", "Revealed", "RunEnded", "RunStarted", "SessionEndReason", "SessionEnded",
    "SessionStarted", "Settled", "ToolsResolved", "TrimDrained", "TrimQueued", "Unmatched", "Unwrapped", "Withheld",
    "searches_in",
]  # fmt: skip

CallStatus = Literal["ok", "error", "blocked", "answered", "invalid", "unknown", "not_run"]
"""What became of a tool call. `not_run`: it was judged, and neither executed nor given a result before its run
ended."""
EndReason = Literal["completed", "paused", "blocked", "error", "cancelled"]
"""How a run ended."""
SessionEndReason = Literal["closed", "reset", "idle", "shutdown"]
"""Why a session ended."""


@dataclass(frozen=True, kw_only=True)
class Record:
    """One thing that the SDK itself saw. `kind` is the class's name in snake_case (`hook` for `HookFired`)."""

    kind: ClassVar[str]

    def __init_subclass__(cls, kind: str = "") -> None:
        cls.kind = kind or re.sub(r"(?<!^)(?=[A-Z])", "_", cls.__name__).lower()

    def as_dict(self) -> dict[str, Any]:
        """The fields by their names, without the kind: JSON."""
        values: dict[str, Any] = {field.name: getattr(self, field.name) for field in fields(self)}
        return {name: [*value] if isinstance(value, tuple) else value for name, value in values.items()}


@dataclass(frozen=True, kw_only=True)
class Content:
    """What a record is about, in full: for those who listen with `session.on_event`. Plugins' trace handlers never get
    it. `text`: of `run_started` the prompt, of `model_replied` the prose, of `decision` its reason, of `approval_asked`
    the title, of `call_finished` the result, of `answer_judged` what the model reads or, of a finished run, the answer.
    `arguments`: of `call_started` as they were written, of `call_finished` as they ran; secrets are not filled in. Of
    the others None."""

    text: str = ""
    arguments: Fresh[Mapping[str, Any] | None] = Fresh(None)


@dataclass(frozen=True, kw_only=True)
class SessionStarted(Record):
    """A session has opened. `resumed`: true when the session existed before. `parent`: the session whose sub-agent this
    one is."""

    resumed: bool
    parent: str | None = None


@dataclass(frozen=True, kw_only=True)
class RunStarted(Record):
    """A run was let through by `agent_start`."""

    trigger: str
    model: str | None = None
    provider: str | None = None


@dataclass(frozen=True, kw_only=True)
class AttemptStarted(Record):
    """`run.retry()` has begun the next attempt. `reason`: why, where the host said it."""

    attempt: int
    reason: str = ""


@dataclass(frozen=True, kw_only=True)
class Withheld(Record):
    """A plugin took tools away."""

    plugin: str
    names: Sequence[str]
    reason: str


@dataclass(frozen=True, kw_only=True)
class Unmatched(Record):
    """A plugin speaks of tools that there are not. `where`: the `tools` option of its handlers, or its answer to
    `narrow_tools`. `names`: the patterns or names that match no tool."""

    plugin: str
    where: Literal["tools", "Withhold"]
    names: Sequence[str]


@dataclass(frozen=True, kw_only=True)
class ToolsResolved(Record):
    """The catalog of this attempt is settled.

    Attributes:
        tokens: What the definitions of all granted tools cost.
        notes: Tools that were renamed or left out, one line each.
        catalog: Each tool: `tool` (its id), `name`, `tokens` of its definition, `annotations` that are said, `place`:
            `offered`, `prefetched` (for what was asked), `deferred` (granted, not shown), or `bridge`.
    """

    tools: int
    offered: int
    withheld: int
    tokens: int
    tokens_offered: int
    notes: Sequence[str] = ()
    catalog: Fresh[Sequence[Mapping[str, Any]]] = Fresh()


@dataclass(frozen=True, kw_only=True)
class Revealed(Record):
    """A plugin offers granted tools that were hidden, from the next model call on. `tokens`: what their definitions
    cost together."""

    plugin: str
    names: Sequence[str]
    tokens: int


@dataclass(frozen=True, kw_only=True)
class ModelCalled(Record):
    """Messages were prepared for a model call."""

    messages: int
    characters: int


@dataclass(frozen=True, kw_only=True)
class ModelReplied(Record):
    """A reply was recorded."""

    usage: Fresh[Mapping[str, Any] | None] = Fresh(None)
    stop_reason: str | None = None


@dataclass(frozen=True, kw_only=True)
class CallInText(Record):
    """The reply holds calls written as text, which do nothing."""

    names: Sequence[str]


@dataclass(frozen=True, kw_only=True)
class HookFired(Record, kind="hook"):
    """A handler was called.

    Attributes:
        outcome: `passed` (no opinion), `failed`, or the answer's name, such as `Block`.
        problem: The error's type, when it failed.
        shadow: True when its plugin is in shadow mode, so that nothing came of it.
        call_id: The call that it was called for, in the hooks of a tool call.
    """

    hook: str
    plugin: str
    handler: str
    outcome: str
    seconds: float
    problem: str | None = None
    shadow: bool = False
    call_id: str | None = None


@dataclass(frozen=True, kw_only=True)
class Decision(Record):
    """A handler of a `decide` hook answered, or one in shadow mode did.

    Attributes:
        decision: The answer's name, such as `Block`, without its reason, which may quote arguments.
        shadow: True when its plugin is in shadow mode, so that nothing came of it.
        call_id: The call that was decided about, in the hooks of a tool call.
    """

    hook: str
    plugin: str
    handler: str
    decision: str
    shadow: bool = False
    call_id: str | None = None


@dataclass(frozen=True, kw_only=True)
class Unwrapped(Record):
    """A bridge call became the call that it stands for, or a call's name was understood as a tool's.

    Attributes:
        bridge: Empty for a call that came by none.
        tool: The real tool's name.
        written: The name that was written, where it is another.
    """

    call_id: str
    bridge: str
    tool: str
    written: str = ""


@dataclass(frozen=True, kw_only=True)
class _CallRecord(Record):
    call_id: str
    # The id of the call that made this one; None for the model's own.
    parent_id: str | None
    origin: CallOrigin
    # The tool's id; None for an unknown tool.
    tool: str | None
    name: str


@dataclass(frozen=True, kw_only=True)
class CallStarted(_CallRecord):
    """A call's real tool is known."""


@dataclass(frozen=True, kw_only=True)
class ApprovalAsked(Record):
    """A person is asked about a call.

    Attributes:
        plugin: The plugin with the gravest question. Its title is not in the trace, since it may quote arguments.
        severity: Of the gravest question.
        questions: How many plugins' handlers ask.
        digest: 64 hex digits that stand for the arguments that are asked about; empty for what is not JSON.
        evidence: Of each value that is shown as evidence: its path in the arguments and where it comes from, such as
            `to: r3 untrusted`. The value itself is not in the trace.
    """

    call_id: str
    plugin: str
    severity: str
    questions: int
    digest: str
    evidence: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class ApprovalAnswered(Record):
    """The person answered, or could not be asked. There is none yet for an answer that comes later.

    Attributes:
        by: Who answered, as the approver says; empty when it does not say, and when nobody did (see `unanswered`).
        scope: `once`, `session` or `always`.
        remembered: True when an earlier answer was remembered, so that nobody was asked.
        digest: 64 hex digits that stand for the arguments that run, if they do: `ApprovalAsked` has the same.
        unanswered: Why a refusal is nobody's, such as `end_of_input` or `timeout` (`Approval.unanswered`); empty where
            somebody answered.
    """

    call_id: str
    granted: bool
    by: str
    scope: str
    remembered: bool
    digest: str
    unanswered: str = ""


@dataclass(frozen=True, kw_only=True)
class Progress(Record):
    """A tool tells how far it is. `share`: from 0 to 1."""

    call_id: str
    text: str
    share: float | None = None


@dataclass(frozen=True, kw_only=True)
class CallFinished(_CallRecord):
    """A call has its result.

    Attributes:
        characters: The length of the result's text.
        labels: What its text is worth, sorted; empty where it is neither vouched for nor an outsider's (a refusal).
        in_doubt: True where the call began and its result does not tell how it ended: it may have taken effect.
    """

    status: CallStatus
    seconds: float
    characters: int
    labels: tuple[str, ...] = ()
    in_doubt: bool = False


@dataclass(frozen=True, kw_only=True)
class Settled(Record):
    """Somebody said what came of a call that was in doubt (`session.settle`)."""

    call_id: str
    name: str
    effect_id: str


@dataclass(frozen=True, kw_only=True)
class AnswerJudged(Record):
    """Plugins were asked whether the run may finish with the model's last reply.

    Attributes:
        plugins: Whose answers have led to it.
        continued: How often the model was sent on since the user's message, with this time.
        overruled: The plugins that would have had it go on, where the limit was used up.
    """

    outcome: Literal["passed", "continued", "replaced", "blocked"]
    plugins: Sequence[str]
    continued: int
    overruled: Sequence[str] = ()


@dataclass(frozen=True, kw_only=True)
class TrimQueued(Record):
    """A plugin asked for a trim."""

    plugin: str
    handle: str
    characters_before: int
    characters_after: int


@dataclass(frozen=True, kw_only=True)
class RestoreQueued(TrimQueued):
    """A plugin asked for the end of a trim."""


@dataclass(frozen=True, kw_only=True)
class TrimDrained(Record):
    """A queued trim or restore was settled. `status`: `applied`, `already_trimmed`, `not_trimmed`, `gone` (compacted
    away meanwhile) or `stale` (the stored content is not the one that the trim was made for). `pays_back_after`: the
    number of further requests with which the whole drain, of which this is a part, has paid for the prompt cache that
    it cost; None when it never does, such as one that makes the conversation longer."""

    handle: str
    status: str
    plugin: str
    tool: str
    turns_ago: int
    tokens_saved: int
    pays_back_after: int | None


@dataclass(frozen=True, kw_only=True)
class RunEnded(Record):
    """The last record of a run."""

    reason: EndReason
    stats: Fresh[Mapping[str, Any]] = Fresh()


@dataclass(frozen=True, kw_only=True)
class SessionEnded(Record):
    """The last record of a session. `dropped`: observed events that were lost, by plugin."""

    reason: SessionEndReason
    dropped: Fresh[Mapping[str, int]] = Fresh()


def searches_in(text: str) -> Sequence[Mapping[str, Any]]:
    """The searches for tools that a result tells of, to be shown to people; none where it is no such answer. A search
    that wants to be shown answers JSON of the form `{"total_available": 40, "results": [{"query": "mail", "hits":
    [{"name": "send_mail"}]}]}`; what else stands there may be anything."""
    try:
        answer = as_object(json.loads(text))
    except (ValueError, RecursionError):  # withheld by a redactor, or another plugin's words
        return ()
    given = [as_object(group) for group in as_list(answer.get("results"))] if "total_available" in answer else []
    groups = [{**group, "hits": [as_object(hit) for hit in as_list(group.get("hits"))]} for group in given]
    told = [text for group in groups for text in (group.get("query"), *(hit.get("name") for hit in group["hits"]))]
    return groups if all(isinstance(one, str) for one in told) else ()


_classes: list[Any] = list(globals().values())
RECORDS: Mapping[str, type[Record]] = {
    each.kind: each
    for each in _classes
    if isinstance(each, type) and issubclass(each, Record) and each is not Record and not each.__name__.startswith("_")
}
"""Every class of record by its kind, in the order of this page."""
