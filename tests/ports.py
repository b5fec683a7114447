"""Ports that a test names before somebody listens there."""

from __future__ import annotations

import random
import socket

OWN = range(20_000, 30_000)
"""The system gives none of these to whoever asks for any port, nor to a connection that goes out: whatever runs beside a test, the port
is free still when the test needs it. (Linux takes those from 32768 on, others from 49152 on.)"""


def own_port() -> int:
    """A port of this machine that nobody has, and that nobody is given."""
    while True:
        port = random.choice(OWN)
        try:
            socket.create_server(("127.0.0.1", port)).close()
        except OSError:
            continue
        return port
