"""agent-hooks-sdk: an interceptor at an `InterceptionEmitter`, as its README has both.

Stricter: the emitter is built from a host declaration.
"""

from __future__ import annotations

from typing import Any

from agent_hooks import (
    AgentContextBuilder,
    HostRegistry,
    HostSurface,
    InterceptionBlocked,
    InterceptionEmitter,
    Verdict,
)
from policy_scene import Scene, main


def guard(scene: Scene) -> Any:
    async def judge(self: Any, context: Any) -> Any:
        return await scene.judge(Verdict.allow, lambda: Verdict.deny(reason="no"))

    def judge_plainly(self: Any, context: Any) -> Any:
        return scene.judge_plainly(Verdict.allow, lambda: Verdict.deny(reason="no"))

    method = "intercep" if scene.case == "method" else "intercept"
    return type("Guard", (), {method: judge_plainly if scene.plain else judge})()


def emitter_of(scene: Scene) -> InterceptionEmitter:
    point = "pre_tool_cal" if scene.case == "hook" else "pre_tool_call"
    if scene.variant != "declaration":
        return InterceptionEmitter(timeout=scene.limit).register(guard(scene), at=[point])
    kind = "com.example.guardd" if scene.case == "class" else "com.example.guard"
    document = {
        "declaration": "agent-hooks-declaration/1.0",
        "configuration": {"timeouts": {"interceptor_ms": int(1000 * scene.limit)}},
        "bindings": [{"id": "guard", "kind": kind, "at": [point]}],
    }
    surface = HostSurface.from_capabilities(["tool_calls", "host_declaration"])
    registry = HostRegistry(surface).kind("com.example.guard", lambda config, context: guard(scene))
    return InterceptionEmitter.from_declaration_value(document, registry)


async def attempt(scene: Scene) -> None:
    scene.only("method", "hook", *(["class"] if scene.variant else []))
    emitter = emitter_of(scene)
    builder = AgentContextBuilder(agent_id="agent", framework="none", session_id="s1")
    context = builder.pre_tool_call(call_id="c1", name="act", args=scene.arguments)
    with scene.calling():
        try:
            await emitter.emit(context)
        except InterceptionBlocked:
            return
        await scene.act(**context["tool_call"]["args"])


if __name__ == "__main__":
    main("agent-hooks-sdk", attempt)
