"""Tool search where the provider itself hides the tools: declared, never shown, found by a search, called by their own names."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import anyio
import pytest

from hooksdk import Session, ToolCall, hooks
from hooksdk.agent import Limits, run_agent
from hooksdk.errors import WrongArgument
from hooksdk.formats import HasDeferral, get_format
from hooksdk.histories import read_history
from hooksdk.hooks import BeforeModelCall, BeforeToolCall, Block, ReplaceMessages, Reveal, Trace
from hooksdk.models import DeferralRefused, ModelReply
from hooksdk.models.anthropic import AnthropicModel
from hooksdk.models.openai_responses import OpenAIResponsesModel
from hooksdk.records import AttemptStarted, Revealed
from hooksdk.stores import SqlStore, Store
from hooksdk.testing import Turn, call, open_session
from hooksdk.testing.server import ScriptedServer, refuse
from hooksdk.trimming import problem
from tests.builtin_plugins.searching import filler, make

pytestmark = [pytest.mark.anyio, pytest.mark.heavy]

BETA = {"anthropic-beta": "mid-conversation-tool-changes-2026-07-01"}
FORMS = ["anthropic", "openai-responses"]
SETTINGS: dict[str, Any] = {"enabled": "on", "prefetch": 0}
LOOK_FOR = {"queries": ["create a word document"]}


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"  # the SDKs are made for it


@pytest.fixture(params=FORMS)
def form(request: pytest.FixtureRequest) -> str:
    return request.param


def create_document(arguments: dict[str, Any]) -> str:
    return f"made {arguments['filename']}"


def send(arguments: dict[str, Any]) -> str:
    return f"sent to {arguments['to']}"


DOCUMENT = make("create_document", "Create a Word document.", "word", required=["filename"], filename="string").copy(
    execute=create_document
)
CATALOG = [DOCUMENT, *(filler(f"thing_{number}", 100) for number in range(30))]


def model_of(server: ScriptedServer, form: str, deferral: Any = "search") -> Any:
    if form == "anthropic":
        headers = BETA if deferral == "additions" else {}
        return AnthropicModel(
            "any", base_url=server.anthropic_url, api_key="none", deferral=deferral, headers=headers, cache="off"
        )
    return OpenAIResponsesModel("any", base_url=server.openai_url, api_key="none", deferral=deferral)


@asynccontextmanager
async def a_session(*plugins: Any, store: Store | None = None, **settings: Any) -> AsyncGenerator[Session, None]:
    config = {"plugins": {"tool_search": {"config": {**SETTINGS, **settings}}}}
    async with open_session("tool_search", *plugins, config=config, store=store, session_id="s") as session:
        yield session


def find_and_make(turn: Turn) -> Any:
    """Search, call what was found, and say it is done: a model that calls what it is shown alone."""
    if turn.results and turn.results[-1].tool == "create_document":
        return f"Done: {turn.results[-1].text}"
    shown = next((name for name in turn.offered if name.endswith("create_document")), None)
    return call(shown, filename="a.docx") if shown else call("tool_search", **LOOK_FOR)


def tools_in(request: Any) -> list[str]:
    """The names of the tools that a request shows."""
    tools: list[dict[str, Any]] = request.body.get("tools", [])
    return [str(tool.get("name") or tool["type"]) for tool in tools if not tool.get("defer_loading")]


def said(request: Any) -> str:
    return json.dumps(request.body.get("messages", request.body.get("input")))


async def test_a_tool_is_declared_and_never_shown_until_a_search_refers_to_it(form: str) -> None:
    async with a_session() as session, ScriptedServer(find_and_make) as server:
        outcome = await run_agent(session, model_of(server, form), "Make a Word file.", tools=CATALOG)
    assert (outcome.text, outcome.turns) == ("Done: made a.docx", 3)
    assert outcome.stats["counters"] == {"searches": 1, "hits": 1, "references": 1}
    assert [tools_in(request) for request in server.requests] == [["tool_search"]] * 3
    assert [len(turn.offered) for turn in server.turns] == [1, 2, 2]
    assert "create_document" not in said(server.requests[0])


async def test_the_tools_of_all_requests_are_the_same_to_the_byte(form: str) -> None:
    async with a_session() as session, ScriptedServer(find_and_make) as server:
        await run_agent(session, model_of(server, form), "Make a Word file.", tools=CATALOG)
        await run_agent(session, model_of(server, form), "And another.", tools=CATALOG[::-1])
    assert len({json.dumps(request.body["tools"]) for request in server.requests}) == 1
    before, after = (server.requests[number].body for number in (1, 2))
    key = "messages" if form == "anthropic" else "input"
    assert after[key][: len(before[key])] == before[key]


async def test_a_call_of_what_was_found_passes_every_policy(form: str) -> None:
    class NoDocuments:
        @hooks.before_tool_call(tools="create_document")
        def refuse(self, event: BeforeToolCall) -> Block:
            return Block(f"no {event.arguments['filename']}")

    async with a_session(NoDocuments) as session, ScriptedServer(find_and_make) as server:
        outcome = await run_agent(session, model_of(server, form), "Make a Word file.", tools=CATALOG)
    assert "no a.docx" in outcome.text
    assert outcome.stats["tool_calls"] == {"ok": 1, "blocked": 1}


async def test_what_a_policy_withholds_is_neither_declared_nor_found(form: str) -> None:
    rules = [{"action": "deny", "tools": "create_document"}]
    config = {"plugins": {"tool_search": {"config": SETTINGS}, "tool_policy": {"config": {"rules": rules}}}}
    script = [call("tool_search", **LOOK_FOR), "Nothing."]
    async with (
        open_session("tool_search", "tool_policy", config=config) as session,
        ScriptedServer(script) as server,
    ):
        await run_agent(session, model_of(server, form), "Make a Word file.", tools=CATALOG)
    assert "create_document" not in json.dumps([request.body for request in server.requests])


async def test_a_search_in_vain_says_so(form: str) -> None:
    script = [call("tool_search", queries=["qqq zzz"]), "No."]
    async with a_session() as session, ScriptedServer(script) as server:
        await run_agent(session, model_of(server, form), "Do it.", tools=CATALOG)
    if form == "anthropic":
        assert "total_available" in server.turns[1].result.text
    assert server.turns[1].offered == ["tool_search"]


async def test_nothing_tells_of_the_bridge(form: str) -> None:
    core = make("read_file", "Read a file.", "core", core=True, path="string")
    wrong = [call("create_documents", filename="a"), call("frobnicate"), call("tool_search", queries=["read a file"])]
    async with a_session() as session, ScriptedServer([wrong, wrong, "Well."]) as server:
        await run_agent(session, model_of(server, form), "Make a Word file.", tools=[*CATALOG, core])
    made_up, unknown, _ = server.turns[1].results
    assert "called by their own names:\n- create_document(filename: string" in made_up.text
    assert "Find it with tool_search first; then call it by its own name." in unknown.text
    assert "tool_call" not in json.dumps([said(request) for request in server.requests])


async def test_at_most_five_tools_are_shown_by_one_search(form: str) -> None:
    tools = [make(f"send_mail_{number}", "Send a mail.", "mail", to="string") for number in range(12)]
    queries = ["send a mail", "mail", "send"]
    async with a_session() as session, ScriptedServer([call("tool_search", queries=queries, limit=9), "Ok."]) as server:
        await run_agent(session, model_of(server, form), "Mail it.", tools=tools)
    assert len(server.turns[1].offered) == 6


async def test_a_tool_that_is_gone_is_referred_to_no_more(form: str) -> None:
    async with a_session() as session, ScriptedServer(find_and_make) as server:
        await run_agent(session, model_of(server, form), "Make a Word file.", tools=CATALOG)
        server.requests.clear()
        async with ScriptedServer(["Well."]) as second:
            outcome = await run_agent(session, model_of(second, form), "And now?", tools=CATALOG[1:])
    assert outcome.text == "Well."
    assert second.turns[0].offered == ["tool_search"]


async def test_the_conversation_goes_on_without_deferral(form: str) -> None:
    """Such as with another model of the same provider: the searches read as those of any other tool then."""
    async with a_session() as session, ScriptedServer(find_and_make) as server:
        await run_agent(session, model_of(server, form), "Make a Word file.", tools=CATALOG)
        script = ["Plain."]
        async with ScriptedServer(script) as second:
            outcome = await run_agent(session, model_of(second, form, "off"), "And now?", tools=CATALOG)
    assert outcome.text == "Plain."
    body = json.dumps(second.requests[0].body)
    assert "Found: create_document." in body
    assert not any(
        word in body for word in ("tool_reference", "tool_search_output", "tool_search_call", "defer_loading")
    )
    assert '"namespace"' not in body
    assert tools_in(second.requests[0])[:3] == ["tool_search", "tool_describe", "tool_call"]


async def test_where_it_is_refused_the_run_goes_on_through_the_bridge_and_it_is_not_asked_again(form: str) -> None:
    records: list[Any] = []

    class Watch:
        @hooks.trace
        def watch(self, event: Trace) -> None:
            records.append(event.record)

    def script(turn: Turn) -> Any:
        if any("defer_loading" in json.dumps(tool) or tool.get("type") == "tool_search" for tool in turn.tools):
            return refuse(400, text="tools.0.defer_loading: Extra inputs are not permitted (tool_search)")
        if turn.number == 1 or not turn.results:
            return call("tool_call", name="create_document", arguments={"filename": "b.docx"})
        return "Done."

    async with a_session(Watch) as session, ScriptedServer(script) as server:
        model = model_of(server, form)
        outcome = await run_agent(session, model, "Make a Word file.", tools=CATALOG)
        assert (outcome.text, outcome.attempts, model.deferral) == ("Done.", 2, "off")
        assert outcome.stats["tool_calls"] == {"ok": 1}
        asked = len(server.requests)
        await run_agent(session, model_of(server, form), "Again.", tools=CATALOG)
        assert model_of(server, form).deferral == "off"
    assert asked == 3
    (attempt,) = [record for record in records if isinstance(record, AttemptStarted)]
    assert "defer_loading" in attempt.reason


async def test_a_refusal_of_something_else_ends_the_run(form: str) -> None:
    async with a_session() as session, ScriptedServer([refuse(400, text="the prompt is too long")]) as server:
        with pytest.raises(Exception, match="too long"):
            await run_agent(session, model_of(server, form), "Make a Word file.", tools=CATALOG)
        assert model_of(server, form).deferral == "search"


async def test_a_session_that_is_opened_again_still_shows_what_was_found(form: str, tmp_path: Path) -> None:
    async with ScriptedServer(find_and_make) as server:
        async with a_session(store=SqlStore(tmp_path)) as session:
            await run_agent(session, model_of(server, form), "Make a Word file.", tools=CATALOG)
        async with a_session(store=SqlStore(tmp_path)) as session:
            outcome = await run_agent(session, model_of(server, form), "And another.", tools=CATALOG)
            shown = session.results.list()
    assert (outcome.turns, outcome.stats["counters"]) == (2, {}), "no second search"
    assert [info.tool for info in shown] == ["tool_search", "create_document", "create_document"]
    assert shown[0].why_not is not None, "a search keeps its references"


async def test_results_are_trimmed_and_restored_between_searches(form: str) -> None:
    def create_long_document(arguments: dict[str, Any]) -> str:
        return create_document(arguments) * 200

    long = DOCUMENT.copy(execute=create_long_document)
    async with a_session() as session, ScriptedServer(find_and_make) as server:
        await run_agent(session, model_of(server, form), "Make a Word file.", tools=[long, *CATALOG[1:]])
        assert (await session.trim("r1")).status == "not_trimmed"
        assert (await session.trim("r2")).status == "applied"
        async with ScriptedServer(["Short.", "Long."]) as second:
            for _ in range(2):
                await run_agent(session, model_of(second, form), "And now?", tools=CATALOG)
                await session.restore("r2")
    assert ["r2 of create_document was trimmed" in said(request) for request in second.requests] == [True, False]
    assert [len(turn.offered) for turn in second.turns] == [2, 2]


async def test_a_compaction_leaves_no_call_in_a_namespace_that_nothing_declares() -> None:
    async with a_session() as session, ScriptedServer(find_and_make) as server:
        await run_agent(session, model_of(server, "openai-responses"), "Make a Word file.", tools=CATALOG)
        async with session.run(format="openai-responses", deferral="search") as run:
            await run.resolve_tools(CATALOG)
            async with run.compaction() as compaction:
                await compaction.replace([run.format.user("A summary."), *session.view[3:]])
            prepared = await run.prepare_messages()
    called = [item for item in prepared if item.get("type") == "function_call"]
    assert [item.get("namespace") for item in called] == [None]


async def test_what_a_prompt_asks_for_is_added_at_the_end_of_the_conversation_and_tools_stay(form: str) -> None:
    """Prefetch without a change of what a provider's cache holds: no search, and the requests begin alike."""
    records: list[Any] = []

    class Watch:
        @hooks.trace
        def watch(self, event: Trace) -> None:
            records.append(event.record)

    prompts = ["Create a word document.", "Send an email message to ann.", "Create a word document."]
    mail = make("send_email", "Send an email message.", "gmail", to="string").copy(execute=send)

    def script(turn: Turn) -> Any:
        if turn.results:
            return "Done."
        wanted = "create_document" if "word" in turn.prompt else "send_email"
        shown = next(name for name in turn.offered if name.endswith(wanted))
        return call(shown, filename="a.docx") if wanted == "create_document" else call(shown, to="ann")

    async with a_session(Watch, prefetch=2) as session, ScriptedServer(script) as server:
        for prompt in prompts:
            outcome = await run_agent(session, model_of(server, form, "additions"), prompt, tools=[*CATALOG, mail])
            assert (outcome.text, outcome.turns) == ("Done.", 2)
    assert len({json.dumps(request.body["tools"]) for request in server.requests}) == 1
    key = "messages" if form == "anthropic" else "input"
    bodies = [request.body[key] for request in server.requests]
    assert all(after[: len(before)] == before for before, after in pairwise(bodies))
    assert [record.names for record in records if isinstance(record, Revealed)] == [
        ("create_document",),
        ("send_email",),
    ]


