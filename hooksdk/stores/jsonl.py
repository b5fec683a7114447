"""The name that a store of files of JSON lines had: the same folder is a database now."""

from __future__ import annotations

import os
import warnings
from pathlib import Path
from typing import final

from hooksdk.config import state_folder
from hooksdk.stores.sql import SqlStore

__all__ = ["JsonlStore"]


@final
class JsonlStore(SqlStore):
    """The store of a folder, `$HOOKSDK_HOME/sessions` or `~/.local/state/hooksdk/sessions` unless given, under the name
    that it had while sessions were files of JSON lines. Use `SqlStore(Path(folder))`; the file in it is `hooksdk.db`,
    and `hooksdk sessions export` writes JSON lines.

    ```python
    import warnings

    from hooksdk import JsonlStore

    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        store = JsonlStore("sessions")
    assert "SqlStore(Path(folder))" in str(told[0].message)
    ```
    """

    def __init__(self, directory: str | os.PathLike[str] | None = None, *, materialize: bool = False) -> None:
        self.directory = state_folder() / "sessions" if directory is None else Path(directory).expanduser()
        advice = "JsonlStore keeps its sessions in hooksdk.db now: use SqlStore(Path(folder))"
        if materialize:
            advice += ", and `hooksdk sessions export --follow` in the place of materialize=True"
        warnings.warn(advice, DeprecationWarning, stacklevel=2)
        super().__init__(self.directory)
