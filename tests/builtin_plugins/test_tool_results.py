"""The model lists, trims and recalls tool results."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from builtin_plugins.tool_results import ToolResults
from hooksdk import Host, MemoryStore, Run, Session, Tool, ToolCall, ToolResult
from hooksdk.stores import SqlStore
from hooksdk.testing import open_session
from hooksdk.transcript import Results, Store
from tests.hooksdk.tables import rewrite
from tests.hooksdk.transcripts import opened
from tests.stage import reply

pytestmark = pytest.mark.anyio

LONG = "The quick brown fox jumps over the lazy dog. " * 40


class Model:
    """The test in the model's place: a reply with one call, and its result."""

    def __init__(self, session: Session, run: Run) -> None:
        self.session = session
        self.run = run
        self._calls = 0

    async def call(
        self, name: str, arguments: Mapping[str, Any] | None = None, call_id: str | None = None
    ) -> ToolResult:
        self._calls += 1
        call = ToolCall(call_id or f"{self.run.info.run_id}-{self._calls}", name, dict(arguments or {}))
        await self.run.record(reply(call))
        return await self.run.call_tool(call)

    async def fetch(self, text: str, call_id: str | None = None) -> None:
        """A result with this text."""
        assert (await self.call("fetch", {"text": text}, call_id)).text == text

    async def listing(self, **filters: Any) -> dict[str, Any]:
        result = await self.call("list-tool-results", filters)
        assert not result.is_error, result.text
        return json.loads(result.text)

    async def rows(self, **filters: Any) -> list[dict[str, Any]]:
        return (await self.listing(**filters))["results"]


def fetch(arguments: dict[str, Any]) -> str:
    return arguments["text"]


FETCH = Tool(
    name="fetch", description="Fetches.", source="host", owner="core", execute=fetch,
    parameters={"type": "object", "properties": {"text": {"type": "string"}}},
)  # fmt: skip


def settings(more: Mapping[str, Any] | None = None, **config: Any) -> dict[str, Any]:
    return {"allow": ["tool_results"], "plugins": {"tool_results": {"config": config}}, **(more or {})}


@asynccontextmanager
async def a_run(session: Session) -> AsyncGenerator[Model, None]:
    async with session.run(context_window=200_000) as run:
        await run.resolve_tools([FETCH])
        await run.record({"role": "user", "content": "Go on."})
        yield Model(session, run)


@asynccontextmanager
async def a_session(
    store: Store | None = None, config: Mapping[str, Any] | None = None
) -> AsyncGenerator[Session, None]:
    async with open_session(store=store, config=config or settings(), session_id="s") as session:
        yield session


@asynccontextmanager
async def a_model(**config: Any) -> AsyncGenerator[Model, None]:
    async with a_session(config=settings(**config)) as session, a_run(session) as model:
        yield model


async def test_it_is_off_unless_configured():
    async with Host(store=MemoryStore()) as host:
        (plugin,) = [one for one in host.plugins if one.id == "tool_results"]
        assert plugin.status == "off"


async def test_a_row_tells_everything_but_the_body():
    async with a_model() as model:
        await model.fetch(LONG, "c1")
        (row,) = await model.rows()
        assert row == {
            "handle": "r1", "call_id": "c1", "tool": "fetch", "characters": len(LONG), "tokens": len(LONG) // 4,
            "turns_ago": 1, "arguments": row["arguments"], "already_trimmed": False, "queued": False, "trimmable": True,
        }  # fmt: skip
        assert row["arguments"].startswith('{"text": "The quick')
        assert len(row["arguments"]) <= 80


async def test_the_newest_result_stands_last():
    async with a_model() as model:
        await model.fetch("first")
        await model.fetch("second")
        assert [row["turns_ago"] for row in await model.rows()] == [2, 1]


async def test_a_result_that_cannot_be_trimmed_says_why():
    async with a_model() as model:
        await model.fetch("short")
        (row,) = await model.rows()
        assert row["trimmable"] is False
        assert "too short" in row["why_not"]


