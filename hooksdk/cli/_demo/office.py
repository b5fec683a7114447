"""Plugins of the light demo: files, texts and times, as an office has them."""

from __future__ import annotations

import base64
import difflib
import hashlib
import json
import re
import shutil
import textwrap
from datetime import UTC, date, datetime, timedelta, timezone
from pathlib import Path
from typing import Literal

from hooksdk import Annotations, tool

READS = Annotations(read_only=True)


class Files:
    """Looks after files and folders."""

    plugin_id = "files"

    @tool(annotations=READS)
    def list_folder(self, folder: str) -> str:
        """List the files and folders in a folder.

        Args:
            folder: The folder.

        """
        return "\n".join(sorted(f"{one.name}{'/' if one.is_dir() else ''}" for one in Path(folder).iterdir()))

    @tool(annotations=READS)
    def read_text_file(self, file: str, max_chars: int = 20_000) -> str:
        """Read a text file.

        Args:
            file: The file.
            max_chars: How many characters to read at most.

        """
        return Path(file).read_text("utf-8")[:max_chars]

    @tool
    def write_text_file(self, file: str, text: str) -> str:
        """Write a text file, over what it held before.

        Args:
            file: The file.
            text: Its new content.

        """
        Path(file).write_text(text, "utf-8")
        return f"{len(text)} characters written to {file}"

    @tool
    def append_to_file(self, file: str, text: str) -> str:
        """Add text at the end of a text file.

        Args:
            file: The file.
            text: What is to be added.

        """
        with Path(file).open("a", encoding="utf-8") as opened:
            opened.write(text)
        return f"{len(text)} characters added to {file}"

    @tool
    def copy_file(self, file: str, target: str) -> str:
        """Copy a file to another place.

        Args:
            file: The file.
            target: Where the copy is to be.

        """
        return f"copied to {shutil.copy2(file, target)}"

    @tool
    def move_file(self, file: str, target: str) -> str:
        """Move a file to another place, or give it another name.

        Args:
            file: The file.
            target: Its new place.

        """
        return f"moved to {shutil.move(file, target)}"

    @tool(annotations=Annotations(destructive=True))
    def delete_file(self, file: str) -> str:
        """Delete a file for good.

        Args:
            file: The file.

        """
        Path(file).unlink()
        return f"{file} deleted"

    @tool
    def make_folder(self, folder: str) -> str:
        """Make a folder, and those around it that are missing.

        Args:
            folder: The folder.

        """
        Path(folder).mkdir(parents=True, exist_ok=True)
        return f"{folder} made"

    @tool(annotations=READS)
    def find_files(self, folder: str, pattern: str) -> str:
        """Find files below a folder by their name.

        Args:
            folder: Where to look.
            pattern: What the name is like, such as *.csv.

        """
        return "\n".join(sorted(map(str, Path(folder).rglob(pattern))))

    @tool(annotations=READS)
    def search_in_files(self, folder: str, words: str) -> str:
        """Find the lines of text files below a folder that contain certain words.

        Args:
            folder: Where to look.
            words: What a line must contain.

        """
        found: list[str] = []
        for path in sorted(path for path in Path(folder).rglob("*") if path.is_file()):
            lines = path.read_text("utf-8", errors="replace").splitlines()
            found += [f"{path}:{number}: {line}" for number, line in enumerate(lines, 1) if words in line]
        return "\n".join(found)

    @tool(annotations=READS)
    def file_details(self, file: str) -> str:
        """Tell the size of a file, and when it was changed.

        Args:
            file: The file.

        """
        status = Path(file).stat()
        changed = datetime.fromtimestamp(status.st_mtime, UTC).isoformat(timespec="seconds")
        return json.dumps({"bytes": status.st_size, "changed": changed})

    @tool(annotations=READS)
    def compare_files(self, first: str, second: str) -> str:
        """Show the differences between two text files, as a diff.

        Args:
            first: The older file.
            second: The newer file.

        """
        before, after = (Path(one).read_text("utf-8").splitlines() for one in (first, second))
        return "\n".join(difflib.unified_diff(before, after, first, second, lineterm=""))


