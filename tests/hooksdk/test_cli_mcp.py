"""The files with MCP servers that the commands find by themselves, and `hooksdk mcp import`."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("mcp", reason="needs the extra `mcp`")

from commands import environment, write_servers
from warm import Done, run

from hooksdk._config.trust import look_up_file
from hooksdk.errors import ConfigError
from hooksdk.mcp import McpServers

pytestmark = pytest.mark.heavy


class Desk:
    """A project and a user's home, in folders of their own."""

    def __init__(self, folder: Path) -> None:
        self.project = folder / "project"
        self.home = folder / "home"
        self.project.mkdir()
        self.home.mkdir()

    def type(self, *arguments: str | Path, stdin: str | None = None) -> Done:
        variables = {"HOME": str(self.home), "XDG_CONFIG_HOME": str(self.home / ".config")}
        own = environment(self.home, variables=variables)
        return run([str(one) for one in arguments], folder=self.project, environment=own, stdin=stdin or "")

    def write(self, path: str, document: dict[str, Any]) -> Path:
        place = self.home.parent / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(json.dumps(document))
        return place

    def servers(self) -> dict[str, Any]:
        return json.loads((self.project / "mcp.json").read_text())["mcpServers"]


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


def names(done: Done) -> list[str]:
    return [server["name"] for server in json.loads(done.out)["servers"]]


@pytest.mark.parametrize("name", ["mcp.json", ".mcp.json"])
def test_a_projects_file_is_found_by_itself_once_it_is_trusted(desk: Desk, name: str) -> None:
    path = Path(write_servers(desk.project / name))
    before = desk.type("tools", "list", "--json")
    assert names(before) == []
    assert (
        f"{path} is not trusted yet, so its servers are not started. Look at it and type: hooksdk trust" in before.err
    )
    trusted = desk.type("trust", "--yes")
    assert 'mcp.json[/] = {"plain": ' in trusted.out or '.json = {"plain": ' in trusted.out
    assert names(desk.type("tools", "list", "--json")) == ["plain"]


def test_a_file_that_has_changed_needs_trust_again_and_its_folder_does_not(desk: Desk) -> None:
    (desk.project / "hooksdk.toml").write_text('store = "jsonl:sessions"\n')
    path = Path(write_servers(desk.project / "mcp.json"))
    desk.type("trust", "--yes")
    path.write_text(path.read_text() + "\n")
    assert "mcp.json has changed since you trusted it" in (desk.type("tools", "list", "--json")).err
    states = {
        entry["folder"]: entry["state"] for entry in json.loads((desk.type("trust", "--list", "--json")).out)["folders"]
    }
    assert states == {str(desk.project): "trusted", str(path): "changed"}


def test_trust_that_is_taken_back_is_taken_from_the_files_too(desk: Desk) -> None:
    write_servers(desk.project / "mcp.json")
    desk.type("trust", "--yes")
    assert (desk.type("trust", "--remove")).code == 0
    assert names(desk.type("tools", "list", "--json")) == []


def test_trust_that_is_taken_back_is_taken_from_files_in_folders_below_too(desk: Desk) -> None:
    (desk.project / "sub").mkdir()
    write_servers(desk.project / "sub" / "tools.json")
    (desk.project / "hooksdk.toml").write_text('mcp = "sub/tools.json"\n')
    desk.type("trust", "--yes")
    desk.type("trust", "--remove")
    assert json.loads(desk.type("trust", "--list", "--json").out)["folders"] == []


def test_a_file_that_is_given_needs_no_trust_and_is_the_only_one(desk: Desk) -> None:
    write_servers(desk.project / "mcp.json")
    other = write_servers(desk.home / "other.json", other={"command": "no-such-command"})
    done = desk.type("tools", "list", "--json", "--mcp", other)
    assert "is not trusted" not in done.err
    assert "mcp.json" not in done.err.replace("other.json", "")


def test_a_link_that_leads_out_of_the_project_needs_trust(desk: Desk) -> None:
    elsewhere = write_servers(desk.home / "mine.json")
    (desk.project / "mcp.json").symlink_to(elsewhere)
    assert names(desk.type("tools", "list", "--json")) == []
    desk.type("trust", "--yes")
    assert names(desk.type("tools", "list", "--json")) == ["plain"]


def test_a_link_that_a_trusted_configuration_names_needs_trust_at_what_it_leads_to(desk: Desk) -> None:
    first = write_servers(desk.home / "first.json")
    (desk.project / "tools.json").symlink_to(first)
    (desk.project / "hooksdk.toml").write_text('mcp = "tools.json"\n')
    desk.type("trust", "--yes")
    (desk.project / "tools.json").unlink()
    (desk.project / "tools.json").symlink_to(write_servers(desk.home / "second.json"))
    assert names(desk.type("tools", "list", "--json")) == []


def test_trust_shows_what_a_server_is_started_with(desk: Desk) -> None:
    entry = {"command": "git", "args": ["log"], "env": {"LD_PRELOAD": "./x.so"}, "cwd": "sub"}
    desk.write("project/mcp.json", {"mcpServers": {"plain": entry}})
    assert "git log cwd=sub env={'LD_PRELOAD': './x.so'}" in desk.type("trust", "--yes").out


