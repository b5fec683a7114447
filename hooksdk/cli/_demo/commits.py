"""A plugin of the light demo: the history of a repository, kept as JSON lines, so that no git is needed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from hooksdk import ToolError, tool

HISTORY = "history.jsonl"
"""One commit a line, the newest last: `commit`, `author`, `mail`, `date`, `message`, `files`."""

Commit = dict[str, Any]


class Commits:
    """Reads the history of a repository."""

    plugin_id = "commits"

    @tool
    def commit_log(self, repo_path: str, max_count: int = 10) -> str:
        """Show the commit log of a repository, the newest commit first.

        Args:
            repo_path: The repository's folder.
            max_count: How many commits to show at most.

        """
        return "\n".join(_entry(commit) for commit in reversed(_read(repo_path)[-max_count:]))


def _read(repo_path: str) -> list[Commit]:
    path = Path(repo_path) / HISTORY
    if not path.is_file():
        raise ToolError(f"{repo_path} is no repository: it has no file {HISTORY}")
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def _entry(commit: Commit) -> str:
    lines = (f"{name.capitalize()}: {commit[name]}\n" for name in ("commit", "author", "date", "message"))
    return "".join(lines)
