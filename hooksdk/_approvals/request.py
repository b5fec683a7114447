"""What a person is asked before a call, and what they may answer."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal, get_args

from hooksdk import schema
from hooksdk._firing.event import Checked
from hooksdk._origins.origin import Origin, as_origin
from hooksdk._schema.fresh import Fresh, peek
from hooksdk._tasks.background import logger
from hooksdk._tasks.limits import Attempt, describe, is_uncatchable
from hooksdk._transcript.storage import Store
from hooksdk.calls import ToolCall
from hooksdk.tools import Tool
from hooksdk.values import Uncloneable, canonical, clip

# Seconds that a person may be asked for at most.
MAX_TIMEOUT = 600.0
# How grave each severity is.
GRAVITY = {"info": 0, "warning": 1, "critical": 2}
# The space in the store for the answers that are remembered. No plugin has it: `PluginStorage` gives no ids that begin
# like this.
REMEMBERED = "hooksdk.approvals"
# How long an answer may count.
SCOPES = ("once", "session", "always")
# Seconds that a remembered answer holds, unless it says otherwise.
DEFAULT_EXPIRY = 30 * 24 * 3600.0
# Seconds that it may hold at most: what is longer is no date.
MAX_EXPIRY = 100 * 365 * 24 * 3600.0
# Characters of who answered that are kept.
MAX_BY = 200

Severity = Literal["info", "warning", "critical"]
Scope = Literal["once", "session", "always"]
Agree = Literal["", "values"]
Unanswered = Literal[
    "", "not_asked", "end_of_input", "not_an_answer", "timeout", "connection_lost", "not_told", "cannot_wait", "failed"
]
"""Why a refusal is nobody's; empty for one that somebody gave.

