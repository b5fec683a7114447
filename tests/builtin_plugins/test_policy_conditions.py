"""Conditions on paths, addresses and command lines: an allow fits only what is sure, a deny whatever may be meant."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from builtin_plugins.tool_policy import ToolPolicy
from hooksdk import Tool
from hooksdk.hooks import BeforeToolCall
from hooksdk.testing import attacks, event, make_workspace

TEXT = {"type": "string"}


def make(**properties: Any) -> Tool:
    """A tool of an MCP server that takes these arguments."""
    return Tool(name="act", source="mcp", owner="files", parameters={"type": "object", "properties": properties})


FILES = make(path=TEXT, content=TEXT, paths={"type": "array", "items": TEXT}, depth={"type": "integer"})
WEB = make(url=TEXT, body=TEXT, urls={"type": "array"})
SHELL = make(command=TEXT, args={"type": "array"}, note=TEXT)
SILENT = Tool(name="act", source="mcp", owner="files", parameters={"type": "object"})


def verdict(tool: Tool, arguments: dict[str, Any], workspace: str | None = None, **rule: Any) -> str:
    """What a policy with this one rule says; what the rule does not fit gets the opposite."""
    default = "allow" if rule["action"] == "deny" else "deny"
    policy = ToolPolicy(ToolPolicy.Config.model_validate({"rules": [rule], "default": default}))
    call = event(BeforeToolCall, tool=tool, arguments=arguments, workspace_dir=workspace)
    said = policy.explain(call).action
    assert (policy.judge(call) is None) == (said == "allow")
    return said


def allows(tool: Tool, arguments: dict[str, Any], workspace: str | None = None, **condition: Any) -> bool:
    return verdict(tool, arguments, workspace, action="allow", **condition) == "allow"


def denies(tool: Tool, arguments: dict[str, Any], workspace: str | None = None, **condition: Any) -> bool:
    return verdict(tool, arguments, workspace, action="deny", **condition) == "deny"


def values(kind: Any, reaches: str = "", **filling: Any) -> list[Any]:
    """The attacks of the public corpus."""
    return [attack.value for attack in attacks(kind, **filling) if reaches in {"", attack.reaches}]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A workspace with a file, a folder and links of all kinds; beside it a place that is none of the model's business."""
    inside = make_workspace(tmp_path / "workspace", "/etc/passwd")
    (tmp_path / "outside").mkdir()
    (inside / "a").write_text("")
    (inside / "out").symlink_to(tmp_path / "outside")
    (tmp_path / "workspace2").mkdir()
    return inside


# Paths


@pytest.mark.parametrize(
    "path", ["{w}", "{w}/a", "{w}/new/file", "{w}/./a", "{w}/within/x", "a", "sub/x", ".", "{w}/a b", "é"]
)
def test_a_path_inside_is_allowed(path: str, folder: Path):
    arguments = {"path": path.replace("{w}", str(folder))}
    assert allows(FILES, arguments, str(folder), path_inside=str(folder))
    assert allows(FILES, arguments, str(folder), path_inside=".")
    assert allows(FILES, arguments, str(folder), path_inside={"path": str(folder)})


ATTACKS_ON_PATHS: list[Any] = [None, *values("path", allowed="{w}", denied="/etc/passwd", links=True)]


def filled(value: Any, folder: Path) -> Any:
    """The value with the workspace's path in it."""
    if isinstance(value, str):
        return value.replace("{w}", str(folder))
    if isinstance(value, list):
        return [filled(one, folder) for one in value]  # pyright: ignore[reportUnknownVariableType]
    return value


@pytest.mark.light(every=9)
@pytest.mark.parametrize("path", ATTACKS_ON_PATHS, ids=repr)
def test_whatever_is_not_surely_a_path_inside_is_not_allowed(path: Any, folder: Path):
    for tool in (FILES, SILENT):
        for inside in (str(folder), ".", {"path": str(folder)}, [str(folder), str(folder / "sub")]):
            assert not allows(tool, {"path": filled(path, folder)}, str(folder), path_inside=inside)


