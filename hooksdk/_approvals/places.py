"""Where the user's own state is kept."""

from __future__ import annotations

import os
from pathlib import Path


def state_folder() -> Path:
    """Where hooksdk keeps what outlives a process: `$HOOKSDK_HOME`, or `~/.local/state/hooksdk`. It need not exist."""
    if home := os.environ.get("HOOKSDK_HOME"):
        return Path(home).expanduser()
    state = os.environ.get("XDG_STATE_HOME") or "~/.local/state"
    return Path(state).expanduser() / "hooksdk"