async def test_a_reply_that_never_came_leaves_an_addition_in_a_place_that_is_taken() -> None:
    """Anthropic wants it right before a reply or at the end, so it moves behind the next prompt."""
    async with a_session(prefetch=2) as session, ScriptedServer([refuse(500), "Done."]) as server:
        model = model_of(server, "anthropic", "additions")
        with pytest.raises(Exception, match="Refused"):
            await run_agent(session, model, "Create a word document.", tools=CATALOG, limits=Limits(attempts=1))
        outcome = await run_agent(session, model, "Create a word document!", tools=CATALOG)
    assert outcome.text == "Done."
    assert [message["role"] for message in server.requests[1].body["messages"]] == ["user", "user", "system"]


async def test_a_host_that_keeps_its_own_list_is_shown_the_tools_among_its_tools(form: str) -> None:
    async with (
        a_session(prefetch=2) as session,
        session.run("Create a word document.", format=form, deferral="additions") as run,
    ):
        await run.resolve_tools(CATALOG)
        own = [run.format.user("Create a word document.")]
        assert await run.prepare_messages(own) == own
        assert [tool.name for tool in run.offered] == ["tool_search", "create_document"]
        assert await run.prepare_messages(own) == own


async def test_additions_stay_out_of_requests_that_take_none(form: str) -> None:
    """Such as with another model of the same provider."""
    async with a_session(prefetch=2) as session, ScriptedServer(find_and_make) as server:
        await run_agent(session, model_of(server, form, "additions"), "Create a word document.", tools=CATALOG)
        async with ScriptedServer(find_and_make) as second:
            model = model_of(second, form, "search")
            outcome = await run_agent(session, model, "Create another word document.", tools=CATALOG)
    assert (outcome.text, outcome.attempts, model.deferral) == ("Done: made a.docx", 1, "search")
    assert "addition" not in said(second.requests[0])
    assert [turn.offered for turn in second.turns[:1]] == [["tool_search"]]


