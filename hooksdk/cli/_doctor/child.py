"""The examination itself, in a process of its own: `hooksdk doctor` reads one JSON object a line from it."""

from __future__ import annotations

import inspect
import json
import logging
import os
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import asdict
from pathlib import Path
from types import ModuleType
from typing import Any, TextIO, cast, final

import anyio

from hooksdk import Config, Host, MemoryStore, Tool, hooks
from hooksdk.cli._console import CommandProblem
from hooksdk.cli._doctor.examination import Symptom
from hooksdk.cli._doctor.store import examine_runs, examine_store
from hooksdk.cli._given_tools import given_tools, with_others
from hooksdk.cli._project import ThrowawayStore, project_config
from hooksdk.cli._proofs.properties import PolicyConfig
from hooksdk.cli._proofs.prove import CLAIM_WORDS, prove_all
from hooksdk.config import PLUGINS_FILE, Notice, fold, retention_of
from hooksdk.errors import ConfigError, HookSDKError, PluginRefused, did_you_mean
from hooksdk.gateway import GatewayConfig
from hooksdk.hooks import HOOKS
from hooksdk.host import Plugin, load_plugins, plugins_at
from hooksdk.patterns import ToolPattern, near_misses, near_tools
from hooksdk.records import Record, Unmatched
from hooksdk.stores import SqlStore, open_store
from hooksdk.tasks import describe

logger = logging.getLogger("hooksdk")

_NEAR_ADVICE = "Add a pattern for what is meant"
# The seconds of steps with time limits of their own: servers that start, sessions that open and close.
SESSION_SECONDS = 90.0


@final
class Report:
    """The messages to the parent."""

    def __init__(self, channel: TextIO) -> None:
        self._channel = channel

    def send(self, **message: Any) -> None:
        """Send a message."""
        self._channel.write(json.dumps(message) + "\n")
        self._channel.flush()

    def step(self, step: str, seconds: float, plugin: str = "") -> None:
        """A step that begins now, and the seconds for which the parent waits for the next message."""
        self.send(step=step, seconds=seconds, plugin=plugin)

    def problem(self, who: str, what: str, advice: str = "") -> None:
        """A finding that does not work as the operator means it."""
        self.send(finding=asdict(Symptom(severity="problem", who=who, what=what, advice=advice)))

    def notice(self, who: str, what: str, advice: str = "") -> None:
        """A finding that is worth knowing and may be meant."""
        self.send(finding=asdict(Symptom(severity="notice", who=who, what=what, advice=advice)))


@final
class _Log(logging.Handler):
    """Turns the log of loading plugins into steps and findings."""

    def __init__(self, report: Report, load_seconds: float) -> None:
        super().__init__(logging.DEBUG)
        self._report = report
        self._load_seconds = load_seconds
        self._texts: set[str] = set()

    def emit(self, record: logging.LogRecord) -> None:
        text = record.getMessage()
        if plugin := getattr(record, "loading", ""):
            self._report.step("loading it", self._load_seconds, plugin)
        elif record.levelno >= logging.WARNING and text not in self._texts:
            self._texts.add(text)
            named = re.match(r"plugin '([^']+)':? (.*)", text, re.DOTALL)
            who, what = named.groups() if named else ("configuration", text.removeprefix("configuration: "))
            self._report.problem(who, what)


def main() -> None:
    """Carry out one order."""
    order: dict[str, Any] = json.loads(sys.argv[1])
    channel = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # a plugin's output is no message
    report = Report(channel)
    logger.setLevel(logging.DEBUG)
    logger.propagate = False
    try:
        anyio.run(_examine, order, report)
    except ConfigError as error:
        report.send(bad_configuration=[error.where, list(error.problems)])
    report.send(done=True)


