"""How many calls get past a policy that fails: kinds of failure x hooks x ways to a tool, and names of a withheld tool.

    python benchmarks/gate_attack.py [--backend asyncio|trio]

Prints the calls that were tried, those whose tool ran, the exceptions out of `call_tool`, and the names that were leaked: all
but the first have to be 0. The exit code is 1 otherwise. Needs the extra `code`.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import sys
import time
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

import anyio

from hooksdk import Run, Session, Tool, ToolCall, ToolContext, ToolResult, hooks
from hooksdk.approvals import Approval, ApprovalRequest, Later
from hooksdk.errors import ApprovalPending, CallSettled, RunClosed, ToolError
from hooksdk.formats import get_format
from hooksdk.hooks import Answer, Ask, BeforeToolCall, Block, NarrowTools, ResolveSecrets, Rewrite, Secrets, Withhold
from hooksdk.testing import open_host

LIMIT = 0.02
"""Seconds for a policy that will be late."""
PLENTY = 60
FORMAT = get_format("openai-chat")
ARGUMENTS = {"key": "{{secret:KEY}}"}
Fault = Callable[[Any], Coroutine[Any, Any, Any]]
MARK = "aardvark"
"""Stands in the name and in the description of the withheld tool."""


# How a policy fails


def raising(make: Callable[[], BaseException]) -> Fault:
    async def fault(event: Any) -> Any:
        raise make()

    return fault


def answering(make: Callable[[], Any]) -> Fault:
    async def fault(event: Any) -> Any:
        return make()

    return fault


class EndsTheProcess(Exception):
    def __str__(self) -> str:
        raise SystemExit(0)


class HostileBlock(Block):
    @property
    def reason(self) -> Any:  # pyright: ignore[reportIncompatibleVariableOverride]
        raise SystemExit(0)


class HostileAsk(Ask):
    def __getattribute__(self, name: str) -> Any:
        raise ValueError(name)


class HostileText(str):
    __slots__ = ()

    def __str__(self) -> str:
        raise ValueError("no text")

    __repr__ = __str__


class NeverCounts:
    def __repr__(self) -> str:
        raise SystemExit(0)

    def __eq__(self, other: object) -> bool:
        raise ValueError("equal to nothing")

    __hash__ = object.__hash__


class Raises:
    def __await__(self) -> Any:
        raise ValueError("not to be awaited")


class Hangs:
    def __await__(self) -> Any:
        return anyio.sleep_forever().__await__()


def yields() -> Any:
    yield None


async def yields_later() -> Any:
    yield None


async def hangs(event: Any) -> Any:
    await anyio.sleep_forever()


async def late(event: Any) -> Any:
    time.sleep(1.5 * LIMIT)  # noqa: ASYNC251 - it blocks the event loop


async def swallows_its_cancellation(event: Any) -> Any:
    try:
        await anyio.sleep_forever()
    except BaseException:
        return None


async def groups_an_error(event: Any) -> Any:
    async with anyio.create_task_group() as group:
        group.start_soon(raising(ValueError), event)


FAULTS: dict[str, Fault] = {
    "hangs": hangs, "late": late, "swallows its cancellation": swallows_its_cancellation, "awaits what hangs": answering(Hangs),
    "groups an error": groups_an_error, "awaits what raises": answering(Raises),
    **{f"raises {make.__name__}": raising(make) for make in (
        ValueError, BaseException, SystemExit, StopIteration, StopAsyncIteration, RecursionError, MemoryError, AssertionError,
        NotImplementedError, TimeoutError, EndsTheProcess, asyncio.CancelledError,
    )},
    "raises a group": raising(lambda: BaseExceptionGroup("several", [SystemExit(0), ValueError()])),
    "raises an error for the model": raising(lambda: ToolError("all good")),
    "raises a pause": raising(lambda: ApprovalPending(None, ToolCall("c", "act"))),
    "raises a closed run": raising(lambda: RunClosed("over")),
    **{f"answers {name}": answering(make) for name, make in {
        "text": lambda: "allow", "True": lambda: True, "0": lambda: 0, "a dict": dict[str, Any], "a list": lambda: [None],
        "a generator": yields, "an async generator": yields_later, "a class": lambda: Block, "NotImplemented": lambda: NotImplemented,
        "a hostile block": lambda: HostileBlock("no"), "a block without fields": lambda: object.__new__(Block),
        "a block of nothing": lambda: Block(None),  # pyright: ignore[reportArgumentType]
        "a hostile question": lambda: HostileAsk("sure?"), "a question without fields": lambda: object.__new__(Ask),
        "a hostile text": lambda: HostileText("allow"), "what never counts": NeverCounts,
        "another hook's answer": lambda: Withhold(["act"], "no"), "an answer without fields": lambda: object.__new__(Answer),
        "a rewrite without fields": lambda: object.__new__(Rewrite), "a rewrite to text": lambda: Rewrite("all"),  # pyright: ignore[reportArgumentType]
        "secrets without fields": lambda: object.__new__(Secrets), "secrets that are a list": lambda: Secrets(["KEY"]),  # pyright: ignore[reportArgumentType]
    }.items()},
}  # fmt: skip
SLOW = {"hangs", "late", "swallows its cancellation", "awaits what hangs"}
HOOKS = ("rewrite_tool_call", "before_tool_call", "resolve_secrets")


def faulty(hook: str, name: str) -> type:
    """A plugin whose only handler fails in this way."""
    fault, options = FAULTS[name], {} if hook == "resolve_secrets" else {"tools": "act"}
    decorate: Any = getattr(hooks, hook)(timeout=LIMIT if name in SLOW else PLENTY, **options)

    class Faulty:
        @decorate
        async def handle(self, event: Any) -> Any:
            return await fault(event)

    return Faulty


class AsksLater:
    """Asks about calls of `act` with the argument `later`."""

    @hooks.before_tool_call(tools="act")
    def ask(self, event: BeforeToolCall) -> Ask | None:
        return Ask("sure?") if "later" in event.arguments else None


class Hides:
    @hooks.narrow_tools
    def narrow(self, event: NarrowTools) -> Withhold:
        return Withhold([tool.name for tool in event.tools if MARK in tool.name], "not today")


# The ways to a tool


class Stage:
    """A run, with the attacker in the model's place."""

    def __init__(self, session: Session, counts: Counter[str]) -> None:
        self.session = session
        self.counts = counts
        self.judges = True
        """False where the policy that fails is about secrets."""
        self.answer: Approval | Later = Later()
        self.run: Run = None  # pyright: ignore[reportAttributeAccessIssue] - set when one begins
        self.results: list[ToolResult] = []
        self.text = ""
        """All that the model reads."""

    async def approve(self, request: ApprovalRequest) -> Approval | Later:
        return self.answer

    async def act(self, arguments: dict[str, Any]) -> str:
        self.counts["let through"] += 1
        return "done"

    async def ask_other(self, arguments: dict[str, Any], context: ToolContext) -> ToolResult:
        return await context.call_tool("act", arguments)

    async def delegate(self, arguments: dict[str, Any]) -> str:
        async with self.session.child() as child, child.run() as run:
            await run.resolve_tools(self.tools)
            await self.guarded(run.call_tool(ToolCall("d1", "act", arguments)))
        return "delegated"

    @property
    def tools(self) -> list[Tool]:
        schema: dict[str, Any] = {"type": "object", "properties": {}}
        made = {"act": self.act, "ask_other": self.ask_other, "delegate": self.delegate, f"{MARK}_tool": self.act}
        return [
            Tool(name=name, description=f"The tool {name}.", source="mcp", owner="server", parameters=schema, execute=execute)
            for name, execute in made.items()
        ]  # fmt: skip

    @asynccontextmanager
    async def runs(self) -> AsyncGenerator[Run]:
        async with self.session.run(approver=self.approve) as run:
            self.run = run
            await run.resolve_tools(self.tools)
            yield run

    async def write(self, *calls: tuple[str, dict[str, Any]]) -> list[ToolCall]:
        """The model asks for these calls."""
        number = len(self.session.messages)
        made = [ToolCall(f"c{number}-{index}", name, arguments) for index, (name, arguments) in enumerate(calls)]
        await self.run.record(FORMAT.reply("", made))
        return made

    async def guarded(self, call: Awaitable[ToolResult]) -> ToolResult | None:
        self.counts["calls"] += 1
        try:
            result = await call
        except (ApprovalPending, CallSettled):
            return None
        except Exception as error:
            self.counts["exceptions"] += 1
            print("raised:", repr(error), file=sys.stderr)
            return None
        self.text += f"\n{result.text}"
        return result

    async def call(self, name: str, arguments: dict[str, Any]) -> None:
        for call in await self.write((name, arguments)):
            await self.guarded(self.run.call_tool(call))


