"""The calls of one session's client: each is judged by every policy, run, and delivered in MCP's form."""

from __future__ import annotations

import logging
import uuid
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from time import monotonic
from typing import Any, final

import mcp_types as types
from mcp.shared.exceptions import MCPError
from mcp.shared.inbound import validate_mcp_param_headers
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from hooksdk.approvals import digest_of
from hooksdk.calls import ToolCall, ToolResult
from hooksdk.errors import ApprovalPending, SessionBusy, StoreError
from hooksdk.gateway._answers import Undelivered, deliver
from hooksdk.gateway._approvals import ClientApprovals
from hooksdk.gateway._client import CallingClient, Request, SessionClient
from hooksdk.gateway._left_sessions import OtherSessionsCalls
from hooksdk.gateway._listing import ClientListing, SessionTools
from hooksdk.gateway._long_results import PREFIX as RESULT_PREFIX
from hooksdk.gateway._open_calls import PREFIX, Answer, CallExchange, OpenCalls
from hooksdk.gateway._results import as_contents, as_error, as_mcp, as_prompt, error, error_code
from hooksdk.gateway._session_offers import SessionOffers
from hooksdk.gateway._settings import MCP_SOURCES
from hooksdk.mcp import current_client
from hooksdk.run import JudgedCall
from hooksdk.tools import Tool

logger = logging.getLogger("hooksdk")

# Errors about which a client can do something, and a model cannot: they are passed on as errors.
FOR_CLIENTS = {types.URL_ELICITATION_REQUIRED, types.MISSING_REQUIRED_CLIENT_CAPABILITY}
# Calls of a session that may wait for approvals; of more, the newest.
MOST_WAITING = 200


@dataclass(frozen=True)
class WaitingCall:
    """A call that waits for an approval.

    Attributes:
        digest: The digest of its name and arguments.
    """

    digest: str
    call_id: str
    judged: JudgedCall
    since: float


@final
class WaitingCalls:
    """The calls of one session that wait for approvals. Made again, a call has its id, and is not judged anew."""

    def __init__(self) -> None:
        self._calls: list[WaitingCall] = []

    def __len__(self) -> int:
        return len(self._calls)

    def add(self, call: WaitingCall) -> None:
        """Let a call wait until it is made again."""
        self._calls.append(call)

    def take(self, digest: str) -> WaitingCall | None:
        """The newest waiting call of this name with these arguments; None where none waits, or its client makes it at
        this moment."""
        call = next((one for one in reversed(self._calls) if one.digest == digest), None)
        if call is not None:
            self._calls.remove(call)
        return call

    async def give_up_old(self, keep: float) -> None:
        """End the calls that were not made again within `keep` seconds, when their approval expired, and the oldest
        of too many: a client may stay for weeks."""
        ages = sorted(one.since for one in self._calls)
        oldest = monotonic() - keep
        if len(ages) > MOST_WAITING:
            oldest = max(oldest, ages[-MOST_WAITING - 1])
        old = [one for one in self._calls if one.since <= oldest]
        self._calls = [one for one in self._calls if one.since > oldest]
        for one in old:
            await one.judged.refuse("it was not made again in time", unanswered="timeout")


