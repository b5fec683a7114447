"""Names of parametrised tests."""

from __future__ import annotations

import re


def without_address(value: object) -> str:
    """The value as Python writes it, the same in every process: tests that run side by side must have equal names."""
    return re.sub(r" at 0x[0-9a-f]+", "", repr(value))
