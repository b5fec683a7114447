"""One client's session: its run on the host, opened with the first request, and the tools as they were told to it last."""

from __future__ import annotations

import contextlib
import logging
import uuid
import weakref
from collections.abc import Awaitable, Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from time import monotonic
from typing import Any, final

import anyio
import mcp_types as types
from anyio.abc import TaskStatus
from mcp.server.context import ServerRequestContext
from mcp.server.session import ServerSession
from mcp.server.subscriptions import PromptsListChanged, ResourcesListChanged, ServerEvent, ToolsListChanged
from mcp.shared.exceptions import MCPError
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from hooksdk.approvals import Approver, digest_of
from hooksdk.calls import CallInDoubt, ToolCall, ToolResult
from hooksdk.desk import ApprovalDesk
from hooksdk.errors import ApprovalPending, HookSDKError, SessionBusy, StoreError
from hooksdk.gateway._answers import Arriving, hand_over
from hooksdk.gateway._approvals import ClientApprovals
from hooksdk.gateway._client import CallingClient, is_heard
from hooksdk.gateway._counts import Counts
from hooksdk.gateway._deployment import PRECISION, Deployment
from hooksdk.gateway._doubts import Doubts
from hooksdk.gateway._elsewhere import Elsewhere
from hooksdk.gateway._handover import Answer, Handover
from hooksdk.gateway._headers import check_headers
from hooksdk.gateway._listing import ClientListing, HintTrust
from hooksdk.gateway._long_results import PREFIX as PREFIX_OF_RESULTS
from hooksdk.gateway._long_results import LongResults, ResultsInMemory, ResultsInStore, is_recall
from hooksdk.gateway._offers import ClientOffers, Links, shown_in, with_app_at
from hooksdk.gateway._old_sessions import remove, remove_old
from hooksdk.gateway._open_calls import PREFIX, OpenCalls
from hooksdk.gateway._pages import SessionPages
from hooksdk.gateway._places import Place, leave
from hooksdk.gateway._results import as_contents, as_error, as_mcp, as_prompt, error, error_code, pages_in
from hooksdk.gateway._settings import MCP_SOURCES, Expose, GatewayConfig, Profile, narrowing
from hooksdk.gateway._sources import Sources
from hooksdk.host import Host
from hooksdk.mcp import Feature, ServerOffer, current_client
from hooksdk.run import JudgedCall, Run
from hooksdk.session import Session
from hooksdk.tools import Tool

logger = logging.getLogger("hooksdk")

Request = ServerRequestContext[Any, Any]
PAUSE = 0.1
"""Seconds between two looks while an equal call runs at another gateway."""
MARGIN = 5.0
"""Seconds beyond a lease for which that is waited for: by then it is known whether its gateway lives."""
RECENT = 2.0
"""Seconds after a request in which the ends of its calls may be still to be written."""
ENDS_WRITTEN = 0.25
"""Seconds between two looks whether they are."""
START = "start of the server"
"""For whom a server's secrets are: a tool that no server has, so that a pattern for one tool alone does not give them."""
UNSUBSCRIBE = 2.0
"""Seconds that a server has to hear that a client is gone who wanted to hear of a resource."""
MOST_WAITING = 200
"""Calls of a session that may wait for approvals; of more, the newest."""


@dataclass(frozen=True, kw_only=True)
class Identity:
    """Who a client is, by the command line or by its token."""

    name: str
    """The token's name, or `local`."""
    profile_name: str | None
    profile: Profile
    transport: str
    key: str = "local"
    """Nobody else has it."""

    @property
    def requester(self) -> Mapping[str, Any]:
        """What policies are told of who asks."""
        roles = [self.profile_name] if self.profile_name else []
        return {"id": self.name, "roles": roles, **self.profile.requester}


