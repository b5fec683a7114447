"""Replay of a recorded session: the plugins of now judge its calls one after another, and none is executed."""

from __future__ import annotations

import os
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial, wraps
from pathlib import Path
from typing import Any, ParamSpec, TypeVar, cast

import anyio

from hooksdk import hooks
from hooksdk.approvals import Approval, ApprovalRequest
from hooksdk.calls import ToolCall, ToolResult
from hooksdk.catalog import build_catalog
from hooksdk.config import Config, load_config
from hooksdk.errors import ConfigError, PolicyFailed, RunBlocked
from hooksdk.formats import FoundResult, Message, MessageFormat, get_format
from hooksdk.histories import History, read_history
from hooksdk.host import Host, names_file, plugins_at
from hooksdk.patterns import SOURCES
from hooksdk.records import CallStarted, HookFired, Record, Withheld
from hooksdk.run import Run
from hooksdk.session import Session
from hooksdk.stores import MemoryStore
from hooksdk.testing._exchanges import BRIDGE, Asked, Exchange, exchanges_in, is_refusal, real_call, singly
from hooksdk.testing._session import check_installed
from hooksdk.testing._verdicts import CallOutcome, CallVerdict, Recorded, Replay, read_json_file
from hooksdk.tools import Annotations, Tool
from hooksdk.values import as_object, is_list, is_object, kind_of

P = ParamSpec("P")
T = TypeVar("T")
# A file of any history that `read_history` takes, messages, or a `History`.
Source = str | Path | Sequence[Message] | History
# Tools, functions that become tools of the host, or a JSON file of definitions.
GivenCatalog = Iterable[Tool | Callable[..., Any]] | str | Path


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
    folder: Path | None = None,
) -> Replay:
    """Let the plugins judge every call of a recorded session, in order. Nothing is executed, and nothing outlives it.

    `plugins` are modules, classes, ids of installed plugins, `Path`s of Python files, or `"module:Class"`. A call that
    would run gets its recorded result, one that would not gets its refusal; where a plugin asks a person, the answer is
    what the record shows: yes where the call ran. `tools` are the definitions: tools, functions, or a JSON file of
    them; a tool that is not among them takes any arguments. `config` is as for `open_session`; `folder` is the project
    that a `Config` is of. The others are those of `session.run`.

    `replay` is the same in plain code: it brings an event loop of its own. Raises `HistoryError` for what cannot be
    read.
    """
    history = _history(source, format)
    folder = folder or Path(os.devnull)
    ids, holders = _by_name(plugins)
    if not isinstance(config, Config):
        overrides = {**(config or {}), "allow": [*ids, *(config or {}).get("allow", ())]}
        config = load_config(overrides, folder=folder, environment={"XDG_CONFIG_HOME": os.devnull})
    config = config.model_copy(update={"record_first": False})  # nothing runs, so nothing is to be written
    replayer = Replayer()
    given = [replayer.plugin(), *holders]
    host = Host(given, store=MemoryStore(), config=config, approver=replayer.answer, folder=folder)
    replayer.prepares_messages = any("before_model_call" in one.hooks for one in host.plugins if one.loaded)
    check_installed(host, ids)
    form = get_format(history.format)
    runs = [singly(run, form) for run in exchanges_in(history.messages, form)]
    own = [name for one in host.plugins for name in one.tools]
    catalog, notes = complete_catalog(read_catalog(tools), runs, own)
    options: dict[str, Any] = {"agent_id": agent_id, "workspace_dir": workspace_dir}
    options |= {"requester": requester, "trigger": trigger}
    async with host, host.session("replay") as session:
        for number, run in enumerate(runs, 1):
            await replayer.play(session, run, number, form, catalog, options)
    return Replay(calls=replayer.verdicts(), notes=(*history.notes, *notes))


def _in_own_loop(function: Callable[P, Awaitable[T]]) -> Callable[P, T]:
    @wraps(function)
    def run(*args: P.args, **kwargs: P.kwargs) -> T:
        return anyio.run(partial(function, *args, **kwargs))

    run.__name__ = run.__qualname__ = function.__name__.removesuffix("_async")
    return run


replay = _in_own_loop(replay_async)
"""`replay_async` for plain code, in an event loop of its own."""


def _history(source: Source, format_name: str | None) -> History:
    if isinstance(source, History):
        return source
    return read_history(source if isinstance(source, (str, Path)) else list(source), format_name)


def _by_name(plugins: Iterable[Any]) -> tuple[list[str], list[Any]]:
    """The ids of installed plugins among these, and the modules and classes of all others. Raises `PluginRefused`."""
    ids: list[str] = []
    holders: list[Any] = []
    for plugin in plugins:
        if isinstance(plugin, str) and ":" not in plugin and not names_file(plugin):
            ids.append(plugin)
        else:
            holders += plugins_at(plugin) if isinstance(plugin, (str, Path)) else [plugin]
    return ids, holders


