"""PaddedCell for hooksdk: commands with secrets, limits and proxies, and a restart that waits for everybody.

`list-tool-results` and `trim-tool-result`, which the manifest lists too, come from the built-in plugin `tool_results`.
"""

from __future__ import annotations

import json
import os
import re
import shlex
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

import anyio
from pydantic import Field

from hooksdk import Annotations, PluginHost, Storage, ToolContext, ToolError, ToolResult, hooks, tool
from hooksdk.hooks import (
    AgentStart,
    BeforeToolCall,
    Block,
    NarrowTools,
    ResolveSecrets,
    Secrets,
    Withhold,
)
from padded_cell import _settings
from padded_cell._process import GRACE, Execution, execute
from padded_cell._restart import Busy, Order, Restarter, last_report

__all__ = ["PaddedCell"]

MAX_SECONDS = 600
"""The longest time limit that a command may be given."""
SECRET_SECONDS = 10.0
"""Seconds that the secret manager has for one secret."""
MAX_SECRET = 16 * 1024
"""Bytes of one secret: what is longer could not be masked where a long output is clipped."""
OWN = "plugin:padded-cell:*"
_PLACEHOLDER = re.compile(r"\{\{\s*secret:")
_SHELL_WORDS = {"|", "||", "&", "&&", ";", ">", ">>", "<", "2>", "2>&1", "&>"}
_RUNS = Annotations(read_only=False, destructive=True, idempotent=False, open_world=True)

Command = Annotated[
    list[str] | str,
    Field(description='The program and its arguments: ["git", "log"], or one string, which is split at its blanks.'),
]
Shell = Annotated[bool, Field(description="Give the string to /bin/sh: for pipes, redirections and $NAME.")]
Variables = Annotated[
    dict[str, str] | None, Field(description="Environment variables; the safe place for {{secret:NAME}}.")
]
Input = Annotated[str, Field(description="Text for its standard input, which is empty otherwise.")]
Seconds = Annotated[float, Field(gt=0, le=MAX_SECONDS, description="The time limit; the command is killed then.")]


