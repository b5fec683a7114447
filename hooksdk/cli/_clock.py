"""The age of this process."""

from __future__ import annotations

import os
import time
from pathlib import Path

_IMPORTED = time.monotonic()


def seconds_since_start() -> float:
    """The seconds since this process began: on Linux since its very start, elsewhere since the first import of this
    module."""
    try:
        # Field 22; the name before, in brackets, may hold anything.
        ticks = int(Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19])
        return time.clock_gettime(time.CLOCK_BOOTTIME) - ticks / os.sysconf("SC_CLK_TCK")
    except (OSError, AttributeError, ValueError):
        return time.monotonic() - _IMPORTED
