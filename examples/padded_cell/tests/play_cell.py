"""One call of the plugin in a session of its own."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import anyio

from hooksdk.hooks import AfterToolCall
from hooksdk.testing import call, open_session, play
from padded_cell import PaddedCell

PLUGIN = "padded-cell"
BOTH = ("asyncio", "trio")


def settings(**config: Any) -> dict[str, Any]:
    """The host's configuration with these settings of the plugin."""
    return {"plugins": {PLUGIN: {"config": config}}}


async def use(
    tool: str, /, *plugins: Any, tools: Any = (), workspace: Path | None = None, config: Any = None, **arguments: Any
) -> AfterToolCall:
    """What became of one call, as observers see it."""
    async with open_session(PaddedCell, *plugins, tools=tools, config=settings(**(config or {}))) as session:
        folder = None if workspace is None else str(workspace)
        played = await play(session, [call(tool, **arguments), "Done."], workspace_dir=folder)
        await session.save()
    return played.call(tool)


async def pcexec(*command: str, **options: Any) -> AfterToolCall:
    """One call of `pcexec`, with the command as a list."""
    return await use("pcexec", command=list(command), **options)


async def shell(command: str, **options: Any) -> AfterToolCall:
    """One call of `pcexec` that a shell reads."""
    return await use("pcexec", command=command, shell=True, **options)


def stdout(event: AfterToolCall) -> str:
    return event.result.structured["stdout"]


async def wait_until_dead(pid: int) -> None:
    """Return when the process has ended; one that nobody has reaped yet counts as ended."""
    with anyio.fail_after(120):
        while is_alive(pid):
            await anyio.sleep(0.005)


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except ProcessLookupError:
        return False
    except FileNotFoundError:
        return not Path("/proc/self").exists()
