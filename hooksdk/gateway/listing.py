"""The list of tools that a gateway's client is told of, for commands that count it.

Status: trial.
"""

from __future__ import annotations

from hooksdk.gateway._listing import ClientListing

__all__ = ["ClientListing"]
