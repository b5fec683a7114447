"""What the tools cost in every prompt: all of them, and with tool search instead.

    python benchmarks/offered_tokens.py [--json]

Real catalogs from small to large: the 20 tools of the scenarios and the retrieval sets, and the five MCP
servers of `hooksdk demo`, which are started for it. What is not here is left out, and said on standard error; code mode
needs the extra `code`. Tokens are those of `run.stats`: characters of name, description and schema as compact JSON, by
four. The bridge is measured at a context window of 200,000, since a listing may take a tenth of the window; `auto` is asked
at 32,000 and at 200,000.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import anyio
from _data import data_folder

from hooksdk import Tool
from hooksdk.testing import open_host

DATA = data_folder()
SETS = ("livemcp", "bfcl_functions", "stabletoolbench", "sealtools")
ALL_SETS = ("bfcl_apis", "metatool", "nestful", *SETS)
WINDOW = 200_000
BRIDGES: dict[str, dict[str, Any]] = {
    "tools": {},
    "tools, listing": {"listing": True},
}
if find_spec("pydantic_monty"):
    BRIDGES.update({"code": {"mode": "code"}, "code, listing": {"mode": "code", "listing": True}})
AUTO_AT = (32_000, 200_000)


async def resolved(tools: Sequence[Tool], window: int, **settings: Any) -> Mapping[str, Any]:
    """The counters of a run that is given these tools."""
    config = {"plugins": {"tool_search": {"config": settings}}}
    async with (
        open_host("tool_search", config=config) as host,
        host.session("prompt") as session,
        session.run(context_window=window) as run,
    ):
        await run.resolve_tools(tools)
        return run.stats


async def measure(name: str, tools: Sequence[Tool]) -> dict[str, Any]:
    direct = await resolved(tools, WINDOW, enabled="off")
    bridged = {
        bridge: (await resolved(tools, WINDOW, enabled="on", **settings))["tokens_offered"]
        for bridge, settings in BRIDGES.items()
    }
    auto = {str(window): (await resolved(tools, window))["tools_offered"] < len(tools) for window in AUTO_AT}
    count = sum(direct["catalog"].values())
    return {"catalog": name, "tools": count, "direct": direct["tokens_offered"], "with_search": bridged, "auto": auto}


def tools_of(path: Path) -> list[Tool]:
    """The tools of a retrieval set; one without a server belongs to the set."""
    definitions = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
    return [
        Tool(
            name=one["name"], description=one["description"] or "", parameters=one["parameters"], source="mcp",
            owner=one["server"] or path.parent.name,
        )
        for one in definitions
    ]  # fmt: skip


def scenario_tools() -> list[Tool]:
    definitions = json.loads((DATA / "scenarios_20_tools.json").read_text("utf-8"))["tools"]
    return [
        Tool(name=one["name"], description=one["description"], parameters=one["parameters"], source="mcp", owner="fake")
        for one in definitions
    ]


async def demo_tools() -> list[Tool]:
    """What the servers of the demo list. Raises `ImportError` where its extra is not installed."""
    from hooksdk.cli._demo.real import PROGRAMS, installed
    from hooksdk.mcp import McpServers

    programs = installed()
    missing = [name for name in PROGRAMS if name not in programs]
    if missing:
        raise ImportError(f"no server {', '.join(missing)}")
    async with McpServers(programs, start_timeout=60.0) as servers:
        down = [status.name for status in servers.status.values() if status.state != "up"]
        if down:
            raise ImportError(f"{', '.join(down)} did not start")
        return [tool.copy(execute=None) for tool in servers.tools()]


async def catalogs() -> AsyncIterator[tuple[str, list[Tool]]]:
    retrieval = DATA / "retrieval"
    yield "scenarios", scenario_tools()
    try:
        yield "servers of the demo", await demo_tools()
    except ImportError as error:
        print(f"left out: the servers of the demo ({error})", file=sys.stderr)
    for name in SETS:
        yield name, tools_of(retrieval / name / "catalog.jsonl")
    yield "all seven sets", [tool for name in ALL_SETS for tool in tools_of(retrieval / name / "catalog.jsonl")]


def show(rows: Sequence[Mapping[str, Any]]) -> None:
    auto = " | ".join(f"auto at {window:,}" for window in AUTO_AT)
    print(f"| catalog | tools | direct | {' | '.join(BRIDGES)} | {auto} |")
    print("|---|---|---|" + "---|" * (len(BRIDGES) + len(AUTO_AT)))
    for row in rows:
        print(f"| {' | '.join(cells(row))} |")


def cells(row: Mapping[str, Any]) -> list[str]:
    """The row of one catalog as text."""
    offered = [f"{tokens:,}" for tokens in row["with_search"].values()]
    decided = ["searches" if active else "shows all" for active in row["auto"].values()]
    return [row["catalog"], f"{row['tools']:,}", f"{row['direct']:,}", *offered, *decided]


async def measure_all() -> list[dict[str, Any]]:
    return [await measure(name, tools) async for name, tools in catalogs()]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    rows = anyio.run(measure_all)
    if options.json:
        print(json.dumps({"schema": 1, "catalogs": rows}, indent=2))
    else:
        show(rows)


if __name__ == "__main__":
    main()
