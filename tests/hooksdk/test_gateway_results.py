"""Long results at the gateway: shortened for the client, kept for its session, read in parts or as a resource."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from mcp import Client, types
from mcp.shared.exceptions import MCPError

from hooksdk import Host, ToolResult, hooks
from hooksdk.gateway import Gateway
from hooksdk.gateway._long_results import cut_after, cut_before, page_end
from hooksdk.hooks import Replace, TransformToolResult
from tests.hooksdk.gateways import ERAS, Source, client, gateway, source, text_of

pytestmark = [pytest.mark.heavy, pytest.mark.anyio, pytest.mark.in_ci(era=["auto"])]
in_both_eras = pytest.mark.parametrize("era", ERAS)
LINES = "".join(f"line {number} of the long report\n" for number in range(10_000))
RECALL = "recall-tool-result"


def long(result: ToolResult | None = None, more: int = 0) -> Source:
    """`report` of `files`, whose answer is long."""
    tools = source(more)
    tools.add("files", "report", reads=True, result=result or ToolResult(LINES))
    return tools


async def whole(connected: Client, handle: str, *, bridge: bool = False) -> str:
    """All parts of a result."""
    text, offset = "", 0
    while True:
        arguments: dict[str, Any] = {"id": handle, "offset": offset}
        way = ("tool_call_readonly", {"name": RECALL, "arguments": arguments}) if bridge else (RECALL, arguments)
        answer = await connected.call_tool(*way)
        assert not answer.is_error, text_of(answer)
        part, _, foot = text_of(answer).rpartition("\n[")
        text += part
        if "This is its end" in foot:
            return text
        offset = int(foot.partition("offset ")[2].rstrip(".]"))
        assert offset == len(text)


@in_both_eras
@pytest.mark.parametrize("bridge", [False, True])
async def test_a_long_result_comes_as_head_and_tail_and_is_read_whole_in_parts(era: str, bridge: bool) -> None:
    tools = long(more=65 if bridge else 0)
    async with gateway(tools, search=bridge) as made, client(made, era) as connected:
        answer = text_of(await connected.call_tool("report", {"path": "a"}))
        assert len(answer) <= 30_000
        assert answer.startswith("line 0 of")
        assert answer.endswith("line 9999 of the long report\n")
        assert f"of {len(LINES):,} characters are left out here. The whole is r1; read on with" in answer
        way = 'tool_call_readonly {"name": "recall-tool-result", "arguments": {"id"' if bridge else f'{RECALL} {{"id"'
        assert way in answer
        assert await whole(connected, "r1", bridge=bridge) == LINES


@in_both_eras
async def test_a_long_result_is_a_resource_of_its_own_session_alone(era: str) -> None:
    async with gateway(long()) as made, client(made, era) as one, client(made, era) as other:
        await one.call_tool("report", {"path": "a"})
        (resource,) = (await one.list_resources()).resources
        assert (resource.uri, resource.name, resource.size) == ("hooksdk://result/r1", "r1", len(LINES))
        (content,) = (await one.read_resource(resource.uri)).contents
        assert isinstance(content, types.TextResourceContents)
        assert content.text == LINES
        assert (await other.list_resources()).resources == []
        with pytest.raises(MCPError, match="no result 'hooksdk://result/r1' in this session"):
            await other.read_resource(resource.uri)
        refused = await other.call_tool(RECALL, {"id": "r1"})
        assert refused.is_error
        assert "There is no result 'r1' in this session" in text_of(refused)


async def test_other_content_meta_and_the_error_stay_beside_a_cut_text_and_structured_content_goes() -> None:
    picture = {"type": "image", "data": "aGk=" * 20_000, "mimeType": "image/png"}
    blocks: list[dict[str, Any]] = [
        picture,
        {"type": "text", "text": LINES},
        {"type": "resource", "resource": {"uri": "file:///m", "text": "embedded"}},
        {"type": "resource_link", "name": "n", "uri": "file:///n"},
    ]
    meta = {"example.org/took": 3}
    result = ToolResult(is_error=True, blocks=blocks, structured={"rows": [1]}, meta=meta)
    async with gateway(long(result)) as made, client(made) as connected:
        answer = await connected.call_tool("report", {"path": "a"})
        assert [block.type for block in answer.content] == ["image", "text", "resource_link"]
        assert answer.content[0].model_dump(by_alias=True, exclude_none=True) == picture
        assert (answer.is_error, answer.structured_content) == (True, None)
        assert (answer.meta or {})["example.org/took"] == 3
        assert await whole(connected, "r1") == f'{LINES}\nembedded\n{{"rows": [1]}}'


async def test_long_structured_content_is_cut_as_its_text_is() -> None:
    rows = {"rows": [f"row {number}" for number in range(20_000)]}
    async with gateway(long(ToolResult("20,000 rows", structured=rows))) as made, client(made) as connected:
        answer = await connected.call_tool("report", {"path": "a"})
        assert answer.structured_content is None
        assert text_of(answer).startswith("20,000 rows\n")
        assert json.loads((await whole(connected, "r1")).removeprefix("20,000 rows\n")) == rows


async def test_what_is_recalled_is_what_a_redactor_left() -> None:
    class Redacts:
        @hooks.transform_tool_result(required=True)
        def transform(self, event: TransformToolResult) -> Replace:
            return Replace(event.result.with_text(event.result.text.replace("line 5000 of", "[redacted] of")))

    async with gateway(long(), Redacts) as made, client(made) as connected:
        await connected.call_tool("report", {"path": "a"})
        text = await whole(connected, "r1")
        assert text == LINES.replace("line 5000 of", "[redacted] of")
        assert RECALL in [tool.name for tool in (await connected.list_tools()).tools]


async def test_a_secret_is_masked_in_what_is_kept() -> None:
    class Provides:
        @hooks.resolve_secrets
        def provide(self, event: hooks.ResolveSecrets) -> hooks.Secrets:
            return hooks.Secrets({"KEY": "sk-canary-1234567890"})

    tools = source()

    async def echo(arguments: dict[str, Any]) -> str:
        return LINES.replace("line 5000 of", f"{arguments['path']} of")

    tools.listed = [*tools.listed, replace(tools.listed[0], name="echo", own_name="echo", execute=echo)]
    async with gateway(tools, Provides) as made, client(made) as connected:
        await connected.call_tool("echo", {"path": "{{secret:KEY}}"})
        text = await whole(connected, "r1")
        assert "canary" not in text
        assert "{{secret:KEY}} of the long report" in text


@in_both_eras
@pytest.mark.parametrize("size", [1, 5_000], ids=["short", "long"])
async def test_a_secret_is_masked_wherever_a_result_has_it(era: str, size: int) -> None:
    class Provides:
        @hooks.resolve_secrets
        def provide(self, event: hooks.ResolveSecrets) -> hooks.Secrets:
            return hooks.Secrets({"KEY": "sk-canary-1234567890"})

    tools = source()

    async def echo(arguments: dict[str, Any]) -> ToolResult:
        key = f"{arguments['path']} is the key\n" * size
        blocks: list[dict[str, Any]] = [
            {"type": "text", "text": key, "_meta": {"example.org/key": key}},
            {"type": "resource", "resource": {"uri": "file:///key", "text": key}},
            {"type": "resource_link", "name": key[:60], "uri": "file:///key", "description": key[:60]},
        ]
        return ToolResult(blocks=blocks, structured={"keys": [key]}, meta={"example.org/key": key[:60]})

    tools.listed = [*tools.listed, replace(tools.listed[0], name="echo", own_name="echo", execute=echo)]
    async with gateway(tools, Provides) as made, client(made, era) as connected:
        said: list[types.Result] = [await connected.call_tool("echo", {"path": "{{secret:KEY}}"})]
        for resource in (await connected.list_resources()).resources:
            said.append(await connected.read_resource(resource.uri))
            said.append(await connected.call_tool(RECALL, {"id": resource.name}))
        texts = [one.model_dump_json(by_alias=True) for one in said]
    assert len(texts) == (1 if size == 1 else 3)
    assert ["canary" in text for text in texts] == [False] * len(texts)
    assert all("{{secret:KEY}} is the key" in text for text in texts)


async def test_recalling_goes_past_policies_like_every_call() -> None:
    class Withholds:
        @hooks.narrow_tools
        def narrow(self, event: hooks.NarrowTools) -> hooks.Withhold:
            return hooks.Withhold([RECALL], "nothing is read twice")

    async with gateway(long(), Withholds) as made, client(made) as connected:
        answer = text_of(await connected.call_tool("report", {"path": "a"}))
        assert "The whole is r1: hooksdk://result/r1.]" in answer
        assert (await connected.call_tool(RECALL, {"id": "r1"})).is_error


async def test_of_more_than_may_be_kept_the_newest_stay() -> None:
    config = {"kept_result_bytes": 2 * len(LINES)}
    async with gateway(long(), config=config) as made, client(made) as connected:
        for _ in range(3):
            await connected.call_tool("report", {"path": "a"})
        assert [one.name for one in (await connected.list_resources()).resources] == ["r3", "r2"]
        assert "The newest ones: r2, r3" in text_of(await connected.call_tool(RECALL, {"id": "r1"}))


async def test_a_result_too_large_to_be_kept_is_told() -> None:
    config = {"kept_result_bytes": 1000}
    async with gateway(long(), config=config) as made, client(made) as connected:
        answer = text_of(await connected.call_tool("report", {"path": "a"}))
        assert "too many to be kept: ask for less at once" in answer
        assert (await connected.list_resources()).resources == []


async def test_results_come_whole_where_that_is_asked_for() -> None:
    async with gateway(long(), config={"max_result_chars": 0}) as made, client(made) as connected:
        assert text_of(await connected.call_tool("report", {"path": "a"})) == LINES
        assert RECALL not in [tool.name for tool in (await connected.list_tools()).tools]


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ({"id": "r9"}, "There is no result 'r9'"),
        ({"id": "r1", "offset": 10_000_000}, "nothing from 10,000,000 on"),
        ({"id": "r1", "limit": 0}, "limit"),
    ],
)
async def test_what_cannot_be_recalled_is_told(arguments: dict[str, Any], told: str) -> None:
    async with gateway(long()) as made, client(made) as connected:
        await connected.call_tool("report", {"path": "a"})
        refused = await connected.call_tool(RECALL, arguments)
        assert refused.is_error
        assert told in text_of(refused)


async def test_the_transcripts_tools_are_not_among_those_of_the_gateway() -> None:
    on = {"plugins": {"tool_results": {"enabled": True}}}
    async with Host(config=on) as host, Gateway(host, source()) as made, client(made) as connected:
        assert "tool_results" in [plugin.id for plugin in host.plugins if plugin.status == "loaded"]
        listed = [tool.name for tool in (await connected.list_tools()).tools]
        assert [name for name in listed if "result" in name] == ["gateway__recall-tool-result"]
        assert "There is no result 'r1'" in text_of(await connected.call_tool(RECALL, {"id": "r1"}))


FAMILY = "\U0001f468\u200d\U0001f469\u200d\U0001f467"


@pytest.mark.parametrize(
    ("sign", "place"), [(FAMILY, 3), ("e\u0301", 1), ("\U0001f1e9\U0001f1ea", 1), ("\r\n", 1), ("\ud83d\ude00", 1)]
)
def test_no_sign_is_cut_in_two(sign: str, place: int) -> None:
    text = "a" * 10 + sign + "b" * 10
    assert cut_before(text, 10 + place) == 10
    assert cut_after(text, 10 + place) == 10 + len(sign)


def test_a_cut_is_at_the_end_of_a_line_where_one_is_near() -> None:
    text = "x" * 50 + "\n" + "y" * 100
    assert (cut_before(text, 90), cut_after(text, 20)) == (51, 51)


def test_a_page_always_goes_on() -> None:
    assert page_end(FAMILY * 3, 0, 1) == 1
    assert page_end("\n" + "a" * 50, 0, 3) == 1
    assert page_end("abc", 1, 10) == 3
