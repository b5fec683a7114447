"""Which hooksdk this is: the version of the release, and of a checkout also the commit.

`hooksdk.__version__` imports this file when it is first asked for, since it may run git; the build backend asks it, too.
"""

from __future__ import annotations

import os
import subprocess
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

RELEASE = "0.2.0"
"""The one literal: the release that these sources are, or become."""

ROOT = Path(__file__).parents[2]


def _git(*arguments: str) -> str:
    # Inside a hook of git these variables name another repository than the folder.
    env = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    command = ["git", "-C", str(ROOT), *arguments]
    done = subprocess.run(command, env=env, stdin=subprocess.DEVNULL, capture_output=True, timeout=10, check=True)  # noqa: S603
    return done.stdout.decode().strip()


def checked_out() -> str:
    """`RELEASE` at its tag; elsewhere in a clone `0.2.0.dev1290+g144108f2`, with `.dirty` where files were changed.

    Outside of a clone, and where git does not answer, it is "".
    """
    project = ROOT / "pyproject.toml"
    # A folder with another project's `.git` may hold a copy of hooksdk.
    if not (ROOT / ".git").exists() or not project.exists() or '\nname = "hooksdk"\n' not in project.read_text("utf-8"):
        return ""
    try:
        described = _git("describe", "--always", "--long", "--dirty", "--tags", "--match", f"v{RELEASE}")
        commits = _git("rev-list", "--count", "HEAD")
    except (OSError, subprocess.SubprocessError):
        return ""
    tag, _, commit = described.rpartition("-g") if "-g" in described else ("", "", described)
    if tag.endswith("-0") and not commit.endswith("-dirty"):
        return RELEASE
    return f"{RELEASE}.dev{commits}+g{commit.replace('-', '.')}"


def _installed() -> str:
    try:
        return version("hooksdk")
    except PackageNotFoundError:
        return RELEASE


__version__ = checked_out() or _installed()
