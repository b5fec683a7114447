"""Playing the demo: a folder, a host with its policies, the run, and what came of it."""

from __future__ import annotations

import contextlib
import json
import logging
import re
import shlex
import shutil
import signal
import tempfile
from collections import Counter
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
from rich.console import Console

from hooksdk import Config, Host, ResultInfo, Session, Tool, schema
from hooksdk.agent import Outcome, run_agent
from hooksdk.cli._clock import seconds_since_start
from hooksdk.cli._console import CommandProblem, one_line, print_json, print_line
from hooksdk.cli._demo.commits import Commits
from hooksdk.cli._demo.office import other_tools
from hooksdk.cli._demo.repository import make_history, make_repository
from hooksdk.cli._demo.script import LIGHT, PROMPT, REAL, Answer, Office, scripted_secretary
from hooksdk.cli._demo.story import Story, seen
from hooksdk.cli._demo.tables import Tables
from hooksdk.cli._project import store_spec
from hooksdk.cli._run.approver import ask_here, grant_all
from hooksdk.cli._run.timeline import Timeline
from hooksdk.config import without_password
from hooksdk.hooks import Trace
from hooksdk.testing import ScriptedModel, Turn

logger = logging.getLogger("hooksdk")

OFFICE = (Commits, Tables)
"""The plugins of the light demo, with the tools that its script uses."""


@dataclass(frozen=True, kw_only=True)
class DemoOptions:
    """What the command line asks for."""

    real: bool = False
    """Real MCP servers, in place of the demo's own plugins."""
    folder: Path | None = None
    keep: bool = False
    store: str | None = None
    plugins: tuple[Any, ...] = ()
    """Plugins of one's own beside the demo's."""
    interactive: bool = False
    story: bool = False
    """For a person at a terminal: short, and not faster than one reads."""
    beat: float = 0.0
    """Seconds before each reply of the model."""
    as_json: bool = False

    @property
    def kept(self) -> bool:
        """True when the files stay."""
        return self.keep or self.folder is not None

    @property
    def office(self) -> Office:
        """Which tools the script uses."""
        return REAL if self.real else LIGHT

    @property
    def context_window(self) -> int:
        """What the scripted model claims, in tokens: that of a small model of one's own, or of a large one."""
        return 200_000 if self.real else 32_000


def run_demo(options: DemoOptions) -> int:
    """Run the demo, and answer its exit code. Raises `CommandProblem`, and `KeyboardInterrupt` on Ctrl-C."""
    if options.real:
        try:
            from hooksdk.cli._demo.real import check_programs
        except ModuleNotFoundError as error:
            raise CommandProblem(f"--servers real needs {error.name}: pip install 'hooksdk[demo]'") from None
        check_programs()
    logger.addHandler(logging.NullHandler())
    console = Console(highlight=False, emoji=False, quiet=options.as_json)
    with _terminated_as_interrupted(), _place(options) as folder:
        summary = anyio.run(play, folder, console, options)
    seconds = round(seconds_since_start(), 1)
    if options.as_json:
        print_json({"schema": 1, **summary, "seconds": seconds})
    if not options.story:
        print_line(console, "time", f"{seconds} s from the command to here", indent=14)
    return 0 if summary["complete"] else 1


@contextmanager
def _terminated_as_interrupted() -> Generator[None]:
    """Whoever ends the command by SIGTERM, as `timeout` does, leaves no more behind than with Ctrl-C."""
    before = None
    with contextlib.suppress(ValueError):  # a thread gets no signals
        before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        if before is not None:
            signal.signal(signal.SIGTERM, before)