async def test_additions_that_wait_for_a_reply_stand_in_one_message() -> None:
    mail = make("send_email", "Send an email message.", "gmail", to="string").copy(execute=send)
    async with a_session(prefetch=1) as session, ScriptedServer([refuse(500), "Done."]) as server:
        model = model_of(server, "anthropic", "additions")
        with pytest.raises(Exception, match="Refused"):
            await run_agent(session, model, "Create a word document.", tools=[*CATALOG, mail])
        await run_agent(session, model, "Send an email message.", tools=[*CATALOG, mail])
    *_, last = server.requests[1].body["messages"]
    assert [message["role"] for message in server.requests[1].body["messages"]] == ["user", "user", "system"]
    assert [block["tool"]["name"] for block in last["content"]] == ["create_document", "send_email"]


async def test_what_is_added_is_in_the_request_for_which_a_plugin_has_put_others_in_the_place_of_its_messages(
    form: str,
) -> None:
    class Shorten:
        @hooks.before_model_call.first
        def shorten(self, event: BeforeModelCall) -> ReplaceMessages:
            return ReplaceMessages(event.messages[-1:])

    async with a_session(Shorten, prefetch=2) as session, ScriptedServer(["Done."]) as server:
        await run_agent(session, model_of(server, form, "additions"), "Create a word document.", tools=CATALOG)
    assert [name.rpartition(".")[2] for name in server.turns[0].offered] == ["tool_search", "create_document"]


