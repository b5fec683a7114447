"""A real MCP server for tests, in a thread of its own, with functions of the test as tools."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable
from typing import Any, Self, final

START_SECONDS = 30.0
STOP_SECONDS = 10.0


@final
class ToolServer:
    """An MCP server behind streamable HTTP on 127.0.0.1 and a free port, from when it is made until `close`. Its tools
    are these functions; they run in the server's thread. Needs `hooksdk[mcp]`.

    ```python
    from hooksdk.testing import HookSession, ToolServer, call

    def add(a: int, b: int) -> int:
        "Add two numbers."
        return a + b

    with ToolServer(add, name="sums") as server, HookSession(servers=server.config) as session:
        played = session.play([call("add", a=1, b=2), "3"])
    assert played.call("add").tool.id == "mcp:sums:add"
    ```
    """

    def __init__(self, *functions: Callable[..., Any], name: str = "test") -> None:
        import uvicorn
        from mcp.server.mcpserver import MCPServer

        server = MCPServer(name)
        for function in functions:
            server.add_tool(function)
        self.name = name
        self._socket = socket.socket()
        self._socket.bind(("127.0.0.1", 0))
        config = uvicorn.Config(
            server.streamable_http_app(), log_level="error", timeout_graceful_shutdown=1, lifespan="on"
        )
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._server.run, args=([self._socket],), name=f"tool server {name}")
        self._thread.start()
        end = time.monotonic() + START_SECONDS
        while not self._server.started:
            if not self._thread.is_alive() or time.monotonic() > end:
                self.close()
                raise RuntimeError(f"the tool server '{name}' did not start")
            time.sleep(0.01)

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"http://127.0.0.1:{self._socket.getsockname()[1]}/mcp"

    @property
    def config(self) -> dict[str, Any]:
        """Its entry in `mcpServers`: for `McpServers(...)`, `HookSession(servers=...)`, or a file for `--mcp`."""
        return {self.name: {"url": self.url}}

    def close(self) -> None:
        """End it; closing twice is fine."""
        self._server.should_exit = True
        self._thread.join(STOP_SECONDS)
        self._socket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()