@contextmanager
def _place(options: DemoOptions) -> Generator[Path, None, None]:
    """An empty folder to work in, removed in the end unless it is to be kept."""
    folder = options.folder
    try:
        if folder is None:
            folder = Path(tempfile.mkdtemp(prefix="hooksdk-demo-"))
        else:
            folder.mkdir(parents=True, exist_ok=True)
            if any(folder.iterdir()):
                raise CommandProblem(f"{folder} is not empty: name a new folder, or leave --folder out")
    except OSError as error:
        raise CommandProblem(f"{folder or 'a temporary folder'} cannot be used: {error.strerror}") from None
    try:
        yield folder.resolve()
    except BaseException:
        if options.folder is None:  # interrupted: there is nothing to look at
            shutil.rmtree(folder, ignore_errors=True)
        raise
    if not options.kept:
        shutil.rmtree(folder, ignore_errors=True)


async def play(
    folder: Path,
    console: Console,
    options: DemoOptions,
    timeline: Callable[[Console], Callable[[Trace], None]] = Timeline,
) -> dict[str, Any]:
    """Play the demo in an empty folder, and answer what came of it. Sessions are kept there, or in the store of the options."""
    make = make_repository if options.real else make_history
    try:
        commits = await anyio.to_thread.run_sync(make, folder / "repository")
    except OSError as error:
        raise CommandProblem(f"the repository could not be made: {error}") from None
    if not options.story:
        print_line(console, "repository", f"{commits} commits in {one_line(folder / 'repository')}")
    workspace = folder / "workspace"
    workspace.mkdir()
    approver = ask_here(console) if options.interactive else grant_all("the demo")
    config = _config(folder, store_spec(options.store or folder / "sessions"), options)
    plugins: list[Any] = [*(() if options.real else OFFICE), *options.plugins]
    async with Host(plugins=plugins, config=config, approver=approver) as host:
        if not options.story:
            print_line(console, "policies", one_line(host.judging))
        tools = await _real_tools(host, console) if options.real else other_tools()
        if not options.real and not options.story:
            counts = Counter(tool.owner for tool in tools)
            counts.update({plugin["id"]: len(plugin["tools"]) for plugin in host.describe()})
            told = (f"{owner} {count}" for owner, count in counts.items() if count)
            print_line(console, "tools", one_line(", ".join(told)))
        # A store of one's own may hold an earlier demo, which this one must not go on with.
        session = host.session(None if options.store else "demo")
        story = Story(console, folder, asks=options.interactive)
        session.on_event(story if options.story else timeline(console))
        async with session:
            script = scripted_secretary(options.office, folder / "repository", workspace, folder / "elsewhere")

            async def unhurried(turn: Turn) -> Answer:
                await anyio.sleep(options.beat)
                return script(turn)

            model = ScriptedModel(unhurried, name="scripted-secretary", context_window=options.context_window)
            outcome = await run_agent(session, model, PROMPT, tools=tools, workspace_dir=str(workspace))
            summary = _summary(folder, session, outcome, options)
    if options.kept:
        summary["mcp"] = _write_mcp(folder)
    if options.story:
        story.end_line()
        _tell(console, {**summary, "asked": story.asked}, folder, options)
    else:
        _show(console, summary, folder, options)
    return summary


def _config(folder: Path, store: str, options: DemoOptions) -> Config:
    inside = re.escape(str(folder / "workspace")) + "[/\\\\]"
    outside = {"required": ["path"], "properties": {"path": {"not": {"pattern": f"^{inside}"}}}}
    tables, create = (
        ("mcp:excel:*", "mcp:excel:create_workbook") if options.real else ("plugin:tables:*", "plugin:tables:create_*")
    )
    rules = [
        {
            "action": "deny", "tools": tables, "arguments": outside,
            "reason": f"spreadsheets belong in {folder / 'workspace'}",
        },
        {"action": "ask", "tools": create, "title": "Create a spreadsheet?"},
    ]  # fmt: skip
    return Config.model_validate(
        {
            "store": store,
            "plugins": {
                "tool_policy": {"config": {"rules": rules}},
                "tool_results": {},
                "trace_file": {"config": {"path": str(folder / "trace.jsonl")}},
            },
        }
    )


async def _real_tools(host: Host, console: Console) -> list[Tool]:
    from hooksdk.cli._demo.real import start_servers

    return (await start_servers(host, console)).tools()


