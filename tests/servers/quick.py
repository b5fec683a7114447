"""What `plain.py` tells and does, without the SDK, whose import takes a second of the processor: for tests that need a
server and are not about it. `test_the_quick_server_says_what_the_one_of_the_sdk_says` holds the two together."""

import json
import os
import sys
from typing import Any

Json = dict[str, Any]


def tool(name: str, description: str, properties: Json, **fields: Any) -> Json:
    schema: Json = {"properties": properties, "type": "object", "title": f"{name}Arguments"}
    if properties:
        schema["required"] = list(properties)
    return {"name": name, "description": description, "inputSchema": schema, **fields}


TOOLS = [
    tool(
        "add", "Add two whole numbers.",
        {"a": {"description": "the first", "title": "A", "type": "integer"}, "b": {"title": "B", "type": "integer"}},
        title="Add two numbers",
        outputSchema={
            "properties": {"result": {"title": "Result", "type": "integer"}}, "required": ["result"], "type": "object",
            "title": "addOutput",
        },
        annotations={"readOnlyHint": True, "destructiveHint": False},
    ),
    tool("process_id", "The server's process id.", {}),
    tool("environment", "A variable of the server's environment.", {"name": {"title": "Name", "type": "string"}}),
    tool("folder", "The server's working folder.", {}),
    tool("work", "Work for some time, telling about it four times.", {"seconds": {"title": "Seconds", "type": "number"}}),
    tool("cancelled_so_far", "How many times `work` was cancelled.", {}),
]  # fmt: skip


def call(name: str, arguments: Json) -> Json:
    """The result of a call; `work` and what is said of it are the other server's."""
    if name == "add":
        total = arguments["a"] + arguments["b"]
        return {**text(str(total)), "structuredContent": {"result": total}}
    if name == "process_id":
        return text(str(os.getpid()))
    if name == "environment":
        return text(os.environ.get(arguments["name"], "(not set)"))
    if name == "folder":
        return text(os.getcwd())
    raise NotImplementedError(name)


def text(content: str) -> Json:
    return {"content": [{"type": "text", "text": content}], "isError": False}


def answer(method: str, params: Json) -> Json | None:
    """The result of a request; None of a method that this server does not know."""
    if method == "initialize":
        return {
            "protocolVersion": params["protocolVersion"], "capabilities": {"tools": {"listChanged": False}},
            "serverInfo": {"name": "plain", "version": "1.2.3"},
        }  # fmt: skip
    if method == "tools/list":
        return {"tools": TOOLS}
    if method == "tools/call":
        return call(params["name"], params.get("arguments") or {})
    return {} if method == "ping" else None


def main() -> None:
    for line in sys.stdin:
        message: Json = json.loads(line)
        if "id" in message and "method" in message:
            result = answer(message["method"], message.get("params") or {})
            told: Json = {"result": result}
            if result is None:
                told = {"error": {"code": -32601, "message": f"Method not found: {message['method']}"}}
            print(json.dumps({"jsonrpc": "2.0", "id": message["id"], **told}), flush=True)


if __name__ == "__main__":
    main()
