"""One run of a real model on one task in one mode, and what is counted of it."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from importlib.util import find_spec
from typing import Any

from _real_bridges import ThreeBridges
from _real_catalog import catalog, core_tools, key_of, neighbours, plain_answer
from _real_tasks import TASKS, Task, says
from _scenario_tools import deferrable_tools, fixtures

from hooksdk import Catalog, Tool, schema
from hooksdk.agent import Limits, Model, Outcome, run_agent
from hooksdk.hooks import AfterModelCall, AfterToolCall, AfterToolsResolved
from hooksdk.stores import Store
from hooksdk.testing import Recorder, open_host, recorder

__all__ = ["MODES", "Job", "Result", "available", "jobs", "play", "prefetched"]

MODES: Mapping[str, Mapping[str, Any] | None] = {
    "off": {"enabled": "off"},
    "tools": {"enabled": "on", "mode": "tools", "prefetch": 0, "reveal": "off"},
    "code": {"enabled": "on", "mode": "code", "prefetch": 0, "reveal": "off"},
    "prefetch": {"enabled": "on", "mode": "tools", "prefetch": 6, "reveal": "off"},
    "prefetch+reveal": {"enabled": "on", "mode": "tools", "prefetch": 6, "reveal": "on"},
    "signatures": {"enabled": "on", "mode": "tools", "prefetch": 0, "prefetch_signatures": 6, "reveal": "off"},
    "bridges": None,
}
"""Settings of tool_search; None for the three bridges in the manner of Hermes Agent."""
SHOWN_WHEN_OFF = 26
"""Tools of the catalog beside the four core ones when nothing is searched: 1,860 fit into no small window."""
BRIDGE_NAMES = {"tool_search", "tool_describe", "tool_call", "tool_search_code"}
SYSTEM = "You are a helpful agent. Do what the user asks with your tools, and be concise. Today is 2026-05-24."
MEANT: Mapping[str, Mapping[str, str]] = {
    "A": {"body": "crashes immediately"},
    "B": {"start": "2026-05-25T10:00"},
    "C": {"text": r"\b1\b|\bone\b"},
    "D": {"text": "Hello from the test fixture"},
}
"""What the arguments of a scenario's last call must say beside the expected ones."""


@dataclass(frozen=True)
class Job:
    """What a model is asked: one of the 40 tasks, or a scenario. The calls that it takes, in their order; for each the tools
    that can do it, with patterns for their arguments."""

    id: str
    prompt: str
    steps: Sequence[Mapping[str, Mapping[str, str]]]
    answers: Mapping[str, str] = field(default_factory=dict[str, str])
    """What right tools answer to right arguments, by key; the tools of scenarios have answers of their own."""
    files: Mapping[str, str] = field(default_factory=dict[str, str])
    final: str = ""
    """What the last reply must say."""
    scenario: bool = False


@dataclass(frozen=True)
class Called:
    """A call that reached its tool."""

    key: str
    arguments: dict[str, Any]


@dataclass
class Result:
    """What came of one run. `done`: every step was made by a right tool with right arguments, in their order. `clean`: and
    no other call reached a tool."""

    job: str
    mode: str
    first_move: str = "prose"
    """What the first call of the first reply was: a `right` tool (through a bridge, too), a `search`, a `core` tool, a `wrong`
    one of the catalog, an `invented` name; `prose` where there was none."""
    first_right: bool = False
    """Whether that call was for a right tool, and its arguments were right, too."""
    right_tool: bool = False
    done: bool = False
    clean: bool = False
    gave_up: bool = False
    """It stopped calling, and had not done it."""
    turns: int = 0
    prompt_tokens: int = 0
    """Of all requests, as the server counts them; estimated where it does not."""
    output_tokens: int = 0
    offered_tokens: int = 0
    """Definitions in a request, estimated."""
    invented: list[str] = field(default_factory=list[str])
    refused: int = 0
    """Calls that reached no tool."""
    seconds: float = 0.0
    calls: list[Any] = field(default_factory=list[Any])
    """What the model wrote, reply by reply."""
    text: str = ""
    error: str = ""

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


def jobs(wording: str = "plain") -> dict[str, Job]:
    """The tasks in one wording, `plain` or `roundabout`, and then the scenarios, by id."""
    scenarios = (_scenario(one) for one in fixtures()["scenarios"])
    return {job.id: job for job in [*(_job(task, wording) for task in TASKS), *scenarios]}


