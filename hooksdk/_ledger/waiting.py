"""Decisions and answers about calls that have no result yet, stored in the session so that a later run can go on with
them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any, cast, final

from hooksdk._approvals.request import Approval, Question, definition_of, digest_of
from hooksdk._firing.event import RunInfo
from hooksdk._ledger.calls import CallInProgress
from hooksdk._masking.mask import SecretMask
from hooksdk._tasks.background import logger
from hooksdk.calls import CallOrigin, ToolCall
from hooksdk.transcript import Transcript
from hooksdk.values import as_object

# The name of its state in the session. No plugin has it: `PluginStates` gives no ids that begin like this.
STATE = "hooksdk.verdicts"


@dataclass(frozen=True, kw_only=True)
class WaitingCall:
    """One call, as it was judged.

    Attributes:
        reply: The number of the reply that it belongs to: providers use ids again.
        run: Stands for whom and where it was judged: requester, workspace, and the chains of triggers and agents.
        written: Stands for name and arguments as they were written.
        name: The real tool's name; the call may have come by a bridge.
        tool: The tool's id.
        fingerprint: Of its definition.
        arguments: Those that were judged, and will run.
        questions: What a person is asked.
        answered_by: Who approved these questions; None while nobody has.
        granted: Other questions, which were approved before.
        rewriters: The plugins that were asked to rewrite it; None where hooksdk 0.2.0 has stored it: all of them.
        let_through: It was let through to its tool, which has paused.
    """

    reply: int
    run: str
    written: str
    name: str
    origin: CallOrigin
    tool: str
    fingerprint: str
    arguments: dict[str, Any]
    questions: tuple[Question, ...]
    answered_by: str | None
    granted: tuple[Question, ...] = ()
    rewriters: tuple[str, ...] | None = None
    let_through: bool = False


@final
class WaitingCalls:
    """The calls of one session that were judged and have no result yet.

    Attributes:
        calls: By their id.
    """

    def __init__(self, transcript: Transcript, info: RunInfo) -> None:
        self._transcript = transcript
        self._info = info
        self.calls: dict[str, Any] = transcript.state(STATE)
        # The ids of calls that are judged again at this moment: each is taken up once.
        self._taken: set[str] = set()

    def take(self, work: CallInProgress) -> WaitingCall | None:
        """What was judged of this call, once; None when it has to be judged."""
        written = work.written
        value: object = self.calls.get(written.id)
        if value is None or written.id in self._taken:
            return None
        try:
            fields = dict(cast("Mapping[str, Any]", value))
            for name in ("questions", "granted"):
                fields[name] = tuple(Question(**question) for question in fields.get(name, ()))
            if (rewriters := fields.get("rewriters")) is not None:
                fields["rewriters"] = tuple(map(str, rewriters))
            waiting = WaitingCall(**fields)
        except (KeyError, TypeError, ValueError) as error:
            logger.warning("what was judged of call %r cannot be read, so it is judged anew: %r", written.id, error)
            return None
        if (waiting.reply, waiting.run, waiting.written) != (self.reply_of(written), self._run, work.digest):
            return None
        self._taken.add(written.id)
        return waiting

    async def keep(self, work: CallInProgress, approval: Approval | None, mask: SecretMask) -> bool:
        """Keep what was judged of a call, and the answer if there is one, with placeholders for values of secrets;
        durable when this answers True: the call goes on from here in the run in which its answer arrives. False where
        something is not JSON."""
        tool, verdict = work.real_tool, work.verdict
        waiting = WaitingCall(
            reply=self.reply_of(work.written),
            run=self._run,
            written=work.digest,
            name=work.call.name,
            origin=work.call.origin,
            tool=tool.id,
            fingerprint=definition_of(tool),
            arguments=work.arguments,
            questions=verdict.questions if approval is None else verdict.granted,
            answered_by=mask.text(approval.by) if approval else None,
            granted=verdict.granted if approval is None else (),
            rewriters=verdict.rewriters,
            let_through=verdict.let_through,
        )
        value = asdict(waiting)
        value |= {name: mask.value(value[name]) for name in ("arguments", "questions", "granted")}
        if not (waiting.run and waiting.written and digest_of(value)):
            return False
        # Calls of earlier replies are closed, so their decisions are not needed any more.
        replies = self._transcript.replies
        current = {name: one for name, one in self.calls.items() if as_object(one).get("reply", 0) >= replies}
        await self._save({**current, work.written.id: value})
        self._taken.discard(work.written.id)
        return True

    async def forget(self, written: ToolCall) -> None:
        """The call is executed now, or has its result."""
        if written.id in self.calls:
            await self._save({name: one for name, one in self.calls.items() if name != written.id})
            self._taken.discard(written.id)

    async def _save(self, calls: dict[str, Any]) -> None:
        # At once: of two calls that are kept at the same time, the second begins with what the first has left.
        self.calls = calls
        try:
            await self._transcript.save_state(STATE, calls)
        except BaseException:
            self.calls = self._transcript.state(STATE)
            raise

    @cached_property
    def _run(self) -> str:
        """What rules may ask of a run: a call that was judged for one requester is judged anew for another."""
        info = self._info
        return digest_of([info.requester, info.workspace_dir, info.triggers, info.agents])

    def reply_of(self, written: ToolCall) -> int:
        """The number of its reply: the newest, or the next one when its reply is not recorded yet."""
        replies = self._transcript.replies
        return replies if any(call.id == written.id for call in self._transcript.pending) else replies + 1
