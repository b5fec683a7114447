"""What a tool pattern means by its words: for whatever stops or watches a call."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hooksdk import Tool
from hooksdk.patterns import ToolPattern, near_misses
from tests.measured import RETRIEVAL

STYLES: dict[str, Callable[[list[str]], str]] = {
    "snake": "_".join,
    "kebab": "-".join,
    "dotted": ".".join,
    "slashed": "/".join,
    "spaced": " ".join,
    "double": "__".join,
    "UPPER": lambda words: "_".join(words).upper(),
    "Pascal": lambda words: "".join(word.title() for word in words),
    "camel": lambda words: words[0] + "".join(word.title() for word in words[1:]),
    "Train": lambda words: "-".join(word.title() for word in words),
    "ACRONYM": lambda words: words[0].upper() + "".join(word.title() for word in words[1:]),
    "wide": lambda words: "_".join("".join(chr(ord(char) + 0xFEE0) for char in word) for word in words),
}


def tool(name: str, source: str = "mcp", owner: str = "github") -> Tool:
    return Tool(name=name, source=source, owner=owner)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize(
    ("pattern", "name"),
    [
        ("*delete*", "bulkDelete"),
        ("delete_*", "deleteIssue"),
        ("delete_*", "Delete-Issue"),
        ("delete_*", "delete.issue"),
        ("delete_*", "DELETE/issue"),
        ("delete_*", "delete issue"),
        ("delete_*", "_delete_issue"),
        ("delete-*", "delete_issue"),
        ("Delete*", "delete_issue"),
        ("*Delete*", "bulk_delete"),
        ("deleteIssue", "delete_issue"),
        ("delete_issue", "deleteIssue"),
        ("delete_issue", "Delete-Issue"),
        ("DELETE_ISSUE", "deleteIssue"),
        ("*_delete", "HTTPDelete"),
        ("http_*", "HTTPDelete"),
        ("HTTPDelete", "http_delete"),
        ("get_url_for", "getURLFor"),
        ("*_url_*", "getURLFor"),
        ("getURLFor", "get-url-for"),
        ("*_prs", "listPRs"),
        ("delete_v2_*", "deleteV2Issue"),
        ("deleteV2Issue", "delete_v2_issue"),
        ("delete_*", "delete2Issues"),
        ("list_3d_models", "list3dModels"),
        ("*_delete", "v2delete"),
        ("s3_upload", "S3Upload"),
        ("github_*", "GitHubDelete"),
        ("*github*", "createGitHubIssue"),
        ("git_hub_*", "GitHubDelete"),
        ("delete?issue", "deleteIssue"),
        ("*?", "x"),
        ("удалить_*", "УдалитьЗадачу"),
        ("löschen_*", "LÖSCHENAlles"),
        ("straße_*", "STRASSE-sperren"),
        ("删除_*", "删除Issue"),
        ("delete_*", "delete项目"),
        ("delete_*", "del\u200bete_issue"),
        ("löschen", "lo\u0308schen"),
        ("mcp:GitHub:delete_*", "deleteIssue"),
        ("*:GITHUB:*", "deleteIssue"),
        ("mcp__github__delete_*", "deleteIssue"),
        ("mcp__GitHub__*", "delete_issue"),
        ("github__delete_issue", "deleteIssue"),
    ],
)
def test_a_pattern_may_mean_what_only_case_or_joining_tells_apart(pattern: str, name: str) -> None:
    assert ToolPattern(pattern).may_mean(tool(name))


@pytest.mark.parametrize(
    ("pattern", "name"),
    [
        ("delete_*", "deleted"),
        ("delete_*", "deletes_issue"),
        ("delete_*", "undelete_issue"),
        ("delete_*", "delete"),
        ("delete_*", "deleteissue"),
        ("delete_*", "bulkDelete"),
        ("delete_*", "remove_issue"),
        ("delete_issue", "deleteIssues"),
        ("delete_issue", "deleteIssueComment"),
        ("get_*", "getaway_search"),
        ("is_*", "issue_list"),
        ("*let*", "pull_etc"),
        ("*_ask", "createTask"),
        ("delete_[a-z]*", "delete_issue"),
        ("[a-z]*", "deleteIssue"),
        ("delete?issue", "delete_an_issue"),
        ("mcp:git:*", "deleteIssue"),
        ("mcp:git_hub:*", "deleteIssue"),
        ("host:github:*", "deleteIssue"),
        ("mcp__gitlab__*", "deleteIssue"),
        ("issue__*", "deleteIssue"),
    ],
)
def test_it_means_nothing_whose_words_are_others(pattern: str, name: str) -> None:
    assert not ToolPattern(pattern).may_mean(tool(name))


def test_the_name_that_the_model_sees_counts_beside_the_owners_own() -> None:
    renamed = tool("deleteIssue").copy(name="github__deleteIssue")
    assert all(ToolPattern(text).may_mean(renamed) for text in ("delete_issue", "*_delete_issue", "github__*"))


PAGE = Path(__file__).resolve().parents[2] / "docs" / "reference" / "patterns.md"


def test_the_page_says_what_is_meant() -> None:
    table = PAGE.read_text(encoding="utf-8").split("| pattern | means | does not mean |")[1].split("\n\n")[0]
    rows = [[re.findall(r"`([^`]+)`", cell) for cell in row.split("|")[1:4]] for row in table.splitlines()[2:]]
    assert len(rows) == 9
    for (pattern,), meant, others in rows[:7]:
        assert all(ToolPattern(pattern).may_mean(tool(name)) for name in meant), pattern
        assert not any(ToolPattern(pattern).may_mean(tool(name)) for name in others), pattern


@pytest.mark.parametrize(
    ("pattern", "meant"),
    [
        (
            "*delete*",
            {"API-delete-a-block", "delete-many", "d1_database_delete", "deleteJiraIssue", "linear_deleteIssue",
             "n8n_delete_workflow", "pods_delete", "kubectl_delete", "bulkDelete"},
        ),
        ("delete_*", {"delete-many", "deleteJiraIssue"}),
        ("*_delete", {"d1_database_delete", "pods_delete", "kubectl_delete", "bulkDelete"}),
        ("drop_*", {"drop-collection", "drop-database"}),
        ("*_jira_*", {"deleteJiraIssue", "editJiraIssue", "getJiraIssue"}),
        ("api_*", {"API-delete-a-block", "API-patch-page"}),
        ("edit_jira_issue", {"editJiraIssue"}),
        ("*_url_*", {"getURLContent"}),
        ("write_file", {"write_file", "WriteFile"}),
    ],
)  # fmt: skip
def test_a_pattern_means_the_tools_of_real_servers_that_people_mean_by_it(pattern: str, meant: set[str]) -> None:
    """Names as the servers of Notion, MongoDB, Cloudflare, Atlassian, Linear, n8n, Kubernetes and files have them."""
    names = [
        "API-delete-a-block", "API-patch-page", "delete-many", "update-many", "drop-collection", "drop-database",
        "d1_database_delete", "d1_database_query", "deleteJiraIssue", "editJiraIssue", "getJiraIssue", "linear_deleteIssue",
        "linear_createIssue", "n8n_delete_workflow", "n8n_get_workflow", "pods_delete", "pods_list", "kubectl_delete",
        "kubectl_get", "bulkDelete", "getURLContent", "write_file", "WriteFile", "read_text_file", "list_allowed_directories",
    ]  # fmt: skip
    assert {name for name in names if ToolPattern(pattern).may_mean(tool(name))} == meant


# Whatever the words

words = st.lists(st.text("abcdefghijklmnopqrstuvwxyz", min_size=2, max_size=6), min_size=2, max_size=4)
styles = st.sampled_from(sorted(STYLES))


@given(words, styles, styles)
def test_a_name_means_itself_in_every_style(own: list[str], written: str, named: str) -> None:
    assert ToolPattern(STYLES[written](own)).may_mean(tool(STYLES[named](own)))


@given(words, styles, styles)
def test_the_first_and_the_last_word_with_a_star_mean_the_name_in_every_style(
    own: list[str], written: str, named: str
) -> None:
    joint = STYLES[written](["aa", "bb"])[2:-2]
    for pattern in (f"{own[0]}{joint}*", f"*{joint}{own[-1]}", f"*{own[-1].upper()}*", f"{own[0].title()}*"):
        assert ToolPattern(pattern).may_mean(tool(STYLES[named](own)))


signs = st.text("aBc2_-. éßǅ除\u0301\u200b", min_size=1, max_size=12)


@settings(max_examples=300)
@given(st.text("aBc2_-.*?éß除\u0301", min_size=1, max_size=10), signs)
def test_what_is_meant_as_it_is_written_is_meant_by_its_words(pattern: str, name: str) -> None:
    if ToolPattern(pattern).matches(tool(name)):
        assert ToolPattern(pattern).may_mean(tool(name))


@settings(max_examples=300)
@given(st.data(), st.text("aBc2_-.", min_size=1, max_size=10))
def test_a_pattern_means_all_that_a_narrower_one_means(data: st.DataObject, narrow: str) -> None:
    """Rules that never decide are found by it."""
    start = data.draw(st.integers(0, len(narrow)))
    end = data.draw(st.integers(start, len(narrow)))
    wide, name = narrow[:start] + "*" + narrow[end:], data.draw(st.text("aAbBcC2_-.", min_size=1, max_size=12))
    if not re.search(r"[_.-]{2}", narrow) and ToolPattern(narrow).may_mean(tool(name)):
        assert ToolPattern(wide).may_mean(tool(name))


@pytest.mark.timeout(20)
@pytest.mark.parametrize("pattern", ["*" * 300 + "b", "*a" * 50 + "*b", "*?a" * 50 + "b", "?" * 200, "*_A2" * 60 + "_"])
@pytest.mark.parametrize("name", ["a" * 200, "aA" * 100, "a_2A" * 50])
def test_a_hostile_pattern_is_answered_without_trying_every_way_to_place_it(pattern: str, name: str) -> None:
    hostile = tool(name)
    assert ToolPattern(pattern).may_mean(hostile) == (pattern == "?" * 200)
    assert ToolPattern(pattern).nearly_means(hostile) == (pattern == "*_A2" * 60 + "_" and "2" in name)


@pytest.mark.heavy
def test_of_seventy_real_servers_every_tool_is_meant_by_its_first_word_in_any_style() -> None:
    lines = (RETRIEVAL / "livemcp" / "catalog.jsonl").read_text(encoding="utf-8").splitlines()
    names = {json.loads(line)["name"] for line in lines}
    snake = [name for name in names if name.islower() and name.count("_") >= 1 and name.replace("_", "").isalpha()]
    assert len(snake) > 250
    for name in snake:
        own = name.split("_")
        for style in STYLES.values():
            assert ToolPattern(f"{own[0]}_*").may_mean(tool(style(own))), (name, style(own))
            assert ToolPattern(name).may_mean(tool(style(own))), (name, style(own))


# What is near


@pytest.mark.parametrize(
    ("pattern", "name"),
    [
        ("delete_*", "issue_delete"),
        ("delete_*", "bulkDelete"),
        ("delete_*", "delete"),
        ("delete*", "bulkDelete"),
        ("*_delete", "deleteIssue"),
        ("list_*_issues", "list_issues"),
        ("delete_issue", "issueDelete"),
        ("delete_issue", "delete_issues"),
        ("delete_issue", "deleteissue"),
        ("mcp:GitHub:delete_*", "issue_delete"),
    ],
)
def test_the_same_words_elsewhere_are_near(pattern: str, name: str) -> None:
    assert ToolPattern(pattern).nearly_means(tool(name))


@pytest.mark.parametrize(
    ("pattern", "name"),
    [
        ("delete_*", "remove_issue"),
        ("delete_*", "delete_issue"),
        ("delete_*", "deleteIssue"),
        ("delete_*", "deleted"),
        ("delete_issue", "delete_issue_comment"),
        ("move_*", "get_valid_moves"),
        ("*", "anything"),
        ("?_*", "anything"),
        ("mcp:gitlab:delete_*", "issue_delete"),
        ("*delete*", "remove_all"),
    ],
)
def test_other_words_and_what_is_meant_are_not_near(pattern: str, name: str) -> None:
    assert not ToolPattern(pattern).nearly_means(tool(name))


def test_a_line_names_three_tools_that_none_of_the_patterns_means() -> None:
    tools = [tool(f"{word}Delete") for word in ("bulk", "soft", "hard", "mass", "late")]
    patterns = [ToolPattern("delete_*"), ToolPattern("late_*")]
    (line,) = near_misses(patterns, tools)
    assert line == (
        "'delete_*' has the same words as 'mcp:github:bulkDelete', 'mcp:github:softDelete', 'mcp:github:hardDelete' and 1 more, "
        "and does not mean them"
    )


def test_where_patterns_count_as_written_what_only_case_tells_apart_is_near() -> None:
    tools = [tool("getIssue"), tool("get_issue"), tool("issue_get")]
    (line,) = near_misses([ToolPattern("get_*")], tools, exact=True)
    assert line == "'get_*' counts as it is written here, and does not mean 'mcp:github:getIssue'"