def test_the_content_that_is_started_is_the_one_whose_trust_was_looked_up(tmp_path: Path) -> None:
    path = Path(write_servers(tmp_path / "mcp.json"))
    digest = look_up_file(path, {}).digest
    assert list(McpServers.from_file(path, digests={path: digest}).status) == ["plain"]
    write_servers(path, other={"command": "another"})
    with pytest.raises(ConfigError, match="has changed since its trust was looked up"):
        McpServers.from_file(path, digests={path: digest})


def test_the_configuration_may_name_other_files(desk: Desk) -> None:
    write_servers(desk.project / "tools.json")
    write_servers(desk.project / "mcp.json", unused={"command": "no-such-command"})
    (desk.project / "hooksdk.toml").write_text('mcp = "tools.json"\n')
    desk.type("trust", "--yes")
    assert names(desk.type("tools", "list", "--json")) == ["plain"]


def test_a_users_own_file_outside_of_the_project_needs_no_trust(desk: Desk) -> None:
    path = Path(write_servers(desk.home / "mine.json"))
    (desk.home / ".config" / "hooksdk").mkdir(parents=True)
    (desk.home / ".config" / "hooksdk" / "config.toml").write_text(f"mcp = ['{path}']\n")
    assert names(desk.type("tools", "list", "--json")) == ["plain"]


def test_a_projects_configuration_names_no_file_until_it_is_trusted(desk: Desk) -> None:
    path = Path(write_servers(desk.home / "mine.json"))
    (desk.project / "hooksdk.toml").write_text(f"mcp = '{path}'\n")
    done = desk.type("tools", "list", "--json")
    assert names(done) == []
    assert "hooksdk trust" in done.err


def test_a_file_that_the_configuration_names_and_that_is_not_there_is_told(desk: Desk) -> None:
    (desk.project / "hooksdk.toml").write_text('mcp = ["gone.json"]\n')
    desk.type("trust", "--yes")
    done = desk.type("tools", "list")
    assert (done.code, "'mcp': there is no file" in done.err) == (3, True)


def test_no_file_at_all_may_be_said_without_trust(desk: Desk) -> None:
    write_servers(desk.project / "mcp.json")
    (desk.project / "hooksdk.toml").write_text("mcp = []\n")
    assert "not trusted" not in (desk.type("tools", "list", "--json")).err


# import


def test_the_servers_of_all_clients_are_added_and_trusted(desk: Desk) -> None:
    desk.write("home/.cursor/mcp.json", {"mcpServers": {"git": {"command": "mcp-server-git", "autoApprove": ["x"]}}})
    desk.write("home/.gemini/settings.json", {"mcpServers": {"web": {"httpUrl": "http://h", "headers": {"A": "$KEY"}}}})
    done = desk.type("mcp", "import")
    assert done.code == 0
    assert "added 2 servers to mcp.json, which you trust now" in done.out
    assert desk.servers() == {
        "git": {"command": "mcp-server-git"},
        "web": {"url": "http://h", "headers": {"A": "${KEY}"}},
    }
    trusted = tomllib.loads((desk.home / ".config" / "hooksdk" / "config.toml").read_text())["trust"]
    assert list(trusted) == [str(desk.project / "mcp.json")]
    assert (desk.project / "mcp.json").stat().st_mode & 0o77 == 0


def test_servers_of_the_projects_own_files_are_added_without_trust(desk: Desk) -> None:
    desk.write("project/.vscode/mcp.json", {"servers": {"theirs": {"command": "x"}}})
    desk.write("home/.cursor/mcp.json", {"mcpServers": {"mine": {"command": "y"}}})
    done = desk.type("mcp", "import")
    assert "not trusted servers of .vscode/mcp.json are the project's, not yours" in done.out
    assert set(desk.servers()) == {"theirs", "mine"}
    assert "mcp.json is not trusted yet" in desk.type("tools", "list", "--json").err


def test_a_file_of_the_projects_that_is_named_is_the_users_word(desk: Desk) -> None:
    desk.write("project/.vscode/mcp.json", {"servers": {"theirs": {"command": "x"}}})
    assert "which you trust now" in desk.type("mcp", "import", "--from", ".vscode/mcp.json").out


def test_an_import_into_a_file_that_is_not_trusted_leaves_it_so(desk: Desk) -> None:
    desk.write("project/mcp.json", {"mcpServers": {"theirs": {"command": "x"}}})
    desk.write("home/.cursor/mcp.json", {"mcpServers": {"mine": {"command": "y"}}})
    assert "not trusted you did not trust what it held" in desk.type("mcp", "import").out
    assert "mcp.json is not trusted yet" in desk.type("tools", "list", "--json").err


