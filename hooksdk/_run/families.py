"""What the plugins keep for a family: a run and all runs of sub-agents below it, in whichever process."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Collection
from typing import Any, TypeVar, final

from hooksdk import schema
from hooksdk._masking.mask import SecretMask
from hooksdk._run.plugin_states import SHARED, change_stored, check_id
from hooksdk._tasks.background import logger
from hooksdk._tasks.limits import describe
from hooksdk.errors import RunClosed
from hooksdk.hooks import EndReason, RunInfo
from hooksdk.transcript import Store, Transcript
from hooksdk.values import as_object

T = TypeVar("T")

# The space of the store that holds them: no plugin's id begins like this. A key is FAMILY/PLUGIN.
SPACE = "hooksdk.families"
# The name, among the session's states, of the family that its last run has left open: it was paused, or its process
# died.
OPEN = "hooksdk.family"
# Seconds after its last change until what a pause or a crash has left is removed.
MAX_AGE = 30 * 86_400
# How many others are looked at, as a family gets its first state, whether they are that old.
LOOKED_AT = 8


@final
class FamilyMembers:
    """The families of a session and of its sub-agents' sessions, as far as plugins keep anything for them, with those
    of these sessions that may still ask for it.

    Attributes:
        sessions: Those of the sessions that are open.
    """

    def __init__(self) -> None:
        self._members: dict[str, set[str]] = {}
        self._over: set[str] = set()
        self.sessions: list[SessionFamily] = []

    def __contains__(self, family: str) -> bool:
        return family in self._members

    def add(self, family: str, session_id: str) -> None:
        """The session may ask for what is kept for this family."""
        self._members.setdefault(family, set()).add(session_id)

    def end(self, family: str) -> None:
        """The family's outermost run is over, and will not go on."""
        self._over.add(family)

    def leave(self, session_id: str, *, but: str = "") -> list[str]:
        """The session asks for nothing any more, but for that of one family. Answers the families that are over and
        that nobody asks for now."""
        left = [family for family, sessions in self._members.items() if family != but and session_id in sessions]
        forgotten: list[str] = []
        for family in left:
            self._members[family].remove(session_id)
            if not self._members[family]:
                del self._members[family]
                forgotten += [family] if family in self._over else []
                self._over.discard(family)
        return forgotten