- `not_asked`: nobody is there to ask, or the client shows no questions
- `end_of_input`: the input has ended, as in a job without a terminal
- `not_an_answer`: what was typed or sent is none of the answers, or the question was dismissed
- `timeout`: nobody answered in time
- `connection_lost`: the terminal or the client went away
- `not_told`: another program asked, went on without running the call, and does not say what it was told
- `cannot_wait`: the answer comes later, and this call cannot wait
- `failed`: the approver raised, or answered what is no `Approval`
"""


def digest_of(arguments: object) -> str:
    """64 hex digits that stand for exactly these arguments, or for another JSON value; empty for what is not JSON. Of
    full length: with a shorter one somebody could prepare two calls with one digest, and have the harmless one
    approved."""
    try:
        return hashlib.sha256(canonical(arguments).encode("utf-8", "surrogatepass")).hexdigest()
    except Uncloneable:
        return ""


def definition_of(tool: Tool) -> str:
    """Stands for what an answer about the tool was given for: its definition, and its annotations, which rules are
    about."""
    hints = tool.annotations
    return schema.fingerprint([tool.fingerprint, [getattr(hints, name) for name in hints.names()]])


@dataclass(frozen=True, kw_only=True)
class Question(Checked):
    """What one plugin asks about a call.

    ```python
    from hooksdk.approvals import Question

    question = Question(title="Pay the bill?", plugin="payments", severity="critical")
    assert f"{question.plugin} asks: {question.title}" == "payments asks: Pay the bill?"
    ```

    Attributes:
        timeout: Seconds until no answer counts as no.
        rule: Which rule of the plugin's asks; empty for one that names none.
        evidence: Where values of the arguments stand, the strange ones first.
    """

    title: str
    description: str = ""
    severity: Severity = "warning"
    plugin: str = ""
    timeout: float = 120.0
    rule: str = ""
    evidence: tuple[Origin, ...] = ()

    def __post_init__(self) -> None:
        origins = [as_origin(each) for each in self.evidence]  # where it was stored they are mappings
        object.__setattr__(self, "evidence", tuple(sorted(dict.fromkeys(origins), key=lambda origin: origin.cleared)))
        super().__post_init__()
        if self.severity not in GRAVITY:
            raise ValueError(f"severity must be info, warning or critical, got {clip(repr(self.severity), 80)}")


def wording_of(question: Question, mask: Callable[[Any], Any]) -> str:
    """Stands for what is asked, whoever is asked: the plugin, its rule and the words, with secrets as placeholders."""
    return digest_of(mask([question.plugin, question.rule, question.title, question.description]))


def unanswered(
    asked: Sequence[Question], answered: Iterable[tuple[str, str]], mask: Callable[[Any], Any]
) -> list[Question]:
    """The questions to which no yes was given. `answered` are wording and severity of those that got one: each answers
    one of the same wording that is no graver."""
    free = sorted(answered, key=lambda one: GRAVITY.get(one[1], -1), reverse=True)
    rest: list[Question] = []
    for question in sorted(asked, key=lambda one: -GRAVITY[one.severity]):  # so each takes the gravest that is free
        wording = wording_of(question, mask)
        answer = next((one for one in free if one[0] == wording), None)
        if answer is None or GRAVITY.get(answer[1], -1) < GRAVITY[question.severity]:
            rest.append(question)
        else:
            free.remove(answer)
    return rest


def _as_it_is(value: Any) -> Any:
    return value


@dataclass(frozen=True, kw_only=True)
class ApprovalRequest:
    """What a person is asked about one tool call with its final arguments. One answer is for all questions.

    ```python
    from hooksdk import ApprovalRequest, Tool, ToolCall

    request = ApprovalRequest(
        title="Pay the bill?", call=ToolCall("c1", "pay"), tool=Tool(name="pay", source="host"), arguments={"amount": 20}
    )
    assert f"{request.title} {request.arguments}" == "Pay the bill? {'amount': 20}"
    assert [question.title for question in request.questions] == ["Pay the bill?"]
    ```

    Attributes:
        title: The gravest question's, as are description, severity, timeout and plugin.
        timeout: Seconds until no answer counts as no.
        plugin: The plugin that asks.
        questions: Every plugin's question, the gravest first; those of one severity in the order in which their
            handlers ran.
        triggers: What began the run and those around it, the outermost first.
        agents: The agents of the run and of those around it, the outermost first.
        arguments: A fresh copy of what will run.
        effect_id: Stands for what the call does: what its tool is told, when it runs (`ToolContext.effect_id`).
        store: The host's store, for an approver that keeps what it asks; None for a request that no host has made.
        mask: Gives a JSON value with placeholders for the session's secrets: for what is stored or sent away.
    """

    title: str
    description: str = ""
    severity: Severity = "warning"
    timeout: float = 120.0
    plugin: str = ""
    questions: tuple[Question, ...] = ()
    session_id: str = ""
    run_id: str = ""
    agent_id: str = "main"
    workspace_dir: str | None = None
    requester: Fresh[Mapping[str, Any] | None] = Fresh(None)
    trigger: str = "user"
    triggers: tuple[str, ...] = ()
    agents: tuple[str, ...] = ()
    call: ToolCall
    tool: Tool = field(repr=False)
    arguments: Fresh[dict[str, Any]] = Fresh()
    effect_id: str = ""
    store: Store | None = field(default=None, repr=False, compare=False)
    mask: Callable[[Any], Any] = field(default=_as_it_is, repr=False, compare=False)

    def __post_init__(self) -> None:
        if not self.questions:
            own = Question(
                title=self.title,
                description=self.description,
                severity=self.severity,
                plugin=self.plugin,
                timeout=self.timeout,
            )
            object.__setattr__(self, "questions", (own,))
        for chain, own in (("triggers", self.trigger), ("agents", self.agent_id)):
            if not getattr(self, chain):
                object.__setattr__(self, chain, (own,))

    @property
    def evidence(self) -> tuple[Origin, ...]:
        """That of all questions, each value's once."""
        return tuple(
            {(each.path, each.digest, each.value): each for one in self.questions for each in one.evidence}.values()
        )

    @cached_property
    def digest(self) -> str:
        """64 hex digits that stand for exactly these arguments, as the trace has them; empty for what is not JSON."""
        return digest_of(peek(self, "arguments"))


def requester_of(request: ApprovalRequest) -> str | None:
    """Who asks for the call: the requester's id, or of one without a text as id all that is known, as JSON."""
    return identity_of(request.requester)


def identity_of(requester: Mapping[str, Any] | None) -> str | None:
    """Who this is: the id, or without a text as id all that is known, as JSON."""
    if requester is None:
        return None
    identity = requester.get("id")
    if isinstance(identity, str) and identity:
        return identity
    try:
        return canonical(requester)  # without an id nobody but who is described alike is the same
    except Uncloneable:
        return repr(requester)


@dataclass(frozen=True)
class Approval:
    """The answer. `reason` reaches the model when the call is refused.

    ```python
    from hooksdk import Approval, ApprovalRequest

    async def approver(request: ApprovalRequest) -> Approval:
        if request.severity == "critical":
            return Approval(False, reason="nobody is at the desk before nine")
        return Approval(True, scope="session", by="ann")
    ```

    Attributes:
        scope: How long a yes or a no counts: for this call; for this session; or for every session of the store.
        by: Who answered, for the trace and for the list of remembered answers.
        arguments: What a remembered answer counts for. None: exactly the arguments of this call. A mapping: every call
            whose arguments of these names have these values; all others are free. It must fit this call.
        expires: Seconds for which it is remembered; 30 days unless given.
        agree: With `values` a yes is one to the values of the request's evidence, too: each clears itself, as a whole,
            for the rest of the session. The result of the call is not trusted for that.
        unanswered: Why this refusal is nobody's. With it `by` is empty, and the refusal counts once.
    """

    granted: bool
    reason: str = ""
    scope: Scope = "once"
    by: str = field(default="", kw_only=True)
    arguments: Mapping[str, Any] | None = field(default=None, kw_only=True)
    expires: float | None = field(default=None, kw_only=True)
    agree: Agree = field(default="", kw_only=True)
    unanswered: Unanswered = field(default="", kw_only=True)