def _job(task: Task, wording: str) -> Job:
    prompt = task.plain if wording == "plain" else task.roundabout
    return Job(task.id, prompt, [task.right], dict.fromkeys(task.right, task.answer))


def _scenario(one: Mapping[str, Any]) -> Job:
    letter = one["id"][0]
    expected: Mapping[str, Mapping[str, Any]] = one.get("expected_arguments", {})
    steps: list[dict[str, dict[str, str]]] = []
    for name in one["expected_underlying_tools"]:
        patterns = {key: f"^{re.escape(str(value))}$" for key, value in expected.get(name, {}).items()}
        steps.append({"core/read_file" if name == "read_file" else f"mcp-fake/{name}": patterns})
    if steps:
        (key, patterns), *_ = steps[-1].items()
        steps[-1] = {key: {**patterns, **MEANT[letter]}}
    final = one.get("expected_final_contains", "") if not steps else ""
    return Job(letter, one["prompt"], steps, files=one.get("fixture_files", {}), final=final, scenario=True)


class Executors:
    """Stand behind all tools of a run: they record each call, and answer."""

    def __init__(self, job: Job, *, shown: Sequence[str] | None = None) -> None:
        self.called: list[Called] = []
        self._job = job
        core = core_tools(job.files, self.execute)
        if job.scenario:
            given = [*deferrable_tools(False, lambda name, arguments: self._note(f"mcp-fake/{name}", arguments))]
        else:
            given = [tool for tool in catalog(self.execute) if shown is None or key_of(tool) in shown]
        self.tools: list[Tool] = [*core, *given]

    def _note(self, key: str, arguments: dict[str, Any]) -> None:
        self.called.append(Called(key, dict(arguments)))

    def execute(self, key: str, arguments: dict[str, Any]) -> str:
        self._note(key, arguments)
        for step in self._job.steps:
            if key in step and says(arguments, step[key]):
                return self._job.answers.get(key, "done")
        return plain_answer(key)


async def play(
    job: Job, mode: str, model: Model, *, limits: Limits, settings: Mapping[str, Any], plugins: Sequence[str] = (),
    store: Store | None = None,
) -> Result:  # fmt: skip
    """Run one job in one mode. `settings` are more of tool_search; `plugins` are installed ones to load beside it. With a `store` all
    jobs of a mode are prompts of one session in it."""
    right = list(dict.fromkeys(key for step in job.steps for key in step))
    executors = Executors(job, shown=neighbours(right, SHOWN_WHEN_OFF) if mode == "off" and not job.scenario else None)
    watched = recorder("after_tools_resolved", "after_model_call", "after_tool_call")
    chosen = MODES[mode]
    config = {"plugins": {"tool_search": {"config": {**supported(chosen), **settings}}}} if chosen is not None else {}
    searching = ["tool_search"] if chosen is not None else [ThreeBridges]
    result = Result(job.id, mode)
    began = time.monotonic()
    async with (
        open_host(*searching, *plugins, watched, config=config, store=store) as host,
        host.session(mode if store else job.id) as session,
    ):
        before = len(session.messages)
        outcome = await run_agent(session, model, job.prompt, tools=executors.tools, system=SYSTEM, limits=limits)
        messages = list(session.messages)[before:]
    result.seconds = round(time.monotonic() - began, 1)
    read(result, job, executors.called, watched, messages, outcome, settings.get("names", {}))
    return result


async def prefetched(
    all_jobs: Sequence[Job], count: int, budget: int, *, one_session: bool = False
) -> tuple[int, int, int]:
    """For how many tasks a right tool is among as many prefetched ones, within as many tokens; for how many more it is among the
    signatures behind the prompt; and the mean of the tokens of both. No model is asked. In `one_session` the tasks are prompts of
    one, else each has its own."""
    chosen = {"enabled": "on", "prefetch": count, "prefetch_tokens": budget, "reveal": "off"}
    shown, behind, tokens = 0, 0, 0
    async with open_host("tool_search", config={"plugins": {"tool_search": {"config": chosen}}}) as host:
        for job in all_jobs:
            async with (
                host.session("all" if one_session else job.id) as session,
                session.run(job.prompt, context_window=32_768) as run,
            ):
                offered = await run.resolve_tools(Executors(job).tools)
                await run.record({"role": "user", "content": job.prompt})
                added = (await run.prepare_messages()).added
                right = [tool for tool in run.tools if key_of(tool) in job.steps[0]]
                is_shown = any(tool in offered for tool in right)
                shown += is_shown
                behind += not is_shown and any(f"\n- {tool.name}(" in text for tool in right for text in added)
                tokens += run.stats["tokens_offered"] + sum(map(schema.estimate_tokens, added))
    return shown, behind, tokens // len(all_jobs)


