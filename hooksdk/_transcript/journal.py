"""A session's state, computed from its messages and its journal. Pure: no file, no clock, nothing awaited; the same
input gives the same bytes.

Both sequences only ever grow. Every journal entry says in `m` how many messages were stored when it was written, so a
replay applies both in their original order, and a ledger that is rebuilt equals the one that was in memory.

The kinds of entries, with their fields:

- format: name; model and folder of the first run, where it has them
- staged: call `[id, name, arguments]`, reply and order (which call; order null: not recorded yet), result, disposable,
  ran (the real tool, where the call names a bridge), said (`answer_hash`, once the result is among the messages and its
  text was left out here), labels (where they are not `untrusted` alone)
- answered: reply, order, disposable, ran, said (`answer_hash`, if the message reads otherwise), labels (as of
  `staged`): the message follows
- loaded, labelled: results: so many of the first come from elsewhere, without labels; `[number, labels]` of those that
  got some since
- dropped: staged results whose calls were never recorded are given up
- trim, restore: n, handle, at `{position, call_id, occurrence, hash}`, text (of a trim), owner, reason
- drain: done `[[n, status], ...]`: one entry applies everything that was queued
- compact: base (messages, and positions of stored ones that stay), upto (stored messages that the base stands for),
  hash (of the last of these)
- began: effect (its id, the same whenever the call is made again), call `[id, name]`, tool, digest of the arguments,
  arguments (for a person), reply (its number) and order, and run, or parent: the call runs from here on
- done: effects that have ended without a result among the messages, such as those of nested calls
- doubt: effects whose calls are closed without their end being known
- lost: effects of calls that have ended, and whose reply the list of the host has lost
- used: what a request used: model, run, family (of a sub-agent's), tokens (`costs.Usage` without zeros); m counts the
  reply, too
- chain: why (its hashes began anew), before (the hashes of the newest message and entry until then)
- state: plugin, change (`changes.py`: what is new in it), or state (the whole of it)
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from hooksdk import schema
from hooksdk._tasks.background import logger
from hooksdk._transcript.changes import changed
from hooksdk._transcript.effects import Effects
from hooksdk._transcript.encoding import Entry, is_reason, load_result
from hooksdk._transcript.messages import Messages
from hooksdk._transcript.rows import LOOSE, REPLY, Marks, ResultRow, RowSource
from hooksdk._transcript.turns import Slot, Turns
from hooksdk.calls import ResultInfo, ToolCall
from hooksdk.formats import HasArguments, HasRules, Message, MessageFormat
from hooksdk.formats.sending import call_ids, sendable

if TYPE_CHECKING:
    from hooksdk._transcript.lookup import Lookup

# The name of the digests of what stands in the user's place and no user has written, among the session's states: True
# for what plugins have told the model, False for what a framework has, from whomever.
REASONS: Final = "hooksdk.reasons"


class Ledger(Turns):
    """The state computed from messages and journal entries. Without a format it keeps messages and plugin state
    only.

    Attributes:
        base: The messages of a compaction, in the place of the first `upto`: its own ones, and the positions of stored
            ones.
        trimmed_messages: By position: the shortened messages of the view; None until somebody asks for it.
        tokens_at: By position: the tokens of messages of the view, as far as somebody has asked for them.
        shown_before: By position, for messages of the view: the fingerprints of every other form in which it stood
            there.
        shown_forms: Such fingerprints, with their positions, that the store does not have among its rows.
        requesters: Who asked for its runs, by their ids.
        kept_upto: The beginning of the view when its state was kept.
        void: The number of entries that may have become void since the journal was last checked.
        unlabelled: The number of results at the beginning that were loaded from elsewhere and have no labels yet.
    """

    def __init__(self, message_format: MessageFormat | None, messages: Messages | None = None) -> None:
        super().__init__(message_format, messages)
        self.format_name: str | None = None
        self.requesters: list[str] = []
        self.queue: dict[int, tuple[Entry, ResultRow | None]] = {}
        self.trim_count = 0
        self.base: list[Message | int] = []
        self.kept_by_compaction: frozenset[int] = frozenset()
        self.trimmed_messages: dict[int, Message | None] = {}
        self.tokens_at: dict[int, int] = {}
        self.shown_before: dict[int, set[str]] = {}
        self.shown_forms: list[tuple[str, int]] = []
        self.kept_upto = 0
        self.states: dict[str, dict[str, Any]] = {}
        self.effects = Effects(self)
        self.unlabelled = 0
        self.void = 0
        self._used: list[Entry] = []
        # Where the entries are that were not gone through here.
        self.entries: RowSource | None = None
        self._lookup: Lookup | None = None
        self._unknown: set[str] = set()
        # The ids of the calls in the view, stored and sent, and the number of messages at which they were found.
        self._call_ids: tuple[int, list[tuple[str, str]]] = -1, []

    @classmethod
    def replay(
        cls, messages: Iterable[Message], journal: Iterable[Entry], message_format: MessageFormat | None
    ) -> Ledger:
        """The ledger of stored messages and journal entries."""
        ledger = cls(message_format)
        ledger.go_through(((message, 0) for message in messages), journal)
        return ledger

    def go_through(self, messages: Iterable[tuple[Message, int]], journal: Iterable[Entry]) -> None:
        """Apply stored messages, each with its size, and entries, all after those that were applied before, in the
        order in which they were stored."""
        most, waiting = 0, iter(messages)
        for entry in journal:
            most = max(most, int(entry.get("m", 0)))
            while self.count < most and (stored := next(waiting, None)) is not None:
                self.add(*stored)
            self.apply(entry)
        for stored in waiting:
            self.add(*stored)
        if most > self.count:
            problem = "the journal was written when %d messages were stored, and now there are %d: what it says of lost ones is left out"
            logger.warning(problem, most, self.count)

    @property
    def ends_with_reply(self) -> bool:
        """True when the view ends with a reply whose calls have their results, or with one that made none."""
        places = self.base if self.count == self.upto else [self.count - 1]
        if not places or not all(slot.record for slot in self.slots):
            return False
        last = places[-1]
        return self.rows[last].kind in (REPLY, LOOSE) if isinstance(last, int) else self.need_format().is_reply(last)

    # The journal

    def apply(self, entry: Entry) -> None:
        """Apply a journal entry. Kinds that a newer version writes are ignored."""
        if (step := getattr(self, f"_apply_{entry.get('kind')}", None)) is not None:
            step(entry)
        elif (kind := str(entry.get("kind"))) not in self._unknown:
            self._unknown.add(kind)
            logger.warning("journal entries of kind %r are unknown to this version: kept, not used", kind[:80])

    def _apply_format(self, entry: Entry) -> None:
        self.format_name = self.format_name or str(entry["name"])
        if (requester := entry.get("requester")) and requester not in self.requesters:
            self.requesters = [*self.requesters, str(requester)]

    def _apply_state(self, entry: Entry) -> None:
        name = entry["plugin"]
        self.states[name] = entry["state"] if "state" in entry else changed(self.states.get(name, {}), entry["change"])

    def _apply_used(self, entry: Entry) -> None:
        self._used.append(entry)

    @property
    def used(self) -> list[Entry]:
        """The tokens that requests used, as journal entries; `hooksdk.costs` reads them."""
        return self._used if self.entries is None else self.entries.read_entries("used")

    def _apply_chain(self, _entry: Entry) -> None:
        """Said for whoever reads the journal: nothing changes."""

    def _slot_at(self, entry: Entry) -> Slot | None:
        reply, order = int(entry["reply"]), int(entry["order"])
        return self.slots[order] if reply == self.last_reply and order < len(self.slots) else None

    def _apply_staged(self, entry: Entry) -> None:
        call_id, name, arguments = entry["call"]
        result, marks = load_result(entry["result"]), Marks.of(entry)
        marks.answer_hash = marks.answer_hash or schema.fingerprint(result.text)
        if entry["order"] is None:
            self.orphans.append((ToolCall(call_id, name, arguments), result, marks))
        elif (slot := self._slot_at(entry)) and slot.id == call_id:
            slot.take(result, marks)

    def _apply_answered(self, entry: Entry) -> None:
        if slot := self._slot_at(entry):
            slot.marks = Marks.of(entry)

    def _apply_loaded(self, entry: Entry) -> None:
        self.unlabelled = int(entry["results"])

    def _apply_labelled(self, entry: Entry) -> None:
        self.unlabelled = 0
        for number, labels in entry["results"]:
            place = int(number)
            if 0 <= place < len(self.records):
                self.records.own_marks(self.records[place]).labels = frozenset(map(str, labels))
        self.records.forget_labels()

    def _apply_began(self, entry: Entry) -> None:
        self.effects.begin(entry)

    def _apply_done(self, entry: Entry) -> None:
        self.effects.end(entry["effects"])

    def _apply_doubt(self, entry: Entry) -> None:
        self.effects.doubt(entry["effects"])

    def _apply_dropped(self, _entry: Entry) -> None:
        self.effects.drop()
        self.orphans.clear()

    def _apply_lost(self, entry: Entry) -> None:
        self.effects.lose(entry["effects"])

    def _apply_trim(self, entry: Entry) -> None:
        n, record = int(entry["n"]), self.addressed(entry["at"])
        self.trim_count = max(self.trim_count, n + 1)
        self.queue[n] = entry, record
        if record:
            marks = self.records.own_marks(record)
            marks.queued_entry, marks.missed_trim = entry, None

    _apply_restore = _apply_trim

    def _apply_drain(self, entry: Entry) -> None:
        changed: set[int] = set()
        for n, status in entry["done"]:
            request, record = self.queue.pop(n, ({}, None))
            if by_name := record or self.records.by_handle(str(request.get("handle"))):
                self.records.own_marks(by_name).missed_trim = status if status in {"stale", "gone"} else None
            if record is None:
                continue
            marks = self.records.own_marks(record)
            if marks.queued_entry is request:
                marks.queued_entry = None
            if status == "applied":
                marks.short_text = request["text"] if request["kind"] == "trim" else None
                changed.add(record.position)
        for position in changed:
            self._show(position)

    def _show(self, position: int) -> None:
        message = self._trimmed(position)
        self.trimmed_messages[position] = message
        self.tokens_at.pop(position, None)
        forms = [message]
        if isinstance(self.format, HasRules) and (mended := self.format.mend(message)[0]) is not message:
            forms.append(mended)
        before = self.shown_before.setdefault(position, set())
        for form in map(schema.fingerprint, forms):
            if form not in before:
                before.add(form)
                self.shown_forms.append((form, position))

    def _trimmed(self, position: int) -> Message:
        message, message_format = self.messages[position], self.need_format()
        for record in self.results_at(position):
            if record.short_text is not None:
                message = message_format.replace(message, record.index, record.short_text)
        for index, rows in self.arguments_at(position):
            texts = {row.argument_name: row.short_text for row in rows if row.short_text is not None}
            if texts and isinstance(message_format, HasArguments):
                message = message_format.with_arguments(message, index, texts)
        return message

    def _apply_compact(self, entry: Entry) -> None:
        upto = int(entry["upto"])
        # Messages may have been lost since, by hand or by a backup: then nothing that is still there may be hidden.
        if "hash" in entry and self.last_hash(upto) != entry["hash"]:
            logger.warning(
                "a compaction of %d messages is left out: the last of them is not stored there any more", upto
            )
            return
        before = self.upto
        self.base, self.upto = entry["base"], min(upto, self.count)
        self._call_ids = -1, []
        kept = self.kept_by_compaction = frozenset(place for place in self.base if isinstance(place, int))
        self.messages.pin(kept)
        for known in (self.trimmed_messages, self.tokens_at, self.shown_before):
            for place in [place for place in known if place < self.upto and place not in kept]:
                del known[place]
        # What was out of the view and is in it again may have been trimmed before.
        for place in {*kept, *range(self.upto, before)}:
            if place not in self.trimmed_messages and self._has_trims(place):
                self._show(place)

    def _has_trims(self, position: int) -> bool:
        rows = [*self.results_at(position), *(row for _, rows in self.arguments_at(position) for row in rows)]
        return any(row.short_text is not None for row in rows)

    def last_hash(self, count: int) -> str | None:
        """The fingerprint of the last of the first `count` stored messages; None where there is none."""
        return schema.fingerprint(self.messages[count - 1]) if 0 < count <= self.count else None

    @property
    def lookup(self) -> Lookup:
        """Finds stored messages by what they are."""
        if self._lookup is None:
            from hooksdk._transcript.lookup import Lookup  # most hosts keep no list of their own

            self._lookup = Lookup(self, self.shown_forms, self._is_reason)
        return self._lookup

    def _is_reason(self, text: str) -> bool:
        return is_reason(text, self.states.get(REASONS, {}))

    # Results

    def is_gone(self, record: ResultRow) -> bool:
        """True for a result that a compaction has taken out of the view."""
        return record.position < self.upto and record.position not in self.kept_by_compaction

    def infos(self, *, arguments: bool = False) -> list[ResultInfo]:
        """All results as plugins see them, with `arguments` each after the long arguments of its call."""
        rows = (row for record in self.records for row in (record.with_arguments if arguments else [record]))
        return [self.info(row) for row in rows]

    def info(self, record: ResultRow) -> ResultInfo:
        """One result as plugins see it."""
        from hooksdk._transcript.infos import result_info

        return result_info(self, record, is_gone=self.is_gone(record))

    # The view

    @property
    def places(self) -> list[Message | int]:
        """The parts of the view: positions of stored messages, and messages that a compaction made."""
        return [*self.base, *self.loose_ends.others(self.upto, self.count)]

    def shown(self, *, copied: bool = False) -> Iterator[tuple[Message | int, Message]]:
        """The messages of the view, each with its place. With `copied` they are the caller's own, else the ledger's."""
        for place in self.base:
            message = self.shown_at(place) if isinstance(place, int) else place
            yield place, schema.clone(message) if copied else message
        for place, message in enumerate(self.messages.since(self.upto, copied=copied), self.upto):
            if place in self.loose_ends:
                continue
            if place in self.trimmed_messages:
                shown = self.shown_at(place)
                yield place, schema.clone(shown) if copied else shown
            else:
                yield place, message

    def shown_at(self, position: int) -> Message:
        """The message in the view at the position of a stored one."""
        if position not in self.trimmed_messages:
            return self.messages[position]
        if (trimmed := self.trimmed_messages[position]) is None:
            trimmed = self.trimmed_messages[position] = self._trimmed(position)
        return trimmed

    def trimmed_results(self) -> dict[tuple[str, int], str]:
        """The texts of trimmed results, by the call id and the index among the results of the view with this id."""
        if not self.trimmed_messages:
            return {}
        found: dict[tuple[str, int], str] = {}
        times = Counter[str]()
        for place in self.places:
            results = self.results_at(place) if isinstance(place, int) else self.need_format().results(place)
            for result in results:
                if isinstance(result, ResultRow) and result.short_text is not None:
                    found[result.call_id, times[result.call_id]] = result.short_text
                times[result.call_id] += 1
        return found

    def as_shown(self) -> list[Message]:
        """The messages of the view."""
        return [message for _, message in self.shown()]

    def copies(self) -> list[Message]:
        """Copies of the messages of the view."""
        return [message for _, message in self.shown(copied=True)]

    @property
    def view(self) -> list[Message]:
        """The messages as the model's provider takes them. They are the ledger's own: copy them before handing them
        out."""
        return sendable(self.as_shown(), self.format) if self.format else self.as_shown()

    def stored_ids(self, newest: int | None = None) -> Mapping[str, str]:
        """The stored ids of calls that are sent under other ids, by the sent ids; of the `newest` calls alone, if
        given."""
        if self._call_ids[0] != self.count:
            self._call_ids = self.count, call_ids(self.as_shown(), self.need_format())
        pairs = self._call_ids[1] if newest is None else self._call_ids[1][-newest:]
        return {sent: call_id for call_id, sent in pairs if sent != call_id}

    def stored_call(self, call: ToolCall) -> ToolCall:
        """A host's call under its stored id, where it is a call of the newest reply under the sent id."""
        made = {slot.id for slot in self.slots}
        if not made or call.id in made or call.origin != "model":
            return call
        stored = self.stored_ids(len(self.slots)).get(call.id)
        return call if stored is None else ToolCall(stored, call.name, call.arguments)

    def with_stored_ids(self, message: Message, newest: int | None = None) -> Message:
        """A host's message with stored ids in the place of sent ones; of the `newest` calls alone, if given."""
        message_format = self.need_format()
        if not isinstance(message_format, HasRules) or not (renamed := self.stored_ids(newest)):
            return message
        calls = message_format.calls(message) if message_format.is_reply(message) else ()
        ids = [call.id for call in calls] or [result.call_id for result in message_format.results(message)]
        stored = [renamed.get(each, each) for each in ids]
        return message if stored == ids else message_format.with_call_ids(message, stored)