def read_catalog(given: GivenCatalog) -> list[Tool]:
    """The tools that were given. Raises `ConfigError` with every wrong entry of a file."""
    if isinstance(given, (str, Path)):
        return _from_file(Path(given))
    return [one if isinstance(one, Tool) else Tool.from_function(one, source="host", owner="test") for one in given]


def complete_catalog(
    given: Sequence[Tool], runs: Iterable[Exchange], plugin_tools: Iterable[str]
) -> tuple[list[Tool], list[str]]:
    """The given tools, with one for each other name that was called, and what to note about these."""
    known = {name for tool in build_catalog(given) for name in (tool.name, tool.id)} | set(plugin_tools)
    seen: dict[str, dict[str, list[object]]] = {}
    for run in runs:
        for step in run.steps:
            for call, _ in step.calls if isinstance(step, Asked) else ():
                name, arguments = real_call(call)
                if name and name != BRIDGE and name not in known:
                    values = seen.setdefault(name, {})
                    for key, value in arguments.items():
                        values.setdefault(key, []).append(value)
    inferred = [_inferred(name, values) for name, values in seen.items()]
    note = (
        f"tools known by their calls alone: {len(inferred)}; any arguments fit them, and they are taken as the host's "
        "own (mcp__SERVER__NAME: as that server's)"
    )
    return [*given, *inferred], [note] if inferred else []


def _inferred(name: str, values: Mapping[str, Sequence[object]]) -> Tool:
    properties: dict[str, Any] = {
        key: {"type": "array"} if all(isinstance(one, list) for one in found) else {} for key, found in values.items()
    }
    prefix, _, rest = name.partition("__")
    owner = rest.partition("__")[0] if prefix == "mcp" else ""  # as Claude Code writes the tools of servers
    return Tool(
        name=name,
        source="mcp" if owner else "host",
        owner=owner,
        parameters={"type": "object", "properties": properties, "additionalProperties": {}},
    )


def _from_file(path: Path) -> list[Tool]:
    document: Any = read_json_file(path)
    entries = as_object(document).get("tools", document)
    if not is_list(entries):
        problem = f"expected a list of tool definitions, or an object with 'tools', but this is {kind_of(document)}"
        raise ConfigError(str(path), (problem,))
    tools: list[Tool] = []
    problems: list[str] = []
    for number, entry in enumerate(entries, 1):
        made = _made(entry)
        if isinstance(made, str):
            problems.append(f"tool {number}: {made}")
        else:
            tools.append(made)
    if problems:
        raise ConfigError(str(path), tuple(problems))
    return tools


def _made(entry: object) -> Tool | str:
    """The tool of one definition (hooksdk's, a provider's or MCP's), or a text that says what is wrong with it."""
    if not is_object(entry):
        return f"expected an object, but this is {kind_of(entry)}"
    inner = as_object(entry.get("function")) or entry
    source, owner, name = entry.get("source", "host"), entry.get("owner", ""), inner.get("name")
    if isinstance(identity := entry.get("id"), str) and identity.count(":") >= 2:
        source, owner, name = identity.split(":", 2)
    if not isinstance(name, str) or not name:
        return "it has no 'name', and no 'id' such as mcp:github:create_issue"
    if source not in SOURCES:
        return f"its source is {source!r}, which is none of {', '.join(SOURCES)}"
    keys = ("parameters", "input_schema", "inputSchema")
    parameters = next((as_object(inner[key]) for key in keys if inner.get(key)), None)
    hints = as_object(entry.get("annotations"))
    own = {key: value for key, value in hints.items() if key in Annotations.names()}
    annotations = Annotations(**cast("dict[str, bool]", own)) if own else Annotations.from_mcp(hints)
    return Tool(
        name=name,
        description=str(inner.get("description") or ""),
        source=source,
        owner=str(owner),
        parameters=parameters,
        annotations=annotations,
    )


_VERDICT = re.compile(r"Blocked by (?P<plugin>[^:\n]+): (?P<reason>.*)", re.DOTALL)
_STATUS: Mapping[str | None, CallOutcome] = {
    None: "allow",
    "blocked": "block",
    "answered": "answer",
    "invalid": "invalid",
    "unknown": "withhold",
}


