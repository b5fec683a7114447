"""How the servers speak that are written without the SDK, whose import takes a second of the processor: JSON-RPC, one
message a line. `plain.py`, `contents.py` and others are the SDK's own, so that the tests meet it too."""

import json
import sys
from collections.abc import Callable
from typing import Any

Json = dict[str, Any]
OPEN_OBJECT: Json = {"type": "object", "properties": {}}


def send(message: Json) -> None:
    # One write: another thread may send, too.
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


def text(content: str) -> Json:
    """A call's result."""
    return {"content": [{"type": "text", "text": content}], "isError": False}


def hello(params: Json, name: str, version: str = "", *, list_changes: bool = False) -> Json:
    """The answer to `initialize`."""
    return {
        "protocolVersion": params["protocolVersion"], "capabilities": {"tools": {"listChanged": list_changes}},
        "serverInfo": {"name": name, "version": version},
    }  # fmt: skip


def serve(name: str, tools: list[Json], call: Callable[[str, Json], Json | None]) -> None:
    """Answer until the input ends. What `call` answers with None is never answered."""

    def answer(method: str, params: Json) -> Json | None:
        if method == "initialize":
            return hello(params, name)
        if method == "tools/list":
            return {"tools": tools}
        return call(params["name"], params.get("arguments") or {}) if method == "tools/call" else {}

    serve_requests(lambda request: answer(request["method"], request.get("params") or {}))


def serve_requests(answer: Callable[[Json], Json | None]) -> None:
    """The same of whole requests."""
    for line in sys.stdin:
        message: Json = json.loads(line)
        if "id" in message and "method" in message and (result := answer(message)) is not None:
            send({"id": message["id"], "result": result})


def plain_tool(name: str, description: str, properties: Json | None = None) -> Json:
    """A tool's definition; all of its properties are required."""
    schema = {**OPEN_OBJECT, "properties": properties or {}, "required": list(properties or ())}
    return {"name": name, "description": description, "inputSchema": schema}
