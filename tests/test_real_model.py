"""The harness for real models, with a server whose model is a script: what it is shown, and what is counted of its calls.

The client of OpenAI's SDK is made for asyncio, so these run on it alone.
"""

from __future__ import annotations

import json
import sys
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import anyio
import pytest

from hooksdk.agent import Limits
from hooksdk.models.openai import OpenAIModel
from hooksdk.testing import Call, Reply, Turn, call
from hooksdk.testing.server import ScriptedServer

pytestmark = pytest.mark.heavy

ROOT = Path(__file__).parents[1]

pytest.importorskip("openai", reason="the harness runs over the SDK of OpenAI: it needs the extra `openai`")

sys.path.append(str(ROOT / "benchmarks"))
catalog = import_module("_real_catalog")
runs = import_module("_real_runs")
real_model = import_module("real_model")

MODES = [
    pytest.param(mode, marks=pytest.mark.skipif(bool(reason := runs.available(mode)), reason=reason or "-"))
    for mode in runs.MODES
]
RIGHT = {
    "key": ("random-number", "secure_token_hex", {"nbytes": 32}),
    "tesla": ("investor", "get_insider_trades", {"ticker": "TSLA"}),
}


@pytest.fixture(scope="module", autouse=True)
def tools() -> list[Any]:
    """The catalog, which is made outside of every event loop."""
    return catalog.definitions()


def play(job: str, mode: str, script: Any, **limits: Any) -> Any:
    async def run() -> Any:
        async with (
            ScriptedServer(script) as server,
            OpenAIModel("scripted", base_url=server.openai_url, api_key="none", context_window=32_768) as model,
        ):
            return await runs.play(runs.jobs()[job], mode, model, limits=Limits(**limits), settings={})

    return anyio.run(run)


def calling(name: str, arguments: dict[str, Any], turn: Turn) -> Reply | str:
    """A model that makes this one call by whichever way it is offered, and is done."""
    if turn.results:
        return "Done."
    if name in turn.offered:
        return Reply(calls=[Call(name, arguments)])
    if "tool_search_code" in turn.offered:
        return Reply(calls=[call("tool_search_code", code=f"await call({name!r}, {arguments!r})")])
    return Reply(calls=[call("tool_call", name=name, arguments=arguments)])


def test_the_catalog_has_1860_tools_and_every_task_has_a_right_one():
    keys = {catalog.key_of(tool) for tool in catalog.definitions()}
    assert len(catalog.definitions()) == catalog.SIZE == 1860
    tasks = [job for job in runs.jobs().values() if not job.scenario]
    demo = {job.id for job in tasks if all(key.startswith(catalog.DEMO) for key in job.steps[0])}
    assert len(tasks) == 40
    assert not {job.prompt for job in tasks} & {
        job.prompt for job in runs.jobs("roundabout").values() if not job.scenario
    }
    assert {job.id for job in tasks if not keys & job.steps[0].keys()} <= demo


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("job", RIGHT)
def test_the_right_call_is_counted_as_done_in_every_mode(job: str, mode: str):
    _, name, arguments = RIGHT[job]
    result = play(job, mode, partial(calling, name, arguments))
    assert (result.done, result.clean, result.right_tool, result.gave_up) == (True, True, True, False)
    assert (result.turns, result.invented, result.refused) == (2, [], 0)
    assert result.prompt_tokens > 0
    assert result.first_move == ("search" if mode == "code" else "right")


def test_direct_mode_shows_30_tools_and_the_right_ones_among_them():
    seen: list[Turn] = []

    def script(turn: Turn) -> str:
        seen.append(turn)
        return "I do not know."

    result = play("tesla", "off", script)
    assert len(seen[0].offered) == 30
    assert "get_insider_trades" in seen[0].offered
    assert (result.first_move, result.gave_up, result.done) == ("prose", True, False)


def test_wrong_arguments_an_invented_name_and_a_refusal_are_counted():
    replies = [
        Reply(calls=[call("tool_call", name="sell_shares", arguments={})]),
        Reply(calls=[call("tool_call", name="get_insider_trades", arguments={"ticker": "AAPL"})]),
        "Nobody sold.",
    ]
    result = play("tesla", "tools", replies)
    assert (result.first_move, result.invented, result.refused) == ("invented", ["sell_shares"], 1)
    assert (result.right_tool, result.done, result.gave_up) == (True, False, True)


def test_a_scenario_is_done_when_its_calls_come_in_their_order():
    replies = [
        Reply(calls=[call("read_file", path="notes.txt")]),
        Reply(calls=[call("slack_send_message", channel="#random", text="Hello from the test fixture.")]),
        "I am done.",
    ]
    result = play("D", "off", replies)
    assert (result.done, result.clean, result.first_right) == (True, True, True)


def test_a_shell_command_of_the_model_runs_nothing(tmp_path: Path):
    target = tmp_path / "made"
    result = play("key", "off", [Reply(calls=[call("terminal", command=f"touch {target}")]), "Done."])
    assert (result.first_move, target.exists()) == ("core", False)


def test_the_command_writes_each_run_and_goes_on_where_the_file_ends(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    file = tmp_path / "runs.jsonl"

    async def serve(ids: list[str]) -> int:
        async with ScriptedServer(partial(calling, "get_insider_trades", {"ticker": "TSLA"})) as server:
            options = real_model.read_options([
                "--base-url", server.openai_url, "--model", "scripted", "--modes", "tools", "--first-move",
                "--tasks", *ids, "--json", str(file),
            ])  # fmt: skip
            results = await real_model.play_all(options, real_model.chosen(options.tasks, runs.jobs()))
            real_model.show(options, results)
            return len(server.requests)

    assert anyio.run(serve, ["tesla"]) == 1
    assert anyio.run(serve, ["tesla", "key"]) == 1
    lines = [json.loads(line)["run"] for line in file.read_text("utf-8").splitlines()]
    assert [(one["job"], one["first_right"]) for one in lines] == [("tesla", True), ("key", False)]
    rows = [line for line in capsys.readouterr().out.splitlines() if line.startswith("| tools |")]
    assert rows[-1].startswith("| tools | 2 | 1 |")


@pytest.mark.skipif(not find_spec("rank_bm25"), reason="needs the extra `rank-bm25`")
def test_the_three_bridges_search_describe_and_call():
    replies = [
        Reply(calls=[call("tool_search", query="insider trades")]),
        Reply(calls=[call("tool_describe", name="get_insider_trades")]),
        Reply(calls=[call("tool_call", name="get_insider_trades", arguments={"ticker": "TSLA"})]),
        "Done.",
    ]
    result = play("tesla", "bridges", replies)
    assert (result.done, result.turns, result.refused, result.first_move) == (True, 4, 0, "search")


def test_a_tool_asked_for_in_plain_words_is_prefetched():
    asked = [job for job in runs.jobs("plain").values() if not job.scenario][::4]
    shown, behind, tokens = anyio.run(runs.prefetched, asked, 6, 2_000)
    assert shown + behind >= len(asked) - 1
    assert tokens < 4_000
