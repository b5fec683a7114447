"""The judge: asked by the agents' hooks, in this process or over its socket."""

from __future__ import annotations

import json
import logging
import os
import select
import socket
import struct
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import Any, Self, final

import anyio
from anyio.abc import SocketAttribute, SocketStream, TaskGroup
from anyio.streams.stapled import MultiListener

from hooksdk.errors import HookSDKError
from hooksdk.guard._agents import AGENTS, HookEvent, Output, UnreadableHook, Verdict, read_event
from hooksdk.guard._project import Project, pinned_folder
from hooksdk.guard.client import TRY, exchange, guard_folder, paused_until
from hooksdk.stores.locks import lock
from hooksdk.tasks import describe

logger = logging.getLogger("hooksdk")

# Asks for the judge's status, in the place of an agent's name.
STATUS = "status"
# A call with this word in its arguments is always refused: `hooksdk guard status --prove` checks so that the judge
# is asked.
PROOF = "hooksdk-guard-proof"
PROOF_REASON = "this call is made by `hooksdk guard status --prove`, to be refused"
# Seconds without a hook after which the judge ends. The store keeps its sessions, and the next hook starts a judge.
IDLE = 900.0


@final
class Judge:
    """Judges what coding agents do, by the rules of the project that each of their sessions began in.

    ```python
    import anyio

    from hooksdk.guard import Judge

    async def main() -> None:
        async with Judge() as judge:
            hook = {"hook_event_name": "PreToolUse", "session_id": "s1", "cwd": ".", "tool_name": "Bash"}
            output = await judge.answer("claude-code", {**hook, "tool_input": {"command": "ls"}, "tool_use_id": "t1"})
        assert output == {}  # no objection

    anyio.run(main)
    ```

    Enter and leave it in the same task; leaving it ends all sessions. `is_gateway` is asked with agent, server and
    folder whether a server of the agent is a gateway of this user, which judges its calls itself: they are let through.

    Attributes:
        calls: How many calls were judged so far.
    """

    def __init__(self, *, is_gateway: Callable[[str, str, Path], bool] | None = None) -> None:
        self.calls = 0
        self._is_gateway = is_gateway
        self._projects: dict[tuple[Path, bool], Project] = {}
        self._opening = anyio.Lock()
        self._group: TaskGroup | None = None

    async def __aenter__(self) -> Self:
        self._group = anyio.create_task_group()
        await self._group.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        group, self._group = self._group, None
        assert group is not None
        try:
            with anyio.CancelScope(shield=True):
                for project in self._projects.values():
                    await project.aclose()
        finally:
            group.cancel_scope.cancel()
            await group.__aexit__(None, None, None)

    @property
    def projects(self) -> Mapping[tuple[Path, bool], Project]:
        """The projects judged so far, by folder and by whether they are in shadow mode."""
        return self._projects

    async def answer(self, agent: str, payload: object, *, shadow: bool = False, alone: bool = False) -> Output:
        """The JSON that an agent's hook prints; empty for nothing. Raises `UnreadableHook`, `ConfigError` and what a
        session raises: then the call must not run.

        With `shadow`, and while a person has paused the guard, calls are judged without effect: only the trace shows
        it. `alone`: no person is at the agent, so its own questions reach nobody."""
        event = read_event(agent, payload)
        if event.kind == "other" or await self._is_of_gateway(event):
            return {}
        self.calls += event.kind == "before_call"
        shadow = shadow or time.time() < paused_until()
        async with self._opening:
            folder, waits, workspace = await pinned_folder(event)
            event = replace(event, began_in=workspace)
            if (other := self._projects.get((folder, not shadow))) is not None:
                await other.leave(event)  # a session is open in one host at a time
            if (folder, shadow) not in self._projects:
                assert self._group is not None
                self._projects[folder, shadow] = Project(folder, self._group, shadow=shadow)
        if event.kind == "before_call" and PROOF in str(event.arguments):
            return AGENTS[agent].answer(event, Verdict() if shadow else Verdict(deny=PROOF_REASON))
        project = self._projects[folder, shadow]
        verdict = await project.answer(event, alone=alone)
        if waits := project.waits or waits:  # newer rules do not count yet: a refusal says so
            deny, ask = (
                text and f"{text} (the rules stay as they were: {waits})" for text in (verdict.deny, verdict.ask)
            )
            verdict = replace(verdict, deny=deny, ask=ask)
        return AGENTS[agent].answer(event, Verdict() if shadow else verdict)

    async def _is_of_gateway(self, event: HookEvent) -> bool:
        if self._is_gateway is None or not event.server:
            return False
        return await anyio.to_thread.run_sync(self._is_gateway, event.agent, event.server, event.folder)