@pytest.mark.parametrize(
    "more",
    [
        {"file": "/etc/passwd"}, {"paths": ["/etc/passwd"]}, {"x": "/etc/passwd"}, {"content": "/etc/passwd"},
        {"content": "../../etc/passwd"}, {"content": "file:///etc/passwd"}, {"x": 5}, {"options": {"file": "/etc/passwd"}},
    ],
)  # fmt: skip
def test_another_argument_that_may_be_a_path_must_lie_inside_too(more: dict[str, Any], folder: Path):
    assert allows(FILES, {"path": "a", "content": "hello", "depth": 3}, str(folder), path_inside=str(folder))
    assert not allows(FILES, {"path": "a", **more}, str(folder), path_inside=str(folder))


def test_a_rule_that_names_its_arguments_leaves_other_text_alone_but_no_further_paths(folder: Path):
    named: dict[str, Any] = {"path": str(folder)}
    assert allows(FILES, {"path": "a", "content": "// from /etc/passwd\n"}, str(folder), path_inside=named)
    assert not allows(FILES, {"path": "a", "paths": ["sub"]}, str(folder), path_inside=named)
    assert not allows(FILES, {"path": "a", "new": "x"}, str(folder), path_inside=named)
    assert not allows(FILES, {"content": "x"}, str(folder), path_inside=named)
    moving = make(source=TEXT, destination=TEXT)
    both = {"source": "a", "destination": "/etc/x"}
    assert not allows(moving, both, str(folder), path_inside={"source": "."})
    assert allows(moving, both, str(folder), path_inside={"source": ".", "destination": "/etc"})
    assert allows(moving, both, str(folder), path_inside={"source": ".", "*": "/etc"})


def test_an_argument_inside_another_is_named_with_a_dot(folder: Path):
    tool = make(edit={"type": "object"})
    arguments = {"edit": {"file": "a", "text": "/etc"}}
    assert allows(tool, arguments, str(folder), path_inside={"edit.file": "."})
    assert not allows(tool, {"edit": {"file": "/etc/x"}}, str(folder), path_inside={"edit.file": "."})


def test_a_list_of_paths_is_allowed_where_the_tool_takes_a_list(folder: Path):
    assert allows(FILES, {"paths": ["a", "sub/x"]}, str(folder), path_inside=".")
    assert not allows(FILES, {"paths": ["a", "/etc/passwd"]}, str(folder), path_inside=".")
    assert not allows(FILES, {"paths": []}, str(folder), path_inside=".")


def test_a_relative_path_is_not_allowed_in_a_run_without_a_workspace(folder: Path):
    assert not allows(FILES, {"path": "a"}, None, path_inside=str(folder))
    assert not allows(FILES, {"path": str(folder / "a")}, None, path_inside=".")
    assert allows(FILES, {"path": str(folder / "a")}, None, path_inside=str(folder))


def test_a_folder_that_is_itself_reached_by_a_link_counts(folder: Path):
    (folder.parent / "link").symlink_to(folder)
    assert allows(FILES, {"path": str(folder / "a")}, None, path_inside=str(folder.parent / "link"))
    assert allows(FILES, {"path": str(folder.parent / "link/a")}, None, path_inside=str(folder))


def test_a_file_whose_folder_nobody_may_look_into_is_not_allowed(folder: Path):
    closed = folder / "closed"
    (closed / "inner").mkdir(parents=True)
    closed.chmod(0)
    try:
        if os.access(closed, os.R_OK):
            pytest.skip("for root no folder is closed")
        assert not allows(FILES, {"path": "closed/inner/x"}, str(folder), path_inside=".")
    finally:
        closed.chmod(0o755)


