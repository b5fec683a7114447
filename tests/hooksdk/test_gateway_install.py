"""`hooksdk gateway install`, `uninstall`, `import` and `status`, in a home of their own."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("mcp", reason="needs the extra `mcp`")

from commands import environment
from warm import Done, run

from hooksdk.gateway.status import ServerLine, StatusFile, running_gateways
from hooksdk.mcp import McpServers

pytestmark = pytest.mark.heavy


class Desk:
    """A project and a user's home, in folders of their own."""

    def __init__(self, folder: Path) -> None:
        self.project, self.home = folder / "project", folder / "home"
        self.project.mkdir()
        self.home.mkdir()

    def type(self, *arguments: str | Path, stdin: str = "") -> Done:
        variables = {"HOME": str(self.home), "XDG_CONFIG_HOME": str(self.home / ".config")}
        own = environment(self.home, variables=variables)
        return run(["gateway", *map(str, arguments)], folder=self.project, environment=own, stdin=stdin)

    def write(self, path: str, content: str | dict[str, Any], mode: int = 0o644) -> Path:
        place = self.home.parent / path
        place.parent.mkdir(parents=True, exist_ok=True)
        text = content if isinstance(content, str) else json.dumps(content, indent=2)
        place.write_bytes(text.encode())
        place.chmod(mode)
        return place

    @property
    def servers_file(self) -> Path:
        return self.home / ".config" / "hooksdk" / "mcp.json"

    def servers(self) -> dict[str, Any]:
        return json.loads(self.servers_file.read_text())["mcpServers"]

    def records(self) -> list[str]:
        return sorted(path.name.partition(".")[2] for path in (self.home / "kept" / "gateway" / "installed").glob("*"))


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


ODD = (
    '\ufeff// mine\r\n{\r\n\t"theme": "dark", // yes\r\n\t"mcpServers" : {\r\n\t\t/* the repo */ "git": {"command": "mcp-server-git",'
    '\r\n\t\t\t"env": {"TOKEN": "s3cret-value"},},\r\n\t},\r\n\t"z": [1,\r\n2,],\r\n}'
)
CURSOR = "home/.cursor/mcp.json"
FILES = {
    "claude-code": "home/.claude.json", "claude-desktop": "home/.config/Claude/claude_desktop_config.json", "cursor": CURSOR,
    "windsurf": "home/.codeium/windsurf/mcp_config.json", "gemini": "home/.gemini/settings.json",
    "qwen": "home/.qwen/settings.json",
}  # fmt: skip
OTHERS = {
    "vscode": ("home/.config/Code/User/mcp.json", ODD.replace("mcpServers", "servers")),
    "zed": ("home/.config/zed/settings.json", ODD.replace("mcpServers", "context_servers")),
    "codex": (
        "home/.codex/config.toml",
        '# mine\nmodel = "m" # x\n\n[mcp_servers.git]\ncommand = "mcp-server-git"\n\n[tui] # y\na=1\n',
    ),
}


@pytest.mark.in_ci(every=3)
@pytest.mark.parametrize(
    ("client", "path", "text"),
    [*((one, path, ODD) for one, path in FILES.items()), *((one, *two) for one, two in OTHERS.items())],
)
def test_the_gateway_takes_a_clients_place_and_leaves_no_trace(desk: Desk, client: str, path: str, text: str) -> None:
    file = desk.write(path, text, mode=0o640)
    done = desk.type("install", "--client", client, "--yes")
    assert done.code == 0, done.err
    assert desk.servers()["git"]["command"] == "mcp-server-git"
    assert desk.servers_file.stat().st_mode & 0o777 == 0o600
    assert (file.stat().st_mode & 0o777, b"mcp-server-git" in file.read_bytes()) == (0o640, False)
    assert desk.type("uninstall", "--client", client, "--yes").code == 0
    assert file.read_bytes() == text.encode()
    assert (file.stat().st_mode & 0o777, desk.servers_file.exists(), desk.records()) == (0o640, False, [])


