"""Sessions on disk: two append-only files each, of JSON lines that any tool can read.

`NAME.messages.jsonl` holds the messages, `NAME.journal.jsonl` the trims and everything else that is recorded about
them; its first line names the session. `NAME.index`, of long sessions, spares the next opening from reading all
messages. `NAME.lock` is held while the session is open and counts its holders. Plugins' values are in `values/`.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast, final

import anyio

from hooksdk.config import state_folder
from hooksdk.errors import SessionBusy, StoreError
from hooksdk.formats import Message
from hooksdk.stores._append_file import AppendFile
from hooksdk.stores._beginnings import read_beginning, session_of
from hooksdk.stores._jsonl_log import VERSION, JsonlLog, with_header
from hooksdk.stores.files import BINARY, replace_file, with_advice
from hooksdk.stores.locks import Lease, lock, unlock
from hooksdk.tasks import in_thread, keep_trying, run_shielded
from hooksdk.transcript import Entry, SessionBeginning, encode, encode_for, is_same, unknown_session

__all__ = ["VERSION", "JsonlLog", "JsonlStore", "ValueFile", "file_name"]


def file_name(name: str) -> str:
    """A safe file name for any text: its readable part, and a hash by which no two texts share a name in any file
    system."""
    readable = re.sub(r"[^A-Za-z0-9_-]+", "_", name[:200])[:40].strip("_") or "session"
    return f"{readable}-{hashlib.sha256(name.encode('utf-8', 'surrogatepass')).hexdigest()[:24]}"


@final
class JsonlStore:
    """Sessions as files in one directory: `$HOOKSDK_HOME/sessions`, or `~/.local/state/hooksdk/sessions`, unless given.

    With `materialize=True` the model's view is also written after each drain, as `NAME.view.jsonl`, for tools that read
    it.

    ```python
    import anyio

    from hooksdk import Host, JsonlStore

    async def main() -> None:
        for resumed in (False, True):
            async with Host(store=JsonlStore("sessions")) as host, host.session("ann") as session:
                assert session.resumed is resumed

    anyio.run(main)
    ```
    """

    def __init__(self, directory: str | os.PathLike[str] | None = None, *, materialize: bool = False) -> None:
        self.directory = state_folder() / "sessions" if directory is None else Path(directory).expanduser()
        self._materialize = materialize
        self._logs: list[JsonlLog] = []

    async def open_session(self, session_id: str, *, wait: float = 5.0) -> JsonlLog:
        """Take hold of a session, new or old. Raises `SessionBusy` when another holder does not let go in time."""
        base = self.directory / file_name(session_id)
        threads = anyio.CapacityLimiter(1)
        opened: list[JsonlLog] = []
        lease = await self._take_lease(base, session_id, wait)

        def open_files() -> None:
            opened.append(JsonlLog(base, session_id, lease, threads, materialized=self._materialize))

        try:
            await run_shielded(in_thread, open_files)
        except BaseException:
            for each in opened or [lease]:
                each.release()
            raise
        self._logs = [*(log for log in self._logs if log.is_open), opened[0]]
        return opened[0]

    async def _take_lease(self, base: Path, session_id: str, wait: float) -> Lease:
        path = base.with_name(base.name + ".lock")
        lease: list[Lease] = []

        def try_once() -> bool:
            self._make_directory()
            lease.extend(filter(None, [Lease.take(path)]))
            return bool(lease)

        async def take() -> bool:
            return await run_shielded(in_thread, try_once)

        try:
            await keep_trying(take, session_id, wait)
        except BaseException as error:
            for each in lease:
                each.release()
            if isinstance(error, SessionBusy):
                error.holder = Lease.holder(path)
            raise
        return lease[0]

    async def delete_session(self, session_id: str, *, wait: float = 5.0) -> bool:
        """Remove a session for good, a damaged one too; False where there is none. Raises `SessionBusy` when a holder
        does not let go in time."""
        base = self.directory / file_name(session_id)
        messages, journal = (base.with_name(f"{base.name}.{kind}.jsonl") for kind in ("messages", "journal"))
        if not messages.exists() and not journal.exists():
            return False
        lease = await self._take_lease(base, session_id, wait)

        def remove() -> None:
            try:
                ends = (".view.jsonl", ".index", ".*.bak")
                others = (*(base.name + end for end in ends), f".{base.name}.*.tmp")
                # The journal goes last: it names the session, so a deletion that was cut short can be repeated.
                for path in (*(path for name in others for path in base.parent.glob(name)), messages, journal):
                    path.unlink(missing_ok=True)
                with contextlib.suppress(PermissionError):  # Windows keeps an open file; alone it does no harm
                    lease.path.unlink()
            except OSError as error:
                raise StoreError(str(self.directory), f"session '{session_id}' cannot be removed: {error}") from error
            finally:
                lease.release()

        await run_shielded(in_thread, remove)
        return True

    def _make_directory(self) -> None:
        try:
            self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise StoreError(str(self.directory), f"the directory cannot be made: {with_advice(error)}") from error

    async def read_session(self, session_id: str) -> tuple[list[Message], list[Entry]]:
        """The messages and the journal of a session as they are now, whoever holds it. Raises `StoreError`."""
        return await in_thread(_look, self.directory / file_name(session_id), session_id)

    async def session_exists(self, session_id: str) -> bool:
        """True when the session has been opened before."""
        path = self.directory / (file_name(session_id) + ".journal.jsonl")
        return await in_thread(session_of, path) == session_id

    async def list_sessions(self) -> list[str]:
        """The ids of all sessions, sorted."""

        def scan() -> list[str]:
            names = map(session_of, self.directory.glob("*.journal.jsonl"))
            return sorted(name for name in names if name is not None)

        return await in_thread(scan)

    async def list_beginnings(self) -> list[SessionBeginning]:
        """The first lines of every session, and when its files were last written."""

        def scan() -> list[SessionBeginning]:
            bases = (
                path.with_name(path.name.removesuffix(".journal.jsonl"))
                for path in self.directory.glob("*.journal.jsonl")
            )
            return [beginning for beginning in map(read_beginning, bases) if beginning is not None]

        return await in_thread(scan)

    def _space(self, space: str) -> ValueFile:
        return ValueFile(self.directory / "values" / (file_name(space) + ".json"), space)

    async def get_value(self, space: str, key: str, default: Any = None) -> Any:
        """A stored value, a fresh copy."""
        values = await in_thread(lambda: self._space(space).read())
        return values.get(key, default)

    async def set_value(self, space: str, key: str, value: Any) -> None:
        """Store a JSON value; durable when this returns."""
        fresh = json.loads(encode_for(f"storage '{space}'", value))

        def put(values: dict[str, Any]) -> bool:
            values[key] = fresh
            return True

        await run_shielded(in_thread, lambda: self._space(space).change(put))

    async def change_value(self, space: str, key: str, old: Any, new: Any) -> bool:
        """Put `new` in the place of `old`, if that is what is stored now; None stands for no value. Durable when this
        returns."""
        place = f"storage '{space}'"
        fresh = json.loads(encode_for(place, new))

        def swap(values: dict[str, Any]) -> bool:
            if not is_same(place, values.get(key), old):
                return False
            values[key] = fresh
            if new is None:
                del values[key]
            return True

        return await run_shielded(in_thread, lambda: self._space(space).change(swap))

    async def delete_value(self, space: str, key: str) -> None:
        """Remove a value; one that is not there is no error."""

        def drop(values: dict[str, Any]) -> bool:
            return values.pop(key, values) is not values

        await run_shielded(in_thread, lambda: self._space(space).change(drop))

    async def list_keys(self, space: str) -> list[str]:
        """The keys of a space, sorted."""
        return sorted(await in_thread(lambda: self._space(space).read()))

    async def aclose(self) -> None:
        """Let every session go."""
        for log in self._logs:
            await log.close()


@final
class ValueFile:
    """One space of key-value storage: a JSON file, changed under a lock that other processes honour."""

    def __init__(self, path: Path, space: str) -> None:
        self.path = path
        self.space = space

    def read(self) -> dict[str, Any]:
        """All values."""
        try:
            return cast("dict[str, Any]", json.loads(self.path.read_bytes())["values"])
        except FileNotFoundError:
            return {}
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise StoreError(str(self.path), f"cannot be read: {error}. Nothing was changed") from error

    def change(self, change: Callable[[dict[str, Any]], bool], wait: float = 5.0) -> bool:
        """Read, change and write the values while no other process does. If `change` answers False, nothing is written,
        and this answers False, too."""
        deadline = time.monotonic() + wait
        try:
            self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            fd = os.open(self.path.with_suffix(".lock"), os.O_RDWR | os.O_CREAT | BINARY, 0o600)
        except OSError as error:
            raise StoreError(str(self.path), f"cannot be opened: {error}") from error
        try:
            while not lock(fd):
                if time.monotonic() > deadline:
                    raise StoreError(str(self.path), f"another process has held it for {wait:g} s")
                time.sleep(0.005)
            values = self.read()
            changed = change(values)
            if changed:
                replace_file(self.path, encode({"space": self.space, "values": values}))
            unlock(fd)
            return changed
        finally:
            os.close(fd)


def _look(base: Path, session_id: str) -> tuple[list[Message], list[Entry]]:
    """Both files without their lock. The journal first: the messages that it speaks of were stored before it was
    written."""
    paths = [base.with_name(f"{base.name}.{kind}.jsonl") for kind in ("journal", "messages")]
    if not all(path.exists() for path in paths):
        raise unknown_session(session_id)
    journal, messages = (AppendFile(path, session_id, read_only=True) for path in paths)
    entries = with_header(journal)[1:]
    return messages.read(), entries
