"""A server that prints to its stdout what is no MCP, as many real ones do."""

import os
import sys
from typing import Any

from lines import plain_tool, serve, text


def shout() -> None:
    sys.stdout.write("[dotenv] injecting env from .env\n\n{not json}\n")
    sys.stdout.flush()
    os.write(1, b"\xff\xfe raw bytes\n")


def greet(_: str, arguments: dict[str, Any]) -> dict[str, Any]:
    shout()
    return text(f"hello {arguments['name']}")


if __name__ == "__main__":
    shout()
    serve("noisy", [plain_tool("greet", "Greet somebody, noisily.", {"name": {"type": "string"}})], greet)
