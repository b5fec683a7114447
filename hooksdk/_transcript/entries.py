"""The lines of the journal."""

from __future__ import annotations

from typing import Any

# One line of the journal.
Entry = dict[str, Any]
