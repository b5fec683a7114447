"""What the core does for plugins that show tools because of the conversation: prompts, prefetched and revealed tools."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from hooksdk import Host, MemoryStore, Tool, hooks
from hooksdk.agent import Limits
from hooksdk.hooks import AssembleTools, BeforeModelCall, NarrowTools, Offer, Reveal, Withhold
from hooksdk.records import Revealed
from hooksdk.testing import Turn, call, open_session, play
from tests.stage import echo, make, playing

pytestmark = [pytest.mark.anyio, pytest.mark.both_loops]


def tools(*names: str) -> list[Tool]:
    return [make(name, echo, source="mcp", owner="x", properties={}) for name in names]


class Hiding:
    """Hides all deferrable tools, prefetches some, and reveals others before each model call."""

    prefetched: Sequence[str] = ()
    names: Sequence[str] = ()

    @hooks.assemble_tools
    def hide(self, event: AssembleTools) -> Offer:
        return Offer(defer=[tool.name for tool in event.deferrable], prefetched=self.prefetched)

    @hooks.before_model_call
    def reveal(self, event: BeforeModelCall) -> Reveal | None:
        return Reveal(self.names) if self.names else None


def hiding(*, prefetched: Sequence[str] = (), names: Sequence[str] = ()) -> type[Hiding]:
    return type("Hiding", (Hiding,), {"prefetched": prefetched, "names": names})


async def test_revealed_tools_are_appended_once_in_their_order() -> None:
    plugin = hiding(prefetched=["c"], names=["b", "a", "b", "c"])
    async with playing(plugin, tools=tools("a", "b", "c", "d")) as stage:
        assert [tool.name for tool in stage.run.offered] == ["c"]
        for _ in range(2):
            await stage.run.prepare_messages()
            assert [tool.name for tool in stage.run.offered] == ["c", "b", "a"]
        assert (stage.run.stats["revealed"], stage.run.stats["tools_offered"]) == (2, 3)
        assert stage.run.stats["tokens_offered"] == sum(tool.tokens for tool in stage.run.offered)


async def test_the_sequence_is_the_same_object_while_nothing_is_revealed() -> None:
    async with playing(hiding(), tools=tools("a")) as stage:
        before = stage.run.offered
        await stage.run.prepare_messages()
        assert stage.run.offered is before


@pytest.mark.parametrize(("name", "told"), [("ghost", "no granted tool has this name"), ("b", "it is withheld (no)")])
async def test_a_name_that_is_not_granted_is_told_and_never_shown(
    name: str, told: str, caplog: pytest.LogCaptureFixture
) -> None:
    class Narrow:
        @hooks.narrow_tools
        def narrow(self, event: NarrowTools) -> Withhold | None:
            return Withhold(["b"], "no") if "b" in [tool.name for tool in event.tools] else None

    async with playing(Narrow, hiding(names=["a", name]), tools=tools("a", "b")) as stage:
        await stage.run.prepare_messages()
        assert [tool.name for tool in stage.run.offered] == ["a"]
    assert f"Reveal(names=...) holds '{name}': {told}" in caplog.text


async def test_what_is_revealed_is_kept_when_tools_are_resolved_again_where_it_is_still_granted() -> None:
    async with playing(hiding(names=["a", "b"]), tools=tools("a", "b")) as stage:
        await stage.run.prepare_messages()
        await stage.run.retry()
        await stage.run.resolve_tools(tools("b", "c"))
        assert [tool.name for tool in stage.run.offered] == ["b"]


@pytest.mark.parametrize("name", ["ghost", "shown"])
async def test_what_is_not_deferrable_is_not_prefetched(name: str, caplog: pytest.LogCaptureFixture) -> None:
    core = make("shown", echo, properties={}, core=True)
    async with playing(hiding(prefetched=[name]), tools=[core, *tools("a")]) as stage:
        assert [tool.name for tool in stage.run.offered] == ["shown", "a"]
    assert f"'{name}' is not one of the deferrable tools" in caplog.text


async def test_run_agent_shows_the_model_what_was_revealed_and_runs_calls_of_it_as_text() -> None:
    seen: list[list[str]] = []

    def script(turn: Turn) -> Any:
        seen.append(list(turn.offered))
        return [call("a"), '{"name": "b", "arguments": {}}', "Done."][turn.number - 1]

    class After(Hiding):
        """Reveals `b` when `a` was called."""

        @hooks.transform_tool_result
        def note(self, event: hooks.TransformToolResult) -> None:
            self.names = ["b"]

    async with open_session(After, tools=tools("a", "b")) as session:
        played = await play(session, script, limits=Limits(text_calls="run"))
    assert seen == [[], ["b"], ["b"]]
    assert played.outcome.stats["revealed_used"] == 1


async def test_the_trace_tells_what_was_revealed_by_whom_and_at_which_price() -> None:
    records: list[Revealed] = []

    class Watch:
        @hooks.trace
        async def watch(self, event: hooks.Trace) -> None:
            if isinstance(event.record, Revealed):
                records.append(event.record)

    async with playing(Watch, hiding(names=["a"]), tools=tools("a")) as stage:
        await stage.run.prepare_messages()
        cost = stage.run.offered[0].tokens
    assert records == [Revealed(plugin="hiding", names=("a",), tokens=cost)]


async def test_prompts_are_the_input_and_the_last_user_message_the_newest_first() -> None:
    asked: list[tuple[str, ...]] = []

    class Reads:
        @hooks.assemble_tools
        def read(self, event: AssembleTools) -> None:
            asked.append(tuple(event.prompts))

    async with open_session(Reads, tools=tools("a")) as session:
        await play(session, [call("a"), "One."], "first")
        await play(session, ["Two."], "second")
        await play(session, ["Three."], {"role": "user", "content": [{"type": "text", "text": "third"}]})
        async with session.run() as run:
            await run.resolve_tools()
    assert asked == [("first",), ("second", "first"), ("third", "second"), ("third",)]


CODE = """
from hooksdk import hooks
seen = []
@hooks.assemble_tools
def read(event):
    seen.append(list(event.prompts))
    seen.append(list(event.prompts))
"""


@pytest.mark.parametrize(("grants", "read"), [(["offer"], []), (["offer", "conversation"], ["hello"])])
async def test_an_installed_plugin_reads_prompts_with_the_grant_and_is_named_once_without(
    grants: list[str],
    read: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    package, info = tmp_path / "fake_reader", tmp_path / "fake_reader-1.0.dist-info"
    package.mkdir()
    info.mkdir()
    (package / "__init__.py").write_text(CODE)
    (package / "hooksdk.plugin.json").write_text('{"id": "reader"}')
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: fake-reader\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[hooksdk.plugins]\nreader = fake_reader\n")
    monkeypatch.syspath_prepend(tmp_path)  # pyright: ignore[reportUnknownMemberType]
    monkeypatch.delitem(sys.modules, "fake_reader", raising=False)
    config = {"allow": ["reader"], "plugins": {"reader": {"grants": grants}}}
    async with Host(store=MemoryStore(), config=config) as host:
        for number in range(2):
            async with host.session(f"s{number}") as session, session.run("hello") as run:
                await run.resolve_tools(tools("a"))
    assert import_module("fake_reader").seen == [read] * 4
    told = [line for line in caplog.messages if "no 'conversation' grant for AssembleTools.prompts" in line]
    assert len(told) == (0 if read else 1)
