"""No MCP server at all: it writes a line to stderr, never answers, and does not end when its input does."""

import os
import sys
import time
from pathlib import Path

print("\x1b[33mwaiting for the database\x1b[0m", file=sys.stderr, flush=True)
if len(sys.argv) > 1:
    Path(sys.argv[1]).write_text(str(os.getpid()))
time.sleep(600)
