"""Let the model write a script that calls tools: one turn instead of many, and the same policies. Needs `hooksdk[code]`."""

from __future__ import annotations

import sys
from importlib.util import find_spec

import anyio

from hooksdk import Host, MemoryStore, Tool, hooks
from hooksdk.agent import run_agent
from hooksdk.hooks import AfterToolCall, BeforeToolCall, Block
from hooksdk.testing import Call, ScriptedModel, Turn, call


def count_stock(fruit: str) -> int:
    """Count a fruit in the store house."""
    return {"apples": 3, "pears": 0, "plums": 12}[fruit]


def order_fruit(fruit: str, crates: int) -> str:
    """Order crates of a fruit."""
    return f"{crates} crates of {fruit} are on their way"


@hooks.before_tool_call(tools="order_fruit")
def at_most_five(event: BeforeToolCall) -> Block | None:
    return Block("at most five crates an order") if event.arguments["crates"] > 5 else None


@hooks.after_tool_call
def show(event: AfterToolCall) -> None:
    print(f"  {event.call.name}: {event.status}, asked for by the {event.call.origin}")


SCRIPT = """
for fruit in ["apples", "pears", "plums"]:
    if (count := await call("count_stock", fruit=fruit)) < 5:
        try:
            print(await call("order_fruit", fruit=fruit, crates=8 - 2 * count))
        except PermissionError as error:
            print(error)
"""


def model(turn: Turn) -> Call | str:
    return turn.result.text if turn.results else call("tool_search_code", code=SCRIPT)


async def main() -> None:
    settings: dict[str, object] = {"plugins": {"tool_search": {"config": {"enabled": "on", "mode": "code"}}}}
    tools = [Tool.from_function(one, source="mcp", owner="shop") for one in (count_stock, order_fruit)]
    host = Host(plugins=[sys.modules[__name__]], store=MemoryStore(), config=settings)
    async with host, host.session("example") as session:
        print((await run_agent(session, ScriptedModel(model), "Order what runs low.", tools=tools)).text)


if __name__ == "__main__":
    anyio.run(main) if find_spec("pydantic_monty") else sys.exit("This example needs: pip install 'hooksdk[code]'")
