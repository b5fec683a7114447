"""Reading a session: its ledger from what the store gives, and the rows and the state that make the next reading
short."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence

import anyio

from hooksdk._tasks.background import logger
from hooksdk._tasks.limits import describe, in_thread
from hooksdk._transcript.encoding import Entry, encode
from hooksdk._transcript.journal import Ledger
from hooksdk._transcript.messages import Messages, MessageSource
from hooksdk._transcript.rows import ROWS_VERSION
from hooksdk._transcript.storage import (
    LazyLog,
    RewritableLog,
    RowLog,
    SessionLog,
    SessionState,
    Store,
    as_store_errors,
)
from hooksdk.errors import HookSDKError, StoreError
from hooksdk.formats import FORMATS, Message, MessageFormat, get_format

# The number of entries that later ones make void, after which the journal of an open session is checked for void ones:
# about as many as make a new file worth its cost.
MANY_VOID = 2000


async def read_ledger(
    log: SessionLog, session_id: str, message_format: MessageFormat | None, *, whole: bool = False
) -> tuple[Ledger, list[Entry] | None]:
    """The ledger of what is stored, and its journal where that was read `whole`, as it is where the log keeps no rows.
    The format is the one that the journal names, where none is given."""
    where = f"session '{session_id}'"
    try:
        if isinstance(log, RowLog) and not whole:
            with as_store_errors(where):
                stored = await log.read_state()
            ledger = await in_thread(_restore, log, stored, message_format) if stored else None
            if ledger is not None and ledger.void < MANY_VOID:
                return ledger, None
        if isinstance(log, LazyLog):
            with as_store_errors(where):
                source, lines, journal = await log.read_encoded()
            return await in_thread(_replay, source, lines, journal, message_format), journal
        with as_store_errors(where):
            messages, journal = await log.read()
        return await in_thread(Ledger.replay, messages, journal, message_format or _format_in(journal)), journal
    except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
        problem = f"the journal cannot be understood ({type(error).__name__}: {error}); nothing was changed"
        raise StoreError(where, problem) from error


def _replay(
    source: MessageSource, lines: Sequence[bytes], journal: list[Entry], message_format: MessageFormat | None
) -> Ledger:
    ledger = Ledger(message_format or _format_in(journal), Messages(source))
    ledger.go_through(_parsed(lines), journal)
    return ledger


def _restore(log: RowLog, stored: SessionState, message_format: MessageFormat | None) -> Ledger | None:
    """The ledger by its rows; None where they are of no use to this version or this format."""
    from hooksdk._transcript.keeping import restore  # a store in memory keeps no state

    try:
        state = json.loads(stored.state)
        form = get_format(state["format"]) if state["format"] in FORMATS else None
        if state["version"] != ROWS_VERSION or form is None or not _is_ours(message_format or form):
            return None
        messages = Messages(log, stored.known - len(stored.recent))
        for message, size in _parsed(stored.recent):
            messages.append(message, size)
        ledger = restore(state, stored.known, message_format or form, messages, log)
    except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
        logger.warning("a kept state is made anew, since it cannot be understood (%s)", describe(error))
        return None
    ledger.go_through(_parsed(stored.messages), stored.journal)
    return ledger


def _parsed(lines: Sequence[bytes]) -> Iterator[tuple[Message, int]]:
    return ((json.loads(line.decode()), len(line)) for line in lines)


async def keep_state(log: RowLog | None, ledger: Ledger) -> None:
    """Let the log keep what the next opening needs, if it can and that is worth it."""
    if log is None:
        return
    is_long_ago = ledger.upto > ledger.kept_upto and ledger.rows.stored  # the next opening would read an older view
    if not (log.state_is_due or is_long_ago) or not _is_ours(ledger.format):
        return
    from hooksdk._transcript.keeping import note_stored, state_of, unstored

    state = state_of(ledger)
    if state is None:
        return
    body = encode({"version": ROWS_VERSION, "format": ledger.need_format().name, **state}).decode()
    count, results = ledger.count, len(ledger.records)
    anew = not ledger.rows.stored
    try:
        rows = await in_thread(lambda: [*unstored(ledger)])
        with as_store_errors("the rows"):
            await log.keep_state(body, rows, known=count, upto=ledger.upto, anew=anew)
        note_stored(ledger, count, results, log)
    except HookSDKError as error:
        logger.warning("what a session knows of its messages was not kept: %s", error)


async def shorten_journal(session_id: str, log: SessionLog, journal: list[Entry] | None, ledger: Ledger) -> None:
    """Store a journal that is mostly void anew, where the store can do that."""
    if not isinstance(log, RewritableLog) or not ledger.format or journal is None:
        return
    from hooksdk._transcript.rewriting import shorter_journal

    ledger.void = 0
    shorter = await in_thread(shorter_journal, journal, ledger)
    if shorter is not None:
        try:
            with as_store_errors(f"session '{session_id}'"):
                await log.rewrite_journal(shorter)
        except StoreError as error:
            logger.warning("the journal of session %r stays longer than it need be: %s", session_id, error)


def _format_in(journal: list[Entry]) -> MessageFormat | None:
    """The format that a journal names; None where it names none, or a host's own."""
    name = next((str(entry.get("name")) for entry in journal if entry.get("kind") == "format"), None)
    return get_format(name) if name in FORMATS else None


def _is_ours(message_format: MessageFormat | None) -> bool:
    """A host's own format may say something else of the same messages tomorrow."""
    name = message_format.name if message_format else None
    return name in FORMATS and type(message_format) is type(get_format(name))


# Seconds before another attempt to read a session: a busy database may refuse one read, and nobody is asked about calls
# in doubt that were not read.
PAUSES = (0.1, 0.5, 2.0)


async def ledger_of(store: Store, session_id: str) -> Ledger:
    """The ledger of a stored session, whoever has it open, in the format that its journal names.

    A read that fails is tried again three times, within some seconds. Raises `StoreError`, and what a journal causes
    that cannot be understood, such as `KeyError` and `TypeError`.
    """
    messages, journal = await _read(store, session_id)
    return await in_thread(Ledger.replay, messages, journal, _format_in(journal) or get_format("openai-chat"))


async def _read(store: Store, session_id: str) -> tuple[list[Message], list[Entry]]:
    for pause in PAUSES:
        try:
            return await store.read_session(session_id)
        except StoreError:
            if not await store.session_exists(session_id):
                raise
            await anyio.sleep(pause)
    return await store.read_session(session_id)
