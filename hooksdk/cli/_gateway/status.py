"""`hooksdk gateway status`: the gateways that run."""

from __future__ import annotations

import time
from datetime import UTC, datetime

from hooksdk.cli._console import counted, one_line, print_json, stdout_console
from hooksdk.gateway.status import GatewayStatus, running_gateways


def show_status(*, as_json: bool) -> int:
    """Print every gateway of this user that runs."""
    found = running_gateways()
    if as_json:
        print_json({"schema": 1, "gateways": [one.as_dict() for one in found]})
        return 0
    if not found:
        stdout_console().print("no gateway runs")
    for one in found:
        _print(one)
    return 0


def _print(one: GatewayStatus) -> None:
    console = stdout_console()
    where = one.address or one.transport
    since = datetime.fromtimestamp(one.started, UTC).astimezone()
    more = "".join(
        f", {word} {one_line(value)}" for word, value in (("for", one.client), ("profile", one.profile)) if value
    )
    console.print(f"[bold]gateway {one.pid}[/]  {one_line(where)}{more}, since {since:%Y-%m-%d %H:%M}", soft_wrap=True)
    console.print(f"  files     {one_line(', '.join(one.config) or 'none')}", soft_wrap=True)
    if one.problem:
        console.print(f"  [yellow]not used[/]  {one_line(one.problem)}", soft_wrap=True)
    for server in one.servers:
        problem = f": {one_line(server.problem)}" if server.problem else ""
        whose = f", one for each {one_line(server.scope)}" if server.scope != "gateway" else ""
        name = f"{one_line(server.name)}  "
        if server.holder:
            name, whose = f"  {name}of {one_line(server.holder)}, ", ""
        console.print(
            f"  server    {name}{one_line(server.state)}, {counted(server.tools, 'tool')}{whose}{problem}",
            soft_wrap=True,
        )
    console.print(f"  sessions  {one.sessions:,} open", soft_wrap=True)
    console.print(f"  tokens    {one.tokens_saved:,} of {one.tokens_direct:,} saved", soft_wrap=True)
    console.print(
        f"  calls     {one.calls:,}: {one.blocked:,} blocked, {one.asked:,} asked about, {one.failed:,} failed"
        f"  (written {max(time.time() - one.changed, 0):.0f} s ago)",
        soft_wrap=True,
    )
