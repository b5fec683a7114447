"""`hooksdk doctor`: what is wrong with plugins, configuration, servers and store, and what to type."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import pytest

pytest.importorskip("mcp", reason="needs the extra `mcp`")

from commands import change, hooksdk, install_plugin, write_servers
from mcp_servers import script
from warm import Done

from hooksdk import MemoryStore
from hooksdk.cli._doctor.store import examine_store
from hooksdk.stores import SqlStore
from hooksdk.stores.files import network_file_system

pytestmark = pytest.mark.heavy

FLAWED = '''
from collections.abc import Sequence

from pydantic import BaseModel

from hooksdk import Tool, hooks, tool
from hooksdk.hooks import Withhold


class Guard:
    @hooks.before_tool_call(tools=["proces_*", "mcp:Plain:*", "mcp:plane:*", "wire_money"])
    def judge(self, event): ...


class Near:
    @hooks.after_tool_call(tools=["id_*", "so_far_*", "environment"])
    def watch(self, event): ...

    @hooks.resolve_secrets(tools=["Process_*", "folder"])
    def give(self, event): ...


class Narrow:
    @hooks.narrow_tools
    def narrow(self, event):
        return Withhold(["Add", "no_such_tool"], "not today")


class Rules:
    class Config(BaseModel):
        rules: list[str] = []

    @hooks.before_tool_call
    def judge(self, event): ...

    @classmethod
    def diagnose(cls, config: Config, tools: Sequence[Tool] | None):
        names = {tool.name for tool in tools or ()}
        assert all(tool.execute is None for tool in tools or ())
        for rule in config.rules:
            if rule not in names:
                yield f"the rule '{rule}' is never reached"


class Fragile:
    @hooks.agent_end
    def end(self, event): ...

    @classmethod
    def diagnose(cls, config, tools):
        raise ValueError("I do not know")


class Physician:
    """Its tool has the name, and is none of our business."""

    @tool
    def diagnose(self, symptom: str) -> str:
        "Name an illness."
        raise AssertionError


class Lost:
    @hooks.before_tool_call
    def judge(self, event): ...

    @hooks.before_tool_call
    def judge(self, event): ...
'''
SETTINGS = """
deny = ["nobody"]

[timeouts]
session_end = 3

[plugins.guard]
mode = "shadow"
timeouts = { before_tool_call = 2, agent_end = 3 }

[plugins.rules.config]
rules = ["add", "ad"]

[plugins.catalog_audit.config]
exclude = ["Process_*"]

[gateway.profiles.small]
allow = ["Process_*", "add"]
deny = ["id_*"]

[plugins.tool_polcy]

[plugins.elsewhere]
"""


def configure(folder: Path, settings: str) -> None:
    """Write the user's own file."""
    path = folder / "none" / "hooksdk" / "config.toml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(settings)


def run(folder: Path, *arguments: str, variables: dict[str, str] | None = None) -> Done:
    async def command() -> Done:
        own = {"HOOKSDK_PLUGINS_FILE": str((folder / "hooksdk_plugins.py").exists()), **(variables or {})}
        return await hooksdk("doctor", *arguments, folder=folder, variables=own)

    return anyio.run(command)


def findings(done: Done) -> list[tuple[str, str, str]]:
    return [(one["severity"], one["who"], one["what"]) for one in done.json()["findings"]]


@pytest.fixture(scope="module")
def flawed(tmp_path_factory: pytest.TempPathFactory) -> Done:
    """One look at a project in which much is wrong."""
    folder = tmp_path_factory.mktemp("flawed")
    configure(folder, SETTINGS)
    (folder / "hooksdk_plugins.py").write_text(FLAWED)
    servers = write_servers(folder / "mcp.json", plain=script("quick"))
    return run(folder, "--json", "--mcp", servers)


