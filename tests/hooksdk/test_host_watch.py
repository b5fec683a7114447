"""`Host(watch=True)`: sessions that begin have the newest rules of the files, open ones keep theirs."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest

from hooksdk import Config, Host, Run, Session, ToolCall
from hooksdk.cli._edits.configuration import record_trust
from hooksdk.config import read_config
from hooksdk.errors import ConfigError, WrongArgument
from hooksdk.sync import Host as PlainHost
from hooksdk.sync import LazyHost
from tests.hooksdk.test_config_watch import RULES, WIDENS, write
from tests.stage import make

pytestmark = [pytest.mark.anyio, pytest.mark.both_loops]
DENY = RULES.format("deny")
PLUGIN = "from hooksdk import hooks\n\n\n@hooks.session_start\ndef begin(event): ...\n"
ALLOW = RULES.format("allow")


@pytest.fixture
def project(home: Path, tmp_path: Path) -> Path:
    """The project's file, which allows the tool; `home` keeps the user's own files out."""
    assert home.is_dir()
    write(tmp_path / "hooksdk.toml", ALLOW)
    return tmp_path / "hooksdk.toml"


@pytest.fixture
def user(project: Path, home: Path) -> Path:
    """The user's file, whose settings of a plugin need nobody's trust."""
    project.unlink()
    write(home / "config" / "hooksdk" / "config.toml", ALLOW)
    return home / "config" / "hooksdk" / "config.toml"


async def is_denied(session: Session) -> bool:
    """Whether the session's rules deny the tool now."""
    async with session.run() as run:
        await run.resolve_tools([make("echo", properties={})])
        return "withheld" in (await run.call_tool(ToolCall(id="c1", name="echo", arguments={}))).text


async def next_is_denied(host: Host | LazyHost, session_id: str | None = None) -> bool:
    """The same of a session that begins now."""
    async with host.session(session_id) as session:
        return await is_denied(session)


class Opened:
    """Counts how often it is open. It fails where its settings say so."""

    now, most = 0, 0

    @classmethod
    @asynccontextmanager
    async def shared(cls, config: dict[str, Any]) -> AsyncGenerator[None, None]:
        if config.get("fails"):
            raise OSError("no network")
        cls.now += 1
        cls.most = max(cls.most, cls.now)
        yield
        cls.now -= 1

    def __init__(self, config: dict[str, Any]) -> None:
        self.settings = config


@pytest.fixture
def opened() -> type[Opened]:
    """One that is not open yet."""
    return type("Opened", (Opened,), {"now": 0, "most": 0})


async def test_a_session_that_begins_has_the_new_rules_and_an_open_one_keeps_its_own(project: Path) -> None:
    async with Host(folder=project.parent, watch=True) as host, host.session("first") as first:
        assert not await is_denied(first)
        write(project, DENY)
        assert await next_is_denied(host)
        assert not await is_denied(first)
        async with first.child() as child:
            assert not await is_denied(child)
        assert "deny" in str(host.config.plugins["tool_policy"].config)
    # Without `watch` the host keeps the rules that it began with.
    write(project, ALLOW)
    async with Host(folder=project.parent) as host:
        write(project, DENY)
        assert not await next_is_denied(host)


async def test_a_session_that_opens_again_has_the_new_rules(project: Path) -> None:
    async with Host(folder=project.parent, watch=True) as host:
        assert not await next_is_denied(host, "ann")
        write(project, DENY)
        assert await next_is_denied(host, "ann")


async def test_a_held_session_keeps_its_rules_until_it_is_closed(project: Path) -> None:
    async with Host(folder=project.parent, watch=True) as host:
        held = await host.hold("ann")
        write(project, DENY)
        assert await host.hold("ann") is held
        assert not await is_denied(held)
        await held.close()
        assert await is_denied(await host.hold("ann"))


async def test_two_sessions_that_begin_at_once_take_over_once(project: Path, opened: type[Opened]) -> None:
    async with Host([opened], folder=project.parent, watch=True) as host:
        write(project, DENY)
        found: list[bool] = []

        async def begin() -> None:
            found.append(await next_is_denied(host))

        async with anyio.create_task_group() as group:
            group.start_soon(begin)
            group.start_soon(begin)
        assert (found, opened.most) == ([True, True], 2)


