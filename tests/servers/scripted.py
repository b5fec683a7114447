"""A server that does what a file says: `scripted.py FOLDER`. It is written without the SDK, so that it starts at once.

`FOLDER/script.json` holds its `tools`, its `version`, at `start` `refuse` or `stall`, and at `unknown` `ignore` or `die`, which is
what it does when it does not know a request; else it answers with nothing. It writes every request that it gets
to `FOLDER/log`, one a line, and each start as `start PID`; their `_meta` to `FOLDER/meta`.
"""

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

folder = Path(sys.argv[1])
KNOWN = ("initialize", "ping", "tools/list", "tools/call")


def log(line: str) -> None:
    with (folder / "log").open("a", encoding="utf-8") as file:
        file.write(line + "\n")


def script() -> dict[str, Any]:
    return json.loads((folder / "script.json").read_text(encoding="utf-8"))


def send(message: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


def wait_for(name: str) -> None:
    while not (folder / name).exists():
        time.sleep(0.005)


def call(name: str) -> str:
    if name == "die":
        os._exit(3)
    elif name == "wait":
        wait_for("go")
    elif name == "long":
        return "x" * 50_000_000
    elif name == "tell":
        send({"method": "notifications/tools/list_changed"})
    return f"{name} by {os.getpid()}"


def answer(request: dict[str, Any]) -> dict[str, Any]:
    parameters: dict[str, Any] = request.get("params", {})
    if request["method"] == "initialize":
        return {
            "protocolVersion": parameters["protocolVersion"],
            "capabilities": {"tools": {"listChanged": True}},
            "serverInfo": {"name": "scripted", "version": script().get("version", "1")},
        }
    if request["method"] == "tools/list":
        tools: list[dict[str, Any]] = script()["tools"]
        return {"tools": [{"inputSchema": {"type": "object"}, **tool} for tool in tools]}
    if request["method"] == "tools/call":
        return {"content": [{"type": "text", "text": call(parameters["name"])}]}
    return {}


def main() -> None:
    log(f"start {os.getpid()}")
    begin = script().get("start", "")
    if begin == "refuse":
        sys.exit("no licence")
    if begin == "stall":
        wait_for("never")
    for line in sys.stdin:
        message = json.loads(line)
        if "method" in message and "id" in message:
            log(message["method"])
            with (folder / "meta").open("a", encoding="utf-8") as file:
                file.write(json.dumps(message.get("params", {}).get("_meta")) + "\n")
            if message["method"] not in KNOWN and (unknown := script().get("unknown")):
                if unknown == "die":
                    sys.exit("expected initialize")
                continue
            send({"id": message["id"], "result": answer(message)})


if __name__ == "__main__":
    main()
