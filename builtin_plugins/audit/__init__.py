"""A chain of signed records, which a third party can verify: what was decided, who answered on which evidence, and what
ran.

Status: trial.
"""

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

from builtin_plugins.audit._recorder import (
    HeadSender,
    Recorder,
    StoreChain,
    check_url,
    describe_call,
    describe_record,
    digest_of_call,
)
from builtin_plugins.audit._writer import FileChain
from hooksdk import hooks
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
"""Seconds that writing a record of the trace may take: a slow disk must not end the chain."""


def chain_path(path: str | None) -> Path:
    """The file of the setting `path`, which is a folder if it exists as one, or ends with a slash."""
    if path is None:
        return state_folder() / "audit" / FILE_NAME
    place = Path(path).expanduser()
    return place / FILE_NAME if path.endswith(("/", os.sep)) or place.is_dir() else place


def key_path(path: str | None) -> Path:
    """The file of the private key: by default beside the default file, in the user's state folder."""
    return state_folder() / "audit" / "key.pem" if path is None else Path(path).expanduser()


class Audit:
    """Write a chain of signed records."""

    class Config(BaseModel):
        """Settings.

        Attributes:
            to: `store`: records are kept in the host's store, which may be one database for many machines, with one key
                for all.
            path: A file, or a folder for `audit.jsonl`. By default `audit/audit.jsonl` in `$HOOKSDK_HOME`, else in the
                user's state folder.
            key: The file of the private key, which is made if it is missing. By default `audit/key.pem` in the same
                folder.
            arguments: Whether arguments of calls and titles of questions are written as they are, and not as digests.
            max_bytes: The size from which on the file is put aside as `audit.00001.jsonl`, and a new one continues the
                chain.
            keep: Days after which older files are removed; each file is put aside after a day then. None: never.
            head_url: An address to which the head is POSTed as JSON, so that it is kept elsewhere.
            head_minutes: Minutes between two heads, if there is a new one.
        """

        model_config = ConfigDict(extra="forbid")
        to: Literal["file", "store"] = "file"
        path: str | None = None
        key: str | None = None
        arguments: bool = False
        max_bytes: PositiveInt | None = 50_000_000
        keep: float | None = Field(default=None, ge=1)
        head_url: Annotated[str, AfterValidator(check_url)] | None = None
        head_minutes: float = Field(default=60, gt=0)

        @model_validator(mode="after")
        def _is_about_files(self) -> Self:
            if self.to == "store" and (self.path is not None or self.keep is not None):
                raise ValueError("path and keep are for files: leave them out with to = 'store'")
            return self

        @classmethod
        def with_project(cls, own: Mapping[str, Any], project: ProjectSettings) -> tuple[dict[str, Any], list[str]]:
            """The user alone says where the chain is and what it holds: a project's settings count only if it is
            trusted."""
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
            text = "audit: a key was made in %s; whoever verifies the chain needs its public half: %s"
            logger.warning(text, key_path(config.key), public)
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
        """The existing files of the chain by these settings, the oldest first."""
        path = chain_path(config.path)
        return [*numbered_files(path), *([path] if path.is_file() else [])]

    @staticmethod
    def public_key(config: Config) -> str:
        """The public half of the key as text. Raises `ConfigError` if there is no key."""
        return public_text(load_key(key_path(config.key), make=False)[0].public_key())

    @staticmethod
    async def write_record(config: Config, store: Store, fields: Mapping[str, Any]) -> None:
        """Append one record without a host, for a command that changes data of which the chain tells. Raises `OSError`
        and `StoreError`."""
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
        # Digests of arguments and result, by the id of a call whose end is not written yet.
        self._digests: dict[str, dict[str, str]] = {}
        # The effect ids of running calls, by the id of the call.
        self._effects: dict[str, str] = {}

    @hooks.record_decision
    async def write_decision(self, event: RecordDecision) -> None:
        """Write that a call is let through, before it runs; on the disk if the host wants that."""
        self._effects[event.call.id] = event.effect_id
        fields = describe_call(event, arguments=self._config.arguments)
        await self._recorder.append(self._storage, fields, durable=event.required)

    @hooks.transform_tool_result.last
    def note_result(self, event: TransformToolResult) -> None:
        """Note the digests of a call, which the trace does not have."""
        result = hashlib.sha256(event.result.text.encode("utf-8", "surrogatepass")).hexdigest()
        self._digests[event.call.id] = {"arguments_sha256": digest_of_call(event), "result_sha256": result}

    @hooks.trace(timeout=WAIT)
    async def write(self, event: Trace) -> None:
        """Write all other records, in the order of events."""
        fields = describe_record(event, arguments=self._config.arguments)
        if fields is None:
            return
        record = event.record
        if isinstance(record, CallFinished):
            effect = self._effects.pop(record.call_id, "")
            fields |= self._digests.pop(record.call_id, {}) | ({"effect_id": effect} if effect else {})
        await self._recorder.append(self._storage, fields, durable=record.kind == "run_ended")
