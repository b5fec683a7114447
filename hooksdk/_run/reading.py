"""What a session has read: what it is worth, and where the values stand that calls pass on."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from functools import cache
from itertools import count, islice
from math import inf
from typing import Any, Final, NamedTuple, final

from hooksdk import schema
from hooksdk._origins.folding import find_whole, fold
from hooksdk._origins.labels import UNLABELLED, Labels, join_labels
from hooksdk._origins.texts import NEVER, Moment, Place, Texts, quote_around
from hooksdk._origins.values import parts_of
from hooksdk._run.asked import Asked
from hooksdk._schema.fresh import peek
from hooksdk._transcript.facts import USER
from hooksdk._transcript.journal import Ledger
from hooksdk._transcript.pairing import UNKNOWN
from hooksdk.transcript import Transcript

# The name of the agreed values among the session's states. No plugin has it.
AGREED: Final = "hooksdk.agreed"
# The name of the digests of what stands in the user's place and no user has written: True for what plugins have told
# the model, False for what a framework has, from whomever.
REASONS: Final = "hooksdk.reasons"
# The name of the labels of what sub-agents have read.
BELOW: Final = "hooksdk.labels"
# Characters that are remembered of what no transcript has: a script may make thousands of calls, and a gateway's
# session, which keeps no messages, lives for weeks. Above it the older half is forgotten.
MOST_CHARACTERS: Final = 1_000_000


class _Unrecorded(NamedTuple):
    text: str
    labels: Labels
    moment: Moment
    tool: str


@final
class Reading:
    """All that the session's agent has read and what its user said, in this run and the earlier ones.

    Attributes:
        asked: What all calls have said, as far as somebody has looked for a value.
    """

    def __init__(self, transcript: Transcript) -> None:
        self._transcript = transcript
        stored = transcript.state(BELOW).get("labels")
        # Of all that sub-agents have read; None while that is nothing.
        self._below: Labels | None = None if stored is None else frozenset(map(str, stored))
        self._reasons: dict[str, bool] = dict(transcript.state(REASONS))
        # Of all that was noted; None while that is nothing.
        self._noted = self._below
        if not all(self._reasons.values()):
            self.note(UNLABELLED)
        # Of the first results; None while there are none.
        self._labels: Labels | None = None
        # How many of the transcript's results are in the labels.
        self._results = 0
        self._unrecorded: deque[_Unrecorded] = deque()
        # Of all that is unrecorded.
        self._characters = 0
        self.asked: Final = Asked()
        self._unrecorded_calls = count(1)
        self._recorded = Texts()
        # How many of the transcript's results are among these texts.
        self._searched = 0
        # Of each of these results: the tools whose results it may repeat beside its own.
        self._repeats: list[tuple[str, ...]] = []
        # The message with the newest of their calls, and how many results there were before its own.
        self._reply = (-1, 0)
        self._others = Texts()
        # How much of what is unrecorded is among these texts.
        self._others_read = 0
        self._prompts: dict[str, None] = {}
        # Texts in the user's place of which it is known whether the user wrote them.
        self._looked_at: set[str] = set()
        # How many of the transcript's messages were looked at for prompts.
        self._messages = 0

    # What it is worth

    def note(self, labels: Labels) -> None:
        """Something with these labels was read."""
        self._noted = _joined(self._noted, labels)

    def note_below(self, labels: Labels) -> None:
        """A sub-agent has read something with these labels, which may be in no result of this session."""
        self._below = _joined(self._below, labels)
        self.note(labels)

    async def save(self) -> None:
        """Keep what sub-agents have read; durable when this returns."""
        if self._below is not None:
            await self._transcript.save_state(BELOW, {"labels": sorted(self._below)})

    def begin_anew(self) -> None:
        """The labels of stored results are others now."""
        self._labels, self._results, self._recorded, self._searched = None, 0, Texts(), 0
        self._repeats.clear()

    @property
    def labels(self) -> Labels | None:
        """Of all that was read, joined; None where that is nothing."""
        for labels in self._transcript.ask(self._new_labels):
            self._labels = _joined(self._labels, labels)
        return self._noted if self._labels is None else _joined(self._noted, self._labels)

    def _new_labels(self, ledger: Ledger) -> set[Labels]:
        records = ledger.records
        fresh = {row.labels for row in records[self._results :]} if len(records) > self._results else set[Labels]()
        self._results = len(records)
        return fresh

    # Where values stand

    def note_asked(self, arguments: Any, *, tool: str, by_agent: bool = False) -> Moment:
        """A call that the transcript does not have, of this tool or below it, has said this; nobody changes it."""
        moment = self._transcript.ask(lambda ledger: len(ledger.records)), next(self._unrecorded_calls)
        self.asked.note(tool, arguments, moment, by_agent=by_agent)
        return moment

    def keep(self, text: str, labels: Labels, *, arguments: Any, tool: str) -> None:
        """Remember a result that the transcript does not have."""
        moment = self.note_asked(arguments, tool=tool)
        if not labels or not text or len(text) > MOST_CHARACTERS:
            return
        self._unrecorded.append(_Unrecorded(text, labels, moment, tool))
        self._characters += len(text)
        if self._characters > MOST_CHARACTERS:
            while self._characters > MOST_CHARACTERS // 2 and len(self._unrecorded) > 1:
                self._characters -= len(self._unrecorded.popleft().text)
            self._others, self._others_read = Texts(), 0

    def say(self, prompt: str) -> None:
        """The user has said this."""
        if folded := fold(prompt):
            self._prompts[folded] = None

    def is_reason(self, text: str) -> bool:
        """True for what stands where a user's message would, and no user has written it."""
        return text.startswith(UNKNOWN) or (bool(self._reasons) and schema.fingerprint(text) in self._reasons)

    async def note_reason(self, text: str) -> None:
        """A plugin is about to tell the model this; durable when this returns."""
        await self._note({schema.fingerprint(text): True})

    async def note_strangers(self, texts: Iterable[tuple[str, str]]) -> None:
        """Texts that stand in the user's place in a framework's list, each as it was given and as it is stored: what no caller has
        handed in as the user's, a middleware or whoever may have written. Durable when this returns."""
        self._read_prompts()
        strange: dict[str, bool] = {}
        for given, text in texts:
            if text.strip() and text not in self._looked_at:
                self._looked_at.add(text)
                digest = schema.fingerprint(text)
                if digest not in self._reasons and not {fold(given), fold(text)} & self._prompts.keys():
                    strange[digest] = False
        if strange:
            self.note(UNLABELLED)
            await self._note(strange)

    async def _note(self, reasons: dict[str, bool]) -> None:
        self._reasons.update(reasons)
        await self._transcript.save_state(REASONS, dict(sorted(self._reasons.items())))

    def find_prompt(self, value: str) -> str | None:
        """What stands around the folded value where the user wrote it; None where that is nowhere."""
        self._read_prompts()
        for prompt in self._prompts:
            if (place := find_whole(prompt, value)) >= 0:
                return quote_around(prompt, place, len(value))
        return None

    def _read_prompts(self) -> None:
        for text in self._transcript.ask(self._new_prompts):
            self.say(text)

    def _new_prompts(self, ledger: Ledger) -> list[str]:
        kinds, first = ledger.facts.kinds, self._messages
        self._messages = ledger.count
        texts = [
            ledger.need_format().text(ledger.messages[at]) for at in range(first, ledger.count) if kinds[at] == USER
        ]
        return [text for text in texts if not self.is_reason(text)]

    def find(self, value: str, around: Sequence[Asked] = ()) -> list[Place]:
        """Where the folded value was read: in the results of the transcript, and in what it does not have. `around`: what was asked
        in the runs around."""
        self._transcript.ask(self._read_results)
        for one in islice(self._unrecorded, self._others_read, None):
            self._others.add(one.text, one.labels, moment=one.moment, tool=one.tool)
        self._others_read = len(self._unrecorded)

        @cache
        def first_said(tool: str) -> Moment:
            before = any(asked.first_said(tool, value, by_agents=False) < NEVER for asked in around)
            return (0, 0) if before else self.asked.first_said(tool, value)

        places = [self._recorded.find(value, first_said), self._others.find(value, first_said)]
        return [place for place in places if place is not None]

    def _read_results(self, ledger: Ledger) -> None:
        for row in ledger.records[self._searched :]:
            arguments, tools = None, tuple[str, ...]()
            if row.call is not None:
                arguments = peek(ledger.call_at(row.call), "arguments")
                reply, _ = ledger.facts.call_place(row.call)
                if reply != self._reply[0]:
                    self._reply = reply, row.number
                # What calls at once have said may stand in the result of each.
                self.asked.note(row.tool, arguments, (self._reply[1], 0))
                tools = self._repeated_by(ledger, arguments, row.number)
            self._repeats.append(tools)
            if row.labels:
                self._recorded.add(
                    ledger.body(row).text, row.labels, moment=(row.number, inf), handle=row.handle, tool=row.tool,
                    repeats=tools,
                )  # fmt: skip
        self._searched = len(ledger.records)

    def _repeated_by(self, ledger: Ledger, arguments: Any, number: int) -> tuple[str, ...]:
        """The tools of the earlier results that a call names, such as one to recall."""
        records = ledger.records
        named = [
            row.number
            for text in parts_of(arguments)[1]
            for row in (*records.by_id(text.strip()), *filter(None, [records.by_handle(text.strip().lower())]))
        ]
        return tuple({tool for one in named if one < number for tool in (records[one].tool, *self._repeats[one])})

    # What was agreed to

    def has_agreed(self, digest: str) -> bool:
        """True where a person has agreed to the value of this digest."""
        return digest in self._transcript.state(AGREED)

    async def agree(self, digests: list[str]) -> None:
        """A person has agreed to the values of these digests; durable when this returns."""
        fresh = dict.fromkeys((digest for digest in digests if digest), True)
        await self._transcript.save_state(AGREED, {**self._transcript.state(AGREED), **fresh})


def _joined(before: Labels | None, labels: Labels) -> Labels:
    return labels if before is None or before == labels else join_labels(before, labels)
