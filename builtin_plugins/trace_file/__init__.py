"""Every hook, decision and timing as one line of JSON in a file that `tail -f` and any other tool can read."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from pydantic import BaseModel, ConfigDict, Field, PositiveInt

from builtin_plugins.trace_file._writer import LineFile, encode, locate
from hooksdk import hooks
from hooksdk.hooks import Trace

__all__ = ["TraceFile"]

SCHEMA = 1
"""The version of the records' shape."""


class TraceFile:
    """Write the trace to a JSONL file."""

    class Config(BaseModel):
        """Settings."""

        model_config = ConfigDict(extra="forbid")
        path: str | None = None
        """A file, or a folder for `trace.jsonl`. By default `trace.jsonl` in `$HOOKSDK_HOME`, else in the user's state
        folder."""
        max_bytes: PositiveInt | None = None
        """From this size on the file is put aside as `NAME.1` and a new one begun; None: it grows."""
        keep: int = Field(default=3, ge=1, le=1000)
        """How many files are kept aside."""

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

    def __init__(self, shared: LineFile) -> None:
        self._file = shared

    @hooks.trace
    def write(self, event: Trace) -> None:
        """Append one record. In a worker thread, one after the other, so that a slow disk does not stop the event loop."""
        head = {
            "schema": SCHEMA, "time": round(event.time, 6), "kind": event.kind, "session_id": event.session_id,
            "run_id": event.run_id, "attempt": event.attempt, "agent_id": event.agent_id,
        }  # fmt: skip
        self._file.append(encode({**head, **event.record.as_dict()}))
