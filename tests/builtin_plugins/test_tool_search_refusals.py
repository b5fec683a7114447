"""Refusals that help a model which does not reason: they hold what was meant, and a repeated call reads another one."""

from __future__ import annotations

import json
from typing import Any

import pytest
from searching import CATALOG, make, searching

from hooksdk import hooks
from hooksdk.hooks import BeforeToolCall, Block, NarrowTools, Trace, Withhold

pytestmark = pytest.mark.anyio

SCALE = make(
    "scale", "Scale a deployment.", "kubectl", required=["deployment", "replicas"], deployment="string", replicas="integer"
)  # fmt: skip
TERMINAL = make("terminal", "Run a shell command.", "core", source="host", command="string")
TOOLS = [*CATALOG, SCALE, make("get_pods", "List the pods.", "kubectl", namespace="string"), TERMINAL]
ARGUMENTS = {"deployment": "web", "replicas": 3}
RAN = 'ran with {"deployment": "web", "replicas": 3}'
SEARCH = {"name": "tool_search", "arguments": {"queries": ["scale a deployment"]}}
DESCRIBE = {"name": "tool_describe", "arguments": {"names": ["scale"]}}


class Seen:
    """Keeps the names that policies are shown, and what the trace says of names."""

    def __init__(self) -> None:
        self.judged: list[str] = []
        self.unwrapped: list[tuple[str, str, str]] = []

    @hooks.before_tool_call
    def judge(self, event: BeforeToolCall) -> None:
        self.judged.append(event.call.name)

    @hooks.trace
    async def keep(self, event: Trace) -> None:
        if event.kind == "unwrapped":
            record = event.record.as_dict()
            self.unwrapped.append((record["bridge"], record["tool"], record["written"]))


def answer_in(text: str) -> dict[str, Any]:
    """The JSON that a refusal holds."""
    return json.JSONDecoder().raw_decode(text[text.index("{") :])[0]


# A bridge within the bridge


@pytest.mark.parametrize("name", ["tool_search", "functions.tool_search", "Tool_Search"])
async def test_a_search_through_tool_call_is_refused_with_its_hits(name: str) -> None:
    async with searching(TOOLS, Seen) as played:
        result = await played.call("tool_call", {**SEARCH, "name": name})
        assert result.is_error
        assert result.text.startswith("Nothing was called: call tool_search itself, not through tool_call.")
        (group,) = answer_in(result.text)["results"]
        assert group["hits"][0]["call"] == "scale(deployment: string, replicas: integer)"
        assert played.session.plugin("seen").judged == []


async def test_a_description_through_tool_call_is_refused_with_the_schema() -> None:
    async with searching(TOOLS) as played:
        result = await played.call("tool_call", DESCRIBE)
        assert result.is_error
        assert answer_in(result.text)["tools"]["scale"]["parameters"]["required"] == ["deployment", "replicas"]


async def test_tool_call_in_tool_call_is_refused_with_the_one_call_to_write() -> None:
    async with searching(TOOLS) as played:
        inner: dict[str, Any] = {"name": "kubectl.scale", "arguments": ARGUMENTS}
        for _ in range(3):
            inner = {"name": "tool_call", "arguments": inner}
            result = await played.call("tool_call", inner)
            assert result.is_error
            assert answer_in(result.text) == {"name": "scale", "arguments": ARGUMENTS}
        assert (await played.call("tool_call", {"name": "scale", "arguments": ARGUMENTS})).text == RAN


@pytest.mark.parametrize("nested", ["refuse", "answer"])
async def test_a_core_tool_is_refused_through_the_bridge_however_deep(nested: str) -> None:
    inner = {"name": "terminal", "arguments": {"command": "ls"}}
    async with searching(TOOLS, nested=nested) as played:
        for written in (inner, {"name": "tool_call", "arguments": inner}):
            result = await played.call("tool_call", written)
            assert result.is_error
            assert "Call terminal itself, not through tool_call." in result.text


