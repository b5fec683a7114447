"""What a session has read, and what its calls have said: what it is worth, and where the values stand that calls pass
on. A tool repeats what it was asked, so the text of its result vouches for nothing that may be made of that."""

from __future__ import annotations

import html
import quopri
import re
import unicodedata
from collections import defaultdict, deque
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from itertools import count, islice
from math import inf
from typing import Any, Final, NamedTuple, final
from urllib.parse import unquote

from hooksdk import schema
from hooksdk._origins.folding import find_whole, fold, undo_escapes
from hooksdk._origins.labels import UNLABELLED, Labels, join_labels
from hooksdk._origins.texts import NEVER, Moment, Place, Texts, quote_around
from hooksdk._origins.values import parts_of
from hooksdk._schema.fresh import peek
from hooksdk._transcript.encoding import is_reason
from hooksdk._transcript.journal import REASONS, Ledger
from hooksdk._transcript.rows import USER
from hooksdk.transcript import Transcript

# The name of the agreed values among the session's states. No plugin has it.
AGREED: Final = "hooksdk.agreed"
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
        asked: What the calls have said, by their tools.
        reasons: The digests of what stands in the user's place and no user has written (`REASONS`).
    """

    def __init__(self, transcript: Transcript) -> None:
        self._transcript = transcript
        stored = transcript.state(BELOW).get("labels")
        # Of all that sub-agents have read; None while that is nothing.
        self._below: Labels | None = None if stored is None else frozenset(map(str, stored))
        self.reasons: dict[str, bool] = dict(transcript.state(REASONS))
        # Of all that was noted; None while that is nothing.
        self._noted = self._below
        if not all(self.reasons.values()):
            self.note(UNLABELLED)
        # Of the first results; None while there are none.
        self._labels: Labels | None = None
        # How many of the transcript's results are in the labels, and the sets of labels that are joined in them.
        self._results = 0
        self._joined_labels = set[Labels]()
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
        if labels != self._noted:
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
        self._joined_labels.clear()
        self._repeats.clear()

    @property
    def labels(self) -> Labels | None:
        """Of all that was read, joined; None where that is nothing."""
        for labels in self._transcript.ask(self._new_labels):
            self._labels = _joined(self._labels, labels)
            self._joined_labels.add(labels)
        return self._noted if self._labels is None else _joined(self._noted, self._labels)

    def _new_labels(self, ledger: Ledger) -> set[Labels]:
        before, self._results = self._results, ledger.results
        return set() if before == ledger.results else ledger.records.labels - self._joined_labels

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

    async def note_reason(self, text: str) -> None:
        """A plugin is about to tell the model this; durable when this returns."""
        await self._note({schema.fingerprint(text): True})

    async def note_strangers(self, texts: Iterable[tuple[str, str]]) -> None:
        """Texts that stand in the user's place in a framework's list, each as it was given and as it is stored: what no
        caller has handed in as the user's, a middleware or whoever may have written. Durable when this returns."""
        strange: dict[str, bool] = {}
        for given, text in texts:
            if text.strip() and text not in self._looked_at:
                self._looked_at.add(text)
                digest = schema.fingerprint(text)
                if digest not in self.reasons and not any(map(self._is_prompt, {fold(given), fold(text)})):
                    strange[digest] = False
        if strange:
            self.note(UNLABELLED)
            await self._note(strange)

    async def _note(self, reasons: dict[str, bool]) -> None:
        self.reasons.update(reasons)
        await self._transcript.save_state(REASONS, dict(sorted(self.reasons.items())))

    def _is_prompt(self, folded: str) -> bool:
        return folded in self._prompts or self._transcript.ask(lambda ledger: ledger.lookup.has_prompt(folded))

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
        rows, first = ledger.rows, self._messages
        self._messages = ledger.count
        texts = [
            ledger.need_format().text(ledger.messages[at]) for at in range(first, ledger.count) if rows[at].kind == USER
        ]
        return [text for text in texts if not is_reason(text, self.reasons)]

    def find(self, value: str, around: Sequence[Asked] = ()) -> list[Place]:
        """Where the folded value was read: in the results of the transcript, and in what it does not have. `around`:
        what was asked in the runs around."""
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
                if row.call.position != self._reply[0]:
                    self._reply = row.call.position, row.number
                # What calls at once have said may stand in the result of each.
                self.asked.note(row.tool, arguments, (self._reply[1], 0))
                tools = self._repeated_by(ledger, arguments, row.number)
            self._repeats.append(tools)
            if row.labels:
                self._recorded.add(
                    ledger.body(row).text,
                    row.labels,
                    moment=(row.number, inf),
                    handle=row.handle,
                    tool=row.tool,
                    repeats=tools,
                )
        self._searched = len(ledger.records)

    def _repeated_by(self, ledger: Ledger, arguments: Any, number: int) -> tuple[str, ...]:
        """The tools of the earlier results that a call names, such as one to recall."""
        records = ledger.records
        named = [
            row.number
            for text in parts_of(arguments)[1]
            for row in (*records.with_id(text.strip()), *filter(None, [records.by_handle(text.strip().lower())]))
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


# What calls have said

_WORD = re.compile(r"[^\W_]+")
# Characters that are read of one call with its escapes undone. Of a call with more nobody can say what may be made of
# it.
_MOST_READ = 500_000
# Characters of all calls of one tool. Above it the older half is forgotten.
_MOST_KEPT = 1_000_000
# Calls whose arguments are kept as they are.
_MOST_WAITING = 100
# Characters of a word that is looked for in pieces. A longer one that stands nowhere as a whole counts as said.
_LONGEST = 1024


class _Said(NamedTuple):
    moment: Moment
    # Its words, with one blank between two.
    text: str


@final
class Asked:
    """What the calls of each tool have said, in their order."""

    def __init__(self) -> None:
        self._tools: defaultdict[tuple[str, bool], _Calls] = defaultdict(_Calls)

    def note(self, tool: str, arguments: Any, moment: Moment, *, by_agent: bool = False) -> None:
        """A call has said this; one of a sub-agent, where it is `by_agent`."""
        self._tools[tool, by_agent].add(moment, arguments)

    def first_said(self, tool: str, value: str, *, by_agents: bool = True) -> Moment:
        """When a call of the tool first said what the value may be made of."""
        return min(self._tools[tool, by_agent].first_said(_bare(value)) for by_agent in {False, by_agents})


class _Calls:
    """The calls of one tool."""

    def __init__(self) -> None:
        # Those that nobody has asked after yet: most tools vouch for nothing.
        self._waiting: list[tuple[Moment, Any]] = []
        self._said: list[_Said] = []
        self._words: dict[str, Moment] = {}
        self._unreadable = NEVER

    def add(self, moment: Moment, arguments: Any) -> None:
        self._waiting.append((moment, arguments))
        if len(self._waiting) >= _MOST_WAITING:
            self._read()

    def first_said(self, value: str) -> Moment:
        if self._waiting:
            self._read()
        whole = min((said.moment for said in self._said if value in said.text), default=NEVER)
        return min(whole, max(map(self._made, value.split()), default=NEVER), self._unreadable)

    def _read(self) -> None:
        said: list[_Said] = []
        for moment, arguments in self._waiting:
            try:
                said += dict.fromkeys([_Said(moment, _bare(text)) for text in _readings(arguments)])
            except OverflowError:
                self._unreadable = min(self._unreadable, moment)
        self._waiting.clear()
        self._said += said
        if sum(len(one.text) for one in self._said) > _MOST_KEPT:
            self._said = said = self._said[len(self._said) // 2 :]
            self._words.clear()
        for moment, text in said:
            for word in text.split():
                self._words[word] = min(moment, self._words.get(word, NEVER))

    def _made(self, word: str) -> Moment:
        """When the last of the pieces was first said of which the word may be put together, at the earliest."""
        if len(word) > _LONGEST:
            return (0, 0)
        ends: list[Moment] = [(0, 0), *[NEVER] * len(word)]
        for start in range(len(word)):
            if ends[start] < NEVER:
                for end in range(start + 1, len(word) + 1):
                    ends[end] = min(ends[end], max(ends[start], self._words.get(word[start:end], NEVER)))
        return ends[-1]


def as_text(arguments: Any) -> str:
    """The arguments of a call as one text."""
    try:
        return arguments if isinstance(arguments, str) else schema.canonical(arguments)
    except schema.Uncloneable:  # a rewriting plugin may have put in what is no JSON
        return repr(arguments)


def _readings(arguments: Any) -> Iterator[str]:
    """What a tool may make of its arguments: put together in any order, and with the escapes of any writer undone as
    often as there are any. Raises `OverflowError` where that is too much to read."""
    keys, values = parts_of(arguments)
    written = as_text(arguments)
    yield written
    joined = [join for parts in (values, keys) for join in (" ".join(parts), "".join(parts), "".join(reversed(parts)))]
    known = dict.fromkeys(joined if keys or values else [written])
    waiting, left = [*known], _MOST_READ
    while waiting:
        text = waiting.pop()
        yield text
        for undo in (fold, undo_escapes, html.unescape, unquote, _of_mail, _of_all):
            if (other := undo(text)) not in known:
                left -= 0 if undo is fold else len(other)
                if left < 0:
                    raise OverflowError
                known[other] = None
                waiting.append(other)


def _of_all(text: str) -> str:
    from hooksdk._masking.escapes import unescaped  # with the first arguments that are searched for a value

    return [text, *unescaped(text, 1)][-1]


def _of_mail(text: str) -> str:
    raw = text.encode("utf-8", "surrogatepass")
    return quopri.decodestring(raw).decode("utf-8", "replace") if b"=" in raw else text


def _bare(text: str) -> str:
    """The words of a text, as they are alike in any case, form of Unicode and punctuation: more alike than for a
    search, since a tool may change all of that in what it repeats."""
    if not text.isascii():
        text = _without_marks(_without_marks(text).upper().casefold())
    return " ".join(_WORD.findall(text.lower()))


def _without_marks(text: str) -> str:
    text = unicodedata.normalize("NFKD", text)
    return text.translate(
        {ord(char): None for char in set(text) if unicodedata.category(char) in {"Mn", "Mc", "Me", "Cf"}}
    )
