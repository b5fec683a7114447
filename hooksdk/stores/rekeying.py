"""Encrypting a database anew: with the first of its store's keys, whatever encrypted it before."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import TYPE_CHECKING, Any

from hooksdk.errors import ConfigError, SessionBusy, StoreError
from hooksdk.stores._values import value_in, with_body, write_value

if TYPE_CHECKING:
    from hooksdk.stores._transaction import Transaction
    from hooksdk.stores.sql import SqlStore

__all__ = ["rekey"]

OTHER_VALUES = "SELECT space, key FROM hooksdk_values WHERE body NOT LIKE :prefix LIMIT :limit"
# Values that are encrypted anew in one transaction.
VALUES_AT_ONCE = 100


async def rekey(store: SqlStore) -> AsyncGenerator[tuple[str, str]]:
    """Encrypt everything anew with the first key, a session at a time: yields each session's id, and `encrypted`,
    `unchanged`, or why it stays as it is. Raises `ConfigError` without a key."""
    seal = store.seal
    if not seal.key_id:
        raise ConfigError("sessions.key", ("there is no key to encrypt with",))

    def rekey_values(transaction: Transaction) -> int:
        row = {"prefix": f"~{seal.key_id}:%", "limit": VALUES_AT_ONCE}
        found = transaction.execute(OTHER_VALUES, row).fetchall()
        for space, key in found:
            place: dict[str, Any] = {"space": space, "key": key}
            text, old = value_in(transaction, place, seal, alone=True)
            write_value(transaction, with_body(place, text or "null", seal), old)
        return len(found)

    for session_id in await store.list_sessions():
        try:
            log = await store.open_session(session_id, wait=0)
            try:
                yield session_id, "encrypted" if await log.rekey() else "unchanged"
            finally:
                await log.close()
        except (SessionBusy, StoreError) as error:
            yield session_id, str(error)
    while await store.database.transaction(rekey_values):
        pass
