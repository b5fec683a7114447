"""The files in which MCP clients keep their servers: their shapes, their variables, and where they are."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from hooksdk.cli._gateway.places import client_files
from hooksdk.errors import ConfigError
from hooksdk.mcp import McpServers, ServerInput
from hooksdk.mcp._config import Reading, ServerSpec, read_file
from hooksdk.mcp.settings import load_file

pytestmark = pytest.mark.heavy


@pytest.fixture
def write(tmp_path: Path) -> Any:
    def write(text: str | dict[str, Any], name: str = "mcp.json") -> Path:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text if isinstance(text, str) else json.dumps(text), encoding="utf-8")
        return path

    return write


def specs(reading: Reading) -> dict[str, ServerSpec]:
    assert reading.problems == {}
    return {spec.name: spec for spec in reading.specs}


@pytest.mark.parametrize(
    "text",
    [
        '{// mine\n"mcpServers": {"git": {"command": "x"}}}',
        '{"mcpServers": {"git": {"command": "x",},},}',
        '{"mcpServers": {"git": {"command": "x" /* was: "y", */, /* */}}}',
        '{"mcpServers": {"git": {"command": "x"}} // the end\n,}',
    ],
)
def test_comments_and_trailing_commas_are_passed_over(write: Any, text: str) -> None:
    assert specs(read_file(write(text)))["git"].command == "x"


@pytest.mark.parametrize("text", ["http://h/a//b", "a, ]", "/* x */", 'say \\"//\\" ,}', "\\\\"])
def test_what_looks_like_a_comment_inside_text_stays(write: Any, text: str) -> None:
    path = write(f'{{"mcpServers": {{"git": {{"command": "x", "args": ["{text}",]}}}}}}')
    assert load_file(path)["mcpServers"]["git"]["args"] == [json.loads(f'"{text}"')]


@pytest.mark.parametrize("text", ['{"a": 1,, }', '{"a" /* : */ 1}', '{"a": "x}'])
def test_what_no_client_takes_is_still_refused(write: Any, text: str) -> None:
    with pytest.raises(ConfigError, match=r"mcp\.json:1:\d+: is not JSON"):
        load_file(write(text))


ENTRY = {"command": "mcp-server-git"}


@pytest.mark.parametrize(
    "document",
    [
        {"mcpServers": {"git": ENTRY}},
        {"servers": {"git": ENTRY}, "inputs": []},
        {"editor.fontSize": 12, "mcp": {"servers": {"git": ENTRY}, "inputs": []}},
        {"editor.fontSize": 12, "mcp.servers": {"git": ENTRY}},
        {"theme": "One", "context_servers": {"git": {"source": "custom", **ENTRY}}},
        {"context_servers": {"git": {"command": {"path": "mcp-server-git", "args": [], "env": None}, "settings": {}}}},
        {"git": ENTRY},
    ],
)
def test_every_clients_place_for_servers_is_read(write: Any, document: dict[str, Any]) -> None:
    assert specs(read_file(write(document)))["git"].command == "mcp-server-git"


def test_codex_settings_are_read_from_toml(write: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCS_TOKEN_X", "t0ken")
    monkeypatch.setenv("TEAM_X", "blue")
    text = """
        model = "some"
        [mcp_servers.git]
        command = "mcp-server-git"
        enabled = false
        [mcp_servers.docs]
        url = "https://h/mcp"
        bearer_token_env_var = "DOCS_TOKEN_X"
        http_headers = { A = "1" }
        env_http_headers = { Team = "TEAM_X" }
        tool_timeout_sec = 30
    """
    servers = specs(read_file(write(text, "config.toml")))
    assert servers["git"].disabled
    assert servers["docs"].headers == {"A": "1", "Authorization": "Bearer t0ken", "Team": "blue"}
    assert servers["docs"].timeout == 30


def test_the_names_of_one_address_are_understood(write: Any) -> None:
    servers = specs(
        read_file(write({"mcpServers": {"a": {"httpUrl": "http://h/a"}, "b": {"serverUrl": "http://h/b"}}}))
    )
    assert (servers["a"].url, servers["b"].url) == ("http://h/a", "http://h/b")


def test_of_claude_codes_projects_the_one_of_the_folder_counts_and_wins(write: Any, tmp_path: Path) -> None:
    here = tmp_path / "here"
    document: dict[str, Any] = {
        "numStartups": 7,
        "mcpServers": {"git": {"command": "everywhere"}, "time": {"command": "time"}},
        "projects": {
            str(here): {"mcpServers": {"git": {"command": "mine"}}},
            "/elsewhere": {"mcpServers": {"x": {"command": "x"}}},
            "/none": {"history": [], "mcpServers": {}},
        },
    }
    reading = read_file(write(document), folder=here / "inner")
    assert {name: spec.command for name, spec in specs(reading).items()} == {"git": "mine", "time": "time"}
    assert reading.notices == [f"{tmp_path / 'mcp.json'}: the servers of other projects are left out: /elsewhere"]


def test_claude_codes_file_with_servers_of_other_projects_alone_is_no_error(write: Any, tmp_path: Path) -> None:
    document = {"mcpServers": {}, "projects": {"/a": {"mcpServers": {"x": {"command": "x"}}}}}
    reading = read_file(write(document), folder=tmp_path)
    assert (reading.specs, len(reading.notices)) == ([], 1)


@pytest.mark.parametrize(
    ("document", "problem"),
    [
        ({"mcpServer": {"git": ENTRY}}, "'mcpServer' is no key for MCP servers. Did you mean 'mcpServers'?"),
        ({"mcp_server": {"git": ENTRY}}, "Did you mean 'mcpServers'"),
        ({"context_server": {"git": ENTRY}}, "Did you mean 'context_servers'"),
        ({"theme": "dark"}, "holds no MCP servers: expected an object such as"),
    ],
)
def test_a_file_without_a_place_for_servers_is_refused(write: Any, document: dict[str, Any], problem: str) -> None:
    with pytest.raises(ConfigError) as caught:
        read_file(write(document))
    assert problem in str(caught.value)


def test_variables_of_other_clients_are_filled(write: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("TOKEN_X", "t0ken")
    monkeypatch.setenv("HOME", "/home/me")
    args = ["${env:TOKEN_X}", "${env:NO_SUCH_X:-some}", "${NO_SUCH_X:-}", "${workspaceFolder}${/}a", "${userHome}"]
    server = specs(read_file(write({"mcpServers": {"a": {"command": "x", "args": args}}}), folder=tmp_path))["a"]
    assert server.args == ("t0ken", "some", "", f"{tmp_path}/a", "/home/me")
    assert "t0ken" not in server.redact("it said t0ken")


def test_a_variable_that_only_its_client_knows_is_refused(write: Any) -> None:
    reading = read_file(write({"mcpServers": {"a": {"command": "x", "args": ["${command:pick}"]}}}))
    assert "${command:pick} means something to another client alone" in reading.problems["a"][0]


def test_in_geminis_settings_a_bare_name_is_a_variable(write: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOKEN_X", "t0ken")
    document = {"mcpServers": {"a": {"httpUrl": "http://h", "headers": {"A": "Bearer $TOKEN_X"}}}}
    assert specs(read_file(write(document, ".gemini/settings.json")))["a"].headers["A"] == "Bearer t0ken"
    assert specs(read_file(write(document)))["a"].headers["A"] == "Bearer $TOKEN_X"


INPUTS = {
    "inputs": [
        {"id": "gh", "type": "promptString", "description": "GitHub token", "password": True},
        {"id": "size", "type": "pickString", "options": ["s", "l"], "default": "s"},
    ],
    "servers": {
        "github": {"url": "http://h", "headers": {"Authorization": "Bearer ${input:gh}", "Again": "${input:gh}"}},
        "sized": {"command": "x", "args": ["${input:size}"]},
        "other": {"command": "x", "args": ["${input:unknown}"]},
        "off": {"command": "x", "args": ["${input:never}"], "disabled": True},
    },
}


def test_an_input_is_asked_for_once_and_counts_as_secret(write: Any) -> None:
    questions: list[ServerInput] = []

    def ask(question: ServerInput) -> str:
        questions.append(question)
        return {"gh": "ghp_1234", "size": "", "unknown": "some"}[question.id]

    servers = specs(read_file(write(INPUTS), ask=ask))
    assert [question.id for question in questions] == ["gh", "size", "unknown"]
    assert (questions[0].description, questions[0].secret) == ("GitHub token", True)
    assert (questions[1].options, questions[1].default) == (("s", "l"), "s")
    assert servers["github"].headers == {"Authorization": "Bearer ghp_1234", "Again": "ghp_1234"}
    assert servers["sized"].args == ("s",)
    assert "ghp" not in servers["github"].redact("401 for ghp_1234") + repr(servers["github"])


def test_an_input_with_nobody_to_ask_leaves_its_server_out_and_the_rest_in(write: Any) -> None:
    servers = McpServers.from_file(write(INPUTS))
    states = {name: status.state for name, status in servers.status.items()}
    assert states == {"sized": "starting", "off": "disabled", "github": "failed", "other": "failed"}
    problem = servers.status["github"].problem
    assert "${input:gh} (GitHub token) is asked for on a terminal, and nobody is there to be asked" in problem


def test_no_wrong_server_keeps_the_others_out(write: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_SUCH_X", raising=False)
    document = {
        "mcpServers": {
            "sse": {"url": "http://h", "type": "sse"},
            "variable": {"command": "x", "env": {"A": "${NO_SUCH_X}"}},
            "text": "mcp-server-git",
            "empty": {},
            "good": ENTRY,
        }
    }
    servers = McpServers.from_file(write(document))
    failed = {name: status.problem for name, status in servers.status.items() if status.state == "failed"}
    assert failed.keys() == {"sse", "variable", "text", "empty"}
    assert "the old SSE transport is not supported" in failed["sse"]
    assert "the environment variable NO_SUCH_X is not set" in failed["variable"]
    assert servers.status["good"].state == "starting"


def test_of_two_files_servers_of_one_name_the_first_counts_and_the_second_is_told(write: Any) -> None:
    first, second = write({"git": {"command": "a"}}), write({"git": {"command": "b"}}, "other.json")
    servers = McpServers.from_file(first, second)
    assert servers.status["git"].state == "starting"
    assert servers.status[f"git of {second}"].problem.endswith(
        "another file has a server of this name; rename one of them"
    )


@pytest.mark.parametrize(
    ("client", "path"),
    [
        ("claude-code", "project/.mcp.json"),
        ("vscode", "project/.vscode/mcp.json"),
        ("claude-desktop", "home/.config/Claude/claude_desktop_config.json"),
        ("claude-code", "home/.claude.json"),
        ("cursor", "home/.cursor/mcp.json"),
        ("vscode", "home/.config/Code/User/settings.json"),
        ("windsurf", "home/.codeium/windsurf/mcp_config.json"),
        ("zed", "home/.config/zed/settings.json"),
        ("gemini", "home/.gemini/settings.json"),
        ("codex", "home/.codex/config.toml"),
        ("codex", "project/.codex/config.toml"),
        ("qwen", "home/.qwen/settings.json"),
    ],
)
def test_the_clients_files_are_where_their_documentation_says(
    client: str, path: str, write: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.platform", "linux")
    write("{}", path)
    (one,) = client_files(tmp_path / "project", home=tmp_path / "home", env={})
    assert (one.client, one.path) == (client, tmp_path / path)


def test_on_macos_settings_are_under_application_support(
    tmp_path: Path, write: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.platform", "darwin")
    path = write("{}", "Library/Application Support/Claude/claude_desktop_config.json")
    assert [one.path for one in client_files(tmp_path / "project", home=tmp_path, env={})] == [path]
