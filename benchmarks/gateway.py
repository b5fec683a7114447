"""What a gateway in front of MCP servers costs, and what it does when they fail: hooksdk's beside others at their pinned versions.

    python benchmarks/gateway.py --folder FOLDER [--only NAME]... [--json FILE] [--data FOLDER]

Each gateway, and the servers git, time and excel, get an environment of their own in FOLDER, made with uv where it is there
and with venv and pip otherwise. One that does not install or does not start is told and left out; agent-mcp-gateway needs a
`python3.12` on the PATH. hooksdk is the one of this interpreter. The catalog of 1,860 tools is made of the data beside it; without it
that row stays empty. Progress is on stderr, the tables are Markdown on stdout, and all that was answered is in the JSON.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import re
import statistics
import sys
import tempfile
import time
import tracemalloc
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
from _data import data_folder
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client

HERE = Path(__file__).parent / "_gateways"
sys.path.append(str(HERE))

from rivals import DENIED, GATEWAYS, SERVERS, Call, Entries, Gateway, programs_of, progress  # noqa: E402

CATALOGS = data_folder() / "retrieval"
MANY = 1860
"""Tools, of which two are those of the server `time`."""
PATIENCE = 180
"""Seconds for a gateway to start, and for its list."""
GUARD = 45
"""Seconds for one call: the stalling one takes 15."""
TOKYO = {"timezone": "Asia/Tokyo"}
Row = dict[str, Any]


def entries(programs: Path, *more: str) -> Entries:
    """The servers by name: those of the kinds that are asked for."""
    faulty = [str(HERE / "faulty_server.py")]
    every: Entries = {
        "git": {"command": str(programs / "mcp-server-git")},
        "time": {"command": str(programs / "mcp-server-time")},
        "excel": {"command": str(programs / "excel-mcp-server"), "args": ["stdio"]},
        "faulty": {"command": sys.executable, "args": faulty},
        "broken": {"command": sys.executable, "args": [*faulty, str(HERE)]},  # a path that is there: it does not start
    }
    return {name: every[name] for name in more}


def many_tools(data: Path) -> list[Row]:
    """livemcp's tools, and as many of stabletoolbench as are needed, under names that occur once."""
    tools: dict[str, Row] = {}
    for name in ("livemcp", "stabletoolbench"):
        for line in (data / name / "catalog.jsonl").read_text("utf-8").splitlines():
            one = json.loads(line)
            parameters = {"type": "object", **(one["parameters"] or {})}
            unique = re.sub(r"[^A-Za-z0-9_-]", "_", one["name"])[:50]
            tools.setdefault(
                unique, {"name": unique, "description": one["description"] or "", "parameters": parameters}
            )
    return list(tools.values())[: MANY - 2]


# One gateway


@asynccontextmanager
async def connected(command: Sequence[str], env: dict[str, str], folder: Path) -> AsyncGenerator[Client]:
    # No variable of whoever runs this: a setting of a rival would change what is measured.
    kept = {name: os.environ[name] for name in ("PATH", "SYSTEMROOT", "LANG") if name in os.environ}
    parameters = StdioServerParameters(
        command=command[0], args=list(command[1:]), env={**kept, "HOME": str(folder), **env}, cwd=folder
    )
    with (folder / "stderr.txt").open("a", encoding="utf-8") as errors:
        async with Client(stdio_client(parameters, errlog=errors), mode="legacy") as client:
            yield client


@asynccontextmanager
async def standing(gateway: Gateway, folder: Path, home: Path, servers: Entries) -> AsyncGenerator[Client]:
    """A client of the gateway, in front of these servers. `home`: where its files are."""
    programs = programs_of(gateway.name, [gateway.package], gateway.python, folder) if gateway.package else folder
    started = gateway.start(programs, home, servers)
    async with connected(started.command, started.env, home) as client:
        yield client


def new_home() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(ignore_cleanup_errors=True)


async def listed(client: Client) -> Row:
    tools = [
        tool.model_dump(by_alias=True, mode="json", exclude_none=True) for tool in (await client.list_tools()).tools
    ]
    return {"tools": len(tools), "bytes": len(json.dumps(tools, separators=(",", ":"), ensure_ascii=False).encode())}


