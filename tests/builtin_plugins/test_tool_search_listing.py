"""The optional listing of the deferred tools in the bridge's description."""

from __future__ import annotations

import json

import pytest
from searching import CATALOG, make, searching

from builtin_plugins.tool_search._answers.listing import listing
from hooksdk import Tool, schema

pytestmark = pytest.mark.anyio

LARGE = [make(f"tool_{n:03}", f"Does the thing number {n}. And more.", "large") for n in range(200)]
SMALL = [make(f"one_{n}", f"Small thing {n}.", "small") for n in range(5)]


async def told(tools: list[Tool], **config: object) -> str:
    """The description of tool_search."""
    async with searching(tools, **config) as played:  # type: ignore[arg-type]
        return next(tool.description for tool in played.run.offered if tool.name == "tool_search")


async def test_a_listing_has_every_deferred_tool_by_owner_with_its_first_sentence() -> None:
    assert (await told(CATALOG, listing=True)).endswith(
        "\n\nThey are, by source:"
        "\ngithub:\n- create_issue: Create an issue in a repository."
        "\ngmail:\n- send_email: Send an email message."
        "\nweather:\n- get_forecast: Weather forecast for a city."
    )


async def test_there_is_no_listing_unless_it_is_asked_for() -> None:
    assert "create_issue" not in await told(CATALOG)
    assert await told(CATALOG) == await told(CATALOG, listing=False) == await told(CATALOG, listing=0)


async def test_a_listing_has_the_same_bytes_whatever_the_order_of_the_tools() -> None:
    for budget in (True, 1_000, 200):
        forwards = await told([*LARGE, *SMALL], listing=budget)
        assert forwards == await told([*reversed(LARGE), *reversed(SMALL)], listing=budget)


def test_a_listing_falls_from_sentences_to_names_to_counts_to_nothing() -> None:
    tools = [*LARGE, *SMALL]
    sentences, names, mixed, counts = (listing(tools, budget) for budget in (4_000, 1_000, 100, 17))
    assert "- tool_000: Does the thing number 0.\n" in sentences
    assert "tool_000, tool_001," in names
    assert "thing" not in names
    assert mixed.splitlines() == [
        "They are, by source:",
        "large: 200 tools",
        "small: one_0, one_1, one_2, one_3, one_4",
    ]
    assert counts.splitlines() == ["They are, by source:", "large: 200 tools", "small: 5 tools"]
    assert listing(tools, 10) == ""


def test_a_listing_stays_within_its_budget() -> None:
    awkward = [make(f"t{n}", 'Says "quoted" and \\ and\nlines.' * 3, f"owner {n % 40}") for n in range(300)]
    for budget in (20, 50, 100, 200, 300, 500, 1_000, 2_000, 4_000, 20_000):
        for tools in (awkward, [*LARGE, *SMALL]):
            assert schema.estimate_tokens(json.dumps(listing(tools, budget))) <= budget


@pytest.mark.heavy
@pytest.mark.parametrize(
    ("setting", "window", "most"),
    [(True, None, 4_000), (True, 200_000, 4_000), (True, 8_000, 800), (500, 200_000, 500), (5_000, 20_000, 2_000)],
)
async def test_the_budget_is_4_000_tokens_or_as_given_and_a_tenth_of_the_window_at_most(
    setting: object, window: int | None, most: int
) -> None:
    tools = [make(f"tool_{n:03}", "Does a thing that takes a few words to tell.", f"o{n % 9}") for n in range(1_000)]
    bare = await told(tools, window=window)
    with_listing = await told(tools, window=window, listing=setting)
    assert bare in with_listing
    assert most * 0.5 < schema.estimate_tokens(with_listing) - schema.estimate_tokens(bare) <= most + 1


async def test_a_budget_out_of_range_is_clamped() -> None:
    assert await told(CATALOG, listing=-3) == await told(CATALOG)
