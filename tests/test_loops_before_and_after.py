"""On the pages with a loop before and after hooksdk, the loop without it works as well."""

from __future__ import annotations

import importlib
from typing import Any

import pytest
from pages import DOCS

from hooksdk.testing import call
from hooksdk.testing.server import ScriptedServer

pytestmark = [pytest.mark.heavy, pytest.mark.anyio]
PAGES = {"openai-loop.md": ("openai", "AsyncOpenAI"), "anthropic-loop.md": ("anthropic", "AsyncAnthropic")}


def first_block(page: str) -> str:
    """The loop without hooksdk."""
    text = (DOCS / "how-to" / page).read_text("utf-8")
    return text.partition("```python\n")[2].partition("\n```")[0]


@pytest.mark.parametrize("page", PAGES)
async def test_the_loop_before_works(page: str) -> None:
    package, client_class = PAGES[page]
    sdk: Any = importlib.import_module(package)
    namespace: dict[str, Any] = {}
    exec(compile(first_block(page), page, "exec"), namespace)
    async with ScriptedServer([call("add", left=1, right=2), "It is 3."]) as server:
        url = server.openai_url if package == "openai" else server.anthropic_url
        async with getattr(sdk, client_class)(base_url=url, api_key="none") as client:
            assert await namespace["answer"](client, "What is one and two?") == "It is 3."
