"""`hooksdk guard try`: the rules are tried on the calls that coding agents made lately. Nothing runs, and nothing is
kept."""

from __future__ import annotations

import re
import tomllib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated, Any

import anyio
import typer

from hooksdk import Config, Host, MemoryStore, ToolCall
from hooksdk.cli._configuration import load_config
from hooksdk.cli._console import View, counted, one_line, print_line, safe, stderr_console, warnings_shown
from hooksdk.cli._guard.transcripts import TRANSCRIPTS, Reading, RecordedCall, read_lately
from hooksdk.cli._options import Json
from hooksdk.config import project_folder
from hooksdk.errors import ConfigError, did_you_mean
from hooksdk.guard import AGENTS, starter_policy, tool_of
from hooksdk.hooks import BeforeToolCall
from hooksdk.values import as_object, clip, is_list

POLICY = "tool_policy"
# The most characters of a call that is printed.
CHARS = 90
_UNITS = {"m": "minutes", "h": "hours", "d": "days", "w": "weeks"}


@dataclass(frozen=True)
class Finding:
    """A call that the rules would have denied or asked about, and the rule.

    Attributes:
        rule: The rule, as it is written.
    """

    call: RecordedCall
    action: str
    rule: str
    number: int
    why: str


def try_rules(
    policy: Annotated[Path | None, typer.Option(metavar="FILE", exists=True, dir_okay=False)] = None,
    client: Annotated[list[str] | None, typer.Option(metavar="NAME")] = None,
    since: Annotated[str, typer.Option(metavar="TIME")] = "1d",
    as_json: Json = False,
) -> None:
    """Say what the rules would have denied, or asked about, of what your coding agents did lately.

    Reads the transcripts that the agents keep of themselves. Each call is held against the rules of tool_policy of the
    project in which it was made, or against those of `hooksdk guard policy` where it has none. Nothing runs, and
    nothing is changed.

    Options:
        policy: A TOML file with rules, as `guard policy` prints it, in the place of each project's own.
        client: This agent alone: claude-code, codex, gemini or qwen; may be given several times.
        since: How far back: 30m, 12h, 1d or 2w.
    """
    begin = datetime.now(UTC) - span_of(since)
    agents = agents_of(client)
    fixed = None if policy is None else _rules_of(policy)
    here = Path.cwd()
    folders = list(dict.fromkeys([here, project_folder(here)]))
    with warnings_shown(), stderr_console().status("reading") as status:

        def show(path: Path) -> None:
            status.update(f"reading {safe(path.name)}")

        readings = {agent: read_lately(agent, begin, folders, show) for agent in agents}
        calls = [call for reading in readings.values() for call in reading.calls]
        status.update(f"judging {counted(len(calls), 'call')}")
        problems = [problem for reading in readings.values() for problem in reading.problems]
        findings, judged = anyio.run(_judge, calls, fixed, problems)
    _view(begin, readings, judged, findings, problems).show(as_json=as_json)
    for path, problem in () if as_json else problems:
        print_line(stderr_console(), "[yellow]problem[/]", f"{safe(path)}: {one_line(problem)}")


def span_of(text: str) -> timedelta:
    """How far back `--since` says."""
    match = re.fullmatch(r"(\d{1,4})([mhdw])", text)
    if match is None or not int(match[1]):
        raise typer.BadParameter(f"'{text}' is no time; write such as 30m, 12h, 1d or 2w", param_hint="--since")
    return timedelta(**{_UNITS[match[2]]: int(match[1])})


def agents_of(wanted: Sequence[str] | None) -> list[str]:
    """The agents that `--client` names, or all whose transcripts are known."""
    known = list(TRANSCRIPTS)
    for name in wanted or ():
        if name not in known:
            what = f"'{name}' is none of {', '.join(known)}.{did_you_mean(name, known)}"
            raise typer.BadParameter(what, param_hint="--client")
    return list(dict.fromkeys(wanted or known))


