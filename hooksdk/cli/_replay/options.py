"""What `hooksdk replay` is asked for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, kw_only=True)
class ReplayOptions:
    """What to replay, against what, and where to.

    Attributes:
        everything: The project's own plugins, too.
        session: Of a chain.
    """

    source: str
    plugins: Sequence[str]
    everything: bool = False
    history_format: str | None = None
    mcp: Sequence[Path] = ()
    tools: Path | None = None
    workspace: str | None = None
    only_differing: bool = False
    write: Path | None = None
    check: Path | None = None
    values: bool = False
    test: Path | None = None
    whole: bool = False
    session: str | None = None
    store: str | None = None
    as_json: bool = False
    project: Path = Path()
