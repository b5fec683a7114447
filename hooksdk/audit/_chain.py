"""The form of a chain: records as lines of JSON, each with the SHA-256 of the line before, and signed.

A line is one object in ASCII whose last key is `signature`: Ed25519, in base64, over all that stands before it and a
closing brace. The hash of a record is of its whole line without the line's end, so it covers the signature, too.
Reading needs no package; signing and verifying need `cryptography`. The key is made on first use, in a file that only
its user can read.
"""

from __future__ import annotations

import base64
import binascii
import contextlib
import hashlib
import json
import os
import re
import stat
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from hooksdk.errors import ConfigError, HookSDKError
from hooksdk.stores.files import sync_directory
from hooksdk.values import clip, is_object

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

# The version of the records' form, in the records that begin a chain or a file.
SCHEMA = 1
# The hash before the first record.
NO_HASH = "0" * 64
# The kind of the first record of a chain.
CHAIN_BEGUN = "chain_begun"
# The kind of the first record of each further file.
FILE_BEGUN = "file_begun"
# The kind of the record that names the files which `keep` removes, written before that.
FILES_REMOVED = "files_removed"
# The kind of the record after an unfinished line.
LINE_TORN = "line_torn"
_PREFIX = "ed25519:"
_MARK = b',"signature":"'
# Characters of 64 bytes in base64.
_SIGNATURE = 88
_END = len(_MARK) + _SIGNATURE + 2


class NoCryptography(HookSDKError):
    """Signing and verifying need the package `cryptography`."""

    def __init__(self) -> None:
        super().__init__("audit needs cryptography: pip install 'hooksdk[audit]'")


class Signer(Protocol):
    """A private key of `cryptography`."""

    def sign(self, data: bytes, /) -> bytes:
        """64 bytes of Ed25519."""
        ...


@dataclass(frozen=True, slots=True)
class Head:
    """The number and the hash of a record, which fix the chain up to it. As text `NUMBER:HASH`."""

    number: int
    hash: str

    def __str__(self) -> str:
        return f"{self.number}:{self.hash}"

    @classmethod
    def of(cls, text: str) -> Head:
        """The head from its text. Raises `ConfigError`."""
        match = re.fullmatch(r"\s*([1-9]\d{0,17}):([0-9a-fA-F]{64})\s*", text)
        if match is None:
            problem = f"{clip(repr(text), 120)} is no head: expected NUMBER:HASH with 64 hex digits, as `hooksdk audit head` prints"
            raise ConfigError("head", (problem,))
        return cls(int(match[1]), match[2].lower())


@dataclass(frozen=True, slots=True)
class ChainRecord:
    """One record as it was read, not verified yet.

    Attributes:
        number: Its place in the chain, from 1.
        previous: The hash of the record before.
        fields: All fields but the signature.
        signed: The bytes that the signature covers.
    """

    number: int
    previous: str
    kind: str
    fields: Mapping[str, Any]
    signed: bytes
    signature: bytes
    hash: str
    line: bytes

    @property
    def head(self) -> Head:
        """The chain up to this record."""
        return Head(self.number, self.hash)

    @property
    def written(self) -> float:
        """When it was written, in seconds since the epoch; 0 if it does not say that."""
        return _seconds(self.fields.get("time"))

    @property
    def happened(self) -> float:
        """When the recorded event happened, a little before."""
        return _seconds(self.fields.get("happened")) or self.written


def _seconds(value: object) -> float:
    return float(value) if isinstance(value, (int, float)) and 0 <= value < 1e11 else 0.0


def hash_of(line: bytes) -> str:
    """The SHA-256 of a line without its end, in hex."""
    return hashlib.sha256(line).hexdigest()


def seal(fields: Mapping[str, Any], signer: Signer) -> bytes:
    """A record as a signed line, without the line's end. Raises `ValueError` and `TypeError` for fields that are no
    JSON."""
    signed = json.dumps(fields, separators=(",", ":"), allow_nan=False).encode("ascii")
    return signed[:-1] + _MARK + base64.b64encode(signer.sign(signed)) + b'"}'


def parse_line(line: bytes) -> ChainRecord | None:
    """The record in a line without its end, or None."""
    signed, end = line[:-_END] + b"}", line[-_END:]
    try:
        signature = base64.b64decode(end[len(_MARK) : -2], validate=True)
        fields: object = json.loads(signed)
    except (binascii.Error, ValueError, RecursionError):
        return None
    # Other texts in base64 may mean the same bytes; only the form that is written counts.
    if end != _MARK + base64.b64encode(signature) + b'"}' or not is_object(fields):
        return None
    number, previous, kind = fields.get("n"), fields.get("prev"), fields.get("kind")
    if type(number) is not int or number < 1 or not isinstance(previous, str) or not isinstance(kind, str):
        return None
    return ChainRecord(number, previous, kind, fields, signed, signature, hash_of(line), line)


def written_lines(path: Path) -> Iterator[tuple[bytes, bool]]:
    """Each line of a file without its end, and whether it has one. Raises `OSError`."""
    with path.open("rb") as file:
        for line in file:
            yield line.removesuffix(b"\n"), line.endswith(b"\n")


def read_records(path: Path) -> Iterator[ChainRecord]:
    """The records of a file, not verified; other lines are left out. Raises `OSError`."""
    for line, _ in written_lines(path):
        if (record := parse_line(line)) is not None:
            yield record


def numbered_files(path: Path) -> list[Path]:
    """The older files of the chain at `path`, the oldest first: `audit.00001.jsonl` beside `audit.jsonl`."""
    form = re.compile(rf"{re.escape(path.stem)}\.(\d{{5,}}){re.escape(path.suffix)}")
    try:
        names = [(int(match[1]), one) for one in path.parent.iterdir() if (match := form.fullmatch(one.name))]
    except FileNotFoundError:
        return []
    return [one for _, one in sorted(names)]


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