async def answer(client: Client, call: Call) -> Row:
    """What became of a call, as a client sees it. `text` is what a model reads."""
    began = time.perf_counter()
    try:
        with anyio.fail_after(GUARD):
            result = await client.call_tool(*call)
    except TimeoutError:
        return {"outcome": "hangs", "text": "", "kinds": [], "seconds": GUARD}
    except Exception as problem:  # the gateway's own errors are what is measured
        text, outcome, kinds, structured = str(problem), "protocol error", [], None
    else:
        outcome, text = (
            "error" if result.is_error else "answer",
            "\n".join(getattr(b, "text", "") for b in result.content),
        )
        kinds, structured = [block.type for block in result.content], result.structured_content
    return {
        "outcome": outcome, "text": text, "kinds": kinds, "structured": structured,
        "seconds": round(time.perf_counter() - began, 1),
    }  # fmt: skip


async def way_to(client: Client, gateway: Gateway, server: str, tool: str, words: str) -> Row:
    """Calls until a cold tool runs, and the bytes of text that are read before it."""
    before = [await answer(client, call) for call in gateway.way(server, tool, words)]
    return {
        "calls": len(before) + 1,
        "bytes": sum(len(one["text"].encode()) for one in before),
        "found": all(one["outcome"] == "answer" for one in before) and tool in before[-1]["text"],
    }


async def faults(client: Client, gateway: Gateway) -> Row:
    def call(server: str, tool: str, given: dict[str, Any] | None = None) -> Call:
        return gateway.bridge(server, tool, given or {})

    began = time.perf_counter()
    for warm in (call("time", "get_current_time", TOKYO), call("faulty", "picture")):
        for _ in range(30):
            if (await answer(client, warm))["outcome"] == "answer":
                break
            await anyio.sleep(1)  # its server may not be up yet
    row: Row = {"warm": round(time.perf_counter() - began, 1)}
    row["cold"] = await way_to(client, gateway, "excel", "read_range", "read cells of a worksheet")
    row["content"] = await answer(client, call("faulty", "picture"))
    row["is_error"] = await answer(client, call("faulty", "refuse"))
    row["arguments"] = await answer(client, call("time", "get_current_time", {"timezone": 5}))
    row["unknown"] = await answer(client, call("faulty", "no_such_tool"))
    row["denied_bridge"] = await answer(client, call("faulty", DENIED))
    bare = [await answer(client, (name, {})) for name in (DENIED, f"faulty_{DENIED}", f"faulty__{DENIED}")]
    row["denied_bare"] = next((one for one in bare if one["text"] == "DELETED"), bare[0])
    async with anyio.create_task_group() as group:

        async def stall() -> None:
            row["stalls"] = await answer(client, call("faulty", "stall"))

        group.start_soon(stall)
        await anyio.sleep(1)
        row["beside"] = await answer(client, call("time", "get_current_time", TOKYO))
    row["dies"] = await answer(client, call("faulty", "die"))
    row["next"] = await answer(client, call("faulty", "picture"))
    if row["next"]["outcome"] != "answer":  # a restart may wait
        await anyio.sleep(5)
        row["later"] = await answer(client, call("faulty", "picture"))
    row["others"] = await answer(client, call("time", "get_current_time", TOKYO))
    return row


async def measure(gateway: Gateway, folder: Path, programs: Path, catalog: Path | None) -> Row:
    row: Row = {"name": gateway.name, "title": gateway.title}
    real = entries(programs, "git", "time", "excel", "faulty")
    with new_home() as home:
        for start in ("first_start", "later_start"):
            progress(f"{gateway.name}: {start.replace('_', ' ')}")
            began = time.perf_counter()
            with anyio.fail_after(4 * PATIENCE):
                async with standing(gateway, folder, Path(home), real) as client:
                    seconds: Row = {"initialize": round(time.perf_counter() - began, 1)}
                    row["listing"] = await listed(client)
                    seconds["listed"] = round(time.perf_counter() - began, 1)
                    row[start] = seconds
                    if start == "later_start":
                        progress(f"{gateway.name}: faults")
                        row |= await faults(client, gateway)
    with new_home() as home:
        progress(f"{gateway.name}: a server that cannot start")
        row["broken"] = await one_start(gateway, folder, Path(home), entries(programs, "time", "broken"))
    if catalog is not None:
        with new_home() as home:
            progress(f"{gateway.name}: {MANY} tools")
            server = {"catalog": {"command": sys.executable, "args": [str(HERE / "catalog_server.py"), str(catalog)]}}
            server |= entries(programs, "time")
            try:
                with anyio.fail_after(PATIENCE):
                    async with standing(gateway, folder, Path(home), server) as client:
                        row["many"] = await listed(client)
                        row["many_cold"] = await way_to(
                            client, gateway, "catalog", "bing_search", "search the web with bing"
                        )
            except Exception as problem:
                row["many_failed"] = why(problem)
    return row


