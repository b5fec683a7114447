"""A call that stays open at one gateway while its client's answers come to another: they pass each other both by the store.

The gateway that makes the call offers it under the state that its client carries. Whoever is brought the answers writes them
there, once, and waits for what comes of it: the call's next questions, or its result.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any, final

import anyio
import mcp_types as types
from pydantic import TypeAdapter

from hooksdk.errors import StoreError
from hooksdk.gateway._answers import Arriving
from hooksdk.gateway._deployment import CALLS, Deployment
from hooksdk.gateway._results import error

logger = logging.getLogger("hooksdk")

Answer = types.CallToolResult | types.InputRequiredResult
POLL = 0.25
"""Seconds between two looks at what the other gateway has written."""
REPLY_KEPT = 60.0
"""Seconds for which a reply can be asked for once more."""
_ANSWERS: TypeAdapter[dict[str, types.InputResponse]] = TypeAdapter(dict[str, types.InputResponse])
_ANSWER: dict[str, type[types.CallToolResult | types.InputRequiredResult]] = {
    "complete": types.CallToolResult,
    "input_required": types.InputRequiredResult,
}


@final
class Handover:
    """The open calls of one session, at all its gateways."""

    def __init__(
        self, deployment: Deployment, session_id: str, part: str, start_soon: Callable[..., Any],
        expect_arrival: Callable[[Answer, Arriving], None],
    ) -> None:  # fmt: skip
        """`part` is the id of this gateway's part of the session. `start_soon` starts a task that may outlive a request;
        `expect_arrival` is told of each result that came from another gateway, and what is to be confirmed once it has left."""
        self._start_soon = start_soon
        self._expect_arrival = expect_arrival
        self._deployment = deployment
        self._store = deployment.store
        self._session_id = session_id
        self._part = part

    # Where the call is made

    async def offer(self, state: str, same: str) -> None:
        """The client is told this state. `same` stands for name and arguments."""
        await self._store.set_value(CALLS, self._key(state), {"part": self._part, "same": same})

    async def take_back(self, state: str) -> bool:
        """Nobody else can answer any more; False where somebody has."""
        key = self._key(state)
        stored = await self._store.get_value(CALLS, key)
        return (
            stored is not None and "answers" not in stored and await self._store.change_value(CALLS, key, stored, None)
        )

    async def answers(self, state: str) -> Mapping[str, types.InputResponse] | None:
        """What was answered elsewhere; None while nothing was."""
        stored = await self._store.get_value(CALLS, self._key(state))
        return _ANSWERS.validate_python(stored["answers"]) if stored and "answers" in stored else None

    async def client_is_gone(self, state: str) -> None:
        """Wait until the client has cancelled its request there."""
        while True:
            await anyio.sleep(POLL)
            stored = await self._store.get_value(CALLS, self._key(state))
            if stored is None or "gone" in stored:
                return

    async def reply(self, state: str, answer: Answer) -> None:
        """What came of the answers. It stays for a while: a client that did not hear it, since that gateway died, asks for it with
        the same state."""
        stored = await self._store.get_value(CALLS, self._key(state))
        if stored is not None:
            kind = "input_required" if isinstance(answer, types.InputRequiredResult) else "complete"
            content = answer.model_dump(mode="json", by_alias=True, exclude_none=True)
            await self._store.set_value(CALLS, self._key(state), {**stored, "kind": kind, "reply": content})

    async def has_arrived(self, state: str) -> bool:
        """Wait until the client has the reply; False where it does not take it for long."""
        with anyio.move_on_after(REPLY_KEPT):
            while (stored := await self._store.get_value(CALLS, self._key(state))) is not None:
                if "arrived" in stored:
                    return True
                await anyio.sleep(POLL)
        return False

    async def forget(self, state: str) -> None:
        """Nobody asks for the reply any more."""
        await self._store.delete_value(CALLS, self._key(state))

    # Where the answers come

    async def pass_on(self, params: types.CallToolRequestParams, same: str) -> Answer | None:
        """Hand the client's answers to the gateway that makes its call, and answer what came of them; None where no such call is
        open."""
        key = self._key(params.request_state or "")
        answers = _ANSWERS.dump_python(
            dict(params.input_responses or {}), mode="json", by_alias=True, exclude_none=True
        )
        stored: Any = None
        while stored is None or "answers" not in stored:
            stored = await self._store.get_value(CALLS, key)
            if stored is None or stored["same"] != same:
                return None
            if "answers" not in stored and await self._store.change_value(
                CALLS, key, stored, {**stored, "answers": answers}
            ):
                break
        try:
            answer = await self._reply(key, params.name)
            self._expect_arrival(answer, _Passed(self, key))
            return answer
        except anyio.get_cancelled_exc_class():
            with anyio.CancelScope(shield=True):
                if (stored := await self._store.get_value(CALLS, key)) is not None and "reply" not in stored:
                    await self._store.change_value(CALLS, key, stored, {**stored, "gone": True})
            raise

    def confirm(self, key: str) -> None:
        """The client has the reply under this key."""
        self._start_soon(self._confirm, key)

    async def _confirm(self, key: str) -> None:
        try:
            if (stored := await self._store.get_value(CALLS, key)) is not None:
                await self._store.change_value(CALLS, key, stored, {**stored, "arrived": True})
        except StoreError as problem:
            logger.warning("another gateway cannot be told that its client has a result: %s", problem)

    async def _reply(self, key: str, name: str) -> Answer:
        is_alive = True
        while True:
            stored = await self._store.get_value(CALLS, key)
            if stored is not None and "reply" in stored:
                return _ANSWER[stored["kind"]].model_validate(stored["reply"])
            if stored is None or not is_alive:
                return error(
                    f"'{name}' began at another gateway, which has ended: it may have taken effect. Look before you call it "
                    "again."
                )
            is_alive = (await self._deployment.list_held(stored["part"])).get(stored["part"], False)
            if is_alive:
                await anyio.sleep(POLL)

    def _key(self, state: str) -> str:
        return f"{self._session_id}/{state}"


@final
class _Passed:
    """A result that came from another gateway."""

    def __init__(self, handover: Handover, key: str) -> None:
        self._handover = handover
        self._key = key

    def confirm(self, *, arrived: bool = True) -> None:
        if arrived:
            self._handover.confirm(self._key)
