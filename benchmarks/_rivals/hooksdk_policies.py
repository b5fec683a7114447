"""hooksdk: a class with a `before_tool_call` handler. Stricter: `thread=True`, for a plain `def`."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from policy_scene import TIMED, Scene, main

from hooksdk import Tool, hooks
from hooksdk.hooks import BeforeToolCall, Block
from hooksdk.testing import call, open_session, play

GUARD = """
from hooksdk import hooks
from hooksdk.hooks import BeforeToolCall, Block

class Guard:
    @hooks.before_tool_call
    def judge(self, event: BeforeToolCall) -> Block:
        return Block("no")
"""


async def attempt(scene: Scene) -> None:
    scene.only("hook", "class")
    scene.silent = True
    with installed("misspelt_policy:Guardd") if scene.case == "class" else written(scene) as plugin:
        tool = Tool.from_function(scene.act, name="act")
        async with open_session(plugin, tools=[tool]) as session:
            with scene.calling():
                await play(session, [call("act", **scene.arguments), "Done."])


@contextmanager
def written(scene: Scene) -> Iterator[type]:
    # A limit only where the case needs one: a policy that answers at once must not be late on a busy machine.
    options: dict[str, Any] = {"timeout": scene.limit} if scene.case in TIMED else {}
    hook: Any = hooks.before_tool_cal if scene.case == "hook" else hooks.before_tool_call

    class Guard:
        if scene.plain:

            @hook(**options, thread=scene.variant == "thread=True")
            def judge_plainly(self, event: BeforeToolCall) -> Any:
                return scene.judge_plainly(lambda: None, lambda: Block("no"))

        else:

            @hook(**options)
            async def judge(self, event: BeforeToolCall) -> Any:
                return await scene.judge(lambda: None, lambda: Block("no"))

    yield Guard


@contextmanager
def installed(target: str) -> Iterator[str]:
    """An installed package whose entry point is this target."""
    with tempfile.TemporaryDirectory() as folder:
        package = Path(folder, "misspelt_policy")
        package.mkdir()
        (package / "__init__.py").write_text(GUARD, "utf-8")
        (package / "hooksdk.plugin.json").write_text('{"id": "misspelt_policy"}', "utf-8")
        info = Path(folder, "misspelt_policy-1.0.dist-info")
        info.mkdir()
        (info / "METADATA").write_text("Metadata-Version: 2.1\nName: misspelt-policy\nVersion: 1.0\n", "utf-8")
        (info / "entry_points.txt").write_text(f"[hooksdk.plugins]\nmisspelt_policy = {target}\n", "utf-8")
        sys.path.append(folder)
        try:
            yield "misspelt_policy"
        finally:
            sys.path.remove(folder)
            sys.modules.pop("misspelt_policy", None)


if __name__ == "__main__":
    main("hooksdk", attempt)
