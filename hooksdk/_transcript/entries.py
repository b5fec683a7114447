"""The lines of the journal."""

from __future__ import annotations

from typing import Any

Entry = dict[str, Any]
"""One line of the journal."""
