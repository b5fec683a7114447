"""The 20-tool scenarios of Hermes Agent's tool search, played with every tool shown, with tool search, and with code mode.

    python benchmarks/scenarios.py [--json] [--mode off|tools|code|prefetch|native|added ...] [--keep DIR]

Several modes are given as `--mode off code` or as `--mode off --mode code`; without it all are played.

Each scenario runs over the whole stack: `run_agent`, a host with the tool_search plugin, `OpenAIModel` over HTTP (where the
provider hides the tools `OpenAIResponsesModel`), and on
the other side a `ScriptedServer` whose model (`_scenario_model.py`) goes by what the request holds and nothing else. First
with the 20 tools and four core tools, then with the 527 tools of livemcp around the 20.

Tokens are estimated (characters of the JSON as sent / 4). The price of a prompt is told in tokens at full input price. With
a cache, what a request has in common with the request before it in the same run, from its beginning (tools first, then
messages), counts a tenth, as with the large providers; their smallest cached length and the price of writing to the cache
are left out. Without a cache it is the sum of all prompts.

`--keep` writes one file for each run with its transcript, redacted: roles, names of tools and of parameters, types, lengths
and keyed hashes (the key is never written, so the hashes tell only which texts are the same), but no text and no value.
"""

from __future__ import annotations

import argparse
import json
import re
import secrets
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from importlib.util import find_spec
from itertools import takewhile
from pathlib import Path
from typing import Any, cast

import anyio
from _scenario_model import plan_of, scripted_agent
from _scenario_tools import core_tools, deferrable_tools, fixtures

from builtin_plugins.tool_search.rankers import Document, load_ranker
from hooksdk import Catalog, schema
from hooksdk.agent import Limits, Outcome, run_agent
from hooksdk.formats import get_format
from hooksdk.hooks import AfterToolCall, AfterToolsResolved, BeforeToolCall, RewriteToolCall, TransformToolResult
from hooksdk.models.openai import OpenAIModel
from hooksdk.models.openai_responses import OpenAIResponsesModel
from hooksdk.testing import Recorder, open_host, recorder
from hooksdk.testing.server import ScriptedServer
from hooksdk.tools import Deferral

MODES = ("off", "tools", "code", "prefetch", "native", "added")
"""`tools` and `code` are the bridge alone; `prefetch` is tool search as it is by default. In `native` the provider hides the tools, in
`added` what a prompt asks for is added at the conversation's end as well: both by default where the provider can."""
NATIVE: Mapping[str, Deferral] = {"native": "search", "added": "additions"}
JUDGING = {
    "rewrite_tool_call": RewriteToolCall, "before_tool_call": BeforeToolCall,
    "transform_tool_result": TransformToolResult, "after_tool_call": AfterToolCall,
}  # fmt: skip
BRIDGES = frozenset({"tool_search", "tool_describe", "tool_call", "tool_search_code"})
SEEN_BY_HOOKS = BRIDGES - {"tool_call"}
"""Bridge tools that policies see under their own names."""
SYSTEM = "You are a test agent. Do the task with the tools, and be concise. Today is 2026-05-24."
CACHED_PRICE = 0.1
MOST_TURNS = 15
MEANT = {
    "A": ["crashes immediately"],
    "B": ["2026-05-25T10:00"],
    "C": [r"\b1\b"],
    "D": ["Hello from the test fixture"],
}
"""What the arguments must say beside the expected ones, by scenario."""
SECRET = secrets.token_bytes(16)


@dataclass(frozen=True)
class Called:
    """One call as the tool's own handler got it."""

    tool: str
    arguments: dict[str, Any]
    at: float


@dataclass
class Record:
    """What came of one run."""

    scenario: str
    mode: str
    tools: int
    problems: list[str] = field(default_factory=list[str])
    """The pass rules that it broke; none when it passed."""
    turns: int = 0
    bridge_calls: list[str] = field(default_factory=list[str])
    underlying_calls: list[str] = field(default_factory=list[str])
    schema_tokens: list[int] = field(default_factory=list[int])
    """Tokens of the tool definitions, turn by turn."""
    prompt_tokens: list[int] = field(default_factory=list[int])
    """Tokens of definitions and messages, turn by turn."""
    output_tokens: int = 0
    cached_price: int = 0
    """The prompts in tokens at full price, with a cache; without one it is `sum(prompt_tokens)`."""
    warm_price: int = 0
    """The same where an earlier run has left the tool definitions in the cache."""
    seconds_to_first_call: float | None = None
    hallucinated_names: list[str] = field(default_factory=list[str])
    core_through_bridge: list[str] = field(default_factory=list[str])
    hooks_saw: list[str] = field(default_factory=list[str])
    messages: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]], repr=False)

    @property
    def passed(self) -> bool:
        return not self.problems

    def as_json(self) -> dict[str, Any]:
        """The record as JSON, without the transcript."""
        return {"passed": self.passed, **{name: value for name, value in vars(self).items() if name != "messages"}}