def expect(done: Done, severity: str, who: str, what: str, advice: str = "") -> None:
    """One finding of this plugin says this."""
    texts = [
        (one["what"], one["advice"])
        for one in done.json()["findings"]
        if (one["severity"], one["who"]) == (severity, who)
    ]
    assert any(what in text and advice in hint for text, hint in texts), done.json()["findings"]


def test_problems_are_counted_and_come_first_and_make_the_exit_code_1(flawed: Done) -> None:
    assert flawed.code == 1
    severities = [severity for severity, _, _ in findings(flawed)]
    assert severities == sorted(severities, reverse=True)
    assert flawed.json()["problems"] == severities.count("problem") == 8
    assert flawed.json()["schema"] == 1


def test_it_says_who_judges_calls(flawed: Done) -> None:
    assert flawed.json()["judging"] == "2 handlers judge tool calls: guard (shadow), rules"


@pytest.mark.parametrize(
    ("severity", "who", "what", "advice"),
    [
        ("problem", "lost", "is marked and would never be called: 'judge' is used again by", "a name of its own"),
        ("problem", "guard", "tools='proces_*', which matches none of the", "Correct the pattern"),
        ("problem", "guard", "Did you mean 'process_*'?", ""),
        ("problem", "guard", "tools='mcp:plane:*', which matches none of the", "or give the servers that it is for"),
        ("notice", "guard", "tools='wire_money', which matches none of the", "unless it is for tools that your code"),
        ("notice", "near", "after_tool_call(tools=...): 'id_*' has the same words as 'mcp:plain:process_id'", "Add a"),
        ("notice", "near", "resolve_secrets(tools=...): 'Process_*' counts as it is written here, and does not", ""),
        ("notice", "configuration", "gateway.profiles.small.allow: 'Process_*' counts as it is written here", "Add a"),
        ("notice", "configuration", "gateway.profiles.small.deny: 'id_*' has the same words as", "Add a pattern"),
        (
            "notice",
            "catalog_audit",
            "exclude: 'Process_*' counts as it is written here, and does not mean 'mcp:plain",
            "",
        ),
        ("problem", "narrow", "it withholds 'Add', and there is no such tool. Did you mean 'add'?", ""),
        ("notice", "narrow", "it withholds 'no_such_tool', and there is no such tool.", ""),
        ("problem", "rules", "the rule 'ad' is never reached", ""),
        ("problem", "fragile", "its diagnose(...) raised ValueError: I do not know", ""),
        ("problem", "configuration", "[plugins.tool_polcy] is for a plugin that is not here. Did you mean", ""),
        ("notice", "configuration", "[plugins.elsewhere] is for a plugin that is neither installed nor", "Install it"),
        ("notice", "configuration", "'nobody' in deny or allow is no plugin here.", ""),
        ("notice", "configuration", "[timeouts] has session_end, and no plugin here handles that", "Remove it"),
        ("notice", "guard", "is in shadow mode: its policies have no effect", 'mode = "enforce"'),
        ("notice", "guard", "has a time limit for agent_end, and no handler of it", "Remove it"),
    ],
)
def test_a_flaw_is_found(flawed: Done, severity: str, who: str, what: str, advice: str) -> None:
    expect(flawed, severity, who, what, advice)


def test_patterns_and_rules_that_match_are_no_finding(flawed: Done) -> None:
    text = str(findings(flawed))
    for right in ("tools='mcp:Plain:*'", "'add' is never", "before_tool_call, and", "physician"):
        assert right not in text


def test_a_healthy_project_has_no_problems_and_the_code_0(tmp_path: Path) -> None:
    configure(tmp_path, "[timeouts]\nbefore_tool_call = 3\n")
    done = run(tmp_path)
    assert (done.code, done.err) == (0, "")
    assert done.out.splitlines()[-1] == "no problems"
    assert not (tmp_path / "kept").exists(), "looking leaves nothing behind"


