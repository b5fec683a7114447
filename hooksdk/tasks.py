"""For plugins and stores that hold something which must be given back: steps that a cancellation does not cut in two."""

from __future__ import annotations

from hooksdk._tasks.background import start_task
from hooksdk._tasks.limits import (
    Attempt,
    cancel_requests,
    describe,
    in_abandonable_thread,
    in_thread,
    keep_trying,
    run_shielded,
)

__all__ = [
    "Attempt",
    "cancel_requests",
    "describe",
    "in_abandonable_thread",
    "in_thread",
    "keep_trying",
    "run_shielded",
    "start_task",
]
