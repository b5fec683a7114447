"""Reading a session: its ledger from what the store gives, and the index that makes the next reading short."""

from __future__ import annotations

from typing import final

import anyio

from hooksdk._tasks.background import logger
from hooksdk._tasks.limits import in_thread
from hooksdk._transcript.encoding import Entry
from hooksdk._transcript.facts import Facts
from hooksdk._transcript.journal import Ledger
from hooksdk._transcript.messages import Messages
from hooksdk._transcript.storage import LazyLog, RewritableLog, SessionLog, Store, as_store_errors
from hooksdk.errors import HookSDKError, StoreError
from hooksdk.formats import FORMATS, Message, MessageFormat, get_format


async def read_ledger(
    log: SessionLog, session_id: str, message_format: MessageFormat | None
) -> tuple[Ledger, list[Entry]]:
    """The ledger of what is stored, and its journal. The format is the one that the journal names, where none is
    given."""
    where, reader = f"session '{session_id}'", _Reader(message_format)
    try:
        if isinstance(log, LazyLog):
            with as_store_errors(where):
                reader.messages.source = await log.read_lazily(reader)
            return await in_thread(reader.ledger), reader.journal
        with as_store_errors(where):
            messages, journal = await log.read()
        return await in_thread(Ledger.replay, messages, journal, message_format or _format_in(journal)), journal
    except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
        problem = f"the journal cannot be understood ({type(error).__name__}: {error}); nothing was changed"
        raise StoreError(where, problem) from error


async def keep_index(log: SessionLog, ledger: Ledger) -> None:
    """Let the log keep the facts about its messages, so that the next reading is short, if that is worth it."""
    if isinstance(log, LazyLog) and log.index_is_due and _is_ours(ledger.format):
        index = await in_thread(ledger.facts.dump)
        try:
            with as_store_errors("the index"):
                await log.keep_index(index, ledger.count)
        except HookSDKError as error:
            logger.debug("no index was kept: %s", error)


async def shorten_journal(session_id: str, log: SessionLog, journal: list[Entry], ledger: Ledger) -> None:
    """Store a journal that is mostly void anew, where the store can do that."""
    if not isinstance(log, RewritableLog) or not ledger.format:
        return
    from hooksdk._transcript.rewriting import shorter_journal

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


@final
class _Reader:
    """Takes what a `LazyLog` shows: the journal, then each message that the index does not know."""

    def __init__(self, message_format: MessageFormat | None) -> None:
        self._given = message_format
        self.begin([], None)

    def begin(self, journal: list[Entry], index: bytes | None) -> int:
        self.journal, self.format = journal, self._given or _format_in(journal)
        facts = Facts.load(index, self.format) if index is not None and _is_ours(self.format) else None
        self.facts = Facts(self.format) if facts is None else facts
        self.messages = Messages(len(self.facts), lazy=True)
        return len(self.facts)

    def take(self, message: Message, size: int) -> None:
        self.facts.add(message)
        self.messages.append(message, size)

    def ledger(self) -> Ledger:
        ledger = Ledger(self.format, self.messages, self.facts)
        ledger.go_through(self.journal)
        return ledger


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