class PaddedCell:
    """The plugin: one instance for each session."""

    plugin_id = "padded-cell"
    Config: ClassVar[type[_settings.Config]] = _settings.Config

    @classmethod
    @asynccontextmanager
    async def shared(cls, config: _settings.Config, host: PluginHost) -> AsyncGenerator[Restarter]:
        """The restarts of one host. One that is under way when the host closes is carried out: nobody is at work."""
        async with anyio.create_task_group() as group:
            restarter = Restarter(host, group)
            yield restarter
            await restarter.settle()

    def __init__(self, config: _settings.Config, shared: Restarter, host: PluginHost, storage: Storage) -> None:
        self._config = config
        self._restarter = shared
        self._host = host
        self._storage = storage

    # Policies over its own tools

    @hooks.narrow_tools
    def switch_off(self, event: NarrowTools) -> Withhold | None:
        """`enabled = false` in the plugin's own settings: the tools are there, and no run has them."""
        own = [] if self._config.enabled else [tool.id for tool in event.tools if tool.owner == self.plugin_id]
        return Withhold(own, "switched off in the settings of padded-cell") if own else None

    @hooks.agent_start
    def wait_for_restart(self, event: AgentStart) -> Block | None:
        """Between the moment when nobody is at work and the restart, nobody may begin."""
        return Block("the host is being restarted; try again in a moment") if self._restarter.restarting else None

    @hooks.before_tool_call(tools=OWN)
    def keep_secrets_whole(self, event: BeforeToolCall) -> Block | None:
        """A secret may hold blanks, quotes and semicolons: in a string it would become several words, or shell code."""
        arguments = event.arguments
        if event.tool.own_name == "safe_restart":
            if _PLACEHOLDER.search(json.dumps(arguments)):
                return Block(
                    "safe_restart takes no secrets, since its report is kept. Let the command read them itself."
                )
        elif isinstance(command := arguments.get("command"), str) and _PLACEHOLDER.search(command):
            return Block(
                "a secret in a string could be split, or read as shell code. Give `command` as a list, or put the"
                ' placeholder into `env` ({"TOKEN": "{{secret:NAME}}"}) and write "$TOKEN", with shell=true.'
            )
        return None

    # Secrets

    @hooks.resolve_secrets(tools="plugin:padded-cell:*pcexec", timeout=60)
    async def ask_secret_manager(self, event: ResolveSecrets) -> Secrets | None:
        """Only for commands: another tool could send the value anywhere. What the manager does not know, another plugin
        may give."""
        if not self._config.secret_manager:
            return None
        values: dict[str, str] = {}
        for name in event.names:
            value = await self._ask(name)
            if value:
                values[name] = value
        return Secrets(values) if values else None

    async def _ask(self, name: str) -> str:
        """One secret; empty when the manager has none of this name."""
        if name.startswith("-"):  # the manager would take it for an option
            return ""
        command = [self._config.secret_manager, "get", name]
        execution = await execute(command, env=os.environ, seconds=SECRET_SECONDS)
        if execution.stopped:
            raise TimeoutError(f"the secret manager was stopped: {_ending(execution)}")
        if execution.out.total > MAX_SECRET:
            raise ValueError(f"the secret manager's answer for {name} is longer than {MAX_SECRET} bytes")
        value = execution.out.text(str)
        if "\N{REPLACEMENT CHARACTER}" in value:
            raise ValueError(f"the secret manager's answer for {name} is not UTF-8 text")
        return value.removesuffix("\n").removesuffix("\r") if execution.exit_code == 0 else ""

    # Tools

    @tool(name="pcexec", annotations=_RUNS, timeout=MAX_SECONDS + 10 * GRACE)
    async def run_command(
        self, context: ToolContext, command: Command, shell: Shell = False, env: Variables = None, input: Input = "",  # noqa: A002
        seconds: Seconds = 60,
    ) -> ToolResult:  # fmt: skip
        """Run a command in the workspace and read what it writes. What it starts in the background ends with it.

        {{secret:NAME}} in an argument, in `env` or in `input` becomes the secret's value for the command alone.
        """
        return await self._run(context, command, shell, {**self._inherited(), **(env or {})}, input, seconds)

    @tool(name="proxy-pcexec", annotations=_RUNS, timeout=MAX_SECONDS + 10 * GRACE)
    async def run_behind_proxy(
        self, context: ToolContext, command: Command, shell: Shell = False, env: Variables = None, input: Input = "",  # noqa: A002
        seconds: Seconds = 60,
        proxy: Annotated[
            str, Field(description="One of the allowed proxies, such as http://proxy:3128; the first one by default.")
        ] = "",
    ) -> ToolResult:  # fmt: skip
        """Run a command as pcexec does, with the variables set that send its requests through a proxy."""
        variables = self._choose(proxy).variables
        if own := sorted(name for name in env or {} if name.upper() in {one.upper() for one in variables}):
            raise ToolError(f"`env` may not set {', '.join(own)} here: proxy-pcexec sets the proxy variables itself.")
        environment = {**self._inherited(), **(env or {}), **variables}
        return await self._run(context, command, shell, environment, input, seconds)

    @tool(annotations=_RUNS)
    async def safe_restart(
        self,
        context: ToolContext,
        action: Annotated[
            Literal["restart", "status"], Field(description="`status` reports the last restart.")
        ] = "restart",
        command: Annotated[
            list[str] | str | None, Field(description="What restarts it; without one the host restarts itself.")
        ] = None,
        reason: str = "",
        wait: Annotated[float, Field(gt=0, le=3600, description="Seconds until nobody may be at work any more.")] = 300,
    ) -> ToolResult:
        """Restart the agent's host once no session is at work, this one included: it happens after this run has ended.

        Never twice at once. What became of it is told by action="status".
        """
        if action == "status":
            return _json(await last_report(self._storage))
        if command is None and not self._host.can_restart:
            raise ToolError("This host does not know how to restart itself. Give `command`, such as"
                            ' ["systemctl", "--user", "restart", "agent"].')  # fmt: skip
        order = Order(
            command=None if command is None else _words(command, shell=False), env=self._inherited(), reason=reason,
            wait=wait, session_id=context.session_id, storage=self._storage,
        )  # fmt: skip
        try:
            waits_for = self._restarter.schedule(order)
        except Busy as error:
            raise ToolError(f"Nothing was begun: a restart is under way already. {error}") from None
        except OSError as error:
            raise ToolError(f"Nothing was begun: the lock file {error.filename}: {error.strerror}.") from None
        return _json({"status": "waiting", "waits_for": waits_for, "seconds": wait,
                      "then": "it is restarted, after this run has ended; end it now"})  # fmt: skip

    # Below the tools

    def _inherited(self) -> dict[str, str]:
        """What every command inherits, with the profile's variables over it. Read each time: it may change."""
        try:
            profile = _settings.read_profile(self._config.profile) if self._config.profile else {}
        except ValueError as error:
            raise ToolError(f"Nothing was run: {error}") from None
        return {**os.environ, **profile}

    def _choose(self, text: str) -> _settings.Proxy:
        """The proxy of a call, with the login that it may have been given."""
        allowlist = self._config.proxies
        if not allowlist:
            raise ToolError("No proxy is allowed here. The operator lists them as proxyAllowlist.")
        try:
            proxy = _settings.Proxy(text or allowlist[0])
        except ValueError as error:
            raise ToolError(f"`proxy` is no proxy: {error}. Allowed are {', '.join(allowlist)}.") from None
        if proxy.address not in allowlist:
            raise ToolError(f"The proxy {proxy.address} is not allowed. Allowed are {', '.join(allowlist)}.")
        return proxy

    async def _run(
        self, context: ToolContext, command: list[str] | str, shell: bool, env: Mapping[str, str], text: str, seconds: float
    ) -> ToolResult:  # fmt: skip
        folder = _workspace(context)
        words = _words(command, shell=shell)
        try:
            execution = await execute(words, env=env, cwd=folder, input=text, seconds=seconds)
        except FileNotFoundError:
            raise ToolError(f"Nothing was run: there is no program {words[0]!r}.") from None
        except OSError as error:
            raise ToolError(f"Nothing was run: {words[0]!r} cannot be started: {error.strerror}.") from None
        except ValueError as error:  # a NUL, half a surrogate pair, a name of a variable with `=`
            raise ToolError(f"Nothing was run: {error}.") from None
        return _report(execution, context)