class Texts:
    """Works on texts."""

    plugin_id = "texts"

    @tool(annotations=READS)
    def count_words(self, text: str) -> str:
        """Count the words, lines and characters of a text.

        Args:
            text: The text.

        """
        return json.dumps({"words": len(text.split()), "lines": len(text.splitlines()), "characters": len(text)})

    @tool(annotations=READS)
    def replace_text(self, text: str, old: str, new: str) -> str:
        """Replace each occurrence of some words in a text.

        Args:
            text: The text.
            old: What is to be replaced.
            new: What stands there afterwards.

        """
        return text.replace(old, new)

    @tool(annotations=READS)
    def wrap_text(self, text: str, width: int = 72) -> str:
        """Break a text into lines of a width.

        Args:
            text: The text.
            width: Characters of a line at most.

        """
        return textwrap.fill(text, width)

    @tool(annotations=READS)
    def change_case(self, text: str, to: Literal["upper", "lower", "title"]) -> str:
        """Write a text in capitals, in small letters, or as a title.

        Args:
            text: The text.
            to: Which of them.

        """
        return {"upper": text.upper, "lower": text.lower, "title": text.title}[to]()

    @tool(annotations=READS)
    def make_slug(self, text: str) -> str:
        """Turn a heading into words for a web address, such as my-first-page.

        Args:
            text: The heading.

        """
        return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")

    @tool(annotations=READS)
    def encode_base64(self, text: str) -> str:
        """Encode a text as base64.

        Args:
            text: The text.

        """
        return base64.b64encode(text.encode()).decode()

    @tool(annotations=READS)
    def decode_base64(self, text: str) -> str:
        """Decode base64 to the text that it stands for.

        Args:
            text: The base64.

        """
        return base64.b64decode(text).decode()

    @tool(annotations=READS)
    def hash_text(self, text: str, algorithm: Literal["sha256", "sha512", "blake2b"] = "sha256") -> str:
        """Compute the hash of a text, in hexadecimal digits.

        Args:
            text: The text.
            algorithm: Which hash.

        """
        return hashlib.new(algorithm, text.encode()).hexdigest()

    @tool(annotations=READS)
    def format_json(self, text: str) -> str:
        """Format JSON for reading, with sorted keys.

        Args:
            text: The JSON.

        """
        return json.dumps(json.loads(text), indent=2, sort_keys=True, ensure_ascii=False)


class Times:
    """Knows dates and times."""

    plugin_id = "times"

    @tool(annotations=READS)
    def current_time(self, utc_offset_hours: float = 0) -> str:
        """Tell the current date and time in a zone.

        Args:
            utc_offset_hours: How many hours the zone is ahead of UTC.

        """
        zone = timezone(timedelta(hours=utc_offset_hours))
        return datetime.now(zone).isoformat(timespec="seconds")

    @tool(annotations=READS)
    def convert_time(self, time: str, utc_offset_hours: float) -> str:
        """Convert a time to another zone.

        Args:
            time: With its own offset, such as 2026-01-05T08:00:00+01:00.
            utc_offset_hours: How many hours the other zone is ahead of UTC.

        """
        return datetime.fromisoformat(time).astimezone(timezone(timedelta(hours=utc_offset_hours))).isoformat()

    @tool(annotations=READS)
    def days_between(self, first_day: str, last_day: str) -> int:
        """Count the days between two dates.

        Args:
            first_day: Such as 2026-01-05.
            last_day: The later one.

        """
        return (date.fromisoformat(last_day) - date.fromisoformat(first_day)).days

    @tool(annotations=READS)
    def add_days(self, day: str, days: int) -> str:
        """Tell the date some days after another, or before it.

        Args:
            day: Such as 2026-01-05.
            days: How many; negative for a date before it.

        """
        return (date.fromisoformat(day) + timedelta(days=days)).isoformat()

    @tool(annotations=READS)
    def weekday_of(self, day: str) -> str:
        """Tell the day of the week of a date.

        Args:
            day: Such as 2026-01-05.

        """
        return f"{date.fromisoformat(day):%A}"
