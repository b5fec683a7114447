"""The rules of a session are those of its beginning: what tightens counts at once, what loosens after a person's word alone."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import tomlkit
from guard_hooks import before, hook

from hooksdk.cli._edits.configuration import record_trust
from hooksdk.config import read_config
from hooksdk.errors import ConfigError
from hooksdk.guard import Judge, let_count, waiting

pytestmark = [pytest.mark.anyio, pytest.mark.heavy]
RULE = '[[plugins.tool_policy.config.rules]]\naction = "{}"\ntools = "Bash"\n{}\n'
DENY_RM = RULE.format("deny", 'command = ["rm"]\nreason = "nothing is removed here"')
DENY_MV = RULE.format("deny", 'command = ["mv"]')
ALLOW_RM = RULE.format("allow", 'command = ["rm"]')
POLICY = "[plugins.tool_policy]\n{}\n"
SETTINGS = "[plugins.tool_policy.config]\n{}\n"
CODE = """
from hooksdk import hooks
from hooksdk.hooks import Block

@hooks.before_tool_call
def judge(event):
    return Block("no rm") if event.arguments.get("command") == "rm a" else None
"""
NO_CODE = CODE.replace('"rm a"', '"nothing"')


@dataclass(frozen=True)
class Place:
    """A user with a project, and sessions of an agent in it."""

    root: Path

    @property
    def project(self) -> Path:
        return self.root / "project"

    @property
    def rules(self) -> Path:
        return self.project / "hooksdk.toml"

    @property
    def user(self) -> Path:
        return self.root / "config" / "hooksdk" / "config.toml"

    @property
    def records(self) -> Path:
        return self.root / "state" / "guard" / "rules"

    async def says(self, judge: Judge, command: str = "rm a", session: str = "s1", **more: Any) -> str:
        """What becomes of a call: `deny`, `ask`, or nothing."""
        return (await self.answer(judge, command, session, **more))[0]

    async def answer(self, judge: Judge, command: str = "rm a", session: str = "s1", **more: Any) -> tuple[str, str]:
        payload = {**before(more.pop("folder", self.project), command=command, session=session), **more}
        said = (await judge.answer("claude-code", payload)).get("hookSpecificOutput", {})
        return said.get("permissionDecision", ""), said.get("permissionDecisionReason", "")


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Place]:
    monkeypatch.setenv("HOOKSDK_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    place = Place(tmp_path)
    place.project.mkdir()
    place.user.parent.mkdir(parents=True)
    known = set(sys.path)
    yield place
    sys.path[:] = [one for one in sys.path if one in known]


# Every way to change a file


def git(place: Place, *words: str) -> None:
    names = ["-c", "user.name=a", "-c", "user.email=a@example.com", "-c", "init.defaultBranch=main"]
    subprocess.run(["git", *names, *words], cwd=place.project, check=True, capture_output=True)


def by_patch(place: Place, new: str) -> Path:
    (place.project / "new").write_text(new)
    difference = subprocess.run(
        ["diff", "-u", "--label", "a/hooksdk.toml", "--label", "b/hooksdk.toml", "hooksdk.toml", "new"],
        cwd=place.project, check=False, capture_output=True,
    )  # fmt: skip
    (place.project / "x.patch").write_bytes(difference.stdout)
    return place.project / "x.patch"


def git_apply(place: Place, new: str) -> None:
    git(place, "apply", by_patch(place, new).name)


def patch(place: Place, new: str) -> None:
    by_patch(place, new)
    subprocess.run("patch -p1 < x.patch", shell=True, cwd=place.project, check=True, capture_output=True)


def git_checkout(place: Place, new: str) -> None:
    git(place, "checkout", "-q", "-b", "other")
    place.rules.write_text(new)
    git(place, "commit", "-qam", "other")
    git(place, "checkout", "-q", "main")
    git(place, "checkout", "-q", "other")


def git_stash(place: Place, new: str) -> None:
    """What was committed first has the new text."""
    old = place.rules.read_text()
    place.rules.write_text(new)
    git(place, "commit", "-qam", "older")
    place.rules.write_text(old)
    git(place, "stash", "-u")


def tar(place: Place, new: str) -> None:
    (place.root / "hooksdk.toml").write_text(new)
    with tarfile.open(place.root / "x.tar", "w") as archive:
        archive.add(place.root / "hooksdk.toml", "hooksdk.toml")
    subprocess.run(["tar", "xf", str(place.root / "x.tar")], cwd=place.project, check=True)


def unzip(place: Place, new: str) -> None:
    with zipfile.ZipFile(place.root / "x.zip", "w") as archive:
        archive.writestr("hooksdk.toml", new)
    with zipfile.ZipFile(place.root / "x.zip") as archive:
        archive.extractall(place.project)


def copy(place: Place, new: str) -> None:
    (place.root / "other").mkdir()
    (place.root / "other" / "hooksdk.toml").write_text(new)
    subprocess.run(["cp", "-r", f"{place.root}/other/.", "."], cwd=place.project, check=True)


def rename(place: Place, new: str) -> None:
    (place.project / "other").write_text(new)
    (place.project / "other").replace(place.rules)


def delete(place: Place, _new: str) -> None:
    place.rules.unlink()


def link(place: Place, new: str) -> None:
    (place.root / "elsewhere.toml").write_text(new)
    place.rules.unlink()
    place.rules.symlink_to(place.root / "elsewhere.toml")


def other_target(place: Place, new: str) -> None:
    """A link that is there already leads to another file."""
    link(place, place.rules.read_text())
    (place.root / "third.toml").write_text(new)
    place.rules.unlink()
    place.rules.symlink_to(place.root / "third.toml")


def in_pyproject(place: Place, _new: str) -> None:
    place.rules.unlink()
    (place.project / "pyproject.toml").write_text('[tool.hooksdk]\nstore = "jsonl"\n')


def broken_first(place: Place, new: str) -> None:
    place.rules.write_text("[plugins")
    place.rules.write_text(new)


def no_repository_any_more(place: Place, _new: str) -> None:
    """The project's folder is none of its repository."""
    place.rules.unlink()
    shutil.rmtree(place.project / ".git")