def test_the_client_starts_the_gateway_by_full_paths(desk: Desk) -> None:
    file = desk.write(CURSOR, {"mcpServers": {"git": {"command": "g"}}})
    desk.write("home/.config/hooksdk/config.toml", "[gateway.profiles.work]\n")
    desk.type("install", "--client", "cursor", "--profile", "work", "--yes")
    entry = json.loads(file.read_text())["mcpServers"]["hooksdk"]
    started = ["-P", "-m", "hooksdk", "gateway", "--config", str(desk.servers_file), "--profile", "work"]
    assert (entry["command"], entry["args"]) == (sys.executable, started)
    assert entry["env"] == {"HOOKSDK_HOME": str(desk.home / "kept"), "XDG_CONFIG_HOME": str(desk.home / ".config")}
    done = subprocess.run([entry["command"], *entry["args"], "--help"], capture_output=True, check=False, cwd=desk.home)
    assert b"--config" in done.stdout
    assert list(McpServers.from_file(desk.servers_file).status) == ["git"]


def test_secrets_are_told_of_and_not_shown(desk: Desk) -> None:
    desk.write(CURSOR, ODD)
    done = desk.type("install", "--client", "cursor", "--yes")
    assert "s3cret-value" not in done.out + done.err
    assert '"TOKEN": "***"' in done.out
    assert "values of env and headers move to" in done.out
    assert desk.servers()["git"]["env"] == {"TOKEN": "s3cret-value"}
    folder = desk.home / "kept" / "gateway" / "installed"
    assert {path.stat().st_mode & 0o77 for path in (folder, *folder.iterdir())} == {0}


def test_an_edit_elsewhere_outlives_the_uninstallation(desk: Desk) -> None:
    file = desk.write(CURSOR, ODD)
    desk.type("install", "--client", "cursor", "--yes")
    file.write_bytes(file.read_bytes().replace(b'"dark", // yes', b'"light", // no'))
    done = desk.type("uninstall", "--client", "cursor", "--yes")
    assert file.read_bytes().decode() == ODD.replace('"dark", // yes', '"light", // no')
    assert "its servers are back, and your other changes stay" in done.out


def test_a_server_that_was_added_meanwhile_stays(desk: Desk) -> None:
    file = desk.write(CURSOR, {"mcpServers": {"git": {"command": "g"}}})
    desk.type("install", "--client", "cursor", "--yes")
    document = json.loads(file.read_text())
    file.write_text(json.dumps({"mcpServers": {**document["mcpServers"], "mine": {"command": "m"}}}))
    desk.type("uninstall", "--client", "cursor", "--yes")
    assert json.loads(file.read_text())["mcpServers"] == {"git": {"command": "g"}, "mine": {"command": "m"}}


def test_a_file_that_is_broken_now_is_left_alone_and_the_backup_is_named(desk: Desk) -> None:
    file = desk.write(CURSOR, ODD)
    desk.type("install", "--client", "cursor", "--yes")
    file.write_text("{broken")
    done = desk.type("uninstall", "--client", "cursor", "--yes")
    assert done.code == 1
    assert "is not JSON" in done.complaint
    assert f"what it held before is in {desk.home}/kept/gateway/installed/cursor-" in done.complaint
    assert done.complaint.endswith("Nothing was changed")
    assert (file.read_text(), desk.records()) == ("{broken", ["bak", "json"])
    assert list(desk.servers()) == ["git"]


def test_a_server_that_came_back_by_hand_stays_as_it_is_and_the_backup_stays(desk: Desk) -> None:
    file = desk.write(CURSOR, {"mcpServers": {"git": {"command": "g"}, "time": {"command": "t"}}})
    desk.type("install", "--client", "cursor", "--yes")
    file.write_text('{"mcpServers": {"git": {"command": "mine"}}}')
    done = desk.type("uninstall", "--client", "cursor", "--yes")
    assert json.loads(file.read_text())["mcpServers"] == {"git": {"command": "mine"}, "time": {"command": "t"}}
    assert "git: in" in done.out
    assert desk.records() == ["bak"]


