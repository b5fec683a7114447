"""What plugins would have done with the calls of a recorded session. Nothing is executed."""

from __future__ import annotations

import json
import os
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import anyio

from hooksdk import hooks
from hooksdk._plugins.given import is_file, plugins_at
from hooksdk._schema.values import as_object
from hooksdk.approvals import Approval, ApprovalRequest
from hooksdk.calls import ToolCall, ToolResult
from hooksdk.config import Config, load_config
from hooksdk.errors import PolicyFailed, RunBlocked
from hooksdk.formats import FoundResult, Message, MessageFormat, get_format
from hooksdk.histories import History, HistoryError, read_history
from hooksdk.host import Host
from hooksdk.records import CallStarted, HookFired, Record
from hooksdk.run import JudgedCall, Run
from hooksdk.session import Session
from hooksdk.stores import MemoryStore
from hooksdk.testing._exchanges import Asked, Exchange, exchanges_in, is_refusal, real_call
from hooksdk.testing._replay_tools import GivenCatalog, complete_catalog, read_catalog
from hooksdk.testing._session import check_installed

Outcome = Literal["allow", "rewrite", "ask", "answer", "block", "withhold", "invalid"]
"""What becomes of a call now. `rewrite`: it runs with other arguments; `answer`: a plugin answers in the tool's place;
`withhold`: its tool is not granted; `invalid`: its arguments do not fit the tool."""
Recorded = Literal["ok", "error", "blocked", "none"]
"""What became of it then: its tool ran, well or not; it was not run; or no result is known."""

_VERDICT = re.compile(r"Blocked by (?P<plugin>[^:\n]+): (?P<reason>.*)", re.DOTALL)
_STATUS: Mapping[str | None, Outcome] = {
    None: "allow", "blocked": "block", "answered": "answer", "invalid": "invalid", "unknown": "withhold",
}  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class CallVerdict:
    """One recorded call, and what the plugins make of it now.

    ```python
    from hooksdk.testing import CallVerdict

    verdict = CallVerdict(
        number=1, run=1, tool="delete_file", arguments={"path": "a"}, recorded="ok",
        outcome="block", by="no_deletes", reason="nothing is deleted here",
    )
    assert verdict.differs
    ```
    """

    number: int
    """Its place in the session, from 1."""
    run: int
    """The run that it belongs to, from 1: each message of the person begins one."""
    tool: str
    """The real tool, whatever bridge the call came by."""
    arguments: Mapping[str, Any] = field(repr=False)
    """As they were recorded; empty where they cannot be read."""
    recorded: Recorded
    outcome: Outcome
    by: str = ""
    """The plugin that decided; several with commas, nobody where it is allowed."""
    reason: str = ""
    """The reason of a block, the title of a question, the text of an answer."""
    becomes: Mapping[str, Any] | None = field(default=None, repr=False)
    """The arguments after the plugins' rewriting, where they differ."""

    @property
    def differs(self) -> bool:
        """True where it would go otherwise than it went."""
        if self.outcome == "allow":
            return self.recorded == "blocked"
        return self.outcome not in {"block", "withhold", "invalid"} or self.recorded != "blocked"


@dataclass(frozen=True, kw_only=True)
class Replay:
    """What plugins make of a recorded session. It equals a `decision_snapshot` that says the same.

    ```python
    from hooksdk import hooks
    from hooksdk.hooks import BeforeToolCall, Block
    from hooksdk.testing import replay

    class NoDeletes:
        @hooks.before_tool_call(tools="delete_*")
        def keep(self, event: BeforeToolCall) -> Block:
            return Block("nothing is deleted here")

    call = {"id": "c1", "type": "function", "function": {"name": "delete_file", "arguments": '{"path": "a"}'}}
    session = [
        {"role": "user", "content": "Tidy up."},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c1", "content": "gone"},
    ]
    (verdict,) = replay(session, [NoDeletes]).calls
    assert (verdict.recorded, verdict.outcome, verdict.by) == ("ok", "block", "no_deletes")
    ```
    """

    calls: Sequence[CallVerdict]
    notes: Sequence[str] = ()
    """What to know of it: how the history was read, and which tools are known by their calls alone."""

    def call(self, tool: str) -> CallVerdict:
        """The only call of the tool; an `AssertionError` when there is none, or more than one."""
        found = [one for one in self.calls if one.tool == tool]
        names = sorted({one.tool for one in self.calls})
        assert len(found) == 1, f"{tool!r} was called {len(found)} times, not once; the tools called are {names}"
        return found[0]

    @property
    def counts(self) -> dict[Outcome, int]:
        """How many calls have each outcome."""
        return dict(Counter(one.outcome for one in self.calls))


