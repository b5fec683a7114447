"""One client's session: opened with the client's first request, and closed when the client leaves or is idle for too
long."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Generator, Mapping
from contextlib import AbstractAsyncContextManager, contextmanager
from typing import Any, final

import anyio
import mcp_types as types
from anyio.abc import TaskStatus

from hooksdk.errors import HookSDKError, SessionBusy
from hooksdk.gateway._client import CHANGES, CallingClient, Identity, Request, SessionClient, SharedParts
from hooksdk.gateway._left_sessions import OtherSessionsCalls, remove
from hooksdk.gateway._listing import SessionTools
from hooksdk.gateway._long_results import is_recall
from hooksdk.gateway._open_calls import Answer
from hooksdk.gateway._results import without_answers
from hooksdk.gateway._session_calls import SessionCalls
from hooksdk.gateway._session_ids import PRECISION, release
from hooksdk.gateway._session_offers import SessionOffers
from hooksdk.gateway._settings import narrowing
from hooksdk.run import Run
from hooksdk.session import Session
from hooksdk.tasks import describe

logger = logging.getLogger("hooksdk")

# Seconds after a request in which the ends of its calls may not be written yet.
RECENT = 2.0
# Seconds between two writes of the ends of calls, by which other gateways learn of them.
ENDS_WRITTEN = 0.25


@final
class GatewaySession:
    """One client's session. `keep` runs in a task of its own, since a run is entered and left by the same task.

    Attributes:
        client: The client, and the run of its calls.
        tools: The tools as the client was told of them last.
        offers: All that the client is told of: tools, prompts, resources, and what servers say of them.
        calls: The client's calls, once the session is open.
        closing: True once the session takes no more requests.
        ended: Set once its run and its stored session are closed.
        _idle: Seconds without a request after which it ends; None: it lasts until it is told to end.
        _leaving: True once it was told to end.
        _requests: The number of requests that are being served.
        _last_request: The time at which the last request ended.
        _news: Set, and replaced, when a request begins or ends, and when the session is to end.

    """

    calls: SessionCalls

    def __init__(
        self,
        shared: SharedParts,
        identity: Identity,
        request: Request,
        *,
        idle: float | None,
        shared_id: str | None = None,
    ) -> None:
        """The session ends after `idle` seconds without a request; None: when it is told to. `shared_id` is the id of
        the session that several gateways have: this is the part of this gateway."""
        self.client = SessionClient(shared, identity, request, shared_id)
        self.tools = SessionTools(self.client)
        self.offers = SessionOffers(self.client, self.tools)
        self.closing = False
        self.ended = anyio.Event()
        self._idle = idle
        self._leaving = False
        self._requests = 0
        self._last_request = 0.0
        self._news = anyio.Event()

    @property
    def id(self) -> str:
        """The session's id, as plugins and people are told it."""
        return self.client.id

    @property
    def identity(self) -> Identity:
        """The client's name and profile."""
        return self.client.identity

    @property
    def stats(self) -> Mapping[str, Any]:
        """Counters of the session so far."""
        return self.client.run.stats if self.client.is_open else {}

    async def keep(self, *, task_status: TaskStatus[None]) -> None:
        """Open the session, and close it when the client leaves or is idle. Raises the error of an opening that
        failed."""
        client, shared = self.client, self.client.shared
        is_open = False
        try:
            session = await shared.host.hold(
                client.stored_id, idle=self._idle, shared_as=client.id if client.is_shared else None
            )
            session.on_event(shared.counts.metrics.take)
            try:
                self.calls = self._calls_of(session)
                async with self._run_of(session) as run:
                    client.open(run)
                    is_open = True
                    task_status.started()
                    await self._wait_for_end(session)
                    self.closing = True
            finally:
                self.closing = True
                client.close()
                await self.offers.unsubscribe_all()
                await self._close(session)
        except Exception:
            if not is_open:
                raise
            logger.exception("session '%s' of the gateway ended with an error", self.id)
        finally:
            self.closing = True
            release(client.stored_id)
            shared.sources.release(self.id)
            self.ended.set()

    def _calls_of(self, session: Session) -> SessionCalls:
        client, shared = self.client, self.client.shared
        deployment, identity = shared.ids.deployment, client.identity
        prefix = deployment.prefix_of(identity.key, identity.requester) if deployment is not None else ""
        others = OtherSessionsCalls(shared.left_calls, session, client.stored_id, shared.ids, prefix)
        return SessionCalls(others, client, self.tools, self.offers, self._busy, self._give_up)

    def _run_of(self, session: Session) -> AbstractAsyncContextManager[Run]:
        client, config, identity = self.client, self.client.shared.config, self.client.identity
        about = {
            "transport": identity.transport,
            "protocol": client.request.protocol_version,
            "expose": self.tools.expose,
            "client": client.described or None,
            "profile": identity.profile_name,
        }
        return session.run(
            requester=identity.requester,
            trigger="user",
            metadata={"gateway": about},
            context_window=config.context_window,
            transcript=False,
            withhold=narrowing(identity.profile_name, identity.profile, own=is_recall),
            expose=self.tools.expose,
            approver=client.shared.counts.counted(client.approver),
            in_doubt=lambda: self.calls.other_sessions.in_doubt,
        )

    async def _close(self, session: Session) -> None:
        shared, in_doubt = self.client.shared, session.in_doubt
        await shared.left_calls.add(self.client.stored_id, in_doubt)
        await session.close("closed" if self._leaving else "idle")
        if not in_doubt and not self.calls.waiting:
            await remove(shared.host.store, self.client.stored_id)

    async def _wait_for_end(self, session: Session) -> None:
        deployment = self.client.shared.ids.deployment
        touched = written = 0.0
        self._last_request = anyio.current_time()
        while not self._leaving:
            news, now, rest = self._news, anyio.current_time(), None
            if self._idle is not None and not self._requests:
                rest = self._last_request + self._idle - now
                if rest <= 0:
                    return
            if deployment is not None and (self._requests or now - self._last_request <= RECENT):
                try:
                    if self.client.is_shared and self._requests and now - touched > (self._idle or 0) / PRECISION:
                        touched = now
                        await deployment.touch(self.id)
                    if now - written >= ENDS_WRITTEN:
                        written = now
                        await session.write_ends()
                except HookSDKError as problem:
                    logger.warning("other gateways cannot be told of session '%s': %s", self.id, problem)
                rest = ENDS_WRITTEN if rest is None else min(rest, ENDS_WRITTEN)
            with anyio.move_on_after(rest):
                await news.wait()

    def _tell_news(self) -> None:
        self._news.set()
        self._news = anyio.Event()

    async def leave(self) -> None:
        """End the calls of a client that is gone, its run and its session, and wait for it."""
        self.closing = self._leaving = True
        self._tell_news()
        await self.ended.wait()

    def supersede(self) -> None:
        """Give way to another session: that one may take what this one has asked, unless a call here waits for the
        answer."""
        self.closing = True
        if not self._requests:
            release(self.client.stored_id)

    async def retire(self) -> None:
        """Give way to a session under other rules, tell the client that the tools may be others, and end when all
        requests are answered, by the rules under which they began."""
        self.supersede()
        for change in CHANGES:
            await self.client.notify_change(change())
        await self._leave_when_at_rest()

    def _give_up(self) -> None:
        if not self.closing:
            self.supersede()
            self.client.shared.start_soon(self._leave_when_at_rest)

    async def _leave_when_at_rest(self) -> None:
        while self._requests:
            await self._news.wait()
        await self.leave()

    @contextmanager
    def serving(self, request: Request) -> Generator[CallingClient]:
        """Serve a request: within the block the session does not count as idle."""
        with self.client.serving(request) as client, self._busy():
            yield client

    @contextmanager
    def _busy(self) -> Generator[None]:
        self._requests += 1
        self._tell_news()
        try:
            yield
        finally:
            self._requests -= 1
            self._last_request = anyio.current_time()
            self.client.shared.counts.touch()
            self._tell_news()

    async def set_log_level(self, params: types.SetLevelRequestParams) -> types.EmptyResult:
        """Note how much of what servers log the client wants to hear."""
        self.client.log_level = params.level
        await self.client.shared.log_level_changed()
        return types.EmptyResult()

    async def refresh(self) -> None:
        """Look whether anything that the client was told of has changed, and tell it. A failure is logged."""
        try:
            if not self.closing:
                await self.offers.refresh()
        except Exception as problem:
            logger.warning("the tools of a client could not be settled anew: %s", describe(problem))


# Finds the session that a request belongs to, or opens it.
SessionOf = Callable[[Request], Awaitable[GatewaySession]]


async def call_in_session(session_of: SessionOf, params: types.CallToolRequestParams, request: Request) -> Answer:
    """Make a call in its client's session, and once more where the session turned out to be lost to another gateway
    of the deployment, which took this one for dead: nothing has run then, and what the client has answered is
    stored."""

    async def call_once(params: types.CallToolRequestParams) -> Answer:
        session = await session_of(request)
        with session.serving(request) as client:
            return await session.calls.call(params, request, client)

    try:
        return await call_once(params)
    except SessionBusy:
        return await call_once(without_answers(params))