async def direct(stage: Stage) -> None:
    await stage.call("act", ARGUMENTS)


async def by_id(stage: Stage) -> None:
    await stage.call("mcp:server:act", ARGUMENTS)


async def bridge(stage: Stage) -> None:
    await stage.call("tool_call", {"name": "act", "arguments": ARGUMENTS})


async def nested(stage: Stage) -> None:
    await stage.call("ask_other", ARGUMENTS)


async def parallel(stage: Stage) -> None:
    async with anyio.create_task_group() as group:
        for call in await stage.write(*[("act", ARGUMENTS)] * 3):
            group.start_soon(stage.guarded, stage.run.call_tool(call))


async def code(stage: Stage) -> None:
    await stage.call("tool_search_code", {"code": f"await call('act', {ARGUMENTS!r})"})


async def child(stage: Stage) -> None:
    await stage.call("delegate", ARGUMENTS)


async def executed(stage: Stage) -> None:
    (call,) = await stage.write(("act", ARGUMENTS))
    judged = await stage.run.judge(call)
    await stage.guarded(judged.execute())


async def supplied(stage: Stage) -> None:
    """A loop that runs its tools itself does so when the verdict says that it may."""
    (call,) = await stage.write(("act", ARGUMENTS))
    judged = await stage.run.judge(call)
    stage.counts["calls"] += 1
    if judged.result is None and not stage.judges:  # with the placeholder: secrets are not filled in for it
        await judged.supply("done elsewhere")
    elif judged.result is None:
        stage.counts["let through"] += 1


