"""What is asked of the providers' prompt caches: Anthropic's marks, OpenAI's key, and requests that begin alike."""

from __future__ import annotations

import copy
import itertools
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hooksdk import Tool, hooks
from hooksdk.agent import run_agent
from hooksdk.costs import PRICES, MarkedCache, PrefixCache, Prices, PromptCache, Usage, usage_of
from hooksdk.errors import WrongArgument
from hooksdk.formats import get_format
from hooksdk.formats.prompt_cache import CacheBlock, CacheMarks, request_blocks
from hooksdk.hooks import AddContext, BeforeModelCall, Trim
from hooksdk.models import ModelReply, current_session
from hooksdk.models.anthropic import AnthropicModel
from hooksdk.models.openai import OpenAIModel
from hooksdk.models.openai_responses import OpenAIResponsesModel
from hooksdk.testing import Turn, call, open_session
from hooksdk.testing.server import ScriptedServer
from hooksdk.values import as_list, as_object, is_list, is_object
from tests.hooksdk.providers import FORMATS, TOOLS, messages_of, model_of

Json = dict[str, Any]
LONG = "word " * 400
"""500 tokens."""
MARK = {"cache_control": {"type": "ephemeral"}}


def text(words: str, **more: Any) -> Json:
    return {"type": "text", "text": words, **more}


def user(*content: Any) -> Json:
    return {"role": "user", "content": list(content)}


def used(call_id: str) -> Json:
    return {"role": "assistant", "content": [{"type": "tool_use", "id": call_id, "name": "read", "input": {}}]}


def result(call_id: str, words: str) -> Json:
    return {"type": "tool_result", "tool_use_id": call_id, "content": words}


def note(call_id: str) -> Json:
    return result(call_id, "[Result r1 of read was trimmed: 9,000 characters. Its id r1 gets it back.]")


def marks(request: Json) -> list[str]:
    """The places of the marks: `tools`, `system`, or the number of a message and of a block in it."""
    places = ["tools" for each in as_list(request.get("tools")) if "cache_control" in as_object(each)]
    places += ["system" for each in as_list(request.get("system")) if "cache_control" in as_object(each)]
    for number, message in enumerate(request["messages"]):
        blocks = [as_object(block) for block in as_list(message["content"])]
        places += [f"{number}.{at}" for at, block in enumerate(blocks) if "cache_control" in block]
    return places


# Where the marks are


def test_a_first_request_marks_its_last_message_the_system_text_and_the_tools():
    request = {"tools": [{"name": "read"}, {"name": "write"}], "system": "Be brief.", "messages": [user(text("hi"))]}
    marked = CacheMarks().place(request)
    assert marks(marked) == ["tools", "system", "0.0"]
    assert marked["tools"] == [{"name": "read"}, {"name": "write", **MARK}]
    assert marked["system"] == [text("Be brief.", **MARK)]


def test_the_place_before_the_first_long_result_is_marked_so_that_its_trim_costs_nothing_before_it():
    messages = [user(text("go")), used("a"), user(result("a", "short")), used("b"), user(result("b", LONG)), used("c")]
    assert "3.0" in marks(CacheMarks().place({"messages": [*messages, user(result("c", "ok"))]}))


def test_behind_trimmed_results_it_is_the_next_long_one_that_counts():
    early = [user(text("go")), used("a"), user(result("a", LONG)), used("b"), user(note("b"))]
    request = {"messages": [*early, used("c"), user(result("c", LONG)), used("d"), user(result("d", "ok"))]}
    assert "5.0" in marks(CacheMarks().place(request))


def test_what_was_marked_before_is_marked_again_where_the_cache_would_not_find_it():
    cache = CacheMarks()
    first = [user(text("go"))]
    cache.place({"messages": first})
    replies = [each for number in range(15) for each in (used(f"c{number}"), user(result(f"c{number}", "ok")))]
    assert marks(cache.place({"messages": first + replies})) == ["0.0", "30.0"]
    assert "0.0" not in marks(cache.place({"messages": first + replies + [used("x"), user(result("x", "ok"))]}))


def test_text_of_one_request_alone_is_behind_a_mark():
    request = {"messages": [user(text("go")), used("a"), user(result("a", "ok"), text("It is noon."))]}
    assert marks(CacheMarks().place(request)) == ["2.0", "2.1"]


