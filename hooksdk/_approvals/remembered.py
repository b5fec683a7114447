"""Answers that are remembered, in the store's key-value space, one value each.

An answer counts for one tool of one definition, for the questions that were asked (plugin, rule and words), for whoever
it was given (the requester and the workspace), and for these arguments or a pattern of them. A yes counts only for the
same triggers and agents, and while every question that is asked now was answered then, no less grave; a no counts as
soon as one of the questions is asked again.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, cast

from hooksdk._approvals.request import (
    DEFAULT_EXPIRY,
    REMEMBERED,
    Approval,
    ApprovalRequest,
    covers_arguments,
    definition_of,
    digest_of,
    requester_of,
    unanswered,
    wording_of,
)
from hooksdk._firing.event import Checked
from hooksdk._schema.fresh import peek
from hooksdk._tasks.background import logger
from hooksdk._transcript.storage import Store

# The space in the store for the time at which a remembered answer was looked for or added last, about.
CLOCK = "hooksdk.approvals.clock"
LATEST = "latest"
# Seconds by which a clock may be set back. By more nobody knows what has expired: no yes counts any more then.
DRIFT = 60.0

# Stands in a key where others have the beginning of their digest, and is none.
PATTERN = "equals"
# What is the same where a new answer takes the place of an older one, beside the wordings.
SAME = ("digest", "arguments", "session", "asker", "workspace", "triggers", "agents")
BEFORE = (
    "the remembered yes to %s (%s) is forgotten, and a person is asked anew: hooksdk 0.2.0 did not keep what was asked"
)


@dataclass(frozen=True, kw_only=True)
class RememberedApproval(Checked):
    """An answer that is remembered. `Remembered.list` gives them.

    ```python
    from hooksdk.approvals import RememberedApproval

    def line(one: RememberedApproval) -> str:
        return f"{one.id} {'yes' if one.granted else 'no'} to {one.tool}"
    ```

    Attributes:
        by: Who answered.
        tool: The tool's id.
        fingerprint: Of the definition that it was given for, annotations included.
        questions: Plugin and severity of each question that was answered.
        title: The gravest question's.
        digest: Of the arguments, when it counts for exactly these; else empty.
        arguments: The arguments that must be equal, when it counts for a pattern.
        session: The session that it counts in; None: in all.
        requester: The id of the requester for whom it counts; of one without a text as id all that is known, as JSON.
        asker: Stands for the requester: one whose id looks like all that is known of another is somebody else.
        triggers: What began the run and those around it.
        agents: The agents of the run and of those around it.
        wordings: Stand for what each of the questions asked, in their order. Empty in an answer that hooksdk 0.2.0 has
            stored: a yes of its counts for nothing, and a no for whatever its plugins ask.
        workspace: The workspace in which it counts.
        answered: Seconds since the epoch.
        expires: Seconds since the epoch.
    """

    id: str
    granted: bool
    reason: str
    by: str
    tool: str
    fingerprint: str
    questions: tuple[tuple[str, str], ...]
    title: str
    digest: str
    arguments: Mapping[str, Any] | None
    session: str | None
    requester: str | None
    asker: str = ""
    triggers: tuple[str, ...] = ()
    agents: tuple[str, ...] = ()
    wordings: tuple[str, ...] = ()
    workspace: str | None
    answered: float
    expires: float

    def as_dict(self) -> dict[str, Any]:
        """All of it, as JSON."""
        lists = {name: list(getattr(self, name)) for name in ("triggers", "agents", "wordings")}
        return {**asdict(self), **lists, "questions": [list(question) for question in self.questions]}


@dataclass(frozen=True)
class Remembered:
    """What is remembered in a store.

    ```python
    import anyio

    from hooksdk import MemoryStore
    from hooksdk.approvals import Remembered

    async def main() -> None:
        remembered = Remembered(MemoryStore())
        assert await remembered.list() == []
        assert not await remembered.revoke("none of this id")

    anyio.run(main)
    ```
    """

    store: Store = field(repr=False)

    async def list(self) -> Sequence[RememberedApproval]:
        """All that count still, by tool and time."""
        now = await self._now()
        known = [one for key in await self.store.list_keys(REMEMBERED) if (one := await self._read(key, now))]
        return sorted(known, key=lambda one: (one.tool, one.answered))

    async def revoke(self, approval_id: str) -> bool:
        """Forget one; False when there is none of this id. Counts from the next question on, in every process."""
        if approval_id not in await self.store.list_keys(REMEMBERED):
            return False
        await self.store.delete_value(REMEMBERED, approval_id)
        return True

    async def revoke_all(self) -> int:
        """Forget all; answers how many."""
        keys = await self.store.list_keys(REMEMBERED)
        for key in keys:
            await self.store.delete_value(REMEMBERED, key)
        return len(keys)

    async def find(self, request: ApprovalRequest) -> RememberedApproval | None:
        """The answer that counts for this request: a no before a yes."""
        arguments = peek(request, "arguments")
        digest, asker, now = digest_of(arguments), _asker_of(request), await self._now()
        fingerprint = definition_of(request.tool)
        tool, definition = _key_of(request.tool.id), _key_of(request.tool.id) + _key_of(fingerprint)
        counting: RememberedApproval | None = None
        for key in await self.store.list_keys(REMEMBERED):
            if not key.startswith(tool):
                continue
            if not key.startswith(definition):  # it has changed: for good, also should it change back
                await self.store.delete_value(REMEMBERED, key)
                continue
            if not key.startswith((definition + PATTERN, definition + digest[: len(PATTERN)])):
                continue
            one = await self._read(key, now)
            if one is None or not (
                (one.tool, one.fingerprint) == (request.tool.id, fingerprint)
                and one.session in {None, request.session_id}
                and one.workspace == request.workspace_dir
                and (one.asker == asker if one.asker else one.requester == requester_of(request))
                and (
                    digest == one.digest != "" if one.arguments is None else covers_arguments(one.arguments, arguments)
                )
            ):
                continue
            if one.granted and not one.wordings:
                logger.warning(BEFORE, one.tool, key)
                await self.store.delete_value(REMEMBERED, key)
            elif _counts(one, request) and (counting is None or counting.granted):
                counting = one
        return counting

    async def add(self, request: ApprovalRequest, approval: Approval) -> bool:
        """Remember an answer, in the place of an older one to the same; False where the arguments are not JSON."""
        digest, now = "", await self._now()
        if approval.arguments is None and not (digest := digest_of(peek(request, "arguments"))):
            return False
        one = RememberedApproval(
            id="",
            granted=approval.granted,
            reason=approval.reason,
            by=approval.by,
            tool=request.tool.id,
            fingerprint=definition_of(request.tool),
            title=request.title,
            digest=digest,
            arguments=approval.arguments,
            questions=tuple((question.plugin, question.severity) for question in request.questions),
            session=request.session_id if approval.scope == "session" else None,
            requester=requester_of(request),
            asker=_asker_of(request),
            triggers=request.triggers,
            agents=request.agents,
            wordings=tuple(wording_of(question, request.mask) for question in request.questions),
            workspace=request.workspace_dir,
            answered=now,
            expires=now + (DEFAULT_EXPIRY if approval.expires is None else approval.expires),
        )
        value = one.as_dict()
        same = [value[name] for name in SAME]
        kind = digest[: len(PATTERN)] or PATTERN
        key = f"{_key_of(one.tool)}{_key_of(one.fingerprint)}{kind}{digest_of([same, sorted(one.wordings)])[:12]}"
        await self.store.set_value(REMEMBERED, key, {**value, "id": key})
        return True

    async def _now(self) -> float:
        """What time it is, never earlier than it was. Where the clock was set back, every yes is forgotten."""
        now = time.time()
        latest: object = await self.store.get_value(CLOCK, LATEST)
        if not isinstance(latest, (int, float)):
            latest = now
            await self.store.set_value(CLOCK, LATEST, now)
        if set_back := now < latest - DRIFT:
            logger.warning("the clock was set back by %.0f s, so every remembered yes is forgotten", latest - now)
            for key in await self.store.list_keys(REMEMBERED):
                one = await self._read(key, now)
                if one is not None and one.granted:
                    await self.store.delete_value(REMEMBERED, key)
        if set_back or now > latest + DRIFT / 2:
            await self.store.set_value(CLOCK, LATEST, now)
        return now if set_back else max(now, latest)

    async def _read(self, key: str, now: float) -> RememberedApproval | None:
        """What is stored, if it counts still. What cannot be read counts for nothing."""
        value: object = await self.store.get_value(REMEMBERED, key)
        if value is None:  # revoked meanwhile
            return None
        try:
            one = _parse(key, value)
        except (KeyError, TypeError, ValueError) as error:
            logger.warning("the remembered approval %s cannot be read, and counts for nothing: %r", key, error)
            return None
        if one.expires > now:
            return one
        await self.store.delete_value(REMEMBERED, key)
        return None


def _parse(key: str, value: object) -> RememberedApproval:
    fields = dict(cast("Mapping[str, Any]", value))
    fields |= {"id": key, "questions": tuple((str(plugin), str(severity)) for plugin, severity in fields["questions"])}
    fields |= {name: tuple(map(str, fields.get(name, ()))) for name in ("triggers", "agents", "wordings")}
    one = RememberedApproval(**fields)
    if one.wordings and len(one.wordings) != len(one.questions):
        raise ValueError("its questions are not those that it was given for")
    return one


def _key_of(text: str) -> str:
    """A part of a key: what counts for a call is found without reading all the others."""
    return digest_of(text)[:6]


def _asker_of(request: ApprovalRequest) -> str:
    """Stands for whoever asks for the call: by the id, or without a text as id by all that is known."""
    requester = request.requester
    by_id = requester is not None and requester.get("id") == requester_of(request)
    return digest_of([by_id, requester_of(request)])


def _counts(one: RememberedApproval, request: ApprovalRequest) -> bool:
    """True when what was answered is what is asked now."""
    if one.granted:
        answered = [(wording, severity) for wording, (_, severity) in zip(one.wordings, one.questions, strict=True)]
        same_run = (one.triggers, one.agents) == (request.triggers, request.agents)
        return same_run and not unanswered(request.questions, answered, request.mask)
    if not one.wordings:
        return any(question.plugin in {plugin for plugin, _ in one.questions} for question in request.questions)
    return any(wording_of(question, request.mask) in one.wordings for question in request.questions)
