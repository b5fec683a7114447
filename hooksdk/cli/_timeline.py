"""A plugin that shows a run as it happens, from nothing but the trace hook."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.console import Console
from rich.markup import escape

from hooksdk import hooks
from hooksdk.hooks import Trace

__all__ = ["timeline"]

MARKS = {"ok": "[green]✓[/]", "answered": "[green]✓[/]", "blocked": "[red]✗[/]"}


def timeline(console: Console) -> type:
    """A plugin class that prints to this console."""

    class Timeline:
        """Print what happens in a run, one line each."""

        plugin_id = "timeline"

        def __init__(self) -> None:
            self._turn = 0
            self._bridges: dict[str, str] = {}

        @hooks.trace
        async def show(self, event: Trace) -> None:
            if (line := self._line(event.kind, event.detail)) is not None:
                console.print(line, soft_wrap=True)

        def _line(self, kind: str, detail: Mapping[str, Any]) -> str | None:
            if kind == "model_called":
                self._turn += 1
            elif kind == "unwrapped":
                self._bridges[detail["call_id"]] = detail["bridge"]
            elif kind == "call_started":
                bridge = self._bridges.get(detail["call_id"])
                through = f" [dim]through {bridge}[/]" if bridge else ""
                return f"turn {self._turn:<3} [bold]{escape(detail['name'])}[/]{through}"
            return _line(kind, detail)

    return Timeline


def _line(kind: str, detail: Mapping[str, Any]) -> str | None:
    match kind:
        case "tools_resolved":
            told = f"{detail['tools']} tools, {detail['tokens']:,} tokens of schemas"
            if detail["tokens"] <= detail["tokens_offered"]:
                return f"[dim]catalog[/]     {told}: all are offered\n"
            shown = f"{detail['offered']} tools, {detail['tokens_offered']:,} tokens"
            return f"[dim]catalog[/]     {told}; tool search is on and offers {shown}\n"
        case "decision":
            reason = f": {detail['reason']}" if detail["reason"] else ""
            return _indented(detail["hook"], f"{detail['plugin']} says {detail['decision']}{reason}")
        case "approval_asked":
            return _indented("approval", detail["title"])
        case "approval_answered":
            return _indented("approval", "granted" if detail["granted"] else "refused")
        case "call_finished":
            mark = MARKS.get(detail["status"], "[red]![/]")
            took = f"{detail['seconds'] * 1000:,.0f} ms"
            return f"         {mark} {detail['status']}, {detail['characters']:,} characters, {took}"
        case "trim_queued":
            sizes = f"{detail['characters_before']:,} to {detail['characters_after']:,} characters"
            told = f"{detail['handle']}, {sizes}; durable, not applied while the run is open"
            return _indented("trim queued", told)
        case "trim_drained":
            saved = f"saves {detail['tokens_saved']:,} tokens of every request from now on"
            trim = f"trim of {detail['handle']} ({escape(detail['tool'])}) {detail['status']}"
            return f"agent_end  the fence opens: {trim}, {saved}"
        case _:
            return None


def _indented(what: str, told: str) -> str:
    return f"         [dim]{what:<17}[/] {escape(told)}"