# One run.


async def play(scenario: Mapping[str, Any], mode: str, around: bool, **search: Any) -> Record:
    """Run one scenario, and check it against the pass rules. `search` are more settings of tool_search."""
    called: list[Called] = []

    def log(name: str, arguments: dict[str, Any]) -> None:
        called.append(Called(name, dict(arguments), time.perf_counter()))

    watched = recorder("after_tools_resolved", *JUDGING)
    bare = {} if mode in ("prefetch", *NATIVE) else {"mode": mode, "prefetch": 0, "reveal": "off"}
    settings = {"enabled": "off"} if mode == "off" else {"enabled": "on", **bare, **search}
    config = {"plugins": {"tool_search": {"config": settings}}}
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        for name, text in scenario.get("fixture_files", {}).items():
            (folder / name).write_text(text, "utf-8")
        tools = [*core_tools(folder, log), *deferrable_tools(around, log)]
        async with (
            ScriptedServer(scripted_agent(scenario["prompt"], plan_of(scenario))) as server,
            model_of(server, mode) as model,
            open_host("tool_search", watched, config=config) as host,
            host.session("scenario") as session,
        ):
            began = time.perf_counter()
            limits = Limits(turns=MOST_TURNS)
            outcome = await run_agent(
                session, model, scenario["prompt"], tools=tools, system=SYSTEM, limits=limits, workspace_dir=place
            )
            messages = as_chat(session.messages) if mode in NATIVE else list(session.messages)
    record = Record(scenario["id"], mode, len(tools) - len(fixtures()["core_tools_visible"]))
    record.messages = messages
    record.turns = outcome.turns
    record.underlying_calls = [one.tool for one in called]
    record.seconds_to_first_call = round(called[0].at - began, 4) if called else None
    measure_tokens(record, [request.body for request in server.requests])
    catalog = watched.of(AfterToolsResolved)[0].catalog
    read_calls(record, watched, catalog)
    record.problems = list(broken_rules(scenario, record, called, watched, catalog, outcome))
    return record


def model_of(server: ScriptedServer, mode: str) -> OpenAIModel | OpenAIResponsesModel:
    if mode not in NATIVE:
        return OpenAIModel("scripted", base_url=server.openai_url, api_key="none", context_window=200_000)
    return OpenAIResponsesModel(
        "scripted", base_url=server.openai_url, api_key="none", context_window=200_000, deferral=NATIVE[mode]
    )


