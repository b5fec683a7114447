"""A server with one slow tool, and one that stalls the whole server and its shutdown; it first touches the file that is
the server's argument."""

import os
import sys
import time
from pathlib import Path
from typing import Any

from lines import plain_tool, serve, text

TOOLS = [
    plain_tool("process_id", "The server's process id."),
    plain_tool("slow", "Take for ever; other calls go on."),
    plain_tool("stall", "Take a minute, and answer nothing else meanwhile."),
]


def call(name: str, _: dict[str, Any]) -> dict[str, Any] | None:
    if name == "slow":
        return None
    if name == "stall":
        if len(sys.argv) > 1:
            Path(sys.argv[1]).touch()
        time.sleep(60)
    return text(str(os.getpid()))


if __name__ == "__main__":
    serve("stalling", TOOLS, call)
