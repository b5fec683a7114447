"""Which part of a journal still matters. Pure: the store writes the shorter journal, or does not."""

from __future__ import annotations

from collections.abc import Sequence

from hooksdk import schema
from hooksdk._transcript.encoding import Entry, encode
from hooksdk._transcript.journal import Ledger

# Less than that is read faster than a new file is made durable.
MIN_VOID_BYTES = 64 * 1024


def shorter_journal(journal: Sequence[Entry], ledger: Ledger) -> list[Entry] | None:
    """The journal without what later entries made void, when that is most of it; None when it is not worth a new file.
    `ledger` is what the journal's replay gave: the shorter one gives the same.
    """
    if any(int(entry.get("m", 0)) > ledger.count for entry in journal):
        return None  # messages are missing: whoever puts them back needs every entry
    shorter = live_entries(journal, ledger)
    size = sum(len(encode(entry)) for entry in shorter)
    void = sum(len(encode(entry)) for entry in journal) - size
    return shorter if void > max(MIN_VOID_BYTES, size) else None


def live_entries(journal: Sequence[Entry], ledger: Ledger) -> list[Entry]:
    """The entries that still matter, in their order, some of them shorter than they were."""
    settled: set[str] = set()
    live = [_live(entry, ledger, settled) for entry in reversed(journal)]
    return [entry for entry in reversed(live) if entry is not None]


def _live(entry: Entry, ledger: Ledger, settled: set[str]) -> Entry | None:
    """What is left of an entry, seen from the journal's end: itself, a shorter one, or nothing. `settled` names the
    states, and the compaction, that later entries give.
    """
    kind = entry.get("kind")
    if kind == "began":
        begun = ledger.effects.find(entry["effect"])
        return entry if begun is not None and begun.entry is entry else None
    if kind in {"done", "doubt"}:
        effects = [each for each in entry["effects"] if kind == "doubt" and each in ledger.effects.begun]
        return {**entry, "effects": effects} if effects else None
    if kind == "lost":
        return entry if any(each in ledger.effects.lost for each in entry["effects"]) else None
    if kind in {"state", "compact"}:
        name = f"state {entry['plugin']}" if kind == "state" else "compaction"
        if name in settled:
            return None
        if kind == "state":
            settled.add(name)
            entry = {key: value for key, value in entry.items() if key != "change"}
            return {**entry, "state": ledger.states[entry["plugin"]]}
        if entry["base"] is ledger.base:
            settled.add(name)
    elif kind == "staged" and "said" not in entry and not _is_waiting(entry, ledger):
        # The result is among the messages. What the list of results says of it is kept, without its text.
        answer_hash = schema.fingerprint(entry["result"]["text"])
        return {**entry, "result": {"text": "", "is_error": False}, "said": answer_hash}
    return entry


def _is_waiting(entry: Entry, ledger: Ledger) -> bool:
    """True where the result may still be asked for: its call is one of the newest reply, or of one to come."""
    if entry["order"] is not None:
        return entry["reply"] == ledger.last_reply
    return entry["call"][0] in {*(slot.id for slot in ledger.slots), *(orphan[0].id for orphan in ledger.orphans)}
