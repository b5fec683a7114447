"""The classes of plain code, as type checkers and editors read them. Written by `scripts/sync_twins.py`: change the async
classes, and run it."""

import builtins
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, contextmanager
from typing import Any, TypeVar, overload

from hooksdk import catalog as catalog_side
from hooksdk import run as run_side
from hooksdk import session as session_side
from hooksdk import transcript as transcript_side
from hooksdk.agent import DEFAULT_LIMITS, Limits, OnText, Outcome
from hooksdk.approvals import YES, Approval, ApprovalRequest, Unanswered
from hooksdk.calls import CallInDoubt, ResultInfo, ToolCall, ToolResult, TrimReceipt
from hooksdk.catalog import Catalog
from hooksdk.config import Config
from hooksdk.formats import GivenMessage, GivenTools, Message, MessageFormat, ProviderJson, SdkObject
from hooksdk.formats.usage import Request
from hooksdk.hooks import RunInfo, SessionEndReason
from hooksdk.host import Plugin
from hooksdk.records import CallStatus
from hooksdk.run import Finish, PreparedMessages
from hooksdk.session import Listener
from hooksdk.sync._host import OpenedHost
from hooksdk.sync._mirror import Approver, Opened, PlainModel, Twin
from hooksdk.tools import Deferral, Expose, Tool
from hooksdk.transcript import DrainReport, Store

T = TypeVar("T")

class Results(Twin[transcript_side.Results]):
    """The tool results of a session, to read and to trim. A result goes by its handle (`r17`) or, while that is
    unambiguous, by its call id. Unknown or ambiguous references raise `UnknownResult` with the nearest handles."""

    def list(self, *, arguments: bool = False) -> Sequence[ResultInfo]:
        """All results, oldest first, without their bodies. With `arguments` also the long arguments of each call,
        before its result: they are read, trimmed and restored in the same way, by handles such as `r17.content`."""

    def message_tokens(self) -> builtins.list[int]:
        """The size of each stored message as the model sees it, in tokens, at the index that `ResultInfo.position`
        names: a trimmed result counts as its note. What was compacted away counts 0, and what stands in its place
        counts at the last of those messages. `hooksdk.costs` computes with it what a trim costs."""

    def read(self, reference: str) -> str:
        """The original text of a result, trimmed or not."""

    def recall(self, reference: str) -> ToolResult:
        """The original result, trimmed or not, with its images and files as blocks in MCP's shape."""

    def trim(
        self, reference: str, replacement: str | None = None, *, reason: str = "", small: bool = False
    ) -> TrimReceipt:
        """Queue one trim. When this returns, the trim is durable; it is applied when the fence opens.

        `replacement` is a summary to keep, capped in length; the host adds what was there and how to get it back. The
        first replacement wins. With `small` a result is shortened that is hardly longer than the note in its place. One
        that cannot be queued answers `not_trimmed`, with the reason as text. Raises `UnknownResult`, or `MissingGrant`
        for a plugin that could never see it drained."""

    def restore(self, reference: str) -> TrimReceipt:
        """Queue the end of a trim, so that the model sees the whole result again once the fence opens."""

class Storage(Twin[catalog_side.Storage]):
    """A plugin's own durable key-value space in the host's store, shared by all sessions. Values are JSON."""

    @overload
    def get(self, key: str, default: None = None) -> Any: ...
    @overload
    def get(self, key: str, default: T) -> T: ...
    def set(self, key: str, value: Any) -> None:
        """Keep `value` under `key`; durable when this returns."""

    def delete(self, key: str) -> None:
        """Forget `key`; no error when it is not there."""

    def update(self, key: str, change: Callable[[Any], Any]) -> Any:
        """Keep what `change` makes of the value (None: there is none) in one step that nobody's write comes between;
        answers it. None removes it. `change` is called anew where somebody else was faster. Raises `StoreError`."""

    def keys(self) -> Sequence[str]:
        """All keys, sorted."""

    def now(self) -> float:
        """Seconds since 1970 by the store's clock: on a server of databases one clock for all workers."""