async def one_start(gateway: Gateway, folder: Path, home: Path, servers: Entries) -> Row:
    """Whether the other server works, where one cannot start."""
    try:
        with anyio.fail_after(PATIENCE):
            async with standing(gateway, folder, home, servers) as client:
                await client.list_tools()
                return await answer(client, gateway.bridge("time", "get_current_time", TOKYO))
    except Exception as problem:
        return {"outcome": "does not start", "text": why(problem)}


def why(problem: BaseException) -> str:
    while isinstance(problem, BaseExceptionGroup):
        problem = problem.exceptions[0]
    return f"{type(problem).__name__}: {problem}"


# All together


async def latencies(gateways: Sequence[Gateway], folder: Path, programs: Path, rounds: int) -> dict[str, float]:
    """Median milliseconds of a call of one small tool whose name is known, direct and through each, taking turns."""
    servers = entries(programs, "time", "faulty")
    taken: dict[str, list[float]] = {}
    async with AsyncExitStack() as stack:
        home = Path(stack.enter_context(new_home()))
        direct = await stack.enter_async_context(connected([servers["time"]["command"]], {}, home))
        calls: dict[str, tuple[Client, Call]] = {"direct": (direct, ("get_current_time", TOKYO))}
        for gateway in gateways:
            home = Path(stack.enter_context(new_home()))
            client = await stack.enter_async_context(standing(gateway, folder, home, servers))
            call = gateway.bridge("time", "get_current_time", TOKYO)
            first = await answer(client, call)
            if is_fine(first) == "yes":
                calls[gateway.name] = (client, call)
            else:
                progress(f"the latency of {gateway.name} is left out: {told(first)}")
        for number in range(rounds + 3):
            for name, (client, call) in calls.items():
                began = time.perf_counter()
                await client.call_tool(*call)
                if number >= 3:
                    taken.setdefault(name, []).append((time.perf_counter() - began) * 1000)
    return {name: round(statistics.median(values), 2) for name, values in taken.items()}


