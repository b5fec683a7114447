"""Groups of commands that are imported when they are typed, so that every other command begins sooner."""

from __future__ import annotations

import importlib
from typing import Any

import typer.main
from typer.core import TyperGroup

GROUPS = {
    "tools": "_tools.commands", "plugins": "_plugins.commands", "approvals": "_approvals.commands",
    "sessions": "_sessions.commands", "policy": "_policy", "mcp": "_mcp.commands", "gateway": "_gateway.commands",
    "guard": "_guard.commands",
}  # fmt: skip
"""Each with the module that has it, as `NAME_app`."""


class LaterGroups(TyperGroup):
    """The command itself, with its groups as they are needed."""

    def list_commands(self, ctx: Any) -> list[str]:
        """All of them: the help tells what each is for."""
        self._load(*GROUPS)
        return super().list_commands(ctx)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """One of them."""
        if cmd_name in GROUPS:
            self._load(cmd_name)
        return super().get_command(ctx, cmd_name)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """The one that was typed; what is none is told what comes near to it."""
        if args and self.get_command(ctx, args[0]) is None:
            self._load(*GROUPS)
        return super().resolve_command(ctx, args)

    def _load(self, *names: str) -> None:
        for name in names:
            if name not in self.commands:
                module = importlib.import_module(f"hooksdk.cli.{GROUPS[name]}")
                group = typer.main.get_group(getattr(module, f"{name}_app"))
                group.name = name
                self.commands[name] = group