def test_a_second_installation_is_refused_with_the_way_out(desk: Desk) -> None:
    desk.write(CURSOR, ODD)
    desk.type("install", "--client", "cursor", "--yes")
    done = desk.type("install", "--client", "cursor", "--yes")
    assert (done.code, "hooksdk gateway uninstall --client cursor takes it out first" in done.err) == (1, True)


@pytest.mark.parametrize("arguments", [("--dry-run",), ()])
def test_without_a_yes_nothing_changes(desk: Desk, arguments: tuple[str, ...]) -> None:
    file = desk.write(CURSOR, ODD)
    done = desk.type("install", "--client", "cursor", *arguments)
    assert done.code == (0 if arguments else 1)
    assert '"hooksdk"' in done.out
    assert (file.read_bytes(), desk.servers_file.exists(), desk.records()) == (ODD.encode(), False, [])


def test_a_client_without_a_file_gets_one_that_goes_again(desk: Desk) -> None:
    file = desk.home / ".cursor" / "mcp.json"
    desk.type("install", "--client", "cursor", "--yes")
    assert list(json.loads(file.read_text())["mcpServers"]) == ["hooksdk"]
    desk.type("uninstall", "--client", "cursor", "--yes")
    assert (file.exists(), desk.servers_file.exists(), desk.records()) == (False, False, [])


def test_where_there_are_no_servers_at_all_that_is_told(desk: Desk) -> None:
    done = desk.type("install", "--client", "claude-code", "--dry-run")
    assert "no servers were found" in done.out + done.err
    desk.write("home/.claude.json", {"mcpServers": {"git": {"command": "mcp-server-git"}}})
    done = desk.type("install", "--client", "claude-code", "--dry-run")
    assert "no servers were found" not in done.out + done.err


def test_what_the_gateway_cannot_start_stays_with_its_client(desk: Desk) -> None:
    servers: dict[str, Any] = {
        "old": {"url": "http://h/sse", "type": "sse"}, "asks": {"command": "x", "args": ["${input:key}"]},
        "extension": {"settings": {}}, "file": {"command": "x", "envFile": ".env"}, "good": {"command": "g", "autoApprove": ["a"]},
    }  # fmt: skip
    file = desk.write("home/.config/Code/User/mcp.json", {"servers": servers})
    done = desk.type("install", "--client", "vscode", "--yes", "--json").json()
    assert set(json.loads(file.read_text())["servers"]) == {"old", "asks", "extension", "file", "hooksdk"}
    assert set(done["stay"]) == {"old", "asks", "extension", "file"}
    assert "the old SSE transport is not supported" in done["stay"]["old"]
    assert done["notes"] == ["good: the gateway has no 'autoApprove', so that does not count any more"]


def test_two_clients_share_what_is_the_same_and_each_gets_its_own_back(desk: Desk) -> None:
    cursor = desk.write(CURSOR, {"mcpServers": {"git": {"command": "g"}, "time": {"command": "t"}}})
    windsurf = desk.write(FILES["windsurf"], {"mcpServers": {"git": {"command": "other"}, "time": {"command": "t"}}})
    before = cursor.read_bytes(), windsurf.read_bytes()
    desk.type("install", "--client", "cursor", "--yes")
    done = desk.type("install", "--client", "windsurf", "--yes")
    assert "git: is called git-windsurf there" in done.out
    assert set(desk.servers()) == {"git", "time", "git-windsurf"}
    desk.type("uninstall", "--client", "cursor", "--yes")
    assert set(desk.servers()) == {"time", "git-windsurf"}
    desk.type("uninstall", "--client", "windsurf", "--yes")
    assert (cursor.read_bytes(), windsurf.read_bytes()) == before
    assert not desk.servers_file.exists()