@pytest.mark.parametrize("deferral", ["search", "additions"])
async def test_a_tool_that_is_shown_among_the_tools_is_not_declared_once_more(form: str, deferral: Any) -> None:
    class Show:
        @hooks.before_model_call
        def show(self, event: BeforeModelCall) -> Reveal:
            return Reveal(["create_document"])

    async with a_session(Show) as session, session.run(format=form, deferral=deferral) as run:
        await run.resolve_tools(CATALOG)
        await run.prepare_messages([run.format.user("Hello.")])
        names = [tool.get("name") or tool["type"] for tool in run.definitions]
    assert names[:2] == ["tool_search", "create_document"]
    assert len(set(names)) == len(names)


async def test_what_is_declared_of_thousands_of_tools_follows_a_compaction() -> None:
    many = [DOCUMENT, *(make(f"thing_{number}", f"A thing {number}.") for number in range(2_001))]
    form = get_format("anthropic")

    def searched(name: str) -> list[Any]:
        used = {"type": "tool_use", "id": f"to_{name}", "name": "tool_search", "input": {"queries": [name]}}
        reference = {"type": "tool_reference", "tool_name": name}
        block = {"type": "tool_result", "tool_use_id": f"to_{name}", "content": [reference]}
        return [{"role": "assistant", "content": [used]}, {"role": "user", "content": [block]}]

    async with a_session() as session, session.run(format="anthropic", deferral="search") as run:
        await run.resolve_tools(many)
        await run.record([form.user("One."), *searched("thing_1")])
        declared: list[list[str]] = []
        for name in ("thing_1", "thing_2"):
            async with run.compaction() as compaction:
                await compaction.replace([form.user("A summary."), *searched(name)])
            await run.prepare_messages()
            declared.append([tool["name"] for tool in run.definitions])
    assert declared == [["tool_search", "thing_1"], ["tool_search", "thing_2"]]