def test_a_file_of_servers_that_is_not_trusted_or_has_changed_is_a_problem(tmp_path: Path) -> None:
    servers = write_servers(tmp_path / "mcp.json")
    new = run(tmp_path)
    anyio.run(partial(hooksdk, "trust", "--yes", folder=tmp_path))
    assert run(tmp_path).code == 0
    Path(servers).write_text(Path(servers).read_text("utf-8") + "\n", "utf-8")
    changed = run(tmp_path)
    assert (new.code, changed.code) == (1, 1)
    assert "mcp.json is not trusted yet, so its servers are not started. " in new.out
    assert "mcp.json has changed since you trusted it" in changed.out


@pytest.mark.in_ci(False)
def test_a_server_that_is_down_is_one_problem_whatever_is_for_its_tools(tmp_path: Path) -> None:
    rule = '[[plugins.tool_policy.config.rules]]\naction = "deny"\ntools = "mcp:broken:delete_*"\n'
    (tmp_path / "hooksdk.toml").write_text(rule)
    (tmp_path / "hooksdk_plugins.py").write_text(
        "from hooksdk import hooks\n\n"
        'class Guard:\n    @hooks.before_tool_call(tools="mcp:broken:*")\n    def judge(self, event): ...\n'
    )
    broken = {"command": sys.executable, "args": ["-c", "raise SystemExit('no licence')"]}
    servers = write_servers(tmp_path / "mcp.json", plain=script("quick"), broken=broken)
    done = run(tmp_path, "--json", "--mcp", servers)
    assert done.json()["problems"] == 1
    expect(done, "problem", "server broken", "cannot be used", "Correct its entry in")
    expect(done, "notice", "doctor", "not compared with tools while server broken cannot be used", "again")
    alone = run(tmp_path, "--json", "--mcp", write_servers(tmp_path / "mcp.json", plain=script("quick")))
    assert {who for severity, who, _ in findings(alone) if severity == "problem"} == {"tool_policy", "guard"}


def test_a_wrong_configuration_is_the_usual_line_and_code(tmp_path: Path) -> None:
    (tmp_path / "hooksdk.toml").write_text("[timeout]\n")
    done = run(tmp_path, "--json")
    assert (done.code, done.out) == (3, "")
    assert "'timeout' is not a setting. Did you mean 'timeouts'?" in done.err


@pytest.mark.in_ci(every=3)
@pytest.mark.parametrize(
    ("code", "what"),
    [
        ("import time; time.sleep(60)", "loading it is not done after 4 s"),
        ("import os; os._exit(7)", "loading it ended the process (exit code 7)"),
        ("raise ValueError('out of order')", "importing fake_watch:Watch raised ValueError: out of order"),
    ],
    ids=["hangs", "ends the process", "raises"],
)
def test_a_plugin_that_cannot_be_imported_is_a_finding_and_the_others_are_examined(
    tmp_path: Path, code: str, what: str
) -> None:
    (tmp_path / "hooksdk_plugins.py").write_text(f"print('{{not JSON')\n{FLAWED}")
    variables = install_plugin(tmp_path / "site", f"print('noise', flush=True)\n{code}")
    configure(tmp_path, "[plugins.watch]\n[plugins.tool_polcy]\n")
    done = run(tmp_path, "--json", "--limit", "4", variables=variables)
    assert done.code == 1
    expect(done, "problem", "watch", what)
    expect(done, "problem", "lost", "is marked and would never be called")
    expect(done, "problem", "configuration", "[plugins.tool_polcy]")


def test_what_a_plugin_writes_cannot_forge_a_line(tmp_path: Path) -> None:
    (tmp_path / "hooksdk_plugins.py").write_text("raise ValueError('x\\x1b[2J\\nno problems')")
    done = run(tmp_path)
    assert "\x1b" not in done.out
    assert done.out.splitlines().count("no problems") == 0


# The store


async def of_store(store: Any) -> Sequence[tuple[str, str]]:
    found = [(one.severity, one.what) for one in await examine_store(store)]
    if isinstance(store, SqlStore):
        await store.aclose()
    return found