def test_what_the_gateways_file_held_before_stays(desk: Desk) -> None:
    text = '{"mcpServers": {"mine": {"command": "m"}} /* mine */}'
    desk.write("home/.config/hooksdk/mcp.json", text)
    desk.write(CURSOR, {"mcpServers": {"git": {"command": "g"}}})
    desk.type("install", "--client", "cursor", "--yes")
    assert "/* mine */" in desk.servers_file.read_text()
    desk.type("uninstall", "--client", "cursor", "--yes")
    assert desk.servers_file.read_text() == text


def test_a_server_that_was_changed_in_the_gateways_file_stays_there(desk: Desk) -> None:
    file = desk.write(CURSOR, {"mcpServers": {"git": {"command": "g"}}})
    desk.type("install", "--client", "cursor", "--yes")
    desk.servers_file.write_text('{"mcpServers": {"git": {"command": "newer"}}}')
    done = desk.type("uninstall", "--client", "cursor", "--yes")
    assert "git: was changed in" in done.out
    assert (desk.servers()["git"], json.loads(file.read_text())["mcpServers"]["git"]) == (
        {"command": "newer"},
        {"command": "g"},
    )


def claude(desk: Desk) -> Path:
    """Claude Code's file with servers for everywhere, for the project's folder and for another one."""
    here: dict[str, Any] = {"allowedTools": [], "mcpServers": {"git": {"command": "g"}}}
    other = {"mcpServers": {"docs": {"command": "d"}}}
    projects: dict[str, Any] = {str(desk.project): here, "/elsewhere": other, "/plain": {}}
    return desk.write(FILES["claude-code"], {"mcpServers": {"time": {"command": "t"}}, "projects": projects})


def test_servers_of_a_single_folder_go_to_a_gateway_of_that_folder(desk: Desk) -> None:
    file = claude(desk)
    before = file.read_bytes()
    done = desk.type("install", "--client", "claude-code", "--local", "--yes", "--json").json()
    settings = json.loads(file.read_text())
    assert list(settings["mcpServers"]) == ["time"]
    assert list(settings["projects"]["/elsewhere"]["mcpServers"]) == ["docs"]
    (entry,) = settings["projects"][str(desk.project)]["mcpServers"].values()
    assert entry["args"][-4:] == ["--config", done["gateway_file"], "--project", str(desk.project)]
    assert list(McpServers.from_file(done["gateway_file"]).status) == ["git"]
    assert not desk.servers_file.exists()
    assert desk.type("uninstall", "--client", "claude-code", "--local", "--yes").code == 0
    assert (file.read_bytes(), Path(done["gateway_file"]).exists(), desk.records()) == (before, False, [])


def test_servers_of_everywhere_and_of_a_folder_are_taken_and_given_back_in_any_order(desk: Desk) -> None:
    file = claude(desk)
    before = json.loads(file.read_text())
    assert "To take them, type there: hooksdk gateway install --client claude-code --local" in (
        desk.type("install", "--client", "claude-code", "--yes").out
    )
    done = desk.type("install", "--client", "claude-code", "--local", "--yes")
    assert "undo        hooksdk gateway uninstall --client claude-code --local\n" in done.out
    both = json.loads(file.read_text())
    assert list(both["mcpServers"]) == ["hooksdk"]
    assert list(both["projects"][str(desk.project)]["mcpServers"]) == ["hooksdk-folder"]  # the other would hide it
    assert "is installed in" in desk.type("install", "--client", "claude-code", "--local", "--yes").complaint
    assert desk.type("uninstall", "--client", "claude-code", "--yes").code == 0
    assert desk.type("uninstall", "--client", "claude-code", "--local", "--yes").code == 0
    assert (json.loads(file.read_text()), desk.records()) == (before, [])


