"""What is started for a tool before any of its calls, such as the server that it is on, is given its secrets."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hooksdk import hooks
from hooksdk._run import refusals
from hooksdk._run.call import values_of
from hooksdk._run.state import RunState
from hooksdk.calls import ToolCall
from hooksdk.errors import ConfigError, PolicyFailed
from hooksdk.tools import Tool
from hooksdk.values import fill_secrets, secret_names


async def fill_for_owner(state: RunState, tool: Tool, value: Any, *, shared: bool) -> Any:
    """A copy of the value with its placeholders filled, as for a call of the tool."""
    names = secret_names(value)
    if not names:
        return value
    values: dict[str, str] = {}
    info = replace(state.info, requester=None) if shared else state.info
    event = hooks.ResolveSecrets(
        info=info, call=ToolCall("start", tool.name, {}, origin="tool"), tool=tool, arguments=value, names=tuple(names)
    )
    async for outcome in state.hooks.fire("resolve_secrets", event, tool):
        values = await outcome.use(lambda answer: values_of(answer.values, names)) or {}
        if outcome.failure is not None:
            raise PolicyFailed("resolve_secrets", outcome.handler.who, str(outcome.failure))
        break
    if missing := [name for name in names if name not in values]:
        raise ConfigError("secrets", (refusals.no_secret_value(missing).removeprefix("Blocked: "),))
    state.secrets.add(values)
    return fill_secrets(value, values)