@dataclass(frozen=True, kw_only=True)
class GatewayParts:
    """What all sessions of a gateway have in common."""

    host: Host
    sources: Sources
    counts: Counts
    config: GatewayConfig
    approver: Approver | None
    place: Place
    doubts: Doubts
    start_soon: Callable[..., Any]
    """Starts a task that may outlive a request."""
    publish: Callable[[ServerEvent], Any]
    """Tells the clients that listen in the stateless protocol."""
    watch: Callable[..., Any]
    """Hears of a resource's changes, or no more."""
    level_changed: Callable[[], Any]
    """To be told that a client wants to hear more of what is logged, or less."""

    async def remove_old_sessions(self) -> None:
        """Remove what earlier gateways have left and nobody needs."""
        await remove_old(self.host.store, self.place, self.config.approvals.keep)


CHANGES: dict[Any, Any] = {
    ToolsListChanged: types.ToolListChangedNotification,
    PromptsListChanged: types.PromptListChangedNotification,
    ResourcesListChanged: types.ResourceListChangedNotification,
}
"""How a client is told in both protocols what is another list now."""
FOR_CLIENTS = {types.URL_ELICITATION_REQUIRED, types.MISSING_REQUIRED_CLIENT_CAPABILITY}
"""Errors about which a client can do something, and a model cannot: they are passed on as errors."""
RESOURCE_NOT_FOUND = -32002
"""The code of protocol 2025-11-25; later ones have no code of its own."""


@dataclass(frozen=True)
class Waiting:
    """A call that waits for an approval."""

    call_id: str
    judged: JudgedCall
    since: float


