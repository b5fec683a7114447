"""A run and what it hands out, for plain code. Written by `scripts/sync_twins.py`: change the async classes, and run it."""

from __future__ import annotations

import builtins
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, overload

from hooksdk import catalog as catalog_side
from hooksdk import run as run_side
from hooksdk import transcript as transcript_side
from hooksdk.approvals import YES, Approval, ApprovalRequest, Unanswered
from hooksdk.calls import CallInDoubt, ResultInfo, ToolCall, ToolResult, TrimReceipt
from hooksdk.catalog import Catalog, T
from hooksdk.formats import GivenMessage, GivenTools, MessageFormat, ProviderJson, SdkObject
from hooksdk.hooks import RunInfo
from hooksdk.records import CallStatus
from hooksdk.run import Finish, PreparedMessages
from hooksdk.sync._portal import Opened, Twin
from hooksdk.tools import Deferral, Tool


class Results(Twin[transcript_side.Results]):
    """The tool results of a session, to read and to trim. A result goes by its handle (`r17`) or, while that is unambiguous,
    by its call id. Unknown or ambiguous references raise `UnknownResult` with the nearest handles.
    """

    def list(self, *, arguments: bool = False) -> Sequence[ResultInfo]:
        """All results, oldest first, without their bodies. With `arguments` also the long arguments of each call, before its
        result: they are read, trimmed and restored in the same way, by handles such as `r17.content`."""
        return self._do("list", arguments=arguments)

    def message_tokens(self) -> builtins.list[int]:
        """The size of each stored message as the model sees it, in tokens, at the index that `ResultInfo.position` names:
        a trimmed result counts as its note. What was compacted away counts 0, and what stands in its place counts at the last
        of those messages. `hooksdk.costs` computes with it what a trim costs."""
        return self._do("message_tokens")

    def read(self, reference: str) -> str:
        """The original text of a result, trimmed or not."""
        return self._do("read", reference)

    def recall(self, reference: str) -> ToolResult:
        """The original result, trimmed or not, with its images and files as blocks in MCP's shape."""
        return self._do("recall", reference)

    def trim(
        self, reference: str, replacement: str | None = None, *, reason: str = "", small: bool = False
    ) -> TrimReceipt:
        """Queue one trim. When this returns, the trim is durable; it is applied when the fence opens.

        `replacement` is a summary to keep, capped in length; the host adds what was there and how to get it back. The
        first replacement wins. With `small` a result is shortened that is hardly longer than the note in its place. One that cannot be queued answers `not_trimmed`, with the reason as text. Raises `UnknownResult`,
        or `MissingGrant` for a plugin that could never see it drained."""
        return self._call("trim", reference, replacement, reason=reason, small=small)

    def restore(self, reference: str) -> TrimReceipt:
        """Queue the end of a trim, so that the model sees the whole result again once the fence opens."""
        return self._call("restore", reference)


class Storage(Twin[catalog_side.Storage]):
    """A plugin's own durable key-value space in the host's store, shared by all sessions. Values are JSON."""

    @overload
    def get(self, key: str, default: None = None) -> Any: ...
    @overload
    def get(self, key: str, default: T) -> T: ...
    def get(self, key: str, default: Any = None) -> Any:
        return self._call("get", key, default)

    def set(self, key: str, value: Any) -> None:
        """Keep `value` under `key`; durable when this returns."""
        self._call("set", key, value)

    def delete(self, key: str) -> None:
        """Forget `key`; no error when it is not there."""
        self._call("delete", key)

    def update(self, key: str, change: Callable[[Any], Any]) -> Any:
        """Keep what `change` makes of the value (None: there is none) in one step that nobody's write comes between; answers it.
        None removes it. `change` is called anew where somebody else was faster. Raises `StoreError`."""
        return self._call("update", key, change)

    def keys(self) -> Sequence[str]:
        """All keys, sorted."""
        return self._call("keys")


