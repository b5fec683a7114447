"""The rules of a session are those of its beginning: what tightens counts at once, what loosens after a person's word alone."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio
import pytest
import tomlkit
from guard_hooks import after, before, hook
from warm import Done, run

from hooksdk.cli._config.around import VARIABLES, agent_around, is_agent, program_in
from hooksdk.cli._edits.configuration import record_trust
from hooksdk.config import read_config
from hooksdk.errors import ConfigError
from hooksdk.guard import Judge, _versions, let_count, to_let_count, waiting

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
    monkeypatch.chdir(tmp_path)  # a trace with a relative path is written there
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


LOOSENED = [
    Change(name="a rule is gone", old=DENY_RM + DENY_MV, new=DENY_MV),
    Change(name="all is gone", old=DENY_RM, new=""),
    Change(name="a condition is narrower", old=DENY_RM, new=DENY_RM + 'path_name = ["b"]\n'),
    Change(name="another tool", old=DENY_RM, new=DENY_RM.replace('"Bash"', '"Write"')),
    Change(name="for another agent", old=DENY_RM, new=DENY_RM + 'agents = "codex"\n'),
    Change(name="an ask", old=DENY_RM, new=DENY_RM.replace("deny", "ask")),
    Change(name="an allow", old=DENY_RM, new=DENY_RM.replace("deny", "allow").replace("reason", "title")),
    Change(name="a limit is there", old=DENY_RM, new=DENY_RM + "limit = { calls = 9 }\n"),
    Change(name="the default", old=SETTINGS.format('default = "deny"'), new=SETTINGS.format('default = "allow"')),
    Change(name="an ask where the default denies", old=SETTINGS.format('default = "deny"'), new=SETTINGS.format('default = "deny"') + RULE.format("ask", "")),
    Change(name="an allow where the default denies", old=SETTINGS.format('default = "deny"'), new=SETTINGS.format('default = "deny"') + ALLOW_RM),
    Change(name="shadow mode", old=DENY_RM, new=POLICY.format('mode = "shadow"') + DENY_RM),
    Change(name="switched off", old=DENY_RM, new=POLICY.format("enabled = false") + DENY_RM),
    Change(name="denied", old=DENY_RM, new='deny = ["tool_policy"]\n' + DENY_RM),
    Change(name="in other letters", old=DENY_RM, new=DENY_RM.replace("tool_policy", "Tool-Policy").replace("rm", "mv")),
    Change(name="what tools do", old=SETTINGS.format('vocabulary = { "Bash" = ["write"] }') + RULE.format("deny", 'does = "write"'), new=SETTINGS.format('vocabulary = { "Bash" = ["read"] }') + RULE.format("deny", 'does = "write"'), call="pwd"),
    Change(name="a looser rule, and a new one", old=DENY_RM, new=DENY_MV),
    Change(name="code is changed", old="plugins_file = CODE\n", new="plugins_file = CODE\n", code=(CODE, NO_CODE)),
    Change(name="code is gone", old="plugins_file = CODE\n", new="plugins_file = false\n", code=(CODE, CODE)),
    Change(name="a variable denies it", old=DENY_RM, new=DENY_RM, variables={"HOOKSDK_DENY": "tool_policy"}),
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


@pytest.mark.parametrize(
    ("change", "file"),
    [
        pytest.param(change, file, id=f"{change.name} in {file}")
        for change in LOOSENED
        for file in ("user", "project", *(["pyproject"] if change in LOOSENED[:2] else []))
    ],
)
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


async def test_a_limit_that_is_raised_waits(place: Place):
    place.rules.write_text(DENY_RM + "limit = { calls = 1, per = 'session' }\n")
    async with Judge() as judge:
        assert await place.says(judge) == ""
        await judge.answer("claude-code", after(place.project, "", command="rm a"))
        assert await place.says(judge, tool_use_id="t2") == "deny"
        place.rules.write_text(DENY_RM + "limit = { calls = 9, per = 'session' }\n")
        assert await place.says(judge, tool_use_id="t3") == "deny"
        let_count(place.project)
        assert await place.says(judge, tool_use_id="t4") == ""


async def calls_until_the_limit(place: Place, judge: Judge, **more: Any) -> None:
    await judge.answer("claude-code", hook(place.project, "UserPromptSubmit", prompt="hi"))
    assert await place.says(judge, **more) == ""
    await judge.answer("claude-code", {**after(place.project, "", command="rm a"), **more})


@pytest.mark.parametrize("helper", [{}, {"agent_id": "h1", "agent_type": "helper"}], ids=["agent", "sub-agent"])
@pytest.mark.parametrize("per", ["run", "family", "session", "requester", "tool"])
async def test_no_limit_begins_anew_by_a_change_that_counts(place: Place, per: str, helper: dict[str, str]):
    place.rules.write_text(DENY_RM + f"limit = {{ calls = 1, per = '{per}' }}\n")
    async with Judge() as judge:
        await calls_until_the_limit(place, judge, **helper)
        for number in range(3):
            place.rules.write_text(place.rules.read_text() + DENY_MV.replace("mv", f"mv{number}"))
            assert await place.says(judge, tool_use_id=f"t{number}", **helper) == "deny"
            assert await place.says(judge, f"mv{number}", tool_use_id=f"u{number}", **helper) == "deny"


@pytest.mark.parametrize(
    ("old", "new"),
    [("calls = 1", "calls = 1, window = '7d'"), ("removed", "deleted"), ('["rm"]', '["rm", "mv"]')],
    ids=["a window", "a reason", "a wider condition"],
)
async def test_no_limit_begins_anew_by_a_rule_of_other_words(place: Place, old: str, new: str):
    place.rules.write_text(DENY_RM + "limit = { calls = 1, per = 'session' }\n")
    async with Judge() as judge:
        await calls_until_the_limit(place, judge)
        place.rules.write_text(place.rules.read_text().replace(old, new))
        assert await place.says(judge, tool_use_id="t2") == "deny"
        place.rules.write_text(place.rules.read_text().replace("calls = 1", "calls = 8"))
        assert await place.says(judge, tool_use_id="t3") == "deny"


async def test_the_next_prompt_begins_a_run_after_a_change_as_well(place: Place):
    place.rules.write_text(DENY_RM + "limit = { calls = 1, per = 'run' }\n")
    async with Judge() as judge:
        await calls_until_the_limit(place, judge)
        place.rules.write_text(place.rules.read_text() + DENY_MV)
        await judge.answer("claude-code", hook(place.project, "UserPromptSubmit", prompt="again"))
        assert await place.says(judge, tool_use_id="t2") == ""


@pytest.mark.parametrize("way", ["a change", "a judge", "a sub-agent", "nothing"])
async def test_relative_paths_of_rules_mean_the_folder_in_which_the_session_began(place: Place, way: str):
    rule = RULE.format("deny", 'path_inside = "secret"').replace("Bash", "Write")
    place.rules.write_text(rule)
    (place.project / "deep").mkdir()
    call = {"tool": "Write", "file_path": str(place.project / "secret" / "x"), "content": "x"}
    helper = {"agent_id": "h1", "agent_type": "helper"} if way == "a sub-agent" else {}

    async def decision(judge: Judge, folder: Path, **more: Any) -> object:
        said = await judge.answer("claude-code", {**before(folder, **call), **more})
        return said.get("hookSpecificOutput", {}).get("permissionDecision")

    async with Judge() as judge:
        assert await decision(judge, place.project) == "deny"
        if way == "a change":
            place.rules.write_text(rule + DENY_MV)
        if way != "a judge":
            assert await decision(judge, place.project / "deep", **helper) == "deny"
    async with Judge() as judge:
        assert await decision(judge, place.project / "deep", **helper) == "deny"


OTHERS = {
    "store": ('store = "jsonl"', 'store = "memory"'),
    "on_missing_grant": ('on_missing_grant = "refuse"', 'on_missing_grant = "disable"'),
    "timeouts": ("[timeouts]\nbefore_tool_call = 5.0", "[timeouts]\nbefore_tool_call = 0.001"),
    "allow": ("", "allow = []"),
    "deny": ('deny = ["telemetry"]', 'deny = ["telemetry", "tool_policy"]'),
    "prices": ("", '[prices]\n"a:b" = { input = 0.0, output = 0.0 }'),
    "keep": ("[guard]\nkeep = 30", "[guard]\nkeep = 90"),
    "continues": ("[guard]\ncontinues = 3", "[guard]\ncontinues = 0"),
    "grants": ("", '[plugins.stranger]\ngrants = ["rewrite"]'),
    "another plugin": ("[plugins.trace_file]\nenabled = true", "[plugins.trace_file]\nenabled = false"),
    "its settings": ('[plugins.trace_file.config]\npath = "a.jsonl"', '[plugins.trace_file.config]\npath = "b.jsonl"'),
    "labels": ('[[plugins.tool_policy.config.results]]\ntools = "*"\nlabel = "untrusted"', '[[plugins.tool_policy.config.results]]\ntools = "*"\nlabel = "trusted"'),
}  # fmt: skip


@pytest.mark.parametrize(("old", "new"), OTHERS.values(), ids=OTHERS)
async def test_every_other_setting_is_frozen_too(place: Place, old: str, new: str):
    place.user.write_text(old)
    place.rules.write_text(DENY_RM)
    async with Judge() as judge:
        assert await place.says(judge) == "deny"
        kept = judge.projects[place.project, False]
        place.user.write_text(new)
        assert f"hooksdk trust {place.project}" in (await place.answer(judge))[1]
        assert (
            kept.waits
            == f"{waiting(place.project)}. That counts after a person's word alone. Look at it and type: hooksdk trust {place.project}"
        )
        place.user.write_text(old)
        assert (await place.answer(judge))[1] == "Blocked by tool_policy: nothing is removed here"


@pytest.mark.parametrize("new", ["[gateway]\ninstructions = 9", 'mcp = ["x.json"]', "[policy.properties]", "# a word"])
async def test_what_the_judge_does_not_read_waits_for_nobody(place: Place, new: str):
    place.user.write_text(DENY_RM)
    async with Judge() as judge:
        assert await place.says(judge) == "deny"
        place.user.write_text(f"{new}\n{DENY_RM}")
        assert (await place.answer(judge))[1] == "Blocked by tool_policy: nothing is removed here"


# What tightens


TIGHTENED = {
    "a rule": (DENY_RM, DENY_RM + DENY_MV),
    "a rule before others": (DENY_RM, DENY_MV + DENY_RM),
    "a rule beside a loosening": (DENY_RM + ALLOW_RM.replace("rm", "ls"), DENY_MV),
    "the first of all": (
        "",
        POLICY.format("enabled = true") + SETTINGS.format('default = "allow"') + DENY_RM + DENY_MV,
    ),
    "an ask": (DENY_RM, DENY_RM + DENY_MV.replace("deny", "ask")),
    "by the same words": (DENY_RM, DENY_RM.replace("removed", "deleted") + DENY_MV),
    "a wider condition": (DENY_RM, DENY_RM.replace('["rm"]', '["rm", "mv"]')),
    "a stricter action": (DENY_RM + DENY_MV.replace("deny", "ask"), DENY_RM + DENY_MV),
    "a deny beside an ask that loosens": (
        SETTINGS.format('default = "deny"') + ALLOW_RM + ALLOW_RM.replace("rm", "mv"),
        SETTINGS.format('default = "deny"')
        + ALLOW_RM
        + ALLOW_RM.replace("rm", "mv")
        + DENY_RM
        + DENY_MV
        + RULE.format("ask", 'command = ["ls"]'),
    ),
    "beside rules of another plugin": (
        DENY_RM,
        DENY_RM + DENY_MV + '[[plugins.stranger.config.rules]]\naction = "deny"\n',
    ),
    "out of shadow mode": (POLICY.format('mode = "shadow"') + DENY_RM + DENY_MV, DENY_RM + DENY_MV),
}
PROVED = ("by the same words", "a wider condition", "a stricter action")


@pytest.mark.parametrize("file", ["user", "project"])
@pytest.mark.parametrize(("old", "new"), TIGHTENED.values(), ids=TIGHTENED)
async def test_what_tightens_counts_at_once(place: Place, old: str, new: str, file: str):
    path = place.root / FILES[file]
    path.write_text(old)
    trust(place)
    async with Judge() as judge:
        assert await place.says(judge, "mv a b") != "deny"
        path.write_text(new)
        assert await place.says(judge, "mv a b") in ("deny", "ask")
        assert await place.says(judge) == "deny"
        path.write_text(old)
        assert await place.says(judge, "mv a b") in ("deny", "ask")
    async with Judge() as judge:
        assert await place.says(judge, "mv a b", "later") in ("deny", "ask")


@pytest.mark.parametrize("name", TIGHTENED)
async def test_without_the_solver_an_added_deny_or_ask_alone_tightens(
    place: Place, monkeypatch: pytest.MonkeyPatch, name: str
):
    monkeypatch.delitem(sys.modules, "hooksdk.rules.proofs", raising=False)
    monkeypatch.setitem(sys.modules, "z3", None)
    old, new = TIGHTENED[name]
    place.rules.write_text(old)
    async with Judge() as judge:
        await place.says(judge)
        place.rules.write_text(new)
        await place.says(judge)
        assert bool(waiting(place.project)) == (name in PROVED or "beside" in name)


async def test_a_comparison_that_takes_too_long_counts_as_loosening(place: Place, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(_versions, "STEPS", 100)
    old, new = TIGHTENED["a wider condition"]
    place.rules.write_text(old)
    async with Judge() as judge:
        await place.says(judge)
        place.rules.write_text(new)
        assert "take too long to compare" in (await place.answer(judge))[1]


# Where it begins


async def test_a_first_session_asks_nobody_and_a_broken_file_changes_nothing(place: Place):
    place.user.write_text(DENY_MV)
    async with Judge() as judge:
        assert await place.answer(judge, "ls") == ("", "")
        place.rules.write_text("[plugins")
        assert await place.says(judge, "mv a b") == "deny"
    async with Judge() as judge:
        assert await place.says(judge, "mv a b", "new") == "deny"
        place.rules.write_text(DENY_RM)
        assert await place.answer(judge) == ("deny", "Blocked by tool_policy: nothing is removed here")


async def test_what_the_user_lets_count_in_one_project_counts_in_all(place: Place):
    place.user.write_text(DENY_RM)
    other, third = place.root / "other", place.root / "third"
    other.mkdir()
    third.mkdir()
    async with Judge() as judge:
        assert await place.says(judge) == await place.says(judge, session="o", folder=other) == "deny"
        place.user.write_text("")
        sessions = {"s1": place.project, "o": other, "new": other, "t": third}
        assert [await place.says(judge, session=one, folder=folder) for one, folder in sessions.items()] == ["deny"] * 4
        let_count(third)
        assert [await place.says(judge, session=one, folder=folder) for one, folder in sessions.items()] == [""] * 4


async def test_rules_of_a_folder_below_count_in_new_sessions_once_they_are_trusted(place: Place):
    place.rules.write_text(DENY_RM)
    below = place.project / "below"
    below.mkdir()
    async with Judge() as judge:
        assert await place.says(judge) == "deny"
        (below / "hooksdk.toml").write_text(DENY_MV)
        git(place, "init", "-q", "below")
        decision, reason = await place.answer(judge, session="below", folder=below)
        assert decision == "deny"
        assert f"hooksdk trust {below}" in reason
        let_count(below)
        assert await place.says(judge, session="new", folder=below) == ""
        assert await place.says(judge, "mv a b", session="new", folder=below) == "deny"


async def test_a_pause_of_a_person_holds_and_after_it_the_rules_are_those_of_before(place: Place):
    place.rules.write_text(DENY_RM)
    paused = place.root / "state" / "guard" / "paused"
    async with Judge() as judge:
        assert await place.says(judge) == "deny"
        paused.write_text("inf")
        place.rules.write_text("")
        assert await place.says(judge) == ""
        paused.unlink()
        assert await place.says(judge) == "deny"


async def test_calls_at_once_meet_one_change(place: Place):
    place.rules.write_text(DENY_RM)
    said: list[str] = []

    async def ask(judge: Judge, number: int) -> None:
        said.append(await place.says(judge, session=f"s{number % 5}", tool_use_id=f"t{number}"))

    async with Judge() as judge:
        await place.says(judge)
        place.rules.write_text(DENY_RM.replace("deny", "ask"))
        async with anyio.create_task_group() as group:
            for number in range(20):
                group.start_soon(ask, judge, number)
    assert said == ["deny"] * 20


async def test_code_beside_the_plugins_file_is_frozen_with_it(place: Place):
    (place.project / "guard_words.py").write_text('WORD = "rm a"\n')
    code = CODE.replace('"rm a"', "guard_words.WORD").replace(
        "from hooksdk import", "import guard_words\nfrom hooksdk import", 1
    )
    (place.project / "hooksdk_plugins.py").write_text(code)
    place.rules.write_text("plugins_file = true\n")
    trust(place)
    async with Judge() as judge:
        assert await place.says(judge) == "deny"
    (place.project / "guard_words.py").write_text('WORD = "nothing"\n')
    async with Judge() as judge:
        with pytest.raises(ConfigError, match=r"guard_words\.py: has changed since you trusted it"):
            await place.says(judge)
        let_count(place.project)
        assert await place.says(judge) == "deny"  # the process has imported the file of before


async def test_code_that_a_handler_imports_is_frozen_once_it_was_imported(place: Place):
    (place.project / "guard_later.py").write_text('WORD = "rm a"\n')
    code = CODE.replace('"rm a"', "guard_later.WORD").replace("    return", "    import guard_later\n    return")
    (place.project / "hooksdk_plugins.py").write_text(code)
    place.rules.write_text("plugins_file = true\n")
    trust(place)
    async with Judge() as judge:
        assert await place.says(judge) == "deny"
    (place.project / "guard_later.py").write_text('WORD = "nothing"\n')
    async with Judge() as judge:
        with pytest.raises(ConfigError, match=r"guard_later\.py: has changed since you trusted it"):
            await place.says(judge)


FORMS: dict[str, Any] = {
    "where": "x",
    "settings": {},
    "files": {},
    "variables": {},
    "autoload": "",
    "folder": "x",
    "trusted": False,
}
RECORDS = [
    "", "{}", "[]", '{"folder": "x"}', "[" * 100_000, '{"where": "x", "settings": {}, "files": {}}',
    *(json.dumps({**FORMS, name: 3}) for name in FORMS),
]  # fmt: skip


@pytest.mark.parametrize(
    "settings", [{"gone": 1}, {"plugins": 3}, {"plugins": {"tool_policy": {"config": {"rules": [3]}}}}], ids=str
)
async def test_settings_that_this_version_does_not_know_say_how_others_come_to_count(place: Place, settings: object):
    place.rules.write_text(DENY_RM)
    async with Judge() as judge:
        assert await place.says(judge) == "deny"
    for path in place.records.iterdir():
        path.write_text(json.dumps({**json.loads(path.read_text()), "settings": settings}))
    async with Judge() as judge:
        with pytest.raises(ConfigError, match=f"hooksdk trust {place.project}"):
            await place.says(judge)
        let_count(place.project)
        assert await place.says(judge) == "deny"


@pytest.mark.parametrize("name", ["hooksdk.toml", "pyproject.toml"])
async def test_a_file_that_is_too_large_holds_up_nobody(place: Place, name: str):
    place.rules.write_text(DENY_RM)
    async with Judge() as judge:
        assert await place.says(judge) == "deny"
        place.rules.unlink()
        (place.project / name).write_text("# x\n" * 600_000)
        assert await place.says(judge) == "deny"
    assert waiting(place.project) == f"{place.project / name}: is too large: at most 2 MB"


@pytest.mark.parametrize("text", RECORDS, ids=lambda text: text[:60])
async def test_a_record_that_cannot_be_read_refuses_until_a_person_writes_it_anew(place: Place, text: str):
    place.rules.write_text(DENY_RM)
    async with Judge() as judge:
        assert await place.says(judge) == "deny"
    for path in place.records.iterdir():
        path.write_text(text)
    async with Judge() as judge:
        with pytest.raises(ConfigError, match="A person writes it anew with `hooksdk trust`"):
            await place.says(judge)
        assert "cannot be read" in waiting(place.project)
        let_count(place.project)
        assert await place.says(judge) == "deny"


@pytest.mark.parametrize("which", ["*", "user.json", "[0-9a-f]*.json"])
async def test_a_judge_that_runs_forgets_nothing_when_its_records_are_gone(place: Place, which: str):
    place.user.write_text(DENY_MV)
    place.rules.write_text(DENY_RM)
    async with Judge() as judge:
        assert await place.says(judge) == "deny"
        for record in place.records.glob(which):
            record.unlink()
        place.user.write_text("")
        place.rules.write_text("")
        assert [await place.says(judge, one) for one in ("rm a", "mv a b")] == ["deny"] * 2
    async with Judge() as judge:
        assert [await place.says(judge, one, "new") for one in ("rm a", "mv a b")] == ["deny"] * 2


# A person's word


def typed(place: Place, *words: str, stdin: str = "") -> Done:
    return run(words, folder=place.project, environment=dict(os.environ), stdin=stdin)


async def test_trust_and_status_say_what_waits(place: Place):
    place.rules.write_text(DENY_RM)
    assert "the guard" not in typed(place, "trust", "--yes").out
    async with Judge() as judge:
        assert await place.says(judge) == "deny"
        place.rules.write_text(DENY_MV)
        text = f"{place.rules}: plugin 'tool_policy' would say allow where it says deny"
        assert f"waiting     the rules stay as they were: {text}" in typed(place, "guard", "status").out
        assert text in json.loads(typed(place, "guard", "status", "--json").out)["waiting"][str(place.project)]
        asked = typed(place, "trust")
        assert "nobody is there to answer" in asked.err
        assert await place.says(judge) == "deny"
        done = typed(place, "trust", "--yes")
        assert f"This would count: {text}" in done.out
        assert "the guard's rules are the new ones from the next call on" in done.out
        assert await place.says(judge) == ""
        assert typed(place, "guard", "status", "--json").json()["waiting"] == {}


async def test_trust_shows_all_that_waits_and_lets_nothing_else_count(place: Place):
    place.user.write_text('store = "jsonl"')
    place.rules.write_text(DENY_RM + DENY_MV)
    async with Judge() as judge:
        assert await place.says(judge) == "deny"
        place.user.write_text("")
        place.rules.write_text("")
        reasons, let = to_let_count(place.project)
        assert [word for word in ("'store'", '"rm"', '"mv"') if any(word in one for one in reasons)] == [
            "'store'", '"rm"', '"mv"',
        ]  # fmt: skip
        place.rules.write_text(ALLOW_RM)
        with pytest.raises(ConfigError, match="has changed while you looked at it, and waits still"):
            let()
        assert await place.says(judge) == "deny"
        place.rules.write_text("")
        let()
        assert await place.says(judge) == ""


PEOPLE = [
    "sudo -u claude bash", "su - claude", "login -pf claude", "SCREEN -S claude", "code --unity-launch /home/ada/codex", "vim claude.md",
    "/home/ada/codex/node_modules/electron/dist/electron .", "node /home/ada/codex/node_modules/vite/bin/vite.js", "tmux new -s codex",
    "sshd: claude@pts/0", "make claude", "git -C codex rebase", "-zsh", "bash|-c|cd /home/ada/codex", "sh|-lc|hooksdk trust /home/ada/codex",
]  # fmt: skip
PROGRAMS = [
    "claude", "/usr/local/bin/codex exec", "node /usr/lib/node_modules/@openai/codex/bin/codex.js", "/bin/sh /home/ada/bin/claude",
    "node --no-warnings=X /opt/node_modules/@google/gemini-cli/dist/index.js", "node /home/ada/codex/node_modules/@qwen-code/qwen-code/cli.js",
    "/x/node_modules/@anthropic-ai/claude-code/vendor/rg", "bun /x/node_modules/@anthropic-ai/claude-code/cli.js", "python3.12 /usr/bin/claude",
    "node /x/node_modules/@anthropic-ai/claude-agent-sdk/cli.js",
]  # fmt: skip


@pytest.mark.parametrize("line", [*PEOPLE, *PROGRAMS])
def test_a_program_is_an_agent_by_its_own_name_and_not_by_a_user_folder_or_file_called_so(line: str):
    words = program_in(line.split("|") if "|" in line else line.split())
    assert any(map(is_agent, words)) == (line in PROGRAMS)


AROUND = {
    "claude": "claude",
    "a link": "node_modules/.bin/codex",
    "a package's script": "node_modules/@google/gemini-cli/bundle/main.js",
    "qwen": "qwen",
}


@pytest.mark.parametrize("name", AROUND.values(), ids=AROUND)
@pytest.mark.parametrize("way", ["{}", "env -i PATH=/usr/bin:/bin sh -c '{} ; exit $?'", "setsid -w {}"])
def test_trust_is_no_word_of_an_agent(place: Place, name: str, way: str):
    script = place.root / name
    script.parent.mkdir(parents=True, exist_ok=True)
    line = f"{sys.executable} -m hooksdk trust --yes {place.project}"
    script.write_text(f"#!/bin/sh\n{way.format(line)}\ncode=$?\nexit $code\n")
    script.chmod(0o755)
    place.rules.write_text("plugins_file = true\n")
    (place.project / "hooksdk_plugins.py").write_text(CODE)
    done = subprocess.run([str(script)], cwd=place.project, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert f"trust is a person's word, and this was started by {script} (process " in done.stderr
    assert not place.user.exists()


@pytest.mark.parametrize("variable", VARIABLES)
def test_the_variables_of_agents_tell_of_them(monkeypatch: pytest.MonkeyPatch, variable: str):
    for one in VARIABLES:
        monkeypatch.delenv(one, raising=False)
    monkeypatch.setenv(variable, "1")
    assert agent_around() == f"an agent, as the variable {variable} says"
