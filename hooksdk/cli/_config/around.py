"""The coding agent that has started this command, if any: a person's word is not taken from an agent."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

# Variables that agents set in the shells of their tools.
VARIABLES = ("CLAUDECODE", "CLAUDE_CODE_ENTRYPOINT", "CODEX_SANDBOX", "CODEX_THREAD_ID", "GEMINI_CLI", "QWEN_CODE")
# The names of agents' programs and packages.
_NAMES = {"claude", "claude-code", "claude-agent-sdk", "codex", "gemini", "gemini-cli", "qwen", "qwen-code"}
# Programs that run a script. The first word of any other program may be a folder, a user or a file with an agent's
# name.
_INTERPRETERS = ("node", "bun", "deno", "python", "sh", "bash", "dash", "zsh", "ksh", "fish", "busybox")
_DEEPEST = 100


def agent_around() -> str:
    """The agent that has started this process, in words; empty without one. A process that has left its parents and
    cleared its variables cannot be told from a person's."""
    if variable := next((name for name in VARIABLES if name in os.environ), ""):
        return f"an agent, as the variable {variable} says"
    for pid, words in _parents():
        if word := next(filter(is_agent, words), ""):
            return f"{word} (process {pid})"
    return ""


def is_agent(word: str) -> bool:
    """True for a program of an agent, and a script in the package of one."""
    path = Path(word)
    return path.stem in _NAMES or not _NAMES.isdisjoint(word.partition("node_modules/")[2].split("/")[:-1])


def _parents() -> Iterator[tuple[int, list[str]]]:
    """The parents of this process, each with its program, and with the script that an interpreter runs."""
    pid = os.getppid()
    for _ in range(_DEEPEST):
        if pid <= 1:
            return
        parent, words = _by_proc(pid) if Path("/proc/self/stat").exists() else _by_ps(pid)
        yield pid, words
        pid = parent


def _by_proc(pid: int) -> tuple[int, list[str]]:
    place = Path("/proc") / str(pid)
    try:
        parent = int((place / "stat").read_text("utf-8", "replace").rpartition(")")[2].split()[1])
        words = (place / "cmdline").read_bytes().decode(errors="replace").split("\0")
        name = (place / "comm").read_text("utf-8", "replace").strip()
    except (OSError, ValueError):  # it has ended meanwhile
        return 0, [""]
    return parent, [*program_in(words), name]


def _by_ps(pid: int) -> tuple[int, list[str]]:
    done = subprocess.run(  # noqa: S603
        ["/bin/ps", "-o", "ppid=,command=", "-p", str(pid)], capture_output=True, text=True, check=False
    )
    parent, *words = done.stdout.split() or ["0"]
    return int(parent), program_in(words or [""])


def program_in(words: list[str]) -> list[str]:
    """The program, and an interpreter's script: the first word that is no option. Behind `-c` are commands."""
    if Path(words[0]).name.lstrip("-").startswith(_INTERPRETERS):
        for word in words[1:]:
            if not word.startswith("-"):
                return [words[0], word]
            if word.endswith("c"):
                break
    return words[:1]
