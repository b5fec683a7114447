"""What a proof over all calls takes, by the number of rules: `python benchmarks/prove.py [--json]`."""

from __future__ import annotations

import argparse
import json
import random
import statistics
import time
from collections.abc import Callable
from typing import Any

from builtin_plugins.tool_policy import ToolPolicy
from hooksdk.rules import Rules
from hooksdk.rules.proofs import Search, changes

SIZES = (8, 100, 1_000)
VERBS = [
    "get",
    "list",
    "read",
    "delete",
    "remove",
    "create",
    "update",
    "send",
    "post",
    "merge",
    "close",
    "open",
    "search",
    "fetch",
    "move",
    "copy",
    "rename",
    "run",
    "start",
    "stop",
]
NOUNS = [
    "issue",
    "page",
    "file",
    "user",
    "repo",
    "mail",
    "event",
    "note",
    "label",
    "team",
    "board",
    "card",
    "task",
    "row",
    "table",
    "key",
    "secret",
]
ENDS = ("", "*", "_{}", "_x{}*")


def rules_of(size: int) -> list[dict[str, Any]]:
    """Rules as long lists of them are: a name or its beginning, some of one server, for an agent or for scheduled runs."""
    chance = random.Random(28)
    rules: list[dict[str, Any]] = []
    while len(rules) < size:
        name = f"{chance.choice(VERBS)}_{chance.choice(NOUNS)}{chance.choice(ENDS).format(len(rules))}"
        rule: dict[str, Any] = {"action": chance.choice(["deny", "ask"]), "tools": name}
        if chance.random() < 0.3:
            rule["tools"] = f"mcp:server{chance.randrange(20)}:{name}"
        if chance.random() < 0.2:
            rule |= {"triggers": "schedule"} if chance.random() < 0.5 else {"agents": f"agent-{chance.randrange(9)}"}
        if chance.random() < 0.1:
            rule["path_inside"] = f"/srv/{chance.randrange(9)}"
        rules.append(rule)
    return rules


def described(rules: list[dict[str, Any]]) -> tuple[ToolPolicy.Config, Rules]:
    """The rules with one that the questions are about. What never decides is left out, as the plugin refuses it."""
    config = ToolPolicy.Config.model_construct(
        rules=ToolPolicy.Config.model_validate({"rules": rules[:1]}).rules, vocabulary={}, results=[], default="allow"
    )
    for rule in rules[1:]:
        config.rules.extend(ToolPolicy.Config.model_validate({"rules": [rule]}).rules)
    return config, ToolPolicy.describe_rules(config)


def questions(size: int) -> dict[str, Callable[[], object]]:
    """What is measured, by name."""
    rules = [{"action": "deny", "tools": "wipe_*"}, *rules_of(size - 1)]
    config, one = described(rules)
    _, other = described([*rules[:-1], {**rules[-1], "tools": "something_else"}])

    def ask(calls: dict[str, Any], *, holds: bool) -> None:
        search = Search({"": one}, ToolPolicy.describe_calls(config, calls), "never")
        assert (next(search.examples(), None) is None) is holds

    return {
        "holds": lambda: ask({"tools": "wipe_*"}, holds=True),
        "broken, by name": lambda: ask({"tools": "delete_*"}, holds=False),
        "broken, any tool": lambda: ask({"annotations": {"destructive": True}}, holds=False),
        "diff of one rule": lambda: list(changes(one, other)),
    }


def milliseconds(question: Callable[[], object], rounds: int) -> float:
    """The median."""
    times: list[float] = []
    for _ in range(rounds):
        start = time.perf_counter()
        question()
        times.append(time.perf_counter() - start)
    return statistics.median(times) * 1_000


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    rows = {
        size: {name: milliseconds(one, arguments.rounds) for name, one in questions(size).items()} for size in SIZES
    }
    if arguments.json:
        print(json.dumps({"schema": 1, "milliseconds": rows}))
        return
    print("| rules | " + " | ".join(rows[SIZES[0]]) + " |")
    print("|---|" + "---|" * len(rows[SIZES[0]]))
    for size, row in rows.items():
        print(f"| {size:,} | " + " | ".join(f"{one:,.0f} ms" for one in row.values()) + " |")


if __name__ == "__main__":
    main()
