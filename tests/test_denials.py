"""No page says of something that it is missing while a hook, a plugin, an adapter, a command or an extra of this name exists."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer.main

from hooksdk import hooks
from hooksdk.cli import _app
from hooksdk.cli._groups import GROUPS

ROOT = Path(__file__).parents[1]
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
PAGES = sorted((ROOT / "docs").rglob("*.md"))
DENIAL = re.compile(r"\bnot here\b|\byou lose\b|\bnot there yet\b|\bhooksdk lacks\b", re.IGNORECASE)
MEANT = {
    "before_answer": r"before_agent_finalize|pre_verify|transform_llm_output|pre_output|final answer|ends? of a run|finish",
    "audit": r"tamper\w*|sign(ed|s)\b|audit trail", "cedar": r"\bcedar\b",
    "limits": r"\b(rates?|counts?|budgets?|spend\w*|quotas?)\b", "guard": r"coding agents?",
    "dbos": r"durable|survive a restart", "policy prove": r"\bproofs?\b|\bprove\b",
    "prices": r"\bmoney\b|\bdollars\b", "telemetry": r"opentelemetry|\bspans\b", "gateway": r"\bproxy\b",
}  # fmt: skip
"""What exists under other words, by a name that it has here, or by a condition of tool_policy."""
OF_OTHERS = {
    ("hermes-agent.md", "gateway"): "Hermes' gateways are its chat channels",
    ("openclaw.md", "gateway"): "OpenClaw's gateway is its server for chat channels",
}


def commands() -> Iterator[str]:
    """`doctor`, `policy prove` and so on."""
    root: Any = typer.main.get_command(_app.app)
    with root.make_context("hooksdk", ["doctor"]) as context:
        for name in (*root.list_commands(context), *GROUPS):
            group = root.get_command(context, name)
            yield name
            yield from (f"{name} {inner}" for inner in getattr(group, "commands", {}))


def adapters() -> list[str]:
    return [path.stem for path in (ROOT / "hooksdk/adapters").glob("[!_]*.py")]


KINDS: dict[str, list[str]] = {
    "hook": [name for name, one in vars(hooks).items() if isinstance(one, hooks.before_tool_call.__class__)],
    "plugin": [*PROJECT["entry-points"]["hooksdk.plugins"]], "adapter": adapters(), "extra": [*PROJECT["optional-dependencies"]],
    "command": [*commands()], "condition": ["limits"],
}  # fmt: skip
PLAIN = {
    "run",
    "config",
    "tools",
    "sessions",
    "report",
    "trace",
    "cli",
    "dev",
    "docs",
    "code",
    "demo",
    "testing",
    "mcp",
    "plugins",
}
"""Names that are also everyday words of these pages."""
NAMES = {name for names in KINDS.values() for name in names} - PLAIN


def denied(text: str) -> Iterator[tuple[int, str]]:
    """The rows and sentences of a page that deny something, with their lines; under a heading that does, every row."""
    heading = False
    for number, line in enumerate(text.splitlines(), 1):
        if line.startswith("#"):
            heading = bool(re.search(r"not there yet", line, re.IGNORECASE))
        elif line.startswith("|"):
            cells = line.strip("|").split("|")
            if heading or DENIAL.search(line):
                yield number, cells[0]
        else:
            yield from ((number, one) for one in re.split(r"(?<=[.;:]) ", line) if DENIAL.search(one))


def existing(text: str) -> set[str]:
    """The names of what exists that a text speaks of, by name or in other words."""
    plain = re.sub(r"[`_-]", " ", text).lower()
    named = {name for name in NAMES if re.search(rf"\b{re.escape(re.sub('[_-]', ' ', name))}\b", plain)}
    return named | {name for name, words in MEANT.items() if re.search(words, text, re.IGNORECASE)}


def test_what_a_page_denies_does_not_exist() -> None:
    untrue = [
        (page.name, number, text, name)
        for page in PAGES
        for number, text in denied(page.read_text("utf-8"))
        for name in sorted(existing(text))
        if (page.name, name) not in OF_OTHERS
    ]
    assert not untrue


def test_what_exists_under_other_words_exists() -> None:
    assert {*MEANT} <= NAMES


@pytest.mark.parametrize(
    "sentence",
    [
        "| `before_agent_reply`, `before_agent_finalize` | not here |", "| `transform_llm_output`, `pre_verify` | not here |",
        "| Rego, Cedar | not here; a plugin can ask them |", "| the gate `before_answer` | not here |",
        "You lose rates and counts as rules, and the audit trail that shows tampering.",
        "You lose the ends of a run by a hook.", "hooksdk lacks a guard for coding agents.",
        "## Not there yet\n\n| what |\n|---|\n| adapters other than langchain and pydantic-ai |",
    ],
)  # fmt: skip
def test_a_page_that_denies_what_exists_is_found(sentence: str) -> None:
    assert any(existing(text) for _, text in denied(sentence))
