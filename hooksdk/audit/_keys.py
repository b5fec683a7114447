"""The key of a chain: made on first use, in a file that only its user can read, and its public half as text."""

from __future__ import annotations

import base64
import binascii
import contextlib
import os
import stat
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from hooksdk.audit._chain import ChainRecord
from hooksdk.errors import ConfigError, HookSDKError
from hooksdk.stores.files import sync_directory
from hooksdk.values import clip

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

_PREFIX = "ed25519:"


class NoCryptography(HookSDKError):
    """Signing and verifying need the package `cryptography`."""

    def __init__(self) -> None:
        super().__init__("audit needs cryptography: pip install 'hooksdk[audit]'")


def load_key(path: Path, *, make: bool = True) -> tuple[Ed25519PrivateKey, bool]:
    """The private key, and whether it was made just now; its public half is then beside it, as `NAME.pub`. Raises
    `ConfigError` for a key that cannot be read or that others can read, and for a missing one if `make` is False;
    `NoCryptography`."""
    try:
        from cryptography.hazmat.primitives import serialization
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    except ModuleNotFoundError as missing:
        raise NoCryptography from missing
    is_new = False
    try:
        if make and not path.exists():
            key = Ed25519PrivateKey.generate()
            form = serialization.PrivateFormat.PKCS8
            pem = key.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption())
            is_new = _put(path, pem)
            if is_new:
                path.with_suffix(".pub").write_text(f"{public_text(key.public_key())}\n", "utf-8")
        content = path.read_bytes()
        mode = stat.S_IMODE(path.stat().st_mode)
    except FileNotFoundError:
        raise ConfigError(str(path), ("there is no key: the plugin audit makes it when it first writes",)) from None
    except OSError as error:
        raise ConfigError(str(path), (f"the key cannot be read or made: {error.strerror}",)) from None
    if sys.platform != "win32" and mode & 0o077:
        raise ConfigError(str(path), (f"others can read this key (mode {mode:04o}): chmod 600 {path}",))
    try:
        key = serialization.load_pem_private_key(content, None)
    except (ValueError, TypeError) as error:
        raise ConfigError(str(path), (f"this is no private key in PEM without a password: {error}",)) from None
    if not isinstance(key, Ed25519PrivateKey):
        raise ConfigError(str(path), ("this is no key of Ed25519. Name another file, and one is made",))
    return key, is_new


def _put(path: Path, content: bytes) -> bool:
    """Write the whole file. False if another process was faster."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    beside = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    with contextlib.suppress(FileNotFoundError):
        beside.unlink()
    fd = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), 0o600)
    try:
        with os.fdopen(fd, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        try:
            path.hardlink_to(beside)
        except FileExistsError:
            return False
        except OSError:  # no hard links here
            beside.rename(path)
        sync_directory(path.parent)
    finally:
        beside.unlink(missing_ok=True)
    return True


def public_text(key: Ed25519PublicKey) -> str:
    """A public key as one word: `ed25519:` and its 32 bytes in base64."""
    return f"{_PREFIX}{base64.b64encode(key.public_bytes_raw()).decode()}"


def read_public_key(text: str) -> Ed25519PublicKey:
    """The public key from its text, or from the file of this name. Raises `ConfigError`, which quotes no private key,
    and `NoCryptography`."""
    try:
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
    except ModuleNotFoundError as missing:
        raise NoCryptography from missing
    word = text.strip()
    if not word.startswith(_PREFIX):
        try:
            word = Path(word).expanduser().read_text("utf-8").strip()
        except (OSError, ValueError, RuntimeError):  # the last for `~name` of an unknown user
            problem = f"{clip(repr(text), 120)} is neither a key (`{_PREFIX}...`, as `hooksdk audit key` prints it) nor a file with one"
            raise ConfigError("key", (problem,)) from None
    if "PRIVATE KEY-----" in word:
        problem = "this is a private key: expected the public one, which is beside it as NAME.pub"
        raise ConfigError("key", (problem,))
    try:
        return Ed25519PublicKey.from_public_bytes(base64.b64decode(word.removeprefix(_PREFIX), validate=True))
    except (ValueError, binascii.Error):
        problem = f"{clip(repr(word), 120)} is no public key: expected {_PREFIX} and 44 characters"
        raise ConfigError("key", (problem,)) from None


def is_genuine(key: Ed25519PublicKey, record: ChainRecord) -> bool:
    """True if the private half of this key has signed the record as it is."""
    from cryptography.exceptions import InvalidSignature

    try:
        key.verify(record.signature, record.signed)
    except InvalidSignature:
        return False
    return True
