"""What was decided, who answered what on which evidence, and what ran: a chain of signed records that a third party can verify."""

from __future__ import annotations

import hashlib
import logging
import os
from collections.abc import AsyncGenerator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal, Self

import anyio
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, PositiveInt, model_validator

from builtin_plugins.audit._heads import HeadSender, check_url
from builtin_plugins.audit._recorder import Recorder, describe_call, describe_record
from builtin_plugins.audit._stored import StoreChain
from builtin_plugins.audit._writer import FileChain
from hooksdk import hooks
from hooksdk.approvals import digest_of
from hooksdk.audit import StoredValues, load_key, numbered_files, public_text
from hooksdk.catalog import Storage
from hooksdk.config import ProjectSettings, state_folder
from hooksdk.hooks import RecordDecision, Trace, TransformToolResult
from hooksdk.records import CallFinished
from hooksdk.stores import Store
from hooksdk.tasks import in_thread

__all__ = ["Audit", "chain_path", "key_path"]

logger = logging.getLogger("hooksdk")
FILE_NAME = "audit.jsonl"
WAIT = 60.0
"""Seconds that a record of the trace may take: a slow disk must not end the chain."""


def chain_path(path: str | None) -> Path:
    """The file that a setting means. A path is a folder when it is one, or ends with a slash."""
    if path is None:
        return state_folder() / "audit" / FILE_NAME
    place = Path(path).expanduser()
    return place / FILE_NAME if path.endswith(("/", os.sep)) or place.is_dir() else place


def key_path(path: str | None) -> Path:
    """Where the private key is: by default beside the default file, in the user's state folder."""
    return state_folder() / "audit" / "key.pem" if path is None else Path(path).expanduser()


class Audit:
    """Write a chain of signed records."""

    class Config(BaseModel):
        """Settings."""

        model_config = ConfigDict(extra="forbid")
        to: Literal["file", "store"] = "file"
        """`store`: the records are in the host's store, which may be one database for many machines, with one key for all."""
        path: str | None = None
        """A file, or a folder for `audit.jsonl`. By default `audit/audit.jsonl` in `$HOOKSDK_HOME`, else in the user's state folder."""
        key: str | None = None
        """The file of the private key, which is made where it is not there. By default `audit/key.pem` in the same folder."""
        arguments: bool = False
        """The arguments of calls and the titles of questions as they are, not their digests alone."""
        max_bytes: PositiveInt | None = 50_000_000
        """From this size on the file is put aside as `audit.00001.jsonl`, and a new one goes on with the chain."""
        keep: float | None = Field(default=None, ge=1)
        """Days after which files that were put aside are removed; a file is put aside after one day then. None: never."""
        head_url: Annotated[str, AfterValidator(check_url)] | None = None
        """Where the head is POSTed to as JSON, so that it is kept elsewhere."""
        head_minutes: float = Field(default=60, gt=0)
        """Minutes between two heads, where there is a new one."""

        @model_validator(mode="after")
        def _is_about_files(self) -> Self:
            if self.to == "store" and (self.path is not None or self.keep is not None):
                raise ValueError("path and keep are for files: leave them out with to = 'store'")
            return self

        @classmethod
        def with_project(cls, own: Mapping[str, Any], project: ProjectSettings) -> tuple[dict[str, Any], list[str]]:
            """Where the chain is and what it holds is the user's to say; a project's settings count with trust alone."""
            if project.trusted:
                return {**project.values, **own}, []
            return dict(own), [name for name in project.values if name not in own]

    @classmethod
    @asynccontextmanager
    async def shared(cls, config: Config) -> AsyncGenerator[Recorder, None]:
        """One writer for all sessions of the host."""
        key, is_new = load_key(key_path(config.key))
        public = public_text(key.public_key())
        if is_new:
            logger.warning(
                "audit: a key was made in %s; whoever verifies the chain needs its public half: %s",
                key_path(config.key),
                public,
            )
        if config.to == "store":
            chain = StoreChain(key)
        else:
            chain = FileChain(chain_path(config.path), key, max_bytes=config.max_bytes, keep_days=config.keep)
            await in_thread(chain.start)
        try:
            async with AsyncExitStack() as stack:
                if config.head_url is not None:
                    sender = HeadSender(config.head_url, config.head_minutes, chain, public)
                    stack.push_async_callback(sender.send)
                    tasks = await stack.enter_async_context(anyio.create_task_group())
                    tasks.start_soon(sender.run)
                    stack.callback(tasks.cancel_scope.cancel)
                yield Recorder(chain)
        finally:
            if isinstance(chain, FileChain):
                chain.close()

    @staticmethod
    def files(config: Config) -> list[Path]:
        """The files of the chain that are there by these settings, the oldest first."""
        path = chain_path(config.path)
        return [*numbered_files(path), *([path] if path.is_file() else [])]

    @staticmethod
    def public_key(config: Config) -> str:
        """The public half of the key as text. Raises `ConfigError` where there is none."""
        return public_text(load_key(key_path(config.key), make=False)[0].public_key())

    @staticmethod
    async def write_record(config: Config, store: Store, fields: Mapping[str, Any]) -> None:
        """Append one record without a host: for commands that change what a chain tells of. Raises `OSError` and `StoreError`."""
        key, _ = load_key(key_path(config.key))
        if config.to == "store":
            await StoreChain(key).append(StoredValues(store), fields)
            return
        chain = FileChain(chain_path(config.path), key, max_bytes=config.max_bytes, keep_days=config.keep)
        try:
            await in_thread(partial(chain.append, fields, durable=True))
        finally:
            chain.close()

    def __init__(self, config: Config, shared: Recorder, storage: Storage) -> None:
        self._config = config
        self._recorder = shared
        self._storage = storage
        self._digests: dict[str, dict[str, str]] = {}
        """Of calls that have their result and are not told of yet: what stands for arguments and result."""
        self._effects: dict[str, str] = {}
        """The effect ids of calls that were let through and are not over."""

    @hooks.record_decision
    async def write_decision(self, event: RecordDecision) -> None:
        """Before the call runs; on the disk where the host asks for it."""
        self._effects[event.call.id] = event.effect_id
        fields = describe_call(event, arguments=self._config.arguments)
        await self._recorder.append(self._storage, fields, durable=event.required)

    @hooks.transform_tool_result.last
    def note_result(self, event: TransformToolResult) -> None:
        """What the trace does not tell of a call."""
        result = hashlib.sha256(event.result.text.encode("utf-8", "surrogatepass")).hexdigest()
        self._digests[event.call.id] = {"arguments_sha256": digest_of(dict(event.arguments)), "result_sha256": result}

    @hooks.trace(timeout=WAIT)
    async def write(self, event: Trace) -> None:
        """Everything else, in the order in which it happened."""
        fields = describe_record(event)
        if fields is None:
            return
        record = event.record
        if isinstance(record, CallFinished):
            effect = self._effects.pop(record.call_id, "")
            fields |= self._digests.pop(record.call_id, {}) | ({"effect_id": effect} if effect else {})
        await self._recorder.append(self._storage, fields, durable=record.kind == "run_ended")
