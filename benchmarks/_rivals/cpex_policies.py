"""cpex: a `Plugin` subclass named in a YAML file, asked by a `PluginManager`, as its README has both.

Stricter: `PLUGINS_FAIL_ON_PLUGIN_ERROR=true`.
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path
from types import ModuleType
from typing import Any

if "fail_on_plugin_error" in sys.argv:  # read once, when the package is imported
    os.environ["PLUGINS_FAIL_ON_PLUGIN_ERROR"] = "true"

from cpex.framework import GlobalContext, Plugin, PluginManager, PluginViolation
from cpex.framework.hooks.tools import ToolPreInvokePayload, ToolPreInvokeResult
from policy_scene import Scene, main

CONFIG = """
plugins:
  - name: guard
    kind: {kind}
    version: 1.0.0
    hooks: [{hook}]
    mode: sequential
"""


def allow() -> ToolPreInvokeResult:
    return ToolPreInvokeResult(continue_processing=True)


def block() -> ToolPreInvokeResult:
    violation = PluginViolation(reason="no", description="not here", code="NO")
    return ToolPreInvokeResult(continue_processing=False, violation=violation)


def guard(scene: Scene) -> type[Plugin]:
    async def judge(self: Plugin, payload: ToolPreInvokePayload, context: Any) -> Any:
        return await scene.judge(allow, block)

    def judge_plainly(self: Plugin, payload: ToolPreInvokePayload, context: Any) -> Any:
        return scene.judge_plainly(allow, block)

    method = "tool_pre_invok" if scene.case == "method" else "tool_pre_invoke"
    return type("Guard", (Plugin,), {method: judge_plainly if scene.plain else judge})


def manager_of(config: str, timeout: int) -> PluginManager:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "config.yaml")
        path.write_text(config, "utf-8")
        return PluginManager(str(path), timeout=timeout)


async def attempt(scene: Scene) -> None:
    module: Any = ModuleType(f"policies_{scene.case.replace(' ', '_')}")  # cpex loads a class of one name once
    module.Guard = guard(scene)
    sys.modules[module.__name__] = module
    config = CONFIG.format(
        kind=f"{module.__name__}.{'Guardd' if scene.case == 'class' else 'Guard'}",
        hook="tool_pre_invok" if scene.case == "hook" else "tool_pre_invoke",
    )
    PluginManager.reset()
    manager = manager_of(config, int(scene.limit))
    await manager.initialize()
    payload = ToolPreInvokePayload(name="act", args=scene.arguments)
    with scene.calling():
        result, _ = await manager.invoke_hook("tool_pre_invoke", payload, GlobalContext(request_id="r1"))
        if result.continue_processing:
            await scene.act(**scene.arguments)


if __name__ == "__main__":
    main("cpex", attempt)