class Replayer:
    """Plays recorded runs on a session, and keeps what the plugins decide.

    Attributes:
        prepares_messages: False where no plugin looks at what the model is sent: to prepare that costs time with each
            reply.
    """

    def __init__(self) -> None:
        # Each with whether plugins have judged the call: they have not where its run did not begin.
        self._verdicts: list[tuple[CallVerdict, bool]] = []
        self._records: list[Record] = []
        self._questions: list[ApprovalRequest] = []
        self._would_run = True
        self.prepares_messages = True

    def plugin(self) -> type:
        """The plugin that keeps the trace, and turns a call of tool search's bridge into the call of the real tool."""
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
        if self._would_run:
            return Approval(True)
        return Approval(False, "it was not run when this was recorded", unanswered="not_asked")

    async def play(
        self,
        session: Session,
        exchange: Exchange,
        number: int,
        form: MessageFormat,
        tools: Sequence[Tool],
        options: Mapping[str, Any],
    ) -> None:
        """One run of the record, with these options of `session.run`."""
        calls = [pair for step in exchange.steps if isinstance(step, Asked) for pair in step.calls]
        before = len(self._verdicts)
        try:
            async with session.run(exchange.prompt(form) or None, format=form, **options) as run:
                await run.resolve_tools(tools)
                for step in exchange.steps:
                    if isinstance(step, Asked):
                        await self._play_reply(run, step, number)
                    else:
                        await run.record(step.message)
        except (RunBlocked, PolicyFailed) as error:
            by, reason = error.who, str(error)
            if isinstance(error, RunBlocked):
                by, reason = by.removeprefix("plugin ").strip("'"), f"the run is blocked: {error.reason}"
            for call, result in calls[len(self._verdicts) - before :]:
                verdict = replace(self._begun(call, result, number), outcome="block", by=by, reason=reason)
                self._verdicts.append((verdict, False))

    async def _play_reply(self, run: Run, step: Asked, number: int) -> None:
        if self.prepares_messages:
            await run.prepare_messages()
        await run.record(step.messages)
        calls = run.pending if len(run.pending) == len(step.calls) else [call for call, _ in step.calls]
        for call, (written, result) in zip(calls, step.calls, strict=True):
            await self._judge(run, call, self._begun(written, result, number), result)

    def _begun(self, call: ToolCall, result: FoundResult | None, run: int) -> CallVerdict:
        """The verdict as far as the record says it."""
        tool, arguments = real_call(call)
        recorded: Recorded = "none"
        if result is not None:
            recorded = "blocked" if is_refusal(result) else "error" if result.is_error else "ok"
        return CallVerdict(
            number=len(self._verdicts) + 1,
            run=run,
            tool=tool,
            arguments=arguments,
            recorded=recorded,
            outcome="allow",
            call_id=call.id,
        )

    async def _judge(self, run: Run, call: ToolCall, verdict: CallVerdict, result: FoundResult | None) -> None:
        asked = len(self._questions)
        self._would_run = verdict.recorded in {"ok", "error"}
        judged = await run.judge(call)
        withheld = run.tools.withheld.get(judged.call.name)
        text = judged.result.text if judged.result else ""
        outcome = _STATUS.get(judged.status, "block") if withheld is None else "withhold"
        by, reason = "", text if withheld is None or judged.result is None else withheld
        if len(self._questions) > asked:
            request = self._questions[-1]
            outcome, by = "ask", ", ".join(dict.fromkeys(one.plugin for one in request.questions))
            strange = [str(origin) for origin in request.evidence if not origin.cleared]
            reason = "; ".join([*(one.title for one in request.questions), *strange])
        elif match := _VERDICT.match(text):
            by, reason = match["plugin"], match["reason"]
        becomes = judged.arguments if judged.tool is not None and judged.status != "invalid" else None
        verdict = replace(verdict, outcome=outcome, by=by, reason=reason, becomes=becomes, tool=judged.call.name)
        self._verdicts.append((verdict, True))
        if judged.result is None:
            text = "no result was recorded" if result is None else result.text
            await judged.supply(ToolResult(text, is_error=result is None or result.is_error))

    def verdicts(self) -> list[CallVerdict]:
        """All of them, with the names of those who decided: the trace is complete once the session is closed."""
        groups: list[list[HookFired]] = []
        withheld: dict[str, str] = {}
        for record in self._records:
            if isinstance(record, CallStarted) and record.parent_id is None:
                groups.append([])
            elif isinstance(record, HookFired) and groups and not record.shadow:
                groups[-1].append(record)
            elif isinstance(record, Withheld):
                withheld |= {name.rpartition(":")[2]: record.plugin for name in record.names}
        fired = iter(groups)
        return [
            _decided(verdict, next(fired, list[HookFired]()), withheld) if is_judged else verdict
            for verdict, is_judged in self._verdicts
        ]


def _decided(verdict: CallVerdict, fired: Sequence[HookFired], withheld: Mapping[str, str]) -> CallVerdict:
    rewriters = [one.plugin for one in fired if one.hook == "rewrite_tool_call" and one.outcome == "Rewrite"]
    becomes = verdict.becomes if rewriters and verdict.becomes != verdict.arguments else None
    verdict = replace(verdict, becomes=becomes)
    if verdict.outcome == "allow" and becomes is not None:
        return replace(verdict, outcome="rewrite", by=", ".join(dict.fromkeys(rewriters)))
    if verdict.outcome == "withhold":
        return replace(verdict, by=withheld.get(verdict.tool, ""))
    if verdict.by or verdict.outcome not in {"block", "answer"}:
        return verdict
    words = ("Block", "failed") if verdict.outcome == "block" else ("Answer",)
    judges = (one for one in fired if one.hook in {"before_tool_call", "rewrite_tool_call"} and one.outcome in words)
    return replace(verdict, by=next((one.plugin for one in judges), ""))
