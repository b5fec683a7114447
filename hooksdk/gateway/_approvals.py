"""Approvals by the person at a client, who is asked in the best way that the client has. The record of the question
is made first and decides; the client's answer is written into it."""

from __future__ import annotations

import contextlib
import logging
import os
import time
from collections.abc import Awaitable, Callable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from typing import Any, final

import mcp_types as types
from mcp.server.context import ServerRequestContext
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from hooksdk.approvals import Approval, ApprovalRequest, Later, digest_of
from hooksdk.desk import ApprovalDesk, ApprovalRecord, ApprovalRecords, ApprovalWebhook, NotWaiting
from hooksdk.desk.console import question_text
from hooksdk.desk.tickets import TicketRefused, Tickets
from hooksdk.errors import ApprovalPending, ConfigError
from hooksdk.gateway._results import error
from hooksdk.gateway._settings import ApprovalSettings
from hooksdk.stores import Store
from hooksdk.values import clip

logger = logging.getLogger("hooksdk")

Request = ServerRequestContext[Any, Any]

# The client's request that is served now, for an approver that asks its person; None elsewhere.
current_request: ContextVar[Request | None] = ContextVar("hooksdk gateway request", default=None)

# Seconds in which no person can read a question.
HASTE = 0.05
# A client that refuses this many questions in such haste, one after the other, shows them to nobody.
HASTY_ANSWERS = 2
REFUSAL = "the person at the client said no"
# Questions sent with results whose time is kept; of more, the newest.
MOST_ASKED = 200
# The name of the question in an `InputRequiredResult`.
INPUT = "approval"
ANSWERS = {
    "allow": Approval(True),
    "allow for this session": Approval(True, scope="session"),
    "deny": Approval(False, REFUSAL),
}
# A further answer to a question that shows values of another origin.
FOR_VALUES = {"allow, and these values for this session": Approval(True, agree="values")}


def desk_of(settings: ApprovalSettings, environment: Mapping[str, str] = os.environ) -> ApprovalDesk:
    """The desk that the configuration describes. Raises `ConfigError`."""
    channels: list[ApprovalWebhook] = []
    if (webhook := settings.webhook) is not None:

        def value_of(variable: str) -> str:
            if not (value := environment.get(variable)):
                raise ConfigError("gateway.approvals.webhook", (f"the variable {variable} is not set",))
            return value

        channels.append(
            ApprovalWebhook(
                webhook.url,
                secret=None if webhook.secret_env is None else value_of(webhook.secret_env),
                headers={name: value_of(variable) for name, variable in webhook.headers_env.items()},
                timeout=webhook.timeout,
            )
        )
    return ApprovalDesk(channels=channels, wait=settings.wait, keep=settings.keep)


