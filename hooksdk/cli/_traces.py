"""The trace files of a project, and the records of one session in them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from hooksdk.config import Config
from hooksdk.host import Plugin, installed_plugins, look_at
from hooksdk.values import is_object

# The built-in plugin that writes traces.
_WRITER = "trace_file"


def trace_files(plugins: Sequence[Plugin]) -> list[Path]:
    """The files that a loaded `trace_file` writes, the oldest first; none without it."""
    writer = next((one for one in plugins if one.id == _WRITER and one.loaded), None)
    return [] if writer is None else writer.holder.files(writer.config)


def configured_files(config: Config) -> list[Path]:
    """The files that the plugin has written with this configuration, even if it is switched off now."""
    writer = next((one for one in installed_plugins(config) if one.id == _WRITER), None)
    if writer is None:
        return []
    writer = look_at(writer, config)
    return [] if writer.refusal else writer.holder.files(writer.config)


def session_records(paths: Sequence[Path], session_id: str) -> list[dict[str, Any]]:
    """The records of a session and its sub-agents in these files. Only their lines are parsed, since a trace has all
    sessions. Raises `OSError`."""
    family = {session_id}
    needles = [json.dumps(session_id)]
    records: list[dict[str, Any]] = []
    for path in paths:
        with path.open(encoding="utf-8", errors="replace") as file:
            for line in file:
                if not any(needle in line for needle in needles):
                    continue
                try:
                    record: object = json.loads(line)
                except (ValueError, RecursionError):
                    continue
                if not (is_object(record) and "kind" in record and "time" in record):
                    continue
                if record["kind"] == "session_started" and record.get("parent") in family:
                    family.add(str(record.get("session_id")))
                    needles.append(json.dumps(record.get("session_id")))
                if record.get("session_id") in family:
                    records.append(record)
    return records