def _workspace(context: ToolContext) -> str | None:
    folder = context.info.workspace_dir
    if folder is not None and not Path(folder).is_dir():
        raise ToolError(f"Nothing was run: there is no workspace {folder}.")
    return folder


def _words(command: list[str] | str, *, shell: bool) -> Sequence[str]:
    """The program and its arguments. Raises `ToolError`."""
    if shell:
        if not isinstance(command, str):
            raise ToolError("Nothing was run: with shell=true `command` is one string.")
        return ["/bin/sh", "-c", command]
    if isinstance(command, str):
        try:
            words = shlex.split(command)
        except ValueError as error:
            raise ToolError(f"Nothing was run: the command cannot be split: {error}. Give it as a list.") from None
        if operators := sorted(_SHELL_WORDS.intersection(words)):
            raise ToolError(f"Nothing was run: {operators[0]!r} is for a shell. Set shell=true, or give a list.")
    else:
        words = command
    if not words or not words[0]:
        raise ToolError("Nothing was run: the command is empty.")
    return words


def _ending(execution: Execution) -> str:
    if execution.stopped == "time":
        return f"stopped: it was not done after {execution.seconds:.3g} s"
    if execution.stopped == "flood":
        return "stopped: it wrote more than 16 MiB"
    assert execution.exit_code is not None
    how = f"killed by signal {-execution.exit_code}" if execution.exit_code < 0 else f"exit code {execution.exit_code}"
    return f"{how} after {execution.seconds:.3g} s"


def _report(execution: Execution, context: ToolContext) -> ToolResult:
    streams = {"stdout": execution.out.text(context.mask), "stderr": execution.err.text(context.mask)}
    sections = [f"--- {name} ---\n{text.removesuffix(chr(10))}" for name, text in streams.items() if text]
    structured = {"exit_code": execution.exit_code, "stopped": execution.stopped or None, **streams}
    text = "\n".join([_ending(execution), *sections])
    return ToolResult(text, is_error=execution.exit_code != 0, structured=structured)


def _json(value: Any) -> ToolResult:
    return ToolResult(json.dumps(value, ensure_ascii=False, indent=1), structured=value)
