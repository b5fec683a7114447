"""For plugins and stores that hold something which must be given back: steps that a cancellation does not cut in two."""

from __future__ import annotations

from hooksdk._tasks.shielding import run_shielded

__all__ = ["run_shielded"]