def test_thinking_and_blank_text_have_no_mark():
    thinking = {"type": "thinking", "thinking": "Hmm.", "signature": "s"}
    request = {"messages": [user(text("go")), {"role": "assistant", "content": [text("yes"), thinking]}]}
    assert marks(CacheMarks().place(request)) == ["1.0"]
    assert marks(CacheMarks().place({"messages": [user(text("go"), text(" "))]})) == ["0.0"]


def test_marks_of_ones_own_come_first_and_ours_fill_what_is_left_of_the_four():
    own = [user(text("a", **MARK), text("b", **MARK), text("c", **MARK), text("d"))]
    request = {"system": "Be brief.", "messages": [*own, used("x"), user(result("x", "ok"))]}
    assert marks(CacheMarks().place(request)) == ["0.0", "0.1", "0.2", "2.0"]
    inside = {**result("x", ""), "content": [text("ok", **MARK), text("ok", **MARK)]}
    assert marks(CacheMarks().place({**request, "messages": [*own, used("x"), user(inside)]})) == ["0.0", "0.1", "0.2"]


def test_a_request_that_asks_the_provider_to_place_them_gets_none():
    request = {"cache_control": {"type": "ephemeral"}, "messages": [user(text("go"))]}
    assert CacheMarks().place(request) == request


def test_an_hour_is_asked_for_by_its_name_and_never_behind_five_minutes():
    hour = {"type": "ephemeral", "ttl": "1h"}
    marked = CacheMarks("1h").place({"system": "Be brief.", "messages": [user(text("go"))]})
    assert marked["system"][0]["cache_control"] == marked["messages"][0]["content"][0]["cache_control"] == hour
    own = {"system": [text("Be brief.", **MARK)], "messages": [user(text("go"))]}
    assert CacheMarks("1h").place(own)["messages"][0]["content"][0]["cache_control"] == MARK["cache_control"]
    with pytest.raises(WrongArgument, match=r"life=.*'5m' or '1h'"):
        CacheMarks("1d")  # pyright: ignore[reportArgumentType] - the mistake


BLOCKS = st.lists(
    st.one_of(
        st.builds(text, st.sampled_from(["", " ", "go", LONG])),
        st.builds(text, st.just("marked"), cache_control=st.sampled_from([MARK["cache_control"]])),
        st.builds(result, st.sampled_from("ab"), st.sampled_from(["ok", LONG])),
        st.just({"type": "thinking", "thinking": "Hmm.", "signature": "s"}),
    ),
    max_size=3,
)
CONTENT = st.one_of(st.sampled_from(["", "go", LONG]), BLOCKS)
REQUESTS = st.fixed_dictionaries(
    {"messages": st.lists(st.fixed_dictionaries({"role": st.sampled_from(["user", "assistant"]), "content": CONTENT}))},
    optional={"tools": st.lists(st.just({"name": "read"})), "system": CONTENT},
)


def without_marks(value: Any) -> Any:
    """The request as the model reads it: no marks, and text as one block."""
    if is_list(value):
        return [without_marks(each) for each in value]
    if not is_object(value):
        return value
    plain = {key: without_marks(each) for key, each in value.items() if key != "cache_control"}
    for key in ("content", "system"):
        if isinstance(plain.get(key), str) and plain[key]:
            plain[key] = [text(plain[key])]
    return plain


@given(requests=st.lists(REQUESTS, min_size=1, max_size=3))
def test_whatever_is_asked_the_words_stay_the_marks_are_four_at_most_and_what_was_given_is_unchanged(
    requests: list[Json],
):
    cache = CacheMarks()
    for request in requests:
        given_request = copy.deepcopy(request)
        marked = cache.place(request)
        assert request == given_request
        assert without_marks(marked) == without_marks(given_request)
        assert len(marks(marked)) <= max(4, len(marks(given_request)))
        added = {*marks(marked)} - {*marks(given_request)}
        for place in (each for each in added if "." in each):
            number, at = map(int, place.split("."))
            block = marked["messages"][number]["content"][at]
            assert block["type"] != "thinking"
            assert block["type"] != "text" or block["text"].strip()


# What the caches make of requests


def sent(*blocks: tuple[str, int, bool]) -> list[CacheBlock]:
    return [CacheBlock(key=key, tokens=tokens, life="5m" if mark else None) for key, tokens, mark in blocks]


def test_a_marked_beginning_is_written_once_and_read_from_then_on():
    cache = MarkedCache()
    assert cache.send(sent(("a", 2_000, True), ("b", 10, False))) == Usage(written=2_000, fresh=10)
    assert cache.send(sent(("a", 2_000, True), ("c", 30, True))) == Usage(read=2_000, written=30)
    assert cache.send(sent(("a", 2_000, False), ("c", 30, False))) == Usage(fresh=2_030)


