"""A server that dies when asked to. With a file as argument it refuses to start while that file exists."""

import os
import sys
from pathlib import Path
from typing import Any

from lines import plain_tool, serve, text

TOOLS = [
    plain_tool("process_id", "The server's process id."),
    plain_tool("die", "End the server in the middle of this call."),
]


def call(name: str, _: dict[str, Any]) -> dict[str, Any]:
    if name == "die":
        print("fatal: out of cheese", file=sys.stderr, flush=True)
        os._exit(3)
    return text(str(os.getpid()))


if __name__ == "__main__":
    if len(sys.argv) > 1 and Path(sys.argv[1]).exists():
        sys.exit(f"cannot start: the licence is used up, token {os.environ.get('TOKEN', '-')}")
    serve("dying", TOOLS, call)
