"""The comparison of failing policies: what docs/comparison.md says of hooksdk is tried here on both event loops, what it
says of others is what benchmarks/policy_failures.py measured and stored. No rival is installed by the tests."""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path
from threading import Timer
from typing import Any

import anyio
import pytest
from pages import table

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"
sys.path += [str(BENCHMARKS), str(BENCHMARKS / "_rivals")]
policy_failures = import_module("policy_failures")
hooksdk_policies = import_module("hooksdk_policies")
policy_scene = import_module("policy_scene")
misspelt_rules = import_module("misspelt_rules")
hooksdk_rules = import_module("hooksdk_rules")
rule_cases = import_module("rule_cases")

PAGE = "comparison.md"
CASES: dict[str, str] = policy_scene.CASES
COLUMNS: list[dict[str, Any]] = policy_failures.stored()
GROUPS: tuple[str, ...] = policy_failures.GROUPS
TITLES = {
    group: [policy_failures.title(column) for column in policy_failures.shown_in(group, COLUMNS)] for group in GROUPS
}


def told(title: str) -> dict[str, str]:
    """What the page says of one column, by row."""
    (group,) = [group for group in GROUPS if title in TITLES[group]][:1]
    number = TITLES[group].index(title) + 1
    return {row[0]: row[number] for row in table(PAGE, "a policy that", *TITLES[group])}


@pytest.mark.light(every=9)
@pytest.mark.both_loops
@pytest.mark.parametrize("column", COLUMNS[:2], ids=policy_failures.title)
@pytest.mark.parametrize("case", CASES)
async def test_the_page_says_what_hooksdk_does_when_a_policy_fails(
    case: str, column: dict[str, Any], anyio_backend_name: str
) -> None:
    if case == "cancelled" and anyio_backend_name == "trio":
        pytest.skip("trio has no cancellation that can be raised")
    scene = policy_scene.Scene(case, column["setting"], limit=0.05, sleep=anyio.sleep)
    said = told(policy_failures.title(column))[CASES[case]]
    if said == "hangs":  # the event loop stands still, so somebody else has to let the policy go
        Timer(0.5, scene.release.set).start()
    error = None
    try:
        await hooksdk_policies.attempt(scene)
    except Exception as raised:
        error = raised
    outcome = "hangs" if scene.release.is_set() else scene.outcome(error)
    scene.release.set()
    assert outcome == said


@pytest.mark.parametrize("column", COLUMNS, ids=policy_failures.title)
def test_the_page_says_what_was_measured(column: dict[str, Any]) -> None:
    assert told(policy_failures.title(column)) == {CASES[case]: said for case, said in column["outcomes"].items()}


def test_every_rival_was_measured_at_the_version_that_the_script_installs() -> None:
    measured = [(column["name"], column["setting"], column["package"]) for column in COLUMNS]
    assert measured == [
        (rival.name, setting, rival.package)
        for rival in policy_failures.RIVALS
        for setting in dict.fromkeys(["", rival.strict])
    ]


def test_the_page_tells_version_and_day_of_each_measurement() -> None:
    rows = {row[0]: row[1:3] for row in table(PAGE, "", "version", "measured")}
    assert rows == {
        column["name"]: [column["version"], column["measured"]]
        for column in COLUMNS
        if not column["setting"] and column["name"] != "hooksdk"
    }


def test_both_tables_of_the_page_show_hooksdk_alike() -> None:
    first, second = ([row[:2] for row in table(PAGE, "a policy that", *TITLES[group])] for group in GROUPS)
    assert first == second


RULES: list[dict[str, Any]] = misspelt_rules.stored()
RULE_TITLES = [column["name"] for column in RULES if column["name"] != misspelt_rules.HIDDEN]


def told_of_rules(name: str) -> dict[str, str]:
    """What the page says of one column of misspelt rules, by row."""
    number = RULE_TITLES.index(name) + 1
    return {row[0]: row[number] for row in table(PAGE, "a rule that", *RULE_TITLES)}


