"""agenthooks-py: an implementation in a `HookRegistry`, and a hook point of a `HookAgent`, as its README has both.

Stricter: `fallback=False`.
"""

from __future__ import annotations

import tempfile
from typing import Any

from agenthooks import AuditTrail, HookAgent, HookContext, HookRegistry, hookpoint, set_default_audit
from agenthooks.core.exceptions import HookBlocked
from policy_scene import Scene, main


def block() -> Any:
    raise HookBlocked("no")


def registry_of(scene: Scene) -> HookRegistry:
    registry = HookRegistry()
    name = "before_execut" if scene.case == "hook" else "before_execute"
    implement: Any = registry.implement(
        name, timeout_ms=int(1000 * scene.limit), fallback=scene.variant != "fallback=False"
    )
    if scene.plain:

        @implement
        def judge_plainly(context: HookContext) -> Any:
            return scene.judge_plainly(lambda: context, block)

    else:

        @implement
        async def judge(context: HookContext) -> Any:
            return await scene.judge(lambda: context, block)

    return registry


class Agent(HookAgent):
    before_execute = hookpoint("before_execute")

    async def execute(self, scene: Scene) -> None:
        context = HookContext.new(session_id="s1", tool_name="act")
        try:
            async with self.before_execute.run(context):
                await scene.act(**scene.arguments)
        except HookBlocked:
            return


async def attempt(scene: Scene) -> None:
    scene.only("hook")
    set_default_audit(AuditTrail(path=f"{tempfile.mkdtemp()}/audit.jsonl"))
    agent = Agent(registries=[registry_of(scene)])
    with scene.calling():
        await agent.execute(scene)


if __name__ == "__main__":
    main("agenthooks-py", attempt)