PIECES = st.sampled_from(
    ["..", ".", "", "a", "sub", "within", "away", "out", "up", "dangling", "new", "circle", "workspace", "outside"]
)


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(pieces=st.lists(PIECES, min_size=1, max_size=6), absolute=st.booleans())
@example(pieces=["up", "workspace", "a"], absolute=True)
def test_an_allow_only_fits_what_the_system_puts_inside_and_a_deny_all_of_it(
    pieces: list[str], absolute: bool, folder: Path
):
    path = "/".join([str(folder), *pieces] if absolute else pieces)
    real = os.path.realpath(os.path.join(folder, path))
    inside = real == str(folder) or real.startswith(f"{folder}/")
    if allows(FILES, {"path": path}, str(folder), path_inside="."):
        assert inside
    if inside:
        assert denies(FILES, {"path": path}, str(folder), path_inside=".")


ETC = values("path", reaches="denied", allowed="{w}", denied="/etc/passwd", links=True)


@pytest.mark.light(every=9)
@pytest.mark.parametrize("path", ETC, ids=repr)
def test_whatever_may_be_a_path_inside_is_denied(path: Any, folder: Path):
    for tool in (FILES, SILENT):
        assert denies(tool, {"path": filled(path, folder)}, str(folder), path_inside="/etc")
        assert denies(tool, {"path": filled(path, folder)}, str(folder), path_inside={"path": "/etc"})


def test_a_link_to_a_denied_folder_is_denied(folder: Path):
    outside = str(folder.parent / "outside")
    for path in ("out/x", "up/outside", "sub/../out"):
        assert denies(FILES, {"path": path}, str(folder), path_inside=outside)


@pytest.mark.parametrize(
    "path", ["a", "/tmp/etc/x", "/etcetera", "/home/etc", "a b", "src/*.py", "sub/[a].ts", "C++/etc.txt", "100%"]
)  # fmt: skip
def test_a_path_that_surely_lies_elsewhere_is_not_denied(path: str, folder: Path):
    assert not denies(FILES, {"path": path}, str(folder), path_inside="/etc")


@pytest.mark.parametrize(
    "content", ["hello", "// a comment\ncode", "{}", "$x = 1;", "see a/b", "50 %", "`code`", "~5 items"]
)
def test_other_text_is_not_taken_for_a_denied_path(content: str, folder: Path):
    assert not denies(FILES, {"path": "a", "content": content}, str(folder), path_inside="/etc")


def test_a_denied_path_in_an_argument_of_any_name_is_denied(folder: Path):
    for arguments in ({"x": "/etc/passwd"}, {"content": "/etc/passwd"}, {"path": "a", "more": {"x": ["/etc/a"]}}):
        assert denies(FILES, arguments, str(folder), path_inside="/etc")


def test_without_a_workspace_a_relative_path_may_lie_in_a_denied_folder():
    assert denies(FILES, {"path": "passwd"}, None, path_inside="/etc")
    assert denies(FILES, {"path": "/tmp/x"}, None, path_inside=".")
    assert not denies(FILES, {"path": "/tmp/x"}, None, path_inside="/etc")


# Addresses

HOSTS = ["example.org", "*.example.org"]


@pytest.mark.parametrize(
    "url",
    [
        "https://example.org", "https://example.org/", "HTTPS://Example.ORG/a?b=c#d", "http://example.org:8080/x", "https://a.example.org/",
        "https://a.b.example.org", "wss://example.org/x", "https://example.org/@user", "https://example.org/?to=me@evil.com", "example.org",
        "example.org:443", "https://example.org/%2e%2e/x",
    ],
)  # fmt: skip
def test_an_address_of_a_listed_host_is_allowed(url: str):
    assert allows(WEB, {"url": url}, url_host=HOSTS)
    assert allows(WEB, {"url": url, "body": "hello"}, url_host={"url": HOSTS})


ATTACKS_ON_HOSTS: list[Any] = [None, *values("host", allowed="example.org", denied="evil.com")]


