"""`hooksdk tools`: the tools that a model would get here."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from hooksdk.cli._options import WINDOW, ContextWindow, Json, Mcp, Plugins, Project, import_plugins

tools_app = typer.Typer(help="Look at the tools that a model would get here.", no_args_is_help=True)


@tools_app.command("call")
def call_tool(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The tool, as `hooksdk tools list` names it.")],
    arguments: Annotated[
        list[str] | None,
        typer.Argument(metavar="[KEY=VALUE]...", help="The arguments: KEY=VALUE each, or one JSON object; - reads it from stdin."),
    ] = None,
    mcp: Mcp = None,
    plugin: Plugins = None,
    approve: Annotated[
        bool | None,
        typer.Option("--yes/--ask", help="Grant every approval, or ask on stdin; by default only a terminal is asked."),
    ] = None,
    as_json: Json = False,
    project: Project = Path(),
) -> None:  # fmt: skip
    """Call one tool here as a model would: judged by the project's plugins, its arguments checked. Nothing is kept."""
    from hooksdk.cli._tools.call import Wish, call_once, read_arguments

    wish = Wish(name, read_arguments(arguments or []), tuple(mcp or ()), import_plugins(plugin), approve, project)
    raise typer.Exit(call_once(wish, as_json=as_json))


@tools_app.command("list")
def list_tools(
    mcp: Mcp = None,
    plugin: Plugins = None,
    context_window: ContextWindow = WINDOW,
    as_json: Json = False,
    project: Project = Path(),
) -> None:
    """List the tools that a model would get here, with the tokens that each costs."""
    from hooksdk.cli._tools.look import Look, print_tools

    look = Look(
        project=project, mcp=tuple(mcp or ()), plugins=import_plugins(plugin), context_window=context_window, as_json=as_json
    )  # fmt: skip
    raise typer.Exit(print_tools(look))


@tools_app.command("search")
def search_tools(
    queries: Annotated[list[str], typer.Argument(metavar="QUERY...", help="One capability each, in quotes.")],
    mcp: Mcp = None,
    plugin: Plugins = None,
    limit: Annotated[int | None, typer.Option(min=1, help="Hits of one query at most.")] = None,
    as_prompt: Annotated[bool, typer.Option("--as-prompt", help="Show what a user's prompt has prefetched.")] = False,
    as_json: Json = False,
    project: Project = Path(),
) -> None:
    """Show what tool search would answer a model here, or show it for a prompt, with the tokens that it costs."""
    from hooksdk.cli._tools.look import Look, print_found

    if not all(query.strip() for query in queries):
        raise typer.BadParameter("a query is empty", param_hint="QUERY")
    look = Look(
        project=project, mcp=tuple(mcp or ()), plugins=import_plugins(plugin), context_window=WINDOW, as_json=as_json
    )  # fmt: skip
    raise typer.Exit(print_found(look, queries, limit, as_prompt=as_prompt))


@tools_app.command("audit")
def audit(
    mcp: Mcp = None,
    plugin: Plugins = None,
    approve: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Approve a tool as it is now, by name or id; may be given several times."),
    ] = None,
    approve_all: Annotated[bool, typer.Option("--approve-all", help="Approve every tool as it is now.")] = False,
    as_json: Json = False,
    project: Project = Path(),
) -> None:
    """Report tools that changed, look like others or hold hidden text, and approve those that are right.

    The code is 1 when something is reported.
    """
    from hooksdk.cli._tools.audit import AuditOptions, audit_tools

    options = AuditOptions(
        project=project, mcp=tuple(mcp or ()), plugins=import_plugins(plugin), approve=tuple(approve or ()),
        approve_all=approve_all, as_json=as_json,
    )  # fmt: skip
    raise typer.Exit(audit_tools(options))