def test_a_store_that_cannot_be_written_is_a_problem(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    configure(tmp_path, f'store = "jsonl:{tmp_path / "file" / "sessions"}"\n')
    done = run(tmp_path, "--json")
    expect(done, "problem", "store", f"cannot be written: {tmp_path / 'file'} is no folder", 'store = "jsonl:FOLDER"')


def test_stores_in_memory_and_folders_to_be_made_are_fine(tmp_path: Path) -> None:
    assert anyio.run(of_store, MemoryStore()) == []
    assert anyio.run(of_store, SqlStore(tmp_path / "not" / "there")) == []
    assert not (tmp_path / "not").exists()


def test_an_open_session_is_a_notice_and_a_closed_one_is_nothing(tmp_path: Path) -> None:
    async def look() -> tuple[Sequence[tuple[str, str]], ...]:
        store = SqlStore(tmp_path)
        log = await store.open_session("ann")
        during = await of_store(SqlStore(tmp_path))
        await log.close()
        await store.aclose()
        return during, await of_store(SqlStore(tmp_path))

    during, after = anyio.run(look)
    ((severity, what),) = during
    assert severity == "notice"
    assert what.startswith(f"session ann is open in process {os.getpid()}")
    assert after == []


def test_a_database_of_a_newer_version_is_a_problem(tmp_path: Path) -> None:
    store = SqlStore(tmp_path)
    change(store, "INSERT INTO hooksdk_schema VALUES (99)")
    anyio.run(store.aclose)
    ((severity, what),) = anyio.run(of_store, SqlStore(tmp_path))
    assert severity == "problem"
    assert "its tables were made by a newer hooksdk (version 99" in what


def test_a_file_that_is_no_database_is_a_problem(tmp_path: Path) -> None:
    (tmp_path / "hooksdk.db").write_text("notes, and more than a header's length of them " * 30)
    ((severity, what),) = anyio.run(of_store, SqlStore(tmp_path))
    assert (severity, "this file is no SQLite database" in what) == ("problem", True)
    (tmp_path / "hooksdk.db").unlink()
    (tmp_path / "hooksdk.db").mkdir()
    ((severity, what),) = anyio.run(of_store, SqlStore(tmp_path))
    assert (severity, what) == ("problem", f"{tmp_path / 'hooksdk.db'} is no file")


@pytest.mark.skipif(os.name != "posix" or os.geteuid() == 0, reason="root may open everything")
def test_a_database_of_somebody_else_is_a_problem(tmp_path: Path) -> None:
    (tmp_path / "hooksdk.db").touch(mode=0o000)
    ((severity, what),) = anyio.run(of_store, SqlStore(tmp_path))
    assert (severity, what) == ("problem", f"{tmp_path / 'hooksdk.db'} cannot be read and written")


@pytest.mark.parametrize(
    ("place", "kind"),
    [
        ("/home/ann/x.db", "nfs4"),
        ("/home/ann/my disk/x.db", ""),
        ("/srv/x.db", "fuse.sshfs"),
        ("/homes/x.db", ""),
        ("/x", ""),
    ],
)
def test_a_network_file_system_is_known_by_the_mount_that_the_file_is_in(place: str, kind: str, tmp_path: Path) -> None:
    mounts = [
        "/dev/vda1 / ext4 rw 0 0",
        "nas:/home /home nfs4 rw 0 0",
        "/dev/vdb1 /home/ann/my\\040disk ext4 rw 0 0",
        "/dev/vdc1 /srv ext4 rw 0 0",
        "ann@nas: /srv fuse.sshfs rw 0 0",
    ]
    (tmp_path / "mounts").write_text("\n".join(mounts))
    assert network_file_system(Path(place), tmp_path / "mounts") == kind
    assert network_file_system(Path(place), tmp_path / "none") == ""
