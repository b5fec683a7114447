"""`hooksdk policy attack`: which attacks on what a project denies its policies let through. Nothing runs."""

from __future__ import annotations

import tempfile
import tomllib
from collections import Counter
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, cast

import typer
from rich.console import Console

from hooksdk import Host, Tool, ToolCall
from hooksdk.cli._console import View, counted, one_line, stderr_console, warnings_shown
from hooksdk.cli._policy_calls import SupposedCall, judge_call, schema_of_call
from hooksdk.cli._project import ThrowawayStore, open_host, open_servers, project_config
from hooksdk.errors import did_you_mean
from hooksdk.testing import Attack, ScriptedApprover, attacks, make_workspace

HINT = "TARGETS.toml"
# Of an attack that is printed.
CHARS = 70
# The kinds that attack one argument with what the target denies and allows.
NAMED = {"command", "path", "host"}
# The kinds that are about what a server brings.
BROUGHT = {"name", "description"}
AUDIT = "catalog_audit"
# The tool that the names of the corpus resemble.
KNOWN = "read_file"
# Values that no policy lists. Where they are stopped, the policy stops whatever it does not allow, so every attack must
# be stopped, not only those that reach what is denied.
UNLISTED = {"command": "hooksdk-unlisted", "path": "/hooksdk-unlisted/a", "host": "https://unlisted.invalid/"}


class Target(SupposedCall):
    """One tool, and what the policies are to keep it from. `tool` is an id such as `mcp:shell:run`, `arguments` are
    those that are not attacked, and `parameters` count where no server is asked.

    Attributes:
        argument: The argument that is attacked.
        allowed: A program, a folder (`.`: the run's workspace) or a host that the policies allow.
        denied: A program, a file or a host that they are to keep the tool from.
    """

    kind: Literal["command", "path", "host", "call", "name", "description"]
    argument: str = ""
    allowed: str = ""
    denied: str = ""


def read_targets(path: Path) -> list[Target]:
    """The targets of a file. Raises `typer.BadParameter` with everything that is wrong with it."""
    try:
        document = tomllib.loads(path.read_text("utf-8"))
    except OSError as error:
        raise _bad(f"{path}: {error.strerror}") from None
    except (ValueError, RecursionError) as error:
        raise _bad(f"{path}: it is no TOML: {error}") from None
    entries: Any = document.pop("target", None)
    tables = isinstance(entries, list) and all(isinstance(one, dict) for one in cast("list[Any]", entries))
    if document or not tables or not entries:
        raise _bad(f"{path}: it has no [[target]], or has something beside them")
    targets: list[Target] = []
    problems: list[str] = []
    for number, entry in enumerate(cast("list[dict[str, Any]]", entries), 1):
        target, own = Target.read(entry)
        if target is not None:
            targets.append(target)
            own = _missing(target)
        problems += [f"target {number}: {problem}" for problem in own]
    if problems:
        raise _bad(f"{path}: {'; '.join(problems)}")
    return targets


def _missing(target: Target) -> list[str]:
    if target.tool.count(":") < 2:
        return [f"tool = '{target.tool}' is no tool's id, such as mcp:shell:run"]
    if target.kind not in NAMED:
        return []
    missing = [key for key in ("argument", "allowed", "denied") if not getattr(target, key)]
    problems = [f"a {target.kind} needs {key} = ..." for key in missing]
    if target.kind == "path" and not missing:
        if target.allowed != "." and not Path(target.allowed).is_absolute():
            problems.append(
                f"allowed = '{target.allowed}' is neither '.' nor a folder from the root, such as /workspace"
            )
        if not Path(target.denied).is_absolute():
            problems.append(f"denied = '{target.denied}' is no file from the root, such as /etc/passwd")
    return problems


def _bad(text: str) -> typer.BadParameter:
    return typer.BadParameter(text, param_hint=HINT)