Source = str | Path | Sequence[Message] | History
"""A file of any history that `read_history` takes, messages, or a `History`."""


def replay(
    source: Source,
    plugins: Iterable[Any],
    *,
    format: str | None = None,  # noqa: A002 - the field's own word
    tools: GivenCatalog = (),
    config: Mapping[str, Any] | Config | None = None,
    agent_id: str = "main",
    workspace_dir: str | None = None,
    requester: Mapping[str, Any] | None = None,
    trigger: str = "user",
) -> Replay:
    """Let the plugins judge every call of a recorded session, in order. Nothing is executed, and nothing outlives it.

    `plugins` are modules, classes, ids of installed plugins, `Path`s of Python files, or `"module:Class"`. A call that would
    run gets its recorded result, one that would not gets its refusal; where a plugin asks a person, the answer is what the
    record shows: yes where the call ran. `tools` are the definitions: tools, functions, or a JSON file of them; a tool that
    is not among them takes any arguments. `config` is as for `open_session`. The others are those of `session.run`.

    It brings an event loop of its own; `replay_async` is for code that runs in one. Raises `HistoryError` for what cannot be
    read.
    """
    options = RunOptions(agent_id, workspace_dir, requester, trigger)
    return anyio.run(replay_history, _history(source, format), list(plugins), tools, config, options)


async def replay_async(
    source: Source,
    plugins: Iterable[Any],
    *,
    format: str | None = None,  # noqa: A002 - the field's own word
    tools: GivenCatalog = (),
    config: Mapping[str, Any] | Config | None = None,
    agent_id: str = "main",
    workspace_dir: str | None = None,
    requester: Mapping[str, Any] | None = None,
    trigger: str = "user",
) -> Replay:
    """`replay` inside an event loop."""
    options = RunOptions(agent_id, workspace_dir, requester, trigger)
    return await replay_history(_history(source, format), list(plugins), tools, config, options)


def _history(source: Source, format_name: str | None) -> History:
    if isinstance(source, History):
        return source
    if isinstance(source, (str, Path)):
        refuse_trace(Path(source))
        return read_history(source, format_name)
    return read_history(list(source), format_name)


def refuse_trace(path: Path) -> None:
    """Raise `HistoryError` for a file of `trace_file`: it has no arguments, so there is nothing to judge."""
    try:
        with path.open(encoding="utf-8") as lines:
            first = as_object(json.loads(lines.readline()))
            if not {"kind", "run_id", "session_id"} <= first.keys():
                return
            sessions = {str(as_object(json.loads(line)).get("session_id")) for line in lines} | {first["session_id"]}
    except (OSError, ValueError, RecursionError):
        return  # whoever reads the file says what is wrong with it
    names = ", ".join(f"'{one}'" for one in sorted(sessions)[:5])
    problem = "it is a trace, which holds no arguments of calls, so there is nothing to judge"
    raise HistoryError(path.name, problem, f"Replay the stored session itself; this trace is of {names}")


@dataclass(frozen=True)
class RunOptions:
    """What the runs of a replay say of themselves, as in `session.run`."""

    agent_id: str = "main"
    workspace_dir: str | None = None
    requester: Mapping[str, Any] | None = None
    trigger: str = "user"


