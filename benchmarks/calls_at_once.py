"""A job of one call and ten that follow from it, made in each way that there is: its turns, and what the prompts cost.

    python benchmarks/calls_at_once.py [--json]

The job: list the ten open issues of a repository, show each (answers of 1.7 kB), and say how many votes they have together.
It runs over 529 tools, livemcp's 527 and the two of the job, over the whole stack: `run_agent`, a host with the tool_search
plugin, `OpenAIModel` over HTTP, a `ScriptedServer` on the other side. The model is a script that knows both tools once it has
seen their names, in a definition or a hit, and makes no slips; each way is one habit of a model:

- every schema: tool search is off
- bridge: the bridge alone (`prefetch = 0`, `reveal = "off"`)
- default: tool search as it comes
- code: code mode, a script that searches and one that calls; and two scripts where the second works with what the first has
  left

"One a turn", "ten in one reply" (calls side by side, as large models write them) and "ten in one call" (a batch of `tool_call`)
say how the ten are made. Tokens are estimated: characters of tools and messages as sent, by four.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from typing import Any

import anyio
from _scenario_tools import deferrable_tools, fixtures

from hooksdk import Tool, schema
from hooksdk.agent import Limits, run_agent
from hooksdk.models.openai import OpenAIModel
from hooksdk.testing import Call, Turn, call, open_host
from hooksdk.testing.server import ScriptedServer

COUNT = 10
BODY = 1_700
PROMPT = "How many votes do the open issues of shop/web have together? Look at each of them."
ANSWER = str(sum(range(COUNT)))
BARE = {"prefetch": 0, "reveal": "off"}


@dataclass(frozen=True)
class Way:
    """One way to do the job."""

    name: str
    calls: str
    settings: dict[str, Any]
    model: Callable[[Turn], Any]


@dataclass(frozen=True)
class Record:
    """What came of it."""

    way: str
    calls: str
    turns: int
    prompt_tokens: int
    output_tokens: int
    largest_prompt: int


def tools() -> list[Tool]:
    """The two of the job, and livemcp's around them."""

    def tool_of(name: str, description: str, key: str, kind: str, execute: Callable[..., Any]) -> Tool:
        parameters = {"type": "object", "properties": {key: {"type": kind}}, "required": [key]}
        return Tool(
            name=name, description=description, parameters=parameters, source="mcp", owner="tracker", execute=execute
        )

    def open_issues(_: dict[str, Any]) -> str:
        return json.dumps([{"number": number, "title": f"Issue {number}"} for number in range(COUNT)])

    def show_issue(arguments: dict[str, Any]) -> str:
        issue = {"number": arguments["number"], "votes": arguments["number"], "body": ""}
        return json.dumps({**issue, "body": "x" * (BODY - len(json.dumps(issue)))})

    around = [*deferrable_tools(around=True)][len(fixtures()["tools"]) :]
    job = [
        tool_of("list_open_issues", "List the open issues of a repository.", "repository", "string", open_issues),
        tool_of("show_issue", "Show one issue of a repository with its votes.", "number", "integer", show_issue),
    ]
    return [*around, *job]


LISTING = ("list_open_issues", {"repository": "shop/web"})
SHOWING = [("show_issue", {"number": number}) for number in range(COUNT)]
SEARCH = call("tool_search", queries=["list the open issues of a repository", "show one issue"])


def directly(one: tuple[str, dict[str, Any]]) -> Call:
    return call(one[0], **one[1])


def bridged(one: tuple[str, dict[str, Any]]) -> Call:
    return call("tool_call", name=one[0], arguments=one[1])


def batch(ones: Sequence[tuple[str, dict[str, Any]]]) -> Call:
    return call("tool_call", calls=[{"name": name, "arguments": arguments} for name, arguments in ones])


def in_steps(*steps: Any) -> Callable[[Turn], Any]:
    """A model that makes these replies in turn, and then says what it read."""

    def reply(turn: Turn) -> Any:
        return steps[turn.number - 1] if turn.number <= len(steps) else ANSWER

    return reply


