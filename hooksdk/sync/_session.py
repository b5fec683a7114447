"""Hosts and sessions, for plain code. Written by `scripts/sync_twins.py`: change the async classes, and run it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any

from hooksdk import agent as agent_side
from hooksdk import session as session_side
from hooksdk.agent import DEFAULT_LIMITS, Limits, OnText, Outcome
from hooksdk.calls import CallInDoubt, ToolResult, TrimReceipt
from hooksdk.config import Config
from hooksdk.costs import Request
from hooksdk.formats import GivenMessage, GivenTools, Message, MessageFormat
from hooksdk.hooks import SessionEndReason
from hooksdk.host import Plugin, T
from hooksdk.session import Listener
from hooksdk.sync._host import OpenedHost
from hooksdk.sync._plain import Approver, PlainModel, as_async, as_model
from hooksdk.sync._portal import Opened
from hooksdk.sync._run import Results, Run, Storage
from hooksdk.tools import Deferral, Expose, Tool
from hooksdk.transcript import DrainReport, Store


class Session(Opened[session_side.Session]):
    """One conversation. Use it as `with host.session("id") as session`; it takes one run at a time.

    ```python
    from hooksdk.sync import Host

    with Host() as host, host.session("ann") as session:
        with session.run() as run:
            run.record({"role": "user", "content": "Hello"})
        assert session.messages == [{"role": "user", "content": "Hello"}]
    ```
    """

    @property
    def id(self) -> str:
        """Its id."""
        return self._read("id")

    @property
    def resumed(self) -> bool:
        """True when the session existed before."""
        return self._read("resumed")

    @property
    def messages(self) -> list[Message]:
        """The stored messages, whole, in the session's format; fresh copies."""
        return self._read("messages")

    @property
    def view(self) -> list[Message]:
        """The messages as the model sees them: compacted, with the applied trims, and with ids that its provider takes."""
        return self._read("view")

    @property
    def format(self) -> str | None:
        """The name of the message format, once a run has settled it."""
        return self._read("format")

    @property
    def results(self) -> Results:
        """The session's tool results, to list, read and trim: at once, or at the end of the run that is open."""
        return Results(self._read("results"), self.portal)

    @property
    def trimmed(self) -> Mapping[tuple[str, int], str]:
        """By call id, and which of the results with this id in the view: the text in the place of each trimmed result."""
        return self._read("trimmed")

    @property
    def requests(self) -> list[Request]:
        """What each of its requests used, where the provider counted: `PriceList.spent` says what that cost so far."""
        return self._read("requests")

    @property
    def in_doubt(self) -> Sequence[CallInDoubt]:
        """The calls that began, and of which nobody knows how they ended: they may have taken effect."""
        return self._read("in_doubt")

    def settle(self, reference: str, result: ToolResult | str) -> CallInDoubt:
        """Say what came of a call that is in doubt, by its call id or its effect id; durable when this returns. The result becomes
        the call's own where the conversation has not gone on without it. An equal call runs without a question then. Answers the
        call; raises `WrongArgument` where no call, or more than one, has this id."""
        return self._call("settle", reference, result)

    def trim(self, reference: str, replacement: str | None = None, *, reason: str = "") -> TrimReceipt:
        """Shorten a tool result for the model, by its handle or call id, as `results.trim` does. Raises `UnknownResult`."""
        return self._call("trim", reference, replacement, reason=reason)

    def restore(self, reference: str) -> TrimReceipt:
        """Let the model see a trimmed result whole again, as `results.restore` does. Raises `UnknownResult`."""
        return self._call("restore", reference)

    def drain(self) -> DrainReport:
        """Apply every queued trim and restore now. Raises `FenceClosed` while a run is open: it drains them at its end."""
        return self._call("drain")

    def load(self, messages: Sequence[GivenMessage], format: str | MessageFormat | None = None) -> None:
        """Record a history from elsewhere into this new session; durable when this returns, and its results can be trimmed.

        `format` is guessed where it is None. A call without a result gets an error, except the last reply's. Raises
        `ConfigError`, and records nothing, for a message that a provider would refuse, with its place, and where the session
        has messages already; `FenceClosed` while a run is open."""
        self._call("load", messages, format)

    def on_event(self, listener: Listener) -> Callable[[], None]:
        """Let a function have every trace event from now on, its sub-agents' too, with what it is about (`event.content`).
        Plain or async, within 5 seconds each; the run does not wait for it. Answers the function that ends this."""
        return self._do("on_event", listener)

    @property
    def open(self) -> bool:
        """True once it has opened, until it begins to close."""
        return self._read("open")

    @property
    def running(self) -> bool:
        """True while it is at work: from before a run's `agent_start` handlers until the run's end is stored, and while
        the session itself opens or closes."""
        return self._read("running")

    def plugin(self, plugin_id: str) -> Any:
        """This session's instance of a plugin class, for whoever wants to look at it. Raises `KeyError`."""
        return self._do("plugin", plugin_id)

    def run(
        self,
        input: object = None,
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
        format: str | MessageFormat = "openai-chat",
        approver: Approver | None = None,
        transcript: bool = True,
        withhold: Callable[[Tool], str | None] | None = None,
        expose: Expose | None = None,
        deferral: Deferral | None = None,
        in_doubt: Callable[[], Sequence[CallInDoubt]] | None = None,
    ) -> Run:
        """A run of this session, to use as `with session.run(...) as run`.

        `input` is what `agent_start` handlers judge; record it yourself. `context_window` is in tokens. `requester` is a
        mapping with id, is_owner and roles; `trigger` is user (unless you say so), schedule, subagent or other. In a
        sub-agent's session `requester` and `workspace_dir` are the parent's unless others are given, and `trigger` is
        subagent. `family` is the `run.info.family` of a run in another process that this one works for: what plugins keep for that
        family is this run's, too, where both have one store. `approver` answers in this run, in the place of the host's. `transcript=False` is for a host without a model: calls
        go past every policy, and neither messages nor results are kept, however many there are. `withhold` is asked about each
        tool, plugins' own among them: one that it answers a reason for is not granted to this run. `expose` is how a client that
        lists the tools is shown them, for the plugins that search (`AssembleTools.expose`). `deferral` says whether your requests
        have `run.definitions` as their tools, and what their provider then takes: `search` or `additions`. `in_doubt` answers calls of
        other sessions that are in doubt, for a host whose sessions are new after a crash: equal ones are asked about. Entering raises `RunAlreadyOpen`,
        `RunBlocked` or `PolicyFailed`."""
        return Run(
            self._do(
                "run",
                input,
                agent_id=agent_id,
                workspace_dir=workspace_dir,
                requester=requester,
                trigger=trigger,
                metadata=metadata,
                family=family,
                provider=provider,
                model=model,
                context_window=context_window,
                format=format,
                approver=None if approver is None else as_async(approver),
                transcript=transcript,
                withhold=withhold,
                expose=expose,
                deferral=deferral,
                in_doubt=in_doubt,
            ),
            self.portal,
        )

    def child(self, session_id: str | None = None, *, tools: Iterable[str] | None = None) -> Session:
        """A sub-agent's session, with a transcript and plugin instances of its own. `tools` are patterns (`read_*`,
        `mcp:github:*`): what matches none of them is withheld there.

        It never gets more than its parent: a tool that the parent's run does not have, or has lost since, is withheld.
        Its runs inherit the requester, the workspace, and the chains of triggers and agents of the run that is open now;
        where none is, of the one that is open, or was last, when they begin."""
        return Session(self._do("child", session_id, tools=tools), self.portal)

    def save(self) -> None:
        """Store now what the plugins keep for this session; a run stores it with each message, with each result and at
        its end. Observers of what went before have five seconds to see it first. Raises `SessionClosed`, and what the
        store raises."""
        self._call("save")

    def write_ends(self) -> None:
        """Write now which calls have ended, and which were cut off: without it that is written with what comes next, and whoever
        reads the session from another process takes them for calls that run. Raises `SessionClosed`, and what the store raises."""
        self._call("write_ends")

    def refresh(self) -> None:
        """Take over what plugins have kept since for a session that other workers have open, too (`host.hold(shared_as=...)`):
        entries of a `PluginState` that were changed here and not stored yet stay. Raises `SessionClosed`, and what the store
        raises."""
        self._call("refresh")

    def close(self, reason: SessionEndReason = "closed") -> None:
        """Close the session: `session_end` handlers run, within a time limit. Closing twice is fine."""
        self._call("close", reason)