async def replay_history(
    history: History,
    plugins: Sequence[Any],
    tools: GivenCatalog,
    config: Mapping[str, Any] | Config | None,
    options: RunOptions,
    folder: Path = Path(os.devnull),
) -> Replay:
    """`replay` of a history that is read already. A `Config` counts as it is, with `folder` as its project."""
    ids, holders = named_plugins(plugins)
    if not isinstance(config, Config):
        overrides = {**(config or {}), "allow": [*ids, *(config or {}).get("allow", ())]}
        config = load_config(overrides, folder=folder, environment={"XDG_CONFIG_HOME": os.devnull})
    theatre = _Theatre()
    host = Host(
        [theatre.plugin(), *holders], store=MemoryStore(), config=config, approver=theatre.answer, folder=folder
    )
    theatre.shows_messages = any("before_model_call" in one.hooks for one in host.plugins if one.loaded)
    check_installed(host, ids)
    form = get_format(history.format)
    runs = exchanges_in(history.messages, form)
    catalog = complete_catalog(read_catalog(tools), runs, [name for one in host.plugins for name in one.tools])
    async with host, host.session("replay") as session:
        for number, run in enumerate(runs, 1):
            await theatre.play(session, run, number, form, catalog.tools, options)
    return Replay(calls=theatre.verdicts(), notes=(*history.notes, *catalog.notes))


def named_plugins(plugins: Iterable[Any]) -> tuple[list[str], list[Any]]:
    """The ids of installed plugins among these, and the modules and classes of all others. Raises `PluginRefused`."""
    ids: list[str] = []
    holders: list[Any] = []
    for plugin in plugins:
        if isinstance(plugin, str) and ":" not in plugin and not is_file(plugin):
            ids.append(plugin)
        else:
            holders += plugins_at(plugin) if isinstance(plugin, (str, Path)) else [plugin]
    return ids, holders


