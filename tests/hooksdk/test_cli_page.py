"""The page of the command names every command, once."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
import typer

from tests.pages import table

pytestmark = pytest.mark.heavy


def commands(group: Any, name: str) -> Iterator[tuple[str, bool]]:
    """Every command of a group with its full name, and whether it is a group that does something by itself."""
    context = typer.Context(group)
    for word in group.list_commands(context):
        command = group.get_command(context, word)
        inner = hasattr(command, "list_commands")
        if not inner or command.invoke_without_command:
            yield f"{name} {word}", inner
        if inner:
            yield from commands(command, f"{name} {word}")


def test_the_table_has_each_command_once() -> None:
    from hooksdk.cli._app import app

    known = dict(commands(typer.main.get_command(app), "hooksdk"))
    listed: list[str] = []
    for first_cell, _ in table("reference/cli.md", "you type", "it does"):
        spans = [re.split(r" (?![a-z])", span)[0] for span in re.findall(r"`([^`]+)`", first_cell)]
        for span in spans:
            group = spans[0] if known.get(spans[0]) else spans[0].rpartition(" ")[0]
            listed.append(span if span.startswith("hooksdk") else f"{group} {span}")
    assert sorted(name for name in listed if not re.search("^hooksdk$| -", name)) == sorted(known)