async def memory(calls: int) -> list[Row]:
    """What Python holds after more and more calls of one client through hooksdk's gateway, in this process."""
    from hooksdk import Host, Tool
    from hooksdk.gateway import Gateway as Served

    async def execute(arguments: dict[str, Any]) -> str:
        return f"done {arguments['text']} " * 50

    parameters = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}
    tool = Tool(name="work", source="mcp", owner="bench", description="Work.", parameters=parameters, execute=execute)

    class Source:
        def tools(self) -> list[Tool]:
            return [tool]

    marks = sorted({calls // 10, calls // 5, calls // 2, calls})
    rows: list[Row] = []
    async with Host() as host, Served(host, Source()) as gateway, Client(gateway.server()) as client:
        tracemalloc.start()
        for number in range(1, calls + 1):
            await client.call_tool("work", {"text": f"{number}"})
            if number in marks:
                gc.collect()
                rows.append({"calls": number, "kB": round(tracemalloc.get_traced_memory()[0] / 1000)})
                progress(f"memory: {rows[-1]}")
        tracemalloc.stop()
    return rows


# Telling


def told(one: Row | None) -> str:
    if one is None:
        return ""
    text = " ".join(one["text"].split()).replace("|", "/")
    said = f'"{text[:90]}{"..." if len(text) > 90 else ""}"' if text else ""
    return f"{one['outcome']} {said}".strip()


def kept(row: Row) -> str:
    one = row["content"]
    parts = [*one["kinds"], *(["structured"] if one.get("structured") == {"width": 1} else [])]
    return (
        "kept" if parts == ["text", "image", "structured"] else f"**flattened to {' and '.join(parts) or 'nothing'}**"
    )


def cold(one: Row | None) -> str:
    if one is None:
        return ""
    return f"{one['calls']}, {one['bytes']:,} B{'' if one['found'] else ' (**not found**)'}"


def sizes(one: Row | None) -> str:
    return f"{one['tools']}, {one['bytes']:,} B" if one else ""


def works(row: Row) -> str:
    if row["next"]["outcome"] == "answer" and "a pixel" in row["next"]["text"]:
        return f"works ({row['next']['seconds']} s)"
    later = row.get("later")
    if later and later["outcome"] == "answer" and "a pixel" in later["text"]:
        return f"{told(row['next'])}; works after 5 s"
    return f"**fails**: {told(later or row['next'])}"


def ran(one: Row) -> str:
    return '**runs: "DELETED"**' if "DELETED" in one["text"] else told(one)


def is_fine(one: Row) -> str:
    return "yes" if one["outcome"] == "answer" and "Asia/Tokyo" in one["text"] else f"**no**: {told(one)}"


def table(rows: Sequence[Row], milliseconds: dict[str, float]) -> str:
    def latency(row: Row) -> str:
        mine = milliseconds.get(row["name"])
        return f"{mine / milliseconds['direct']:.1f}x ({mine} ms)" if mine else ""

    lines: dict[str, Callable[[Row], str]] = {
        "tools and bytes listed, four servers": lambda row: sizes(row["listing"]),
        f"the same, {MANY:,} tools": lambda row: sizes(row.get("many")) or row.get("many_failed", ""),
        "calls to a cold tool, and bytes read before it": lambda row: cold(row["cold"]),
        f"the same among {MANY:,}": lambda row: cold(row.get("many_cold")),
        "one call, beside a direct one": latency,
        "first start: initialize, list": lambda row: " s, ".join(map(str, row["first_start"].values())) + " s",
        "later start": lambda row: " s, ".join(map(str, row["later_start"].values())) + " s",
        "then, until two servers answer calls": lambda row: f"{row['warm']} s",
        "a server dies in the call": lambda row: told(row["dies"]),
        "the next call to it": works,
        "other servers after it": lambda row: is_fine(row["others"]),
        "a call that takes 15 s": lambda row: f"{told(row['stalls'])} after {row['stalls']['seconds']} s",
        "other servers meanwhile": lambda row: is_fine(row["beside"]),
        "one server cannot start: others": lambda row: is_fine(row["broken"]),
        "a denied tool, through the bridge": lambda row: ran(row["denied_bridge"]),
        "a denied tool, by its bare name": lambda row: ran(row["denied_bare"]),
        "wrong arguments": lambda row: told(row["arguments"]),
        "an unknown tool": lambda row: told(row["unknown"]),
        "text, image, structured content": kept,
        "isError": lambda row: "kept" if row["is_error"]["outcome"] == "error" else "**lost**",
    }
    made = [["", *(row["title"] for row in rows)], ["---"] * (len(rows) + 1)]
    made += [[line, *(cell(row) for row in rows)] for line, cell in lines.items()]
    return "\n".join(f"| {' | '.join(one)} |" for one in made)


async def run(options: argparse.Namespace) -> Row:
    chosen = [one for one in GATEWAYS if not options.only or one.name in options.only]
    programs = programs_of("servers", SERVERS, "", options.folder)
    rows: list[Row] = []
    with tempfile.TemporaryDirectory() as folder:
        catalog: Path | None = None
        if options.data.is_dir():
            catalog = Path(folder, "catalog.json")
            catalog.write_text(json.dumps(many_tools(options.data)), "utf-8")
        for gateway in chosen:
            try:
                rows.append(await measure(gateway, options.folder, programs, catalog))
            except Exception as problem:
                progress(f"{gateway.name} is left out: {why(problem)}")
    measured = [one for one in chosen if any(row["name"] == one.name for row in rows)]
    write(options.json, {"gateways": rows})
    progress("latency")
    milliseconds = await latencies(measured, options.folder, programs, options.rounds)
    grown = await memory(options.calls) if options.calls and "hooksdk" in {one.name for one in measured} else []
    return {"servers": list(SERVERS), "gateways": rows, "milliseconds": milliseconds, "memory": grown}


def write(file: Path | None, measured: Row) -> None:
    if file is not None:
        file.write_text(json.dumps(measured, indent=1) + "\n", "utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    names = [one.name for one in GATEWAYS]
    parser.add_argument("--folder", type=Path, required=True, help="where environments are made, and found again")
    parser.add_argument("--only", action="append", choices=names, metavar="NAME", help=f"of {', '.join(names)}")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all that was measured there")
    parser.add_argument("--data", type=Path, default=CATALOGS, help="where the retrieval sets lie")
    parser.add_argument("--rounds", type=int, default=40, help="of the latency")
    parser.add_argument("--calls", type=int, default=10_000, help="of the memory; 0: none")
    options = parser.parse_args()
    options.folder = options.folder.resolve()
    measured = anyio.run(run, options)
    write(options.json, measured)
    print(table(measured["gateways"], measured["milliseconds"]))
    print(f"\ndirect: {measured['milliseconds'].get('direct')} ms; memory: {measured['memory']}")


if __name__ == "__main__":
    main()