# Approved, this once.
YES = Approval(True)


@dataclass(frozen=True)
class Later:
    """The answer will come later: the call has no result until then, and everything else may go on or end.

    ```python
    from hooksdk.approvals import ApprovalRequest, Later

    async def approver(request: ApprovalRequest) -> Later:
        print(f"sent to the desk: {request.title}")
        return Later()
    ```
    """


# How the host asks a person: `async def (request) -> Approval`, or `Later`.
Approver = Callable[[ApprovalRequest], Awaitable[Approval | Later]]

NOBODY_TO_ASK = "it needs a person's approval, and nobody can be asked here"
_FAILED = Approval(False, "the approval could not be asked for", unanswered="failed")


async def ask_approver(approver: Approver | None, request: ApprovalRequest) -> Approval | Later:
    """Ask, within the request's time limit. Nobody to ask, no answer in time, an answer of the wrong type and an
    approver that raises all mean no."""
    if approver is None:
        return Approval(False, NOBODY_TO_ASK, unanswered="not_asked")
    answer: object = None
    seconds = min(request.timeout, MAX_TIMEOUT) if request.timeout > 0 else 0.0  # NaN is no time at all
    async with Attempt(seconds) as attempt:
        answer = await approver(request)
    if attempt.late:
        return Approval(False, f"nobody approved it within {seconds:g} s", unanswered="timeout")
    if attempt.error is not None:
        logger.warning("the approver failed, so the call is refused: %s", describe(attempt.error))
        return _FAILED
    return read_answer(answer, request)


def read_answer(answer: object, request: ApprovalRequest) -> Approval | Later:
    """A plain copy of the answer, whatever class it is of; a refusal where it is none that counts."""
    try:
        return Later() if isinstance(answer, Later) else plain_answer(answer, request)
    except BaseException as error:  # attributes of somebody's subclass: none of them may decide by raising
        if is_uncatchable(error):
            raise
        logger.warning("the approver's answer is none, so the call is refused: %s", describe(error))
        return _FAILED


def plain_answer(answer: object, request: ApprovalRequest) -> Approval:
    """A copy of the answer, checked. Raises whatever a wrong one raises, mostly `TypeError` and `ValueError`."""
    if not isinstance(answer, Approval):
        raise TypeError(f"an approver must answer an Approval or Later(), got {type(answer).__name__}")
    # Copied first: what is checked is what counts.
    names = ("granted", "reason", "scope", "by", "agree", "unanswered", "expires")
    fields: dict[str, Any] = {name: schema.clone(getattr(answer, name)) for name in names}
    granted, reason, scope, by, agree, unanswered, expires = fields.values()
    equal = answer.arguments
    if type(granted) is not bool:
        raise TypeError(f"Approval(granted=...) must be bool, got {type(granted).__name__}")
    if not isinstance(reason, str) or not isinstance(by, str):
        raise TypeError("Approval(reason=..., by=...) must be text")
    if scope not in SCOPES:
        raise ValueError("Approval(scope=...) must be once, session or always")
    if agree not in ("", "values"):
        raise ValueError('Approval(agree=...) must be "values", or left out')
    if unanswered not in get_args(Unanswered):
        raise ValueError(f"Approval(unanswered=...) must be one of {', '.join(filter(None, get_args(Unanswered)))}")
    if unanswered and (granted or by or scope != "once"):
        raise ValueError("Approval(unanswered=...) is a refusal of nobody's: leave granted, by and scope out")
    if expires is not None and (isinstance(expires, bool) or not 0 < expires < math.inf):
        raise ValueError("Approval(expires=...) must be a number of seconds above 0")
    if equal is not None:
        equal = schema.clone(dict(equal))
        if not covers_arguments(equal, peek(request, "arguments")):
            raise ValueError("Approval(arguments=...) does not fit the arguments of the call that it answers")
    seconds = None if expires is None else min(float(expires), MAX_EXPIRY)
    fields |= {"by": clip(by, MAX_BY), "arguments": equal, "expires": seconds}
    return Approval(**fields)


def covers_arguments(equal: Mapping[str, Any], arguments: Mapping[str, Any]) -> bool:
    """True when the call's arguments of these names have these values, to the letter: `1`, `1.0` and `true` differ."""
    try:
        return all(
            name in arguments and canonical(arguments[name]) == canonical(value) for name, value in equal.items()
        )
    except Uncloneable:  # no JSON, so no pattern can speak of it
        return False