class JudgedCall(Twin[run_side.JudgedCall]):
    """A call that went through unwrapping, scope, repair, rewriting, validation, the policies and their approvals.

    It ends once: it is settled already, or by `execute()`, `supply()` or `refuse()`. One that nobody ends is `not_run`
    when its run ends, and stays open when the run is paused. One whose approval comes later is `pending`: after
    `approve()`, or once it is judged again and the approver says yes, it can be executed."""

    @property
    def call(self) -> ToolCall:
        """The call under the tool's real name, whatever bridge it came by, with the arguments that run; where they are
        invalid, as they were written."""

    @property
    def tool(self) -> Tool | None:
        """The real tool, without its executor; None for a name that nobody granted."""

    @property
    def arguments(self) -> dict[str, Any]:
        """What was judged and what runs: repaired, rewritten, valid; a fresh copy. Placeholders of secrets are not
        filled. Of an invalid call, as far as they could be read."""

    @property
    def status(self) -> CallStatus | None:
        """What became of the call, or None while it has no result."""

    @property
    def result(self) -> ToolResult | None:
        """The result of a call that is settled (blocked, answered, invalid, unknown, or executed since); else None."""

    @property
    def pending(self) -> ApprovalRequest | None:
        """What a person is still to answer, while the call waits for it; else None."""

    @property
    def approval(self) -> Approval | None:
        """The yes that counts for the call, asked for just now, remembered or given before it waited; None where nobody
        had to say one. For a framework that asks, too: this call was asked about."""

    def approve(self, approval: Approval = YES) -> None:
        """Give the answer that the call waits for, in the approver's place; `execute()` runs it then. With a yes the
        call is judged again, by the policies of now: it may be blocked, or wait for the answer to a question that is
        new. An `Approval` that grants nothing refuses it. Raises `CallSettled` for a call that has a result, and
        `RunClosed` after its run."""

    def refuse(
        self, reason: str = "", *, by: str = "", text: str | None = None, unanswered: Unanswered = ""
    ) -> ToolResult:
        """A person said no: the result is a refusal with this reason, recorded, observed and traced like any other.
        `by` is who said so, or `unanswered` says why it was nobody; `text` is what the model was told already, in the
        place of hooksdk's words. Raises `CallSettled` for a call that has a result, and `RunClosed` after its run."""

    def execute(self, *, native: object = None, confirms: bool = False) -> ToolResult:
        """Run the tool, and record its result; of a settled call answer the result, and of one that another task
        executes the result that comes of that. `native` is an object of yours, which the executor finds in
        `ToolContext.native`. With `confirms` you hand the result on and say with `confirm()` when it has arrived, in a
        run that keeps no transcript: should the process die before, the call is in doubt. Without it the end is written
        with what the session writes next. Raises `ApprovalPending` while it waits for an approval, `RunClosed` after
        its run, and `StoreError`, without running anything, where a record of the run could not be written."""

    def confirm(self, *, arrived: bool = True) -> None:
        """Whoever made the call has the result of `execute(confirms=True)`; or will not get it, so that the call is in
        doubt, as it is where the run ends unconfirmed. Nothing happens for a call that was not executed so, or whose
        run is over."""

    @property
    def effect_id(self) -> str:
        """Stands for what the call does: the same whenever it is made again, in this run, a later one or another
        process. Hand it to the service that the tool calls, which can tell a repeated request by it. Of a call without
        a tool it is empty."""

    def begin(self) -> str:
        """Say that the tool begins now, elsewhere: durable when this returns, so that a call without a result is in
        doubt from here on, and is not called not run. Answers its `effect_id`. `supply` it the result. Nothing is
        written for a tool that only reads. Raises as `supply` does, and `StoreError`: then the tool must not run."""

    def supply(self, result: ToolResult | str) -> ToolResult:
        """Record a result made elsewhere, after the same masking, output check and transforming as the tool's own;
        answers what was recorded. Raises `CallSettled` for a call that has a result, `ApprovalPending` for one that
        waits for an approval, and `RunClosed` after its run."""

class Compaction(Twin[run_side.Compaction]):
    """An open compaction."""

    def replace(self, messages: Sequence[GivenMessage]) -> None:
        """Let the model's view begin with these messages instead of all that was recorded so far."""