async def _examine(order: dict[str, Any], report: Report) -> None:
    project, load_seconds = Path(order["project"]), float(order["load_seconds"])
    log = _Log(report, load_seconds)
    logger.addHandler(log)
    report.step("reading the configuration", load_seconds)
    config = project_config(project)
    without: list[str] = order["without"]
    reduced = config.model_copy(update={"deny": [*config.deny, *without]})
    if PLUGINS_FILE in without:
        reduced = reduced.model_copy(update={"plugins_file": False})
    holders = _named(report, [name for name in order["plugins"] if name not in without])
    plugins, judging = _load(report, reduced, project, holders)
    loaded = [plugin for plugin in plugins if plugin.loaded]
    report.step("comparing plugins and configuration", load_seconds)
    report.send(judging=judging)
    examine_plugins(report, config, plugins, without)
    if rule := retention_of(config.sessions).words:
        report.send(finding=asdict(Symptom(severity="notice", who="store", what=f"sessions are removed: {rule}")))
    report.step("looking for runs that stand still", SESSION_SECONDS)
    async with aclosing(open_store(config.store, config.sessions)) as store:
        for problem in [*await examine_store(store), *await examine_runs(store, config.store or "")]:
            report.send(finding=asdict(problem))
    _examine_guard(report, project)
    report.step("starting servers and opening a session", SESSION_SECONDS)
    logger.removeHandler(log)
    logger.addHandler(logging.NullHandler())
    named = [holder for holder in holders if any(holder is plugin.holder for plugin in loaded)]
    tools = await _tools(report, _only_loaded(reduced, plugins), order, named)
    _tell_near_profiles(report, config, tools or ())
    for plugin in loaded:
        _tell_near_misses(report, plugin, tools or ())
        report.step("its diagnose(...)", load_seconds, plugin.id)
        examine_config(report, plugin, tools)
    await _prove(report, _only_loaded(reduced, plugins), project, named, tools or ())
    report.step("coming to an end", SESSION_SECONDS)


async def _prove(report: Report, config: Config, project: Path, named: Sequence[Any], tools: Sequence[Tool]) -> None:
    """The properties of the configuration."""
    properties = PolicyConfig.model_validate(config.policy).properties
    if not properties:
        return
    report.step("proving the properties of [policy]", SESSION_SECONDS)
    try:
        answers = await prove_all(properties, config, project, named, tools)
    except CommandProblem as error:
        report.problem("policy", str(error))
        return
    for one in answers:
        if one.status != "holds":
            how = "does not hold" if one.status == "broken" else f"is {one.status}"
            what = f"property '{one.name}' {how}: {CLAIM_WORDS[one.claim]}"
            report.problem("policy", what, "`hooksdk policy prove` shows the call, or what is in the way.")


def _examine_guard(report: Report, project: Path) -> None:
    """Report whether the guard is in force wherever it is installed and in this project, and what it cannot close."""
    if sys.platform == "win32":
        return
    from hooksdk.cli._guard.hooks import pause_text
    from hooksdk.cli._guard.install import look_at, places

    report.step("reading the settings and the transcripts of coding agents", SESSION_SECONDS)
    try:
        installed = places()
        if installed and (pause := pause_text()):
            report.problem("guard", pause)
        for place in installed:
            for problem in place.problems:
                report.problem("guard", problem if place.file in problem else f"{place.file}: {problem}")
            if place.trial:
                report.notice("guard", f"{place.file}: it refuses nothing here, since it was installed with --try")
            for what in place.open:
                report.notice("guard", f"{place.file}: {what}")
        for is_problem, line in look_at(project.absolute()).lines():
            (report.problem if is_problem else report.notice)("guard", line)
    except CommandProblem as error:
        report.problem("guard", str(error))


def _named(report: Report, names: Sequence[str]) -> list[Any]:
    """The plugins named with `--plugin`; one that cannot be imported is a finding."""
    holders: list[Any] = []
    for name in names:
        try:
            holders += plugins_at(name)
        except HookSDKError as error:
            _tell_refusal(report, name, error)
    return holders


def _load(report: Report, config: Config, project: Path, holders: Sequence[Any]) -> tuple[Sequence[Plugin], str]:
    """Every plugin of the project, and the names of those that judge calls; a refused plugin is a finding."""
    try:
        return load_plugins(
            holders, config, folder=project, on_refusal=lambda plugin, error: _tell_refusal(report, plugin.id, error)
        )
    except PluginRefused as error:  # the plugins file, before its plugins are known
        _tell_refusal(report, error.plugin, error)
        config = config.model_copy(update={"plugins_file": False})
        return load_plugins(holders, config, folder=project, on_refusal=lambda _plugin, _error: None)


def _tell_refusal(report: Report, who: str, error: HookSDKError) -> None:
    problem, advice = (error.problem, error.advice) if isinstance(error, PluginRefused) else (str(error), "")
    report.problem(who, f"is refused: {problem}", advice)


def _only_loaded(config: Config, plugins: Sequence[Plugin]) -> Config:
    """The configuration with which a host starts in spite of what is wrong."""
    loaded = {fold(plugin.id) for plugin in plugins if plugin.loaded}
    others = [plugin.id for plugin in plugins if fold(plugin.id) not in loaded]
    known = [fold(plugin.id) for plugin in plugins]
    sections = {name: section for name, section in config.plugins.items() if fold(name) in known}
    has_file = any(plugin.loaded and plugin.origin.endswith(".py") for plugin in plugins)
    changes: dict[str, Any] = {"deny": [*config.deny, *others], "plugins": sections}
    return config.model_copy(update=changes if has_file else {**changes, "plugins_file": False})