class JudgedCall(Twin[run_side.JudgedCall]):
    """A call that went through unwrapping, scope, repair, rewriting, validation, the policies and their approvals.

    It ends once: it is settled already, or by `execute()`, `supply()` or `refuse()`. One that nobody ends is `not_run` when
    its run ends, and stays open when the run is paused. One whose approval comes later is `pending`: after `approve()`, or
    once it is judged again and the approver says yes, it can be executed.
    """

    @property
    def call(self) -> ToolCall:
        """The call under the tool's real name, whatever bridge it came by, with the arguments that run; where they are invalid,
        as they were written."""
        return self._read("call")

    @property
    def tool(self) -> Tool | None:
        """The real tool, without its executor; None for a name that nobody granted."""
        return self._read("tool")

    @property
    def arguments(self) -> dict[str, Any]:
        """What was judged and what runs: repaired, rewritten, valid; a fresh copy. Placeholders of secrets are not filled.
        Of an invalid call, as far as they could be read."""
        return self._read("arguments")

    @property
    def status(self) -> CallStatus | None:
        """What became of the call, or None while it has no result."""
        return self._read("status")

    @property
    def result(self) -> ToolResult | None:
        """The result of a call that is settled (blocked, answered, invalid, unknown, or executed since); else None."""
        return self._read("result")

    @property
    def pending(self) -> ApprovalRequest | None:
        """What a person is still to answer, while the call waits for it; else None."""
        return self._read("pending")

    @property
    def approval(self) -> Approval | None:
        """The yes that counts for the call, asked for just now, remembered or given before it waited; None where nobody had to
        say one. For a framework that asks, too: this call was asked about."""
        return self._read("approval")

    def approve(self, approval: Approval = YES) -> None:
        """Give the answer that the call waits for, in the approver's place; `execute()` runs it then. With a yes the call is
        judged again, by the policies of now: it may be blocked, or wait for the answer to a question that is new. An
        `Approval` that grants nothing refuses it. Raises `CallSettled` for a call that has a result, and `RunClosed` after its
        run."""
        self._call("approve", approval)

    def refuse(
        self, reason: str = "", *, by: str = "", text: str | None = None, unanswered: Unanswered = ""
    ) -> ToolResult:
        """A person said no: the result is a refusal with this reason, recorded, observed and traced like any other. `by` is
        who said so, or `unanswered` says why it was nobody; `text` is what the model was told already, in the place of
        hooksdk's words. Raises `CallSettled` for a call that has a result, and `RunClosed` after its run."""
        return self._call("refuse", reason, by=by, text=text, unanswered=unanswered)

    def execute(self, *, native: object = None, confirms: bool = False) -> ToolResult:
        """Run the tool, and record its result; of a settled call answer the result, and of one that another task executes the
        result that comes of that. `native` is an object of yours, which the executor finds in `ToolContext.native`. With `confirms`
        you hand the result on and say with `confirm()` when it has arrived, in a run that keeps no transcript: should the process
        die before, the call is in doubt. Without it the end is written with what the session writes next. Raises
        `ApprovalPending` while it waits for an approval, `RunClosed` after its run, and `StoreError`, without running anything,
        where a record of the run could not be written."""
        return self._call("execute", native=native, confirms=confirms)

    def confirm(self, *, arrived: bool = True) -> None:
        """Whoever made the call has the result of `execute(confirms=True)`; or will not get it, so that the call is in doubt, as it
        is where the run ends unconfirmed. Nothing happens for a call that was not executed so, or whose run is over."""
        self._do("confirm", arrived=arrived)

    @property
    def effect_id(self) -> str:
        """Stands for what the call does: the same whenever it is made again, in this run, a later one or another process. Hand it
        to the service that the tool calls, which can tell a repeated request by it. Of a call without a tool it is empty."""
        return self._read("effect_id")

    def begin(self) -> str:
        """Say that the tool begins now, elsewhere: durable when this returns, so that a call without a result is in doubt from here
        on, and is not called not run. Answers its `effect_id`. `supply` it the result. Nothing is written for a tool that only
        reads. Raises as `supply` does, and `StoreError`: then the tool must not run."""
        return self._call("begin")

    def supply(self, result: ToolResult | str) -> ToolResult:
        """Record a result made elsewhere, after the same masking, output check and transforming as the tool's own;
        answers what was recorded. Raises `CallSettled` for a call that has a result, `ApprovalPending` for one that waits for
        an approval, and `RunClosed` after its run."""
        return self._call("supply", result)


