"""Tickets: signed texts that a client sends back with its answer, each for one record, one holder and one answer."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import secrets
from typing import Any, final

from hooksdk.desk._record import ApprovalRecord
from hooksdk.desk._records import ApprovalRecords, IsOver, says
from hooksdk.values import canonical

__all__ = ["TicketRefused", "Tickets"]


class TicketRefused(ValueError):
    """A ticket does not count. The text says why."""


@final
class Tickets:
    """The tickets for the questions of a store, signed with its key. `holder` is the client that a ticket was given
    to."""

    def __init__(self, records: ApprovalRecords) -> None:
        self._records = records

    async def issue(self, record: ApprovalRecord, holder: str) -> str:
        """A ticket for this record; earlier ones count no longer. Raises `StoreError`."""
        nonce = secrets.token_hex(16)
        await self._records.set_ticket(record.number, nonce)
        claims = canonical([record.number, record.digest, holder, record.expires, nonce]).encode()
        return f"{_encoded(claims)}.{_encoded(self._signature(await self._records.key(), claims))}"

    async def redeem(self, ticket: str, holder: str, *, is_left: IsOver = lambda _holder: False) -> ApprovalRecord:
        """The record that waits for the answer with this ticket, which counts once. A ticket of another holder counts
        if `is_left` says that the holder has left. Raises `TicketRefused` and `StoreError`."""
        try:
            claims, signature = map(_decoded, ticket.split("."))
        except ValueError:
            raise TicketRefused("it is no ticket of ours") from None
        if not hmac.compare_digest(signature, self._signature(await self._records.key(), claims)):
            raise TicketRefused("it is no ticket of ours")
        content: list[Any] = json.loads(claims)
        number, digest, owner, _expires, nonce = content
        if owner != holder and not await says(is_left, owner):
            raise TicketRefused("it was given to another client")
        record = await self._records.take_ticket(number, nonce)
        if record is None or record.digest != digest:
            raise TicketRefused("its question was answered already, was asked anew or has expired")
        return record

    @staticmethod
    def _signature(key: bytes, claims: bytes) -> bytes:
        return hmac.digest(key, b"hooksdk approval\0" + claims, hashlib.sha256)


def _encoded(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def _decoded(text: str) -> bytes:
    """The data of a text as `_encoded` writes it: other spellings would be further tickets."""
    data = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
    if _encoded(data) != text:
        raise ValueError("another spelling")
    return data
