"""A policy in three answers: block, ask a person, or take the call as it is. The model reads why."""

from __future__ import annotations

import anyio

from hooksdk import Annotations, Approval, ApprovalRequest, Host, MemoryStore, Tool, hooks
from hooksdk.agent import run_agent
from hooksdk.hooks import Ask, BeforeToolCall, Block
from hooksdk.testing import Reply, ScriptedModel, Turn, call, say


class FilePolicy:
    """Nothing outside the workspace, and a person decides on what destroys."""

    @hooks.before_tool_call.first
    def stay_inside(self, event: BeforeToolCall) -> Block | None:
        path = str(event.arguments.get("path", ""))
        return Block(f"{path} is outside the workspace") if path.startswith("/") else None

    @hooks.before_tool_call
    def ask_before_destroying(self, event: BeforeToolCall) -> Ask | None:
        if event.tool.annotations.destructive:
            return Ask(f"{event.tool.name} {event.arguments['path']}?", severity="critical")
        return None


def delete_file(path: str) -> str:
    """Delete a file."""
    return f"{path} is gone"


async def approver(request: ApprovalRequest) -> Approval:
    """Stands in for a person who reads the question."""
    granted = "draft" in request.title
    print(f"  asked: {request.title} -> {'yes' if granted else 'no'}")
    return Approval(granted, "" if granted else "that one is still needed")


def script(turn: Turn) -> Reply:
    """Stands in for a model: it tries three files, then reads what came of it."""
    for result in turn.results:
        print(f"  model reads: {result.text}")
    paths = ["/etc/passwd", "report.txt", "draft.txt"]
    return say("", call("delete_file", path=paths[turn.number - 1])) if turn.number <= 3 else say("One of three.")


async def main() -> None:
    marked = Annotations(destructive=True)
    tools = [Tool.from_function(delete_file, source="host", annotations=marked)]
    async with (
        Host(plugins=[FilePolicy], store=MemoryStore(), approver=approver, config={"allow": []}) as host,
        host.session("example") as session,
    ):
        outcome = await run_agent(session, ScriptedModel(script), "Tidy up.", tools=tools)
    print(outcome.text, outcome.stats["tool_calls"])


if __name__ == "__main__":
    anyio.run(main)
