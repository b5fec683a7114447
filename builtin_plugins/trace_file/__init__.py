"""Every hook, decision and timing as a line of JSON, in a file for `tail -f` and any other tool.

Status: stable.
"""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, PositiveInt

from builtin_plugins.trace_file._writer import LineFile, encode, locate
from hooksdk import hooks
from hooksdk.config import ProjectSettings
from hooksdk.hooks import Trace

__all__ = ["TraceFile"]

SCHEMA = 1
"""The version of the records' form."""


class TraceFile:
    """Write the trace to a JSONL file."""

    class Config(BaseModel):
        """Settings.

        Attributes:
            path: A file, or a folder for `trace.jsonl`. By default `trace.jsonl` in `$HOOKSDK_HOME`, else in the user's
                state folder.
            max_bytes: The size from which on the file is put aside as `NAME.1`, and a new one is begun; None: it grows.
            keep: How many older files are kept.
        """

        model_config = ConfigDict(extra="forbid")
        path: str | None = None
        max_bytes: PositiveInt | None = None
        keep: int = Field(default=3, ge=1, le=1000)

        @classmethod
        def with_project(cls, own: Mapping[str, Any], project: ProjectSettings) -> tuple[dict[str, Any], list[str]]:
            """A project's path is relative to its folder. Without trust its settings count only for a file in that
            folder, if the user has chosen no other."""
            values = {**project.values, **own}
            path = None if "path" in own else values.get("path")
            if not isinstance(path, str):  # the user's file, the default one, or a mistake that is refused later
                inside = path is not None
            else:
                place = (project.folder / Path(path).expanduser()).resolve()
                inside = place.is_relative_to(project.folder)
                values["path"] = f"{place}/" if path.endswith(("/", os.sep)) else str(place)
            if project.trusted or (inside and not project.configured):
                return values, []
            return dict(own), [name for name in project.values if name not in own]

    @classmethod
    @asynccontextmanager
    async def shared(cls, config: Config) -> AsyncGenerator[LineFile, None]:
        """One open file for all sessions of the host; it outlives the sessions' last records."""
        file = LineFile(locate(config.path), config.max_bytes, config.keep)
        file.open()
        try:
            yield file
        finally:
            file.close()

    @staticmethod
    def files(config: Config) -> list[Path]:
        """The existing files of the trace by these settings, the oldest first."""
        path = locate(config.path)
        aside = [path.with_name(f"{path.name}.{number}") for number in range(config.keep, 0, -1)]
        return [each for each in (*aside, path) if each.is_file()]

    def __init__(self, shared: LineFile) -> None:
        self._file = shared

    @hooks.trace
    def write(self, event: Trace) -> None:
        """Append one record, in a worker thread: a slow disk must not stop the event loop."""
        place = {"session_id": event.session_id, "run_id": event.run_id, "attempt": event.attempt}
        head = {"schema": SCHEMA, "time": round(event.time, 6), "kind": event.kind, **place, "agent_id": event.agent_id}
        self._file.append(encode({**head, **event.record.as_dict()}))