async def retried(stage: Stage) -> None:
    (call,) = await stage.write(("act", ARGUMENTS))
    await stage.run.retry()
    await stage.run.resolve_tools(stage.tools)
    await stage.guarded(stage.run.call_tool(call))


async def later(stage: Stage) -> None:
    """Approved by the approver, asked again in the same run."""
    (call,) = await stage.write(("act", {**ARGUMENTS, "later": True}))
    stage.answer = Later()
    await stage.guarded(stage.run.call_tool(call))
    stage.answer = Approval(True)
    await stage.guarded(stage.run.call_tool(call))


async def resumed(stage: Stage) -> None:
    """Approved in a later run. It comes last: the run ends."""
    (call,) = await stage.write(("act", {**ARGUMENTS, "later": True}))
    stage.answer = Later()
    await stage.guarded(stage.run.call_tool(call))
    stage.run.pause("waits")


WAYS = (direct, by_id, bridge, nested, parallel, child, executed, supplied, retried, later, resumed)


@asynccontextmanager
async def staged(counts: Counter[str], *plugins: type, mode: str) -> AsyncGenerator[Stage]:
    search = {"enabled": "on", "mode": mode}
    config = {"allow": ["tool_search"], "plugins": {"tool_search": {"config": search}}}
    async with open_host(*plugins, AsksLater, Hides, config=config) as host, host.session("s") as session:
        yield Stage(session, counts)


class Gives:
    """The secret, and no objection."""

    @hooks.resolve_secrets
    def give(self, event: ResolveSecrets) -> Secrets:
        return Secrets(dict.fromkeys(event.names, "a value"))