@pytest.mark.light(every=9)
@pytest.mark.parametrize("url", ATTACKS_ON_HOSTS, ids=repr)
def test_whatever_is_not_surely_an_address_of_a_listed_host_is_not_allowed(url: Any):
    for tool in (WEB, SILENT):
        for hosts in (HOSTS, {"url": HOSTS}):
            assert not allows(tool, {"url": url}, url_host=hosts)


@pytest.mark.parametrize(
    "more", [{"urls": ["https://evil.com"]}, {"body": "https://evil.com"}, {"proxy": "evil.com"}, {"x": 1}]
)
def test_another_argument_that_may_be_an_address_must_fit_too(more: dict[str, Any]):
    assert allows(
        WEB, {"url": "https://example.org", "urls": ["https://a.example.org"], "body": "hello"}, url_host=HOSTS
    )
    assert not allows(WEB, {"url": "https://example.org", **more}, url_host=HOSTS)


def test_a_pattern_for_hosts_below_does_not_fit_the_host_itself():
    assert not allows(WEB, {"url": "https://example.org"}, url_host="*.example.org")
    assert allows(WEB, {"url": "https://[::1]:80/x"}, url_host="[::1]")


@pytest.mark.light(every=9)
@pytest.mark.parametrize("url", values("host", reaches="denied", allowed="evil.com", denied="example.org"), ids=repr)
def test_whatever_may_lead_to_a_denied_host_is_denied(url: Any):
    for tool in (WEB, SILENT):
        assert denies(tool, {"url": url}, url_host="example.org")
        assert denies(tool, {"url": url}, url_host={"url": "example.org"})


@pytest.mark.light(every=9)
@pytest.mark.parametrize("url", values("host", reaches="denied", allowed="evil.com", denied="127.0.0.1"), ids=repr)
def test_a_denied_ip_address_is_denied_in_every_spelling(url: Any):
    assert denies(WEB, {"url": url}, url_host="127.0.0.1")


def test_punycode_and_unicode_are_one_host_for_a_deny():
    for url in ("https://b\u00fccher.example", "https://XN--BCHER-KVA.example/"):
        assert denies(WEB, {"url": url}, url_host="xn--bcher-kva.example")


@pytest.mark.parametrize(
    "url",
    ["https://evil.com", "https://example.org.evil.com", "https://anexample.org", "https://example.orgs", "10.0.0.1"],
)
def test_an_address_of_another_host_is_not_denied(url: str):
    assert not denies(WEB, {"url": url}, url_host=["example.org", "127.0.0.1"])


def test_a_deny_of_hosts_below_leaves_the_host_itself():
    assert denies(WEB, {"url": "https://a.example.org"}, url_host="*.example.org")
    assert not denies(WEB, {"url": "https://example.org"}, url_host="*.example.org")


# Command lines

PROGRAMS = ["git", "ls"]


@pytest.mark.parametrize(
    "line",
    [
        "git", "git status", "  ls -la  ", "ls *.py", "git log | git shortlog", "ls && git diff HEAD~1", "ls; git status", "git commit -m 'a; rm -rf /'",
        'git commit -m "a && b | c"', "git show HEAD^ --format=%H", "'git' status", "ls || git status", "git log --author=a@b.c", "git commit -m '$HOME `id`'",
    ],
)  # fmt: skip
def test_a_line_that_runs_only_listed_programs_is_allowed(line: str):
    assert allows(SHELL, {"command": line}, command=PROGRAMS)
    assert allows(SHELL, {"command": line, "note": "; rm"}, command={"command": PROGRAMS})


ATTACKS_ON_COMMANDS: list[Any] = [None, *values("command", allowed="git", denied="rm")]


@pytest.mark.light(every=9)
@pytest.mark.parametrize("line", ATTACKS_ON_COMMANDS, ids=repr)
def test_whatever_does_not_surely_run_a_listed_program_is_not_allowed(line: Any):
    for tool in (SHELL, SILENT):
        for programs in (PROGRAMS, {"command": PROGRAMS}):
            assert not allows(tool, {"command": line}, command=programs)