WAYS: list[Callable[[Place, str], None]] = [
    git_apply, patch, git_checkout, git_stash, tar, unzip, copy, rename, delete, link, other_target, in_pyproject, broken_first,
    no_repository_any_more,
]  # fmt: skip


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
async def test_whichever_way_a_file_is_changed_a_rule_that_is_gone_goes_on(
    place: Place, way: Callable[[Place, str], None]
):
    place.rules.write_text(DENY_RM)
    git(place, "init", "-q")
    git(place, "add", "hooksdk.toml")
    git(place, "commit", "-qm", "first")
    (place.project / "deep").mkdir()
    async with Judge() as judge:
        assert await place.says(judge) == "deny"
        way(place, RULE.format("deny", 'command = ["nothing"]'))
        decision, reason = await place.answer(judge)
        assert decision == "deny"
        assert f"hooksdk trust {place.project}" in reason
        assert await place.says(judge, session="new") == "deny"
    for folder in (place.project, place.project / "deep"):
        async with Judge() as judge:
            assert await place.says(judge, session=f"later in {folder.name}", folder=folder) == "deny"
            assert await place.says(judge) == "deny"


# Every kind of loosening


@dataclass(frozen=True, kw_only=True)
class Change:
    """A configuration, and what is made of it."""

    name: str
    old: str = ""
    new: str = ""
    code: tuple[str, str] = ("", "")
    """The plugins file, before and after."""
    call: str = "rm a"
    variables: dict[str, str] = field(default_factory=dict[str, str])
    user_alone: bool = False


