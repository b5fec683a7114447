"""`hooksdk policy diff`: which calls two versions of a configuration judge differently."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

pytest.importorskip("mcp", reason="needs the extra `mcp`")
pytest.importorskip("z3", reason="needs the extra `prove`")

from commands import hooksdk

pytestmark = [pytest.mark.heavy, pytest.mark.anyio]

STRICT = """
[plugins.tool_policy.config]
default = "ask"

[[plugins.tool_policy.config.rules]]
action = "deny"
tools = "delete_*"
"""
LOOSE = STRICT.replace('"delete_*"', '"delete_*"\ntriggers = "schedule"')

# The first example of docs/reference/tool_policy.md, as it stood when the built-in plugins came (eaaca16), and as it stands since
# conditions on paths, addresses and commands took the place of patterns (8b4e60a).
FIRST = r"""
[plugins.tool_policy.config]
default = "deny"

[[plugins.tool_policy.config.rules]]
action = "deny"
tools = "mcp:github:delete_*"
reason = "Nothing is deleted here; close it instead."

[[plugins.tool_policy.config.rules]]
action = "allow"
tools = ["host:*:*", "mcp:github:*"]

[[plugins.tool_policy.config.rules]]
action = "allow"
tools = "mcp:files:write_file"
arguments = { required = ["path"], properties = { path = { pattern = "^/workspace/(?!.*\\.\\.)" } } }

[[plugins.tool_policy.config.rules]]
action = "ask"
tools = "mcp:gmail:send_mail"
requester = { is_owner = true }
title = "Send this mail?"
severity = "critical"
"""
SECOND = """
[plugins.tool_policy.config]
default = "deny"

[[plugins.tool_policy.config.rules]]
action = "deny"
tools = "mcp:github:delete_*"
reason = "Nothing is deleted here; close it instead."

[[plugins.tool_policy.config.rules]]
action = "allow"
tools = ["host:*:*", "mcp:github:*"]

[[plugins.tool_policy.config.rules]]
action = "allow"
tools = "mcp:files:*"
path_inside = "/workspace"

[[plugins.tool_policy.config.rules]]
action = "allow"
tools = "mcp:web:fetch"
url_host = ["docs.example.org", "*.example.com"]

[[plugins.tool_policy.config.rules]]
action = "allow"
tools = "mcp:shell:run"
command = ["ls", "pytest"]

