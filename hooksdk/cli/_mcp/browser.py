"""Pages in the browser of this machine."""

from __future__ import annotations

import os
import sys
import webbrowser
from collections.abc import Generator
from contextlib import contextmanager

import anyio.to_thread

from hooksdk.cli._console import print_line, safe, stderr_console


async def show_page(url: str) -> None:
    """Open the page in the browser of this machine, and show its address: there may be none."""
    print_line(stderr_console(), "open", safe(url))
    with _devnull():
        await anyio.to_thread.run_sync(webbrowser.open, url)


@contextmanager
def _devnull() -> Generator[None]:
    """What a browser says of itself is no answer of the command."""
    sys.stdout.flush()
    kept, nothing = os.dup(1), os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nothing, 1)
        yield
    finally:
        os.dup2(kept, 1)
        os.close(kept)
        os.close(nothing)