def test_a_projects_server_takes_neither_the_place_of_the_users_nor_one_outside(desk: Desk) -> None:
    desk.write("project/.cursor/mcp.json", {"mcpServers": {"git": {"command": "evil"}, "more": {"command": "evil"}}})
    desk.write("home/.cursor/mcp.json", {"mcpServers": {"git": {"command": "good"}}})
    desk.type("mcp", "import", "--to", desk.home / "mine.json")
    assert json.loads((desk.home / "mine.json").read_text()) == {"mcpServers": {"git": {"command": "good"}}}
    desk.type("mcp", "import", "git")
    assert desk.servers() == {"git": {"command": "good"}}


def test_nothing_is_written_through_a_link_out_of_the_project(desk: Desk) -> None:
    private = desk.write("home/.claude.json", {"key": "secret", "mcpServers": {"mine": {"command": "y"}}})
    (desk.project / "mcp.json").symlink_to(private)
    desk.write("home/.cursor/mcp.json", {"mcpServers": {"other": {"command": "y"}}})
    done = desk.type("mcp", "import")
    assert (done.code, "is a link that leads to" in done.err) == (1, True)
    assert (desk.project / "mcp.json").is_symlink()
    assert set(json.loads(private.read_text())["mcpServers"]) == {"mine"}


def test_a_dry_run_shows_what_would_be_added_and_writes_nothing(desk: Desk) -> None:
    desk.write("home/.cursor/mcp.json", {"mcpServers": {"git": {"command": "mcp-server-git"}}})
    done = desk.type("mcp", "import", "--dry-run")
    assert "1 server would be added to mcp.json" in done.out
    assert not (desk.project / "mcp.json").exists()


def test_what_the_file_holds_already_stays_as_it_is(desk: Desk) -> None:
    mine = {"mcpServers": {"git": {"command": "my-git"}, "same": {"command": "x"}}, "other": 1}
    desk.write("project/mcp.json", mine)
    servers = {"git": {"command": "theirs"}, "same": {"command": "x"}, "new": {"command": "y"}}
    desk.write("home/.cursor/mcp.json", {"mcpServers": servers})
    outcomes = {
        one["server"]: one["outcome"] for one in json.loads((desk.type("mcp", "import", "--json")).out)["servers"]
    }
    assert outcomes == {
        "git": "left out: the file has another server of this name",
        "same": "there already",
        "new": "new",
    }
    assert json.loads((desk.project / "mcp.json").read_text()) == {
        "mcpServers": {**mine["mcpServers"], "new": {"command": "y"}}, "other": 1,  # type: ignore[dict-item]
    }  # fmt: skip


def test_the_comments_of_the_file_stay(desk: Desk) -> None:
    text = '{"mcpServers": {} /* mine */}'
    (desk.project / "mcp.json").write_text(text)
    desk.write("home/.cursor/mcp.json", {"mcpServers": {"git": {"command": "x"}}})
    assert desk.type("mcp", "import").code == 0
    assert (desk.project / "mcp.json").read_text() == '{"mcpServers": {"git": {"command": "x"}} /* mine */}'


def test_one_client_and_one_server_can_be_chosen(desk: Desk) -> None:
    desk.write("home/.cursor/mcp.json", {"mcpServers": {"a": {"command": "cursor"}, "b": {"command": "x"}}})
    desk.write("home/.codeium/windsurf/mcp_config.json", {"mcpServers": {"a": {"command": "windsurf"}}})
    desk.type("mcp", "import", "a", "--from", "windsurf")
    assert desk.servers() == {"a": {"command": "windsurf"}}


def test_questions_of_vs_code_come_along_with_the_server_that_asks_them(desk: Desk) -> None:
    inputs = [{"id": "key", "type": "promptString"}, {"id": "other", "type": "promptString"}]
    server = {"url": "http://h", "headers": {"A": "${input:key}"}}
    desk.write("project/.vscode/mcp.json", {"inputs": inputs, "servers": {"a": server}})
    desk.type("mcp", "import")
    assert json.loads((desk.project / "mcp.json").read_text())["inputs"] == inputs[:1]


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (("--from", "curser"), "'curser' is neither a file nor a client with one. Did you mean 'cursor'?"),
        (("gitt",), "no client has a server 'gitt'. Did you mean 'git'?"),
        (("--from", "empty.json"), "no MCP servers: none in empty.json. Name a file with --from FILE"),
    ],
)
def test_what_is_not_there_is_told_with_what_is(desk: Desk, arguments: tuple[str, ...], problem: str) -> None:
    desk.write("home/.cursor/mcp.json", {"mcpServers": {"git": {"command": "x"}}})
    desk.write("project/empty.json", {"mcpServers": {}})
    done = desk.type("mcp", "import", *arguments)
    assert (done.code, problem in done.err) == (1, True), done.err


def test_a_clients_broken_file_is_left_out_and_the_others_count(desk: Desk) -> None:
    desk.write("home/.cursor/mcp.json", {"mcpServers": {"git": {"command": "x"}}})
    (desk.home / ".codeium" / "windsurf").mkdir(parents=True)
    (desk.home / ".codeium" / "windsurf" / "mcp_config.json").write_text("{broken")
    done = desk.type("mcp", "import")
    assert "mcp_config.json:1:2: is not JSON" in done.err
    assert desk.servers() == {"git": {"command": "x"}}