async def test_a_call_whose_search_was_compacted_away_has_its_namespace_again_once_a_later_one_finds_the_tool() -> None:
    form = get_format("openai-responses")
    async with a_session() as session, ScriptedServer(find_and_make) as server:
        model = model_of(server, "openai-responses")
        await run_agent(session, model, "Make a Word file.", tools=CATALOG)
        async with session.run(format="openai-responses") as run, run.compaction() as compaction:
            await compaction.replace([form.user("A summary."), *session.view[3:]])
        async with ScriptedServer([call("tool_search", **LOOK_FOR), "Done."]) as second:
            outcome = await run_agent(session, model_of(second, "openai-responses"), "Again.", tools=CATALOG)
    assert outcome.text == "Done."
    called = [
        [item.get("namespace") for item in request.body["input"] if item.get("type") == "function_call"]
        for request in second.requests
    ]
    assert called == [[None], ["word_tools"]]


async def test_a_compaction_to_messages_as_they_were_prepared_keeps_no_definitions(form: str) -> None:
    async with a_session() as session, ScriptedServer(find_and_make) as server:
        await run_agent(session, model_of(server, form), "Make a Word file.", tools=CATALOG)
        async with session.run(format=form, deferral="search") as run:
            await run.resolve_tools(CATALOG)
            async with run.compaction() as compaction:
                await compaction.replace(await run.prepare_messages())
            await run.resolve_tools(CATALOG[1:])
            assert "Create a Word document." not in json.dumps([*await run.prepare_messages(), *run.definitions])
            await run.resolve_tools(CATALOG)
            assert "Create a Word document." in json.dumps([*await run.prepare_messages(), *run.definitions])