[[plugins.tool_policy.config.rules]]
action = "ask"
tools = "mcp:gmail:send_mail"
requester = { is_owner = true }
title = "Send this mail?"
severity = "critical"
"""


@pytest.fixture
def anyio_backend() -> str:
    """The command brings its own event loop."""
    return "asyncio"


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """Whose last commit has strict rules, and whose folder has looser ones."""
    (tmp_path / "hooksdk.toml").write_text(STRICT)
    for words in (["init", "-q"], ["add", "hooksdk.toml"], ["commit", "-q", "-m", "rules"]):
        subprocess.run(
            ["git", "-c", "user.name=a", "-c", "user.email=a@example.org", *words], cwd=tmp_path, check=True
        )  # fmt: skip
    (tmp_path / "hooksdk.toml").write_text(LOOSE)
    return tmp_path


async def test_a_revision_is_compared_with_what_stands_here(repository: Path) -> None:
    done = await hooksdk("policy", "diff", "HEAD", folder=repository)
    assert (done.code, done.err) == (0, "")
    assert done.out.splitlines() == [
        "loosened    tool_policy: denied before, asked about now",
        '  before    rule 1: action = "deny", tools = "delete_*"',
        '  now       default = "ask"',
        "  the call  host::delete_",
    ]


async def test_a_file_of_a_revision_may_be_named(repository: Path) -> None:
    done = await hooksdk(
        "policy", "diff", "hooksdk.toml", "HEAD:hooksdk.toml", "--fail-on", "loosened", folder=repository
    )
    assert done.code == 0
    assert done.out.startswith("tightened   tool_policy: asked about before, denied now\n")


async def test_a_revision_without_settings_has_no_rules(repository: Path) -> None:
    subprocess.run(["git", "mv", "hooksdk.toml", "other.toml"], cwd=repository, check=True)
    subprocess.run(
        ["git", "-c", "user.name=a", "-c", "user.email=a@example.org", "commit", "-q", "-m", "x"], cwd=repository, check=True
    )  # fmt: skip
    done = await hooksdk("policy", "diff", "HEAD", "HEAD~1", folder=repository)
    assert "plugin      tool_policy: not loaded before, in force now" in done.out
    assert "  before    the plugin judges nothing" in done.out


@pytest.mark.parametrize(("fail_on", "code"), [(None, 0), ("loosened", 1), ("any", 1)])
async def test_a_review_may_fail_on_what_is_loosened(repository: Path, fail_on: str | None, code: int) -> None:
    done = await hooksdk("policy", "diff", "HEAD", *(["--fail-on", fail_on] if fail_on else []), folder=repository)
    assert done.code == code


async def test_where_nothing_changes_nothing_is_said(tmp_path: Path) -> None:
    (tmp_path / "old.toml").write_text(STRICT)
    (tmp_path / "hooksdk.toml").write_text(STRICT.replace("delete_*", "delete_*").replace('"deny"\n', '"deny"  # no\n'))
    done = await hooksdk("policy", "diff", "old.toml", "--fail-on", "any", folder=tmp_path)
    assert (done.code, done.out, done.err) == (0, "", "")


async def test_the_documented_rules_of_two_states_differ_in_what_was_rewritten(tmp_path: Path) -> None:
    (tmp_path / "old.toml").write_text(FIRST)
    (tmp_path / "new.toml").write_text(SECOND)
    done = await hooksdk("policy", "diff", "old.toml", "new.toml", "--json", folder=tmp_path)
    document = done.json()
    assert (document["schema"], document["old"], document["new"]) == (1, "old.toml", "new.toml")
    found = [
        (one["loosened"], one["old"]["rule"], one["new"]["rule"], one["example"]["tool"].rpartition(":")[0])
        for one in document["changes"]
    ]
    assert found == [
        (True, 0, 3, "mcp:files"), (True, 0, 4, "mcp:web"), (True, 0, 5, "mcp:shell"), (False, 3, 0, "mcp:files"),
    ]  # fmt: skip
    conditions = {one["fact"]: one["holds"] for one in document["changes"][0]["depends_on"]}
    assert conditions['path_inside = ["/workspace"]'] is True


async def test_a_plugin_in_shadow_mode_judges_nothing(tmp_path: Path) -> None:
    (tmp_path / "old.toml").write_text(STRICT)
    (tmp_path / "hooksdk.toml").write_text('[plugins.tool_policy]\nmode = "shadow"\n' + STRICT)
    done = await hooksdk("policy", "diff", "old.toml", folder=tmp_path)
    assert done.out.startswith("plugin      tool_policy: in force before, in shadow mode now\nloosened")


async def test_what_cannot_be_compared_is_said_and_counts_as_loosened(tmp_path: Path) -> None:
    (tmp_path / "old.toml").write_text("[plugins.no_repeats]\nenabled = true\n[plugins.guard.config]\nstrict = true\n")
    (tmp_path / "hooksdk.toml").write_text("")
    done = await hooksdk("policy", "diff", "old.toml", "--fail-on", "loosened", folder=tmp_path)
    assert done.code == 1
    assert done.out.splitlines() == [
        "plugin      no_repeats: in force before, not loaded now. Not compared, since it does not describe its rules",
        "plugin      guard: its section differs. Not compared, since the plugin is not installed here",
    ]


async def test_the_users_own_rules_count_in_both(tmp_path: Path) -> None:
    own = tmp_path / "none" / "hooksdk" / "config.toml"  # the user's file of these tests
    own.parent.mkdir(parents=True)
    own.write_text('[[plugins.tool_policy.config.rules]]\naction = "deny"\ntools = "delete_*"\n')
    (tmp_path / "old.toml").write_text(STRICT)
    (tmp_path / "hooksdk.toml").write_text(LOOSE)
    done = await hooksdk("policy", "diff", "old.toml", folder=tmp_path)
    assert (done.code, done.out) == (0, "")


async def test_code_of_the_project_is_not_run(tmp_path: Path) -> None:
    (tmp_path / "hooksdk_plugins.py").write_text("raise SystemExit('it ran')")
    (tmp_path / "old.toml").write_text(STRICT)
    (tmp_path / "hooksdk.toml").write_text("plugins_file = true\n" + STRICT)
    done = await hooksdk("policy", "diff", "old.toml", folder=tmp_path)
    assert done.code == 0
    assert (
        done.out == "plugin      plugins_file: the setting differs. Not compared, since nothing of the project is run\n"
    )


@pytest.mark.parametrize(
    ("old", "code", "complaint"),
    [
        ("nothing", 1, "'nothing' is neither a file nor a revision of git; write such as hooksdk.toml, HEAD~1 or main:hooksdk.toml"),
        ("bad.toml", 3, "bad.toml: [plugins.tool_policy.config]: 'rules': rule 1: 'action': Input should be 'allow', 'deny' or 'ask'. Did you mean 'deny'?"),
        ("odd.toml", 3, "odd.toml: configuration: 'plugins.tool_polcy': no such plugin is installed. Did you mean 'tool_policy'?"),
    ],
)  # fmt: skip
async def test_what_is_wrong_is_told_with_its_version(tmp_path: Path, old: str, code: int, complaint: str) -> None:
    (tmp_path / "hooksdk.toml").write_text(STRICT)
    (tmp_path / "bad.toml").write_text(STRICT.replace('"deny"', '"dny"'))
    (tmp_path / "odd.toml").write_text(STRICT.replace("tool_policy", "tool_polcy"))
    done = await hooksdk("policy", "diff", old, folder=tmp_path)
    assert (done.code, done.out) == (code, "")
    assert done.err.removeprefix("hooksdk: ").strip() == complaint


async def test_the_table_of_a_pyproject_is_read(tmp_path: Path) -> None:
    table = STRICT.replace("[plugins", "[tool.hooksdk.plugins").replace("[[plugins", "[[tool.hooksdk.plugins")
    (tmp_path / "pyproject.toml").write_text(table)
    (tmp_path / "new.toml").write_text(LOOSE)
    done = await hooksdk("policy", "diff", "pyproject.toml", "new.toml", folder=tmp_path)
    assert done.out.startswith("loosened    tool_policy: denied before, asked about now\n")