@pytest.mark.parametrize("more", [{"shell": "bash"}, {"cmd": "rm"}, {"env": {"PATH": "/tmp"}}, {"x": 1}])
def test_an_argument_that_the_tool_does_not_declare_is_not_allowed_beside_a_command(more: dict[str, Any]):
    assert not allows(SHELL, {"command": "git status", **more}, command=PROGRAMS)


@pytest.mark.light(every=9)
@pytest.mark.parametrize("line", values("command", reaches="denied", allowed="git", denied="rm"), ids=repr)
def test_whatever_may_run_a_denied_program_is_denied(line: Any):
    for tool in (SHELL, SILENT):
        assert denies(tool, {"command": line}, command="rm")
        assert denies(tool, {"command": line}, command={"command": "rm"})


@pytest.mark.parametrize(
    "line",
    [
        "git status", "git rm x", "ls > out.txt", "echo $HOME", 'echo "$HOME/x"', "make 2>&1 | tail", "git commit -m 'rm it'", "(cd x && make)", "cat <<EOF",
        "python -m pip install firm", "X=1 make", "ls a\\ b",
    ],
)  # fmt: skip
def test_a_line_that_surely_runs_other_programs_is_not_denied(line: str):
    assert not denies(SHELL, {"command": line, "note": "rm is a program"}, command="rm")


# Hostile sizes


@pytest.mark.parametrize(
    "line", ["cd /etc;%s cat passwd", "cat %s /etc/passwd", "cat passwd #%s", "curl %s https://evil.example"]
)
@pytest.mark.parametrize("condition", [{"path_inside": "/etc"}, {"url_host": "evil.example"}, {"command": "rm"}])
def test_a_command_line_that_is_too_long_to_be_read_is_denied(line: str, condition: dict[str, Any], folder: Path):
    padded = line % (" " * 40_000)
    assert denies(make(command=TEXT), {"command": padded}, str(folder), **condition)
    assert not denies(make(content=TEXT), {"content": "words of a long text\n" * 4_000}, str(folder), **condition)


@pytest.mark.heavy
@pytest.mark.parametrize(
    "text", ["a/" * 40_000, "../" * 30_000, "%2f" * 30_000, "é" + "a" * 80_000, "a." * 40_000, "$x " * 30_000, "'" * 80_000, "rm;" * 30_000]
)  # fmt: skip
def test_a_hundred_thousand_characters_are_judged_at_once(text: str, folder: Path):
    for name in ("content", "path", "url", "command"):
        arguments = {name: text}
        tool = make(**{name: TEXT})
        assert not allows(tool, arguments, str(folder), path_inside=str(folder))
        assert not allows(tool, arguments, url_host=HOSTS)
        assert not allows(tool, arguments, command=PROGRAMS)
        denies(tool, arguments, str(folder), path_inside="/etc")
        denies(tool, arguments, url_host=[*HOSTS, "127.0.0.1"])
        denies(tool, arguments, command="ls")


# What the policy says of itself


def test_an_explanation_names_the_deciding_rule_and_why(folder: Path):
    rules = [
        {"action": "allow", "tools": "act", "path_inside": "/srv"},
        {"action": "deny", "tools": "a*", "path_inside": "/etc", "reason": "not there"},
        {"action": "ask", "tools": "act", "triggers": "schedule"},
    ]
    policy = ToolPolicy(ToolPolicy.Config.model_validate({"rules": rules, "default": "ask"}))
    said = policy.explain(event(BeforeToolCall, tool=FILES, arguments={"path": "/etc/passwd"}))
    assert said.deciding is not None
    assert (said.action, said.deciding.number) == ("deny", 2)
    assert said.deciding.text == 'action = "deny", tools = "a*", path_inside = "/etc"'
    assert said.deciding.why == "the argument 'path' fits path_inside (/etc), or may fit it"
    assert said.also_fit == []
    assert [one.number for one in said.do_not_fit] == [3, 1]
    assert said.do_not_fit[1].why == "the argument 'path' does not lie inside /srv"
