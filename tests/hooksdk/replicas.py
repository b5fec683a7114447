"""Gateways of one deployment over one database, as tasks or as processes, and a client whose requests go round them in turn.

`python -m tests.hooksdk.replicas URL NOTES LEASE MACHINE` is one of them: it prints where it listens.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import subprocess
import sys
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import httpx2
from mcp import Client, types
from mcp.client.streamable_http import streamable_http_client

from hooksdk import Annotations, Host, PluginState, Tool, hooks
from hooksdk.gateway import Gateway, GatewayConfig
from hooksdk.hooks import Ask, BeforeToolCall
from hooksdk.mcp import current_client
from hooksdk.stores import SqlStore, _holders

WHO: types.ElicitRequestedSchema = {
    "type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"],
}  # fmt: skip
RUNS = "runs-"
"""What the name of a file begins with that is there while a call of `send_slowly` is."""
TOKENS = {"ann": "a" * 20, "bob": "b" * 20}
CONFIG = {
    "deployment": "notes", "max_result_chars": 1_000, "expose": "direct", "relay": ["elicitation"], "approvals": {"wait": 0},
    "tokens": {name: {"env": f"{name.upper()}_TOKEN"} for name in TOKENS},
}  # fmt: skip


class Asks:
    """A person is asked about each deletion."""

    @hooks.before_tool_call(tools="delete_*")
    def ask(self, event: BeforeToolCall) -> Ask:
        return Ask("Delete it?")


class Remembers:
    """Keeps in the session which notes were read."""

    def __init__(self, state: PluginState) -> None:
        self.state = state

    @hooks.before_tool_call(tools="read_note")
    def note(self, event: BeforeToolCall) -> None:
        self.state[str(event.arguments["path"])] = event.session_id

    def seen(self) -> list[str]:
        return sorted(self.state)


class Notes:
    """Tools whose effects are lines of a file that all replicas write."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self.hold: Callable[[], Any] | None = None
        """Awaited in the middle of `send_slowly`."""

    def write(self, line: str) -> None:
        with self.file.open("a", encoding="utf-8") as file:
            file.write(f"{line}\n")

    def tools(self) -> Sequence[Tool]:
        async def effect(arguments: dict[str, Any]) -> str:
            self.write(f"{arguments['path']}")
            return f"{arguments['path']} done by {os.getpid()}"

        async def slowly(arguments: dict[str, Any]) -> str:
            self.write(f"{arguments['path']}")
            runs = self.file.with_name(f"{RUNS}{os.getpid()}-{arguments['path']}")
            runs.touch()
            try:
                await (self.hold() if self.hold else anyio.sleep(0.3))
            finally:
                runs.unlink()
            return f"{arguments['path']} done"

        async def ask(arguments: dict[str, Any]) -> str:
            """Ask the client in the middle of the call, as a server does while it serves one."""
            form = types.ElicitRequestFormParams(message="Who are you?", requested_schema=WHO)
            asked = current_client.get()
            assert asked is not None
            answer = await asked.ask(types.ElicitRequest(params=form))
            assert isinstance(answer, types.ElicitResult)
            if self.hold is not None:
                await self.hold()
            self.write(f"{arguments['path']}")
            return f"{arguments['path']} done for {(answer.content or {}).get('name')}"

        async def read(arguments: dict[str, Any]) -> str:
            return f"{arguments['path']} was read by {os.getpid()}"

        async def tell(arguments: dict[str, Any]) -> str:
            return "\n".join(f"line {number} of {arguments['path']}" for number in range(400))

        parameters = {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}
        return [
            Tool(
                name=name, source="mcp", owner="notes", description=name, parameters=parameters, execute=execute,
                annotations=Annotations(read_only=reads),
            )
            for name, execute, reads in (
                ("send_note", effect, False), ("send_slowly", slowly, False), ("delete_note", effect, False),
                ("ask_note", ask, False),
                ("read_note", read, True), ("tell_note", tell, True),
            )
        ]  # fmt: skip


class Replica:
    """A gateway in this process."""

    def __init__(self, url: str, notes: Notes, gateway: Gateway, host: Host, store: SqlStore) -> None:
        self.url, self.notes, self.gateway, self.host, self.store = url, notes, gateway, host, store


