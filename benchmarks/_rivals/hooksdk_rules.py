"""hooksdk: a rule of the built-in `tool_policy`, as it stands in hooksdk.toml."""

from __future__ import annotations

import tomllib

from policy_scene import DoesNotExist, Scene, main

from hooksdk.testing import call, open_session, play

POLICY = """
[plugins.tool_policy.config]
default = "allow"

[[plugins.tool_policy.config.rules]]
action = "deny"
tools = ["drop", "delete", "truncate"]
"""
TOOLS = 'tools = ["drop", "delete", "truncate"]'
CHANGES = {
    "list": ('"truncate"]', '"truncate"'),
    "name": ("tools =", "tool ="),
    "function": (TOOLS, 'tools.startswith = "drop"'),
    "operator": (TOOLS, 'not_tools = ["read", "list"]'),
    "verdict": ('action = "deny"', 'action = "denny"'),
    "equals": ("tools =", "tools =="),
    "pattern": ('"drop"', '"dr*"'),
    "tool": ('"drop"', '"dorp"'),
    "rules": (".rules]]", ".rule]]"),
    "key": ("action =", "actoin ="),
    "default": ("default =", "defualt ="),
}


async def attempt(scene: Scene) -> None:
    scene.asked = True
    name = {"allows": "read", "case": "DROP"}.get(scene.case, "drop")
    if scene.case not in {*CHANGES, "allows", "blocks", "case"}:
        raise DoesNotExist

    def tool(table: str) -> str:
        """Do it."""
        scene.ran = True
        return f"{table} is gone"

    tool.__name__ = name
    old, new = CHANGES.get(scene.case, ("", ""))
    config = tomllib.loads(POLICY.replace(old, new) if old else POLICY)
    async with open_session("tool_policy", tools=[tool], config=config) as session:
        with scene.calling():
            await play(session, [call(name, table="users"), "Done."])


if __name__ == "__main__":
    main("hooksdk", attempt)