class Run(Opened[run_side.Run]):
    """One agent run: from a user's message to the final answer, a pause or an error. `Session.run` opens it.

    ```python
    from hooksdk import Tool
    from hooksdk.sync import Host

    def greet(arguments: dict[str, str]) -> str:
        return f"Hello {arguments['name']}"

    with Host() as host, host.session("s1") as session, session.run("Greet Ada.") as run:
        run.resolve_tools([Tool(name="greet", source="host", execute=greet)])
        run.record({"role": "user", "content": "Greet Ada."})
        call = {"id": "c1", "type": "function", "function": {"name": "greet", "arguments": '{"name": "Ada"}'}}
        run.record({"role": "assistant", "content": None, "tool_calls": [call]})
        results = [run.call_tool(call) for call in run.pending]
    assert [result.text for result in results] == ["Hello Ada"]
    ```
    """

    @property
    def info(self) -> RunInfo:
        """Session, run, attempt, agent, provider, model and so on."""

    @property
    def format(self) -> MessageFormat:
        """The format of its messages: `run.format.tools(...)` writes what is offered as the provider's request wants
        it."""

    @property
    def tools(self) -> Catalog:
        """The resolved catalog, for whoever wants to pull instead of being told; its tools have no executors. Raises
        `RunClosed` before it is."""

    @property
    def offered(self) -> Sequence[Tool]:
        """What the model is shown now: it may grow with `prepare_messages`, at its end. Read it before each request."""

    @property
    def definitions(self) -> list[ProviderJson]:
        """What is offered now as the `tools` of a request, with what is declared to the provider without being shown,
        where a plugin does that (`session.run(deferral=...)`); else `run.format.tools(run.offered)`. Ask after
        `prepare_messages`."""

    @property
    def stats(self) -> dict[str, Any]:
        """Counters of this run so far: `docs/reference/stats.md` names them."""

    @property
    def pending(self) -> Sequence[ToolCall]:
        """Calls of the newest reply that have no result yet, such as after a pause."""

    @property
    def in_doubt(self) -> Sequence[CallInDoubt]:
        """The session's calls that began, and of which nobody knows how they ended: they may have taken effect. Those
        of the newest reply are among `pending`, too."""

    @property
    def reminder(self) -> str | None:
        """What to tell the model when its newest reply wrote a call as text, where it does nothing; else None. Record
        it as a message to go on, or leave it: the trace has noticed it, and such a call is never run."""

    def resolve_tools(
        self,
        tools: GivenTools | Callable[[], GivenTools] = (),
        *,
        core: Sequence[str] | None = None,
        missing: Mapping[str, str] | None = None,
    ) -> list[Tool]:
        """Settle the catalog of this attempt and answer what to offer the model. `tools` are `Tool`s, functions that
        become tools, and definitions in a provider's JSON, which have no executor (`Tool.from_json` gives them one).
        They and the plugins' tools pass `narrow_tools` and `assemble_tools`. What it answers has no executors:
        `call_tool` runs the tools. Raises `PolicyFailed` when a narrowing plugin fails. `core` names the tools of
        yours, by name or pattern, that are always shown, and lets tool search hide the others; without it each says so
        itself (`Tool.core`). `missing` are owners whose tools cannot be called now, by name, and why: a model that
        searches, or calls a tool that is not there, is told. By default it is what the object has as `missing` whose
        method `tools` is, such as an `McpServers`."""

    def use_model(self, *names: tuple[str | None, str], context_window: int | None = None) -> None:
        """Say which model the next requests go to, for a framework that tells so late, or changes it: provider (None:
        not known) and name. Of several names for one model the first that has a price counts. Without a
        `context_window` it is the one that genai-prices has, if any."""

    def prepare_messages(
        self, messages: Sequence[GivenMessage] | None = None, *, follow: bool = False, said: Sequence[str] = ()
    ) -> PreparedMessages:
        """The messages for the next model call: the transcript (or the list that you keep, which must match it) with
        trims applied and the plugins' edits for this request. Raises `TranscriptChanged` for a list that does not
        match, and `RunBlocked` where a plugin says that the request is not made: leave the run then. With `follow` your
        list is the truth: of a fork, or of a list that was filtered or rewritten, the results keep their trims, and no
        compaction is told. Such a list is never refused: what no call of it waits for becomes a text. Of its messages
        in the user's place only those count as the user's that are the run's input or among the texts that were
        `said`."""

    def record(
        self,
        message: GivenMessage | Sequence[GivenMessage],
        *,
        usage: Mapping[str, Any] | SdkObject | None = None,
        stop_reason: str | None = None,
    ) -> None:
        """Append a message (or several) to the transcript; durable when this returns. A reply of the model opens its
        calls and is shown to `after_model_call`. Objects of the provider's SDK are taken as they are; of a whole answer
        its message, usage and reason to stop. Raises `WrongArgument` for what is no message."""

    def call_tool(
        self, call: ToolCall | GivenMessage, *, only: Callable[[Tool], str | None] | None = None
    ) -> ToolResult:
        """Judge a call, run its tool, and record its result. `call` is one of `pending`, or a call as the provider's
        SDK or API has it. Whatever goes wrong with the call is a result that the model can read; only the host's own
        mistakes raise, and `StoreError` for a record that cannot be written: the run takes no call then.
        `ApprovalPending` is for a call whose approval comes later: call it again then, in this run or in a later one.
        It is judged again, by the policies of now, and runs with the arguments that were judged. A call of the newest
        reply that has its result already, such as when a loop is resumed, is not run again: that result is the answer,
        and while somebody else makes the same call, the one that comes of that. `only` is asked about the real tool
        before anybody judges the call: the reason that it answers refuses it."""

    def judge(
        self,
        call: ToolCall | GivenMessage,
        *,
        only: Callable[[Tool], str | None] | None = None,
        tool: Tool | None = None,
        made: bool = False,
    ) -> JudgedCall:
        """Take one call through every policy and approval, without running it: for a loop that runs its tools itself.
        One that was judged before is judged again, with the arguments of then, and what was approved of it is not asked
        again. `only` is as for `call_tool`. `tool` is what the call is of where that is none of the catalog, and no
        model is to be offered it, such as a resource that a person picks: the plugins that narrow the catalog are asked
        about it first. One that waited, and was `made` elsewhere since, is not judged again: `supply` it the result."""

    def grant(self, tools: Sequence[Tool]) -> Catalog:
        """Which of these tools, that are none of the catalog, the session may have: what `judge(tool=...)` would find
        withheld is in `withheld`. Raises `PolicyFailed` when a narrowing plugin fails."""

    def mask(self, value: Any) -> Any:
        """A JSON value with the session's secrets as placeholders, for what reaches somebody on another way than by a
        call."""

    def still_held(self) -> bool:
        """As `ToolContext.still_held`, for tools that run elsewhere. Their fences are `run.info.fences`."""

    def fill_secrets(self, tool: Tool, value: Any, *, shared: bool = False) -> Any:
        """A copy of a JSON value with each `{{secret:NAME}}` filled in, as for a call of `tool`: for what is started
        before the first call, such as a server with a key in its environment. `shared` is for what others use as well:
        the plugins are told of no requester. The values are masked in the session from then on. Raises `ConfigError`
        for a secret without a value."""

    @property
    def waits_for_finish(self) -> bool:
        """True where the session ends with a reply that calls nothing and that no plugin was asked about yet, though
        one handles `before_answer`: `finish` it before you ask the model, where you go on with what a crash has
        left."""

    def finish(
        self, reply: GivenMessage | Sequence[GivenMessage] | str | None = None, *, can_go_on: bool = True
    ) -> Finish:
        """Ask the plugins whether the run may finish with the newest reply, which calls no tool, once it is recorded.
        Where one says no, `refused` is why: it is recorded as a message, so prepare the messages for the model again.
        `reply` is what is judged in its place: a message, or text such as a structured answer. `can_go_on=False` is for
        a loop that is over whatever they say: it counts as a limit that is used up. Raises `RunBlocked` where a plugin
        blocks it: leave the run then. Where no plugin handles `before_answer`, nothing is asked and nothing is
        written."""

    @contextmanager
    def compaction(self) -> Generator[Compaction, None, None]:
        """While the host shortens its messages: `with run.compaction() as compaction:`, and in it
        `compaction.replace(messages)`. The stored messages stay whole; the view starts anew from these."""

    def retry(self, *, deferral: Deferral | None = None, reason: str = "") -> None:
        """Begin the next attempt, such as with another model: resolve the tools anew, then go on. `deferral` takes the
        place of what was said when the run began, such as `off` for a provider that refused declared tools. The trace
        has the `reason`."""

    def pause(self, reason: str) -> None:
        """Let the run end as `paused` when the block is left: calls without a result stay open for the next run."""

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

    @property
    def resumed(self) -> bool:
        """True when the session existed before."""

    @property
    def messages(self) -> list[Message]:
        """The stored messages, whole, in the session's format; fresh copies."""

    @property
    def view(self) -> list[Message]:
        """The messages as the model sees them: compacted, with the applied trims, and with ids that its provider
        takes."""

    @property
    def format(self) -> str | None:
        """The name of the message format, once a run has settled it."""

    @property
    def results(self) -> Results:
        """The session's tool results, to list, read and trim: at once, or at the end of the run that is open."""

    @property
    def trimmed(self) -> Mapping[tuple[str, int], str]:
        """By call id, and which of the results with this id in the view: the text in the place of each trimmed
        result."""

    @property
    def requests(self) -> list[Request]:
        """What each of its requests used, where the provider counted: `PriceList.spent` says what that cost so far."""

    @property
    def in_doubt(self) -> Sequence[CallInDoubt]:
        """The calls that began, and of which nobody knows how they ended: they may have taken effect."""

    def settle(self, reference: str, result: ToolResult | str) -> CallInDoubt:
        """Say what came of a call that is in doubt, by its call id or its effect id; durable when this returns. The
        result becomes the call's own where the conversation has not gone on without it. An equal call runs without a
        question then. Answers the call; raises `WrongArgument` where no call, or more than one, has this id."""

    def trim(self, reference: str, replacement: str | None = None, *, reason: str = "") -> TrimReceipt:
        """Shorten a tool result for the model, by its handle or call id, as `results.trim` does. Raises
        `UnknownResult`."""

    def restore(self, reference: str) -> TrimReceipt:
        """Let the model see a trimmed result whole again, as `results.restore` does. Raises `UnknownResult`."""

    def drain(self) -> DrainReport:
        """Apply every queued trim and restore now. Raises `FenceClosed` while a run is open: it drains them at its
        end."""

    def load(self, messages: Sequence[GivenMessage], format: str | MessageFormat | None = None) -> None:
        """Record a history from elsewhere into this new session; durable when this returns, and its results can be
        trimmed.

        `format` is guessed where it is None. A call without a result gets an error, except the last reply's. Raises
        `ConfigError`, and records nothing, for a message that a provider would refuse, with its place, and where the
        session has messages already; `FenceClosed` while a run is open."""

    def on_event(self, listener: Listener) -> Callable[[], None]:
        """Let a function have every trace event from now on, its sub-agents' too, with what it is about
        (`event.content`). Plain or async, within 5 seconds each; the run does not wait for it. Answers the function
        that ends this."""

    @property
    def open(self) -> bool:
        """True once it has opened, until it begins to close."""

    @property
    def running(self) -> bool:
        """True while it is at work: from before a run's `agent_start` handlers until the run's end is stored, and while
        the session itself opens or closes."""

    def plugin(self, plugin_id: str) -> Any:
        """This session's instance of a plugin class, for whoever wants to look at it. Raises `KeyError`."""

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
        continues: int = 3,
        in_doubt: Callable[[], Sequence[CallInDoubt]] | None = None,
    ) -> Run:
        """A run of this session, to use as `with session.run(...) as run`.

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
        about. Entering raises `RunAlreadyOpen`, `RunBlocked` or `PolicyFailed`."""

    def child(self, session_id: str | None = None, *, tools: Iterable[str] | None = None) -> Session:
        """A sub-agent's session, with a transcript and plugin instances of its own. `tools` are patterns (`read_*`,
        `mcp:github:*`): what matches none of them is withheld there.

        It never gets more than its parent: a tool that the parent's run does not have, or has lost since, is withheld.
        Its runs inherit the requester, the workspace, and the chains of triggers and agents of the run that is open
        now; where none is, of the one that is open, or was last, when they begin."""

    def save(self) -> None:
        """Store now what the plugins keep for this session; a run stores it with each message, with each result and at
        its end. Observers of what went before have five seconds to see it first. Raises `SessionClosed`, and what the
        store raises."""

    def write_ends(self) -> None:
        """Write now which calls have ended, and which were cut off: without it that is written with what comes next,
        and whoever reads the session from another process takes them for calls that run. Raises `SessionClosed`, and
        what the store raises."""

    def refresh(self) -> None:
        """Take over what plugins have kept since for a session that other workers have open, too
        (`host.hold(shared_as=...)`): entries of a `PluginState` that were changed here and not stored yet stay. Raises
        `SessionClosed`, and what the store raises."""

    def close(self, reason: SessionEndReason = "closed") -> None:
        """Close the session: `session_end` handlers run, within a time limit. Closing twice is fine."""