async def test_a_call_of_a_tool_that_nothing_tells_of_any_more_has_no_namespace() -> None:
    async with a_session() as session, ScriptedServer(find_and_make) as server:
        await run_agent(session, model_of(server, "openai-responses"), "Make a Word file.", tools=CATALOG)
        async with session.run(format="openai-responses") as run, run.compaction() as compaction:
            await compaction.replace([run.format.user("A summary."), *session.view[3:]])
        async with ScriptedServer(["Plain.", "Native."]) as second:
            for deferral in ("off", "search"):
                model = model_of(second, "openai-responses", deferral)
                await run_agent(session, model, "And now?", tools=CATALOG[1:])
    assert not any("namespace" in said(request) for request in second.requests)


async def test_a_call_that_was_made_through_the_bridge_has_a_namespace_once_the_provider_hides_its_tool() -> None:
    bridged = [call("create_document", filename="a.docx"), "Made."]
    native = [call("tool_search", **LOOK_FOR), "Found."]
    async with a_session() as session:
        for script, deferral in ((bridged, "off"), (native, "search")):
            async with ScriptedServer(script) as server:
                model = model_of(server, "openai-responses", deferral)
                outcome = await run_agent(session, model, "Make a Word file.", tools=CATALOG)
    assert (outcome.text, outcome.attempts) == ("Found.", 1)
    assert '"namespace": "word_tools"' in said(server.requests[1])


@pytest.mark.parametrize("owner", ["file_search", "", "git hub", "x" * 80])
async def test_no_namespace_has_the_name_of_one_of_the_providers_own_tools(owner: str) -> None:
    tools = [DOCUMENT.copy(owner=owner, source="mcp"), *CATALOG[1:]]
    async with a_session() as session, ScriptedServer(find_and_make) as server:
        outcome = await run_agent(session, model_of(server, "openai-responses"), "Make a Word file.", tools=tools)
    assert outcome.text == "Done: made a.docx"
    namespace = server.turns[1].offered[1].rpartition(".")[0]
    assert namespace.endswith("_tools")
    assert re.fullmatch(r"[A-Za-z0-9_-]{1,64}", namespace)


@pytest.mark.parametrize("follow", [False, True])
async def test_a_host_may_keep_the_messages_as_they_were_prepared(form: str, follow: bool) -> None:
    mixed = [make(f"mail_{number}", "Send mail.", f"owner_{number % 2}", to="string") for number in range(4)]
    async with a_session() as session, session.run(format=form, deferral="search") as run:
        await run.resolve_tools(mixed)
        sent = await run.prepare_messages([run.format.user("Mail it.")])
        for number in (1, 2):
            call_id = f"{'tool_search:' if form == 'openai-responses' else ''}c{number}"
            search = ToolCall(call_id, "tool_search", {"queries": ["send mail"]})
            reply = run.format.reply_messages("", [search])
            await run.record(reply)
            results = run.format.result_messages([(search, await run.call_tool(search))])
            sent = await run.prepare_messages([*sent, *reply, *results], follow=follow)
        whole = [tool["name"] for tool in run.definitions if tool.get("defer_loading")]
        whole += [one["name"] for item in sent for space in item.get("tools", ()) for one in space["tools"]]
    assert isinstance(run.format, HasDeferral)
    assert sorted(run.format.references(sent)) == sorted(tool.name for tool in mixed)
    assert set(whole) == {tool.name for tool in mixed}


async def test_a_hosts_own_searches_stay_as_they_are() -> None:
    definition = {"type": "function", "name": "add", "description": "Add.", "parameters": {"type": "object"}}
    space = {"type": "namespace", "name": "sums", "description": "Sums.", "tools": [definition]}
    about = {"call_id": "c1", "execution": "client", "status": "completed"}
    items = [
        {"role": "user", "content": "Add."},
        {"type": "tool_search_call", **about, "arguments": {"queries": ["add"]}},
        {"type": "tool_search_output", **about, "tools": [space]},
        {"type": "function_call", "call_id": "c2", "name": "add", "namespace": "sums", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "c2", "output": "2"},
    ]
    async with a_session() as session, session.run(format="openai-responses") as run:
        await run.resolve_tools(CATALOG)
        await run.record(items)
        assert await run.prepare_messages() == items


