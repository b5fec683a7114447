"""Prompts, resources and what else servers offer beside their tools comes through the gateway, past the same policies."""

from __future__ import annotations

import pytest
from mcp import types

from tests.hooksdk.everything import Everything, in_front_of, in_process
from tests.hooksdk.gateways import ERAS, client

pytestmark = pytest.mark.anyio
__all__ = ["in_process"]
Servers = dict[str, Everything]
in_both_eras = pytest.mark.parametrize("era", ERAS)
from_both_eras = pytest.mark.parametrize("server_era", ERAS)


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