SEARCHING_SCRIPT = (
    'for hit in await search(["list the open issues of a repository", "show one issue"], 2): print(hit["call"])'
)
FETCHING_SCRIPT = """\
listed = await call("list_open_issues", repository="shop/web")
issues = await asyncio.gather(*[call("show_issue", number=one["number"]) for one in listed])"""
COUNTING_SCRIPT = 'sum(issue["votes"] for issue in issues)'


def code(text: str) -> Call:
    return call("tool_search_code", code=text)


def ways() -> Iterator[Way]:
    """Each way, the dearest first."""
    off = {"enabled": "off"}
    for name, settings, made, before in (
        ("every schema", off, directly, ()),
        ("bridge", {"enabled": "on", **BARE}, bridged, (SEARCH,)),
        ("default", {"enabled": "on"}, directly, ()),
    ):
        first = (*before, made(LISTING))
        yield Way(name, "one a turn", settings, in_steps(*first, *map(made, SHOWING)))
        yield Way(name, "ten in one reply", settings, in_steps(*first, [made(one) for one in SHOWING]))
        if settings is not off:
            yield Way(name, "ten in one call", settings, in_steps(*first, batch(SHOWING)))
    if find_spec("pydantic_monty"):
        settings = {"enabled": "on", "mode": "code", **BARE}
        both = in_steps(code(SEARCHING_SCRIPT), code(f"{FETCHING_SCRIPT}\n{COUNTING_SCRIPT}"))
        yield Way("code", "in one script", settings, both)
        apart = in_steps(code(SEARCHING_SCRIPT), code(FETCHING_SCRIPT), code(COUNTING_SCRIPT))
        yield Way("code", "in one script, counted in the next", settings, apart)


async def measure(way: Way) -> Record:
    """Do the job in this way. Raises where the tools were not all called, or a call went wrong."""
    config = {"plugins": {"tool_search": {"config": way.settings}}}
    async with (
        ScriptedServer(way.model) as server,
        OpenAIModel("scripted", base_url=server.openai_url, api_key="none", context_window=200_000) as model,
        open_host("tool_search", config=config) as host,
        host.session("job") as session,
    ):
        outcome = await run_agent(session, model, PROMPT, tools=tools(), limits=Limits(turns=COUNT + 5))
        messages = list(session.messages)
    prompts = [schema.estimate_tokens([*one.body["tools"], *one.body["messages"]]) for one in server.requests]
    replies = [one for one in messages if one["role"] == "assistant"]
    last = [str(one["content"]) for one in messages if one["role"] == "tool"][-1]
    answered = f'"value":{ANSWER}' in last if way.name == "code" else last.count(f'"votes": {COUNT - 1}') == 1
    shown = {one["function"]["name"] for one in server.requests[0].body["tools"]}
    answered = answered and (way.name != "default" or {LISTING[0], SHOWING[0][0]} <= shown)
    if outcome.text != ANSWER or not answered:
        raise AssertionError(f"{way.name}, {way.calls}: the job was not done: {last[:300]}")
    return Record(
        way.name, way.calls, outcome.turns, sum(prompts), sum(map(schema.estimate_tokens, replies)), max(prompts)
    )


def cells(record: Record) -> list[str]:
    """A row of the table in the documentation."""
    numbers = (record.prompt_tokens, record.largest_prompt, record.output_tokens)
    return [record.way, record.calls, str(record.turns), *(f"{number:,}" for number in numbers)]


async def measure_all() -> list[Record]:
    return [await measure(way) for way in ways()]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="as JSON")
    options = parser.parse_args()
    records = anyio.run(measure_all)
    if options.json:
        print(json.dumps([asdict(one) for one in records], indent=2))
        return
    print("| way | the ten calls | turns | prompt tokens | largest prompt | output tokens |")
    print("|---|---|---|---|---|---|")
    for one in records:
        print(f"| {' | '.join(cells(one))} |")


if __name__ == "__main__":
    main()