def as_chat(items: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The items of Responses as messages of the other API, as far as they are looked at here."""
    form, messages = get_format("openai-responses"), list[dict[str, Any]]()
    for item in items:
        calls = form.calls(item)
        written = [{"function": {"name": one.name, "arguments": json.dumps(json_of(one.arguments))}} for one in calls]
        role = "assistant" if form.is_reply(item) else item.get("role", "tool")
        messages.append({"role": role, "content": form.text(item), **({"tool_calls": written} if written else {})})
    return messages


def json_of(arguments: Any) -> Any:
    return json.loads(arguments) if isinstance(arguments, str) else arguments


def measure_tokens(record: Record, requests: Sequence[dict[str, Any]]) -> None:
    prompts = [[*body["tools"], *body.get("messages", body.get("input", ()))] for body in requests]
    record.schema_tokens = [estimated(body["tools"]) for body in requests]
    record.prompt_tokens = [estimated(parts) for parts in prompts]
    record.cached_price = price(prompts, [])
    record.warm_price = price(prompts, requests[0]["tools"])
    replies = (one for one in record.messages if one["role"] == "assistant")
    record.output_tokens = sum(schema.estimate_tokens(one) for one in replies)


def price(prompts: Sequence[Sequence[object]], cached: Sequence[object]) -> int:
    """What the prompts cost in tokens at full price, where each finds the one before it in the cache."""
    total = 0.0
    for before, parts in zip([cached, *prompts], prompts, strict=False):
        known = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(before, parts, strict=False)))
        total += CACHED_PRICE * estimated(parts[:known]) + estimated(parts[known:])
    return round(total)


def estimated(parts: Sequence[object]) -> int:
    return schema.estimate_tokens(list(parts)) if parts else 0


def read_calls(record: Record, watched: type[Recorder], catalog: Catalog) -> None:
    """What the model wrote into its replies, and which names hooks saw of it."""
    names: list[str] = []
    for call in (call for message in record.messages for call in message.get("tool_calls", ())):
        name, inner = call["function"]["name"], json.loads(call["function"]["arguments"]).get("name")
        if name in BRIDGES:
            record.bridge_calls.append(name)
        names.append(str(inner) if name == "tool_call" else name)
        if name == "tool_call" and (tool := catalog.get(str(inner))) and tool.core:
            record.core_through_bridge.append(tool.name)
    for event in watched.of(AfterToolCall):
        if event.call.origin == "code":
            names.append(event.call.name)
            if event.tool and event.tool.core:
                record.core_through_bridge.append(event.tool.name)
    record.hallucinated_names = [name for name in names if name not in catalog and name not in BRIDGES]
    events = (event for kind in JUDGING.values() for event in watched.of(kind))
    record.hooks_saw = sorted({event.call.name for event in events})


def broken_rules(
    scenario: Mapping[str, Any], record: Record, called: Sequence[Called], watched: type[Recorder], catalog: Catalog,
    outcome: Outcome,
) -> Iterator[str]:  # fmt: skip
    """The pass rules of the scenarios, and those that this project adds."""
    expected: list[str] = scenario["expected_underlying_tools"]
    if record.underlying_calls != expected:
        yield f"called {record.underlying_calls}, not {expected}"
    for one in called:
        expected_arguments: dict[str, Any] = scenario.get("expected_arguments", {}).get(one.tool, {})
        wrong = [name for name, value in expected_arguments.items() if one.arguments.get(name) != value]
        if wrong:
            yield f"{one.tool} got {', '.join(wrong)} wrong"
    text = json.dumps([one.arguments for one in called])
    for pattern in MEANT.get(scenario["id"][0], ()):
        if not re.search(pattern, text):
            yield f"no argument says {pattern}"
    if record.hallucinated_names:
        yield f"called {record.hallucinated_names}, which do not exist"
    if record.core_through_bridge:
        yield f"called {record.core_through_bridge} through the bridge"
    if not expected and record.bridge_calls:
        yield "used the bridge where no tool was needed"
    strange = [name for name in record.hooks_saw if name not in catalog and name not in SEEN_BY_HOOKS]
    if strange:
        yield f"hooks saw {strange}"
    judged = [event.tool.own_name for event in watched.of(BeforeToolCall) if event.call.name not in BRIDGES]
    if judged != record.underlying_calls:
        yield f"policies judged {judged}"
    answer = scenario.get("expected_final_contains", "done")
    if answer not in outcome.text:
        yield f"the answer does not say {answer!r}"


def keep(records: Sequence[Record], folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for one in records:
        content = {"record": one.as_json(), "messages": [redact(message) for message in one.messages]}
        path = folder / f"{one.tools}_{one.mode}_{one.scenario}.json"
        path.write_text(json.dumps(content, indent=1, ensure_ascii=False), "utf-8")


def redact(message: Mapping[str, Any]) -> dict[str, Any]:
    """A message without any text or value of it."""
    calls: list[dict[str, Any]] = []
    for call in message.get("tool_calls", ()):
        arguments = json.loads(call["function"]["arguments"])
        # The name inside tool_call is a tool's, not something that the user said.
        name_field = {"name": arguments.pop("name")} if call["function"]["name"] == "tool_call" else {}
        calls.append({"name": call["function"]["name"], "arguments": {**name_field, **shape(arguments)}})
    return {"role": message["role"], "content": shape(message.get("content")), "calls": calls}


def shape(value: Any) -> Any:
    """Names of parameters, types, lengths and keyed hashes."""
    if isinstance(value, dict):
        return {key: shape(each) for key, each in cast("dict[str, Any]", value).items()}
    if isinstance(value, list):
        return [shape(each) for each in cast("list[Any]", value)]
    if isinstance(value, str):
        return {"characters": len(value), "hash": blake2b(value.encode(), key=SECRET, digest_size=6).hexdigest()}
    return type(value).__name__


# The search probes.


def probe(ranker: str, around: bool) -> dict[str, Any]:
    """At which rank each probe's tool is found; None where it is not among the first 50."""
    tools = list(deferrable_tools(around))
    documents = [
        Document(id=tool.id, name=tool.name, description=tool.description, parameters=tool.parameters, owner=tool.owner)
        for tool in tools
    ]  # fmt: skip
    ids = {tool.name: tool.id for tool in tools if tool.owner == fixtures()["tools"][0]["toolset"]}
    ranker_of_tools = load_ranker(ranker)(documents)
    ranks: dict[str, int | None] = {}
    for one in fixtures()["search_probes"]:
        hits = [hit.id for hit in ranker_of_tools.search(one["query"], 50)]
        right = ids[one["expect"]]
        ranks[one["query"]] = hits.index(right) + 1 if right in hits else None
    return {"ranker": ranker, "tools": len(tools), "ranks": ranks}


def probe_all() -> list[dict[str, Any]]:
    rankers = ["bm25", *(["rank-bm25"] if find_spec("rank_bm25") else [])]
    return [probe(ranker, around) for ranker in rankers for around in (False, True)]


async def play_all(modes: Sequence[str]) -> list[Record]:
    """Every scenario in every mode, at both sizes."""
    return [
        await play(scenario, mode, around)
        for around in (False, True)
        for scenario in fixtures()["scenarios"]
        for mode in modes
    ]


def show(records: Sequence[Record], probes: Sequence[Mapping[str, Any]]) -> None:
    modes = list(dict.fromkeys(one.mode for one in records))
    print(f"The values of a cell: {'/'.join(modes)}\n")
    print_head("tools", "scenario", "turns", "bridge calls", "output")
    for row in turn_rows(records):
        print_row(*row)
    print("\nPrompt tokens\n")
    print_head("tools", "scenario", *modes)
    for row in prompt_rows(records):
        print_row(*row)
    print()
    print_head("tools", "mode", "schemas a turn", "prompts of all scenarios", "cached", "schemas cached before")
    for row in mode_rows(records):
        print_row(*row)
    print()
    print_head("ranker", "tools", "probes first", "in the first 5", "rank of the others")
    for result in probes:
        print_row(*probe_row(result))
    for one in records:
        if one.problems:
            problems = "; ".join([*one.problems, f"it ended with {one.messages[-1].get('content')!r}"])
            print(f"{one.tools} tools, {one.scenario}, {one.mode}: {problems}", file=sys.stderr)


def turn_rows(records: Sequence[Record]) -> Iterator[list[str]]:
    """A row for each size and scenario, with the values of the modes beside each other."""
    for tools, scenario, runs in by_scenario(records):
        columns = [
            [one.turns for one in runs],
            [len(one.bridge_calls) for one in runs],
            [one.output_tokens for one in runs],
        ]
        yield [str(tools), scenario, *("/".join(map(str, values)) for values in columns)]


def prompt_rows(records: Sequence[Record]) -> Iterator[list[str]]:
    """A row for each size and scenario, with the prompt tokens of each mode."""
    for tools, scenario, runs in by_scenario(records):
        yield [str(tools), scenario, *(f"{sum(one.prompt_tokens):,}" for one in runs)]


def by_scenario(records: Sequence[Record]) -> Iterator[tuple[int, str, list[Record]]]:
    for tools, scenario in dict.fromkeys((one.tools, one.scenario) for one in records):
        yield tools, scenario[0], [one for one in records if (one.tools, one.scenario) == (tools, scenario)]


def mode_rows(records: Sequence[Record]) -> Iterator[list[str]]:
    """A row for each mode and size, over all scenarios."""
    for tools, mode in dict.fromkeys((one.tools, one.mode) for one in records):
        runs = [one for one in records if (one.tools, one.mode) == (tools, mode)]
        prices = [(sum(one.prompt_tokens), one.cached_price, one.warm_price) for one in runs]
        totals = [f"{sum(price):,}" for price in zip(*prices, strict=True)]
        yield [str(tools), mode, f"{runs[0].schema_tokens[0]:,}", *totals]


def probe_row(probe: Mapping[str, Any]) -> list[str]:
    """How many probes of a ranker come first, how many among the first five, and where the others are."""
    ranks: dict[str, int | None] = probe["ranks"]
    first, five = (sum(rank is not None and rank <= most for rank in ranks.values()) for most in (1, 5))
    rest = "; ".join(f"{query} ({rank or 'none'})" for query, rank in ranks.items() if rank != 1)
    return [probe["ranker"], str(probe["tools"]), f"{first} of {len(ranks)}", str(five), rest]


def print_head(*names: str) -> None:
    print_row(*names)
    print(f"|{'---|' * len(names)}")


def print_row(*cells: object) -> None:
    print(f"| {' | '.join(map(str, cells))} |")


def read_options(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true")
    parser.add_argument(
        "--mode",
        nargs="+",
        action="extend",
        choices=MODES,
        help="one or several, also given more than once; all by default",
    )
    parser.add_argument("--keep", type=Path, metavar="DIR", help="write the redacted transcripts into this folder")
    return parser.parse_args(arguments)


def main() -> None:
    options = read_options()
    modes = [mode for mode in MODES if mode in (options.mode or MODES)]
    if "code" in modes and not find_spec("pydantic_monty"):
        print("left out: code mode, which needs the extra `code`", file=sys.stderr)
        modes.remove("code")
    records, probes = anyio.run(play_all, modes), probe_all()
    if options.keep:
        keep(records, options.keep)
    if options.json:
        runs = [one.as_json() for one in records]
        print(json.dumps({"schema": 1, "runs": runs, "probes": probes}, indent=2, ensure_ascii=False))
    else:
        show(records, probes)
    sys.exit(any(not one.passed for one in records))


if __name__ == "__main__":
    main()