class Host(OpenedHost):
    """Plugins, configuration, stores and background workers of one process.

    - `plugins`: modules and classes, in the order in which their handlers run; installed plugins come after them.
    - `store`: where transcripts and plugins' values live: a store such as `JsonlStore("sessions")`, a `Path` of such a folder,
      or text as in the configuration (`"memory"`, `"jsonl:sessions"`, `"sqlite:///sessions.db"`). Without it, and without a
      `store` in the configuration, they are in memory and gone with the host. The host closes a store that it opened.
    - `config`: a mapping laid over the configuration files and the environment, or a whole `Config` instead of them.
    - `approver`: how a person is asked, `def (request) -> Approval`; without one every `Ask` is refused.
    - `folder`: the project folder whose configuration counts; by default the current one, or the nearest above it with a
      `hooksdk.toml`, within the same repository.
    - `restart`: how the program is restarted, `def (reason)`, for plugins that ask for it; without one they cannot.
    - `record_first`: no tool runs, one that only reads neither, before a plugin such as `audit` has durably written that it may;
      by default what the configuration says, which is no. Needs a plugin that handles `record_decision`.

    Raises `ConfigError`, `PluginError` or `MissingGrant` at once for what cannot be loaded, and `WrongArgument`.

    ```python
    from hooksdk.sync import Host

    with Host() as host, host.session("ann") as session:
        assert host.sessions == (session,)
    ```
    """

    @property
    def config(self) -> Config:
        """The merged configuration."""
        return self._read("config")

    @property
    def plugins(self) -> Sequence[Plugin]:
        """Every plugin that the host knows, loaded or not, with the reason."""
        return self._read("plugins")

    @property
    def store(self) -> Store:
        """Where transcripts and plugins' values live."""
        return self._read("store")

    @property
    def approver(self) -> Approver | None:
        """Who answers when a plugin asks for an approval; None: nobody."""
        return self._read("approver")

    @property
    def judging(self) -> str:
        """How many handlers judge tool calls, and whose: the line that is logged when the host starts."""
        return self._read("judging")

    def describe(self) -> Sequence[dict[str, Any]]:
        """The plugins as JSON."""
        return self._do("describe")

    def enter(self, manager: AbstractAsyncContextManager[T], *, name: str = "") -> T:
        """Let the host hold something that its sessions share, such as MCP connections: it is entered now, in a task of
        its own, and left when the host closes."""
        return self._call("enter", manager, name=name)

    def session(self, session_id: str | None = None, *, wait: float = 5.0) -> Session:
        """A session, to use as `with host.session("id") as session`. An id is opaque: any text; without one a new
        session with a random id is opened. While somebody else holds it, entering waits `wait` seconds, and then raises
        `SessionBusy`."""
        return Session(self._do("session", session_id, wait=wait), self.portal)

    def hold(self, session_id: str, *, idle: float | None = 600.0, shared_as: str | None = None) -> Session:
        """The open session of this id, opened where it is not: the host keeps it open for whoever holds it next, without a
        block of anybody's own. Hold it again before each run.

        It is closed as `idle` once nobody held it and no run was open for `idle` seconds (None: never), which the first of
        its holders says, and else with the host; one that is in use is never closed. Raises what opening a session raises,
        such as `SessionBusy` where somebody has opened it in a block.

        `shared_as` is for a session that several workers have open at once, on one database: each holds a part under an id of
        its own, and plugins are told this one. They have their `PluginState` in common, entry by entry as it was stored last,
        once `session.refresh()` was called; their `FamilyState`, remembered answers, approvals and limits for the session are
        those of this id everywhere."""
        return Session(self._call("hold", session_id, idle=idle, shared_as=shared_as), self.portal)

    @property
    def sessions(self) -> Sequence[Session]:
        """The open sessions, sub-agents' among them, in the order in which they were opened."""
        return tuple(Session(one, self.portal) for one in self._read("sessions"))

    def wait_idle(self, timeout: float | None = None) -> bool:
        """Wait until no session is at work (`Session.running`), `timeout` seconds at most; False when one still is, and
        `sessions` tells which. For a shutdown that cuts nobody short."""
        return self._call("wait_idle", timeout)

    def forget_shared(self, shared_as: str) -> None:
        """Remove what plugins have kept for a session that several workers had open: none has it any more."""
        self._call("forget_shared", shared_as)

    def in_doubt(self, beginning: str = "") -> dict[str, list[CallInDoubt] | None]:
        """What sessions that are over have left in doubt, by their ids, of those whose ids begin so: for a host whose sessions have new
        ids after a crash, to be given to `session.run(in_doubt=...)`. They are read, not opened; the host's open sessions are left
        out, and one that another process has open has None: look again. `session.settle` of such a session ends a doubt."""
        return self._call("in_doubt", beginning)

    def storage(self, plugin_id: str) -> Storage:
        """A plugin's own key-value space."""
        return Storage(self._do("storage", plugin_id), self.portal)


