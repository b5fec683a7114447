"""A server whose list of tools changes, given out one tool a page."""

from typing import Any

from lines import hello, plain_tool, send, serve_requests, text

names = ["grow", "shrink", "vanish"]


def answer(request: dict[str, Any]) -> dict[str, Any]:
    method: str = request["method"]
    params: dict[str, Any] = request.get("params") or {}
    if method == "initialize":
        return hello(params, "changing", list_changes=True)
    if method == "tools/list":
        at = int(params.get("cursor") or 0)
        page: dict[str, Any] = {"tools": [plain_tool(names[at], f"page {at + 1}")]}
        return {**page, "nextCursor": str(at + 1)} if at + 1 < len(names) else page
    return call(params["name"]) if method == "tools/call" else {}


def call(name: str) -> dict[str, Any]:
    if name == "grow":
        names.append(f"grown_{len(names)}")
    elif name == "shrink":
        names.remove("vanish")
    else:
        return text("still here")
    send({"method": "notifications/tools/list_changed"})
    return text(f"{len(names)} tools")


if __name__ == "__main__":
    serve_requests(answer)