async def test_the_plugins_of_older_rules_end_with_their_last_session(
    user: Path, tmp_path: Path, opened: type[Opened]
) -> None:
    settings = "[plugins.opened.config]\nturn = {}\n"
    async with Host([opened], folder=tmp_path, watch=True) as host:
        for turn in range(3):
            write(user, ALLOW + settings.format(turn))
            async with host.session("old") as old:
                write(user, DENY + settings.format(turn))
                assert await next_is_denied(host, f"new {turn}")
                assert (old.plugin("opened").settings["turn"], opened.now) == (turn, 3)
            while opened.now > 2:  # it is left by a task of the host's
                await anyio.sleep(0)
    assert (opened.now, opened.most) == (0, 3)


BROKEN = {"no TOML": "[[plugins", "a misspelt setting": 'dennny = ["x"]', "a wrong rule": RULES.format("alow")}


@pytest.mark.parametrize("text", [*BROKEN.values(), "", " \n", None], ids=[*BROKEN, "empty", "blank", "gone"])
async def test_a_file_that_turns_wrong_or_empty_or_is_gone_keeps_the_rules_and_is_told(
    project: Path, caplog: pytest.LogCaptureFixture, text: str | None
) -> None:
    write(project, DENY)
    async with Host(folder=project.parent, watch=True) as host:
        if text is None:
            project.unlink()
        else:
            write(project, text)
        assert await next_is_denied(host)
        assert await next_is_denied(host)
        assert caplog.text.count("the configuration stays as it was") == 1
        assert str(project) in caplog.text or "tool_policy" in caplog.text
        write(project, ALLOW)
        assert not await next_is_denied(host)


async def test_plugins_that_cannot_start_under_the_new_settings_keep_the_old_ones(
    user: Path, tmp_path: Path, opened: type[Opened], caplog: pytest.LogCaptureFixture
) -> None:
    async with Host([opened], folder=tmp_path, watch=True) as host:
        write(user, DENY + "[plugins.opened.config]\nfails = true\n")
        assert not await next_is_denied(host)
        assert "the configuration stays as it was: its plugins could not be started" in caplog.text
        assert "no network" in caplog.text
        write(user, DENY)
        assert await next_is_denied(host)


async def test_a_change_that_whoever_began_it_did_not_wait_for_counts_for_the_next(
    project: Path, opened: type[Opened]
) -> None:
    async with Host([opened], folder=project.parent, watch=True) as host:
        write(project, DENY)
        with anyio.CancelScope() as scope:
            scope.cancel()
            await next_is_denied(host, "ann")
        assert scope.cancelled_caught
        assert await next_is_denied(host, "ann")


async def test_a_trusted_file_that_changes_waits_for_a_persons_word(
    project: Path, caplog: pytest.LogCaptureFixture
) -> None:
    for name in ("one", "two"):
        (project.parent / f"{name}.py").write_text(PLUGIN, "utf-8")
    write(project, WIDENS.format("one") + ALLOW)
    record_trust(read_config(folder=project.parent)[1].trust)
    async with Host(folder=project.parent, watch=True) as host:
        write(project, WIDENS.format("two") + DENY)
        assert not await next_is_denied(host)
        assert "has changed since you trusted it" in caplog.text
        record_trust(read_config(folder=project.parent)[1].trust)
        assert await next_is_denied(host)


async def test_a_lazy_host_follows_its_file_for_every_loop(project: Path) -> None:
    host = LazyHost(folder=project.parent, watch=True)
    try:
        assert not await next_is_denied(host)
        write(project, DENY)
        assert await next_is_denied(host)
        assert await is_denied(await host.hold("ann"))
    finally:
        host.plain.__exit__(None, None, None)


def test_a_plain_host_follows_its_file(project: Path) -> None:
    with PlainHost(folder=project.parent, watch=True) as host:
        write(project, DENY)
        with host.session() as session, session.run() as run:
            run.resolve_tools([make("echo", properties={})])
            assert "withheld" in run.call_tool(ToolCall(id="c1", name="echo", arguments={})).text


async def test_what_was_given_in_code_stays_above_the_files(project: Path) -> None:
    async with Host(folder=project.parent, config={"deny": ["tool_search"]}, watch=True) as host:
        write(project, DENY)
        assert await next_is_denied(host)
        assert host.config.deny == ["tool_search"]


async def test_the_runs_of_an_open_session_ask_no_file(project: Path) -> None:
    async with Host(folder=project.parent, watch=True) as host, host.session() as session:
        project.unlink()
        assert not await is_denied(session)
        run: Run
        async with session.run() as run:
            assert run is not None


def test_a_whole_config_follows_no_file(project: Path) -> None:
    with pytest.raises(ConfigError, match=r"stands in the place of the files .* Give a mapping"):
        Host(config=Config(), folder=project.parent, watch=True)
    with pytest.raises(WrongArgument, match="True or False"):
        Host(folder=project.parent, watch="yes")  # pyright: ignore[reportArgumentType]
