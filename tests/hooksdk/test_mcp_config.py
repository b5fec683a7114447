"""The `mcpServers` mapping: what is taken, what is refused, and what the refusal says."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from hooksdk.errors import ConfigError
from hooksdk.mcp import McpServers
from hooksdk.mcp._config import read_servers

pytestmark = pytest.mark.heavy


def problems(servers: dict[str, Any]) -> tuple[str, ...]:
    with pytest.raises(ConfigError) as caught:
        McpServers(servers)
    return caught.value.problems


def test_the_usual_file_shape_is_taken_too() -> None:
    assert list(McpServers({"mcpServers": {"git": {"command": "mcp-server-git"}}}).status) == ["git"]


def test_a_server_may_be_called_mcp_servers() -> None:
    assert list(McpServers({"mcpServers": {"command": "x"}}).status) == ["mcpServers"]


def test_the_mapping_may_stand_under_servers_as_vs_code_has_it() -> None:
    found = McpServers({"inputs": [], "servers": {"git": {"type": "stdio", "command": "mcp-server-git"}}})
    assert list(found.status) == ["git"]
    assert list(McpServers({"servers": {"command": "x"}}).status) == ["servers"]


@pytest.mark.parametrize("kind", ["http", "streamable-http", "streamableHttp"])
def test_the_names_of_streamable_http_are_understood(kind: str) -> None:
    assert McpServers({"web": {"type": kind, "url": "http://127.0.0.1/mcp"}}).notices == ()


def test_a_disabled_server_is_listed_as_such() -> None:
    servers = McpServers({"git": {"command": "x", "env": {"T": "${SURELY_NOT_SET_ANYWHERE}"}, "disabled": True}})
    assert servers.status["git"].state == "disabled"


@pytest.mark.parametrize(
    ("entry", "problem"),
    [
        ({"cmd": "x"}, "server 's': needs a 'command' or a 'url', such as {\"command\": \"mcp-server-git\"}"),
        ({"commandd": "x"}, "Did you mean 'command'?"),
        ("mcp-server-git", "server 's': expected an object such as"),
        ({"command": ["x", "-y"]}, "server 's', 'command': expected text, its arguments in 'args', got a list"),
        ({"command": " "}, "server 's', 'command': expected text, its arguments in 'args', got empty text"),
        (
            {"command": "x", "args": "-y"},
            "server 's', 'args': expected a list of texts such as [\"--verbose\"], got text",
        ),
        ({"command": "x", "args": ["-n", 3]}, "server 's', 'args.1': expected text, got a number. Write it in quotes"),
        (
            {"command": "x", "env": {"PORT": 80}},
            "server 's', 'env.PORT': expected text, got a number. Write it in quotes",
        ),
        ({"command": "x", "env": []}, "server 's', 'env': expected an object"),
        ({"command": "x", "cwd": 5}, "server 's', 'cwd': expected text, got a number"),
        ({"command": "x", "timeout": "60"}, "server 's', 'timeout': expected a number of seconds above 0"),
        ({"command": "x", "disabled": "yes"}, "server 's', 'disabled': expected true or false, got text"),
        ({"command": "x", "timeout": 0}, "server 's', 'timeout': expected a number of seconds above 0"),
        ({"command": "x", "timeout": True}, "expected a number of seconds above 0"),
        ({"command": "x", "url": "http://h"}, "server 's', 'url': has a command too"),
        ({"url": "h:80"}, "server 's', 'url': expected a URL that begins with http:// or https://"),
        ({"url": "http://h", "type": "sse"}, "server 's', 'type': the old SSE transport is not supported"),
        ({"url": "http://h", "type": "htp"}, "expected 'stdio', 'http' or 'streamable-http'. Did you mean 'http'"),
        ({"command": "x", "type": "http"}, "server 's': 'url' is missing"),
        ({"url": "http://h", "type": "stdio"}, "server 's': 'command' is missing"),
    ],
)
def test_a_wrong_entry_is_refused_with_its_place_and_what_to_write(entry: object, problem: str) -> None:
    assert problem in " / ".join(problems({"s": entry}))


def test_null_counts_as_left_out() -> None:
    assert McpServers({"s": {"command": "x", "url": None, "env": None, "timeout": None}}).notices == ()


def test_a_server_needs_a_name() -> None:
    assert problems({" ": {"command": "x"}}) == ("server ' ', 'name': expected a name, got empty text",)


def test_all_wrong_entries_are_named_at_once() -> None:
    assert len(problems({"a": {}, "b": {"command": "x", "args": 1, "cwd": 2}, "c": {"command": "fine"}})) == 3


def test_a_missing_variable_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GITHUB_TOKEN_X", raising=False)
    (problem,) = problems({"gh": {"command": "x", "env": {"TOKEN": "${GITHUB_TOKEN_X}"}}})
    assert problem.startswith("server 'gh', 'env.TOKEN': the environment variable GITHUB_TOKEN_X is not set.")
    assert "${GITHUB_TOKEN_X:-value}" in problem


def test_variables_are_filled_in_every_text(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KEY_X", "k3y-value")
    specs = read_servers({
        "a": {"command": "${NO_SUCH_X:-run}", "args": ["--key=${KEY_X}", "$HOME ${not-a-name}"], "cwd": "/${KEY_X}"},
        "b": {"url": "https://h/${KEY_X}", "headers": {"Authorization": "Bearer ${KEY_X}"}},
    }).specs  # fmt: skip
    assert (specs[0].command, specs[0].args) == ("run", ("--key=k3y-value", "$HOME ${not-a-name}"))
    assert specs[0].cwd == "/k3y-value"
    assert (specs[1].url, specs[1].headers["Authorization"]) == ("https://h/k3y-value", "Bearer k3y-value")
    assert "k3y" not in repr(specs[1])
    assert "k3y" not in specs[0].redact("failed: --key=k3y-value")


def test_no_value_of_env_or_headers_is_quoted_in_a_refusal() -> None:
    entry = {"command": "x", "env": {"A": "s3cret-1", "B": 1}, "headers": {"C": "s3cret-2"}, "args": "s3cret-3"}
    assert "s3cret" not in " ".join(problems({"s": entry}))


def test_an_unknown_key_is_ignored_with_a_notice(caplog: pytest.LogCaptureFixture) -> None:
    servers = McpServers({"s": {"command": "x", "arg": ["y"]}})
    assert servers.notices == ("mcpServers: server 's': the key 'arg' is unknown and ignored. Did you mean 'args'?",)
    assert servers.notices[0] in caplog.text


def test_a_timeout_that_looks_like_milliseconds_counts_as_such_and_is_told() -> None:
    reading = read_servers({"s": {"command": "x", "timeout": 60000}})
    assert reading.specs[0].timeout == 60
    assert "'timeout' is taken for milliseconds" in reading.notices[0]


def test_a_time_limit_must_be_above_zero() -> None:
    with pytest.raises(ConfigError, match="start_timeout: expected seconds above 0"):
        McpServers({}, start_timeout=0)


def test_a_file_is_read_whatever_else_it_holds(tmp_path: Path) -> None:
    path = tmp_path / "mcp.json"
    path.write_text('\ufeff{"theme": "dark", "mcpServers": {"git": {"command": "x"}}}', encoding="utf-8")
    assert list(McpServers.from_file(path).status) == ["git"]


def test_a_file_that_is_no_json_is_refused_with_line_and_column(tmp_path: Path) -> None:
    path = tmp_path / "mcp.json"
    path.write_text('{\n  // mine\n    "git": {"command" "x",}\n}')
    with pytest.raises(ConfigError, match=r"mcp\.json:3:\d+: is not JSON"):
        McpServers.from_file(path)


def test_a_file_that_is_nested_too_deeply_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "mcp.json"
    path.write_text('{"mcpServers": ' + "[" * 100_000)
    with pytest.raises(ConfigError, match=r"mcp\.json: is nested too deeply"):
        McpServers.from_file(path)


def test_a_server_with_a_wrong_entry_in_a_file_has_failed_and_the_file_and_the_key_are_told(tmp_path: Path) -> None:
    path = tmp_path / "mcp.json"
    path.write_text('{"mcpServers": {\n  "git": {\n    "command": "x",\n    "args": "-y"\n  }\n}}')
    status = McpServers.from_file(path).status["git"]
    assert status.state == "failed"
    assert status.problem.startswith(f"{path}: 'args': expected a list of texts")


def test_a_server_that_stands_twice_in_a_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "mcp.json"
    path.write_text('{"git": {"command": "x"}, "git": {"command": "y"}}')
    with pytest.raises(ConfigError, match="'git' stands twice"):
        McpServers.from_file(path)


def test_a_file_that_is_missing_or_no_object_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be read: No such file"):
        McpServers.from_file(tmp_path / "none.json")
    (tmp_path / "list.json").write_text("[]")
    with pytest.raises(ConfigError, match="expected an object such as"):
        McpServers.from_file(tmp_path / "list.json")


@pytest.mark.parametrize(
    "entry",
    [
        '{"command": "x", "timeout": 1' + "0" * 400 + "}",
        '{"command": "x", "timeout": 1e999}',
        '{"command": "x", "timeout": NaN}',
        '{"url": "http://h", "headers": "x", "bearer_token_env_var": "KEY"}',
        '{"url": "http://h", "headers": [1], "env_http_headers": {"A": "KEY"}}',
    ],
)
def test_a_hostile_entry_is_left_out_and_the_others_count(tmp_path: Path, entry: str) -> None:
    path = tmp_path / "mcp.json"
    path.write_text(f'{{"mcpServers": {{"bad": {entry}, "good": {{"command": "x"}}}}}}')
    states = {name: status.state for name, status in McpServers.from_file(path).status.items()}
    assert states == {"bad": "failed", "good": "starting"}


@pytest.mark.parametrize(
    ("name", "text", "problem"),
    [
        ("mcp.json", '{"a": {"command": ' + '{"command":' * 300 + '"x"' + "}" * 302, "is nested too deeply"),
        ("mcp.toml", "a = " + "[" * 5000 + "]" * 5000, "is nested too deeply"),
        ("mcp.json", '{"a": ' + "9" * 5000 + "}", "Exceeds the limit"),
        ("mcp.json", '{"a": "' + '\\"' * 1_000_000, "is not JSON: Unterminated string"),
    ],
    ids=["deep", "deep-toml", "digits", "no-end"],
)
def test_a_hostile_file_is_one_error_at_once(tmp_path: Path, name: str, text: str, problem: str) -> None:
    path = tmp_path / name
    path.write_text(text)
    with pytest.raises(ConfigError, match=problem):
        McpServers.from_file(path)
