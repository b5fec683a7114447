"""What plugins hold open: lifespans of their instances, and what a host's sessions share."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pluggy
import pytest

from hooksdk import Host, MemoryStore
from hooksdk._plugins.plugin import Plugin
from hooksdk.errors import PluginRefused

pytestmark = [pytest.mark.anyio, pytest.mark.both_loops]
log: list[str] = []
impl = pluggy.HookimplMarker("hooksdk")


@pytest.fixture(autouse=True)
def empty_log() -> None:
    log.clear()


def host(*plugins: Any, config: Mapping[str, Any] | None = None) -> Host:
    return Host(plugins, store=MemoryStore(), config={"allow": [], **(config or {})})


def given(found: Host) -> list[Plugin]:
    return [plugin for plugin in found.plugins if plugin.origin == "code"]


def living(name: str, *, fails: str = "") -> type:
    class Lives:
        plugin_id = name

        def __init__(self) -> None:
            log.append(f"{name} made")
            if fails == "constructor":
                raise ValueError("no")
            if fails == "exit":
                raise SystemExit(3)

        @asynccontextmanager
        async def lifespan(self) -> AsyncGenerator[None]:
            if fails == "enter":
                raise ValueError("no")
            log.append(f"{name} in")
            yield
            log.append(f"{name} out")
            if fails == "leave":
                raise ValueError("no")

    return Lives


@pytest.mark.parametrize(
    ("fails", "words"),
    [
        ("constructor", "plugin 'c' refused: its constructor raised ValueError: no"),
        ("exit", "plugin 'c' refused: its constructor raised SystemExit: 3"),
        ("enter", "plugin 'c' refused: its lifespan raised ValueError: no"),
    ],
)
async def test_a_failing_constructor_or_lifespan_refuses_the_session_and_closes_the_others_in_reverse(
    fails: str, words: str
) -> None:
    async with host(living("a"), living("b"), living("c", fails=fails), living("d")) as opened:
        with pytest.raises(PluginRefused) as caught:
            async with opened.session("s"):
                raise AssertionError
        assert str(caught.value) == words
        assert log == ["a made", "a in", "b made", "b in", "c made", "b out", "a out"]
        with pytest.raises(PluginRefused):
            async with opened.session("s"):
                raise AssertionError("the session was let go, and is refused again for the same reason")


async def test_lifespans_end_in_reverse_and_a_failing_end_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    async with host(living("a"), living("b", fails="leave")) as opened, opened.session("s"):
        pass
    assert log == ["a made", "a in", "b made", "b in", "b out", "a out"]
    assert "the lifespan of plugin 'b' failed at its end: ValueError: no" in caplog.text


async def test_a_lifespan_that_is_no_context_manager_is_refused_by_name() -> None:
    class Forgets:
        async def lifespan(self) -> AsyncGenerator[None]:
            yield

    async with host(Forgets) as opened:
        with pytest.raises(PluginRefused, match="plugin 'forgets' refused: its lifespan raised TypeError"):
            async with opened.session("s"):
                raise AssertionError


async def test_what_is_shared_is_entered_once_for_each_host_and_reaches_every_session() -> None:
    class Pooled:
        def __init__(self, shared: str) -> None:
            log.append(shared)

        @classmethod
        @asynccontextmanager
        async def shared(cls, config: Any) -> AsyncGenerator[str]:
            log.append("open")
            yield "pool"
            log.append("closed")

    async with host(Pooled) as opened, opened.session("a"), opened.session("b"):
        pass
    assert log == ["open", "pool", "pool", "closed"]


async def test_a_shared_part_that_fails_refuses_the_host_by_name_and_closes_the_others() -> None:
    def sharing(name: str, fails: bool) -> type:
        class Shares:
            plugin_id = name

            @classmethod
            @asynccontextmanager
            async def shared(cls, config: Any) -> AsyncGenerator[None]:
                if fails:
                    raise ValueError("no pool")
                log.append(f"{name} in")
                yield
                log.append(f"{name} out")

        return Shares

    with pytest.raises(PluginRefused, match=r"plugin 'b' refused: its shared\(\.\.\.\) raised ValueError: no pool"):
        async with host(sharing("a", False), sharing("b", True)):
            raise AssertionError
    assert log == ["a in", "a out"]


async def test_a_session_that_waits_for_another_does_not_take_its_place_in_the_host() -> None:
    async with host(living("a")) as opened:
        first = opened.session("s")
        await first.__aenter__()
        with anyio.move_on_after(0.05):
            async with opened.session("s"):
                raise AssertionError
    assert log == ["a made", "a in", "a out"], "the host closed the first session"