def test_it_looks_twenty_blocks_back_from_a_mark_and_no_further():
    first = [("a", 2_000, True)]
    far = [(f"b{number}", 1, number == 19) for number in range(20)]
    cache = MarkedCache()
    cache.send(sent(*first))
    assert cache.send(sent(("a", 2_000, False), *far)).read == 0
    near = MarkedCache()
    near.send(sent(*first))
    assert near.send(sent(("a", 2_000, False), *far[1:])).read == 2_000


def test_what_is_too_small_is_not_taken_and_what_is_too_old_is_gone():
    cache = MarkedCache()
    assert cache.send(sent(("a", 1_000, True))) == Usage(fresh=1_000)
    assert cache.send(sent(("a", 2_000, True)), now=0) == Usage(written=2_000)
    assert cache.send(sent(("a", 2_000, True)), now=299).read == 2_000
    assert cache.send(sent(("a", 2_000, True)), now=598).read == 2_000
    assert cache.send(sent(("a", 2_000, True)), now=898).read == 0


def test_a_prefix_cache_holds_whatever_was_sent_in_steps_of_128_from_1024_on():
    cache = PrefixCache()
    assert cache.send(sent(("a", 1_000, False), ("b", 100, False))) == Usage(written=1_100)
    assert cache.send(sent(("a", 1_000, False), ("c", 100, False))).read == 0
    assert cache.send(sent(("a", 1_000, False), ("b", 100, False), ("d", 5, False))).read == 1_024


@pytest.mark.parametrize(
    ("counts", "usage"),
    [
        ({"input_tokens": 5, "cache_read_input_tokens": 90, "cache_creation_input_tokens": 7, "output_tokens": 3}, (5, 90, 7, 3)),
        ({"prompt_tokens": 100, "prompt_tokens_details": {"cached_tokens": 64}, "completion_tokens": 3}, (36, 64, 0, 3)),
        ({"input_tokens": 100, "input_tokens_details": {"cached_tokens": 64}, "output_tokens": 3}, (36, 64, 0, 3)),
        ({"promptTokenCount": 100, "cachedContentTokenCount": 64, "candidatesTokenCount": 3, "thoughtsTokenCount": 4}, (36, 64, 0, 7)),
        ({"input_tokens": 5}, (5, 0, 0, 0)),
    ],
)  # fmt: skip
def test_usage_is_read_whichever_provider_counted_it(counts: Json, usage: tuple[int, int, int, int]):
    fresh, read, written, output = usage
    assert usage_of(counts) == Usage(fresh=fresh, read=read, written=written, output=output)


@pytest.mark.parametrize("counts", [None, {}, {"seconds": 3}])
def test_no_counts_are_no_usage(counts: Json | None):
    assert usage_of(counts) is None


# Whole conversations


def read(number: int) -> str:
    """Read one page."""
    return f"{number} " * 1_000


class Clears:
    """Trims all but the newest result, at every fifth request, and says the time at each."""

    def __init__(self) -> None:
        self.requests = 0

    @hooks.before_model_call
    def trim(self, event: BeforeModelCall) -> Trim | None:
        self.requests += 1
        old = [info.handle for info in event.results.list()[:-1] if info.trimmable]
        return Trim(old) if old and self.requests % 5 == 0 else None

    @hooks.before_model_call
    def tell_the_time(self, event: BeforeModelCall) -> AddContext:
        del event
        return AddContext(f"It is {self.requests} o'clock.")


async def bodies(form: str, turns: int) -> list[Json]:
    """The requests of one long run of a plugin that trims and adds context."""

    def script(turn: Turn) -> Any:
        return call("read", number=turn.number) if turn.number < turns else "done"

    async with open_session(Clears) as session, ScriptedServer(script) as server, model_of(server, form) as model:
        await run_agent(session, model, "Read it all. " + LONG * 3, tools=[read], system="You read. " + LONG)
    return [request.body for request in server.requests]


def bill(form: str, requests: list[Json], cache: PromptCache) -> float:
    used = Usage()
    for request in requests:
        used += cache.send(request_blocks(form, request))
    return used.fresh + used.read * cache.prices.read + used.written * cache.prices.write