@pytest.mark.parametrize(
    ("written", "name"),
    [
        (SEARCH, "tool_search"),
        (DESCRIBE, "tool_describe"),
        ({"name": "tool_call", "arguments": SEARCH}, "tool_search"),
        ({"name": "tool_call", "arguments": {"name": "scale", "arguments": ARGUMENTS}}, "scale"),
    ],
)
async def test_nested_answer_answers_it_outright_and_policies_see_the_inner_call(
    written: dict[str, Any], name: str
) -> None:
    async with searching(TOOLS, Seen, nested="answer") as played:
        result = await played.call("tool_call", written)
        assert not result.is_error
        assert "scale" in result.text or result.text == RAN
        seen = played.session.plugin("seen")
        assert seen.judged == [name]
    assert seen.unwrapped == [("tool_call", name, "")]


async def test_a_policy_that_blocks_searches_blocks_them_through_tool_call_as_well() -> None:
    class Policy:
        @hooks.before_tool_call(tools="tool_search")
        def judge(self, event: BeforeToolCall) -> Block:
            return Block("no searching")

    async with searching(TOOLS, Policy, nested="answer") as played:
        assert "no searching" in (await played.call("tool_call", SEARCH)).text


async def test_a_nested_search_does_not_end_the_streak() -> None:
    async with searching(TOOLS, nested="answer") as played:
        await played.call("tool_call", SEARCH)
        result = await played.call("tool_call", SEARCH)
        assert json.loads(result.text)["searches_without_a_call"] == 2


async def test_tool_call_around_itself_without_end_is_refused() -> None:
    inner: dict[str, Any] = {"name": "scale", "arguments": ARGUMENTS}
    for _ in range(12):
        inner = {"name": "tool_call", "arguments": inner}
    for nested in ("refuse", "answer"):
        async with searching(TOOLS, nested=nested) as played:
            result = await played.call("tool_call", inner)
            assert result.is_error
            assert "tool_call cannot call itself" in result.text


# Names


@pytest.mark.parametrize(
    "name", ["kubectl.scale", "kubectl__scale", "functions.scale", "scale(deployment: string, replicas: integer)"]
)
async def test_a_name_that_means_one_tool_runs_it_through_the_bridge_and_the_trace_says_what_was_written(
    name: str,
) -> None:
    async with searching(TOOLS, Seen) as played:
        assert (await played.call("tool_call", {"name": name, "arguments": ARGUMENTS})).text == RAN
        seen = played.session.plugin("seen")
        assert seen.judged == ["scale"]
    assert seen.unwrapped == [("tool_call", "scale", name)]


async def test_a_shared_name_runs_the_one_tool_that_takes_the_arguments() -> None:
    image = make("scale", "Scale an image.", "image", required=["file"], file="string")
    async with searching([*TOOLS, image]) as played:
        for result in (
            await played.call("tool_call", {"name": "scale", "arguments": ARGUMENTS}),
            await played.call("scale", ARGUMENTS),
        ):
            assert result.text == RAN
        refused = await played.call("tool_call", {"name": "scale", "arguments": {"size": 3}})
        assert (
            "- kubectl__scale(deployment: string, replicas: integer): Scale a deployment.\n- image__scale("
            in refused.text
        )


@pytest.mark.parametrize(
    "written",
    [
        {"name": "tool_search", "arguments": {"queries": ["scale a deployment"]}},
        {"name": "tool_search", "arguments": '{"queries": ["scale a deployment"]}'},
        {"arguments": {"query": "scale a deployment"}},
    ],
)
async def test_a_search_that_is_wrapped_once_more_is_understood(written: dict[str, Any]) -> None:
    async with searching(TOOLS) as played:
        result = await played.call("tool_search", written)
        assert json.loads(result.text)["results"][0]["hits"][0]["name"] == "scale"


@pytest.mark.parametrize("name", ["functions.tool_search", "tool_search.tool_search", "tool_search()"])
async def test_a_bridge_is_understood_by_another_name_of_its_own(name: str) -> None:
    async with searching(TOOLS, Seen) as played:
        assert not (await played.call(name, SEARCH["arguments"])).is_error
        assert played.session.plugin("seen").judged == ["tool_search"]