@pytest.mark.light(every=9)
@pytest.mark.both_loops
@pytest.mark.usefixtures("anyio_backend")
@pytest.mark.parametrize("case", rule_cases.CASES)
async def test_a_rule_that_is_misspelt_does_in_hooksdk_what_the_page_says(case: str) -> None:
    scene = policy_scene.Scene(case)
    error = None
    try:
        await hooksdk_rules.attempt(scene)
    except Exception as raised:
        error = raised
    assert scene.outcome(error) == told_of_rules("hooksdk")[rule_cases.CASES[case]]
    assert not scene.ran or case in {"allows", "tool"}  # a tool that there is not may yet come


@pytest.mark.parametrize("column", RULES, ids=lambda column: column["name"])
def test_the_page_says_what_was_measured_of_misspelt_rules(column: dict[str, Any]) -> None:
    shown = "agent-governance-toolkit" if column["name"] == misspelt_rules.HIDDEN else column["name"]
    assert told_of_rules(shown) == {rule_cases.CASES[case]: said for case, said in column["outcomes"].items()}


def test_the_rules_of_every_rival_were_measured_at_the_version_that_the_script_installs() -> None:
    assert [(column["name"], column["package"]) for column in RULES] == [
        (rival.name, rival.package) for rival in misspelt_rules.RIVALS
    ]
    page = (BENCHMARKS.parent / "docs" / PAGE).read_text("utf-8")
    for column in RULES[1:]:
        assert column["version"] in page
        assert column["measured"] in page


def test_the_pages_tell_what_became_of_the_six_misspellings_elsewhere_and_here() -> None:
    outcomes = {column["name"]: [column["outcomes"][case] for case in rule_cases.SIX] for column in RULES}
    coming_from = "coming-from/agent-governance-toolkit.md"
    rows = table(coming_from, "what is wrong", "there", "what happens there")
    assert [row[2] for row in rows] == outcomes["agent-governance-toolkit"]
    assert [row[4] for row in rows] == outcomes["hooksdk"]
    assert outcomes["agent-governance-toolkit"].count("ran") == 5
    for page in (PAGE, coming_from):
        assert "five of the six" in (BENCHMARKS.parent / "docs" / page).read_text("utf-8")


CHILD = """
import sys, time
sys.path.append({rivals!r})
from policy_scene import main

async def attempt(scene):
    if scene.case == "hangs":
        time.sleep(3600)
    if scene.case == "exits":
        import os
        os._exit(3)
    with scene.calling():
        if scene.case != "blocks":
            scene.asked = True
            await scene.act("a.txt")

main("pluggy", attempt)
"""


@pytest.mark.heavy
def test_a_case_that_hangs_or_ends_the_process_does_not_keep_the_others_from_being_measured(
    tmp_path: Path,
) -> None:
    file = tmp_path / "child.py"
    file.write_text(CHILD.format(rivals=str(BENCHMARKS / "_rivals")))
    outcomes = policy_failures.measure("child", Path(sys.executable), file, guard=5)["outcomes"]
    assert list(outcomes) == list(CASES)
    assert outcomes == {
        **dict.fromkeys(CASES, "ran"),
        "blocks": "blocked",
        "exits": "ends the process",
        "hangs": "hangs",
    }


@pytest.mark.heavy
def test_a_rival_whose_policy_cannot_block_is_left_out(tmp_path: Path) -> None:
    file = tmp_path / "child.py"
    source = CHILD.replace('if scene.case != "blocks"', "if True").replace('== "hangs"', '== "never"')
    file.write_text(source.format(rivals=str(BENCHMARKS / "_rivals")))
    with pytest.raises(policy_failures.NotMeasured, match="neither allows nor blocks"):
        policy_failures.measure("child", Path(sys.executable), file)


@pytest.mark.heavy
def test_a_rival_that_does_not_start_is_left_out(tmp_path: Path) -> None:
    file = tmp_path / "child.py"
    file.write_text("import no_such_package")
    with pytest.raises(policy_failures.NotMeasured, match="does not start"):
        policy_failures.measure("child", Path(sys.executable), file)


def test_the_page_explains_every_outcome_that_it_shows() -> None:
    shown = {outcome for column in COLUMNS for outcome in column["outcomes"].values()} - {"-"}
    explained = {row[0] for row in table(PAGE, "outcome", "what it means")}
    assert explained == shown
