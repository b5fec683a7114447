"""constraints.txt has everything that hooksdk and its extras ask for, at versions that they allow, with hashes."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[1]
LEFT_OUT = {"dev", "docs", "google-adk", "strands"}
"""For work on hooksdk itself, or in an environment of its own."""
TEXT = (ROOT / "constraints.txt").read_text("utf-8")
MATCHES = list(
    re.finditer(
        r"^(?P<name>[a-z0-9-]+)==(?P<version>\S+)(?P<marker> ; [^\\]+)?(?P<hashes>(?: \\\n    --hash=sha256:[0-9a-f]{64})+)$",
        TEXT,
        re.MULTILINE,
    )
)
ENTRIES = {match["name"]: match for match in MATCHES}


def direct() -> list[Requirement]:
    """What pyproject.toml names for users, without hooksdk's own extras by name."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    extras = [lines for extra, lines in project["optional-dependencies"].items() if extra not in LEFT_OUT]
    wanted = [Requirement(line) for lines in (project["dependencies"], *extras) for line in lines]
    return [one for one in wanted if one.name != "hooksdk"]


def test_every_line_is_a_version_or_one_of_its_hashes_and_names_no_place():
    lines = TEXT.splitlines()
    odd = [
        line
        for line in lines
        if not re.fullmatch(r"[a-z0-9-]+==\S+( ; [^\\:/]+)? \\|    --hash=sha256:[0-9a-f]{64}( \\)?", line)
    ]
    assert odd == []
    assert len(MATCHES) == len([line for line in lines if "==" in line.partition(" ")[0]])


@pytest.mark.parametrize("wanted", direct(), ids=str)
def test_what_is_asked_for_is_there_at_a_version_that_is_allowed(wanted: Requirement):
    entry = ENTRIES.get(canonicalize_name(wanted.name))
    advice = "scripts/constraints writes it anew"
    assert entry is not None, f"{wanted.name} is missing: {advice}"
    assert entry["marker"] is None, f"{wanted.name} is there for some systems only"
    assert wanted.specifier.contains(entry["version"]), f"{entry[0].split()[0]} is not {wanted}: {advice}"