# Names that no tool has


@pytest.mark.parametrize("through", ["tool_call", "direct"])
async def test_a_source_is_told_to_be_one_with_hits_by_the_words_of_the_arguments(through: str) -> None:
    given = {"command": "scale deployment web --replicas 3"}
    async with searching(TOOLS) as played:
        written = (
            ("tool_call", {"name": "kubectl", "arguments": given}) if through == "tool_call" else ("kubectl", given)
        )
        result = await played.call(*written)
        assert result.is_error
        assert "a source of 2 tools, not a tool." in result.text
        assert result.text.splitlines()[1] == "- scale(deployment: string, replicas: integer): Scale a deployment."


@pytest.mark.parametrize("through", ["tool_call", "direct"])
async def test_a_made_up_name_is_searched_for_with_the_words_of_its_arguments(through: str) -> None:
    given = {"what": "the deployment", "nested": [{"verb": "scale"}]}
    async with searching(TOOLS) as played:
        written = (
            ("tool_call", {"name": "kube_do", "arguments": given}) if through == "tool_call" else ("kube_do", given)
        )
        result = await played.call(*written)
        assert result.is_error
        assert "- scale(deployment: string, replicas: integer): Scale a deployment." in result.text
        assert 1 <= len(result.text.splitlines()) - 1 <= 3


@pytest.mark.parametrize("through", ["tool_call", "itself"])
async def test_a_made_up_name_with_the_arguments_of_one_tool_is_answered_with_that_tool_first(through: str) -> None:
    async with searching(TOOLS, Seen) as played:
        if through == "tool_call":
            result = await played.call("tool_call", {"name": "do_it", "arguments": ARGUMENTS})
        else:
            result = await played.call("do_it", ARGUMENTS)
    assert result.is_error
    lines = result.text.split("\n")
    assert lines[1].startswith("- scale(deployment: string, replicas: integer)")


async def test_arguments_of_other_types_speak_for_no_tool() -> None:
    async with searching(TOOLS, Seen) as played:
        result = await played.call("do_it", {"deployment": ["web"], "replicas": "three"})
    assert "- scale(" not in result.text


@pytest.mark.parametrize("through", ["tool_call", "itself"])
async def test_a_name_that_two_owners_share_is_answered_with_both_signatures(through: str) -> None:
    twins = [make("archive", "Archive it.", owner, required=["title"], title="string") for owner in ("mail", "notes")]
    async with searching([*CATALOG, *twins], Seen) as played:
        if through == "tool_call":
            result = await played.call("tool_call", {"name": "archive", "arguments": {"title": "a"}})
        else:
            result = await played.call("archive", {"title": "a"})
    assert "several tools are called 'archive'" in result.text
    assert [line.partition("(")[0] for line in result.text.split("\n")[1:]] == ["- mail__archive", "- notes__archive"]


async def test_what_is_withheld_is_in_no_refusal() -> None:
    class Policy:
        @hooks.narrow_tools
        def narrow(self, event: NarrowTools) -> Withhold:
            return Withhold(["scale"], "no scaling")

    async with searching(TOOLS, Policy) as played:
        for name in ("kubectl", "scale_deployment", "tool_search"):
            for call in (("tool_call", {"name": name, "arguments": {"command": "scale", "queries": ["scale"]}}),
                         (name, {"command": "scale", "queries": ["scale"]})):  # fmt: skip
                text = (await played.call(*call)).text
                assert "deployment:" not in text
                assert "- scale" not in text


async def test_a_name_that_nothing_is_found_for_is_answered_without_hits() -> None:
    async with searching(TOOLS) as played:
        result = await played.call("tool_call", {"name": "zzz_qqq", "arguments": {"x": "yyy"}})
        assert (
            result.text
            == "Nothing was called: there is no tool called 'zzz_qqq'. Use tool_search to find the exact name."
        )