def _write_mcp(folder: Path) -> str | None:
    """A file of those real servers that are installed here; None where none is."""
    try:
        from hooksdk.cli._demo.real import installed
    except ModuleNotFoundError:
        return None
    servers = installed()
    if not servers:
        return None
    path = folder / "mcp.json"
    path.write_text(json.dumps({"mcpServers": servers}, indent=2) + "\n", "utf-8")
    return str(path)


def _summary(folder: Path, session: Session, outcome: Outcome, options: DemoOptions) -> dict[str, Any]:
    spreadsheet = folder / "workspace" / options.office.file_name
    transcript = next((folder / "sessions").glob("*.messages.jsonl"), None)
    place = str(transcript) if transcript and options.kept else None
    if options.store:
        place = shlex.join(["hooksdk", "sessions", "show", session.id, "--store", without_password(options.store)])
    complete = spreadsheet.is_file()
    return {
        "answer": outcome.text,
        "turns": outcome.turns,
        "tokens_direct": outcome.stats["tokens_direct"],
        "tokens_offered": outcome.stats["tokens_offered"],
        "tools": sum(outcome.stats["catalog"].values()),
        "tools_offered": outcome.stats["tools_offered"],
        "tool_calls": outcome.stats["tool_calls"],
        "transcript_characters": len(schema.canonical(session.messages)),
        "view_characters": len(schema.canonical(session.view)),
        "results": [_result(info) for info in session.results.list()],
        "complete": complete,
        "spreadsheet": str(spreadsheet) if complete and options.kept else None,
        "transcript": place,
        "trace": str(folder / "trace.jsonl") if options.kept else None,
        "mcp": None,
    }


def _result(info: ResultInfo) -> dict[str, Any]:
    return {"handle": info.handle, "tool": info.tool, "characters": info.characters, "trimmed": info.trimmed}


def _tell(console: Console, summary: Mapping[str, Any], folder: Path, options: DemoOptions) -> None:
    if not options.interactive:
        console.print()
    print_line(console, "answer", one_line(summary["answer"]), indent=8)
    if options.kept:
        print_line(console, "files", one_line(folder), indent=8)
    else:
        print_line(console, "more", "hooksdk demo --keep leaves its files, hooksdk run takes a real model", indent=8)
    print_line(console, "[bold]seen[/]", f"[bold]{one_line(seen(summary))}[/]", indent=8)


def _show(console: Console, summary: Mapping[str, Any], folder: Path, options: DemoOptions) -> None:
    console.print()
    print_line(console, "[bold]answer[/]", f"[bold]{one_line(summary['answer'])}[/]")
    console.print()
    direct, offered = summary["tokens_direct"], summary["tokens_offered"]
    print_line(
        console, "tool schemas", f"{direct:,} tokens for {summary['tools']} tools without tool search", indent=14
    )
    if offered < direct:
        less = f"[green]{100 - 100 * offered / direct:.0f} % less[/]"
        print_line(console, "", f"{offered:,} tokens for {summary['tools_offered']} tools with it: {less}", indent=14)
    before, after = summary["transcript_characters"], summary["view_characters"]
    print_line(console, "transcript", f"{before:,} characters stored in full", indent=14)
    less = f"[green]{100 - 100 * after / before:.0f} % less[/]"
    print_line(console, "", f"{after:,} characters shown to the model: {less}", indent=14)
    if not options.kept:
        print_line(console, "files", "removed; to look at them: hooksdk demo --keep", indent=14)
        return
    print_line(console, "folder", one_line(folder), indent=14)
    for name in ("spreadsheet", "transcript", "trace"):
        place: str | None = summary[name]
        if place and Path(place).is_relative_to(folder):
            place = str(Path(place).relative_to(folder))
        print_line(console, name, one_line(place or "none"), indent=14)
    if summary["mcp"]:
        next_command = f"cd {folder} && hooksdk tools list --mcp mcp.json"
    else:
        next_command = "pip install 'hooksdk[demo]' && hooksdk demo --servers real"
    print_line(console, "next", one_line(next_command), indent=14)
