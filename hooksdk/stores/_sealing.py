"""How texts are stored: as they are, unless the operator gives a key (`_keys.py`)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Protocol, final

from hooksdk.errors import StoreError
from hooksdk.stores._hashes import tag_of

# The beginning of an encrypted text: the name of its key.
SEALED = re.compile(r"~([0-9a-f]{8}):")


class Seal(Protocol):
    """How texts are stored.

    Attributes:
        key_id: The name of the key of new texts; empty where none is encrypted.
    """

    key_id: str

    def close(self, text: str, *place: object) -> str:
        """The text as it is stored in this place."""
        ...

    def open(self, stored: str, *place: object) -> str:
        """The text that was stored in this place. Raises `StoreError`."""
        ...

    def tag(self, text: str) -> bytes:
        """A tag of any text as a key of an index."""
        ...


@final
class Plain:
    """No encryption."""

    key_id = ""

    def close(self, text: str, *_place: object) -> str:
        """The text itself."""
        return text

    def open(self, stored: str, *place: object) -> str:
        """The text itself. Raises `StoreError` for one that is encrypted."""
        if found := SEALED.match(stored):
            raise no_key(found[1], place)
        return stored

    def tag(self, text: str) -> bytes:
        """The hash of the text."""
        return tag_of(text)


PLAIN = Plain()


def no_key(key_id: str, place: Sequence[object]) -> StoreError:
    """The error for a text of a key that is not given."""
    advice = "Give that key, too: [sessions] key in the configuration, or HOOKSDK_SESSIONS_KEY"
    return StoreError(
        ", ".join(map(str, place)), f"this is encrypted with the key {key_id}, which is not among those given. {advice}"
    )