LOOSENED = [
    Change(name="a rule is gone", old=DENY_RM + DENY_MV, new=DENY_MV),
    Change(name="all is gone", old=DENY_RM, new=""),
    Change(name="a condition is narrower", old=DENY_RM, new=DENY_RM + 'path_name = ["b"]\n'),
    Change(name="another tool", old=DENY_RM, new=DENY_RM.replace('"Bash"', '"Write"')),
    Change(name="for another agent", old=DENY_RM, new=DENY_RM + 'agents = "codex"\n'),
    Change(name="an ask", old=DENY_RM, new=DENY_RM.replace("deny", "ask")),
    Change(name="an allow", old=DENY_RM, new=DENY_RM.replace("deny", "allow").replace("reason", "title")),
    Change(name="a limit is there", old=DENY_RM, new=DENY_RM + "limit = { calls = 9 }\n"),
    Change(name="a limit is raised", old=DENY_RM + "limit = { calls = 0 }\n", new=DENY_RM + "limit = { calls = 9 }\n"),
    Change(name="the default", old=SETTINGS.format('default = "deny"'), new=SETTINGS.format('default = "allow"')),
    Change(name="an ask where the default denies", old=SETTINGS.format('default = "deny"'), new=SETTINGS.format('default = "deny"') + RULE.format("ask", "")),
    Change(name="an allow where the default denies", old=SETTINGS.format('default = "deny"'), new=SETTINGS.format('default = "deny"') + ALLOW_RM),
    Change(name="shadow mode", old=DENY_RM, new=POLICY.format('mode = "shadow"') + DENY_RM),
    Change(name="switched off", old=DENY_RM, new=POLICY.format("enabled = false") + DENY_RM),
    Change(name="denied", old=DENY_RM, new='deny = ["tool_policy"]\n' + DENY_RM),
    Change(name="not allowed", old=DENY_RM, new="allow = []\n" + DENY_RM),
    Change(name="in other letters", old=DENY_RM, new=DENY_RM.replace("tool_policy", "Tool-Policy").replace("rm", "mv")),
    Change(name="what tools do", old=SETTINGS.format('vocabulary = { "Bash" = ["write"] }') + RULE.format("deny", 'does = "write"'), new=SETTINGS.format('vocabulary = { "Bash" = ["read"] }') + RULE.format("deny", 'does = "write"'), call="pwd"),
    Change(name="a looser rule, and a new one", old=DENY_RM, new=DENY_MV),
    Change(name="code is changed", old="plugins_file = CODE\n", new="plugins_file = CODE\n", code=(CODE, NO_CODE)),
    Change(name="code is gone", old="plugins_file = CODE\n", new="plugins_file = false\n", code=(CODE, CODE)),
    Change(name="a variable denies it", old=DENY_RM, new=DENY_RM, variables={"HOOKSDK_DENY": "tool_policy"}),
    Change(name="a variable allows others", old=DENY_RM, new=DENY_RM, variables={"HOOKSDK_ALLOW": "trace_file"}),
]  # fmt: skip


def write(place: Place, file: Path, text: str, code: str) -> None:
    """What a person writes, and trusts where it is the project's."""
    path = place.project / "hooksdk_plugins.py" if file != place.user else place.user.with_name("own_plugins.py")
    text = text.replace("CODE", "true" if file != place.user else f"'{path}'")
    path.write_text(code)
    if file.name == "pyproject.toml":
        document = tomlkit.document()
        document["tool"] = {"hooksdk": tomlkit.parse(text).unwrap()}
        text = tomlkit.dumps(document)
    file.write_text(text)


def trust(place: Place) -> None:
    """What `hooksdk trust` does after a yes."""
    _, merged = read_config(folder=place.project)
    if merged.to_look_at():
        record_trust(merged.trust)
    let_count(place.project)


FILES = {"user": "config/hooksdk/config.toml", "project": "project/hooksdk.toml", "pyproject": "project/pyproject.toml"}


@pytest.mark.parametrize("file", FILES)
@pytest.mark.parametrize("change", LOOSENED, ids=lambda change: change.name)
async def test_what_loosens_waits_in_each_session_until_a_person_has_said_that_it_may_count(
    place: Place, monkeypatch: pytest.MonkeyPatch, change: Change, file: str
):
    path = place.root / FILES[file]
    write(place, path, change.old, change.code[0])
    trust(place)
    helper = {"agent_id": "h1", "agent_type": "helper"}
    with_code = bool(change.code[0])

    async def refuses(judge: Judge, session: str, **more: Any) -> bool:
        try:
            return await place.says(judge, change.call, session, **more) == "deny"
        except ConfigError as error:
            return f"hooksdk trust {place.project}" in str(error)

    async with Judge() as judge:
        assert await place.says(judge, change.call) == "deny"
        assert await place.says(judge, change.call, "second") == "deny"
        for name, value in change.variables.items():
            monkeypatch.setenv(name, value)
        write(place, path, change.new, change.code[1])
        _, merged = read_config(folder=place.project)
        if merged.to_look_at():  # an agent can write into the user's file, too
            record_trust(merged.trust)
        assert [await refuses(judge, one) for one in ("s1", "second", "third")] == [True] * 3
        assert await refuses(judge, "s1", **helper)
    async with Judge() as judge:  # the next day
        assert [await refuses(judge, one) for one in ("s1", "fourth")] == [True] * 2
        assert await refuses(judge, "fifth", **helper)
        assert waiting(place.project)
        let_count(place.project)
        assert await place.says(judge, change.call) != "deny" or with_code
    async with Judge() as judge:
        assert await place.says(judge, change.call, "sixth") != "deny" or with_code
        assert waiting(place.project) == ""