def test_servers_of_a_profile_of_vs_code_are_found_and_taken_on_request(desk: Desk) -> None:
    desk.write(OTHERS["vscode"][0], {"servers": {"git": {"command": "g"}}})
    profile = desk.write("home/.config/Code/User/profiles/1a/mcp.json", {"servers": {"time": {"command": "t"}}})
    before = profile.read_bytes()
    outcomes = {one["server"]: one["outcome"] for one in desk.type("import", "--dry-run", "--json").json()["servers"]}
    assert outcomes == {"git": "new", "time": "new"}
    told = (
        f"time: in {profile}, and stays there. To take them: hooksdk gateway install --client vscode --file {profile}"
    )
    assert told in desk.type("install", "--client", "vscode", "--yes").out
    done = desk.type("install", "--client", "vscode", "--file", profile, "--yes")
    assert f"undo        hooksdk gateway uninstall --client vscode --file {profile}\n" in done.out
    assert list(json.loads(profile.read_text())["servers"]) == ["hooksdk"]
    assert list(desk.servers()) == ["git", "time"]
    assert desk.type("uninstall", "--client", "vscode", "--file", profile, "--yes").code == 0
    assert (profile.read_bytes(), list(desk.servers())) == (before, ["git"])


def test_entries_that_come_to_the_same_are_one_server(desk: Desk) -> None:
    desk.write(CURSOR, {"mcpServers": {"git": {"command": "g"}}})
    desk.write(FILES["claude-code"], {"mcpServers": {"git": {"type": "stdio", "command": "g", "args": [], "env": {}}}})
    outcomes = [one["outcome"] for one in desk.type("import", "--dry-run", "--json").json()["servers"]]
    assert outcomes == ["new", "the same as claude-code's"]
    desk.type("install", "--client", "cursor", "--yes")
    desk.type("install", "--client", "claude-code", "--yes")
    assert desk.servers() == {"git": {"command": "g"}}


def test_in_a_project_its_own_files_are_used(desk: Desk) -> None:
    file = desk.write("project/.mcp.json", {"mcpServers": {"git": {"command": "g"}}})
    done = desk.type("install", "--client", "claude-code", "--project", "--yes")
    entry = json.loads(file.read_text())["mcpServers"]["hooksdk"]
    assert entry["args"][-4:] == ["--config", str(desk.project / "mcp.json"), "--project", str(desk.project)]
    assert "keep it out of version control" in done.out
    assert desk.type("uninstall", "--client", "claude-code", "--yes").code == 1
    assert desk.type("uninstall", "--client", "claude-code", "--project", "--yes").code == 0
    assert json.loads(file.read_text()) == {"mcpServers": {"git": {"command": "g"}}}


def test_a_link_to_settings_stays_a_link(desk: Desk) -> None:
    real = desk.write("home/dotfiles/cursor.json", ODD)
    (desk.home / ".cursor").mkdir()
    (desk.home / ".cursor" / "mcp.json").symlink_to(real)
    desk.type("install", "--client", "cursor", "--yes")
    assert b"hooksdk" in real.read_bytes()
    desk.type("uninstall", "--client", "cursor", "--yes")
    assert ((desk.home / ".cursor" / "mcp.json").is_symlink(), real.read_bytes()) == (True, ODD.encode())


def test_a_link_out_of_the_project_is_not_written_through(desk: Desk) -> None:
    private = desk.write("home/.cursor/mcp.json", ODD)
    (desk.project / ".cursor").symlink_to(desk.home / ".cursor")
    done = desk.type("install", "--client", "cursor", "--project", "--yes")
    assert (done.code, "nothing is written through it" in done.err, private.read_bytes()) == (1, True, ODD.encode())


def test_codex_passes_on_what_its_servers_read_from_the_environment(desk: Desk) -> None:
    text = '[mcp_servers.docs]\nurl = "https://h"\nbearer_token_env_var = "DOCS_KEY"\n[mcp_servers.x]\ncommand = "x"\nenv_vars = ["LANGS"]\n'
    file = desk.write("home/.codex/config.toml", text)
    desk.type("install", "--client", "codex", "--yes")
    assert tomllib.loads(file.read_text())["mcp_servers"]["hooksdk"]["env_vars"] == ["DOCS_KEY", "LANGS"]
    assert desk.servers()["x"]["env"] == {"LANGS": "${LANGS:-}"}