@dataclass
class Result:
    """The outcome of the attacks on one target.

    Attributes:
        strict: Whether the policies stop what they do not list.
        origins: Who wrote how many of the attacks that were tried.
        through: Each with the value that would have run.
    """

    target: Target
    strict: bool = True
    counts: Counter[str] = field(default_factory=Counter[str])
    origins: Counter[str] = field(default_factory=Counter[str])
    through: list[tuple[Attack, Any]] = field(default_factory=list[tuple[Attack, Any]])

    def add(self, attack: Attack, verdict: str, runs: Any = None) -> None:
        """Count one attack."""
        self.counts[verdict] += 1
        self.origins[attack.origin] += 1
        if verdict == "through":
            self.through.append((attack, runs))

    def as_dict(self) -> dict[str, Any]:
        """For `--json`."""
        return {
            "tool": self.target.tool,
            "kind": self.target.kind,
            "argument": self.target.argument,
            "unlisted_is_stopped": self.strict,
            "tried": sum(self.counts.values()),
            "origins": dict(self.origins),
            **{word: self.counts[word] for word in ("stopped", "asked", "through")},
            "attacks": [
                {"value": one.value, "runs_as": runs, "reaches": one.reaches, "about": one.about, "origin": one.origin}
                for one, runs in self.through
            ],
        }


@dataclass
class Gate:
    """The project's policies, asked about one call at a time, each in its own session, so that no policy counts them
    together.

    Attributes:
        served: The tools of the servers; None where none was asked.
    """

    host: Host
    person: ScriptedApprover
    workspace: Path
    served: Sequence[Tool] | None

    async def attack(self, target: Target, cases: Sequence[Path]) -> Result:
        """Try every attack of the target's kind."""
        if target.kind in BROUGHT:
            return await self._bring(target, cases)
        tool = self._tool(target)
        if target.kind == "call":
            if problems := tool.check(target.arguments):
                raise _bad(
                    f"{target.tool}: {problems[0].message}, so no call is made at all and no attack shows anything. Give what the "
                    "tool's schema asks for, such as arguments = { id = 7 }"
                )
            result = Result(target)
            for one in attacks("call", denied=tool.name, server=tool.owner, files=cases):
                await self._count(result, one, tool, ToolCall("attack", one.value, target.arguments))
                by_bridge = ToolCall("attack", "tool_call", {"name": one.value, "arguments": target.arguments})
                await self._count(result, one, tool, by_bridge)
            return result
        folder = self.workspace if target.allowed == "." else Path(target.allowed)
        allowed = str(folder) if target.kind == "path" else target.allowed
        plain = {"command": allowed, "path": f"{allowed}/a", "host": f"https://{allowed}/"}[target.kind]
        verdict, why, _ = await self._judge(target, tool, self._call(target, plain), folder)
        if verdict != "through":
            raise _bad(
                f"{target.tool}: {plain!r} is to be allowed, and is {verdict}, so no attack shows anything: {why}"
            )
        verdict, _, _ = await self._judge(target, tool, self._call(target, UNLISTED[target.kind]), folder)
        result = Result(target, strict=verdict != "through")
        links = target.allowed == "."
        for one in attacks(target.kind, allowed=allowed, denied=target.denied, files=cases, links=links):
            if result.strict or one.reaches == "denied":
                await self._count(result, one, tool, self._call(target, one.value), folder)
        return result

    async def _count(
        self, result: Result, attack: Attack, tool: Tool, call: ToolCall, folder: Path | None = None
    ) -> None:
        verdict, _, arguments = await self._judge(result.target, tool, call, folder or self.workspace)
        result.add(attack, verdict, arguments.get(result.target.argument))

    async def _judge(self, target: Target, tool: Tool, call: ToolCall, folder: Path) -> tuple[str, str, dict[str, Any]]:
        """The verdict (`through`, `asked` or `stopped`), why, and the arguments that would run. The store is put back
        before each call: a limit that the first attacks used up would stop all others."""
        before = len(self.person.requests)
        if isinstance(self.host.store, ThrowawayStore):
            self.host.store.forget()
        async with self.host.session() as session, session.run(workspace_dir=str(folder), **target.run_options) as run:
            await run.resolve_tools([tool])
            judged = await judge_call(run, call)
            if judged.result is None:
                return "through", "", judged.arguments
            return "asked" if len(self.person.requests) > before else "stopped", judged.result.text, {}

    async def _bring(self, target: Target, cases: Sequence[Path]) -> Result:
        """Let a server bring tools that are not what they seem, beside one that is known."""
        result = Result(target)
        source, owner, _ = target.tool.split(":", 2)
        known = Tool(name=KNOWN, source=source, owner=owner, description="Reads a file.")  # pyright: ignore[reportArgumentType] - Tool checks it
        async with self.host.session() as session, session.run() as run:
            await run.resolve_tools([known])
        for number, one in enumerate(attacks(target.kind, files=cases)):
            words = (one.value, "Reads.") if target.kind == "name" else (f"described_{number}", one.value)
            stranger = Tool(name=words[0], source="mcp", owner="stranger", description=words[1])
            async with self.host.session() as session, session.run(workspace_dir=str(self.workspace)) as run:
                await run.resolve_tools([known, stranger])
                result.add(one, "through" if any(tool.id == stranger.id for tool in run.tools) else "stopped")
        return result

    @staticmethod
    def _call(target: Target, value: Any) -> ToolCall:
        return ToolCall("attack", target.tool.split(":", 2)[2], {**target.arguments, target.argument: value})

    def _tool(self, target: Target) -> Tool:
        if self.served is not None:
            tool = next((one for one in self.served if one.id == target.tool), None)
            if tool is None:
                advice = did_you_mean(target.tool, [one.id for one in self.served])
                raise _bad(f"none of the servers has a tool '{target.tool}'.{advice}")
            return tool
        source, owner, name = target.tool.split(":", 2)
        names = [key for key in (*target.arguments, target.argument) if key]
        schema = target.parameters or schema_of_call(dict.fromkeys(names))
        return Tool(name=name, source=source, owner=owner, parameters=schema)  # pyright: ignore[reportArgumentType] - Tool checks it


