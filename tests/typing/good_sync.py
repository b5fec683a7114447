"""A plain program, as a type checker sees it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, assert_type

from hooksdk import Approval, ApprovalRequest, Catalog, Tool, ToolCall, ToolResult, TrimReceipt
from hooksdk.agent import ModelReply, Outcome
from hooksdk.formats import Message
from hooksdk.sync import Host, JudgedCall, Run, Session, run_agent
from hooksdk.transcript import DrainReport


def approve(request: ApprovalRequest) -> Approval:
    return Approval(request.severity == "info")


def model(messages: Sequence[Message], tools: Sequence[dict[str, Any]]) -> ModelReply:
    return ModelReply(message={"role": "assistant", "content": f"{len(messages)} messages, {len(tools)} tools"})


with Host(approver=approve) as host, host.session("ann") as session, session.run("Hello") as run:
    assert_type(host, Host)
    assert_type(session, Session)
    assert_type(run, Run)
    assert_type(run.resolve_tools([]), list[Tool])
    assert_type(run.tools, Catalog)
    assert_type(run.call_tool(ToolCall("c1", "greet")), ToolResult)
    assert_type(run.judge(ToolCall("c2", "greet")), JudgedCall)
    assert_type(session.trim("r1", "short"), TrimReceipt)
    assert_type(session.drain(), DrainReport)
    assert_type(session.child("b"), Session)
    assert_type(run_agent(session, model, "Hello"), Outcome)
    with run.compaction() as compaction:
        compaction.replace([])