@pytest.mark.heavy
@pytest.mark.anyio
async def test_a_trimmed_conversation_costs_at_anthropic_nearly_what_a_cache_of_every_beginning_would_take():
    requests = await bodies("anthropic", 40)
    plain = Prices(read=1, write=1)
    marked, best = (
        bill("anthropic", requests, MarkedCache()),
        bill("anthropic", requests, PrefixCache(PRICES, least=0, step=1)),
    )
    assert best <= marked < 1.03 * best
    assert marked < 0.5 * bill("anthropic", requests, PrefixCache(plain))


@pytest.mark.heavy
@pytest.mark.anyio
@pytest.mark.parametrize("form", FORMATS)
async def test_two_requests_of_a_run_begin_alike_up_to_what_was_trimmed_or_added(form: str):
    requests = await bodies(form, 12)
    for before, after in itertools.pairwise(requests):
        one, other = (without_marks(json.loads(json.dumps(messages_of(each)))) for each in (before, after))
        alike = next((at for at, (left, right) in enumerate(zip(one, other, strict=False)) if left != right), len(one))
        trimmed = [at for at, message in enumerate(other) if "was trimmed" in json.dumps(message)]
        new = [at for at in trimmed if at < len(one) and "was trimmed" not in json.dumps(one[at])]
        assert alike >= min([*new, len(one) - 1])  # the last message of the earlier one has that request's context
        assert before.get("tools") == after.get("tools") or before["tools"][:-1] == after["tools"][:-1]


@pytest.mark.heavy
@pytest.mark.anyio
async def test_revealed_tools_stand_behind_those_that_were_there():
    others = [Tool(name=f"weather_{city}", description=f"The weather in {city}.", source="host", execute=lambda: "fine", core=False)
              for city in ("rome", "oslo", "lima")]  # fmt: skip

    def script(turn: Turn) -> Any:
        searches = [call("tool_search", query="weather in rome"), call("tool_search", query="weather in oslo")]
        return searches[turn.number - 1] if turn.number < 3 else "done"

    config = {"plugins": {"tool_search": {"enabled": True, "config": {"enabled": "on", "prefetch": 0}}}}
    async with (
        open_session(config=config) as session,
        ScriptedServer(script) as server,
        model_of(server, "openai-chat") as model,
    ):
        await run_agent(session, model, "go", tools=[read, *others])
    offered = [[each["function"]["name"] for each in request.body["tools"]] for request in server.requests]
    assert len(offered[-1]) > len(offered[0])
    assert all(after[: len(before)] == before for before, after in itertools.pairwise(offered))


# The clients


@pytest.mark.heavy
@pytest.mark.anyio
async def test_anthropics_client_asks_for_the_cache_unless_it_is_told_not_to():
    tools = get_format("anthropic").tools(TOOLS)
    async with ScriptedServer(["ok"] * 3) as server:
        for cache in ("auto", "1h", "off"):
            async with model_of(server, "anthropic", cache=cache) as model:
                await model.reply([user(text("hi"))], tools)
    lives = [[block.life for block in request_blocks("anthropic", request.body)] for request in server.requests]
    assert lives == [["5m", "5m"], ["1h", "1h"], [None, None]]
    with pytest.raises(WrongArgument, match=r"cache=.*'auto', '1h' or 'off'"):
        AnthropicModel("any", cache="always")  # pyright: ignore[reportArgumentType] - the mistake


@pytest.mark.parametrize("kind", [OpenAIModel, OpenAIResponsesModel])
def test_openai_itself_is_told_a_key_that_is_the_sessions_and_does_not_name_it(
    kind: type[OpenAIModel | OpenAIResponsesModel], monkeypatch: pytest.MonkeyPatch
):
    def key(session: str, base_url: str | None = None) -> Any:
        token = current_session.set(session)
        try:
            model = kind("gpt", base_url=base_url, api_key="none")
            return model._request([], [], streamed=False).get("prompt_cache_key")  # pyright: ignore[reportPrivateUsage] - nobody may be asked
        finally:
            current_session.reset(token)

    assert key("ann") == key("ann") != key("bob")
    assert "ann" not in key("ann")
    assert len(key("ann")) <= 64
    assert key("") is key("ann", "http://127.0.0.1:1/v1") is None
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:1/v1")
    assert key("ann") is None


@pytest.mark.anyio
async def test_a_model_is_told_the_session_that_it_is_asked_for():
    class Echo:
        name, format, context_window = "echo", "openai-chat", None

        async def reply(self, messages: Any, tools: Any) -> ModelReply:
            del messages, tools
            return ModelReply(message={"role": "assistant", "content": current_session.get()})

    async with open_session() as session:
        assert (await run_agent(session, Echo(), "who?")).text == session.id
    assert current_session.get() == ""