class Host(OpenedHost):
    """Plugins, configuration, stores and background workers of one process.

    - `plugins`: modules and classes, in the order in which their handlers run; installed plugins come after them.
    - `store`: where transcripts and plugins' values live: a store such as `SqlStore(Path("sessions"))`, the `Path` of its
      folder, or text as in the configuration (`"memory"`, `"jsonl:sessions"`, `"sqlite:///sessions.db"`). Without it,
      and without one in the configuration, they are in memory. The host closes a store that it opened.
    - `config`: a mapping laid over the configuration files and the environment, or a whole `Config` instead of them.
    - `approver`: how a person is asked, `def (request) -> Approval`; without one every `Ask` is refused.
    - `folder`: whose configuration counts; by default the nearest one with a `hooksdk.toml`, in the same repository.
    - `restart`: how the program is restarted, `def (reason)`; without one no plugin can ask for it.
    - `record_first`: no tool runs, not even a reading one, before a plugin such as `audit`, which handles
      `record_decision`, has durably written that it may; by default as the configuration says.
    - `watch`: a session that begins has the rules that the files say then; one that is open keeps its own.

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

    @property
    def plugins(self) -> Sequence[Plugin]:
        """Every plugin that the host knows, loaded or not, with the reason."""

    @property
    def store(self) -> Store:
        """Where transcripts and plugins' values live."""

    @property
    def approver(self) -> Approver | None:
        """Who answers when a plugin asks for an approval; None: nobody."""

    @property
    def judging(self) -> str:
        """How many handlers judge tool calls, and whose: the line that is logged when the host starts."""

    def describe(self) -> Sequence[dict[str, Any]]:
        """The plugins as JSON."""

    def enter(self, manager: AbstractAsyncContextManager[T], *, name: str = "") -> T:
        """Let the host hold something that its sessions share, such as MCP connections: it is entered now, in a task of
        its own, and left when the host closes."""

    def session(self, session_id: str | None = None, *, wait: float = 5.0) -> Session:
        """A session, for `with host.session("id") as session`. An id is any text, and random unless given. While
        somebody else holds the session, entering waits `wait` seconds, and then raises `SessionBusy`."""

    def hold(self, session_id: str, *, idle: float | None = 600.0, shared_as: str | None = None) -> Session:
        """The open session of this id, opened where it is not, and kept open for whoever holds it next, without a block
        of anybody's own. Hold it again before each run.

        It is closed as `idle` once nobody held it and no run was open for `idle` seconds (None: never), which its first
        holder says, and else with the host; never while it is in use. Raises what opening a session raises, such as
        `SessionBusy` where somebody has opened it in a block.

        `shared_as` is for a session that several workers have open at once, on one database: each holds a part under an
        id of its own, and plugins are told this one. They share their `PluginState`, entry by entry as it was stored
        last, once `session.refresh()` was called; their `FamilyState`, remembered answers, approvals and limits for the
        session are those of this id everywhere."""

    @property
    def sessions(self) -> Sequence[Session]:
        """The open sessions, sub-agents' among them, in the order in which they were opened."""

    def wait_idle(self, timeout: float | None = None) -> bool:
        """Wait until no session is at work (`Session.running`), `timeout` seconds at most; False when one still is. When
        this returns True, no run begins before the caller's next `await`: for a shutdown that cuts nobody short."""

    def forget_shared(self, shared_as: str) -> None:
        """Remove what plugins have kept for a session that several workers had open: none has it any more."""

    def in_doubt(self, beginning: str = "") -> dict[str, list[CallInDoubt] | None]:
        """What sessions that are over have left in doubt, by their ids, of those whose ids begin so: for a host whose
        sessions have new ids after a crash, to be given to `session.run(in_doubt=...)`. They are only read; the host's
        open ones are left out, one of another process has None: look again. `session.settle` ends a doubt."""

    def storage(self, plugin_id: str) -> Storage:
        """A plugin's own key-value space."""

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
    environment. `prompt` is text or a whole message; None goes on where the session stands, and runs the calls that a
    pause left open. `system` is recorded if the session has no messages yet. `tools` are as for `Run.resolve_tools`:
    functions, `Tool`s, a provider's JSON; or a function that answers them, which is asked again for each attempt.
    `approver` answers in this run instead of the host's. While calls wait for its answer, the run is paused when the
    other calls of the reply have their results. `family` is as for `session.run`. `on_text` gets the model's prose: in
    pieces from a `StreamingModel`, whole from any other model. An attempt that fails may have given it some prose
    already.

    Raises what the model raises (the run ends as `error`), `RunBlocked` before the run began, `PolicyFailed` and the
    store's errors; a cancellation ends the run as `cancelled`. However it ends, every call has a result, but for calls
    that wait for an approval."""
