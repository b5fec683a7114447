"""The page of the command names every command, once."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
import typer
from rich import markup

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


def helps(command: Any, name: str) -> Iterator[tuple[str, str]]:
    """What the help says of a command, of its options and of all below it."""
    yield name, command.help or ""
    for option in command.params:
        yield f"{name} {option.name}", getattr(option, "help", None) or ""
    context = typer.Context(command)
    for word in command.list_commands(context) if hasattr(command, "list_commands") else ():
        yield from helps(command.get_command(context, word), f"{name} {word}")


def test_no_help_loses_words_in_brackets_which_rich_takes_for_markup() -> None:
    from hooksdk.cli._app import app

    texts = dict(helps(typer.main.get_command(app), "hooksdk"))
    assert "hooksdk policy prove file" in texts
    assert [name for name, text in texts.items() if markup.render(text).plain != text] == []


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