async def test_a_trim_that_came_too_late_for_a_compaction_is_told_in_the_next_listing():
    async with a_session() as session:
        async with a_run(session) as model:
            await model.fetch(LONG)
            await model.call("trim-tool-result", {"id": "r1"})
            assert "last_trim" not in (await model.rows())[0]
            async with model.run.compaction() as compaction:
                await compaction.replace([{"role": "user", "content": "summary"}, *session.view[-2:]])
        async with a_run(session) as model:
            row = (await model.rows())[0]
            assert (row["already_trimmed"], row["trimmable"]) == (False, False)
            assert "compacted away before the trim was applied" in row["last_trim"]


async def test_a_trim_of_a_result_that_was_changed_meanwhile_is_told_in_the_next_listing(tmp_path: Path):
    store = SqlStore(tmp_path)
    async with a_session(store) as session, a_run(session) as model:
        await model.fetch(LONG)
        await model.run.record(reply(text="I have read it."))
    async with opened(store, "s") as transcript:
        assert (await Results(transcript, "p").trim("r1")).status == "queued"
    await rewrite(store, lambda messages: json.loads(json.dumps(messages).replace("brown fox", "white fox")))
    async with a_session(store) as session, a_run(session) as model:
        row = (await model.rows())[0]
        assert (row["already_trimmed"], row["trimmable"]) == (False, True)
        assert "not the one that the trim was made for" in row["last_trim"]
        await model.call("trim-tool-result", {"id": "r1"})
        assert "last_trim" not in (await model.rows())[0]


async def test_long_arguments_are_listed_trimmed_and_read_again_when_they_are_asked_for():
    async with a_model() as model:
        await model.fetch(LONG)
        await model.run.record({"role": "assistant", "content": "Read."})
        rows = await model.rows(with_arguments=True)
        assert [(row["handle"], row["trimmable"]) for row in rows] == [("r1.text", True), ("r1", True)]
        answer = await model.call("trim-tool-result", {"id": "r1.text"})
        assert json.loads(answer.text)["status"] == "queued"
        assert (await model.call("recall-tool-result", {"id": "r1.text"})).text == LONG


@pytest.mark.parametrize("written", ['"NOTE"', '"\\n NOTE"', '["NOTE"]', '{"old": [1, "NOTE"]}'])
async def test_a_call_that_repeats_the_note_of_an_argument_does_not_run(written: str):
    async with a_model() as model:
        await model.fetch(LONG)
        await model.call("list-tool-results")
        receipt = await model.session.results.trim("r1.text")
        assert receipt.status == "queued"
        result = await model.call("fetch", {"text": "short", "more": json.loads(written.replace("NOTE", receipt.text))})
        assert result.is_error
        assert "read it with recall-tool-result (r1.text) and write it whole" in result.text


async def test_small_results_can_be_filtered_out():
    async with a_model() as model:
        await model.fetch("short")
        await model.fetch(LONG)
        listing = await model.listing(min_characters=1_000)
        assert [row["handle"] for row in listing["results"]] == ["r2"]
        assert listing["filtered_out"] == 1


async def test_results_that_cannot_be_trimmed_can_be_filtered_out():
    async with a_model() as model:
        await model.fetch("short")
        await model.fetch(LONG)
        assert [row["handle"] for row in await model.rows(only_trimmable=True)] == ["r2"]


async def test_an_empty_session_has_an_empty_listing():
    async with a_model() as model:
        listing = await model.listing()
        assert listing == {"total": 0, "trimmable": 0, "trimmable_tokens": 0, "results": []}


