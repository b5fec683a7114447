"""agent-governance-toolkit: `govern(tool, policy=...)` with the YAML of its README's quick start. A denial is an exception."""

from __future__ import annotations

from contextlib import suppress

from agentmesh.governance import GovernanceDenied, govern
from policy_scene import DoesNotExist, Scene, main

POLICY = """
apiVersion: governance.toolkit/v1
name: production-policy
default_action: allow
rules:
  - name: block-destructive
    condition: "action.type in ['drop', 'delete', 'truncate']"
    action: deny
    description: "no"
"""
CONDITION = "action.type in ['drop', 'delete', 'truncate']"
CHANGES = {
    "list": ("'truncate']", "'truncate'"),
    "name": ("action.type", "action.tpye"),
    "function": (CONDITION, "action.type.startswith('drop')"),
    "operator": (CONDITION, "action.type not in ['read', 'list']"),
    "verdict": ("action: deny", "action: denny"),
    "equals": (CONDITION, "action.type = 'drop'"),
    "pattern": ("'drop'", "'dr*'"),
    "tool": ("'drop'", "'dorp'"),
    "rules": ("rules:", "rule:"),
    "key": ("    action:", "    actoin:"),
    "default": ("default_action:", "defualt_action:"),
}


async def attempt(scene: Scene) -> None:
    scene.asked = True
    action = {"allows": "read", "case": "DROP"}.get(scene.case, "drop")
    if scene.case not in {*CHANGES, "allows", "blocks", "case"}:
        raise DoesNotExist

    def table(action: str, table: str) -> str:
        scene.ran = True
        return f"{action} {table}"

    old, new = CHANGES.get(scene.case, ("", ""))
    governed = govern(table, policy=POLICY.replace(old, new) if old else POLICY)
    with scene.calling(), suppress(GovernanceDenied):
        governed(action=action, table="users")


if __name__ == "__main__":
    main("agent-governance-toolkit-core", attempt)