def examine_plugins(report: Report, config: Config, plugins: Sequence[Plugin], without: Sequence[str] = ()) -> None:
    """Report what is wrong with the plugins and their configuration without running them."""
    known = [plugin.id for plugin in plugins]
    loaded = {fold(plugin.id): plugin for plugin in plugins if plugin.loaded}
    for plugin in plugins:
        if plugin.status == "not enabled":
            advice = f"hooksdk plugins enable {plugin.id}, or put it into the configuration's deny"
            report.notice(plugin.id, "is installed, and nobody has enabled it: nothing of it is loaded", advice)
        elif plugin.loaded and plugin.missing_grant is not None:
            report.problem(plugin.id, f"works in part: {plugin.missing_grant}")
    for name, section in config.plugins.items():
        plugin = loaded.get(fold(name))
        if plugin is None:
            if not any(fold(name) == fold(one) for one in (*known, *without)):
                _tell_unknown(report, name, did_you_mean(name, known), is_required=section.is_required)
            continue
        if section.mode == "shadow":
            advice = f'Write mode = "enforce" in [plugins.{name}] when it does what you mean'
            report.notice(plugin.id, "is in shadow mode: its policies have no effect", advice)
        idle = [hook for hook in section.timeouts if hook not in plugin.hooks]
        if idle:
            report.notice(plugin.id, f"has a time limit for {', '.join(idle)}, and no handler of it", "Remove it")
    handled = {hook for plugin in loaded.values() for hook in plugin.hooks}
    if idle := [hook for hook in config.timeouts if hook not in handled]:
        what = f"[timeouts] has {', '.join(idle)}, and no plugin here handles that"
        report.notice("configuration", what, "Remove it, unless plugins given in code do")
    for name in (*config.deny, *(config.allow or ())):
        if not any(fold(name) == fold(one) for one in (*known, *without)):
            what = f"'{name}' in deny or allow is no plugin here.{did_you_mean(name, known)}"
            report.notice("configuration", what)


def _tell_unknown(report: Report, name: str, hint: str, *, is_required: bool) -> None:
    if hint:
        report.problem("configuration", f"[plugins.{name}] is for a plugin that is not here.{hint}", "Correct the name")
    elif is_required:
        what = f"[plugins.{name}] has enabled = true, and no such plugin is here: hosts without it do not start"
        report.problem("configuration", what, "Install its package, or write enabled = false")
    else:
        what = f"[plugins.{name}] is for a plugin that is neither installed nor in a plugins file that runs"
        report.notice("configuration", what, "Install it, or remove the section, unless your code gives that plugin")


class Doctor:
    """A plugin that collects the patterns and names that match no tool."""

    plugin_id = "hooksdk-doctor"

    def __init__(self) -> None:
        self.records: list[Unmatched] = []

    @hooks.trace
    def take(self, event: hooks.Trace) -> None:
        record: Record = event.record
        if isinstance(record, Unmatched):
            self.records.append(record)


async def _tools(report: Report, config: Config, order: dict[str, Any], holders: Sequence[Any]) -> list[Tool] | None:
    """The tools of a session here; None when they are not known. What keeps a session from opening is a finding."""
    try:
        return await _open_session(report, config, order, holders)
    except ConfigError:
        raise
    except HookSDKError as error:
        who = error.plugin if isinstance(error, PluginRefused) else "session"
        report.problem(who, f"no session can be opened: {error}")
    except Exception as error:
        report.problem("session", f"no session can be opened: {describe(error)}")
    return None


async def _open_session(
    report: Report, config: Config, order: dict[str, Any], holders: Sequence[Any]
) -> list[Tool] | None:
    project = Path(order["project"])
    store = open_store(config.store, config.sessions)
    is_absent = isinstance(store, SqlStore) and store.file is not None and not store.file.exists()
    kept = MemoryStore() if is_absent else ThrowawayStore(store)
    async with Host([Doctor, *holders], store=kept, config=config, folder=project) as host:
        tools, missing = await _server_tools(report, host, order["mcp"])
        async with host.session() as session:
            if not (order["mcp"] or order["tools"] or order["traces"]):
                return None
            tools = with_others(tools, given_tools(order["tools"], map(Path, order["traces"])), host.plugins)
            async with session.run(workspace_dir=str(project)) as run:
                await run.resolve_tools(tools)
                every_tool = with_others(run.tools, tools)
            doctor: Doctor = session.plugin(Doctor.plugin_id)
        if missing:  # a pattern without a tool may be for one of these
            what = f"patterns and rules are not compared with tools while {' and '.join(missing)} cannot be used"
            report.notice("doctor", what, "Type hooksdk doctor again then")
            return None
        # The session is closed, so its trace has come to its end.
        for record in doctor.records:
            _tell_unmatched(report, record, every_tool)
        return [tool.copy(execute=None) for tool in every_tool]