@pytest.mark.parametrize("through", ["tool_call", "the name itself"])
async def test_a_name_that_no_tool_has_is_refused_with_the_sources_that_are_missing_now(through: str) -> None:
    async with searching(TOOLS) as played:
        await played.run.resolve_tools(TOOLS, missing={"clock": "cannot be started: no such command"})
        inside = through == "tool_call"
        result = await played.call(*(("tool_call", {"name": "zzz_qqq"}) if inside else ("zzz_qqq", {})))
        assert "Not available now: clock (cannot be started: no such command)." in result.text
        await played.run.resolve_tools(TOOLS)
        result = await played.call(*(("tool_call", {"name": "yyy_qqq"}) if inside else ("yyy_qqq", {})))
        assert "Not available" not in result.text


async def test_a_direct_call_of_an_unknown_name_is_one_of_an_unknown_tool_for_observers() -> None:
    class Watch:
        def __init__(self) -> None:
            self.statuses: list[str] = []

        @hooks.after_tool_call
        async def watch(self, event: hooks.AfterToolCall) -> None:
            self.statuses.append(event.status)

    async with searching(TOOLS, Watch) as played:
        await played.call("scale_up", {"deployment": "web"})
        watch = played.session.plugin("watch")
    assert watch.statuses == ["unknown"]


# Repetition


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("tool_call", SEARCH),
        ("tool_call", DESCRIBE),
        ("tool_call", {"name": "tool_call", "arguments": {"name": "scale", "arguments": ARGUMENTS}}),
        ("tool_call", {"name": "terminal", "arguments": {"command": "ls"}}),
        ("tool_call", {"name": "kubectl", "arguments": {"command": "scale"}}),
        ("tool_call", {"name": "zzz_qqq", "arguments": {}}),
        ("tool_call", "{broken"),
        ("kubectl", {"command": "scale"}),
        ("zzz_qqq", {}),
        ("tool_search", SEARCH["arguments"]),
    ],
    ids=str,
)
async def test_the_first_repetition_of_an_equal_call_reads_another_answer(name: str, arguments: Any) -> None:
    async with searching(TOOLS) as played:
        first, second = [(await played.call(name, arguments)).text for _ in range(2)]
        assert "before" not in first
        assert "before" in second
        assert second != first


async def test_a_repeated_refusal_shows_the_schema_of_what_to_call_instead() -> None:
    async with searching(TOOLS) as played:
        written = {"name": "kubectl", "arguments": {"command": "scale"}}
        await played.call("tool_call", written)
        text = (await played.call("tool_call", written)).text
        assert "To call scale through tool_call: " in text
        assert '"required":["deployment","replicas"]' in text


async def test_a_repeated_search_shows_its_best_hit_with_its_schema() -> None:
    async with searching(TOOLS) as played:
        await played.search("scale a deployment")
        again = await played.search("Scale a deployment")
        assert again["hint"].startswith("You have searched for exactly this before")
        assert again["best"]["parameters"]["required"] == ["deployment", "replicas"]
        assert "names_by_owner" not in again


async def test_after_a_call_that_ran_the_same_search_is_answered_as_a_first_one() -> None:
    async with searching(TOOLS) as played:
        first = await played.search("scale a deployment")
        await played.call("tool_call", {"name": "scale", "arguments": ARGUMENTS})
        assert await played.search("scale a deployment") == first


async def test_more_hits_of_the_same_words_are_another_search() -> None:
    async with searching(TOOLS) as played:
        await played.search("scale a deployment", limit=1)
        assert "hint" not in await played.search("scale a deployment", limit=3)


async def test_a_first_answer_holds_no_ready_made_call_of_its_first_hit() -> None:
    async with searching(TOOLS) as played:
        texts = [(await played.call(*one)).text for one in (
            ("tool_search", {"queries": ["scale a deployment"]}),
            ("tool_call", {"name": "kubectl", "arguments": {"command": "scale"}}),
            ("scale_it_now", {"deployment": "web"}),
            ("tool_call", {"name": "tool_search", "arguments": {"queries": ["scale it"]}}),
        )]  # fmt: skip
    for text in texts:
        assert "scale(" in text
        assert '"arguments"' not in text
