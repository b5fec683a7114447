"""The pages with a loop before and after show the real difference, and the loop without hooksdk works as well."""

from __future__ import annotations

import difflib
import importlib
import re
from typing import Any

import pytest
from pages import DOCS

from hooksdk.testing import call
from hooksdk.testing.server import ScriptedServer

pytestmark = [pytest.mark.heavy, pytest.mark.anyio]
PAGES = {"openai-loop.md": ("openai", "AsyncOpenAI"), "anthropic-loop.md": ("anthropic", "AsyncAnthropic")}


def blocks(page: str, language: str) -> list[str]:
    text = (DOCS / "how-to" / page).read_text("utf-8")
    return re.findall(rf"^```{language}\n(.*?)^```", text, re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("page", PAGES)
def test_the_difference_that_is_shown_is_the_one_between_both_loops(page: str) -> None:
    before, after, _ = blocks(page, "python")
    lines = difflib.unified_diff(before.splitlines(), after.splitlines(), "before", "after", lineterm="", n=2)
    assert blocks(page, "diff") == ["\n".join(lines) + "\n"]


@pytest.mark.parametrize("page", PAGES)
async def test_the_loop_before_works(page: str) -> None:
    package, client_class = PAGES[page]
    sdk: Any = importlib.import_module(package)
    namespace: dict[str, Any] = {}
    exec(compile(blocks(page, "python")[0], page, "exec"), namespace)
    async with ScriptedServer([call("add", left=1, right=2), "It is 3."]) as server:
        url = server.openai_url if package == "openai" else server.anthropic_url
        async with getattr(sdk, client_class)(base_url=url, api_key="none") as client:
            assert await namespace["answer"](client, "What is one and two?") == "It is 3."
