"""Which arguments hold a command line, and what stands in it for those who look for a path or an address."""

from __future__ import annotations

import re
from collections.abc import Iterator

from builtin_plugins.tool_policy._shell import read_line, with_holes
from builtin_plugins.tool_policy._shell_words import HOLES, Command

LINE_NAMES = frozenset({
    "command", "commands", "cmd", "cmds", "cmdline", "commandline", "script", "shell", "bash", "exec", "argv", "program", "executable",
})  # fmt: skip
"""The last words of names such as `shell_command`."""
_PROGRAMS = frozenset({
    "apt-get", "awk", "bash", "cd", "chmod", "chown", "cp", "crontab", "curl", "dd", "docker", "eval", "git", "grep", "kubectl", "ln", "ls",
    "mkfs", "mv", "nc", "node", "npm", "npx", "perl", "pip", "powershell", "python", "python3", "rm", "rmdir", "rsync", "scp", "sed", "sh", "ssh", "sudo",
    "systemctl", "tar", "wget", "xargs", "zsh",
})  # fmt: skip
"""Programs whose names begin no sentence."""
_WITH_A_PATH = re.compile(
    r"(?:cat|echo|find|head|less|more|nano|open|source|tail|touch|type|vi|vim)\s+[\"'<]?\s*(?:-|/|~|\.\.?/)"
)
"""Programs whose names are words as well, before what no sentence goes on with."""
_MAX_DEPTH = 4
_PARTS = re.compile(r"[=:,@]")
_ADDRESS = re.compile(r"https?://", re.IGNORECASE)


def resembles_line(text: str) -> bool:
    """True for a text of one line that begins with a program which is hardly a word of a sentence, or has one after `;`,
    `|` or `&&`."""
    start = text.strip()
    if not start or "\n" in start or len(start) > 1000:
        return False
    first = re.findall(r"(?:^|[;&|`]|\$\()\s*(?:[\w./-]*/)?([\w.-]+)(?=[\s;&|)]|$)", start)
    if any(word in _PROGRAMS for word in first) and (" " in start or len(first) > 1):
        return True
    return _WITH_A_PATH.match(start) is not None


def texts_in(text: str, depth: int = 0) -> Iterator[str]:
    """Every word of a line without its quotes, the parts of words such as `--file=PATH` and `host:PATH`, and the words of lines
    within it. Parts that are filled in later are holes."""
    for command in read_line(with_holes(text) if depth == 0 else text).commands:
        yield from texts_of(command, depth)


def texts_of(command: Command, depth: int = 0) -> Iterator[str]:
    """The same of one command."""
    for word in (*command.words, *command.assigned, *command.files):
        yield word
        yield from parts_of(word)
        if depth < _MAX_DEPTH and re.search(r"[\s;|&()<>\"']", word):
            yield from texts_in(word, depth + 1)
    if depth < _MAX_DEPTH:
        for fed in command.fed:
            yield from texts_in(fed, depth + 1)


def parts_of(word: str) -> list[str]:
    """The parts of a word such as `--file=PATH` or `host:PATH`; none of a word that has none, nor of an address of the web."""
    return _PARTS.split(word) if _PARTS.search(word) and not _ADDRESS.match(word) else []


def folders_in(text: str) -> list[str]:
    """The folders that a line goes to, by `cd` or an option `-C`."""
    found: list[str] = []
    for command in read_line(with_holes(text)).commands:
        words = command.words
        if words and words[0] in {"cd", "pushd"}:
            found += words[1:]
        found += [words[at + 1] for at, word in enumerate(words[:-1]) if word == "-C"]
    return [word for word in found if HOLES.isdisjoint(word) and not word.startswith("-")]
