"""A plugin of the light demo: the history of a repository, kept as JSON lines, so that no git is needed."""

from __future__ import annotations

import json
from collections import Counter
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

    @tool
    def show_commit(self, repo_path: str, revision: str) -> str:
        """Show one commit: who, when, the message and the files it touched.

        Args:
            repo_path: The repository's folder.
            revision: The commit's id, or the beginning of it.

        """
        commit = _find(repo_path, revision)
        return f"{_entry(commit)}Files: {', '.join(commit['files'])}\n"

    @tool
    def search_commits(self, repo_path: str, words: str) -> str:
        """Find commits whose message contains these words, in any case.

        Args:
            repo_path: The repository's folder.
            words: What the message must contain.

        """
        return _list(one for one in _read(repo_path) if words.lower() in one["message"].lower())

    @tool
    def commits_by_author(self, repo_path: str, author: str) -> str:
        """List the commits of one author.

        Args:
            repo_path: The repository's folder.
            author: The author's name, or a part of it.

        """
        return _list(one for one in _read(repo_path) if author.lower() in one["author"].lower())

    @tool
    def commits_between(self, repo_path: str, since: str, until: str) -> str:
        """List the commits of a span of days.

        Args:
            repo_path: The repository's folder.
            since: The first day, such as 2026-01-05.
            until: The last day, which counts as well.

        """
        return _list(one for one in _read(repo_path) if since <= one["date"][:10] <= until)

    @tool
    def commit_authors(self, repo_path: str) -> str:
        """Count the commits of each author of a repository.

        Args:
            repo_path: The repository's folder.

        """
        return json.dumps(dict(Counter(one["author"] for one in _read(repo_path)).most_common()), ensure_ascii=False)

    @tool
    def commits_per_day(self, repo_path: str) -> str:
        """Count the commits of each day of the week.

        Args:
            repo_path: The repository's folder.

        """
        from datetime import datetime

        return json.dumps(Counter(f"{datetime.fromisoformat(one['date']):%A}" for one in _read(repo_path)))

    @tool
    def file_history(self, repo_path: str, file: str) -> str:
        """List the commits that touched one file of the repository.

        Args:
            repo_path: The repository's folder.
            file: The file's name in the repository.

        """
        return _list(one for one in _read(repo_path) if file in one["files"])

    @tool
    def latest_release(self, repo_path: str) -> str:
        """Tell the newest commit that made a release, and how many commits there are since.

        Args:
            repo_path: The repository's folder.

        """
        commits = _read(repo_path)
        for since, commit in enumerate(reversed(commits)):
            if commit["message"].startswith("Release "):
                return f"{commit['commit'][:10]} {commit['message']}, {since} commits ago"
        raise ToolError(f"{repo_path} has no release yet")


def _read(repo_path: str) -> list[Commit]:
    path = Path(repo_path) / HISTORY
    if not path.is_file():
        raise ToolError(f"{repo_path} is no repository: it has no file {HISTORY}")
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def _find(repo_path: str, revision: str) -> Commit:
    found = [one for one in _read(repo_path) if one["commit"].startswith(revision)]
    if len(found) != 1:
        raise ToolError(f"{len(found)} commits begin with {revision!r}; give more of the id")
    return found[0]


def _entry(commit: Commit) -> str:
    lines = (f"{name.capitalize()}: {commit[name]}\n" for name in ("commit", "author", "date", "message"))
    return "".join(lines)


def _list(commits: Any) -> str:
    return "\n".join(f"{one['commit'][:10]} {one['date'][:10]} {one['author']}: {one['message']}" for one in commits)