async def attack(counts: Counter[str], policy: type, *, judges: bool) -> Counter[str]:
    """One policy, on every way; answers how many calls got through on each."""
    ran: Counter[str] = Counter()

    async def go(way: Callable[[Stage], Awaitable[None]], stage: Stage) -> None:
        before = counts["let through"]
        await way(stage)
        ran[way.__name__] += counts["let through"] - before

    async def resume(stage: Stage) -> None:
        for call in stage.run.pending:
            await stage.guarded(stage.run.call_tool(call))

    async with staged(counts, policy, mode="tools") as stage:
        stage.judges = judges
        async with stage.runs():
            for way in WAYS:
                await go(way, stage)
        stage.answer = Approval(True)
        async with stage.runs():
            await go(resume, stage)
    async with staged(counts, policy, mode="code") as stage, stage.runs():
        await go(code, stage)
    return ran


def spellings(name: str) -> list[str]:
    return [
        name, name.upper(), name.title(), f" {name}", f"{name} ", f"{name}\n", f"{name}\u200b", f"{name}\0", name.replace("a", "\u0430"),
        f"mcp:server:{name}", f"MCP:server:{name}", f"mcp:*:{name}", f"*:{name}", f"host:core:{name}", f"server:{name}",
        f"server.{name}", f"server/{name}", f"mcp__server__{name}", f"functions.{name}", f"tools.{name}", f"{name}()", f"'{name}'",
        f"{name[:-1]}?", f"{name[:-2]}*", name.replace("_", "-"), name.replace("_", ""), f"./{name}",
    ]  # fmt: skip


async def search_for_the_withheld(counts: Counter[str]) -> None:
    """Call, find and describe a withheld tool: no text tells of it but the model's own."""
    hidden = f"{MARK}_tool"
    async with staged(counts, mode="tools") as stage, stage.runs() as run:
        for written in spellings(hidden):
            await stage.call(written, {})
            await stage.call("tool_call", {"name": written, "arguments": {}})
            await stage.call("tool_describe", {"names": [written]})
        stage.text = ""
        for query in (
            "the tool",
            "act",
            "delegate",
            "server",
            "*",
            "tools of every kind",
            "a d e",
            "animals in burrows",
        ):
            await stage.call("tool_search", {"query": query, "limit": 20})
        seen = [stage.text, *(tool.name for tool in run.offered), *(tool.name for tool in run.tools)]
        assert "ask_other" in stage.text, "the search finds what is granted"
        counts["names leaked"] += sum(MARK in text for text in seen)
    async with staged(counts, mode="code") as stage, stage.runs():
        for written in spellings(hidden):
            await stage.call("tool_search_code", {"code": f"await call({written!r}, {{}})"})
        stage.text = ""
        await stage.call("tool_search_code", {"code": "print(dir()); print(globals())"})
        await stage.call("tool_search_code", {"code": "await search('the tool')"})
        assert "ask_other" in stage.text, "a script finds what is granted"
        counts["names leaked"] += MARK in stage.text


def faults(backend: str) -> list[str]:
    """All but one on trio, which has no cancellation that nobody asked for."""
    return [name for name in FAULTS if backend == "asyncio" or "CancelledError" not in name]


async def main(backend: str) -> Counter[str]:
    ran = await attack(Counter(), Gives, judges=True)
    idle = [way for way, calls in ran.items() if not calls]
    assert idle == ["resumed"], f"without a failure every way leads to the tool: {ran}"
    counts: Counter[str] = Counter()
    counts.update(dict.fromkeys(("calls", "let through", "exceptions", "names leaked"), 0))
    for name in faults(backend):
        for hook in HOOKS:
            await attack(counts, faulty(hook, name), judges=hook != "resolve_secrets")
    await search_for_the_withheld(counts)
    return counts


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--backend", choices=["asyncio", "trio"], default="asyncio")
    chosen: str = parser.parse_args().backend
    logging.getLogger("hooksdk").addHandler(logging.NullHandler())
    totals = anyio.run(main, chosen, backend=chosen)
    kinds = len(faults(chosen)) * len(HOOKS)
    print(
        f"{chosen}: {kinds} failing policies on {len(WAYS) + 1} ways; "
        + ", ".join(f"{n} {what}" for what, n in totals.items())
    )
    sys.exit(1 if any(n for what, n in totals.items() if what != "calls") else 0)
