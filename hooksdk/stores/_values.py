"""The plugins' key-value storage: a JSON file for each space."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast, final

from hooksdk.errors import StoreError
from hooksdk.stores.files import BINARY, replace_file
from hooksdk.stores.locks import lock, unlock
from hooksdk.transcript import encode


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
        """Read, change and write the values, alone; nothing is written where `change` answers False, as this does
        then."""
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