def _rules_of(path: Path) -> Mapping[str, Any]:
    """The settings of tool_policy in a file of rules. Raises `ConfigError`."""
    try:
        document = tomllib.loads(path.read_text("utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise ConfigError(str(path), (f"it cannot be read: {error}",)) from None
    rules = as_object(as_object(as_object(document.get("plugins")).get(POLICY)).get("config"))
    if not rules:
        problem = f"it has no [plugins.{POLICY}.config], as `hooksdk guard policy` prints it"
        raise ConfigError(str(path), (problem,))
    return rules


def _rules_for(folder: Path) -> Mapping[str, Any]:
    """The rules of a project, or those to begin with where it has none. Raises `ConfigError`."""
    section = load_config(folder=folder).plugin(POLICY)
    if section is not None and section.enabled is not False and section.config:
        return section.config
    return tomllib.loads(starter_policy(folder))["plugins"][POLICY]["config"]


async def _judge(
    calls: Sequence[RecordedCall], fixed: Mapping[str, Any] | None, problems: list[tuple[Path, str]]
) -> tuple[list[Finding], int]:
    """The calls that the rules would not have let pass, and the number of calls that were judged. Projects whose rules
    cannot be read are added to the problems."""
    projects: dict[Path, list[RecordedCall]] = {}
    for call in calls:
        folder = Path(call.folder) if call.folder else Path.cwd()
        projects.setdefault(folder if fixed is not None else project_folder(folder), []).append(call)
    findings: list[Finding] = []
    judged = 0
    for project, own in projects.items():
        try:
            findings += await _judge_project(own, fixed if fixed is not None else _rules_for(project))
            judged += len(own)
        except ConfigError as error:
            if fixed is not None:
                raise
            problems.append((project, f"{counted(len(own), 'call')} not judged: {error}"))
    return sorted(findings, key=lambda one: (one.action != "deny", one.call.when)), judged


async def _judge_project(calls: Sequence[RecordedCall], rules: Mapping[str, Any]) -> list[Finding]:
    findings: list[Finding] = []
    config = Config.model_validate({"allow": [POLICY], "plugins": {POLICY: {"config": dict(rules)}}})
    groups: dict[tuple[str, str], list[RecordedCall]] = {}
    for call in calls:
        groups.setdefault((call.agent, call.folder), []).append(call)
    async with Host(config=config, store=MemoryStore()) as host, host.session() as session:
        policy = session.plugin(POLICY)
        for (agent, folder), own in groups.items():
            workspace = folder if Path(folder).is_absolute() else None
            async with session.run(agent_id=agent, trigger="user", workspace_dir=workspace, transcript=False) as run:
                for call in own:
                    asked, tool = ToolCall("try", call.tool, call.arguments), tool_of(agent, call.tool)
                    event = BeforeToolCall(info=run.info, call=asked, tool=tool, arguments=dict(call.arguments))
                    said = policy.explain(event)
                    if said.action != "allow":
                        one = said.deciding
                        findings.append(Finding(call, said.action, one.text, one.number, one.why))
                    await anyio.lowlevel.checkpoint()  # Ctrl-C is heard
    return findings


def _shown(call: RecordedCall) -> str:
    values = [str(one) for one in call.arguments.values() if isinstance(one, str) or is_list(one)]
    return f"{call.tool} {clip(' '.join((values or [''])[0].split()), CHARS)}"


def _view(
    begin: datetime,
    readings: Mapping[str, Reading],
    judged: int,
    findings: Sequence[Finding],
    problems: Sequence[tuple[Path, str]],
) -> View:
    actions = Counter(one.action for one in findings)
    view = View(
        {
            "since": begin.isoformat(),
            "calls": judged,
            "agents": {agent: {"calls": len(one.calls), "files": one.files} for agent, one in readings.items()},
            "asked": actions["ask"],
            "denied": actions["deny"],
            "findings": [
                {
                    "action": one.action,
                    "rule": one.number,
                    "text": one.rule,
                    "why": one.why,
                    "agent": one.call.agent,
                    "session": one.call.session,
                    "folder": one.call.folder or None,
                    "tool": one.call.tool,
                    "arguments": dict(one.call.arguments),
                    "time": one.call.when.isoformat(),
                }
                for one in findings
            ],
            "problems": [{"path": str(path), "problem": problem} for path, problem in problems],
        }
    )
    parts = [f"{AGENTS[agent].title} {len(one.calls):,}" for agent, one in readings.items() if one.calls]
    when = f"{begin.astimezone():%Y-%m-%d %H:%M}"
    if judged:
        outcome = f"{actions['ask']:,} would be asked about, {actions['deny']:,} denied"
        view.markup(f"{counted(judged, 'call')} since {when} ({safe(', '.join(parts))}): {outcome}")
    else:
        view.markup(f"no call since {when}; `--since 1w` looks further back")
    lines = Counter((one.action, one.number, one.rule, _shown(one.call), one.call.folder) for one in findings)
    for (action, number, rule, shown, folder), times in lines.items():
        more = f"  ({times} times)" if times > 1 else ""
        label, style = ("denied", "red") if action == "deny" else ("ask", "yellow")
        view.markup()
        view.markup(f"[{style}]{label:<12}[/]{one_line(shown)}{more}")
        view.markup(f"            [dim]{one_line(f'rule {number}: {rule}' if number else rule)}[/]")
        if folder:
            view.markup(f"            [dim]in {one_line(folder)}[/]")
    return view
