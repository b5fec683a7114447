"""A plugin that shows a run as it happens, from nothing but the trace hook."""

from __future__ import annotations

from rich.console import Console

from hooksdk import hooks, records
from hooksdk.cli._console import counted, safe
from hooksdk.hooks import Trace

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
            if (line := self._line(event.record)) is not None:
                console.print(line, soft_wrap=True)

        def _line(self, record: records.Record) -> str | None:
            match record:
                case records.ModelCalled():
                    self._turn += 1
                    return None
                case records.Unwrapped():
                    self._bridges[record.call_id] = record.bridge
                    return None
                case records.CallStarted():
                    self._open.add(record.call_id)
                    bridge = self._bridges.get(record.call_id)
                    through = f" [dim]through {bridge}[/]" if bridge else ""
                    if record.origin == "code":
                        through = " [dim]in the script[/]"
                    return f"turn {self._turn:<3} [bold]{safe(record.name)}[/]{through}"
                case records.CallFinished():
                    # Of calls that run at a time, each end says whose it is.
                    name = f"{safe(record.name)}: " if len(self._open) > 1 else ""
                    self._open.discard(record.call_id)
                    mark = MARKS.get(record.status, "[red]![/]")
                    duration = f"{record.seconds * 1000:,.0f} ms"
                    return f"         {mark} {name}{record.status}, {record.characters:,} characters, {duration}"
                case records.ToolsResolved():
                    # Another attempt resolves the tools anew, mostly to the same.
                    line, previous = _catalog_line(record), self._catalog
                    self._catalog = line
                    return None if line == previous else line
                case _:
                    return _line(record)

    return Timeline


def _catalog_line(record: records.ToolsResolved) -> str:
    catalog = f"{counted(record.tools, 'tool')}, {record.tokens:,} tokens of schemas"
    if not record.tools:
        return "[dim]catalog[/]     no tools\n"
    if (record.tools, record.tokens) == (record.offered, record.tokens_offered):
        return f"[dim]catalog[/]     {catalog}: all are offered\n"
    offered = f"{counted(record.offered, 'tool')}, {record.tokens_offered:,} tokens"
    return f"[dim]catalog[/]     {catalog}; tool search is on and offers {offered}\n"


def _line(record: records.Record) -> str | None:
    match record:
        case records.Withheld():
            return (
                f"[dim]withheld[/]    by {safe(record.plugin)}: {safe(', '.join(record.names))} ({safe(record.reason)})"
            )
        case records.ModelReplied() if record.stop_reason in CUT_OFF:
            return "[yellow]cut off[/]     the model's reply reached its limit of tokens"
        case records.ModelReplied() if record.stop_reason in REFUSED:
            return f"[yellow]refused[/]     the provider ended the model's reply: {safe(record.stop_reason)}"
        case records.CallInText():
            names = safe(", ".join(record.names))
            return f"[yellow]no call[/]     the model wrote a call of {names} as text, which does nothing"
        case records.Decision():
            return _indented(record.hook, f"{record.plugin} says {record.decision}")
        case records.ApprovalAsked():
            return _indented("approval", f"{record.plugin} asks ({record.severity})")
        case records.ApprovalAnswered():
            who = " as before" if record.remembered else f" by {record.by}" if record.by else ""
            return _indented("approval", f"{'granted' if record.granted else 'refused'}{who}")
        case records.RestoreQueued():
            return None
        case records.TrimQueued():
            sizes = f"{record.characters_before:,} to {record.characters_after:,} characters"
            return _indented("trim queued", f"{record.handle}, {sizes}; durable, not applied while the run is open")
        case records.TrimDrained():
            saved = f"saves {record.tokens_saved:,} tokens of every request from now on"
            if record.pays_back_after:
                saved += f", pays back after {record.pays_back_after:,}"
            trim = f"trim of {record.handle} ({safe(record.tool)}) {record.status}"
            return f"agent_end  the fence opens: {trim}, {saved}"
        case _:
            return None


def _indented(what: str, text: str) -> str:
    return f"         [dim]{what:<17}[/] {safe(text)}"
