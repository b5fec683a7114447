"""A plugin as a module: every hook once, plain and async, with and without options."""

from hooksdk import ToolCall, hooks
from hooksdk.hooks import (
    AddContext,
    AfterCompaction,
    AfterModelCall,
    AfterToolCall,
    AfterToolsResolved,
    AgentEnd,
    AgentStart,
    Answer,
    Ask,
    AssembleTools,
    BeforeCompaction,
    BeforeModelCall,
    BeforeToolCall,
    Block,
    NarrowTools,
    Offer,
    Replace,
    ReplaceMessages,
    ResolveSecrets,
    Rewrite,
    RewriteToolCall,
    Secrets,
    SessionEnd,
    SessionStart,
    Trace,
    TransformToolResult,
    Trim,
    UnwrapToolCall,
    Withhold,
)


@hooks.session_start
def session_start(event: SessionStart) -> None:
    print(event.session_id, event.resumed)


@hooks.session_end
async def session_end(event: SessionEnd) -> None:
    print(event.reason)


@hooks.agent_start.first
def agent_start(event: AgentStart) -> Block | None:
    return Block("no") if event.trigger == "schedule" else None


@hooks.narrow_tools
async def narrow_tools(event: NarrowTools) -> Withhold | None:
    return Withhold([tool.name for tool in event.tools if tool.annotations.destructive], "read-only day")


@hooks.assemble_tools(timeout=2)
def assemble_tools(event: AssembleTools) -> Offer | None:
    return Offer(defer=[tool.name for tool in event.deferrable])


@hooks.after_tools_resolved
def after_tools_resolved(event: AfterToolsResolved) -> None:
    print(event.fingerprint, [tool.parameters for tool in event.catalog])


@hooks.before_model_call
def before_model_call(event: BeforeModelCall) -> AddContext | ReplaceMessages | Trim | None:
    if event.tokens > 1000:
        return Trim([result.handle for result in event.results.list()])
    return AddContext("be brief")


@hooks.after_model_call
def after_model_call(event: AfterModelCall) -> None:
    print(event.usage)


@hooks.unwrap_tool_call
async def unwrap_tool_call(event: UnwrapToolCall) -> ToolCall | None:
    return ToolCall(event.call.id, "real", event.arguments)


@hooks.rewrite_tool_call(tools="mcp:github:*")
def rewrite_tool_call(event: RewriteToolCall) -> Rewrite | None:
    return Rewrite({**event.arguments, "dry_run": True})


@hooks.before_tool_call.last(tools=["delete_*"], thread=True)
def before_tool_call(event: BeforeToolCall) -> Block | Ask | Answer | None:
    return Ask(f"Run {event.tool.name}?", severity="critical")


@hooks.before_tool_call
def narrower_answer(event: BeforeToolCall) -> Block:
    return Block("always")


@hooks.before_tool_call
async def no_answer(event: BeforeToolCall) -> None:
    print(event.arguments["path"])


@hooks.resolve_secrets
async def resolve_secrets(event: ResolveSecrets) -> Secrets | None:
    return Secrets(dict.fromkeys(event.names, "x"))


@hooks.transform_tool_result(required=True)
def transform_tool_result(event: TransformToolResult) -> Replace | None:
    return Replace(event.result.text.strip())


@hooks.after_tool_call
async def after_tool_call(event: AfterToolCall) -> None:
    print(event.status, event.seconds)


@hooks.agent_end
async def agent_end(event: AgentEnd) -> None:
    print(event.reason, event.stats, event.transcript)


@hooks.before_compaction
def before_compaction(event: BeforeCompaction) -> None:
    print(event.tokens)


@hooks.after_compaction
def after_compaction(event: AfterCompaction) -> None:
    print(event.tokens)


@hooks.trace
def trace(event: Trace) -> None:
    print(event.kind, event.record)
