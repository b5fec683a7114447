"""A real model at work: 40 tasks over 1,860 tools, and the five 20-tool scenarios, in seven ways of showing it the tools.

    python benchmarks/real_model.py --base-url http://127.0.0.1:8000/v1 --model NAME [--json FILE]

Whatever speaks OpenAI's Chat Completions with tools can be asked. Each run goes over the whole stack: `run_agent`, a host
with tool_search, `OpenAIModel`. The tools are real definitions (public ones, and the demo's servers where they are
installed); behind them stand executors that record what they get and answer with made-up results, so a model can break
nothing, with the shell neither. The key is read from OPENAI_API_KEY, and may be missing for a server that wants none.

With `--json FILE` every run is written there as it ends, one line each, and a second call with the same options goes on where
the file ends. Without `--first-move` a model may take `--turns` replies; with it only the first reply is asked for, which is
much cheaper and tells most of what there is to tell of a search. `--prefetched` needs no model.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import anyio
from _real_catalog import SIZE, definitions
from _real_runs import MODES, Job, Result, available, jobs, play, prefetched
from _real_tasks import TASKS

from hooksdk.agent import Limits
from hooksdk.models.openai import OpenAIModel
from hooksdk.stores import MemoryStore

SCENARIOS = ("A", "B", "C", "D", "E")
BUDGETS = ((4, 2_000), (6, 2_000), (10, 4_000))
"""Numbers of prefetched tools, and the tokens that they may take."""


def read_options(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--base-url", metavar="URL", help="the endpoint, with its /v1")
    parser.add_argument("--model", metavar="NAME", help="as the endpoint calls it")
    parser.add_argument("--prefetched", action="store_true", help="ask no model: how often is a right tool prefetched?")
    parser.add_argument("--modes", nargs="+", choices=MODES, default=list(MODES), metavar="MODE", help=", ".join(MODES))
    parser.add_argument(
        "--tasks", nargs="+", default=["all"], metavar="TASK",
        help="ids (A to E are the scenarios), `tasks`, `scenarios`, `all`, or a number: so many tasks, spread over the 40",
    )  # fmt: skip
    parser.add_argument("--wording", choices=["plain", "roundabout"], default="plain", help="of the 40 tasks (plain)")
    parser.add_argument("--first-move", action="store_true", help="ask for the first reply only")
    parser.add_argument("--turns", type=int, default=8, help="replies that a run may take (8)")
    parser.add_argument(
        "--json", type=Path, metavar="FILE", help="write each run into it, and leave out those that it holds"
    )
    parser.add_argument("--settings", type=json.loads, default={}, metavar="JSON", help="more settings of tool_search")
    parser.add_argument(
        "--plugins", nargs="+", default=[], metavar="ID", help="built-in plugins beside it, such as no_repeats"
    )
    parser.add_argument(
        "--text-calls", action="store_true", help='Limits(text_calls="run"): calls written as text are made'
    )
    parser.add_argument(
        "--one-session", action="store_true", help="all tasks of a mode are prompts of one session (a new one for each)"
    )
    parser.add_argument("--window", type=int, default=32_768, help="the model's context window (32,768)")
    parser.add_argument("--max-tokens", type=int, default=512, help="tokens of one reply (512)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--timeout", type=float, default=1800.0, metavar="SECONDS", help="that the server may be silent"
    )
    options = parser.parse_args(arguments)
    if not options.prefetched and not (options.base_url and options.model):
        parser.error("a model needs --base-url and --model; --prefetched asks none")
    return options


def chosen(written: Sequence[str], all_jobs: Mapping[str, Job]) -> list[Job]:
    """The jobs that `--tasks` means, each once. Raises `SystemExit` for a word that means none."""
    tasks = [one.id for one in TASKS]
    ids: dict[str, None] = {}
    for word in written:
        groups = {"all": list(all_jobs), "tasks": tasks, "scenarios": list(SCENARIOS)}
        if word.isdecimal():
            count = min(max(int(word), 1), len(tasks))
            ids.update(dict.fromkeys(tasks[at * len(tasks) // count] for at in range(count)))
        elif word in groups or word in all_jobs:
            ids.update(dict.fromkeys(groups.get(word, [word])))
        else:
            sys.exit(f"no task '{word}'; there are {', '.join(all_jobs)}")
    return [all_jobs[one] for one in ids]


def variant_of(options: argparse.Namespace) -> dict[str, Any]:
    """What makes two runs of one task in one mode different ones."""
    names = (
        "model",
        "wording",
        "first_move",
        "turns",
        "settings",
        "plugins",
        "text_calls",
        "window",
        "max_tokens",
        "seed",
        "one_session",
    )
    variant = {name: getattr(options, name) for name in names}
    return {**variant, "turns": 1} if options.first_move else variant


def recorded(path: Path | None, variant: Mapping[str, Any]) -> dict[tuple[str, str], Result]:
    """The runs in the file that were made with these options, by job and mode. A last line that was cut off counts as none."""
    found: dict[tuple[str, str], Result] = {}
    for line in path.read_text("utf-8").splitlines() if path and path.exists() else ():
        try:
            entry = json.loads(line)
        except ValueError:
            continue
        if entry["variant"] == variant and not entry["run"]["error"]:
            run = Result(**entry["run"])
            found[run.job, run.mode] = run
    return found


async def play_all(options: argparse.Namespace, chosen_jobs: Sequence[Job]) -> list[Result]:
    variant = variant_of(options)
    known = recorded(options.json, variant)
    modes = [mode for mode in options.modes if not told_off(mode)]
    limits = Limits(turns=variant["turns"], text_calls="run" if options.text_calls else "notice")
    pairs = [(mode, job) for mode in modes for job in chosen_jobs]
    store = MemoryStore() if options.one_session else None
    async with OpenAIModel(
        options.model, base_url=options.base_url, api_key=os.environ.get("OPENAI_API_KEY") or "none",
        context_window=options.window, max_tokens=options.max_tokens, timeout=options.timeout,
        extra={"temperature": 0, "seed": options.seed},
    ) as model:  # fmt: skip
        for number, (mode, job) in enumerate(pairs, 1):
            if (job.id, mode) in known:
                continue
            try:
                result = await play(
                    job, mode, model, limits=limits, settings=options.settings, plugins=options.plugins, store=store
                )
            except Exception as error:  # one request that fails must not lose the others
                result = Result(job.id, mode, error=f"{type(error).__name__}: {error}")
            known[job.id, mode] = result
            print(f"{number}/{len(pairs)} {mode} {job.id}: {line_of(result)}", file=sys.stderr, flush=True)
            if options.json:
                with options.json.open("a", encoding="utf-8") as file:
                    file.write(json.dumps({"variant": variant, "run": result.as_json()}, ensure_ascii=False) + "\n")
    return [known[job.id, mode] for mode, job in pairs]


def told_off(mode: str) -> bool:
    """Whether a mode cannot be played here, which is said."""
    if reason := available(mode):
        print(f"left out: {mode} ({reason})", file=sys.stderr)
    return bool(reason)


def line_of(result: Result) -> str:
    if result.error:
        return result.error
    outcome = "done" if result.done else "right tool" if result.right_tool else "not done"
    return f"{outcome}, first move {result.first_move}, {result.turns} turns, {result.prompt_tokens} tokens, {result.seconds:.0f} s"


def table(results: Sequence[Result], *, first_move: bool) -> Iterator[list[str]]:
    """A row for each mode, the head first."""
    moves = ["right", "search", "core", "wrong", "invented", "prose"]
    yield ["mode", "n", *(["first move: " + moves[0], *moves[1:], "right tool and arguments"] if first_move else [
        "right tool", "and arguments (done)", "clean", "gave up", "turns", "refused calls", "invented names", "first move right",
    ]), "prompt tokens a turn", "output tokens", "seconds"]  # fmt: skip
    for mode in dict.fromkeys(one.mode for one in results):
        runs = [one for one in results if one.mode == mode]
        n, turns = len(runs), max(1, sum(one.turns for one in runs))
        if first_move:
            cells = [
                *(sum(one.first_move == move for one in runs) for move in moves),
                sum(one.first_right for one in runs),
            ]
        else:
            cells = [
                sum(one.right_tool for one in runs), sum(one.done for one in runs), sum(one.clean for one in runs),
                sum(one.gave_up for one in runs), f"{turns / n:.1f}", sum(one.refused for one in runs),
                sum(len(one.invented) for one in runs), sum(one.first_move == "right" for one in runs),
            ]  # fmt: skip
        means = [sum(one.prompt_tokens for one in runs) // turns, sum(one.output_tokens for one in runs) // n]
        yield [
            mode,
            str(n),
            *map(str, cells),
            f"{means[0]:,}",
            str(means[1]),
            f"{sum(one.seconds for one in runs) / n:.0f}",
        ]


def show(options: argparse.Namespace, results: Sequence[Result]) -> None:
    tried = [one for one in results if not one.error]
    settings = json.dumps(options.settings) if options.settings else "as it comes"
    reply = "first reply only" if options.first_move else f"at most {options.turns} turns"
    print(f"Model {options.model}, temperature 0, one run a cell, {reply}; tool_search: {settings}\n")
    for title, runs in (
        (f"{options.wording} tasks over {SIZE:,} tools", [one for one in tried if one.job not in SCENARIOS]),
        ("scenarios over 20 tools", [one for one in tried if one.job in SCENARIOS]),
    ):
        if runs:
            head, *rows = table(runs, first_move=options.first_move)
            print(f"| {title}: {' | '.join(head)} |")
            print(f"|{'---|' * len(head)}")
            for row in rows:
                print(f"| {' | '.join(row)} |")
            print()
    for one in results:
        if one.error:
            print(f"failed: {one.mode} {one.job}: {one.error}", file=sys.stderr)


async def show_prefetched(*, one_session: bool) -> None:
    """A table over numbers of prefetched tools and their budgets."""
    print(
        "| prefetch | prefetch_tokens | plain: right tool offered, + by its signature | roundabout | tokens offered |"
    )
    print("|---|---|---|---|---|")
    for count, budget in BUDGETS:
        cells: list[str] = []
        tokens = 0
        for wording in ("plain", "roundabout"):
            tasks = [job for job in jobs(wording).values() if not job.scenario]
            shown, behind, mean = await prefetched(tasks, count, budget, one_session=one_session)
            cells.append(f"{shown} + {behind} of {len(tasks)}")
            tokens += mean // 2
        print(f"| {count} | {budget:,} | {' | '.join(cells)} | {tokens:,} |")


def main(arguments: Sequence[str] | None = None) -> None:
    options = read_options(arguments)
    if options.json:
        with options.json.open("a"):  # whether it can be written is known before a model is asked
            pass
    definitions()  # outside of the event loop, as it has one of its own
    if options.prefetched:
        return anyio.run(partial(show_prefetched, one_session=options.one_session))
    results = anyio.run(play_all, options, chosen(options.tasks, jobs(options.wording)))
    show(options, results)
    sys.exit(any(one.error for one in results))


if __name__ == "__main__":
    main()