def test_codex_waits_for_the_gateway_and_says_when_it_cannot_be_started(desk: Desk) -> None:
    file = desk.write("home/.codex/config.toml", '[mcp_servers.git]\ncommand = "g"\n')
    desk.type("install", "--client", "codex", "--yes")
    entry = tomllib.loads(file.read_text())["mcp_servers"]["hooksdk"]
    assert (entry["required"], entry["startup_timeout_sec"], "tool_timeout_sec" in entry) == (True, 60, False)


def test_codex_gives_a_call_the_time_that_its_servers_had(desk: Desk) -> None:
    text = '[mcp_servers.slow]\ncommand = "s"\ntool_timeout_sec = 7200\n[mcp_servers.git]\ncommand = "g"\n'
    file = desk.write("home/.codex/config.toml", text)
    desk.type("install", "--client", "codex", "--yes")
    assert desk.servers()["slow"]["timeout"] == 3600  # and not milliseconds
    assert tomllib.loads(file.read_text())["mcp_servers"]["hooksdk"]["tool_timeout_sec"] == 3660


@pytest.mark.in_ci(every=3)
@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (("--client", "curser"), "Did you mean 'cursor'?"),
        (("--client", "claude-desktop", "--project"), "Claude Desktop has no file of servers in a project"),
        (("--client", "cursor", "--profile", "wrok"), "there is no profile 'wrok'. Did you mean 'work'?"),
        (("--client", "cursor", "--local"), "Cursor has no servers of a single folder; leave --local out"),
        (("--client", "claude-code", "--local"), "alone. It has some for: /elsewhere"),
        (("--client", "claude-code", "--local", "--project"), "are three places: give one of them"),
        (
            ("--client", "cursor", "--file", "mcp.toml"),
            "Cursor keeps its servers in a .json file, and mcp.toml is none",
        ),
        (("--client", "windsurf"), "is not JSON"),
        (("--client", "zed"), "has a server 'hooksdk' that no installation is recorded of; rename it first"),
    ],
)
def test_what_cannot_be_done_is_told(desk: Desk, arguments: tuple[str, ...], problem: str) -> None:
    desk.write(FILES["windsurf"], "{broken")
    desk.write("home/.config/hooksdk/config.toml", "[gateway.profiles.work]\n")
    desk.write(FILES["claude-code"], {"projects": {"/elsewhere": {"mcpServers": {"git": {"command": "g"}}}}})
    desk.write(OTHERS["zed"][0], {"context_servers": {"hooksdk": {"command": "x"}}})
    done = desk.type("install", *arguments, "--yes")
    assert done.code in {1, 3}
    assert problem in done.err


def test_without_an_installation_there_is_nothing_to_undo(desk: Desk) -> None:
    desk.write(CURSOR, ODD)
    done = desk.type("uninstall", "--client", "cursor", "--yes")
    assert (done.code, "no installation of the gateway is recorded for" in done.err) == (1, True)


# import


def test_servers_are_added_to_the_gateways_file_after_a_yes(desk: Desk) -> None:
    desk.write(CURSOR, {"mcpServers": {"git": {"command": "g", "env": {"A": "s3cret-value"}}}})
    refused = desk.type("import")
    assert (refused.code, desk.servers_file.exists()) == (1, False)
    assert '+      "command": "g"' in refused.out
    assert "s3cret-value" not in refused.out
    assert desk.type("import", "--yes").code == 0
    assert desk.servers() == {"git": {"command": "g", "env": {"A": "s3cret-value"}}}
    assert desk.servers_file.stat().st_mode & 0o77 == 0