@final
@dataclass(eq=False, kw_only=True)
class ClientApprovals:
    """Asks the person at one session's client.

    Attributes:
        store: Keeps the questions, unless the desk has records of its own.
        requester: The requester that has the session.
        by: The name of the person who answers at the client.
        ask_client: True while the client is shown questions.
        is_over: Whether the session of an id is over, so that this one may continue with what it has asked.
        clock: Measures how long a client takes to answer.
    """

    desk: ApprovalDesk
    store: Store
    session_id: str
    requester: Mapping[str, Any]
    by: str
    ask_client: bool
    is_over: Callable[[str], Awaitable[bool]]
    clock: Callable[[], float] = time.monotonic
    # Refusals in a row that came in haste.
    _hasty: int = field(default=0, init=False)
    # The times at which questions were sent with results, by number.
    _asked: dict[int, float] = field(default_factory=dict[int, float], init=False)

    def __post_init__(self) -> None:
        self._who = digest_of(self.requester)
        self._holder = f"{self.session_id} {self._who}"

    @property
    def _records(self) -> ApprovalRecords:
        return self.desk.records_in(self.store)

    async def __call__(self, request: ApprovalRequest) -> Approval | Later:
        """Ask about a call, as an approver."""
        context = current_request.get()
        if context is None or not self._can_show(context):
            return await self.desk.ask(request, is_over=self.is_over)
        if _asks_by_result(context):
            return await self.desk.ask(request, wait=0, is_over=self.is_over)

        async def client(record: ApprovalRecord) -> Approval | None:
            asked = self.clock()
            answer = await context.session.elicit_form(message_of(record), _schema_of(record), context.request_id)
            return self._read(answer, record, self.clock() - asked)

        return await self.desk.ask(request, channels=[client], is_over=self.is_over)

    async def take_answer(self, params: types.CallToolRequestParams) -> types.CallToolResult | None:
        """Store the answer that a request brings, if it brings one. The result says why a request's ticket does not
        count; else it is None."""
        if params.request_state is None:
            return None
        arrived = self.clock()
        try:
            record = await Tickets(self._records).redeem(params.request_state, self._holder, is_left=self._is_left)
        except TicketRefused as problem:
            logger.warning("an answer to an approval was refused: %s", problem)
            return error(f"'{params.name}' was not run: the answer to its approval does not count, since {problem}.")
        answer = (params.input_responses or {}).get(INPUT)
        taken = arrived - self._asked.pop(record.number, arrived - HASTE)
        if isinstance(answer, types.ElicitResult) and (approval := self._read(answer, record, taken)) is not None:
            with contextlib.suppress(NotWaiting):  # another person was first: that answer counts
                await self._records.answer(record.number, approval)
        return None

    async def waiting_result(
        self, name: str, pending: ApprovalPending, *, answered: bool
    ) -> types.CallToolResult | types.InputRequiredResult:
        """The result of a call that waits: the question itself, where the client can show it and has not just
        `answered` it, else that the call waits, and under which number."""
        context = current_request.get()
        asks = isinstance(pending.request, ApprovalRequest)
        record = await self._records.find(pending.request) if asks else None
        if record is None:
            return error(f"'{name}' was not run yet: it waits. Call it again later, with the same arguments.")
        if context is not None and not answered and _asks_by_result(context) and self._can_show(context):
            ticket = await Tickets(self._records).issue(record, self._holder)
            self._asked[record.number] = self.clock()
            if len(self._asked) > MOST_ASKED:
                del self._asked[next(iter(self._asked))]
            form = types.ElicitRequestFormParams(message=message_of(record), requested_schema=_schema_of(record))
            return types.InputRequiredResult(
                input_requests={INPUT: types.ElicitRequest(params=form)}, request_state=ticket
            )
        return error(
            f"'{name}' was not run yet: it waits for a person's approval, number {record.number} "
            f"({clip(record.title, 200)}). Only a person can give it. Call it again with the same arguments once "
            "they have; until then go on with something else."
        )

    async def _is_left(self, holder: str) -> bool:
        session_id, _, who = holder.partition(" ")
        return who == self._who and await self.is_over(session_id)

    def _can_show(self, context: Request) -> bool:
        said = context.session.client_capabilities
        forms = said.elicitation if said else None
        return self.ask_client and forms is not None and (forms.form is not None or forms.url is None)

    def _read(self, answer: types.ElicitResult, record: ApprovalRecord, seconds: float) -> Approval | None:
        """The approval that a client's answer means; None for an answer that decides nothing."""
        if answer.action == "accept":
            self._hasty = 0
            content = answer.content or {}
            decision = content.get("decision") if set(content) == {"decision"} else None
            approval = _answers_to(record).get(decision) if isinstance(decision, str) else None
            if approval is None:
                said = clip(repr(answer.content), 200)
                logger.warning(
                    "a client accepted an approval with what is no decision, so it goes on waiting: %s", said
                )
                return None
            return replace(approval, by=self.by)
        self._hasty = self._hasty + 1 if seconds < HASTE else 0
        if self._hasty >= HASTY_ANSWERS:
            self.ask_client = False
            logger.warning("a client refuses approvals faster than a person reads them: it is not asked any more")
        return Approval(False, REFUSAL, by=self.by) if answer.action == "decline" and not self._hasty else None


def _asks_by_result(context: Request) -> bool:
    """True in the stateless protocol: a question is a result, and its answer comes with the call when it is made
    again."""
    return context.protocol_version in MODERN_PROTOCOL_VERSIONS


def _answers_to(record: ApprovalRecord) -> Mapping[str, Approval]:
    """The answers that a person may give, by the words that the client shows."""
    is_foreign = any(not one.cleared for question in record.questions for one in question.evidence)
    return {**ANSWERS, **FOR_VALUES} if is_foreign else ANSWERS


def _schema_of(record: ApprovalRecord) -> types.ElicitRequestedSchema:
    decisions = [*_answers_to(record)]
    decision = {"type": "string", "title": "Decision", "description": "May this call run?", "enum": decisions}
    return {"type": "object", "properties": {"decision": decision}, "required": ["decision"]}


def message_of(record: ApprovalRecord) -> str:
    """The question as a client shows it."""
    head = f"Approval {record.number}: may this call run?"
    return question_text(head, record.questions, record.tool, record.arguments)