class _Theatre:
    """The recorded session on a stage: its calls are judged one after another, and what was decided is kept."""

    def __init__(self) -> None:
        self._verdicts: list[CallVerdict] = []
        self._was_judged: list[bool] = []
        """Of each verdict: False where its run did not begin."""
        self._records: list[Record] = []
        self._questions: list[ApprovalRequest] = []
        self._would_run = True
        self.shows_messages = True
        """False where no plugin looks at what the model is sent: making that costs time with each reply."""

    def plugin(self) -> type:
        """The plugin that keeps the trace, and turns a call of tool search's bridge into the call that it stands for."""
        records = self._records

        class Replaying:
            plugin_id = "hooksdk_replay"

            @hooks.trace
            def keep(self, event: hooks.Trace) -> None:
                records.append(event.record)

            @hooks.unwrap_tool_call
            def unwrap(self, event: hooks.UnwrapToolCall) -> ToolCall | None:
                name, arguments = real_call(event.call)
                return None if name == event.call.name else ToolCall(event.call.id, name, arguments)

        return Replaying

    async def answer(self, request: ApprovalRequest) -> Approval:
        """The person of the record: a call that ran was allowed."""
        self._questions.append(request)
        return Approval(self._would_run, "" if self._would_run else "it was not run when this was recorded")

    async def play(
        self, session: Session, exchange: Exchange, number: int, form: MessageFormat, tools: Any, options: RunOptions
    ) -> None:
        """One run of the record."""
        calls = [pair for step in exchange.steps if isinstance(step, Asked) for pair in step.calls]
        before = len(self._verdicts)
        try:
            async with session.run(
                exchange.prompt(form) or None, format=form, agent_id=options.agent_id,
                workspace_dir=options.workspace_dir, requester=options.requester, trigger=options.trigger,
            ) as run:  # fmt: skip
                await run.resolve_tools(tools)
                for step in exchange.steps:
                    if isinstance(step, Asked):
                        await self._play_reply(run, step, number)
                    else:
                        await run.record(step.message)
        except (RunBlocked, PolicyFailed) as error:
            blocked = isinstance(error, RunBlocked)
            by = error.who.removeprefix("plugin ").strip("'") if blocked else error.who
            reason = f"the run is blocked: {error.reason}" if blocked else str(error)
            for call, result in calls[len(self._verdicts) - before :]:
                verdict = self._begin(call, result, number)
                self._keep(replace(verdict, outcome="block", by=by, reason=reason), judged=False)

    async def _play_reply(self, run: Run, step: Asked, number: int) -> None:
        if self.shows_messages:
            await run.prepare_messages()
        await run.record(step.messages)
        pending = run.pending
        calls = pending if len(pending) == len(step.calls) else [call for call, _ in step.calls]
        for call, (written, result) in zip(calls, step.calls, strict=True):
            await self._judge(run, call, self._begin(written, result, number), result)

    def _begin(self, call: ToolCall, result: FoundResult | None, run: int) -> CallVerdict:
        tool, arguments = real_call(call)
        recorded: Recorded = "none"
        if result is not None:
            recorded = "blocked" if is_refusal(result) else "error" if result.is_error else "ok"
        return CallVerdict(
            number=len(self._verdicts) + 1, run=run, tool=tool, arguments=arguments, recorded=recorded, outcome="allow"
        )

    def _keep(self, verdict: CallVerdict, *, judged: bool) -> None:
        self._verdicts.append(verdict)
        self._was_judged.append(judged)

    async def _judge(self, run: Run, call: ToolCall, verdict: CallVerdict, result: FoundResult | None) -> None:
        asked = len(self._questions)
        self._would_run = verdict.recorded in {"ok", "error"}
        judged = await run.judge(call)
        outcome = _STATUS.get(judged.status, "block")
        reason = self._reason(run, judged)
        by = ""
        if len(self._questions) > asked:
            request = self._questions[-1]
            outcome, by = "ask", ", ".join(dict.fromkeys(one.plugin for one in request.questions))
            reason = "; ".join(one.title for one in request.questions)
        elif judged.result is not None and (match := _VERDICT.match(judged.result.text)):
            by, reason = match["plugin"], match["reason"]
        becomes = judged.arguments if judged.tool is not None and judged.status != "invalid" else None
        verdict = replace(verdict, outcome=outcome, by=by, reason=reason, becomes=becomes, tool=judged.call.name)
        self._keep(verdict, judged=True)
        if judged.result is None:
            text = "no result was recorded" if result is None else result.text
            await judged.supply(ToolResult(text, is_error=result is None or result.is_error))

    def _reason(self, run: Run, judged: JudgedCall) -> str:
        if judged.result is None:
            return ""
        withheld = run.tools.withheld.get(judged.call.name)
        return judged.result.text if withheld is None else withheld

    def verdicts(self) -> list[CallVerdict]:
        """All of them, with the names of those who decided: the trace is complete once the session is closed."""
        groups: list[list[HookFired]] = []
        for record in self._records:
            if isinstance(record, CallStarted) and record.parent_id is None:
                groups.append([])
            elif isinstance(record, HookFired) and groups and not record.shadow:
                groups[-1].append(record)
        fired = iter(groups)
        return [
            _decided(verdict, next(fired, list[HookFired]())) if judged else verdict
            for verdict, judged in zip(self._verdicts, self._was_judged, strict=True)
        ]


def _decided(verdict: CallVerdict, fired: Sequence[HookFired]) -> CallVerdict:
    rewriters = [one.plugin for one in fired if one.hook == "rewrite_tool_call" and one.outcome == "Rewrite"]
    becomes = verdict.becomes if rewriters and verdict.becomes != verdict.arguments else None
    verdict = replace(verdict, becomes=becomes)
    if verdict.outcome == "allow" and becomes is not None:
        return replace(verdict, outcome="rewrite", by=", ".join(dict.fromkeys(rewriters)))
    if verdict.by or verdict.outcome not in {"block", "answer"}:
        return verdict
    word = {"block": ("Block", "failed"), "answer": ("Answer",)}[verdict.outcome]
    judges = [
        one.plugin for one in fired if one.hook in {"before_tool_call", "rewrite_tool_call"} and one.outcome in word
    ]
    return replace(verdict, by=judges[0] if judges else "")
