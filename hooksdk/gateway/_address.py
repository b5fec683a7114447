"""Whose address one is."""

from __future__ import annotations

import ipaddress


def is_loopback(host: str) -> bool:
    """True for this machine alone."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