async def attack_policies(
    targets: Sequence[Target], cases: Sequence[Path], mcp: Sequence[Path], project: Path, plugins: Sequence[Any]
) -> list[Result]:
    """Attack what each target denies, and return the outcome of each."""
    person = ScriptedApprover("nobody is asked by this command")
    config = project_config(project)
    # Tools as they are written here are no change of those that were recorded.
    unaudited = config.model_copy(update={"deny": [*config.deny, AUDIT]})
    async with AsyncExitStack() as stack:
        temporary = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="hooksdk-")))
        with warnings_shown():
            audited = await open_host(stack, config, project, plugins, person)
            host = await open_host(stack, unaudited, project, plugins, person)
            groups = await open_servers(host, mcp, stderr_console())
        served = [tool for servers in groups for tool in servers.tools()] if mcp else None
        # What the plugins log of each attack says no more than the table.
        stack.enter_context(warnings_shown(Console(quiet=True)))
        results: list[Result] = []
        for number, target in enumerate(targets):
            folder = make_workspace(temporary / str(number), target.denied or "/etc/passwd")
            gate = Gate(audited if target.kind in BROUGHT else host, person, folder, served)
            results.append(await gate.attack(target, cases))
        return results


def view_of(results: Sequence[Result]) -> View:
    """The results as a table, with each attack that got through."""
    view = View({"targets": [one.as_dict() for one in results]}, indent=9)
    words = ("stopped", "asked", "through")
    rows = [(one.target.tool, one.target.kind, *(str(one.counts[word]) for word in words)) for one in results]
    view.table(("target", "kind", *words), rows)
    for result in results:
        for attack, runs in result.through:
            became = "" if runs == attack.value or runs is None else f", runs as {runs!r}"
            text = repr(attack.value) if len(repr(attack.value)) <= CHARS else repr(attack.value)[:CHARS] + "…"
            view.markup(f"[red]through[/]  {one_line(result.target.tool)}  {one_line(text + became)}")
            view.line("", f"{attack.about} (by {attack.origin})")
    counts, origins = (sum((getattr(one, name) for one in results), Counter[str]()) for name in ("counts", "origins"))
    written = ", ".join(f"{number} by {origin}" for origin, number in origins.items())
    view.markup()
    view.text(f"{counts['through']} of {counted(counts.total(), 'attack')} through; written: {written}")
    return view