def supported(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Those that the installed tool_search has."""
    from builtin_plugins.tool_search import ToolSearch

    return {name: value for name, value in settings.items() if name in ToolSearch.Config.model_fields}


def available(mode: str) -> str:
    """Why a mode cannot be played here; empty where it can."""
    from builtin_plugins.tool_search import ToolSearch

    lacking = {"code": "pydantic_monty", "bridges": "rank_bm25"}.get(mode)
    if lacking and not find_spec(lacking):
        return f"{lacking} is not installed"
    if "prefetch" in mode and "prefetch" not in ToolSearch.Config.model_fields:
        return "this version of tool_search has no prefetch"
    return ""


# What is counted.


def read(
    result: Result, job: Job, called: Sequence[Called], watched: type[Recorder], messages: Sequence[Mapping[str, Any]],
    outcome: Outcome, names: Mapping[str, str],
) -> None:  # fmt: skip
    resolved = watched.of(AfterToolsResolved)[0]
    bridges = {names.get(name, name): name for name in BRIDGE_NAMES}
    result.turns, result.text = outcome.turns, outcome.text
    result.offered_tokens = outcome.stats["tokens_offered"]
    result.done = is_done(job, called) and job.final in outcome.text
    result.right_tool = result.done or all(any(one.key in step for one in called) for step in job.steps or [{}])
    result.clean = result.done and len(called) == len(job.steps)
    result.gave_up = not result.done and outcome.reason == "completed"
    ended = watched.of(AfterToolCall)
    result.refused = sum(event.status in ("blocked", "invalid", "unknown") for event in ended) + sum(
        event.status == "error" and (event.tool is None or event.tool.bridge) for event in ended
    )
    for event in watched.of(AfterModelCall):
        count(result, event.usage or {})
    replies = [message for message in messages if message["role"] == "assistant"]
    result.calls = [[each["function"] for each in reply.get("tool_calls") or ()] for reply in replies]
    written = [meant(each, bridges) for reply in result.calls for each in reply]
    result.invented = [name for name, _ in written if kind(name, resolved.catalog, bridges) == "invented"]
    if result.calls and result.calls[0]:
        judge_first_move(result, job, *written[0], resolved.catalog, bridges)
    if not result.output_tokens:
        result.output_tokens = sum(map(schema.estimate_tokens, replies))


def is_done(job: Job, called: Sequence[Called]) -> bool:
    """Whether the steps are among the calls, in their order; where there are none, whether nothing was called."""
    if not job.steps:
        return not called
    rest = iter(called)
    return all(any(one.key in step and says(one.arguments, step[one.key]) for one in rest) for step in job.steps)


def count(result: Result, usage: Mapping[str, Any]) -> None:
    result.prompt_tokens += usage.get("prompt_tokens") or usage.get("input_tokens") or 0
    result.output_tokens += usage.get("completion_tokens") or usage.get("output_tokens") or 0


def meant(function: Mapping[str, str], bridges: Mapping[str, str]) -> tuple[str, dict[str, Any]]:
    """The name and the arguments of a call, or of the one that it wraps."""
    arguments = _object_in(function["arguments"])
    if bridges.get(function["name"]) == "tool_call" and "name" in arguments:
        return str(arguments["name"]), _object_in(arguments.get("arguments"))
    return function["name"], arguments


def _object_in(value: object) -> dict[str, Any]:
    try:
        return schema.parse_arguments(value)
    except schema.BadArguments:
        return {}


def kind(name: str, catalog: Catalog, bridges: Mapping[str, str]) -> str:
    if name in bridges:
        return "search"
    tool = catalog.get(name)
    if tool is None:
        return "invented"
    return "core" if tool.core else "wrong"


def judge_first_move(
    result: Result, job: Job, name: str, arguments: Mapping[str, Any], catalog: Catalog, bridges: Mapping[str, str]
) -> None:
    result.first_move = kind(name, catalog, bridges)
    tool = catalog.get(name)
    first: Mapping[str, Mapping[str, str]] = job.steps[0] if job.steps else {}
    if tool is not None and (key := key_of(tool)) in first:
        result.first_move, result.first_right = "right", says(arguments, first[key])