def run_agent(
    session: Session,
    model: PlainModel | str,
    prompt: str | GivenMessage | None,
    *,
    tools: GivenTools | Callable[[], GivenTools] = (),
    limits: Limits = DEFAULT_LIMITS,
    system: str | None = None,
    agent_id: str = "main",
    workspace_dir: str | None = None,
    requester: Mapping[str, Any] | None = None,
    trigger: str | None = None,
    metadata: Mapping[str, Any] | None = None,
    family: str | None = None,
    approver: Approver | None = None,
    on_text: OnText | None = None,
) -> Outcome:
    """Run the agent until it answers without calling a tool, or a limit is reached.

    `model` is a model, or the name of one as `get_model` takes it, such as `"openai:gpt-5"`, whose key is found in the
    environment. `prompt` is text or a whole message; None goes on where the session stands, and runs the calls that a pause
    left open. `system` is recorded when the session has no messages yet. `tools` are those of `Run.resolve_tools`: functions,
    `Tool`s, a provider's JSON; or a function that answers them, which is asked again for each attempt. `approver` answers in
    this run, in the place of the host's; `family` is as for `session.run`; while calls wait for its answer, the run is paused when the others of the reply have
    their results. `on_text` gets the model's prose as it comes, from a `StreamingModel`; another model's when the reply is
    there. An attempt that fails may have given some of it already. Raises what the model raises (the run ends as `error`),
    `RunBlocked` before it began, `PolicyFailed` and the errors of
    the store; a cancellation ends the run as `cancelled`. However it ends, no call stays without a result but those that
    wait for an approval."""
    return session.portal.call(
        agent_side.run_agent,
        session.twin,
        as_model(model),
        prompt,
        tools=tools,
        limits=limits,
        system=system,
        agent_id=agent_id,
        workspace_dir=workspace_dir,
        requester=requester,
        trigger=trigger,
        metadata=metadata,
        family=family,
        approver=None if approver is None else as_async(approver),
        on_text=on_text,
    )
