"""Prompts, resources and what else servers offer beside their tools comes through the gateway, past the same policies."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import anyio
import mcp_types
import pytest
from mcp import Client, types
from mcp.client.subscriptions import PromptsListChanged as PromptsChanged
from mcp.client.subscriptions import ResourceUpdated as Updated
from mcp.server.subscriptions import PromptsListChanged, ResourcesListChanged, ResourceUpdated
from mcp.shared.exceptions import MCPError
from opentelemetry import context
from opentelemetry.propagate import extract
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader

from hooksdk import hooks
from hooksdk.gateway._metrics import Metrics
from hooksdk.gateway._offers import plain_uri
from hooksdk.hooks import AfterToolCall, Ask, BeforeToolCall, Block, ResolveSecrets, Secrets, Trace, TransformToolResult
from hooksdk.records import CallFinished
from tests.hooksdk.everything import Everything, in_front_of, in_process, soon
from tests.hooksdk.gateways import ERAS, client, names, text_of

pytestmark = [pytest.mark.heavy, pytest.mark.anyio, pytest.mark.in_ci(era=["auto"])]
__all__ = ["in_process"]
Servers = dict[str, Everything]
in_both_eras = pytest.mark.parametrize("era", ERAS)
from_both_eras = pytest.mark.parametrize("server_era", ERAS)


async def text_at(connected: Client, uri: str) -> str:
    """The text of a resource."""
    (content,) = (await connected.read_resource(uri)).contents
    assert isinstance(content, types.TextResourceContents)
    return content.text


@from_both_eras
@in_both_eras
async def test_prompts_come_through(in_process: Servers, era: str, server_era: str) -> None:
    async with in_front_of(in_process, Everything("notes", server_era)) as made, client(made, era) as connected:
        (prompt,) = (await connected.list_prompts()).prompts
        assert (prompt.name, prompt.title) == ("greet", "Greet")
        assert prompt.icons is not None
        assert prompt.arguments is not None
        result = await connected.get_prompt("greet", {"who": "Ada"})
        said = [(one.role, one.content.text) for one in result.messages if isinstance(one.content, types.TextContent)]
        assert said == [("user", "Greet Ada for notes"), ("assistant", "Hello Ada")]
        assert result.description == "A greeting"


@from_both_eras
@in_both_eras
async def test_resources_and_templates_come_through(in_process: Servers, era: str, server_era: str) -> None:
    async with in_front_of(in_process, Everything("notes", server_era)) as made, client(made, era) as connected:
        resources = (await connected.list_resources()).resources
        assert [one.uri for one in resources] == ["note://today", "note://of-notes"]
        (content,) = (await connected.read_resource("note://today")).contents
        assert isinstance(content, types.TextResourceContents)
        assert (content.uri, content.mime_type, content.text) == ("note://today", "text/x-note", "buy milk at notes")
        (template,) = (await connected.list_resource_templates()).resource_templates
        assert template.uri_template == "notes://item/{id}"
        (content,) = (await connected.read_resource("notes://item/7")).contents
        assert isinstance(content, types.TextResourceContents)
        assert content.text == "notes://item/7 of notes"


# Two servers


@in_both_eras
async def test_what_two_servers_call_alike_has_names_that_lead_back(in_process: Servers, era: str) -> None:
    servers = Everything("notes"), Everything("mail")
    async with in_front_of(in_process, *servers) as made, client(made, era) as connected:
        assert [one.name for one in (await connected.list_prompts()).prompts] == ["notes__greet", "mail__greet"]
        for name in ("notes", "mail"):
            said = (await connected.get_prompt(f"{name}__greet", {"who": "Ada"})).messages[0].content
            assert isinstance(said, types.TextContent)
            assert said.text == f"Greet Ada for {name}"
        uris = [one.uri for one in (await connected.list_resources()).resources]
        shared = ["hooksdk://server/notes/note://today", "hooksdk://server/mail/note://today"]
        assert uris == [shared[0], "note://of-notes", shared[1], "note://of-mail"]
        assert [await text_at(connected, uri) for uri in shared] == ["buy milk at notes", "buy milk at mail"]
        (content,) = (await connected.read_resource(shared[0])).contents
        assert content.uri == shared[0]
        assert await text_at(connected, "note://of-mail") == "only mail has it"
        with pytest.raises(
            MCPError, match="several servers have 'note://today': hooksdk://server/notes/note://today, "
        ):
            await connected.read_resource("note://today")


@in_both_eras
async def test_a_link_of_a_result_can_be_read(in_process: Servers, era: str) -> None:
    servers = Everything("notes"), Everything("mail")
    async with in_front_of(in_process, *servers) as made, client(made, era) as connected:
        link = (await connected.call_tool("notes__link", {})).content[1]
        assert isinstance(link, types.ResourceLink)
        assert link.uri == "secret://notes/1"
        assert await text_at(connected, link.uri) == "secret://notes/1 of notes"
        embedded = (await connected.call_tool("mail__embed", {})).content[1]
        assert isinstance(embedded, types.EmbeddedResource)
        assert embedded.resource.uri == "hooksdk://server/mail/note://today"
        assert await text_at(connected, embedded.resource.uri) == "buy milk at mail"
        async with client(made, era) as other:
            with pytest.raises(MCPError, match="there is no resource 'secret://notes/1' here"):
                await other.read_resource("secret://notes/1")


# Policies


class Notes:
    """Blocks what a pattern means, and notes which calls end how."""

    ended: list[tuple[str, str, dict[str, Any]]] = []

    @hooks.before_tool_call(tools=["resource:notes:note://today", "prompt:*:greet"])
    def judge(self, event: BeforeToolCall) -> Block:
        return Block(f"not {event.call.name}")

    @hooks.after_tool_call
    def note(self, event: AfterToolCall) -> None:
        tool = event.tool
        assert tool is not None
        self.ended.append((f"{tool.source} {tool.owner}", event.status, dict(event.arguments)))


@in_both_eras
async def test_a_policy_blocks_a_resource_and_a_prompt_and_each_is_recorded_as_a_call(
    in_process: Servers, era: str
) -> None:
    Notes.ended.clear()
    notes = Everything("notes")
    async with in_front_of(in_process, notes, plugins=(Notes,)) as made, client(made, era) as connected:
        with pytest.raises(MCPError, match="not resource:notes:note://today"):
            await connected.read_resource("note://today")
        with pytest.raises(MCPError, match="not prompt:notes:greet"):
            await connected.get_prompt("greet", {"who": "Ada"})
        assert await text_at(connected, "note://of-notes") == "only notes has it"
    assert (notes.count("resources/read"), notes.count("prompts/get")) == (1, 0)
    assert Notes.ended == [
        ("resource notes", "blocked", {"uri": "note://today"}),
        ("prompt notes", "blocked", {"who": "Ada"}),
        ("resource notes", "ok", {"uri": "note://of-notes"}),
    ]


def test_metrics_count_resources_without_their_addresses() -> None:
    reader = InMemoryMetricReader()
    counts = Metrics(MeterProvider([reader]))
    for tool in ("resource:notes:note://1", "resource:notes:note://2", "prompt:notes:greet", "mcp:notes:plain"):
        record = CallFinished(
            call_id="c", parent_id=None, origin="model", tool=tool, name=tool, status="ok", seconds=1.0, characters=1
        )
        counts.take(Trace(info=None, record=record))  # pyright: ignore[reportArgumentType] - which run it is does not count
    data = json.loads(reader.get_metrics_data().to_json())  # pyright: ignore[reportOptionalMemberAccess] - there are some
    all_metrics = {
        one["name"]: one for scope in data["resource_metrics"][0]["scope_metrics"] for one in scope["metrics"]
    }
    points = all_metrics["hooksdk.gateway.calls"]["data"]["data_points"]
    assert {point["attributes"]["gen_ai.tool.name"]: point["value"] for point in points} == {
        "resources/read": 2, "greet": 1, "plain": 1,
    }  # fmt: skip


PROFILES: dict[str, Any] = {
    "mail": {"servers": ["mail"]},
    "denied": {"deny": ["resource:notes:*", "prompt:notes:*"]},
    "allowed": {"allow": ["mcp:*:*", "*:mail:*"]},
}


@in_both_eras
@pytest.mark.parametrize("profile", PROFILES)
async def test_a_profile_holds_for_prompts_and_resources(in_process: Servers, era: str, profile: str) -> None:
    servers = Everything("notes"), Everything("mail")
    async with (
        in_front_of(in_process, *servers, config={"profiles": PROFILES}) as made,
        client(made, era, profile) as connected,
    ):
        assert [one.name for one in (await connected.list_prompts()).prompts] == ["greet"]
        assert [one.uri for one in (await connected.list_resources()).resources] == ["note://today", "note://of-mail"]
        assert len((await connected.list_resource_templates()).resource_templates) == 1
        assert await text_at(connected, "note://today") == "buy milk at mail"
        for uri in ("hooksdk://server/notes/note://today", "note://of-notes", "notes://item/7", "secret://notes/1"):
            with pytest.raises(MCPError):
                await connected.read_resource(uri)
        with pytest.raises(MCPError):
            await connected.get_prompt("notes__greet", {"who": "Ada"})
    assert servers[0].count("resources/read") == servers[0].count("prompts/get") == 0


async def test_a_rule_of_the_tool_policy_covers_resources(in_process: Servers) -> None:
    rules = {"rules": [{"tools": "resource:notes:note://of-*", "action": "deny", "reason": "private"}]}
    config = {"tool_policy": {"config": rules}}
    async with in_front_of(in_process, Everything("notes"), plugin_config=config) as made, client(made) as connected:
        with pytest.raises(MCPError, match="private"):
            await connected.read_resource("note://of-notes")
        assert await text_at(connected, "note://today") == "buy milk at notes"


class Asks:
    @hooks.before_tool_call(tools="resource:*:*")
    def judge(self, event: BeforeToolCall) -> Ask:
        return Ask("Read it?")


@in_both_eras
async def test_a_person_is_asked_about_a_resource(in_process: Servers, era: str) -> None:
    questions: list[str] = []

    async def person(_context: Any, params: Any) -> types.ElicitResult:
        questions.append(params.message)
        decision = "deny" if "today" in params.message else "allow"
        return types.ElicitResult(action="accept", content={"decision": decision})

    async with (
        in_front_of(in_process, Everything("notes"), plugins=(Asks,)) as made,
        client(made, era, elicitation_callback=person) as connected,
    ):
        assert await text_at(connected, "note://of-notes") == "only notes has it"
        with pytest.raises(MCPError, match="said no"):
            await connected.read_resource("note://today")
    assert len(questions) == 2
    assert "tool: resource:notes:note://of-notes" in questions[0]


class Vault:
    @hooks.resolve_secrets
    def resolve(self, event: ResolveSecrets) -> Secrets:
        return Secrets({"KEY": "buy milk at"})


class Redacts:
    @hooks.transform_tool_result(tools="resource:*:note://of-*")
    def redact(self, event: TransformToolResult) -> hooks.Replace:
        return hooks.Replace("nothing to see")


@in_both_eras
async def test_a_secret_is_masked_in_a_resource(in_process: Servers, era: str) -> None:
    async with in_front_of(in_process, Everything("notes"), plugins=(Vault,)) as made, client(made, era) as connected:
        result = await connected.get_prompt("greet", {"who": "{{secret:KEY}}"})
        assert "{{secret:KEY}}" in str(result.messages)
        assert "buy milk" not in str(result.messages)
        assert await text_at(connected, "note://today") == "{{secret:KEY}} notes"


@in_both_eras
async def test_a_plugin_changes_what_is_read(in_process: Servers, era: str) -> None:
    async with in_front_of(in_process, Everything("notes"), plugins=(Redacts,)) as made, client(made, era) as connected:
        (content,) = (await connected.read_resource("note://of-notes")).contents
        assert isinstance(content, types.TextResourceContents)
        assert (content.uri, content.mime_type, content.text) == ("note://of-notes", "text/x-note", "nothing to see")


@in_both_eras
async def test_no_model_is_offered_a_prompt_or_a_resource(in_process: Servers, era: str) -> None:
    config = {"tool_search": {"config": {"enabled": "on"}}}
    notes = Everything("notes")
    async with in_front_of(in_process, notes, plugin_config=config) as made, client(made, era) as connected:
        assert not any(":" in name for name in await names(connected))
        assert "note://" not in text_of(await connected.call_tool("tool_search", {"queries": ["read note today"]}))
        for name in ("resource:notes:note://today", "prompt:notes:greet"):
            assert (await connected.call_tool(name, {"uri": "note://today", "who": "Ada"})).is_error
            call = {"name": name, "arguments": {"uri": "note://today"}}
            assert (await connected.call_tool("tool_call", call)).is_error
    assert notes.count("resources/read") == notes.count("prompts/get") == 0


@pytest.mark.parametrize(
    ("written", "plain"),
    [
        ("FILE:///notes/../etc/passwd", "file:///etc/passwd"),
        ("file:///%65tc/%70asswd", "file:///etc/passwd"),
        ("file:///notes/%2e%2e/etc/./passwd", "file:///etc/passwd"),
        ("file:///a/..", "file:///"),
        ("https://example.org/a%2Fb?c=/../d#../e", "https://example.org/a%2Fb?c=/../d#../e"),
        ("note:a/../b", "note:a/../b"),
    ],
)
def test_an_address_has_one_plain_form(written: str, plain: str) -> None:
    assert plain_uri(written) == plain
    assert plain_uri(plain) == plain


@in_both_eras
async def test_a_pattern_means_a_resource_however_its_address_is_written(in_process: Servers, era: str) -> None:
    notes = Everything("notes")
    notes.texts["files://etc/passwd"] = "root"
    config = {"profiles": {"p": {"deny": ["resource:notes:files://etc/*"]}}, "profile": "p"}
    async with in_front_of(in_process, notes, config=config) as made, client(made, era) as connected:
        for uri in ("files://etc/passwd", "FILES://etc/a/../passwd", "files://%65tc/passwd", "files://etc/./passwd"):
            for name in (uri, f"hooksdk://server/notes/{uri}"):
                with pytest.raises(MCPError, match="the profile 'p' does not have it"):
                    await connected.read_resource(name)
    assert notes.count("resources/read") == 0


# Changes


@from_both_eras
async def test_changed_lists_are_told(in_process: Servers, server_era: str) -> None:
    told: list[Any] = []

    async def hear(message: Any) -> None:
        told.append(type(message))

    notes = Everything("notes", server_era)
    async with in_front_of(in_process, notes) as made, client(made, "legacy", message_handler=hear) as connected:
        await connected.list_prompts()
        await soon(lambda: server_era == "legacy" or "subscriptions/listen" in notes.asked)
        notes.prompts.append("part")
        await notes.say(PromptsListChanged())
        await soon(lambda: types.PromptListChangedNotification in told)
        assert [one.name for one in (await connected.list_prompts()).prompts] == ["greet", "part"]
        notes.texts["note://new"] = "new"
        await notes.say(ResourcesListChanged())
        await soon(lambda: types.ResourceListChangedNotification in told)
        assert await text_at(connected, "note://new") == "new"


async def test_changed_lists_are_told_to_who_listens(in_process: Servers) -> None:
    notes = Everything("notes")
    async with in_front_of(in_process, notes) as made, client(made) as connected:
        await connected.list_prompts()
        async with connected.listen(prompts_list_changed=True) as changes:
            notes.prompts.append("part")
            await notes.say(PromptsListChanged())
            with anyio.fail_after(120):
                assert await anext(changes) == PromptsChanged()


@pytest.mark.both_loops
@from_both_eras
async def test_who_subscribes_hears_of_updates_until_they_unsubscribe(in_process: Servers, server_era: str) -> None:
    told: list[str] = []

    async def hear(message: Any) -> None:
        if isinstance(message, types.ResourceUpdatedNotification):
            told.append(message.params.uri)

    servers = notes, _mail = Everything("notes", server_era), Everything("mail", server_era)
    uri = "hooksdk://server/notes/note://today"
    async with in_front_of(in_process, *servers) as made:
        async with client(made, "legacy", message_handler=hear) as connected, client(made, "legacy") as other:
            await connected.session.send_request(
                types.SubscribeRequest(params=types.SubscribeRequestParams(uri=uri)), types.EmptyResult
            )
            await watching(notes, "note://today")
            await notes.say(ResourceUpdated("note://today"))
            await soon(lambda: told == [uri])
            assert await names(other)
        await soon(lambda: server_era == "auto" or not notes.watched)


async def test_who_subscribes_at_a_server_of_both_protocols_hears_of_updates_where_their_calls_go(
    in_process: Servers,
) -> None:
    told: list[str] = []

    async def hear(message: Any) -> None:
        if isinstance(message, types.ResourceUpdatedNotification):
            told.append(message.params.uri)

    notes = Everything("notes", "both")
    config, relay = {"relay": ["roots"]}, ["roots"]
    async with in_front_of(in_process, notes, config=config, relay=relay) as made:
        async with client(made, "legacy", message_handler=hear) as connected:
            subscribe = types.SubscribeRequest(params=types.SubscribeRequestParams(uri="note://today"))
            await connected.session.send_request(subscribe, types.EmptyResult)
            assert notes.watched == {"note://today"}
            assert not notes.streams
            await notes.say(ResourceUpdated("note://today"))
            await soon(lambda: told == ["note://today"])
        await soon(lambda: not notes.watched)
    assert notes.starts == 2


async def test_a_resource_that_cannot_be_watched_is_an_error(in_process: Servers) -> None:
    notes = Everything("notes")
    async with in_front_of(in_process, notes) as made, client(made, "legacy") as connected:
        subscribe = types.SubscribeRequest(params=types.SubscribeRequestParams(uri="note://nothing"))
        with pytest.raises(MCPError, match="there is no resource 'note://nothing' here"):
            await connected.session.send_request(subscribe, types.EmptyResult)
        assert notes.watched == set()


async def watching(server: Everything, uri: str) -> None:
    """Wait until the server is to say when this resource changes."""
    await soon(lambda: uri in server.watched or uri in server.streams)


@pytest.mark.both_loops
@from_both_eras
async def test_who_listens_hears_of_updates(in_process: Servers, server_era: str) -> None:
    servers = notes, _mail = Everything("notes", server_era), Everything("mail", server_era)
    config = {"profiles": {"p": {"deny": ["resource:mail:*"]}}, "profile": "p"}
    async with in_front_of(in_process, *servers, config=config) as made, client(made) as connected:
        wanted = ["note://today", "note://of-mail"]
        async with connected.listen(resource_subscriptions=wanted) as changes:
            assert changes.honored.resource_subscriptions == ["note://today"]
            await watching(notes, "note://today")
            await notes.say(ResourceUpdated("note://today"))
            with anyio.fail_after(120):
                assert await anext(changes) == Updated("note://today")


# Completion, logs, instructions


@in_both_eras
async def test_arguments_of_prompts_and_templates_are_completed(in_process: Servers, era: str) -> None:
    servers = Everything("notes"), Everything("mail")
    async with in_front_of(in_process, *servers) as made, client(made, era) as connected:
        prompt, template = (
            types.PromptReference(name="mail__greet"),
            types.ResourceTemplateReference(uri="notes://item/{id}"),
        )
        answer = await connected.complete(prompt, {"name": "who", "value": "A"})
        assert answer.completion.values == ["mail: greet who=A"]
        answer = await connected.complete(template, {"name": "id", "value": "7"})
        assert answer.completion.values == ["notes: notes://item/{id} id=7"]
        with pytest.raises(MCPError, match="there is no prompt 'other' here"):
            await connected.complete(types.PromptReference(name="other"), {"name": "who", "value": "A"})


@from_both_eras
@in_both_eras
async def test_what_a_server_logs_reaches_the_client_of_the_call(
    in_process: Servers, era: str, server_era: str
) -> None:
    heard: dict[str, list[str]] = {"ann": [], "bob": []}

    def hearing(who: str) -> Any:
        async def hear(params: types.LoggingMessageNotificationParams) -> None:
            heard[who].append(f"{params.level}: {params.data}")

        return hear

    notes = Everything("notes", server_era)
    async with (
        in_front_of(in_process, notes) as made,
        client(made, era, logging_callback=hearing("ann")) as ann,
        client(made, era, logging_callback=hearing("bob")) as bob,
    ):
        await ann.call_tool("log", {})
        assert heard["ann"] == []  # nobody has asked for it
        meta: Any = {}
        if era == "legacy":
            for one in (ann, bob):
                level = types.SetLevelRequestParams(level="warning")
                await one.session.send_request(types.SetLevelRequest(params=level), types.EmptyResult)
            assert notes.level == ("warning" if server_era == "legacy" else None)
        else:
            meta = {mcp_types.LOG_LEVEL_META_KEY: "warning"}
        await ann.call_tool("log", {}, meta=meta)
        await soon(lambda: heard["ann"])
        if era == server_era == "legacy":
            await notes.log("error", "it burns")
            await soon(lambda: "error: it burns" in heard["bob"])
            assert heard["ann"] == ["warning: warning of notes", "error: it burns"]
        else:
            assert heard["ann"] == ["warning: warning of notes"]
            assert heard["bob"] == []


@in_both_eras
async def test_instructions_are_joined_the_operators_first(in_process: Servers, era: str) -> None:
    servers = Everything("notes", instructions="Notes are short."), Everything("mail", instructions="word " * 1000)
    config = {"instructions": "Be brief.", "profiles": {"p": {"servers": ["notes"]}}}
    async with in_front_of(in_process, *servers, config=config) as made:
        async with client(made, era, "p") as connected:
            assert connected.instructions == "Be brief.\n\n# notes\nNotes are short."
        async with client(made, era) as connected:
            said = connected.instructions or ""
            assert said.startswith("Be brief.\n\n# notes\nNotes are short.\n\n# mail\nword word")
            assert said.endswith(" […]")
            assert 1_900 < len(said) <= 2_000


# What servers say besides


@from_both_eras
@in_both_eras
async def test_what_a_request_says_besides_reaches_the_server(in_process: Servers, era: str, server_era: str) -> None:
    notes = Everything("notes", server_era)
    trace = {"traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "example.org/of": "x"}
    async with in_front_of(in_process, notes) as made, client(made, era) as connected:
        meta: Any = dict(trace)
        # A client that is traced sends the trace that it is in.
        token = context.attach(extract(trace))
        try:
            await connected.call_tool("plain", {}, meta=meta)
        finally:
            context.detach(token)
        (said,) = [meta for method, meta in zip(notes.asked, notes.metas, strict=True) if method == "tools/call"]
        assert said["example.org/of"] == "x"
        assert said["traceparent"].split("-")[1] == trace["traceparent"].split("-")[1]


@in_both_eras
async def test_what_a_tool_says_of_itself_for_clients_is_listed(in_process: Servers, era: str) -> None:
    notes, mail = Everything("notes"), Everything("mail")
    for server in (notes, mail):
        server.tools["show"] = types.Tool(
            name="show", title="Show it", input_schema={"type": "object"}, icons=[types.Icon(src="https://example.org/i.png")],
            annotations=types.ToolAnnotations(title="Older title", read_only_hint=True),
            _meta={"ui": {"resourceUri": "ui://app"}, "example.org/x": 1},
        )  # fmt: skip
        server.texts["ui://app"] = f"<p>{server.name}</p>"
    async with in_front_of(in_process, notes, mail) as made, client(made, era) as connected:
        shown = {tool.name: tool for tool in (await connected.list_tools()).tools}["mail__show"]
        assert shown.title == "Show it"
        assert shown.annotations is not None
        assert (shown.annotations.title, shown.annotations.read_only_hint) == ("Older title", True)
        assert shown.icons is not None
        assert shown.meta is not None
        assert shown.meta["example.org/x"] == 1
        assert await text_at(connected, shown.meta["ui"]["resourceUri"]) == "<p>mail</p>"


@from_both_eras
@in_both_eras
async def test_errors_keep_code_and_data(in_process: Servers, era: str, server_era: str) -> None:
    async with in_front_of(in_process, Everything("notes", server_era)) as made, client(made, era) as connected:
        with pytest.raises(MCPError) as caught:
            await connected.call_tool("sign_in", {})
        assert caught.value.code == types.URL_ELICITATION_REQUIRED
        assert caught.value.error.data["elicitations"][0]["url"] == "https://example.org/in"
        result = await connected.call_tool("refuse", {})  # a model may do something about it
        assert result.is_error
        assert "no such thing" in text_of(result)
        assert (result.meta or {})["hooksdk/error"] == {"code": -32055, "data": {"why": "because"}}
        with pytest.raises(MCPError) as caught:
            await connected.read_resource("hooksdk://server/notes/note://nothing")
        assert (caught.value.code, caught.value.error.data) == (-32002, {"uri": "note://nothing"})
        with pytest.raises(MCPError) as caught:
            await connected.read_resource("note://nothing")
        assert caught.value.code == (-32002 if era == "legacy" else types.INVALID_PARAMS)


@in_both_eras
async def test_a_cursor_that_nobody_gave_is_refused(in_process: Servers, era: str) -> None:
    async with in_front_of(in_process, Everything("notes")) as made, client(made, era) as connected:
        for ask in (connected.list_tools, connected.list_prompts, connected.list_resources):
            with pytest.raises(MCPError, match="cursor"):
                await ask(cursor="made up")


# Kept listings


async def test_lists_start_no_server(in_process: Servers, tmp_path: Path) -> None:
    notes = Everything("notes", instructions="Notes are short.")
    options: dict[str, Any] = {"lazy": True, "listings": tmp_path}
    async with in_front_of(in_process, notes, **options):
        assert notes.starts == 1
    async with in_front_of(in_process, notes, **options) as made, client(made) as connected:
        assert connected.instructions is not None
        assert "Notes are short." in connected.instructions
        assert len((await connected.list_prompts()).prompts) == 1
        assert len((await connected.list_resources()).resources) == 2
        assert len((await connected.list_resource_templates()).resource_templates) == 1
        assert notes.starts == 1
        assert await text_at(connected, "note://today") == "buy milk at notes"
        assert notes.starts == 2


async def test_a_listing_of_an_earlier_version_counts_and_the_rest_is_asked_for(
    in_process: Servers, tmp_path: Path
) -> None:
    notes = Everything("notes")
    options: dict[str, Any] = {"lazy": True, "listings": tmp_path}
    async with in_front_of(in_process, notes, **options):
        pass
    (file,) = tmp_path.glob("*.json")
    known = json.loads(file.read_bytes())
    file.write_text(
        json.dumps({key: known[key] for key in ("format", "server", "version", "listed", "program", "tools")})
    )
    async with in_front_of(in_process, notes, **options) as made, client(made) as connected:
        assert "plain" in await names(connected)
        assert len((await connected.list_prompts()).prompts) == 1
        assert notes.starts == 2