async def test_what_was_found_and_is_now_shown_is_not_said_to_be_gone() -> None:
    async with a_session() as session, ScriptedServer(find_and_make) as server:
        model = model_of(server, "anthropic")
        await run_agent(session, model, "Make a Word file.", tools=CATALOG)
        tools = [DOCUMENT.copy(core=True), *CATALOG[1:]]
        async with ScriptedServer(["Well."]) as second:
            await run_agent(session, model_of(second, "anthropic"), "And now?", tools=tools)
    assert tools_in(second.requests[0]) == ["create_document", "tool_search"]
    assert "Found: create_document. None of these is hidden any more." in said(second.requests[0])


async def test_two_sessions_that_are_refused_at_once_both_go_on_through_the_bridge(form: str) -> None:
    both = anyio.Event()
    asked: list[Turn] = []

    async def script(turn: Turn) -> Any:
        if any(tool.get("defer_loading") or tool.get("type") == "tool_search" for tool in turn.tools):
            asked.append(turn)
            if len(asked) == 2:
                both.set()
            return refuse(400, text="tools.0.defer_loading: Extra inputs are not permitted (tool_search)")
        return "Done."

    async with a_session() as first, a_session() as second, ScriptedServer(script) as server:
        models = [model_of(server, form), model_of(server, form)]
        texts: list[str] = []

        async def go(session: Session, model: Any) -> None:
            texts.append((await run_agent(session, model, "Make a Word file.", tools=CATALOG)).text)

        async with anyio.create_task_group() as group:
            for session, model in zip((first, second), models, strict=True):
                group.start_soon(go, session, model)
    assert texts == ["Done.", "Done."]


async def test_a_model_that_refuses_declared_tools_where_there_are_none_ends_the_run() -> None:
    class Stubborn:
        name, format, context_window, deferral = "stubborn", "anthropic", 200_000, "search"
        asked = 0

        async def reply(self, messages: Any, tools: Any) -> ModelReply:
            self.asked += 1
            raise DeferralRefused("no 'namespace' here")

    model = Stubborn()
    async with a_session() as session:
        with pytest.raises(DeferralRefused):
            await run_agent(session, model, "Make a Word file.", tools=CATALOG)
    assert model.asked == 2


async def test_an_unknown_endpoint_gets_the_bridge(form: str) -> None:
    script = [call("tool_call", name="create_document", arguments={"filename": "a"}), "Done."]
    async with a_session() as session, ScriptedServer(script) as server:
        await run_agent(session, model_of(server, form, "auto"), "Make a Word file.", tools=CATALOG)
    assert tools_in(server.requests[0]) == ["tool_search", "tool_describe", "tool_call"]
    assert "defer_loading" not in json.dumps(server.requests[0].body)


@pytest.mark.parametrize(
    ("native", "said", "declares"),
    [
        ("auto", None, False), ("auto", "search", True), ("on", None, True), ("on", "off", False), ("off", "search", False),
    ],
)  # fmt: skip
async def test_it_is_done_where_setting_and_host_say_so(native: str, said: Any, form: str, declares: bool) -> None:
    async with a_session(native=native) as session, session.run(format=form, deferral=said) as run:
        offered = [tool.name for tool in await run.resolve_tools(CATALOG)]
        assert (offered == ["tool_search"]) is declares
        definitions = json.dumps(run.definitions)
    assert (definitions != json.dumps(run.format.tools(run.offered))) is declares


async def test_on_declares_tools_to_an_endpoint_that_nobody_knows(form: str) -> None:
    async with a_session(native="on") as session, ScriptedServer(find_and_make) as server:
        outcome = await run_agent(session, model_of(server, form, "auto"), "Make a Word file.", tools=CATALOG)
    assert (outcome.text, outcome.stats["counters"]["references"]) == ("Done: made a.docx", 1)


