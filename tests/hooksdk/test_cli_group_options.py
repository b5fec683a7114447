"""Options that stand before a subcommand, such as `hooksdk approvals --store B grant 1`, in every group of commands."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import typer.main

from hooksdk.approvals import ApprovalRequest, Question
from hooksdk.calls import ToolCall
from hooksdk.cli import _app
from hooksdk.cli._groups import GROUPS
from hooksdk.desk import ApprovalDesk, ApprovalRecords
from hooksdk.stores import SqlStore
from tests.hooksdk.commands import hooksdk
from tests.stage import make

COMMAND: Any = typer.main.get_command(_app.app)


def groups_with_options() -> list[tuple[str, str]]:
    """Group and subcommand, for each group that takes options of its own."""
    with COMMAND.make_context("hooksdk", ["doctor"]) as context:
        found = [(name, COMMAND.get_command(context, name)) for name in (*GROUPS, "config")]
        return [(name, sub) for name, group in found if group.params for sub in group.list_commands(context)]


def typed(option: Any, folder: Path) -> tuple[list[str], list[str]]:
    """An option as it is typed, with a value that it takes, and what should arrive."""
    if option.is_flag:
        return [option.opts[0]], ["True"]
    value = "bridge" if option.name == "expose" else str(folder)
    return [option.opts[0], value], [value]


@pytest.mark.parametrize(("name", "subcommand"), groups_with_options())
def test_an_option_before_a_subcommand_counts_for_it_or_is_refused(name: str, subcommand: str, tmp_path: Path) -> None:
    with COMMAND.make_context("hooksdk", [name]) as context:
        group = COMMAND.get_command(context, name)
        for option in group.params:
            words, expected = typed(option, tmp_path)
            with group.make_context(name, [*words, subcommand, "1"], parent=context) as inner:
                own = {one.name: one.opts for one in group.commands[subcommand].params}
                if own.get(option.name) == option.opts:
                    _, command, rest = group.resolve_command(inner, [subcommand, "1"])
                    inside = command.make_context(subcommand, rest, parent=inner, resilient_parsing=True)
                    arrived = inside.params[option.name]
                    assert [str(one) for one in (arrived if option.multiple else [arrived])] == expected, rest
                else:
                    with pytest.raises(Exception, match=f"{option.opts[0]} is an option of `hooksdk {name}` alone"):
                        group.resolve_command(inner, [subcommand, "1"])


def test_one_that_a_subcommand_uses_for_something_else_is_refused() -> None:
    """`revoke --all` forgets every answer; `--all` before it means the questions that have ended."""
    with pytest.raises(
        Exception, match="--all is an option of `hooksdk approvals` alone: leave it out before `revoke`"
    ):
        COMMAND(["approvals", "--all", "revoke"], standalone_mode=False, prog_name="hooksdk")


@pytest.mark.parametrize(
    "typed", ["approvals --all list", "approvals approve", "approvals --all grant", "gateway --http x:1 status"]
)
def test_a_shell_that_completes_a_word_is_told_no_problem(typed: str) -> None:
    name, *words = typed.split()
    with COMMAND.make_context("hooksdk", [name], resilient_parsing=True) as context:
        group = COMMAND.get_command(context, name)
        with group.make_context(name, [*words, "--"], parent=context, resilient_parsing=True) as inner:
            assert group.resolve_command(inner, [words[-1]])[2] == []


@pytest.mark.parametrize(
    "command", ["approvals --store {} grant 1", "approvals grant 1 --store {}", "sessions list --store {}"]
)
@pytest.mark.parametrize("empty", ["", " "])
def test_an_empty_store_is_not_the_default_one(command: str, empty: str, capsys: pytest.CaptureFixture[str]) -> None:
    words = [empty if word == "{}" else word for word in command.split(" ")]
    assert _app.run(words) == 1
    assert "--store" in capsys.readouterr().err


def test_an_option_after_the_subcommand_is_the_one_that_counts() -> None:
    with COMMAND.make_context("hooksdk", ["approvals"]) as context:
        group = COMMAND.get_command(context, "approvals")
        with group.make_context("approvals", ["--store", "a", "grant", "--store", "b", "1"], parent=context) as inner:
            _, command, rest = group.resolve_command(inner, ["grant", "--store", "b", "1"])
            assert command.make_context("grant", rest, parent=inner).params["store"] == "b"


@pytest.mark.heavy
@pytest.mark.anyio
async def test_an_answer_reaches_the_question_of_the_store_that_is_named_before_the_command(tmp_path: Path) -> None:
    async def ask(where: Path, title: str) -> ApprovalRecords:
        records = ApprovalRecords(SqlStore(where))
        questions = (Question(title=title, plugin="p"),)
        request = ApprovalRequest(
            title=title, severity="warning", plugin="p", questions=questions, session_id="s", requester=None,
            call=ToolCall("c1", "pay", {}), tool=make("pay"), arguments={},
        )  # fmt: skip
        await ApprovalDesk(records, wait=0)(request)
        return records

    here = await ask(tmp_path / "kept", "Delete everything?")
    there = await ask(tmp_path / "b", "Send a mail?")
    before = ("approvals", "--store", str(tmp_path / "b"))
    done = await hooksdk(*before, "approve", "1", folder=tmp_path)
    assert done.err.endswith(f"did you mean: hooksdk approvals grant --store {tmp_path / 'b'} 1\n")
    done = await hooksdk(*before, "grant", "1", folder=tmp_path)
    assert (done.code, done.out.partition(" (")[0]) == (0, "granted: 1, Send a mail?")
    assert [one.state for one in await there.list()] == ["granted"]
    assert [one.state for one in await here.list()] == ["pending"]
    (tmp_path / "project").mkdir()
    (tmp_path / "project" / "hooksdk.toml").write_text('store = "memory"\n')
    done = await hooksdk("approvals", "--project", "project", "grant", "1", folder=tmp_path)
    assert (done.code, done.out) == (1, "")
    assert "this project keeps nothing on disk" in done.err
