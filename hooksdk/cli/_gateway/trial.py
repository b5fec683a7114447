"""`hooksdk gateway try`: what the gateway would have saved of what coding agents did lately. Nothing is changed, and no
tool is called."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from hooksdk.cli._configuration import read_config
from hooksdk.cli._console import View, counted, one_line, print_line, safe, stderr_console, warnings_shown
from hooksdk.cli._edits.client_text import ClientText
from hooksdk.cli._edits.files import decoded, read_bytes
from hooksdk.cli._gateway.figures import Figures, measure
from hooksdk.cli._gateway.install import taken_over
from hooksdk.cli._gateway.places import find_place, gateway_file, read_record
from hooksdk.cli._guard.transcripts import RecordedCall, read_lately
from hooksdk.cli._guard.trial import agents_of, span_of
from hooksdk.guard import AGENTS, tool_of


def try_gateway(client: Sequence[str] | None, since: str, *, as_json: bool) -> None:
    """Print the figures of each agent. Raises `typer.BadParameter` for an unknown agent or a time that is none."""
    begin = datetime.now(UTC) - span_of(since)
    view, found, problems = View({}), dict[str, Any](), list[tuple[Path, str]]()
    with warnings_shown():
        for agent in agents_of(client):
            reading = read_lately(agent, begin, [Path.cwd()], lambda _path: None)
            problems += reading.problems
            figures = _figures_of(agent)
            found[agent] = _add_agent(view, agent, reading.calls, figures)
    told = [{"path": str(path), "problem": problem} for path, problem in problems]
    view.document |= {"since": begin.isoformat(), "clients": found, "problems": told}
    view.show(as_json=as_json)
    for path, problem in () if as_json else problems:
        print_line(stderr_console(), "[yellow]problem[/]", f"{safe(path)}: {one_line(problem)}")


def _figures_of(agent: str) -> Figures | None:
    """The price of a client's own servers, or of the gateway's where it has taken their place; None without any."""
    place = find_place(agent, "user", Path())
    text = ClientText(place.path, place.keys)
    if read_record(agent, place.path, place.keys) is not None:
        path = gateway_file("user", Path())
        servers = ClientText(path, ("mcpServers",)).servers(decoded(path, read_bytes(path)))
    else:
        taken = {
            name: taken_over(place, name, entry)
            for name, entry in text.servers(decoded(place.path, read_bytes(place.path))).items()
        }
        servers = {name: entry for name, (entry, _, problem) in taken.items() if not problem}
    return measure(servers, read_config(folder=Path())[0]) if servers else None


def _add_agent(view: View, agent: str, calls: Sequence[RecordedCall], figures: Figures | None) -> dict[str, Any]:
    names = figures.names if figures is not None else ()
    own = [call for call in calls if call.tool in names or tool_of(agent, call.tool).source == "mcp"]
    tools, sessions = Counter(call.tool for call in own), len({call.session for call in calls})
    # A session with a call has made two requests at least: one that was answered with it, one with its result.
    saved = 2 * sessions * figures.saved if figures is not None else 0
    title, did = AGENTS[agent].title, f"{counted(len(calls), 'call')} in {counted(sessions, 'session')}"
    if calls or figures is not None:
        view.markup(f"[bold]{safe(title)}[/]  {did}, {len(own):,} of them of MCP servers")
    if figures is not None:
        view.line("  tools", str(figures))
        view.line("  saved", f"{figures.saved:,} tokens in each request that lists them all; here {saved:,} at least")
        view.lines("  not started", [f"{name}: {why}" for name, why in figures.problems.items()], "yellow")
    view.lines("  called", [f"{name} {count:,} times" for name, count in tools.most_common()])
    return {
        "calls": len(calls),
        "sessions": sessions,
        "called": dict(tools.most_common()),
        "figures": figures and figures.as_dict(),
        "saved_at_least": saved,
    }
