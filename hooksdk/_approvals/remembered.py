"""Answers that are remembered, in the store's key-value space, one value each.

An answer counts for one tool of one definition, for the plugins that asked, for whoever it was given (the requester's id and the
workspace), and for these arguments or a pattern of them. A yes counts only while every question that is asked now was answered
then, by plugin and no less grave; a no counts as soon as one of the plugins asks again.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, cast

from hooksdk._approvals.request import (
    DEFAULT_EXPIRY,
    GRAVITY,
    Approval,
    ApprovalRequest,
    covers_arguments,
    definition_of,
    digest_of,
    requester_of,
)
from hooksdk._firing.event import Checked
from hooksdk._schema.fresh import peek
from hooksdk._tasks.background import logger
from hooksdk._transcript.storage import Store

SPACE = "hooksdk.approvals"
"""The space in the store. No plugin has it: `PluginStorage` gives no ids that begin like this."""

PATTERN = "equals"
"""Stands in a key where others have the beginning of their digest, and is none."""


@dataclass(frozen=True, kw_only=True)
class RememberedApproval(Checked):
    """An answer that is remembered. `Remembered.list` gives them.

    ```python
    from hooksdk.approvals import RememberedApproval

    def line(one: RememberedApproval) -> str:
        return f"{one.id} {'yes' if one.granted else 'no'} to {one.tool}"
    ```
    """

    id: str
    granted: bool
    reason: str
    by: str
    """Who answered."""
    tool: str
    """The tool's id."""
    fingerprint: str
    """Of the definition that it was given for, annotations included."""
    questions: tuple[tuple[str, str], ...]
    """Plugin and severity of each question that was answered."""
    title: str
    """The gravest question's."""
    digest: str
    """Of the arguments, when it counts for exactly these; else empty."""
    arguments: Mapping[str, Any] | None
    """The arguments that must be equal, when it counts for a pattern."""
    session: str | None
    """The session that it counts in; None: in all."""
    requester: str | None
    """The id of the requester for whom it counts; of one without a text as id all that is known, as JSON."""
    workspace: str | None
    """The workspace in which it counts."""
    answered: float
    """Seconds since the epoch."""
    expires: float
    """Seconds since the epoch."""

    def as_dict(self) -> dict[str, Any]:
        """All of it, as JSON."""
        return {**asdict(self), "questions": [list(question) for question in self.questions]}


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
        known = [one for key in await self.store.list_keys(SPACE) if (one := await self._read(key))]
        return sorted(known, key=lambda one: (one.tool, one.answered))

    async def revoke(self, approval_id: str) -> bool:
        """Forget one; False when there is none of this id. Counts from the next question on, in every process."""
        if approval_id not in await self.store.list_keys(SPACE):
            return False
        await self.store.delete_value(SPACE, approval_id)
        return True

    async def revoke_all(self) -> int:
        """Forget all; answers how many."""
        keys = await self.store.list_keys(SPACE)
        for key in keys:
            await self.store.delete_value(SPACE, key)
        return len(keys)

    async def find(self, request: ApprovalRequest) -> RememberedApproval | None:
        """The answer that counts for this request: a no before a yes."""
        arguments = peek(request, "arguments")
        digest, requester = digest_of(arguments), requester_of(request)
        fingerprint = definition_of(request.tool)
        tool, definition = _key_of(request.tool.id), _key_of(request.tool.id) + _key_of(fingerprint)
        counting: RememberedApproval | None = None
        for key in await self.store.list_keys(SPACE):
            if not key.startswith(tool):
                continue
            if not key.startswith(definition):  # it has changed: for good, also should it change back
                await self.store.delete_value(SPACE, key)
                continue
            if not key.startswith((definition + PATTERN, definition + digest[: len(PATTERN)])):
                continue
            one = await self._read(key)
            if one is not None and (
                (one.tool, one.fingerprint) == (request.tool.id, fingerprint)
                and one.session in {None, request.session_id}
                and (one.requester, one.workspace) == (requester, request.workspace_dir)
                and (
                    digest == one.digest != "" if one.arguments is None else covers_arguments(one.arguments, arguments)
                )
                and (_answers_all(one, request) if one.granted else _answers_one(one, request))
                and (counting is None or counting.granted)
            ):
                counting = one
        return counting

    async def add(self, request: ApprovalRequest, approval: Approval) -> bool:
        """Remember an answer, in the place of an older one to the same; False where the arguments are not JSON."""
        digest, now = "", time.time()
        if approval.arguments is None and not (digest := digest_of(peek(request, "arguments"))):
            return False
        one = RememberedApproval(
            id="", granted=approval.granted, reason=approval.reason, by=approval.by, tool=request.tool.id,
            fingerprint=definition_of(request.tool), title=request.title, digest=digest, arguments=approval.arguments,
            questions=tuple((question.plugin, question.severity) for question in request.questions),
            session=request.session_id if approval.scope == "session" else None, requester=requester_of(request),
            workspace=request.workspace_dir, answered=now,
            expires=now + (DEFAULT_EXPIRY if approval.expires is None else approval.expires),
        )  # fmt: skip
        value = one.as_dict()
        same = [value[name] for name in ("digest", "arguments", "session", "requester", "workspace")]
        plugins = sorted({plugin for plugin, _ in one.questions})
        kind = digest[: len(PATTERN)] or PATTERN
        key = f"{_key_of(one.tool)}{_key_of(one.fingerprint)}{kind}{digest_of([same, plugins])[:12]}"
        await self.store.set_value(SPACE, key, {**value, "id": key})
        return True

    async def _read(self, key: str) -> RememberedApproval | None:
        """What is stored, if it counts still. What cannot be read counts for nothing."""
        value: object = await self.store.get_value(SPACE, key)
        if value is None:  # revoked meanwhile
            return None
        try:
            one = _parse(key, value)
        except (KeyError, TypeError, ValueError) as error:
            logger.warning("the remembered approval %s cannot be read, and counts for nothing: %r", key, error)
            return None
        if one.expires > time.time():
            return one
        await self.store.delete_value(SPACE, key)
        return None


def _parse(key: str, value: object) -> RememberedApproval:
    fields = dict(cast("Mapping[str, Any]", value))
    fields |= {"id": key, "questions": tuple((str(plugin), str(severity)) for plugin, severity in fields["questions"])}
    return RememberedApproval(**fields)


def _key_of(text: str) -> str:
    """A part of a key: what counts for a call is found without reading all the others."""
    return digest_of(text)[:6]


def _answers_all(one: RememberedApproval, request: ApprovalRequest) -> bool:
    answered = sorted(one.questions, key=lambda question: GRAVITY.get(question[1], -1), reverse=True)
    for question in request.questions:  # the gravest first, so each takes the gravest answer that is free
        for plugin, severity in answered:
            if plugin == question.plugin and GRAVITY.get(severity, -1) >= GRAVITY[question.severity]:
                answered.remove((plugin, severity))
                break
        else:
            return False
    return True


def _answers_one(one: RememberedApproval, request: ApprovalRequest) -> bool:
    plugins = {plugin for plugin, _ in one.questions}
    return any(question.plugin in plugins for question in request.questions)
