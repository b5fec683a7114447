"""Encryption of what is stored, where the operator gives a key: AES-256-GCM, with the place of each text as what is
authenticated beside it, so that none can be moved to another place.

Session ids, plugins' names, the keys of values, kinds, times, sizes and counts stay in clear; bodies do not. Hashes go
over what is stored, and tags are keyed, so neither tells whether a guessed text is there.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import os
import re
from collections.abc import Sequence
from typing import Any, final

from hooksdk.errors import ConfigError, StoreError
from hooksdk.stores._hashes import tag_of
from hooksdk.stores._sealing import SEALED, no_key

# Bytes of the number that AES-GCM uses once.
NONCE_BYTES = 12
# The variable that holds the keys where the configuration names no other place.
VARIABLE = "HOOKSDK_SESSIONS_KEY"


@final
class Sealed:
    """Encryption with the first of some keys. Texts of the others, and plain ones, can be read."""

    def __init__(self, keys: Sequence[bytes]) -> None:
        try:
            from cryptography.hazmat.primitives.ciphers.aead import AESGCM
        except ImportError:
            problem = "encrypted sessions need cryptography: pip install 'hooksdk[audit]'"
            raise ConfigError("sessions.key", (problem,)) from None
        self._ciphers: dict[str, Any] = {key_id_of(key): AESGCM(key) for key in keys}
        self.key_id = key_id_of(keys[0])
        self._tag_key = hmac.digest(keys[0], b"hooksdk: tags", "sha256")

    def close(self, text: str, *place: object) -> str:
        """The text, encrypted for this place."""
        nonce = os.urandom(NONCE_BYTES)
        sealed = self._ciphers[self.key_id].encrypt(nonce, text.encode(), _place(place))
        return f"~{self.key_id}:{base64.b64encode(nonce + sealed).decode()}"

    def open(self, stored: str, *place: object) -> str:
        """The text that was stored in this place. Raises `StoreError` for an unknown key, and for a changed text."""
        found = SEALED.match(stored)
        if found is None:
            return stored
        cipher = self._ciphers.get(found[1])
        if cipher is None:
            raise no_key(found[1], place)
        from cryptography.exceptions import InvalidTag

        try:
            sealed = base64.b64decode(stored[found.end() :], validate=True)
            return cipher.decrypt(sealed[:NONCE_BYTES], sealed[NONCE_BYTES:], _place(place)).decode()
        except (InvalidTag, ValueError) as error:
            raise StoreError(
                _shown(place), "this text was changed after it was encrypted. Nothing was changed"
            ) from error

    def tag(self, text: str) -> bytes:
        """The keyed hash of the text."""
        return hmac.digest(self._tag_key, tag_of(text), "sha256")[:16]


def keys_for(source: str | None) -> list[bytes]:
    """The keys that `env:NAME` or `keyring:NAME` names; without a source those of HOOKSDK_SESSIONS_KEY, if it is set.
    Raises `ConfigError`."""
    if source is None:
        text = os.environ.get(VARIABLE, "")
        return read_keys(text, f"the variable {VARIABLE}") if text.strip() else []
    kind, _, name = source.partition(":")
    if kind == "env":
        text, where = os.environ.get(name, ""), f"the variable {name}"
    else:
        try:
            import keyring

            text = keyring.get_password("hooksdk sessions", name) or ""
        except Exception as error:
            raise ConfigError("sessions.key", (f"the system's keyring cannot be read: {error}",)) from error
        where = f"the keyring's entry '{name}' of the service 'hooksdk sessions'"
    if not text.strip():
        raise ConfigError("sessions.key", (f"{where} is not set, so no session can be read or written",))
    return read_keys(text, where)


def read_keys(text: str, where: str) -> list[bytes]:
    """The keys in a text: 64 hexadecimal digits each, blanks or commas between them. Raises `ConfigError`, which names
    where the text stands and shows nothing of it."""
    words = re.split(r"[\s,]+", text.strip())
    if not all(re.fullmatch(r"[0-9a-fA-F]{64}", word) for word in words):
        problem = f"{where} must hold 64 hexadecimal digits (32 bytes), or several such keys with commas between them"
        raise ConfigError(
            "sessions.key", (f"{problem}. `python -c 'import secrets; print(secrets.token_hex(32))'` makes one",)
        )
    return list(map(bytes.fromhex, words))


def key_id_of(key: bytes) -> str:
    """The name of a key, which tells nothing of it."""
    return hashlib.sha256(b"hooksdk: key id" + key).hexdigest()[:8]


def _place(place: Sequence[object]) -> bytes:
    return "\0".join(map(str, place)).encode("utf-8", "surrogatepass")


def _shown(place: Sequence[object]) -> str:
    return ", ".join(map(str, place))