async def test_the_listing_adds_up_what_can_be_saved():
    async with a_model() as model:
        await model.fetch(LONG)
        await model.fetch("short")
        listing = await model.listing()
        assert (listing["total"], listing["trimmable"], listing["trimmable_tokens"]) == (2, 1, len(LONG) // 4)


async def test_a_listing_of_a_thousand_results_stays_small_and_says_what_it_left_out():
    async with a_model() as model:
        messages: list[dict[str, Any]] = []
        for number in range(1_000):
            call = {"id": f"c{number}", "type": "function", "function": {"name": "fetch", "arguments": "{}"}}
            messages.append({"role": "assistant", "content": None, "tool_calls": [call]})
            text = LONG * 2 if number == 3 else "short" if number % 2 else LONG
            messages.append({"role": "tool", "tool_call_id": f"c{number}", "content": text})
        await model.run.record(messages)
        result = await model.call("list-tool-results")
        listing = json.loads(result.text)
        assert len(result.text) < 10_000
        assert listing["left_out"] == 1_000 - len(listing["results"])
        assert "min_characters" in listing["hint"]
        assert listing["results"][0]["handle"] == "r1"
        assert "r4" in [row["handle"] for row in listing["results"]]


async def test_the_length_of_a_listing_is_configurable_and_favours_what_can_be_trimmed():
    async with a_model(max_listed=2) as model:
        await model.fetch(LONG)
        for text in ("short", "shorter", "shortest"):
            await model.fetch(text)
        assert [row["handle"] for row in await model.rows()] == ["r1", "r4"]


async def test_the_next_listing_shows_a_trim_as_queued_and_after_the_run_as_already_trimmed():
    async with a_session() as session:
        async with a_run(session) as model:
            await model.fetch(LONG)
            await model.call("trim-tool-result", {"id": "r1"})
            row = (await model.rows())[0]
            assert (row["queued"], row["already_trimmed"], row["trimmable"]) == (True, False, False)
        async with a_run(session) as model:
            row = (await model.rows())[0]
            assert (row["queued"], row["already_trimmed"], row["trimmable"]) == (False, True, False)


async def test_a_trim_is_told_with_its_saving_and_when_it_is_applied():
    async with a_model() as model:
        await model.fetch(LONG)
        result = await model.call("trim-tool-result", {"id": "r1", "reason": "read"})
        told = json.loads(result.text)
        assert not result.is_error
        assert told["status"] == "queued"
        assert told["characters_before"] == len(LONG) > told["characters_after"]
        assert "when this run ends" in told["applied"]


async def test_the_model_sees_the_whole_result_until_the_run_ends_and_the_replacement_afterwards():
    async with a_session() as session:
        async with a_run(session) as model:
            await model.fetch(LONG)
            await model.call("trim-tool-result", {"id": "r1", "replacement": "a fox and a dog"})
            assert any(message["content"] == LONG for message in await model.run.prepare_messages())
        async with a_run(session) as model:
            shown = [message["content"] for message in await model.run.prepare_messages()]
            assert LONG not in shown
            assert any("a fox and a dog" in (text or "") for text in shown)


async def test_the_stored_messages_stay_whole():
    async with a_session() as session:
        async with a_run(session) as model:
            await model.fetch(LONG)
            await model.call("trim-tool-result", {"id": "r1"})
        assert LONG in [message["content"] for message in session.messages]


async def test_with_an_early_drain_the_trim_is_applied_before_the_next_model_call():
    async with a_session(config=settings({"drain": "next_model_call"})) as session, a_run(session) as model:
        await model.fetch(LONG)
        await model.call("trim-tool-result", {"id": "r1"})
        assert LONG not in [message["content"] for message in await model.run.prepare_messages()]


async def test_a_call_id_will_do_as_well_as_a_handle():
    async with a_model() as model:
        await model.fetch(LONG, "call_abc")
        assert json.loads((await model.call("trim-tool-result", {"id": "call_abc"})).text)["handle"] == "r1"


async def test_a_second_trim_is_told_that_the_first_one_waits():
    async with a_model() as model:
        await model.fetch(LONG)
        await model.call("trim-tool-result", {"id": "r1", "replacement": "kept"})
        told = json.loads((await model.call("trim-tool-result", {"id": "r1", "replacement": "other"})).text)
        assert told["status"] == "already_queued"
        assert "first replacement stays" in told["note"]


async def test_a_second_trim_after_the_run_is_told_that_it_is_done():
    async with a_session() as session:
        async with a_run(session) as model:
            await model.fetch(LONG)
            await model.call("trim-tool-result", {"id": "r1"})
        async with a_run(session) as model:
            result = await model.call("trim-tool-result", {"id": "r1"})
            assert not result.is_error
            assert json.loads(result.text)["status"] == "already_trimmed"


async def test_a_trim_that_would_save_nothing_is_refused_with_the_reason():
    async with a_model() as model:
        await model.fetch("short")
        result = await model.call("trim-tool-result", {"id": "r1"})
        assert result.is_error
        assert "too short" in json.loads(result.text)["why_not"]


async def test_an_unknown_id_is_refused_with_the_nearest_ones():
    async with a_model() as model:
        await model.fetch(LONG, "call_function_8812")
        result = await model.call("trim-tool-result", {"id": "call_function_8821"})
        assert result.is_error
        assert "Nothing was trimmed" in result.text
        assert "call_function_8812" in result.text


async def test_a_call_id_that_two_results_have_is_refused_with_both_handles():
    async with a_model() as model:
        await model.fetch(LONG, "call_0")
        await model.fetch(LONG + "again", "call_0")
        result = await model.call("trim-tool-result", {"id": "call_0"})
        assert result.is_error
        assert "r1" in result.text
        assert "r2" in result.text
        assert json.loads((await model.call("trim-tool-result", {"id": "r2"})).text)["status"] == "queued"
        assert [row["queued"] for row in (await model.rows())[:2]] == [False, True]


async def test_two_sessions_with_identical_ids_do_not_touch_each_other():
    async with (
        Host(store=MemoryStore(), config=settings()) as host,
        host.session("one") as one,
        host.session("two") as two,
    ):
        async with a_run(one) as first, a_run(two) as second:
            await first.fetch(LONG, "call_0")
            await second.fetch(LONG, "call_0")
            await first.call("trim-tool-result", {"id": "call_0"})
            assert [(await model.rows())[0]["queued"] for model in (first, second)] == [True, False]
        assert LONG in [message["content"] for message in two.view]
        assert LONG not in [message["content"] for message in one.view]


async def test_recall_gives_back_the_exact_text_of_a_trimmed_result():
    text = LONG + 'Grüße, 日本, \u2028 and \\ "quotes"\n'
    async with a_session() as session:
        async with a_run(session) as model:
            await model.fetch(text)
            await model.call("trim-tool-result", {"id": "r1"})
        async with a_run(session) as model:
            assert (await model.call("recall-tool-result", {"id": "r1"})).text == text


async def test_recall_of_a_giant_result_comes_in_parts_that_add_up():
    text = "".join(f"{number:05}" for number in range(1_000))
    async with a_model(max_recalled=2_000) as model:
        await model.fetch(text)
        parts: list[str] = []
        for offset in (0, 2_000, 4_000):
            answer = (await model.call("recall-tool-result", {"id": "r1", "offset": offset})).text
            part, _, note = answer.rpartition("\n")
            parts.append(part)
            assert "of 5,000" in note
            assert ("this is the end" in note) == (offset == 4_000)
        assert "".join(parts) == text


async def test_a_recall_may_ask_for_less_but_not_for_more_than_the_limit():
    async with a_model(max_recalled=100) as model:
        await model.fetch(LONG)
        small = await model.call("recall-tool-result", {"id": "r1", "offset": 4, "limit": 5})
        large = await model.call("recall-tool-result", {"id": "r1", "limit": 5_000})
        assert small.text.startswith("quick\n[Characters 4 to 9 ")
        assert large.text.startswith(LONG[:100] + "\n[")


async def test_a_recall_behind_the_end_is_refused():
    async with a_model() as model:
        await model.fetch(LONG)
        result = await model.call("recall-tool-result", {"id": "r1", "offset": 10_000})
        assert result.is_error
        assert f"{len(LONG):,} characters" in result.text


async def test_a_recall_of_an_unknown_id_is_refused_with_the_nearest_ones():
    async with a_model() as model:
        await model.fetch(LONG)
        result = await model.call("recall-tool-result", {"id": "r7"})
        assert result.is_error
        assert "r1" in result.text


async def test_a_recall_of_a_result_without_text_says_so():
    async with a_model() as model:
        await model.fetch("")
        assert (await model.call("recall-tool-result", {"id": "r1"})).text == "[This result holds no text.]"


async def test_the_tools_own_results_may_go_first():
    async with a_model() as model:
        await model.fetch(LONG)
        await model.rows()
        await model.call("recall-tool-result", {"id": "r1"})
        assert [info.disposable for info in model.session.results.list()] == [False, True, True]


async def test_they_stay_offered_when_tool_search_defers_everything_else():
    many = [Tool(name=f"t{number}", description="x" * 400, source="mcp", owner="bulk") for number in range(50)]
    config = {"allow": ["tool_results", "tool_search"], "plugins": {"tool_search": {"config": {"enabled": "on"}}}}
    async with a_session(config=config) as session, session.run(context_window=8_000) as run:
        offered = {tool.name for tool in await run.resolve_tools(many)}
        assert {"list-tool-results", "trim-tool-result", "recall-tool-result"} <= offered
        assert "t1" not in offered


async def test_a_policy_sees_that_reading_is_harmless_and_trimming_destroys_nothing():
    async with a_model() as model:
        said = {tool.name: tool.annotations for tool in model.run.tools if tool.owner == "tool_results"}
        assert said["list-tool-results"].read_only
        assert said["recall-tool-result"].read_only
        assert said["trim-tool-result"].destructive is False


async def test_a_queued_trim_survives_a_host_that_died_before_the_run_ended(tmp_path: Path):
    async with a_session(SqlStore(tmp_path)) as session, a_run(session) as model:
        await model.fetch(LONG)
        assert not (await model.call("trim-tool-result", {"id": "r1"})).is_error
        copied = tmp_path / "copied"
        for file in list(tmp_path.rglob("*")):
            if file.is_file():
                target = copied / file.relative_to(tmp_path)
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(file.read_bytes())
    async with a_session(SqlStore(copied)) as session, a_run(session) as model:
        assert (await model.rows())[0]["already_trimmed"] is True


async def test_a_wrong_setting_is_refused_when_the_host_starts():
    with pytest.raises(Exception, match="max_lister"):
        Host(store=MemoryStore(), config=settings(max_lister=3))


PNG = "iVBORw0KGgo" * 20_000 + "AAA="
PROSE = "word " * 10_000
ODD_CONTENT: dict[str, tuple[list[dict[str, Any]], int]] = {
    "image": ([{"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG}}], 1_600),
    "document of text": ([{"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": PROSE}}], 12_500),
    "pdf": ([{"type": "document", "source": {"type": "base64", "media_type": "application/pdf", "data": PNG}}], 3_000),
    "search result": ([{"type": "search_result", "source": "https://a.example", "title": "A", "content": [{"type": "text", "text": PROSE}]}], 12_500),
}  # fmt: skip


@pytest.mark.parametrize(("content", "tokens"), ODD_CONTENT.values(), ids=ODD_CONTENT)
async def test_images_and_documents_count_as_what_they_cost_can_be_trimmed_and_come_back_whole(
    content: list[dict[str, Any]], tokens: int
) -> None:
    looks: dict[str, Any] = {"type": "tool_use", "id": "c1", "name": "look", "input": {}}
    reply: dict[str, Any] = {"role": "assistant", "content": [looks]}
    answer: dict[str, Any] = {
        "role": "user",
        "content": [{"type": "tool_result", "tool_use_id": "c1", "content": content}],
    }
    recall = {
        "role": "assistant",
        "content": [{"type": "tool_use", "id": "c2", "name": "recall-tool-result", "input": {"id": "r1"}}],
    }
    async with open_session(
        ToolResults, config={"plugins": {"tool_results": {"config": {"max_recalled": 100_000}}}}
    ) as session:
        async with session.run(format="anthropic") as run:
            await run.record(
                [{"role": "user", "content": "Look."}, reply, answer, {"role": "assistant", "content": "I see."}]
            )
        (info,) = session.results.list()
        assert (info.tokens, info.trimmable) == (tokens, True)
        assert info.characters > 50_000 - 1
        assert (await session.trim("r1", "seen")).status == "applied"
        assert len(str(session.view)) < 2_000
        async with session.run(format="anthropic") as run:
            await run.resolve_tools()
            await run.record([{"role": "user", "content": "Again."}, recall])
            await run.call_tool(run.pending[0])
            (again,) = (await run.prepare_messages())[-1]["content"]
        if "data" in content[0].get("source", {}) and content[0]["source"]["type"] == "base64":
            assert again["content"] == content
        else:
            assert PROSE.strip() in str(again["content"])


async def test_an_image_in_openais_shape_counts_too() -> None:
    part = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PNG}"}}
    call = {"id": "c1", "type": "function", "function": {"name": "look", "arguments": "{}"}}
    async with open_session(ToolResults) as session, session.run() as run:
        await run.record({"role": "user", "content": "Look."})
        await run.record({"role": "assistant", "content": None, "tool_calls": [call]})
        await run.record(
            [{"role": "tool", "tool_call_id": "c1", "content": [part]}, {"role": "assistant", "content": "I see."}]
        )
        (info,) = session.results.list()
        assert (info.tokens, info.trimmable) == (1_600, True)
        assert session.results.recall("r1").blocks == [{"type": "image", "mimeType": "image/png", "data": PNG}]
