"""A plugin that shows a run as it happens, from nothing but the trace hook."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.console import Console

from hooksdk import hooks
from hooksdk.cli._console import counted, safe
from hooksdk.hooks import Trace

__all__ = ["timeline"]

MARKS = {"ok": "[green]✓[/]", "answered": "[green]✓[/]", "blocked": "[red]✗[/]"}
CUT_OFF = ("length", "max_tokens")
"""How the providers say that a reply was longer than it may be."""
REFUSED = ("refusal", "content_filter")
"""How they say that the model, or a filter, would not answer."""


def timeline(console: Console) -> type:
    """A plugin class that prints to this console."""

    class Timeline:
        """Print what happens in a run, one line each."""

        plugin_id = "command_timeline"

        def __init__(self) -> None:
            self._turn = 0
            self._bridges: dict[str, str] = {}
            self._open: set[str] = set()
            self._catalog: str | None = None

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
                self._open.add(detail["call_id"])
                bridge = self._bridges.get(detail["call_id"])
                through = f" [dim]through {bridge}[/]" if bridge else ""
                if detail["origin"] == "code":
                    through = " [dim]in the script[/]"
                return f"turn {self._turn:<3} [bold]{safe(detail['name'])}[/]{through}"
            elif kind == "call_finished":
                # Of calls that run at a time, each end says whose it is.
                name = f"{safe(detail['name'])}: " if len(self._open) > 1 else ""
                self._open.discard(detail["call_id"])
                mark = MARKS.get(detail["status"], "[red]![/]")
                duration = f"{detail['seconds'] * 1000:,.0f} ms"
                return f"         {mark} {name}{detail['status']}, {detail['characters']:,} characters, {duration}"
            line = _line(kind, detail)
            if kind == "tools_resolved":
                # Another attempt resolves the tools anew, mostly to the same.
                self._catalog, line = line, None if line == self._catalog else line
            return line

    return Timeline


def _line(kind: str, detail: Mapping[str, Any]) -> str | None:
    match kind:
        case "withheld":
            names = f"{', '.join(detail['names'])} ({detail['reason']})"
            return f"[dim]withheld[/]    by {safe(detail['plugin'])}: {safe(names)}"
        case "tools_resolved":
            size = f"{counted(detail['tools'], 'tool')}, {detail['tokens']:,} tokens of schemas"
            if not detail["tools"]:
                return "[dim]catalog[/]     no tools\n"
            if (detail["tools"], detail["tokens"]) == (detail["offered"], detail["tokens_offered"]):
                return f"[dim]catalog[/]     {size}: all are offered\n"
            offered = f"{counted(detail['offered'], 'tool')}, {detail['tokens_offered']:,} tokens"
            return f"[dim]catalog[/]     {size}; tool search is on and offers {offered}\n"
        case "model_replied" if detail["stop_reason"] in CUT_OFF:
            return "[yellow]cut off[/]     the model's reply reached its limit of tokens"
        case "model_replied" if detail["stop_reason"] in REFUSED:
            return f"[yellow]refused[/]     the provider ended the model's reply: {safe(detail['stop_reason'])}"
        case "call_in_text":
            names = ", ".join(detail["names"])
            return f"[yellow]no call[/]     the model wrote a call of {safe(names)} as text, which does nothing"
        case "decision":
            reason = f": {detail['reason']}" if detail["reason"] else ""
            return _indented(detail["hook"], f"{detail['plugin']} says {detail['decision']}{reason}")
        case "approval_asked":
            return _indented("approval", detail["title"])
        case "approval_answered":
            return _indented("approval", "granted" if detail["granted"] else "refused")
        case "trim_queued":
            sizes = f"{detail['characters_before']:,} to {detail['characters_after']:,} characters"
            trim = f"{detail['handle']}, {sizes}; durable, not applied while the run is open"
            return _indented("trim queued", trim)
        case "trim_drained":
            saved = f"saves {detail['tokens_saved']:,} tokens of every request from now on"
            trim = f"trim of {detail['handle']} ({safe(detail['tool'])}) {detail['status']}"
            return f"agent_end  the fence opens: {trim}, {saved}"
        case _:
            return None


def _indented(what: str, text: str) -> str:
    return f"         [dim]{what:<17}[/] {safe(text)}"
