"""What twelve prompts in one session cost a provider's cache, by who hides the tools and where prefetched ones stand.

    python benchmarks/many_prompts.py

Four of the scenarios of `scenarios.py`, three times, in one session over 547 tools, with its scripted model (C is left out: this model
takes what shares most words with its task from all that it was shown for earlier prompts, and of 527 tools one does). Tokens are estimated (characters of
the JSON as sent / 4). "Cached" is the price of all prompts in tokens at full input price where each request finds the one before it
in the cache: what both begin with counts a tenth. "Changes" is how often the tools were others than in the request before.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import anyio
from _scenario_model import plan_of, scripted_agent
from _scenario_tools import core_tools, deferrable_tools, fixtures
from scenarios import MOST_TURNS, SYSTEM, estimated, model_of, price, print_head, print_row

from hooksdk.agent import Limits, run_agent
from hooksdk.testing import Reply, Turn, open_host
from hooksdk.testing.server import ScriptedServer

BARE = {"prefetch": 0, "reveal": "off"}
WAYS: Mapping[str, tuple[str, Mapping[str, Any]]] = {
    "the bridge alone": ("tools", BARE),
    "reveal alone": ("tools", {"prefetch": 0}),
    "prefetch alone": ("tools", {"reveal": "off"}),
    "prefetch and reveal (default elsewhere)": ("tools", {}),
    "hidden by the provider, found by a search": ("native", {}),
    "hidden by the provider, prefetched at the end": ("added", {}),
}
"""The mode of `scenarios.py` and the settings of tool search, by what they are."""
TIMES, LEFT_OUT = 3, "C"
"""How often each scenario is played, and which is not."""


def in_one_session(scenarios: Sequence[Mapping[str, Any]]) -> Callable[[Turn], Reply | str]:
    """The model of each prompt, one after the other."""
    models = iter([scripted_agent(one["prompt"], plan_of(one)) for one in scenarios])
    now: list[Callable[[Turn], Reply | str]] = []

    def script(turn: Turn) -> Reply | str:
        if not turn.results:
            now[:] = [next(models)]
        return now[0](turn)

    return script


async def play(mode: str, settings: Mapping[str, Any]) -> list[str]:
    """Requests, tokens, price and changes of the tools."""
    scenarios = [one for one in fixtures()["scenarios"] if one["id"][0] != LEFT_OUT] * TIMES
    config = {"plugins": {"tool_search": {"config": {"enabled": "on", **settings}}}}

    def ignore(name: str, arguments: dict[str, Any]) -> None:
        del name, arguments

    with tempfile.TemporaryDirectory() as place:
        for name, text in ((name, text) for one in scenarios for name, text in one.get("fixture_files", {}).items()):
            (Path(place) / name).write_text(text, "utf-8")
        tools = [*core_tools(Path(place), ignore), *deferrable_tools(True, ignore)]
        async with (
            ScriptedServer(in_one_session(scenarios)) as server,
            model_of(server, mode) as model,
            open_host("tool_search", config=config) as host,
            host.session("prompts") as session,
        ):
            for one in scenarios:
                limits = Limits(turns=MOST_TURNS)
                outcome = await run_agent(session, model, one["prompt"], tools=tools, system=SYSTEM, limits=limits)
                assert one.get("expected_final_contains", "done") in outcome.text, (mode, one["id"], outcome.text)
    bodies = [request.body for request in server.requests]
    prompts = [[*body["tools"], *body.get("messages", body.get("input", ()))] for body in bodies]
    changes = sum(before["tools"] != after["tools"] for before, after in pairwise(bodies))
    whole = sum(estimated(parts) for parts in prompts)
    return [str(len(bodies)), f"{whole:,}", f"{price(prompts, []):,}", str(changes)]


async def main() -> None:
    print_head("twelve prompts, 547 tools", "requests", "prompt tokens", "cached", "changes")
    for name, (mode, settings) in WAYS.items():
        print_row(name, *await play(mode, settings))


if __name__ == "__main__":
    anyio.run(main)
