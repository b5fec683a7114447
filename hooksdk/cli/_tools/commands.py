"""`hooksdk tools`: the tools that a model would get here."""

from __future__ import annotations

import typer

from hooksdk.cli._tools.audit import audit
from hooksdk.cli._tools.look import call_tool, list_tools, search_tools

tools_app = typer.Typer(help="Look at the tools that a model would get here.", no_args_is_help=True)
tools_app.command("call")(call_tool)
tools_app.command("list")(list_tools)
tools_app.command("search")(search_tools)
tools_app.command("audit")(audit)