class Compaction(Twin[run_side.Compaction]):
    """An open compaction."""

    def replace(self, messages: Sequence[GivenMessage]) -> None:
        """Let the model's view begin with these messages instead of all that was recorded so far."""
        self._call("replace", messages)


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
        return self._read("info")

    @property
    def format(self) -> MessageFormat:
        """The format of its messages: `run.format.tools(...)` writes what is offered as the provider's request wants it."""
        return self._read("format")

    @property
    def tools(self) -> Catalog:
        """The resolved catalog, for whoever wants to pull instead of being told; its tools have no executors. Raises
        `RunClosed` before it is."""
        return self._read("tools")

    @property
    def offered(self) -> Sequence[Tool]:
        """What the model is shown now: it may grow with `prepare_messages`, at its end. Read it before each request."""
        return self._read("offered")

    @property
    def definitions(self) -> list[ProviderJson]:
        """What is offered now as the `tools` of a request, with what is declared to the provider without being shown, where a
        plugin does that (`session.run(deferral=...)`); else `run.format.tools(run.offered)`. Ask after `prepare_messages`."""
        return self._read("definitions")

    @property
    def stats(self) -> dict[str, Any]:
        """Counters of this run so far: `docs/reference/stats.md` names them."""
        return self._read("stats")

    @property
    def pending(self) -> Sequence[ToolCall]:
        """Calls of the newest reply that have no result yet, such as after a pause."""
        return self._read("pending")

    @property
    def in_doubt(self) -> Sequence[CallInDoubt]:
        """The session's calls that began, and of which nobody knows how they ended: they may have taken effect. Those of the newest
        reply are among `pending`, too."""
        return self._read("in_doubt")

    @property
    def reminder(self) -> str | None:
        """What to tell the model when its newest reply wrote a call as text, where it does nothing; else None. Record it
        as a message to go on, or leave it: the trace has noticed it, and such a call is never run."""
        return self._read("reminder")

    def resolve_tools(
        self,
        tools: GivenTools | Callable[[], GivenTools] = (),
        *,
        core: Sequence[str] | None = None,
        missing: Mapping[str, str] | None = None,
    ) -> list[Tool]:
        """Settle the catalog of this attempt and answer what to offer the model. `tools` are `Tool`s, functions that become
        tools, and definitions in a provider's JSON, which have no executor (`Tool.from_json` gives them one). They and the
        plugins' tools pass `narrow_tools` and `assemble_tools`. What it answers has no executors: `call_tool` runs the tools. Raises
        `PolicyFailed` when a narrowing plugin fails. `core` names the tools of yours, by name or pattern, that are always shown,
        and lets tool search hide the others; without it each says so itself (`Tool.core`). `missing` are owners whose tools cannot be
        called now, by name, and why: a model that searches, or calls a tool that is not there, is told. By default it is what the
        object has as `missing` whose method `tools` is, such as an `McpServers`."""
        return self._call("resolve_tools", tools, core=core, missing=missing)

    def use_model(self, *names: tuple[str | None, str], context_window: int | None = None) -> None:
        """Say which model the next requests go to, for a framework that tells so late, or changes it: provider (None: not known)
        and name. Of several names for one model the first that has a price counts. Without a `context_window` it is the one
        that genai-prices has, if any."""
        self._do("use_model", *names, context_window=context_window)

    def prepare_messages(
        self, messages: Sequence[GivenMessage] | None = None, *, follow: bool = False, said: Sequence[str] = ()
    ) -> PreparedMessages:
        """The messages for the next model call: the transcript (or the list that you keep, which must match it) with
        trims applied and the plugins' edits for this request. Raises `TranscriptChanged` for a list that does not
        match, and `RunBlocked` where a plugin says that the request is not made: leave the run then. With `follow` your list is the truth: of a fork, or of a list that was filtered or rewritten, the results keep
        their trims, and no compaction is told. Such a list is never refused: what no call of it waits for becomes a text. Of its
        messages in the user's place only those count as the user's that are the run's input or among the texts that were `said`."""
        return self._call("prepare_messages", messages, follow=follow, said=said)

    def record(
        self,
        message: GivenMessage | Sequence[GivenMessage],
        *,
        usage: Mapping[str, Any] | SdkObject | None = None,
        stop_reason: str | None = None,
    ) -> None:
        """Append a message (or several) to the transcript; durable when this returns. A reply of the model opens its
        calls and is shown to `after_model_call`. Objects of the provider's SDK are taken as they are; of a whole answer its
        message, usage and reason to stop. Raises `WrongArgument` for what is no message."""
        self._call("record", message, usage=usage, stop_reason=stop_reason)

    def call_tool(
        self, call: ToolCall | GivenMessage, *, only: Callable[[Tool], str | None] | None = None
    ) -> ToolResult:
        """Judge a call, run its tool, and record its result. `call` is one of `pending`, or a call as the provider's SDK or
        API has it. Whatever goes wrong with the call is a result that the model can read; only the host's own mistakes raise,
        and `StoreError` for a record that cannot be written: the run takes no call then. `ApprovalPending` is for a call whose
        approval comes later: call it again then, in this run or in a later one. It is judged again, by the policies of now, and
        runs with the arguments that were judged. A call of the newest reply that has its result already, such as when a loop is
        resumed, is not run again: that result is the answer, and while somebody else makes the same call, the one that comes of
        that. `only` is asked about the real tool before anybody judges the call: the reason that it answers refuses it."""
        return self._call("call_tool", call, only=only)

    def judge(
        self,
        call: ToolCall | GivenMessage,
        *,
        only: Callable[[Tool], str | None] | None = None,
        tool: Tool | None = None,
        made: bool = False,
    ) -> JudgedCall:
        """Take one call through every policy and approval, without running it: for a loop that runs its tools itself.
        One that was judged before is judged again, with the arguments of then, and what was approved of it is not asked again.
        `only` is as for `call_tool`. `tool` is what the call is of where that is none of the catalog, and no model is to be offered
        it, such as a resource that a person picks: the plugins that narrow the catalog are asked about it first.
        One that waited, and was `made` elsewhere since, is not judged again: `supply` it the result."""
        return JudgedCall(self._call("judge", call, only=only, tool=tool, made=made), self.portal)

    def grant(self, tools: Sequence[Tool]) -> Catalog:
        """Which of these tools, that are none of the catalog, the session may have: what `judge(tool=...)` would find withheld is in
        `withheld`. Raises `PolicyFailed` when a narrowing plugin fails."""
        return self._call("grant", tools)

    def mask(self, value: Any) -> Any:
        """A JSON value with the session's secrets as placeholders, for what reaches somebody on another way than by a call."""
        return self._do("mask", value)

    def fill_secrets(self, tool: Tool, value: Any, *, shared: bool = False) -> Any:
        """A copy of a JSON value with each `{{secret:NAME}}` filled in, as for a call of `tool`: for what is started before the
        first call, such as a server with a key in its environment. `shared` is for what others use as well: the plugins are told
        of no requester. The values are masked in the session from then on. Raises `ConfigError` for a secret without a value."""
        return self._call("fill_secrets", tool, value, shared=shared)

    @property
    def waits_for_finish(self) -> bool:
        """True where the session ends with a reply that calls nothing and that no plugin was asked about yet, though one handles
        `before_answer`: `finish` it before you ask the model, where you go on with what a crash has left."""
        return self._read("waits_for_finish")

    def finish(
        self, reply: GivenMessage | Sequence[GivenMessage] | str | None = None, *, can_go_on: bool = True
    ) -> Finish:
        """Ask the plugins whether the run may finish with the newest reply, which calls no tool, once it is recorded. Where one
        says no, `refused` is why: it is recorded as a message, so prepare the messages for the model again. `reply` is what is
        judged in its place: a message, or text such as a structured answer. `can_go_on=False` is for a loop that is over whatever
        they say: it counts as a limit that is used up. Raises `RunBlocked` where a plugin blocks it: leave
        the run then. Where no plugin handles `before_answer`, nothing is asked and nothing is written."""
        return self._call("finish", reply, can_go_on=can_go_on)

    @contextmanager
    def compaction(self) -> Generator[Compaction, None, None]:
        """While the host shortens its messages: `with run.compaction() as compaction:`, and in it
        `compaction.replace(messages)`. The stored messages stay whole; the view starts anew from these."""
        with self._block("compaction") as value:
            yield Compaction(value, self.portal)

    def retry(self, *, deferral: Deferral | None = None, reason: str = "") -> None:
        """Begin the next attempt, such as with another model: resolve the tools anew, then go on. `deferral` takes the place of
        what was said when the run began, such as `off` for a provider that refused declared tools. The trace has the `reason`."""
        self._call("retry", deferral=deferral, reason=reason)

    def pause(self, reason: str) -> None:
        """Let the run end as `paused` when the block is left: calls without a result stay open for the next run."""
        self._do("pause", reason)
