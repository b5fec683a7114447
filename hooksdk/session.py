"""A session: one conversation, with its own plugin instances, transcript and trims."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from functools import cache
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, final

import anyio

from hooksdk import hooks
from hooksdk._firing.dispatcher import Dispatcher
from hooksdk._masking.mask import SecretMask
from hooksdk._plugins.plugin import instantiate
from hooksdk._run.families import OwnFamilyState, SessionFamily
from hooksdk._run.masked import MaskedResults
from hooksdk._run.options import json_value, make_info
from hooksdk._run.plugin_states import PluginStates, PluginStorage, SharedStates
from hooksdk._run.reading import Reading
from hooksdk._run.sessions import Listener, Listeners, SessionParts
from hooksdk._run.state import OpenRun, RunParts
from hooksdk._run.unmatched import UnmatchedNames
from hooksdk._tasks.background import Keeper, leave_all, logger
from hooksdk._tasks.limits import describe, run_shielded
from hooksdk._transcript.storage import as_store_errors
from hooksdk.approvals import Approver, digest_of
from hooksdk.calls import CallInDoubt, ToolResult, TrimReceipt
from hooksdk.errors import (
    AsyncOnly,
    ConfigError,
    FenceClosed,
    PluginRefused,
    SessionClosed,
    check_function,
    check_list,
    check_number,
    check_text,
)
from hooksdk.formats import GivenMessage, Message, MessageFormat, get_format
from hooksdk.formats.intake import messages_in
from hooksdk.formats.usage import Request, requests_in
from hooksdk.hooks import RunInfo, SessionEndReason
from hooksdk.patterns import ToolPattern
from hooksdk.records import SessionEnded, SessionStarted, Settled
from hooksdk.run import Run
from hooksdk.tools import Deferral, Expose, Tool
from hooksdk.transcript import DrainReport, Results, SessionLog, Transcript

if TYPE_CHECKING:
    from hooksdk.costs import PriceList


__all__ = ["Listener", "Session"]

CLOSE_TIMEOUT = 10.0
"""Seconds that closing a session may take in all."""
SAVE_TIMEOUT = 5.0
"""Seconds that observers have before a session is saved."""


@final
class Session(AsyncOnly):
    """One conversation. Use it as `async with host.session("id") as session`; it takes one run at a time.

    ```python
    import anyio

    from hooksdk import Host

    async def main() -> None:
        async with Host() as host, host.session("ann") as session:
            async with session.run() as run:
                await run.record({"role": "user", "content": "Hello"})
            assert session.messages == [{"role": "user", "content": "Hello"}]

    anyio.run(main)
    ```

    Attributes:
        resumed: True when the session existed before.
    """

    def __init__(
        self,
        session_id: str,
        parts: SessionParts,
        *,
        allowed: Sequence[Sequence[ToolPattern]] = (),
        parent: str = "",
        parent_runs: OpenRun | None = None,
        secrets: SecretMask | None = None,
        listeners: Listeners | None = None,
        shared_as: str | None = None,
    ) -> None:
        self.id = session_id
        # The session that this one is a part of, where several workers have it open at once: the id that plugins are
        # told.
        self._shared_as = shared_as
        self.resumed = False
        self._parts = parts
        self._allowed = allowed
        self._parent = parent
        self._parent_runs = parent_runs
        # The run that was open when this session was made as a sub-agent's.
        self._parent_run = parent_runs.run if parent_runs else None
        self._secrets = SecretMask() if secrets is None else secrets
        self._listeners = Listeners() if listeners is None else listeners
        self._children = 0
        self._log: SessionLog | None = None
        self._transcript: Transcript | None = None
        self._dispatcher: Dispatcher | None = None
        self._keepers: list[Keeper[Any]] = []
        self._instances: dict[str, object] = {}
        self._states: PluginStates | None = None
        self._family: SessionFamily | None = None
        self._reading: Reading | None = None
        # True once it has opened, until it begins to close.
        self._is_open = False
        self._open_run = OpenRun(session_id, parts.on_idle)
        self._unmatched = UnmatchedNames(subagent=bool(parent))
        self._info = RunInfo(session_id=shared_as or session_id)

    # What whoever holds it may ask

    def __repr__(self) -> str:
        return f"<Session '{self.id}': {'open' if self._is_open else 'not open'}>"

    @property
    def messages(self) -> list[Message]:
        """The stored messages, whole, in the session's format; fresh copies."""
        return self._need_transcript().messages

    @property
    def view(self) -> list[Message]:
        """The messages as the model sees them: compacted, with the applied trims, and with ids that its provider
        takes."""
        return self._need_transcript().view

    @property
    def format(self) -> str | None:
        """The name of the message format, once a run has settled it."""
        message_format = self._need_transcript().format
        return message_format.name if message_format else None

    @property
    def results(self) -> Results:
        """The session's tool results, to list, read and trim: at once, or at the end of the run that is open."""
        return MaskedResults(self._need_transcript(), "host", mask=self._secrets, settle=self._settle)

    @property
    def trimmed(self) -> Mapping[tuple[str, int], str]:
        """By call id, and which of the results with this id in the view: the text in the place of each trimmed
        result."""
        return self._need_transcript().trimmed

    @property
    def requests(self) -> list[Request]:
        """What each of its requests used, where the provider counted: `PriceList.spent` says what that cost so far."""
        return self._need_transcript().ask(lambda ledger: requests_in(ledger.used))

    @property
    def in_doubt(self) -> Sequence[CallInDoubt]:
        """The calls that began, and of which nobody knows how they ended: they may have taken effect."""
        running = self._open_run.run.ledger.at_work if self._open_run.run else ()
        return [one for one in self._need_transcript().without_end if one.effect_id not in running]

    async def settle(self, reference: str, result: ToolResult | str) -> CallInDoubt:
        """Say what came of a call that is in doubt, by its call id or its effect id; durable when this returns. The
        result becomes the call's own where the conversation has not gone on without it. An equal call runs without a
        question then. Answers the call; raises `WrongArgument` where no call, or more than one, has this id."""
        running = self._open_run.run.ledger.at_work if self._open_run.run else ()
        whole = self._secrets.result(ToolResult(result) if isinstance(result, str) else result)
        call = await self._need_transcript().settle(reference, whole, running)
        if self._dispatcher is not None:
            await self._dispatcher.trace(
                self._info, Settled(call_id=call.call_id, name=call.name, effect_id=call.effect_id)
            )
        return call

    async def trim(self, reference: str, replacement: str | None = None, *, reason: str = "") -> TrimReceipt:
        """Shorten a tool result for the model, by its handle or call id, as `results.trim` does. Raises
        `UnknownResult`."""
        return await self.results.trim(reference, replacement, reason=reason)

    async def restore(self, reference: str) -> TrimReceipt:
        """Let the model see a trimmed result whole again, as `results.restore` does. Raises `UnknownResult`."""
        return await self.results.restore(reference)

    async def _settle(self, receipt: TrimReceipt) -> TrimReceipt:
        if receipt.status != "queued" or self._open_run.claimed:
            return receipt
        report = await self.drain()
        mine = next((trim.status for trim in reversed(report.trims) if trim.handle == receipt.handle), "")
        return replace(receipt, status="applied") if mine == "applied" else receipt

    async def drain(self) -> DrainReport:
        """Apply every queued trim and restore now. Raises `FenceClosed` while a run is open: it drains them at its
        end."""
        if self._open_run.claimed:
            raise FenceClosed(self.id)
        return await self._need_transcript().drain()

    async def load(self, messages: Sequence[GivenMessage], format: str | MessageFormat | None = None) -> None:  # noqa: A002
        """Record a history from elsewhere into this new session; durable when this returns, and its results can be
        trimmed.

        `format` is guessed where it is None. A call without a result gets an error, except the last reply's. Raises
        `ConfigError`, and records nothing, for a message that a provider would refuse, with its place, and where the
        session has messages already; `FenceClosed` while a run is open.
        """
        transcript = self._need_transcript()
        if self._open_run.claimed:
            raise FenceClosed(self.id)
        if stored := transcript.count:
            problem = f"session '{self.id}' has {stored} messages already"
            raise ConfigError("messages", (f"{problem}. Load the history into a session with a new id",))
        from hooksdk.trimming import guess_format, repair

        message_format = get_format(guess_format(messages) if format is None else format)
        given = messages_in(messages, message_format, "session.load(...)").messages
        whole = [self._secrets.value(message) for message in repair(given, message_format, only_pairs=True)]
        await transcript.use_format(message_format)
        await transcript.append(whole)
        await transcript.note_loaded()

    def on_event(self, listener: Listener) -> Callable[[], None]:
        """Let a function have every trace event from now on, its sub-agents' too, with what it is about
        (`event.content`). Plain or async, within 5 seconds each; the run does not wait for it. Answers the function
        that ends this."""
        return self._listeners.add(listener)

    @property
    def open(self) -> bool:
        """True once it has opened, until it begins to close."""
        return self._is_open

    @property
    def running(self) -> bool:
        """True while it is at work: from before a run's `agent_start` handlers until the run's end is stored, and while
        the session itself opens or closes."""
        return self._open_run.claimed or (self._log is not None and not self._is_open)

    def plugin(self, plugin_id: str) -> Any:
        """This session's instance of a plugin class, for whoever wants to look at it. Raises `KeyError`."""
        plugin = self._parts.registry.get(plugin_id)
        return self._instances[plugin.id if plugin else plugin_id]

    # It opens

    async def __aenter__(self) -> Self:
        if not self._parts.background.alive:
            raise SessionClosed("the host")
        with as_store_errors(f"session '{self.id}'"):
            self._log = await self._parts.store.open_session(self.id, wait=self._parts.wait)
        try:
            if self._parts.renew is not None:
                self._parts = await self._parts.renew(self._parts)
            self._parts.on_open(self)
            self._transcript = await Transcript.open(self._log, self.id)
            self.resumed = self._transcript.existed
            if self._transcript.queued:
                # Queued by a run that crashed before its end.
                report = await self._transcript.drain()
                logger.info("session '%s': %d queued trims of an earlier run are drained", self.id, len(report.trims))
            self._reading = Reading(self._transcript)
            await self._open_plugins()
            dispatcher = self._dispatcher = Dispatcher(
                self._parts.registry.plans(self._instances), self._parts.background, clean=self._secrets.record
            )
            self._listeners.attach(dispatcher)
            await dispatcher.trace(self._info, SessionStarted(resumed=self.resumed, parent=self._parent or None))
            await dispatcher.notify("session_start", hooks.SessionStart(info=self._info, resumed=self.resumed))
        except BaseException:
            dispatcher, self._dispatcher = self._dispatcher, None
            with anyio.CancelScope(shield=True):
                await self._release()
            if dispatcher is not None:
                dispatcher.stop()
            raise
        self._is_open = True
        self._parts.on_idle()
        return self

    async def _open_plugins(self) -> None:
        shared = None if self._shared_as is None else SharedStates(self._parts.store, self._shared_as)
        self._states = states = PluginStates(self._need_transcript(), self._secrets, shared)
        loaded = self._parts.registry.loaded
        self._family = family = SessionFamily(
            self._parts.store,
            self._need_transcript(),
            lambda: self._open_run.info,
            self._parts.families,
            self._secrets,
            [plugin.id for plugin in loaded if "family" in plugin.asks_for],
        )
        for plugin in (one for one in loaded if one.is_class):
            available: dict[str, Any] = {"config": plugin.config, "shared": self._parts.shared.get(plugin.id)}
            if "host" in plugin.asks_for:
                available["host"] = self._parts.plugin_host
            if "state" in plugin.asks_for:
                available["state"] = await states.open(plugin.id)
            if "family" in plugin.asks_for:
                available["family"] = OwnFamilyState(family, plugin.id)
            if "storage" in plugin.asks_for:
                available["storage"] = PluginStorage(self._parts.store, plugin.id, self._secrets)
            instance = instantiate(plugin, available)
            lifespan: Callable[[], AbstractAsyncContextManager[Any]] | None = getattr(instance, "lifespan", None)
            if lifespan is not None:
                try:
                    keeper = Keeper(lifespan(), f"the lifespan of plugin '{plugin.id}'")
                    await keeper.enter(self._parts.background)
                except Exception as error:
                    raise PluginRefused(plugin.id, f"its lifespan raised {describe(error)}") from error
                self._keepers.append(keeper)
            self._instances[plugin.id] = instance

    # It runs

    def run(
        self,
        input: object = None,  # noqa: A002 - the field's own word
        *,
        agent_id: str = "main",
        workspace_dir: str | None = None,
        requester: Mapping[str, Any] | None = None,
        trigger: str | None = None,
        metadata: Mapping[str, Any] | None = None,
        family: str | None = None,
        provider: str | None = None,
        model: str | None = None,
        context_window: int | None = None,
        format: str | MessageFormat = "openai-chat",  # noqa: A002 - the field's own word
        approver: Approver | None = None,
        transcript: bool = True,
        withhold: Callable[[Tool], str | None] | None = None,
        expose: Expose | None = None,
        deferral: Deferral | None = None,
        continues: int = 3,
        in_doubt: Callable[[], Sequence[CallInDoubt]] | None = None,
    ) -> Run:
        """A run of this session, to use as `async with session.run(...) as run`.

        `input` is what `agent_start` handlers judge; record it yourself. `context_window` is in tokens. `requester` is
        a mapping with id, is_owner and roles; `trigger` is user (unless you say so), schedule, subagent or other. In a
        sub-agent's session `requester` and `workspace_dir` are the parent's unless others are given, and `trigger` is
        subagent. `family` is the `run.info.family` of a run in another process that this one works for: what plugins
        keep for that family is this run's, too, where both have one store. `approver` answers in this run, in the place
        of the host's. `transcript=False` is for a host without a model: calls go past every policy, and neither
        messages nor results are kept, however many there are. `withhold` is asked about each tool, plugins' own among
        them: one that it answers a reason for is not granted to this run. `expose` is how a client that lists the tools
        is shown them, for the plugins that search (`AssembleTools.expose`). `deferral` says whether your requests have
        `run.definitions` as their tools, and what their provider then takes: `search` or `additions`. `continues` is
        how often plugins may send the model on, instead of letting the run finish (`run.finish`). `in_doubt` answers
        calls of other sessions that are in doubt, for a host whose sessions are new after a crash: equal ones are asked
        about. Entering raises `RunAlreadyOpen`, `RunBlocked` or `PolicyFailed`.
        """
        own_transcript = self._need_transcript()
        dispatcher, states, kept, reading = self._dispatcher, self._states, self._family, self._reading
        assert self._log is not None
        assert dispatcher is not None
        assert states is not None
        assert kept is not None
        assert reading is not None
        parent_run = self._parent_run or (self._parent_runs.newest if self._parent_runs else None)
        info = make_info(
            self._info.session_id,
            parent=self._parent,
            above=parent_run.info if parent_run else None,
            family=family or self._shared_as,
            left_open=kept.left_open,
            agent_id=agent_id,
            workspace_dir=workspace_dir,
            requester=requester,
            trigger=trigger,
            metadata=metadata,
            provider=provider,
            model=model,
            transcript=transcript,
            # By its id in the store: parts of one session (`shared_as`) have a holder each.
            fences={f"session-{digest_of(self.id)[:32]}": self._log.token},
        )
        check_number("session.run(context_window=...)", context_window, "context_window=128_000", optional=True)
        check_function("session.run(approver=...)", approver, "async def (request) -> Approval")
        registry = self._parts.registry
        parts = RunParts(
            dispatcher=dispatcher,
            transcript=own_transcript,
            store=self._parts.store,
            format=get_format(format),
            tools=self._tools(),
            approver=self._parts.approver if approver is None else approver,
            states=states,
            family=kept,
            reading=reading,
            secrets=self._secrets,
            open_run=self._open_run,
            prices=cache(self._prices),
            allowed=self._allowed,
            parent_run=parent_run,
            drain_early=self._parts.config.drain == "next_model_call",
            record_first=self._parts.config.record_first,
            contracts=registry.contracts,
            expose=expose,
            deferral=deferral,
            continues=continues,
            unmatched=self._unmatched,
            missing_grants=registry.missing_conversation(),
            transcript_kept=transcript,
            withhold=withhold,
            in_doubt=in_doubt,
            for_others=family is not None and parent_run is None,
        )
        return Run(parts, info, input=json_value("session.run(input)", input), context_window=context_window)

    def _prices(self) -> PriceList:
        from hooksdk.costs import PriceList  # most runs ask for no price

        return PriceList(self._parts.config.prices)

    def child(self, session_id: str | None = None, *, tools: Iterable[str] | None = None) -> Session:
        """A sub-agent's session, with a transcript and plugin instances of its own. `tools` are patterns (`read_*`,
        `mcp:github:*`): what matches none of them is withheld there.

        It never gets more than its parent: a tool that the parent's run does not have, or has lost since, is withheld.
        Its runs inherit the requester, the workspace, and the chains of triggers and agents of the run that is open
        now; where none is, of the one that is open, or was last, when they begin."""
        check_text("session.child(...)", session_id, "It is the new session's id")
        patterns = (
            (tools,)
            if isinstance(tools, str)
            else None
            if tools is None
            else check_list("session.child(tools=...)", tools, "tool patterns")
        )
        self._children += 1
        layer = () if patterns is None else (tuple(ToolPattern(pattern) for pattern in patterns),)
        child_id = session_id or f"{self.id}/{self._children}-{uuid.uuid4().hex[:8]}"
        return Session(
            child_id,
            self._parts,
            allowed=(*self._allowed, *layer),
            parent=self.id,
            parent_runs=self._open_run,
            secrets=self._secrets,
            listeners=self._listeners,
        )

    def _tools(self) -> list[Tool]:
        registry = self._parts.registry
        return [
            tool for plugin in registry.loaded for tool in registry.tools_of(plugin, self._instances.get(plugin.id))
        ]

    async def save(self) -> None:
        """Store now what the plugins keep for this session; a run stores it with each message, with each result and at
        its end. Observers of what went before have five seconds to see it first. Raises `SessionClosed`, and what the
        store raises."""
        dispatcher, states = self._dispatcher, self._states
        if dispatcher is None:
            raise SessionClosed(f"session '{self.id}'")
        assert states is not None
        await dispatcher.flush(SAVE_TIMEOUT)
        await run_shielded(states.save)

    async def write_ends(self) -> None:
        """Write now which calls have ended, and which were cut off: without it that is written with what comes next,
        and whoever reads the session from another process takes them for calls that run. Raises `SessionClosed`, and
        what the store raises."""
        transcript = self._need_transcript()
        await transcript.write_ended()
        for call in self.in_doubt:
            if call.effect_id not in transcript.doubted:
                await transcript.doubt(call.effect_id)

    async def refresh(self) -> None:
        """Take over what plugins have kept since for a session that other workers have open, too
        (`host.hold(shared_as=...)`): entries of a `PluginState` that were changed here and not stored yet stay. Raises
        `SessionClosed`, and what the store raises."""
        self._need_transcript()
        assert self._states is not None
        await self._states.refresh()

    # It closes

    async def close(self, reason: SessionEndReason = "closed") -> None:
        """Close the session: `session_end` handlers run, within a time limit. Closing twice is fine."""
        if self._dispatcher is None:
            return
        dispatcher, self._dispatcher = self._dispatcher, None
        self._is_open = False
        await run_shielded(self._close, dispatcher, reason)

    async def _close(self, dispatcher: Dispatcher, reason: SessionEndReason) -> None:
        try:
            with anyio.move_on_after(CLOSE_TIMEOUT) as scope:
                await dispatcher.flush(CLOSE_TIMEOUT / 2)
                await dispatcher.notify("session_end", hooks.SessionEnd(info=self._info, reason=reason))
            if scope.cancel_called:
                logger.warning("session '%s' was closed after %g s without waiting further", self.id, CLOSE_TIMEOUT)
            dispatcher.give_up()
            try:
                if self._states is not None:
                    await self._states.save()
                if self._family is not None:
                    await self._family.close()
            finally:
                await dispatcher.trace(self._info, SessionEnded(reason=reason, dropped=dispatcher.dropped))
        finally:
            try:
                # Before the lifespans end: a trace handler may need what its plugin holds open.
                await dispatcher.flush_trace(CLOSE_TIMEOUT)
            finally:
                dispatcher.stop()
                await self._release()

    async def _release(self) -> None:
        await leave_all(self._keepers, CLOSE_TIMEOUT)
        transcript, self._transcript = self._transcript, None
        log, self._log = self._log, None
        try:
            if (opened := log if transcript is None else transcript) is not None:
                await opened.close()
        finally:
            self._parts.on_close(self)
            if table := self._parts.config.sessions:
                from hooksdk.stores.retention import tidy

                self._parts.background.spawn(tidy, self._parts.store, table, name="hooksdk: old sessions")

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()

    def _need_transcript(self) -> Transcript:
        if self._transcript is None:
            raise SessionClosed(f"session '{self.id}'")
        return self._transcript