@asynccontextmanager
async def replica(
    store_url: str, file: Path, *, lease: float = 15.0, plugins: Sequence[Any] = (Asks, Remembers),
    config: Mapping[str, Any] | None = None, host_config: Mapping[str, Any] | None = None,
) -> AsyncGenerator[Replica]:  # fmt: skip
    """A gateway that listens, with a store of its own over the database."""
    store, notes = SqlStore(store_url, lease=lease), Notes(file)
    settings = GatewayConfig.model_validate({**CONFIG, **(config or {})})
    urls: list[str] = []
    listening = anyio.Event()

    def told(url: str) -> None:
        urls.append(url)
        listening.set()

    async with AsyncExitStack() as stack:
        stack.push_async_callback(store.aclose)
        host = await stack.enter_async_context(Host(plugins=plugins, store=store, config=host_config))
        gateway = await stack.enter_async_context(Gateway(host, notes, config=settings))
        async with anyio.create_task_group() as group:
            group.start_soon(lambda: gateway.serve_http(on_listening=told))
            await listening.wait()
            yield Replica(urls[0], notes, gateway, host, store)
            group.cancel_scope.cancel()


class InTurn(httpx2.AsyncBaseTransport):
    """Sends each request to the next gateway, as a balancer does that knows of no sessions; past one that nobody listens at."""

    def __init__(self, urls: Sequence[str]) -> None:
        self.urls = list(urls)
        self._turn = itertools.count()
        self._inner = httpx2.AsyncHTTPTransport()

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        for _ in self.urls:
            target = httpx2.URL(self.urls[next(self._turn) % len(self.urls)])
            request.url = request.url.copy_with(port=target.port)
            request.headers["host"] = f"127.0.0.1:{target.port}"
            try:
                return await self._inner.handle_async_request(request)
            except httpx2.ConnectError:
                continue
            except httpx2.TransportError:  # it is not sent twice: what it asks for may have happened
                return httpx2.Response(502, request=request)
        raise httpx2.ConnectError("no gateway listens")

    async def aclose(self) -> None:
        await self._inner.aclose()


@asynccontextmanager
async def client(*urls: str, token: str = "ann", era: str = "auto", **options: Any) -> AsyncGenerator[Client]:
    """The official client, whose requests go to these gateways in turn."""
    headers = {"Authorization": f"Bearer {TOKENS[token]}"}
    async with (
        httpx2.AsyncClient(headers=headers, timeout=60, transport=InTurn(urls)) as http,
        Client(streamable_http_client(urls[0], http_client=http), mode=era, **options) as connected,
    ):
        yield connected


async def can_answer(_context: Any, _params: Any) -> types.ElicitResult:
    """Of a client that says that it shows questions."""
    raise AssertionError("it is asked by results")


class Process:
    """A gateway as a process of its own, on what looks like a machine of its own: nobody can see whether it lives but by its
    leases."""

    def __init__(self, store_url: str, file: Path, lease: float, number: int) -> None:
        self.folder = file.parent
        home = file.with_name(f"machine-{number}")
        self.program = subprocess.Popen(
            [sys.executable, "-m", "tests.hooksdk.replicas", store_url, str(file), str(lease), f"machine {number}"],
            stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parents[2],
            env={**os.environ, "HOOKSDK_HOME": str(home), "XDG_CONFIG_HOME": str(home / "config")},
        )  # fmt: skip

    async def url(self) -> str:
        """Where it listens, once it does."""
        assert self.program.stdout is not None
        return (await anyio.to_thread.run_sync(self.program.stdout.readline)).strip()

    def kill(self) -> None:
        """End it at once."""
        self.program.kill()
        self.program.wait()
        assert self.program.stdout is not None
        self.program.stdout.close()

    def runs_a_call(self) -> bool:
        """True while it is in the middle of a call that has taken effect."""
        return any(self.folder.glob(f"{RUNS}{self.program.pid}-*"))


async def serve(store_url: str, file: str, lease: str, machine: str) -> None:
    """Be one of them."""
    _holders._place = lambda: (machine, "1")  # type: ignore[assignment]  # pyright: ignore[reportPrivateUsage]
    async with replica(store_url, Path(file), lease=float(lease)) as made:
        print(made.url, flush=True)
        await anyio.sleep_forever()


if __name__ == "__main__":
    asyncio.run(serve(*sys.argv[1:]))