def test_an_import_goes_where_it_is_told(desk: Desk) -> None:
    desk.write(CURSOR, {"mcpServers": {"git": {"command": "g"}}})
    desk.write("project/mine.json", '{"mcpServers": {} // mine\n}')
    desk.type("import", "--yes", "--from", "cursor", "-o", "mine.json")
    assert "// mine" in (desk.project / "mine.json").read_text()
    desk.type("import", "--yes", "--project")
    assert json.loads((desk.project / "mcp.json").read_text())["mcpServers"] == {"git": {"command": "g"}}
    dry = desk.type("import", "--dry-run", "--json").json()
    assert (dry["written"], dry["servers"][0]["outcome"]) == (False, "new")


@pytest.mark.parametrize("arguments", [(), ("-o", "../elsewhere.json")])
def test_a_file_outside_of_the_project_needs_no_trust_and_gets_none(desk: Desk, arguments: tuple[str, ...]) -> None:
    desk.write(CURSOR, {"mcpServers": {"git": {"command": "g"}}})
    done = desk.type("import", "--yes", *arguments)
    assert "trust" not in done.out
    assert f"look        hooksdk tools list --mcp {arguments[-1] if arguments else desk.servers_file}\n" in done.out
    assert not (desk.home / ".config" / "hooksdk" / "config.toml").exists()
    desk.write(CURSOR, {"mcpServers": {"time": {"command": "t"}}})
    found = desk.type("import", "--yes", "--json", *arguments).json()
    assert (found["written"], found["trusted"]) == (True, False)


def test_an_import_takes_the_servers_of_this_folder_and_names_those_of_others(desk: Desk) -> None:
    claude(desk)
    done = desk.type("import", "--yes")
    assert list(desk.servers()) == ["time", "git"]
    assert "the servers of other projects are left out: /elsewhere" in done.err


# status


def test_a_running_gateway_shows_how_it_is(desk: Desk) -> None:
    folder = desk.home / "kept" / "gateway" / "running"
    servers = (
        ServerLine(name="git", state="up", tools=12),
        ServerLine(name="\x1b[31mbad", state="failed", problem="gone"),
    )
    with StatusFile(folder, config=["mcp.json"], profile="work") as file:
        file.update(servers=servers, sessions=2, tokens_direct=1000, tokens_listed=300, calls=7, blocked=1, asked=2)
        shown = desk.type("status")
        (one,) = desk.type("status", "--json").json()["gateways"]
    assert (one["pid"], one["tokens_saved"], one["blocked"], one["asked"]) == (os.getpid(), 700, 1, 2)
    assert [server["name"] for server in one["servers"]] == ["git", "\x1b[31mbad"]
    assert "700 of 1,000 saved" in shown.out
    assert "\x1b[31m" not in shown.out
    assert desk.type("status").out == "no gateway runs\n"


def test_the_gateways_that_run_are_told_and_the_files_of_others_go(tmp_path: Path) -> None:
    with StatusFile(tmp_path, profile="one") as one, StatusFile(tmp_path, profile="two"):
        # That of a gateway that was killed: a process has its number, maybe this one, and nobody holds its lock.
        (ended,) = [path for path in tmp_path.glob("*.json") if json.loads(path.read_bytes())["profile"] == "two"]
        left = tmp_path / f"{os.getpid()}-0.json"
        left.write_bytes(ended.read_bytes())
        left.with_suffix(".lock").touch()
        half = tmp_path / "1-1.tmp"
        half.touch()
        for path in (left.with_suffix(".lock"), half):
            os.utime(path, (0, 0))
        assert [found.profile for found in running_gateways(tmp_path)] == ["one", "two"]
        assert len(list(tmp_path.iterdir())) == 4
        shutil.rmtree(tmp_path)
        one.update(calls=1)  # it comes back
        assert [(found.profile, found.calls) for found in running_gateways(tmp_path)] == [("one", 1)]
    assert running_gateways(tmp_path) == []
    assert list(tmp_path.iterdir()) == []


def test_a_status_that_cannot_be_written_stops_nobody(tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("")
    with StatusFile(tmp_path / "taken") as file:
        file.update(calls=1)
        assert file.status.calls == 1
    with pytest.raises(TypeError):
        file.update(cals=1)
