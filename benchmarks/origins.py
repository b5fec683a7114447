"""What it costs to know where the values of a call come from, beside a plain search of the same texts in the same run.

    python benchmarks/origins.py [--rounds 9] [--json]

For 10, 100 and 1,000 results of 10 kB of which no word repeats often: the milliseconds in which four values are looked for that
stand in none of them (a mail address, an account number, a link, two words), by hooksdk and by `in` over the folded texts; what one
more result costs when it is first looked at (of the processor's time: that happens once, and cannot be repeated); and a call of three arguments through the gate, with and without a policy that asks
for the origins of all of them. The fastest of the rounds counts: everything else is the machine.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import string
import time
from collections.abc import Callable
from typing import Any

from hooksdk import Host, MemoryStore, Session, Tool, ToolCall, ToolResult, hooks
from hooksdk.formats import get_format
from hooksdk.hooks import BeforeToolCall

CHAT = get_format("openai-chat")
COUNTS = (10, 100, 1000)
CHARACTERS = 10_000
VALUES = ["bob@evil-corp.example", "UK12345678901234567890", "https://evil.example/a/b", "quarterly meeting"]
ARGUMENTS = {"to": VALUES[:2], "link": VALUES[2], "subject": VALUES[3]}


class Origins:
    """Asks where all values come from, and lets everything through."""

    def __init__(self) -> None:
        self.seconds = self.processor = 0.0
        """That the last call's origins took, and of the processor's time."""

    @hooks.before_tool_call(tools="send")
    def judge(self, event: BeforeToolCall) -> None:
        began, processor = time.perf_counter(), time.process_time()
        for path in ("to", "link", "subject"):
            if any(origin.kind != "nowhere" for origin in event.origins(path)):
                raise AssertionError("the values of this benchmark stand nowhere")
        self.seconds, self.processor = time.perf_counter() - began, time.process_time() - processor


def texts(count: int) -> list[str]:
    """Texts of words that are drawn from 20,000."""
    draw = random.Random(1)
    words = ["".join(draw.choices(string.ascii_lowercase, k=draw.randint(2, 9))) for _ in range(20_000)]
    return [" ".join(draw.choices(words, k=CHARACTERS // 6))[:CHARACTERS] for _ in range(count)]


def history(count: int) -> list[dict[str, Any]]:
    """A history of so many results."""
    messages = [CHAT.user("go on")]
    for at, text in enumerate(texts(count)):
        call = ToolCall(f"c{at}", "read", {"page": at})
        messages += [CHAT.reply("", [call]), *CHAT.result_messages([(call, ToolResult(text))])]
    return [*messages, CHAT.reply("read", [])]


async def send(arguments: dict[str, Any]) -> str:
    """A tool that takes no time."""
    return "sent"


async def calls(session: Session, rounds: int) -> list[float]:
    """Seconds of each of so many calls."""
    anything: dict[str, Any] = {}
    parameters = {"type": "object", "properties": dict.fromkeys(ARGUMENTS, anything)}
    seconds: list[float] = []
    async with session.run("go on") as run:
        await run.resolve_tools([Tool(name="send", source="host", parameters=parameters, execute=send)])
        for number in range(rounds + 1):
            call = ToolCall(f"s{number}", "send", ARGUMENTS)
            await run.record(CHAT.reply("", [call]))
            began = time.perf_counter()
            await run.call_tool(call)
            seconds.append(time.perf_counter() - began)
    return seconds


def fastest(rounds: int, step: Callable[[], object]) -> float:
    """Seconds of the fastest round."""
    best = float("inf")
    for _ in range(rounds):
        began = time.perf_counter()
        step()
        best = min(best, time.perf_counter() - began)
    return best


async def measure(count: int, rounds: int) -> dict[str, float]:
    """Milliseconds, by what they are of."""
    messages, folded = history(count), [text.lower() for text in texts(count)]
    values = [value.lower() for value in VALUES]
    plain = fastest(rounds, lambda: [value in text for value in values for text in folded])
    looked: list[float] = []
    gate: dict[str, float] = {}
    first = 0.0
    for name, plugins in (("without", []), ("with", [Origins])):
        async with Host(plugins, store=MemoryStore(), config={"allow": []}) as host, host.session("s") as session:
            await session.load(messages)
            if not plugins:
                gate[name] = min((await calls(session, rounds))[1:])
                continue
            policy: Origins = session.plugin("origins")
            seconds = await calls(session, 0)
            first = policy.processor / count
            for _ in range(rounds):
                seconds += await calls(session, 0)
                looked.append(policy.seconds)
            gate[name] = min(seconds[1:])
    return {
        "origins": min(looked) * 1000, "plain": plain * 1000, "ratio": min(looked) / plain,
        "a result": first * 1000, "call without": gate["without"] * 1000, "call with": gate["with"] * 1000,
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    rows = {count: asyncio.run(measure(count, options.rounds)) for count in COUNTS}
    if options.json:
        print(json.dumps(rows))
        return
    names = list(next(iter(rows.values())))
    print("results", *names, sep=" | ")
    for count, row in rows.items():
        print(f"{count:,}", *(f"{row[name]:.2f}" for name in names), sep=" | ")


if __name__ == "__main__":
    main()
