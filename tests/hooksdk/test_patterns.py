"""Tool patterns."""

from __future__ import annotations

import pytest

from hooksdk import Tool
from hooksdk.patterns import PatternError, ToolPattern, near_tools

ISSUE = Tool(name="create_issue", source="mcp", owner="github")
RENAMED = ISSUE.copy(name="github__create_issue")
ODD = Tool(name="a.b[c]:d\ne", source="plugin", owner="odd:owner")


@pytest.mark.parametrize(
    ("pattern", "tool"),
    [
        ("create_issue", ISSUE),
        ("create_*", ISSUE),
        ("*", ISSUE),
        ("**_i?sue", ISSUE),
        ("create_issue", RENAMED),
        ("github__*", RENAMED),
        ("mcp:github:*", ISSUE),
        ("mcp:github:create_issue", RENAMED),
        ("mcp:*:create_*", ISSUE),
        ("*:github:*", ISSUE),
        ("m?p:git*:*issue", ISSUE),
        ("plugin:*:a.b[c]:*", Tool(name="a.b[c]:d", source="plugin", owner="x")),
        ("*", ODD),
    ],
)
def test_a_pattern_matches_what_it_means(pattern: str, tool: Tool) -> None:
    assert ToolPattern(pattern).matches(tool)


@pytest.mark.parametrize(
    "pattern",
    [
        "create",
        "issue",
        "Create_Issue",
        "create_issue?",
        "host:*:*",
        "mcp:gitlab:*",
        "mcp:github:delete_*",
        "create.issue",
        "[a-z]*",
    ],
)
def test_a_pattern_matches_nothing_else(pattern: str) -> None:
    assert not ToolPattern(pattern).matches(ISSUE)
    if ":" in pattern:
        assert not ToolPattern(pattern).matches(RENAMED)


@pytest.mark.parametrize(
    ("pattern", "words"),
    [
        ("", "is not a tool pattern; write a name such as 'delete_*' or 'mcp:github:*'"),
        (" a", "is not a tool pattern"),
        ("mcp: :x", "is not a tool pattern"),
        ("mcp::x", "is not a tool pattern"),
        ("mcp:github", "has two parts; write all three, such as 'mcp:github:*'"),
        (
            "mpc:github:*",
            "no tool has the source 'mpc'; it is one of host, mcp, plugin, client, resource, prompt, or *. Did you mean 'mcp'?",
        ),
        ("github:issues:*", "no tool has the source 'github'"),
    ],
)
def test_bad_syntax_is_refused_with_what_it_must_look_like(pattern: str, words: str) -> None:
    with pytest.raises(PatternError) as caught:
        ToolPattern(pattern)
    assert words in str(caught.value)


@pytest.mark.parametrize("value", [None, 5, ["a"], b"a"])
def test_what_is_not_text_is_refused(value: object) -> None:
    with pytest.raises(PatternError, match="is not a tool pattern"):
        ToolPattern(value)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


def test_patterns_are_equal_by_their_text_and_read_as_it() -> None:
    assert ToolPattern("a*") == ToolPattern("a*")
    assert hash(ToolPattern("a*")) == hash(ToolPattern("a*"))
    assert ToolPattern("a*") != ToolPattern("a?")
    assert str(ToolPattern("mcp:github:*")) == "mcp:github:*"


@pytest.mark.timeout(20)
@pytest.mark.parametrize("pattern", ["*" * 300 + "b", "*a" * 50 + "*b", "*?a" * 50 + "b", "mcp:" + "*a" * 50 + "b:*"])
def test_a_pattern_of_many_stars_is_answered_without_trying_every_way_to_place_them(pattern: str) -> None:
    hostile = Tool(name="a" * 200, source="mcp", owner="a" * 200)
    assert not ToolPattern(pattern).matches(hostile)


@pytest.mark.parametrize(
    ("pattern", "name", "expected"),
    [
        ("*ab*ab", "abab", True),
        ("*ab*ab", "ab", False),
        ("a*b*c", "abbc", True),
        ("a*bc*d", "abbcbd", True),
        ("*?", "", False),
        ("a?*", "a", False),
        ("*a?c", "aacabc", True),
        ("a**", "a", True),
    ],
)
def test_stars_may_stand_for_nothing_and_every_other_character_is_used_once(
    pattern: str, name: str, *, expected: bool
) -> None:
    assert ToolPattern(pattern).matches(Tool(name=name)) is expected


@pytest.mark.parametrize("text", ["delete_.*|rm", "^read", "tool$", r"\w+"])
def test_a_regular_expression_is_refused_since_it_would_match_nothing(text: str) -> None:
    with pytest.raises(PatternError, match="looks like a regular expression"):
        ToolPattern(text)


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("craete_*", " Did you mean 'create_*'?"),
        ("mcp:gitub:*", " Did you mean 'mcp:github:*'?"),
        ("hots::*", ""),
        ("delete_*", ""),
    ],
)
def test_what_may_be_meant_is_a_pattern_or_a_tool_that_there_is(text: str, hint: str) -> None:
    assert near_tools(text, [ISSUE, Tool(name="now", source="host")]) == hint
