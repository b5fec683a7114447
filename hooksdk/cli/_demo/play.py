"""Playing the demo: a folder, a host with its policies, the run, and what came of it."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import re
import shlex
import shutil
import signal
import tempfile
import time
from collections import Counter
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
from rich.console import Console

from hooksdk import Config, Host, Session, Tool, schema
from hooksdk.agent import Outcome, run_agent
from hooksdk.cli._console import CommandProblem, one_line, print_json, print_line
from hooksdk.cli._demo.script import LIGHT, PROMPT, REAL, Answer, Office, scripted_secretary
from hooksdk.cli._demo.story import Story, seen
from hooksdk.cli._demo.tools import Commits, Tables, make_history, other_tools
from hooksdk.cli._project import store_spec
from hooksdk.cli._run.approver import ask_here, grant_all
from hooksdk.cli._run.timeline import Timeline
from hooksdk.config import without_password
from hooksdk.stores.sql import FILE_NAME
from hooksdk.testing import ScriptedModel, Turn

_IMPORTED = time.monotonic()
# The plugins of the light demo, with the tools that its script uses.
OFFICE = (Commits, Tables)


@dataclass(frozen=True, kw_only=True)
class DemoOptions:
    """The options of the demo, as the command has worked them out.

    Attributes:
        real: Real MCP servers, in place of the demo's own plugins.
        plugins: Plugins of one's own beside the demo's.
        story: For a person at a terminal: short, and not faster than one reads.
        beat: Seconds before each reply of the model.
    """

    real: bool = False
    folder: Path | None = None
    keep: bool = False
    store: str | None = None
    plugins: tuple[Any, ...] = ()
    interactive: bool = False
    story: bool = False
    beat: float = 0.0
    as_json: bool = False

    @property
    def kept(self) -> bool:
        """True when the files stay."""
        return self.keep or self.folder is not None

    @property
    def office(self) -> Office:
        """Which tools the script uses."""
        return REAL if self.real else LIGHT


def run_demo(options: DemoOptions) -> int:
    """Run the demo, and answer its exit code. Raises `CommandProblem`, and `KeyboardInterrupt` on Ctrl-C."""
    if options.real:
        try:
            from hooksdk.cli._demo.real import check_programs
        except ModuleNotFoundError as error:
            raise CommandProblem(f"--servers real needs {error.name}: pip install 'hooksdk[demo]'") from None
        check_programs()
    logging.getLogger("hooksdk").addHandler(logging.NullHandler())
    with contextlib.suppress(ValueError):  # a thread gets no signals
        # Whoever ends the command by SIGTERM, as `timeout` does, leaves no more behind than with Ctrl-C.
        signal.signal(signal.SIGTERM, signal.default_int_handler)
    console = Console(highlight=False, emoji=False, quiet=options.as_json)
    with _place(options) as folder:
        summary = anyio.run(play, folder, console, options)
    seconds = round(seconds_since_start(), 1)
    if options.as_json:
        print_json({"schema": 1, **summary, "seconds": seconds})
    if not options.story:
        print_line(console, "time", f"{seconds} s from the command to here", indent=14)
    return 0 if summary["complete"] else 1


@contextmanager
def _place(options: DemoOptions) -> Generator[Path]:
    """An empty folder to work in. A temporary one is removed in the end, and after a failure even with `--keep`."""
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
    with contextlib.ExitStack() as stack:
        if options.folder is None:
            stack.callback(shutil.rmtree, folder, ignore_errors=True)
        yield folder.resolve()
        if options.keep:
            stack.pop_all()


async def play(folder: Path, console: Console, options: DemoOptions) -> dict[str, Any]:
    """Play the demo in an empty folder, where its sessions are kept unless the options name a store; answers the
    summary."""
    say = partial(print_line, Console(quiet=True) if options.story else console)
    make = make_history
    if options.real:
        from hooksdk.cli._demo.real import make_repository as make
    try:
        commits = await anyio.to_thread.run_sync(make, folder / "repository")
    except OSError as error:
        raise CommandProblem(f"the repository could not be made: {error}") from None
    say("repository", f"{commits} commits in {one_line(folder / 'repository')}")
    workspace = folder / "workspace"
    workspace.mkdir()
    approver = ask_here(console) if options.interactive else grant_all("the demo")
    plugins: list[Any] = [*(() if options.real else OFFICE), *options.plugins]
    async with Host(plugins=plugins, config=_config(folder, options), approver=approver) as host:
        say("policies", one_line(host.judging))
        tools = await _tools(host, console, options)
        if not options.real:
            counts = Counter(tool.owner for tool in tools)
            counts.update({plugin["id"]: len(plugin["tools"]) for plugin in host.describe()})
            say("tools", one_line(", ".join(f"{owner} {count}" for owner, count in counts.items() if count)))
        # A store of one's own may hold an earlier demo, which this one must not go on with.
        session = host.session(None if options.store else "demo")
        story = Story(console, folder, asks=options.interactive)
        session.on_event(story if options.story else Timeline(console))
        async with session:
            script = scripted_secretary(options.office, folder / "repository", workspace, folder / "elsewhere")

            async def unhurried(turn: Turn) -> Answer:
                await anyio.sleep(options.beat)
                return script(turn)

            # A large model's context window, or that of a small one of one's own: it makes tool search come on.
            window = 200_000 if options.real else 32_000
            model = ScriptedModel(unhurried, name="scripted-secretary", context_window=window)
            outcome = await run_agent(session, model, PROMPT, tools=tools, workspace_dir=str(workspace))
            summary = _summary(folder, session, outcome, options)
    if options.story:
        story.end_line()
        _tell(console, summary, seen(summary, story.asked), folder, options)
    else:
        _show(console, summary, folder, options)
    return summary


def _config(folder: Path, options: DemoOptions) -> Config:
    inside = re.escape(str(folder / "workspace")) + "[/\\\\]"
    outside = {"required": ["path"], "properties": {"path": {"not": {"pattern": f"^{inside}"}}}}
    tables, create = ("mcp:excel:*", "mcp:excel:create_workbook")
    if not options.real:
        tables, create = ("plugin:tables:*", "plugin:tables:create_*")
    reason = f"spreadsheets belong in {folder / 'workspace'}"
    rules = [
        {"action": "deny", "tools": tables, "arguments": outside, "reason": reason},
        {"action": "ask", "tools": create, "title": "Create a spreadsheet?"},
    ]
    plugins = {
        "tool_policy": {"config": {"rules": rules}},
        "tool_results": {},
        "trace_file": {"config": {"path": str(folder / "trace.jsonl")}},
    }
    return Config.model_validate({"store": store_spec(options.store or folder / "sessions"), "plugins": plugins})


async def _tools(host: Host, console: Console, options: DemoOptions) -> list[Tool]:
    if not options.real:
        return other_tools()
    from hooksdk.cli._demo.real import start_servers

    return (await start_servers(host, console)).tools()


def _write_mcp(folder: Path) -> str | None:
    """A file of those real servers that are installed here; None where none is."""
    try:
        from hooksdk.cli._demo.real import installed
    except ModuleNotFoundError:
        return None
    if not (servers := installed()):
        return None
    path = folder / "mcp.json"
    path.write_text(json.dumps({"mcpServers": servers}, indent=2) + "\n", "utf-8")
    return str(path)


def _summary(folder: Path, session: Session, outcome: Outcome, options: DemoOptions) -> dict[str, Any]:
    spreadsheet = folder / "workspace" / options.office.file_name
    place = str(folder / "sessions" / FILE_NAME) if options.kept else None
    if options.store:
        place = shlex.join(["hooksdk", "sessions", "show", session.id, "--store", without_password(options.store)])
    complete = spreadsheet.is_file()
    stats = outcome.stats
    return {
        "answer": outcome.text,
        "turns": outcome.turns,
        "tokens_direct": stats["tokens_direct"],
        "tokens_offered": stats["tokens_offered"],
        "tools": sum(stats["catalog"].values()),
        "tools_offered": stats["tools_offered"],
        "tool_calls": stats["tool_calls"],
        "transcript_characters": len(schema.canonical(session.messages)),
        "view_characters": len(schema.canonical(session.view)),
        "results": [
            {"handle": one.handle, "tool": one.tool, "characters": one.characters, "trimmed": one.trimmed}
            for one in session.results.list()
        ],
        "complete": complete,
        "spreadsheet": str(spreadsheet) if complete and options.kept else None,
        "transcript": place,
        "trace": str(folder / "trace.jsonl") if options.kept else None,
        "mcp": _write_mcp(folder) if options.kept else None,
    }


def _tell(console: Console, summary: Mapping[str, Any], was_seen: str, folder: Path, options: DemoOptions) -> None:
    say = partial(print_line, console, indent=8)
    if not options.interactive:
        console.print()
    say("answer", one_line(summary["answer"]))
    if options.kept:
        say("files", one_line(folder))
    else:
        say("more", "hooksdk demo --keep leaves its files, hooksdk run takes a real model")
    say("[bold]seen[/]", f"[bold]{one_line(was_seen)}[/]")


def _show(console: Console, summary: Mapping[str, Any], folder: Path, options: DemoOptions) -> None:
    say = partial(print_line, console, indent=14)
    console.print()
    print_line(console, "[bold]answer[/]", f"[bold]{one_line(summary['answer'])}[/]")
    console.print()
    direct, offered = summary["tokens_direct"], summary["tokens_offered"]
    say("tool schemas", f"{direct:,} tokens for {summary['tools']} tools without tool search")
    if offered < direct:
        say("", f"{offered:,} tokens for {summary['tools_offered']} tools with it: {_less(direct, offered)}")
    before, after = summary["transcript_characters"], summary["view_characters"]
    say("transcript", f"{before:,} characters stored in full")
    say("", f"{after:,} characters shown to the model: {_less(before, after)}")
    if not options.kept:
        say("files", "removed; to look at them: hooksdk demo --keep")
        return
    say("folder", one_line(folder))
    for name in ("spreadsheet", "transcript", "trace"):
        say(name, one_line((summary[name] or "none").removeprefix(f"{folder}/")))
    servers = f"cd {folder} && hooksdk tools list --mcp mcp.json"
    say("next", one_line(servers if summary["mcp"] else "pip install 'hooksdk[demo]' && hooksdk demo --servers real"))


def _less(before: int, after: int) -> str:
    return f"[green]{100 - 100 * after / before:.0f} % less[/]"


def seconds_since_start() -> float:
    """The seconds since this process began: on Linux since its very start, elsewhere since the first import of this
    module."""
    try:
        # Field 22; the name before, in brackets, may hold anything.
        ticks = int(Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19])
        return time.clock_gettime(time.CLOCK_BOOTTIME) - ticks / os.sysconf("SC_CLK_TCK")
    except (OSError, AttributeError, ValueError):
        return time.monotonic() - _IMPORTED