def _tell_unmatched(report: Report, record: Unmatched, tools: Sequence[Tool]) -> None:
    for name in record.names:
        hint = near_tools(name, tools)
        if record.where == "tools":
            what = f"a handler of it is for tools='{name}', which matches none of the {len(tools)} tools here.{hint}"
            if hint or re.match(r"(mcp|plugin):", name):
                report.problem(record.plugin, what, "Correct the pattern, or give the servers that it is for")
            else:
                report.notice(record.plugin, what, "Correct the pattern, unless it is for tools that your code gives")
        else:
            tell = report.problem if hint or re.search(r"[*?]", name) else report.notice
            tell(record.plugin, f"it withholds '{name}', and there is no such tool.{hint}")


def _tell_near_misses(report: Report, plugin: Plugin, tools: Sequence[Tool]) -> None:
    for hook, patterns in plugin.tool_patterns.items():
        if hook not in plugin.hooks:  # a missing grant has a finding of its own
            continue
        for line in near_misses(patterns, tools, exact=HOOKS[hook].exact):
            report.notice(plugin.id, f"{hook}(tools=...): {line}", _NEAR_ADVICE)


def _tell_near_profiles(report: Report, config: Config, tools: Sequence[Tool]) -> None:
    for name, profile in GatewayConfig.of(config).profiles.items():
        for setting, texts in (("allow", profile.allow or ()), ("deny", profile.deny)):
            for line in near_misses([ToolPattern(text) for text in texts], tools, exact=setting == "allow"):
                report.notice("configuration", f"gateway.profiles.{name}.{setting}: {line}", _NEAR_ADVICE)


async def _server_tools(report: Report, host: Host, files: Mapping[str, str]) -> tuple[list[Tool], list[str]]:
    """The tools of the servers, and the names of those servers that cannot be used."""
    if not files:
        return [], []
    try:
        from hooksdk.mcp import McpServers
    except ModuleNotFoundError:
        report.problem("doctor", "MCP servers need the package 'mcp'", "pip install 'hooksdk[mcp]'")
        return [], []
    digests = {Path(name): digest for name, digest in files.items()}
    servers = McpServers.from_file(*files, on_status=lambda _status: None, digests=digests)
    await host.enter(servers, name="MCP servers")
    missing = [status for status in servers.status.values() if status.state not in {"up", "disabled"}]
    for status in missing:
        what = f"cannot be used: {status.problem or status.state}"
        advice = f"Correct its entry in {' or '.join(files)}, or write disabled: true there"
        report.problem(f"server {status.name}", what, advice)
    return servers.tools(), [f"server {status.name}" for status in missing]


def examine_config(report: Report, plugin: Plugin, tools: Sequence[Tool] | None) -> None:
    """Ask a plugin what is wrong with its configuration: `diagnose(config, tools)`."""
    diagnose = _diagnose_of(plugin)
    if diagnose is None:
        return
    try:
        lines = diagnose(plugin.config, tools)
        for line in [lines] if isinstance(lines, str) else lines:
            tell = report.notice if isinstance(line, Notice) else report.problem
            tell(plugin.id, str(line))
    except (Exception, SystemExit) as error:
        report.problem(plugin.id, f"its diagnose(...) raised {describe(error)}")


def _diagnose_of(plugin: Plugin) -> Callable[[Any, Sequence[Tool] | None], Iterable[str]] | None:
    """The plugin's `diagnose`: a class method or a module's plain function; None for anything else of this name."""
    member = inspect.getattr_static(plugin.holder, "diagnose", None)
    is_ours = inspect.isfunction(member) if isinstance(plugin.holder, ModuleType) else isinstance(member, classmethod)
    if not is_ours or "diagnose" in plugin.tools:
        return None
    function: Any = plugin.holder.diagnose
    if list(inspect.signature(function).parameters) != ["config", "tools"]:
        return None
    return cast("Callable[[Any, Sequence[Tool] | None], Iterable[str]]", function)


if __name__ == "__main__":
    main()