@final
class GatewaySession:
    """One client's session. It is kept by a task of its own, since a run is entered and left by the same one."""

    def __init__(
        self, parts: GatewayParts, identity: Identity, *, idle: float | None, shared_as: str | None = None
    ) -> None:
        """`shared_as` is the id of the session that several gateways have: this is the part of this one."""
        key, requester, deployment = identity.key, identity.requester, parts.place.deployment
        shared = deployment if shared_as is not None else None
        self._stored_as = parts.place.enter(key, requester, shared_as)
        self.id = shared_as or self._stored_as
        """What plugins and people are told."""
        self._shared_as = shared_as
        self._deployment = deployment
        self._elsewhere = (
            Elsewhere(deployment, deployment.sessions_of(key, requester), self._stored_as) if deployment else None
        )
        self.identity = identity
        self.ended = anyio.Event()
        """Set once its run and its session are closed."""
        self.closing = False
        """It takes no requests any more."""
        self._parts = parts
        self._idle = idle
        self._leave = anyio.Event()
        self._stirred = anyio.Event()
        """Set when it is to leave, and where others are told of it, when a request comes."""
        self._touched = 0.0
        self._requests = 0
        self._at_rest = anyio.Event()
        """Set when a request has ended and no other is served."""
        self._last = 0.0
        self._lock = anyio.Lock()
        self._session: Session | None = None
        self._run: Run | None = None
        self._given: tuple[list[Tool], dict[str, str], list[str]] | None = None
        self._listing: ClientListing | None = None
        self._client_name = self._protocol_version = ""
        self._peer: ServerSession | None = None
        """The client, if it may be told of changes at any time."""
        self._waiting: dict[str, list[Waiting]] = {}
        """Calls that wait for an approval, by what stands for name and arguments: made again, a call has its id, and is not
        judged anew."""
        approver = parts.approver
        self._client_approvals = (
            ClientApprovals(
                approver, parts.host.store, self.id, identity.requester, f"{identity.name}, at the client",
                ask_client=parts.config.approvals.client, is_over=parts.place.is_over, clock=monotonic,
            )
            if isinstance(approver, ApprovalDesk) else None
        )  # fmt: skip
        self._pages = SessionPages(parts.sources, parts.start_soon, wait=parts.config.approvals.wait)
        self._context: Request | None = None
        """A request of the client: it says what the client can do."""
        self._unanswered: dict[int, Arriving] = {}
        """Calls that have ended, by the identity of their results, while those are there and no request takes them to the client."""
        handover = None
        if shared is not None:
            handover = Handover(shared, self.id, self._stored_as, parts.start_soon, self._expect_arrival)
        self._open_calls = OpenCalls(parts.start_soon, self.call_of, handover)
        self._expose: Expose = identity.profile.expose or parts.config.expose
        self._trust = HintTrust(frozenset(parts.config.trusted_hints))
        self._not_granted = narrowing(identity.profile_name, identity.profile, own=is_recall)
        most = parts.config.kept_result_bytes
        kept = ResultsInStore(shared.store, self.id, most) if shared else ResultsInMemory(most)
        self.results = LongResults(parts.config.max_result_chars, most, kept)
        self.level: types.LoggingLevel | None = None
        """How much of what servers log the client wants to hear."""
        self._links = Links()
        self._page_ids: set[str] = set()
        """The ids of web pages that servers have asked the client to open."""
        self._offers: tuple[list[ServerOffer], ClientOffers] | None = None
        self._subscribed: dict[Feature, str] = {}
        """Resources whose changes the client hears of, as it calls them."""

    async def keep(self, context: Request, *, task_status: TaskStatus[None]) -> None:
        """Open session and run, and close them when the client leaves or is idle."""
        host, identity = self._parts.host, self.identity
        self._protocol_version = context.protocol_version
        try:
            session = self._session = await host.hold(self._stored_as, idle=self._idle, shared_as=self._shared_as)
            session.on_event(self._parts.counts.metrics.take)
            try:
                async with session.run(
                    requester=identity.requester, trigger="user", metadata=_metadata(identity, context, self._expose),
                    context_window=self._parts.config.context_window, transcript=False, withhold=self._not_granted, expose=self._expose,
                    approver=self._parts.counts.counted(self._client_approvals or self._parts.approver),
                    in_doubt=self._in_doubt,
                ) as self._run:  # fmt: skip
                    self._client_name = _client_of(context).get("name", "")
                    self._parts.counts.opened(self._run, self._client_name)
                    task_status.started()
                    await self._wait()
                    self.closing = True
            finally:
                self.closing = True
                run, self._run = self._run, None
                if run is not None:
                    self._parts.counts.closed(run)
                await self._unsubscribe_all()
                await self._parts.doubts.end(self._stored_as, in_doubt := session.in_doubt)
                await session.close("closed" if self._leave.is_set() else "idle")
                if not in_doubt and not self._waiting:
                    await remove(host.store, self._stored_as)
        except Exception:
            if self._listing is None:
                raise  # to whoever opens it
            logger.exception("session '%s' of the gateway ended with an error", self.id)
        finally:
            self.closing = True
            leave(self._stored_as)
            self._parts.sources.release(self.id)
            self.ended.set()

    async def _wait(self) -> None:
        self._last = anyio.current_time()
        while not self._leave.is_set():
            rest = None if self._idle is None else self._idle
            if rest is not None and not self._requests:
                rest = self._last + rest - anyio.current_time()
                if rest <= 0:
                    return
            if self._deployment is not None:
                rest = await self._tell_others(self._deployment, rest)
            with anyio.move_on_after(rest):
                await self._stirred.wait()
            if self._stirred.is_set():
                self._stirred = anyio.Event()

    async def _tell_others(self, deployment: Deployment, rest: float | None) -> float | None:
        """What the deployment's other gateways need to know of this part: that it is in use, and which calls have ended. Answers
        after how many seconds it is looked at again."""
        assert self._session is not None
        now = anyio.current_time()
        if not self._requests and now - self._last > RECENT:
            return rest
        try:
            interval = (self._idle or 0) / PRECISION
            if self._shared_as is not None and self._requests and now - self._touched > interval:
                self._touched = now
                await deployment.touch(self.id)
            await self._session.write_ends()
        except HookSDKError as problem:
            logger.warning("other gateways cannot be told of session '%s': %s", self.id, problem)
        return ENDS_WRITTEN if rest is None else min(rest, ENDS_WRITTEN)

    def _in_doubt(self) -> Sequence[CallInDoubt]:
        elsewhere = self._elsewhere.calls() if self._elsewhere else ()
        return [*self._parts.doubts.calls(), *elsewhere]

    async def leave(self) -> None:
        """The client is gone: end its calls, its run and its session, and wait for it."""
        self.closing = True
        self._leave.set()
        self._stirred.set()
        await self.ended.wait()

    def supersede(self) -> None:
        """Others take its place: what it has asked is theirs, unless a call holds on for the answer."""
        self.closing = True
        if not self._requests:
            leave(self._stored_as)

    async def retire(self) -> None:
        """Others have taken its place: it ends once its requests are answered, by the rules that they began under. Its client
        is told that the tools may be others."""
        self.supersede()
        for change in CHANGES:
            await self._tell_change(change())
        await self._leave_when_at_rest()

    @contextmanager
    def at_work(self, context: Request) -> Generator[CallingClient]:
        """While a request is served the session does not count as idle."""
        if context.session.can_send_request:  # a connection that lasts
            self._peer = context.session
        self._context = context
        client = self._client(context)
        token = current_client.set(client)
        try:
            with self._busy():
                yield client
        finally:
            client.end()
            current_client.reset(token)

    def _client(self, context: Request | None = None) -> CallingClient:
        """The client as servers know it."""
        return CallingClient(
            self.id, self.identity.name, self._fill_secrets, self._parts.config.relay, self._protocol_version, context, self.level,
        )  # fmt: skip

    async def _fill_secrets(self, server: str, texts: Mapping[str, Any], *, shared: bool) -> dict[str, Any]:
        if self._run is None:
            raise HookSDKError("the session has ended; connect again")
        return await self._run.fill_secrets(Tool(name=START, source="mcp", owner=server), texts, shared=shared)

    @contextmanager
    def _busy(self) -> Generator[None]:
        self._requests += 1
        if self._deployment is not None:
            self._stirred.set()
        try:
            yield
        finally:
            self._requests -= 1
            self._last = anyio.current_time()
            self._parts.counts.touch()
            if not self._requests:
                self._at_rest.set()

    @property
    def stats(self) -> Mapping[str, Any]:
        """Counters of the session so far."""
        return self._run.stats if self._run is not None else {}

    async def tools(self) -> list[types.Tool]:
        """What the client is told that there is."""
        # The bridge is the same whatever stands behind it.
        listing = await self._resolved(wait=self._expose != "bridge")
        self._parts.counts.listed(listing.tokens_direct, listing.tokens)
        return [await self._with_app(tool) for tool in listing.tools]

    async def listed(self) -> tuple[types.Tool, ...]:
        """What the client was told, or would be."""
        return (await self._resolved()).tools

    async def _with_app(self, tool: types.Tool) -> types.Tool:
        """The tool, whose app leads back to its server."""
        if not shown_in(tool) or (own := self._open_run.tools.get(tool.name)) is None:
            return tool
        offers = await self.offers()
        return tool.model_copy(
            update={"meta": with_app_at(tool.meta or {}, lambda uri: offers.name_of(own.owner, uri))}
        )

    async def call(
        self, params: types.CallToolRequestParams, context: Request, client: CallingClient, tool: Tool | None = None
    ) -> Answer:
        """Take one call past every policy, and run it. One that waited for an approval, or for answers to what its server has
        asked, goes on from there. `tool` is what it is of, where that is none of the listed ones."""
        same = digest_of([params.name, params.arguments or {}])
        if (page := self._pages.heard(params)) is not None:
            if isinstance(page, types.CallToolResult):
                return page
            await self._pages.settled(page)
            params = params.model_copy(update={"request_state": None, "input_responses": None})
        if (params.request_state or "").startswith(PREFIX):
            return await self._open_calls.go_on(params, same, context)
        asker = self._client_approvals
        if asker is not None and (refusal := await asker.take_answer(params)) is not None:
            return refusal
        if not client.may_be_asked_by_result:
            return await self._run_call(params, same, context.protocol_version, tool)

        async def work() -> Answer:
            with self._busy():
                return await self._run_call(params, same, context.protocol_version, tool)

        return await self._open_calls.begin(same, client, work)

    async def _run_call(
        self, params: types.CallToolRequestParams, same: str, protocol_version: str, tool: Tool | None
    ) -> Answer:
        name, arguments, asker = params.name, params.arguments or {}, self._client_approvals
        listing = await self._resolved()
        await self._give_up_old()
        await self._catch_up(listing, name, arguments, tool)
        before = self._take_waiting(same)
        call_id = before.call_id if before else f"call-{uuid.uuid4().hex[:16]}"
        call, only = (
            listing.call(call_id, name, arguments) if tool is None else (ToolCall(call_id, name, arguments), None)
        )
        run = self._open_run
        try:
            judged = await run.judge(call, only=only, tool=tool)
        except (StoreError, SessionBusy):
            self._give_way()
            raise
        if (
            tool is None and judged.status != "blocked" and listing.is_withheld(name, arguments)
        ):  # by a name that is not quite its own
            self._parts.counts.withheld()
        try:
            result = await judged.execute(confirms=True)
        except (StoreError, SessionBusy) as problem:
            self._give_way()
            if judged.result is None or (isinstance(problem, SessionBusy) and judged.status == "not_run"):
                raise
            logger.warning("of a call of '%s' not all could be stored: %s", name, problem)
            result = judged.result
        except ApprovalPending as pending:
            since = before.since if before else monotonic()
            self._waiting.setdefault(same, []).append(Waiting(call_id, judged, since))
            if asker is not None:
                return await asker.waiting_result(judged.call.name, pending, answered=params.request_state is not None)
            title = pending.request.title if pending.request else name
            return error(
                f"'{judged.call.name}' was not run yet: a person is asked about it ({title}). Call it again later."
            )
        elsewhere = self._elsewhere.calls() if self._elsewhere else ()
        await self._parts.doubts.made_again(judged, self._session, elsewhere)
        client = current_client.get()
        if isinstance(client, CallingClient) and client.page is not None and client.context is not None:
            judged.confirm()  # it was not made at its server, so nothing is in doubt
            return self._pages.answer(client.page, client.context)
        if tool is None and result.is_error and error_code(result) in FOR_CLIENTS:
            judged.confirm()
            raise self._noted(as_error(as_mcp(result, protocol_version)))
        if judged.tool is not None and judged.tool.source in MCP_SOURCES:
            result = await self._lead_back(judged.tool.owner, result)
        if tool is None:
            result = await self.results.shorten(name, result, listing.recall)
        answer = as_mcp(result, protocol_version)
        self._expect_arrival(answer, judged)
        return answer

    def _expect_arrival(self, answer: Answer, call: Arriving) -> None:
        self._unanswered[id(answer)] = call
        weakref.finalize(answer, self._unanswered.pop, id(answer), None)

    def call_of(self, answer: Answer) -> Arriving | None:
        """The call whose result a request takes to the client: it is over once it is confirmed. None where there is none."""
        return self._unanswered.pop(id(answer), None)

    @property
    def _open_run(self) -> Run:
        if self._run is None:
            raise HookSDKError("the session has ended; connect again")
        return self._run

    # What servers offer beside their tools

    async def offers(self, *, wait: bool = True) -> ClientOffers:
        """The prompts and resources that the client may have, under the names that it is told. With `wait` for first listings, as
        for tools."""
        await self._resolved(wait=wait and self._expose != "bridge")
        async with self._lock:
            given = self._parts.sources.offers()
            if self._offers is not None and self._offers[0] == given:
                return self._offers[1]
            tools = [tool for features in self._parts.sources.features for tool in features.tools()]
            granted = await self._open_run.grant(tools)
            before, offers = self._offers, ClientOffers(given, granted.__contains__, self._links)
            self._offers = given, offers
        if before is not None and before[1].prompts != offers.prompts:
            await self._tell_change(PromptsListChanged())
        if before is not None and (before[1].resources, before[1].templates) != (offers.resources, offers.templates):
            await self._tell_change(ResourcesListChanged())
        return offers

    async def set_level(self, level: types.LoggingLevel) -> None:
        """How much the client wants to hear of what servers log."""
        self.level = level
        await self._parts.level_changed()

    async def get_prompt(
        self, params: types.GetPromptRequestParams, context: Request, client: CallingClient
    ) -> types.GetPromptResult | types.InputRequiredResult:
        """Get a prompt of a server, past every policy."""
        with _not_offered({"name": params.name}, types.INVALID_PARAMS):
            feature = (await self.offers()).prompt(params.name, withheld=True)
            tool = self._parts.sources.features_of(feature.server).prompt(feature)
        answer = await self._call_of(tool, dict(params.arguments or {}), params, context, client)
        return answer if isinstance(answer, types.InputRequiredResult) else as_prompt(answer)

    async def read_resource(
        self, params: types.ReadResourceRequestParams, context: Request, client: CallingClient
    ) -> types.ReadResourceResult | types.InputRequiredResult:
        """Read a resource of a server, past every policy, or a long result."""
        if params.uri.startswith(PREFIX_OF_RESULTS):
            return await self.results.read(params.uri)
        feature, tool = await self._resource(params.uri, context.protocol_version)
        answer = await self._call_of(tool, {"uri": feature.own}, params, context, client)
        return answer if isinstance(answer, types.InputRequiredResult) else as_contents(answer, params.uri)

    async def _resource(self, uri: str, protocol_version: str) -> tuple[Feature, Tool]:
        code = types.INVALID_PARAMS if protocol_version in MODERN_PROTOCOL_VERSIONS else RESOURCE_NOT_FOUND
        with _not_offered({"uri": uri}, code):
            feature = (await self.offers()).resource(uri)
            return feature, self._parts.sources.features_of(feature.server).resource(feature)

    async def _call_of(
        self, tool: Tool, arguments: dict[str, Any],
        params: types.GetPromptRequestParams | types.ReadResourceRequestParams, context: Request, client: CallingClient,
    ) -> Answer:  # fmt: skip
        """The result of a call that stands for another request. Raises `MCPError` where it has none."""
        call = types.CallToolRequestParams(
            name=tool.name,
            arguments=arguments,
            request_state=params.request_state,
            input_responses=params.input_responses,
        )
        answer = await self.call(call, context, client, tool)
        hand_over(self.call_of(answer), context)
        if isinstance(answer, types.CallToolResult) and answer.is_error:
            raise self._noted(as_error(answer))
        return answer

    def _noted(self, refusal: MCPError) -> MCPError:
        """The error, whose web pages the client is told about once they are done."""
        self._page_ids |= pages_in(refusal)
        return refusal

    async def _lead_back(self, server: str, result: ToolResult) -> ToolResult:
        """The result, whose links and resources the client can read."""
        if result.plain or not self._parts.sources.features:
            return result
        try:
            blocks = (await self.offers()).lead_back(server, before := result.blocks)
        except HookSDKError as problem:  # it has run, and its result counts
            logger.warning("links of a result may lead nowhere: %s", problem)
            return result
        if blocks == before:
            return result
        return ToolResult(
            result.text, is_error=result.is_error, blocks=blocks, structured=result.structured, meta=result.meta
        )

    async def subscribe(self, uri: str, protocol_version: str) -> None:
        """Tell the client from now on when a resource changes."""
        if uri.startswith(PREFIX_OF_RESULTS):  # it never changes
            return
        feature = await self.watchable(uri, protocol_version)
        if feature not in self._subscribed:
            await self._parts.watch(feature, on=True)
            self._subscribed[feature] = uri

    async def watchable(self, uri: str, protocol_version: str) -> Feature:
        """Which resource it is whose changes the client wants to hear of. Raises `MCPError` for one that it may not read."""
        feature, tool = await self._resource(uri, protocol_version)
        if (reason := (await self._open_run.grant([tool])).withheld.get(tool.name)) is not None:
            raise MCPError(types.INVALID_REQUEST, f"'{uri}' is withheld: {reason}")
        return feature

    async def unsubscribe(self, uri: str, protocol_version: str) -> None:
        """Tell it no more."""
        feature = next((feature for feature, its_uri in self._subscribed.items() if its_uri == uri), None)
        if feature is None:
            feature, _ = await self._resource(uri, protocol_version)
        if self._subscribed.pop(feature, None) is not None:
            await self._parts.watch(feature, on=False)

    async def _unsubscribe_all(self) -> None:
        subscribed, self._subscribed = self._subscribed, {}
        for feature in subscribed:
            with anyio.move_on_after(UNSUBSCRIBE, shield=True), contextlib.suppress(MCPError), self.as_client():
                await self._parts.watch(feature, on=False)

    @contextmanager
    def as_client(self) -> Generator[None]:
        """What is asked of servers is asked for this client, though it has no request."""
        token = current_client.set(self._client())
        try:
            yield
        finally:
            current_client.reset(token)

    async def complete(self, params: types.CompleteRequestParams) -> types.CompleteResult:
        """What the server of a prompt or of a template proposes for an argument."""
        offers = await self.offers()
        with _not_offered(None, types.INVALID_PARAMS):
            if isinstance(params.ref, types.PromptReference):
                feature = offers.prompt(params.ref.name)
                ref: Any = params.ref.model_copy(update={"name": feature.own})
            else:
                feature = offers.template(params.ref.uri)
                ref = params.ref.model_copy(update={"uri": feature.own})
            features = self._parts.sources.features_of(feature.server)
        answer = await features.complete(feature.server, params.model_copy(update={"ref": ref}))
        if isinstance(answer, ToolResult):
            raise as_error(as_mcp(answer, ""))
        values = self._open_run.mask(list(answer.completion.values))
        return types.CompleteResult(completion=answer.completion.model_copy(update={"values": values}))

    async def hear(self, server: str, message: types.ServerNotification) -> None:
        """A server says something that belongs to no call."""
        run, peer = self._run, self._peer
        if run is None or peer is None or not self._may_hear(server):
            return
        if isinstance(message, types.ResourceUpdatedNotification):
            uri = self._subscribed.get(Feature(server, message.params.uri))
            if uri is not None:
                params = types.ResourceUpdatedNotificationParams(uri=uri)
                await peer.send_notification(types.ResourceUpdatedNotification(params=params))
        elif isinstance(message, types.ElicitCompleteNotification):
            if message.params.elicitation_id in self._page_ids:
                await peer.send_notification(message)
        elif isinstance(message, types.LoggingMessageNotification) and is_heard(message.params.level, self.level):
            told = run.mask(message.params.model_dump(by_alias=True, mode="json", exclude_none=True, exclude={"meta"}))
            params = types.LoggingMessageNotificationParams.model_validate(told)
            await peer.send_notification(types.LoggingMessageNotification(params=params))

    def _may_hear(self, server: str) -> bool:
        servers = self.identity.profile.servers
        return servers is None or server in servers

    async def _catch_up(self, listing: ClientListing, name: str, arguments: dict[str, Any], offer: Tool | None) -> None:
        """Learn what happened elsewhere that this call hangs on."""
        if self._elsewhere is None:
            await self._parts.doubts.look()
            return
        assert self._session is not None
        await self._session.refresh()
        tool, given = listing.target(name, arguments) if offer is None else (offer, arguments)
        deployment = self._parts.place.deployment
        if deployment is None or (tool is not None and tool.annotations.read_only is True):
            return
        await self._elsewhere.settle(self._session)
        until = anyio.current_time() + deployment.lease + MARGIN
        while (
            True
        ):  # by one look at who has which session: one that is dead is found in doubt, wherever it goes meanwhile
            held = await deployment.list_held(self._parts.place.prefix)
            is_free = tool is None or await self._elsewhere.look(held, tool, given)
            is_settled = await self._parts.doubts.look(held)
            if (is_free and is_settled) or anyio.current_time() > until:
                return
            await anyio.sleep(PAUSE)

    def _give_way(self) -> None:
        """A record could not be written, so the run takes no further call: the client's next request gets another session."""
        if not self.closing:
            self.supersede()
            self._parts.start_soon(self._leave_when_at_rest)

    async def _leave_when_at_rest(self) -> None:
        while self._requests:
            self._at_rest = anyio.Event()
            await self._at_rest.wait()
        await self.leave()

    def _take_waiting(self, same: str) -> Waiting | None:
        """A call that waits and is made again; None where none does, or somebody makes it at this moment."""
        if not (waiting := self._waiting.get(same)):
            return None
        one = waiting.pop()
        if not waiting:
            del self._waiting[same]
        return one

    async def _give_up_old(self) -> None:
        """End calls that were not made again before their approval expired, or for which too many others wait: a client may
        stay for weeks."""
        ages = sorted(one.since for waiting in self._waiting.values() for one in waiting)
        oldest = monotonic() - self._parts.config.approvals.keep
        if len(ages) > MOST_WAITING:
            oldest = max(oldest, ages[-MOST_WAITING - 1])
        if not ages or ages[0] > oldest:
            return
        all_waiting = [(same, one) for same, waiting in self._waiting.items() for one in waiting]
        self._waiting = {}
        for same, one in all_waiting:
            if one.since > oldest:
                self._waiting.setdefault(same, []).append(one)
        for _same, one in all_waiting:
            if one.since <= oldest:
                await one.judged.refuse("it was not made again in time", unanswered="timeout")

    async def refresh(self) -> None:
        """Look whether what there is has changed, and tell the client."""
        if self.closing:
            return
        current_client.set(self._client())  # in a task of its own
        if self._listing is not None:
            await self._resolved(wait=False)
        if self._offers is not None:
            await self.offers(wait=False)

    async def _resolved(self, *, wait: bool = True) -> ClientListing:
        if wait:
            await self._parts.sources.listed(self._client_name)
        run = self._run
        if run is None:
            raise HookSDKError("the session has ended; connect again")
        tools, missing = self._parts.sources.look()
        given = tools, missing, self._pages.servers()
        if self._listing is not None and given == self._given:
            return self._listing
        async with self._lock:
            if self._listing is not None and given == self._given:
                return self._listing
            pages = self._pages.tools(self._context)
            missing = self._pages.missing(missing, pages)
            offered = await run.resolve_tools([*tools, *self.results.tools, *pages], missing=missing)
            before, listing = self._listing, ClientListing(run.tools, offered, self._expose, self._trust, tools)
            self._given, self._listing = given, listing
            if before is None and self._expose in ("bridge", "hybrid") and not any(tool.bridge for tool in offered):
                logger.warning('expose = "%s", and no plugin offers a bridge: every tool is listed', self._expose)
        if before is not None and before.tools != listing.tools:
            await self._tell_change(ToolsListChanged())
        return listing

    async def _tell_change(self, change: ServerEvent) -> None:
        await self._parts.publish(change)
        if self._peer is not None:
            await self._peer.send_notification(CHANGES[type(change)]())


