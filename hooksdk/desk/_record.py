"""The record of a question to a person: who asks, about which call with which arguments, and the answer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import Any, Literal, cast, get_args

from hooksdk.approvals import (
    Approval,
    ApprovalRequest,
    Question,
    definition_of,
    digest_of,
    plain_answer,
    requester_of,
)
from hooksdk.calls import ToolCall
from hooksdk.hooks import Checked
from hooksdk.tools import Source, Tool

RecordState = Literal["pending", "granted", "denied", "used", "expired"]
STATES = get_args(RecordState)
# Characters of arguments that a person may be asked about: nobody would read longer ones.
MAX_ARGUMENTS = 1_000_000


@dataclass(frozen=True, kw_only=True)
class ApprovalRecord(Checked):
    """One question to a person, and its answer. `ApprovalRecords` keeps them.

    ```python
    from hooksdk.desk import ApprovalRecord

    def line(record: ApprovalRecord) -> str:
        return f"{record.number} {record.state}: {record.title} ({record.tool})"
    ```

    Attributes:
        number: Its short name for people: 1, 2, 3 and so on; none is given twice.
        state: `pending`: nobody has answered. `granted`, `denied`: answered, but no call has taken the answer yet.
            `used`: a call has taken it. `expired`: the answer, or the call that takes it, did not come in time.
        tool: The tool's id.
        name: The tool's name.
        fingerprint: The fingerprint of the tool's definition with its annotations.
        arguments: The arguments of the call, with placeholders for values of secrets.
        digest: A digest of these arguments.
        questions: The questions of all plugins, the gravest first.
        session: The session whose call may take the answer.
        requester: The id of the requester whose call may take it; if that is no text, all that is known of the
            requester, as JSON.
        asker: A digest of all that is known of the requester, the workspace and the agent.
        made: Seconds since the epoch.
        expires: Seconds since the epoch; later nobody can answer, and no call can take the answer.
        effect: The effect id that the call's tool gets, too; empty for a record of 0.2.0.
        answered: Seconds since the epoch.
    """

    number: int
    state: RecordState
    tool: str
    name: str
    fingerprint: str
    arguments: Mapping[str, Any]
    digest: str
    questions: tuple[Question, ...]
    session: str
    requester: str | None
    asker: str
    workspace: str | None
    agent: str
    made: float
    expires: float
    effect: str = ""
    answer: Approval | None = None
    answered: float | None = None

    @cached_property
    def key(self) -> str:
        """A digest of the question: equal for the same call of the same session and requester with the same
        questions."""
        # Without empty rules, as in hooksdk 0.2.0, which had none. Evidence is not part of a question.
        questions = [
            {name: one for name, one in asdict(question).items() if name != "evidence" and (name != "rule" or one)}
            for question in self.questions
        ]
        return digest_of([self.session, self.asker, self.tool, self.fingerprint, self.digest, questions])

    @property
    def title(self) -> str:
        """The gravest question's."""
        return self.questions[0].title

    def as_dict(self) -> dict[str, Any]:
        """All of it, as JSON."""
        return asdict(self) | {"questions": [asdict(question) for question in self.questions]}

    def as_request(self) -> ApprovalRequest:
        """The request that an approver gets, with the arguments as they may be shown."""
        source, owner, name = self.tool.split(":", 2)
        gravest = self.questions[0]
        arguments = dict(self.arguments)
        return ApprovalRequest(
            title=gravest.title,
            description=gravest.description,
            severity=gravest.severity,
            timeout=gravest.timeout,
            plugin=gravest.plugin,
            questions=self.questions,
            session_id=self.session,
            agent_id=self.agent,
            workspace_dir=self.workspace,
            requester=None if self.requester is None else {"id": self.requester},
            call=ToolCall(f"approval-{self.number}", self.name, arguments),
            tool=Tool(name=name, source=cast("Source", source), owner=owner),
            arguments=arguments,
            effect_id=self.effect,
        )


def record_of(request: ApprovalRequest, *, made: float, expires: float) -> ApprovalRecord:
    """A record of this request, without a number. Raises `ValueError` for arguments that a person cannot be asked
    about."""
    if not request.digest:
        raise ValueError("its arguments are not JSON, so nobody could say which call was approved")
    arguments = request.mask(request.arguments)
    if (length := len(repr(arguments))) > MAX_ARGUMENTS:
        raise ValueError(f"its arguments have {length:,} characters, more than a person can be asked about")
    requester = requester_of(request)
    asker: list[Any] = [request.requester, request.workspace_dir, request.agent_id]
    if (request.triggers, request.agents) != (("user",), (request.agent_id,)):
        asker += [list(request.triggers), list(request.agents)]
    return ApprovalRecord(
        number=0,
        state="pending",
        tool=request.tool.id,
        name=request.tool.name,
        arguments=arguments,
        digest=digest_of(arguments),
        fingerprint=definition_of(request.tool),
        questions=tuple(Question(**request.mask(asdict(question))) for question in request.questions),
        session=request.session_id,
        requester=None if requester is None else request.mask(requester),
        asker=digest_of(request.mask(asker)),
        workspace=request.workspace_dir,
        agent=request.agent_id,
        made=made,
        expires=expires,
        effect=request.effect_id,
    )


def read_stored(value: object) -> ApprovalRecord:
    """A record from its stored form. Raises `ValueError` for a damaged one."""
    try:
        fields = dict(cast("Mapping[str, Any]", value))
        fields["questions"] = tuple(Question(**question) for question in fields["questions"])
        answer = fields.pop("answer")
        record = ApprovalRecord(**fields)
        if answer is not None:
            record = replace(record, answer=plain_answer(Approval(**answer), record.as_request()))
    except (LookupError, TypeError, AttributeError) as error:
        raise ValueError(f"{type(error).__name__}: {error}") from error
    granted = record.answer.granted if record.answer else None
    if record.state not in STATES:
        raise ValueError(f"the state {record.state!r} is none")
    if granted is not {"granted": True, "denied": False, "pending": None}.get(record.state, granted):
        raise ValueError(f"its answer does not fit its state, {record.state}")
    if record.digest != digest_of(record.arguments):
        raise ValueError("its arguments are not those that it was made for")
    return record
