"""What hooksdk adds to a tool call in each agent framework, beside the framework alone, in one run.

    python benchmarks/frameworks.py [--json] [FRAMEWORK ...]

Each framework plays the same agent with and without hooksdk, by turns: a scripted model makes 20 calls of a tool that does
nothing, one after another. With hooksdk, three policies look at each call and an observer at each result. A framework with an
environment of its own (`scripts/frameworks` makes them) is measured there, and one that is not installed is left out. Times
are medians; on a busy machine trust the ratios.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import anyio

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from hooksdk import Host, MemoryStore, Tool, hooks  # noqa: E402 - the path comes first
from hooksdk.hooks import AfterToolCall, BeforeToolCall, Block  # noqa: E402 - the path comes first
from hooksdk.testing import ScriptedModel, call  # noqa: E402 - the path comes first

CALLS, ROUNDS = 20, 9
PATH = {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}


def read_file(arguments: dict[str, Any]) -> str:
    return f"text of {arguments['path']}"


TOOL = Tool(name="read_file", description="Read a file.", source="host", parameters=PATH, execute=read_file)
Play = Callable[[], Awaitable[Any]]


def policy(number: int) -> type:
    class Policy:
        plugin_id = f"policy_{number}"

        @hooks.before_tool_call
        async def judge(self, event: BeforeToolCall) -> Block | None:
            return None

    return Policy


class Observer:
    @hooks.after_tool_call
    async def see(self, event: AfterToolCall) -> None:
        return None


def langchain(driver: Any, model: ScriptedModel, host: Host | None) -> Play:
    middleware = [driver.HookSDK(host)] if host else []
    agent = driver.create_agent(driver.Scripted(scripted=model), [driver.native_tool(TOOL)], middleware=middleware)
    return lambda: agent.ainvoke({"messages": "go"})


def openai_agents(driver: Any, model: ScriptedModel, host: Host | None) -> Play:
    agent = driver.Agent(name="agent", model=driver.Scripted(model), tools=[driver.native_tool(TOOL)])
    runner = driver.HookSDK(host) if host else import_module("agents").Runner
    options = {"run_config": driver.RunConfig(tracing_disabled=True), "max_turns": CALLS + 2}
    return lambda: runner.run(agent, "go", **options)


def pydantic_ai(driver: Any, model: ScriptedModel, host: Host | None) -> Play:
    capabilities = [driver.HookSDK(host)] if host else []
    agent = driver.Agent(driver.model_of(model), tools=[driver.native_tool(TOOL)], capabilities=capabilities)
    return lambda: agent.run("go")


def google_adk(driver: Any, model: ScriptedModel, host: Host | None) -> Play:
    agent = driver.LlmAgent(name="agent", model=driver.Scripted(scripted=model), tools=[driver.Native(TOOL)])
    app = driver.App(name="shop", root_agent=agent, plugins=[driver.HookSDK(host)] if host else [])
    runner = driver.Runner(app=app, session_service=driver.InMemorySessionService(), auto_create_session=True)
    content = driver.types.Content(role="user", parts=[driver.types.Part(text="go")])

    async def play() -> None:
        async for _ in runner.run_async(user_id="ann", session_id=str(id(model)), new_message=content):
            pass

    return play


def strands(driver: Any, model: ScriptedModel, host: Host | None) -> Play:
    agent = driver.Agent(
        driver.Scripted(model), tools=[driver.native_tool(TOOL)], plugins=[driver.HookSDK(host)] if host else [],
        callback_handler=None,
    )  # fmt: skip
    return lambda: agent.invoke_async("go")


def fastmcp(driver: Any, model: ScriptedModel, host: Host | None) -> Play:
    def session_of(_context: Any) -> str:
        return str(id(model))

    middleware = [driver.HookSDK(host, session_of=session_of)] if host else []
    server = driver.FastMCP("server", middleware=middleware, tools=[driver.ServedTool.of(TOOL)])

    async def play() -> None:
        async with driver.Client(server) as client:
            for _ in range(CALLS):
                await client.call_tool("read_file", {"path": "a"})

    return play


FRAMEWORKS = {one.__name__: one for one in (langchain, openai_agents, pydantic_ai, google_adk, strands, fastmcp)}
"""Without Claude's SDK: its calls are made by another program, which starts anew for each conversation."""


async def measure(framework: str) -> dict[str, float]:
    """Milliseconds of one call, alone and with hooksdk: medians of rounds by turns, after one that nobody counts."""
    driver = import_module(f"tests.hooksdk.{framework}_driver")
    times: dict[str, list[float]] = {"alone": [], "with hooksdk": []}
    async with Host([*map(policy, range(3)), Observer], store=MemoryStore(), config={"allow": []}) as host:
        for _ in range(ROUNDS + 1):
            for name, given in (("alone", None), ("with hooksdk", host)):
                model = ScriptedModel([*[call("read_file", path="a")] * CALLS, "done"])
                play = FRAMEWORKS[framework](driver, model, given)
                begin = time.perf_counter()
                await play()
                times[name].append((time.perf_counter() - begin) * 1000 / CALLS)
                assert len(model.turns) == CALLS + 1 or framework == "fastmcp"  # there a client calls
    return {name: statistics.median(values[1:]) for name, values in times.items()}


def python_of(framework: str) -> str:
    """The Python of a framework's own environment, or this one."""
    own = ROOT / f".venv-{framework.replace('_', '-')}" / "bin" / "python"
    return str(own) if own.exists() else sys.executable


def main(names: Sequence[str], *, as_json: bool) -> None:
    """Measure each in a process of its own, and print."""
    measured: dict[str, dict[str, float]] = {}
    for name in names:
        command = [python_of(name), __file__, "--inside", name]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            print(f"{name}: not measured: {done.stderr.strip().splitlines()[-1]}", file=sys.stderr)
            continue
        measured[name] = json.loads(done.stdout)
    if as_json:
        print(json.dumps(measured))
        return
    print("| a call, milliseconds | alone | with hooksdk | ratio |\n|---|---|---|---|")
    for name, times in measured.items():
        alone, hooked = times["alone"], times["with hooksdk"]
        print(f"| {name} | {alone:.2f} | {hooked:.2f} | {hooked / alone:.1f}x |")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("frameworks", nargs="*", choices=[[], *FRAMEWORKS], metavar="FRAMEWORK")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--inside", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.inside:
        print(json.dumps(anyio.run(measure, given.inside)))
    else:
        main(given.frameworks or [*FRAMEWORKS], as_json=given.json)