@contextmanager
def _not_offered(data: Any, code: int) -> Generator[None]:
    try:
        yield
    except LookupError as problem:
        raise MCPError(code, str(problem), data) from None


async def call_in_session(
    session_of: Callable[[Request], Awaitable[GatewaySession]], params: types.CallToolRequestParams, context: Request
) -> Answer:
    """Make a call in its client's session, and once more where that turned out to be lost: to another gateway of the deployment,
    which took this one for dead. Nothing has run then, and what the client has answered is written down."""

    async def once(params: types.CallToolRequestParams) -> Answer:
        session = await session_of(context)
        with session.at_work(context) as client:
            check_headers(context, params, await session.listed())
            answer = await session.call(params, context, client)
        hand_over(session.call_of(answer), context)
        return answer

    try:
        return await once(params)
    except SessionBusy:
        return await once(params.model_copy(update={"request_state": None, "input_responses": None}))


def _metadata(identity: Identity, context: Request, expose: str) -> dict[str, Any]:
    """What the trace and plugins may know besides; what the client says of itself is a hint, no identity."""
    about: dict[str, Any] = {"transport": identity.transport, "protocol": context.protocol_version, "expose": expose}
    return {"gateway": {**about, "client": _client_of(context) or None, "profile": identity.profile_name}}


def _client_of(context: Request) -> dict[str, str]:
    """What the client says that it is."""
    said = context.session.client_params
    return {"name": said.client_info.name, "version": said.client_info.version} if said else {}