@pytest.mark.parametrize("form_without", ["openai-chat", "gemini"])
async def test_a_format_that_cannot_declare_tools_has_the_bridge(form_without: str) -> None:
    async with a_session(native="on") as session, session.run(format=form_without, deferral="search") as run:
        assert len(await run.resolve_tools(CATALOG)) == 3
        assert run.definitions == run.format.tools(run.offered)


async def test_of_thousands_of_tools_those_are_declared_that_messages_refer_to() -> None:
    many = [DOCUMENT, *(make(f"thing_{number}", "A thing.") for number in range(2_001))]
    async with a_session() as session, ScriptedServer(find_and_make) as server:
        outcome = await run_agent(session, model_of(server, "anthropic"), "Make a Word file.", tools=many)
    assert outcome.text == "Done: made a.docx"
    assert [len(request.body["tools"]) for request in server.requests] == [1, 2, 2]


async def test_the_search_of_responses_has_its_name_under_any_name_of_the_configuration() -> None:
    names = {"tool_search": "find_tools"}
    async with a_session(names=names) as session, ScriptedServer(find_and_make) as server:
        outcome = await run_agent(session, model_of(server, "openai-responses"), "Make a Word file.", tools=CATALOG)
    assert outcome.text == "Done: made a.docx"


async def test_a_wrong_word_for_the_deferral_is_refused() -> None:
    wrong: Any = "serach"
    async with open_session() as session:
        with pytest.raises(WrongArgument, match="search"):
            session.run(deferral=wrong)
        with pytest.raises(WrongArgument, match="additions"):
            AnthropicModel("any", deferral=wrong)


KNOWN: list[tuple[Callable[..., Any], str, dict[str, Any], str | None]] = [
    (AnthropicModel, "claude-sonnet-5-5", {}, "search"),
    (AnthropicModel, "claude-sonnet-5-5", {"headers": BETA}, "additions"),
    (AnthropicModel, "claude-sonnet-5-5", {"headers": {"Anthropic-Beta": f"compact-2026-09-04, {BETA['anthropic-beta']}"}}, "additions"),
    (AnthropicModel, "claude-sonnet-4-5-20250929", {"headers": BETA}, "search"),
    (AnthropicModel, "claude-3-opus", {}, None),
    (AnthropicModel, "claude-sonnet-5-5", {"base_url": "http://localhost:1"}, None),
    (AnthropicModel, "claude-sonnet-5-5", {"base_url": "http://localhost:1", "deferral": "search"}, "search"),
    (OpenAIResponsesModel, "gpt-5.5", {}, "additions"),
    (OpenAIResponsesModel, "gpt-5.5", {"deferral": "off"}, "off"),
    (OpenAIResponsesModel, "gpt-5.4-nano", {}, None),
    (OpenAIResponsesModel, "gpt-5.4-mini", {"base_url": "https://x.openai.azure.com/openai/v1/"}, "additions"),
    (OpenAIResponsesModel, "gpt-5.5", {"base_url": "https://openai.azure.com.example.org/"}, None),
    (OpenAIResponsesModel, "gpt-5", {}, None),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "name", "options", "deferral"), KNOWN)
def test_endpoints_and_models_that_take_it_are_known(
    kind: Callable[..., Any], name: str, options: dict[str, Any], deferral: str | None
) -> None:
    assert kind(name, **options).deferral == deferral


@pytest.mark.in_ci(every=4)
@pytest.mark.parametrize("deferral", ["search", "additions"])
@pytest.mark.parametrize("into", ["openai-chat", "anthropic", "openai-responses", "gemini"])
async def test_the_session_is_read_into_every_format_and_what_is_lost_is_named(
    form: str, deferral: str, into: str
) -> None:
    async with a_session(prefetch=2) as session, ScriptedServer(find_and_make) as server:
        await run_agent(session, model_of(server, form, deferral), "Create a word document.", tools=CATALOG)
        messages = session.messages
    read = read_history(messages, form, into=into)
    assert problem(read.messages, into) is None
    calls = [one.name for message in read.messages for one in get_format(into).calls(message)]
    assert calls == (["tool_search", "create_document"] if deferral == "search" else ["create_document"])
    lost = {"search": "tool_reference" if form == "anthropic" else "", "additions": "tool"}[deferral]
    assert form == into or any(lost in note for note in [*read.notes, ""])
    assert "put in: an error result" not in str(read.notes)
