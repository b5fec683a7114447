"""A host that prints its server's process id and waits for Ctrl-C: `host_until_interrupted.py BACKEND`."""

import sys
from pathlib import Path

import anyio

from hooksdk.mcp import McpServers


async def main() -> None:
    entry = {"command": sys.executable, "args": [str(Path(__file__).with_name("quick.py"))]}
    async with McpServers({"plain": entry}) as servers:
        tool = next(tool for tool in servers.tools() if tool.name == "process_id")
        assert tool.execute is not None
        print((await tool.execute({})).text, flush=True)
        await anyio.sleep(60)


if __name__ == "__main__":
    try:
        anyio.run(main, backend=sys.argv[1])
    except BaseException as error:
        print(type(error).__name__, flush=True)