@final
@dataclass(eq=False)
class SessionCalls:
    """The calls of one session.

    Attributes:
        waiting: The calls that wait for approvals.
        other_sessions: The calls in doubt that began in other sessions.
        _client: The session's client.
        _tools: The session's tools.
        _offers: The prompts and resources that the client may have.
        _busy: A context within which the session does not count as idle.
        _give_up: Is called when a record could not be written: the client's next request gets another session.
        _approvals: Asks the person at the client; None where there is no approval desk.
        _undelivered: Results that no request has taken to the client yet.
        _open_calls: Calls that wait for the client's answers to a server's questions.

    """

    other_sessions: OtherSessionsCalls
    _client: SessionClient
    _tools: SessionTools
    _offers: SessionOffers
    _busy: Callable[[], AbstractContextManager[None]]
    _give_up: Callable[[], None]

    def __post_init__(self) -> None:
        client, shared, exchange = self._client, self._client.shared, None
        self.waiting = WaitingCalls()
        self._approvals = client.approver if isinstance(client.approver, ClientApprovals) else None
        self._undelivered = Undelivered()
        if shared.ids.deployment is not None and client.is_shared:
            exchange = CallExchange(
                shared.ids.deployment, client.id, client.stored_id, shared.start_soon, self._undelivered
            )
        self._open_calls = OpenCalls(shared.start_soon, self._undelivered, exchange)

    async def call(self, params: types.CallToolRequestParams, request: Request, client: CallingClient) -> Answer:
        """Make a call of a tool, and deliver its result with the answer to this request."""
        self._check_headers(params, request, await self._tools.listing())
        answer = await self._call(params, request, client)
        deliver(self._undelivered.take(answer), request)
        return answer

    @staticmethod
    def _check_headers(params: types.CallToolRequestParams, request: Request, listing: ClientListing) -> None:
        """Refuse a call over HTTP whose headers say something else than its arguments, which a schema of protocol
        2026-07-28 can ask for with `x-mcp-header`: proxies go by them. A tool that is not listed has no headers.
        Raises `MCPError`."""
        if request.request is None or request.protocol_version not in MODERN_PROTOCOL_VERSIONS:
            return
        tool = next((tool for tool in listing.tools if tool.name == params.name), None)
        if tool is None:
            return
        refusal = validate_mcp_param_headers(tool.input_schema, params.arguments or {}, request.request.headers)
        if refusal is not None:
            raise MCPError(refusal.code, refusal.message, refusal.data)

    async def get_prompt(
        self, params: types.GetPromptRequestParams, request: Request, client: CallingClient
    ) -> types.GetPromptResult | types.InputRequiredResult:
        """Get a prompt of a server, past every policy."""
        tool = await self._offers.prompt(params.name)
        answer = await self._call_for(tool, dict(params.arguments or {}), params, request, client)
        return answer if isinstance(answer, types.InputRequiredResult) else as_prompt(answer)

    async def read_resource(
        self, params: types.ReadResourceRequestParams, request: Request, client: CallingClient
    ) -> types.ReadResourceResult | types.InputRequiredResult:
        """Read a resource of a server, past every policy, or a long result."""
        if params.uri.startswith(RESULT_PREFIX):
            return await self._tools.results.read(params.uri)
        feature, tool = await self._offers.resource(params.uri)
        answer = await self._call_for(tool, {"uri": feature.own}, params, request, client)
        return answer if isinstance(answer, types.InputRequiredResult) else as_contents(answer, params.uri)

    async def _call_for(
        self,
        tool: Tool,
        arguments: dict[str, Any],
        params: types.GetPromptRequestParams | types.ReadResourceRequestParams,
        request: Request,
        client: CallingClient,
    ) -> Answer:
        """The result of a call that stands for another kind of request. Raises `MCPError` where it has none."""
        call = types.CallToolRequestParams(
            name=tool.name,
            arguments=arguments,
            request_state=params.request_state,
            input_responses=params.input_responses,
        )
        answer = await self._call(call, request, client, tool)
        deliver(self._undelivered.take(answer), request)
        if isinstance(answer, types.CallToolResult) and answer.is_error:
            raise self._offers.note_pages(as_error(answer))
        return answer

    async def _call(
        self, params: types.CallToolRequestParams, request: Request, client: CallingClient, tool: Tool | None = None
    ) -> Answer:
        """Make a call. One that waited for an approval, or for answers to what its server has asked, goes on from
        there. `tool` is given for a call of none of the listed tools."""
        digest = digest_of([params.name, params.arguments or {}])
        params_or_refusal = await self._tools.pages.go_on(params)
        if isinstance(params_or_refusal, types.CallToolResult):
            return params_or_refusal
        params = params_or_refusal
        if (params.request_state or "").startswith(PREFIX):
            return await self._open_calls.resume(params, digest, request)
        if self._approvals is not None and (refusal := await self._approvals.take_answer(params)) is not None:
            return refusal
        if not client.may_be_asked_by_result:
            return await self._judge_and_run(params, digest, request.protocol_version, tool)

        async def work() -> Answer:
            with self._busy():
                return await self._judge_and_run(params, digest, request.protocol_version, tool)

        return await self._open_calls.begin(digest, client, work)

    async def _judge_and_run(
        self, params: types.CallToolRequestParams, digest: str, protocol_version: str, tool: Tool | None
    ) -> Answer:
        name, arguments = params.name, params.arguments or {}
        listing = await self._tools.listing()
        await self.waiting.give_up_old(self._client.shared.config.approvals.keep)
        await self.other_sessions.find(*(listing.target(name, arguments) if tool is None else (tool, arguments)))
        before = self.waiting.take(digest)
        call_id = before.call_id if before else f"call-{uuid.uuid4().hex[:16]}"
        call, only = ToolCall(call_id, name, arguments), None
        if tool is None:
            call, only = listing.call(call_id, name, arguments)
        try:
            judged = await self._client.run.judge(call, only=only, tool=tool)
        except (StoreError, SessionBusy):
            self._give_up()
            raise
        if tool is None and judged.status != "blocked" and listing.is_withheld(name, arguments):
            self._client.shared.counts.withheld()  # the name is not quite the tool's own
        try:
            result = await self._run(judged, name)
        except ApprovalPending as pending:
            since = before.since if before else monotonic()
            self.waiting.add(WaitingCall(digest, call_id, judged, since))
            if self._approvals is not None:
                is_answered = params.request_state is not None
                return await self._approvals.waiting_result(judged.call.name, pending, answered=is_answered)
            title = pending.request.title if pending.request else name
            return error(
                f"'{judged.call.name}' was not run yet: a person is asked about it ({title}). Call it again later."
            )
        await self.other_sessions.settle(judged)
        return await self._answer(judged, result, params.name, protocol_version, None if tool else listing)

    async def _run(self, judged: JudgedCall, name: str) -> ToolResult:
        """Run a judged call. A result counts though not all of its records could be stored."""
        try:
            return await judged.execute(confirms=True)
        except (StoreError, SessionBusy) as problem:
            self._give_up()
            if judged.result is None or (isinstance(problem, SessionBusy) and judged.status == "not_run"):
                raise
            logger.warning("of a call of '%s' not all could be stored: %s", name, problem)
            return judged.result

    async def _answer(
        self, judged: JudgedCall, result: ToolResult, name: str, protocol_version: str, listing: ClientListing | None
    ) -> Answer:
        """The result as the client gets it; `listing` is given for a call of a listed tool. Raises `MCPError` for an
        error that is the client's business."""
        client = current_client.get()
        if isinstance(client, CallingClient) and client.page is not None and client.context is not None:
            judged.confirm()  # it was not made at its server, so nothing is in doubt
            return self._tools.pages.answer(client.page, client.context)
        if listing is not None and result.is_error and error_code(result) in FOR_CLIENTS:
            judged.confirm()
            raise self._offers.note_pages(as_error(as_mcp(result, protocol_version)))
        if judged.tool is not None and judged.tool.source in MCP_SOURCES:
            result = await self._offers.with_links(judged.tool.owner, result)
        if listing is not None:
            result = await self._tools.results.shorten(name, result, listing.recall)
        answer = as_mcp(result, protocol_version)
        self._undelivered.add(answer, judged.confirm)
        return answer