@final
class SessionFamily:
    """The family of a session's run."""

    def __init__(
        self,
        store: Store,
        transcript: Transcript,
        run: Callable[[], RunInfo | None],
        members: FamilyMembers,
        mask: SecretMask,
        plugins: Collection[str],
    ) -> None:
        """`run` answers the session's run, `plugins` are the ids of those that ask for what is kept for a family."""
        self._store = store
        self._transcript = transcript
        self._run = run
        self._members = members
        self._mask = mask
        self._plugins = plugins
        # The run that ended last: late writes of observers must not reopen its family.
        self._ended = ""
        members.sessions.append(self)

    @property
    def left_open(self) -> str:
        """The family of a run that was paused, or whose process died: the next run of the session goes on with it.
        Empty where there is none."""
        return str(self._transcript.state(OPEN).get("id", "")) if self._plugins else ""

    @property
    def id(self) -> str:
        """The family of the run that is open, or was last. Raises `RunClosed` before the first."""
        return self._info.family

    @property
    def run(self) -> str:
        """The id of that run; of one that goes on with another, of that one."""
        own = self._transcript.state(OPEN)
        return str(own.get("run") or self._info.run_id) if own.get("id") == self.id else self._info.run_id

    @property
    def _info(self) -> RunInfo:
        run = self._run()
        if run is None:
            raise RunClosed("what is kept for a family is there from the session's first run on")
        return run

    @property
    def _is_outermost(self) -> bool:
        """True for the run by which the family is called, and for one that goes on in its place."""
        own = self._transcript.state(OPEN)
        return self._info.run_id == self.id or (own.get("id") == self.id and own.get("outermost") is True)

    async def read(self, plugin: str) -> dict[str, Any]:
        """What the plugin keeps for the family: a fresh copy."""
        return as_object(as_object(await self._store.get_value(SPACE, f"{self.id}/{plugin}")).get("state"))

    async def update(self, plugin: str, change: Callable[[dict[str, Any]], T]) -> T:
        """Change what the plugin keeps for the family, in one step; durable when this returns. Answers what `change`
        does."""
        family, is_first = self.id, False
        for each in [*self._members.sessions]:  # a run around this one that has kept nothing goes on with it, too
            await each.leave_open(family)
        self._members.add(family, self._transcript.session_id)

        def step(stored: Any) -> tuple[Any, T]:
            nonlocal is_first
            is_first = stored is None
            before: dict[str, Any] = as_object(as_object(stored).get("state"))
            state = schema.clone(before)
            answer = change(state)
            if state == before:
                return stored, answer
            return {"state": self._mask.value(state), "changed": time.time()}, answer

        answer = await change_stored(self._store, SPACE, f"{family}/{plugin}", step)
        if is_first:
            await self._sweep()
        return answer

    async def leave_open(self, family: str) -> None:
        """Something is kept for this family. Where the session's run is of it, and does not end in good order, its next
        run is, too."""
        run = self._run()
        if run is not None and run.family == family != self.left_open and run.run_id != self._ended:
            left = {"id": family, "outermost": self._is_outermost, "run": run.run_id}
            await self._transcript.save_state(OPEN, left)

    async def end_run(self, reason: EndReason) -> None:
        """The session's run is over: what its family has kept is not needed any more once nobody can ask for it, unless
        the run was paused."""
        if not self._plugins:
            return
        family, is_outermost, self._ended = self.id, self._is_outermost, self._info.run_id
        await self._forget(self._members.leave(self._transcript.session_id, but=family))
        if reason == "paused":
            return
        if self.left_open:
            self._members.add(family, self._transcript.session_id)
            await self._transcript.save_state(OPEN, {})
        if is_outermost and family in self._members:
            self._members.add(
                family, self._transcript.session_id
            )  # a sub-agent that begins from now on is of this family, too
            self._members.end(family)

    async def close(self) -> None:
        """The session closes."""
        self._members.sessions.remove(self)
        if self._plugins:
            await self._forget(self._members.leave(self._transcript.session_id))

    async def _forget(self, families: Collection[str]) -> None:
        for key in [f"{family}/{plugin}" for family in families for plugin in self._plugins]:
            try:
                await self._store.delete_value(SPACE, key)
            except Exception as error:
                logger.warning("what was kept for family %s is removed later: %s", key, describe(error))

    async def _sweep(self) -> None:
        """Remove some of what nobody has changed for long."""
        oldest = time.time() - MAX_AGE
        try:
            keys = await self._store.list_keys(SPACE)
            for key in random.sample(keys, min(LOOKED_AT, len(keys))):
                stored = await self._store.get_value(SPACE, key)
                if stored is not None and as_object(stored).get("changed", 0) < oldest:
                    await self._store.change_value(SPACE, key, stored, None)
        except Exception as error:
            logger.warning("old families cannot be looked at: %s", describe(error))


@final
class OwnFamilyState:
    """One plugin's `FamilyState`, in one session."""

    def __init__(self, family: SessionFamily, plugin: str) -> None:
        check_id(plugin)
        self._family = family
        self._plugin = plugin

    @property
    def id(self) -> str:
        return self._family.id

    @property
    def run(self) -> str:
        return self._family.run

    async def read(self) -> dict[str, Any]:
        return await self._family.read(self._plugin)

    async def get(self, key: str, default: Any = None) -> Any:
        return (await self._family.read(self._plugin)).get(key, default)

    async def update(self, change: Callable[[dict[str, Any]], T]) -> T:
        return await self._family.update(self._plugin, change)


async def forget_shared(store: Store, session_id: str) -> None:
    """Remove what plugins have kept for such a session: nobody has it any more."""
    for space in (SHARED, SPACE):
        for key in await store.list_keys(space):
            if key.startswith(f"{session_id}/"):
                await store.delete_value(space, key)
