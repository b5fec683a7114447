"""The small repository of the demo, made in one step: as a file of history, or as a real one of git."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
from datetime import UTC, datetime
from pathlib import Path

from hooksdk.cli._demo.commits import HISTORY, Commit

AUTHORS = ("Mara Lind", "Tom Okafor", "Inés Ruiz", "Yuki Arai")
SUBJECTS = (
    "Start the weather station: one sensor, one loop",
    "Read the barometer once a minute",
    "Keep readings in a ring buffer",
    "Write a reading a line, as CSV",
    "Fix: a missing sensor stopped the loop",
    "Add the rain gauge",
    "Convert inches of mercury to hectopascal",
    "Name sensors in the configuration, not in the code",
    "Show the last hour as a chart in the terminal",
    "Fix: daylight saving time doubled an hour",
    "Send readings by MQTT where a broker is configured",
    "Retry the broker with growing pauses",
    "Document the wiring of the wind vane",
    "Average wind directions as vectors",
    "Fix: an average of 350 and 10 degrees was 180",
    "Warn when the battery falls below 3.4 volts",
    "Measure how long one reading takes",
    "Read all sensors at once instead of in turn",
    "Test the loop against recorded readings",
    "Keep a day of readings when the disk is full",
    "Rotate the CSV file at midnight",
    "Fix: rotation lost the first reading of a day",
    "Add a page with today's minimum and maximum",
    "Translate the page into Spanish",
    "Round temperatures to what the sensor can tell",
    "Say which sensor failed, and since when",
    "Use the station's own clock, not the phone's",
    "Fix: leap second froze the loop",
    "Add an alarm for frost",
    "Release 1.0",
)
FIRST_DAY = 1_767_600_000
"""2026-01-05, as seconds since the epoch."""


def make_history(folder: Path) -> int:
    """Write the history into an empty folder, where git is not needed; answers how many commits it has."""
    folder.mkdir(parents=True)
    lines = [json.dumps(commit, ensure_ascii=False) for commit in _commits()]
    (folder / HISTORY).write_text("".join(f"{line}\n" for line in lines), "utf-8")
    return len(lines)


def _commits() -> list[Commit]:
    commits: list[Commit] = []
    parent = ""
    for number, subject in enumerate(SUBJECTS, start=1):
        author, mail, seconds = _signature(number)
        parent = hashlib.sha1(f"{parent}{author}{seconds}{subject}".encode(), usedforsecurity=False).hexdigest()
        date = datetime.fromtimestamp(seconds, UTC).isoformat()
        files = ["CHANGES", *(["README"] if subject.startswith(("Document", "Release")) else [])]
        commits.append(
            {"commit": parent, "author": author, "mail": mail, "date": date, "message": subject, "files": files}
        )
    return commits


def _signature(number: int) -> tuple[str, str, int]:
    """Author, mail address and time of a commit."""
    author = AUTHORS[number * 7 % len(AUTHORS)]
    return author, f"{author.split()[0].lower()}@station.example", FIRST_DAY + number * 61_200


def make_repository(folder: Path) -> int:
    """Make a git repository in an empty folder, and answer how many commits it has. Raises `OSError` without git."""
    folder.mkdir(parents=True)
    _git(folder, "init", "--quiet", "--initial-branch=main")
    _git(folder, "fast-import", "--quiet", stream=_history())
    _git(folder, "reset", "--quiet", "--hard", "main")
    return len(SUBJECTS)


def _history() -> bytes:
    parts: list[bytes] = []
    for number, subject in enumerate(SUBJECTS, start=1):
        author, mail, seconds = _signature(number)
        stamp = f"{author} <{mail}> {seconds} +0000"
        message = f"{subject}\n".encode()
        text = "".join(f"{line}\n" for line in SUBJECTS[:number]).encode()
        head = (
            f"commit refs/heads/main\nmark :{number}\nauthor {stamp}\ncommitter {stamp}\ndata {len(message)}\n".encode()
        )
        before = f"from :{number - 1}\n".encode() if number > 1 else b""
        parts += [head, message, before, f"M 100644 inline CHANGES\ndata {len(text)}\n".encode(), text, b"\n"]
    return b"".join(parts)


def _git(folder: Path, *arguments: str, stream: bytes | None = None) -> None:
    process = subprocess.run(  # noqa: S603 - fixed arguments
        ["git", "-C", str(folder), *arguments],  # noqa: S607 - the user's git, whatever its place
        input=stream, capture_output=True, check=False,
        # Called from a git hook, git's own variables would point it at another repository.
        env={name: value for name, value in os.environ.items() if not name.startswith("GIT_")},
    )  # fmt: skip
    if process.returncode:
        raise OSError(f"git {arguments[0]} failed: {process.stderr.decode(errors='replace').strip()}")
