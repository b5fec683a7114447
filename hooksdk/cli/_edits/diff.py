"""What a command would change in files, shown before it does, and asked about."""

from __future__ import annotations

import difflib
import json
import re
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, cast

from hooksdk.cli._console import CommandProblem, safe, says_yes, stderr_console, stdout_console

_STYLES = {"+": "green", "-": "red", "@": "cyan"}


def secrets_of(entries: Iterable[Any]) -> set[str]:
    """The values of `env` and headers, and the secrets of clients, in servers' entries that are written out, as texts that a diff
    must not show."""
    found: set[str] = set()
    for entry in entries:
        for key in ("env", "headers", "http_headers", "oauth", "auth"):
            table: Any = cast("Mapping[str, Any]", entry).get(key) if isinstance(entry, Mapping) else None
            values = cast("Mapping[str, Any]", table).items() if isinstance(table, Mapping) else ()
            values = [one for name, one in values if key not in {"oauth", "auth"} or "secret" in name.lower()]
            found |= {one for one in values if isinstance(one, str) and one and not re.fullmatch(r"\$\{[^}]*\}", one)}
    return found


def print_diff(path: Path, before: str, after: str, secrets: Iterable[str]) -> None:
    """Show what changes in a file. Secrets are `***`."""
    console = stdout_console()
    quoted = {json.dumps(one, ensure_ascii=ascii_only) for one in secrets for ascii_only in (True, False)}
    lines = difflib.unified_diff(before.splitlines(), after.splitlines(), str(path), str(path), n=2, lineterm="")
    for line in lines:
        shown = line
        for one in sorted(quoted | {f"'{one}'" for one in secrets}, key=len, reverse=True):
            shown = shown.replace(one, '"***"')
        style = None if shown.startswith(("---", "+++")) else _STYLES.get(shown[:1])
        console.print(safe(shown), soft_wrap=True, style=style)


def confirm(question: str, *, yes: bool, as_json: bool) -> bool:
    """Ask on the terminal. Raises `CommandProblem` where nobody is there to answer."""
    if yes:
        return True
    if as_json or not sys.stdin.isatty():
        raise CommandProblem("nobody is there to answer: --yes does it unasked, --dry-run shows it")
    return says_yes(stderr_console(), safe(question))
