"""Commands and groups of commands that are imported when they are typed, so that every other command begins sooner."""

from __future__ import annotations

import importlib
import inspect
import re
from typing import Any, cast

import typer.main
from typer.core import TyperGroup

# Single commands, each with its module, where it is `NAME_app`.
COMMANDS = {
    "run": "_run.prompt",
    "replay": "_replay.session",
    "report": "_report",
    "trim": "_sessions.trim_file",
    "doctor": "_doctor.examination",
    "trust": "_config.trust",
}
# Groups, each with its module, where it is `NAME_app`.
GROUPS = {
    "config": "_config.schema",
    "tools": "_tools.commands",
    "plugins": "_plugins.commands",
    "approvals": "_approvals.commands",
    "sessions": "_sessions.commands",
    "policy": "_policy",
    "mcp": "_gateway.commands",
    "gateway": "_gateway.commands",
    "guard": "_guard.commands",
    "audit": "_audit.commands",
}
_MODULES = COMMANDS | GROUPS
# The order and the panels of the help; a command that is in none of them stands below.
_PANELS = {
    "Start here": ("demo", "guard", "gateway", "run"),
    "Rules and approvals": ("policy", "approvals", "trust", "config", "doctor"),
    "Plugins, tools and servers": ("plugins", "tools", "mcp"),
    "Look back": ("sessions", "trim", "report", "replay", "audit"),
}
# The last section of a command's docstring begins so.
OPTIONS = "\n\nOptions:\n"


class LaterGroups(TyperGroup):
    """The command itself, with the others as they are needed."""

    def list_commands(self, ctx: Any) -> list[str]:
        """Every command: the help tells what each is for."""
        self._load(*_MODULES)
        names = [name for panel in _PANELS.values() for name in panel]
        return sorted(super().list_commands(ctx), key=lambda one: names.index(one) if one in names else len(names))

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """One command."""
        if cmd_name in _MODULES:
            self._load(cmd_name)
        command: Any = super().get_command(ctx, cmd_name)
        if panel := next((title for title, names in _PANELS.items() if command and cmd_name in names), None):
            command.rich_help_panel = panel
        _complete_help(command, ctx)
        return command

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """The help of the command itself."""
        _complete_help(self, ctx)
        super().format_help(ctx, formatter)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """The typed command; the error for an unknown one names a similar one."""
        if args and self.get_command(ctx, args[0]) is None:
            self._load(*_MODULES)
        return super().resolve_command(ctx, args)

    def _load(self, *names: str) -> None:
        for name in names:
            if name not in self.commands:
                app = getattr(importlib.import_module(f"hooksdk.cli.{_MODULES[name]}"), f"{name}_app")
                command = typer.main.get_group(app) if name in GROUPS else typer.main.get_command(app)
                command.name = name
                self.commands[name] = command


class GroupWithOptions(TyperGroup):
    """Commands of a group with options. The options before a subcommand count for it: `approvals --store B grant 1` is
    `approvals grant --store B 1`. An option that the subcommand does not have, or has with another meaning, is
    refused."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """The subcommand, and its arguments with the group's options in front."""
        name, command, rest = super().resolve_command(ctx, args)
        own = {option.name: option.opts for option in getattr(command, "params", ())}
        options, group_options = list[str](), cast("list[Any]", self.params)
        for option in group_options:
            source = ctx.get_parameter_source(option.name)
            if source is None or source.name != "COMMANDLINE" or ctx.resilient_parsing:  # a shell that completes a word
                continue
            spelling = option.opts[0]
            if own.get(option.name) != option.opts:
                ctx.fail(f"{spelling} is an option of `{ctx.command_path}` alone: leave it out before `{name}`")
            value = ctx.params[option.name]
            for one in value if option.multiple else [value]:
                options += [spelling] if option.is_flag else [spelling, str(one)]
        return name, command, [*options, *rest]


def _complete_help(command: Any, context: Any) -> None:
    """Take the help of options and arguments from the section `Options:` of the command's docstring, and let it show
    `--json` alone: newer typers write a flag's type beside it, `<bool>`, as if it took a value."""
    if command is None:
        return
    texts = _option_texts(inspect.getdoc(command.callback) or "")
    command.help = command.help and command.help.partition(OPTIONS)[0]
    for option in (*command.params, command.get_help_option(context)):
        option.help = option.help or texts.get(option.name)
        if getattr(option, "is_flag", False) and option.metavar is None:
            option.metavar = ""
    for each in getattr(command, "commands", {}).values():
        _complete_help(each, context)


def _option_texts(docstring: str) -> dict[str, str]:
    """The entries of the section, by the names of the function's parameters."""
    entries = re.findall(r"^    (\w+): (.+(?:\n {8}.+)*)", docstring.partition(OPTIONS)[2], re.MULTILINE)
    return {name: " ".join(text.split()) for name, text in entries}