async def serve(*, idle: float = IDLE, is_gateway: Callable[[str, str, Path], bool] | None = None) -> bool:
    """Answer over the socket of this user until no hook has come for `idle` seconds. False where another judge does.
    `is_gateway` is `Judge`'s."""
    folder = Path(guard_folder())
    held = os.open(folder / "judge.lock", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        if not lock(held):
            return False
        path = folder / "judge.sock"
        path.unlink(missing_ok=True)  # left by a judge that was killed
        listener = await anyio.create_unix_listener(path, mode=0o600)
        try:
            async with listener, Judge(is_gateway=is_gateway) as judge:
                await _Server(judge, listener, idle).run(folder)
        finally:
            path.unlink(missing_ok=True)
    finally:
        os.close(held)
    return True


@final
class _Server:
    def __init__(self, judge: Judge, listener: MultiListener[SocketStream] | Any, idle: float) -> None:
        self._judge, self._listener, self._idle = judge, listener, idle
        self._started, self._last, self._open = time.time(), anyio.current_time(), 0

    async def run(self, folder: Path) -> None:
        async with anyio.create_task_group() as group:
            group.start_soon(self._listener.serve, self._serve_one)
            (folder / "judge.json").write_text(json.dumps({"pid": os.getpid()}), "utf-8")
            while (rest := self._last + self._idle - anyio.current_time()) > 0 or self._open:  # noqa: ASYNC110 - a clock, nobody's news
                await anyio.sleep(max(rest, 0.1))
            for name in ("judge.sock", "judge.json"):  # from here on no hook can connect
                (folder / name).unlink(missing_ok=True)
            # Hooks that have connected are answered. One between the socket and `_serve_one` is seen by the second look
            # only.
            looks = 0
            while looks < 2:
                await anyio.sleep(0.05)
                looks = 0 if self._open or self._has_callers() else looks + 1
            group.cancel_scope.cancel()

    def _has_callers(self) -> bool:
        """True while a connection waits to be accepted."""
        listening = self._listener.extra(SocketAttribute.raw_socket)  # noqa: S610 - no query
        return bool(select.select([listening], [], [], 0)[0])

    async def _serve_one(self, stream: SocketStream) -> None:
        self._open += 1
        try:
            async with stream:
                if _is_of_this_user(stream.extra(SocketAttribute.raw_socket)):  # noqa: S610 - no query
                    await stream.send(await self._answer(stream))
        except (OSError, anyio.BrokenResourceError):
            pass  # the hook is gone
        finally:
            self._open -= 1
            self._last = anyio.current_time()

    async def _answer(self, stream: SocketStream) -> bytes:
        parts: list[bytes] = []
        with suppress(anyio.EndOfStream):
            while True:
                parts.append(await stream.receive())
        words, _, payload = b"".join(parts).partition(b"\n")
        agent, *more = words.decode(errors="replace").split() or [""]
        if agent == STATUS:
            return b"answer\n" + json.dumps(self._status()).encode()
        try:
            output = await self._judge.answer(agent, _parsed(agent, payload), shadow=TRY in more, alone="alone" in more)
            return b"answer\n" + (json.dumps(output).encode() if output else b"")
        except HookSDKError as error:
            return b"problem\n" + str(error).encode(errors="replace")
        except Exception as error:
            logger.exception("a hook could not be judged")
            return b"problem\n" + f"the judge failed: {describe(error)}. Its log says more".encode(errors="replace")

    def _status(self) -> dict[str, Any]:
        projects = self._judge.projects
        return {
            "pid": os.getpid(),
            "since": self._started,
            "calls": self._judge.calls,
            "sessions": sum(project.sessions for project in projects.values()),
            "projects": sorted({str(folder) for folder, _ in projects}),
        }


def _parsed(agent: str, payload: bytes) -> object:
    try:
        return json.loads(payload)
    except ValueError as error:
        raise UnreadableHook(agent, f"its hook is no JSON: {error}") from None


def _is_of_this_user(connection: socket.socket) -> bool:
    """True for a connection of this user. The rights of folder and socket see to that already; this is a second check
    where the system tells whose a connection is."""
    if not hasattr(socket, "SO_PEERCRED"):
        return True
    peer = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    return struct.unpack("3i", peer)[1] == os.getuid()


@dataclass(frozen=True, kw_only=True)
class JudgeStatus:
    """The status of this user's judge.

    Attributes:
        since: When it started, in seconds since 1970.
        calls: The number of judged calls.
        sessions: The number of open agent sessions.
        projects: The folders whose rules it has read.
    """

    pid: int
    since: float
    calls: int
    sessions: int
    projects: Sequence[str]


def judge_status() -> JudgeStatus | None:
    """The status of the running judge; None where none runs. Raises `OSError` and `NoJudge` where it does not
    answer."""
    connection = socket.socket(socket.AF_UNIX)
    try:
        connection.connect(str(Path(guard_folder(make=False)) / "judge.sock"))
    except (FileNotFoundError, ConnectionRefusedError):  # a judge that was killed leaves its socket
        connection.close()
        return None
    _, text = exchange(connection, STATUS, b"")
    return JudgeStatus(**json.loads(text))
