"""The settings of sign-ins, as clients write them into an entry, and the place of sign-ins: the system's keyring where
there is one that works, else files that only the user reads.

There is one sign-in for each server's address and holder. A file says that there is one, and changes with it, so that
every process of the user notices; with a keyring it holds no secret. Whoever changes a sign-in has its lock.
"""

from __future__ import annotations

import contextlib
import hashlib
import ipaddress
import json
import os
import time
import uuid
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any, cast, final
from urllib.parse import urlsplit, urlunsplit

import anyio
import anyio.to_thread
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from hooksdk.config import state_folder
from hooksdk.errors import HookSDKError, did_you_mean
from hooksdk.mcp._scope import LOCAL
from hooksdk.stores.files import BINARY, replace_file
from hooksdk.stores.locks import lock, unlock

CALLBACK_PATH = "/callback"
_KEYS = {
    "clientId": "text",
    "clientSecret": "text",
    "callbackPort": "a port of this machine, such as 8787",
    "redirectUri": "an address of this machine, such as http://localhost:8787/callback",
    "scopes": 'a list of texts such as ["read"], or one text with blanks between',
    "authServerMetadataUrl": "an address that begins with https://",
}
SERVICE = "hooksdk"
# Seconds between two looks at a lock that somebody else has.
_PAUSE = 0.02
# The priority from which on a keyring's makers recommend it.
_SUITABLE = 1
# Another one says that a sign-in has changed.
Stamp = tuple[int, int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class OAuthSettings:
    """The `oauth` of an entry. Everything in it is optional: a server that lets clients register needs nothing.

    Attributes:
        client_id: The id of a client of one's own; empty: the server is asked to register one.
        callback_port: The port that the browser comes back to; None: any that is free.
        redirect_uri: The whole address that the browser comes back to, where the client was registered with another
            than `http://localhost:PORT/callback`.
        scopes: The rights to ask for; empty: those that the server names.
        metadata_url: Where the authorization server describes itself, in place of looking for it.
    """

    client_id: str = ""
    client_secret: str = field(default="", repr=False)
    callback_port: int | None = None
    redirect_uri: str = ""
    scopes: tuple[str, ...] = ()
    metadata_url: str = ""


@dataclass(frozen=True, kw_only=True)
class Target:
    """What is signed in to, and whose sign-in it is."""

    name: str
    server: str
    settings: OAuthSettings
    headers: Mapping[str, str] = field(repr=False)
    holder: str


def read_oauth(value: object, fill: Callable[[str], str]) -> OAuthSettings:
    """The `oauth` of an entry, with its variables filled in. Raises `ValueError` with what is wrong, and no value."""
    if not isinstance(value, Mapping):
        raise ValueError('expected an object such as {"clientId": "..."}')  # noqa: TRY004 - as pydantic wants it
    values = dict(cast("Mapping[str, Any]", value))
    for key in values:
        if key not in _KEYS:
            known = did_you_mean(key, _KEYS) or f" Known: {', '.join(_KEYS)}"
            raise ValueError(f"the key '{key}' is not known here.{known}")

    def text(key: str) -> str:
        one: object = values.get(key, "")
        if not isinstance(one, str) or (key in values and not one.strip()):
            raise ValueError(f"'{key}': expected {_KEYS[key]}")
        return fill(one)

    secret, client_id = text("clientSecret"), text("clientId")
    if secret and not client_id:
        raise ValueError("'clientSecret' belongs to a 'clientId', which is missing")
    return OAuthSettings(
        client_id=client_id,
        client_secret=secret,
        callback_port=_port(values.get("callbackPort")),
        redirect_uri=_redirect(text("redirectUri")),
        scopes=_scopes(values.get("scopes"), fill),
        metadata_url=_metadata_url(text("authServerMetadataUrl")),
    )


def is_loopback(host: str | None) -> bool:
    """True for a name or an address of this machine alone."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host or "").is_loopback
    except ValueError:
        return False


def _port(value: object) -> int | None:
    if value is None:
        return None
    if not isinstance(value, int) or isinstance(value, bool) or not 0 < value < 65_536:
        raise ValueError(f"'callbackPort': expected {_KEYS['callbackPort']}")
    return value


def _scopes(value: object, fill: Callable[[str], str]) -> tuple[str, ...]:
    if isinstance(value, str):
        value = fill(value).split()
    if value is None:
        return ()
    scopes = cast("list[object]", value) if isinstance(value, list) else [None]
    if not all(isinstance(one, str) and one and not one.isspace() for one in scopes):
        raise ValueError(f"'scopes': expected {_KEYS['scopes']}")
    return tuple(fill(cast("str", one)) for one in scopes)


def _redirect(url: str) -> str:
    if url:
        parts = _split(url, "redirectUri")
        if parts.scheme != "http" or not is_loopback(parts.hostname) or not parts.port:
            raise ValueError(f"'redirectUri': expected {_KEYS['redirectUri']}")
    return url


def _metadata_url(url: str) -> str:
    if url:
        parts = _split(url, "authServerMetadataUrl")
        if parts.scheme != "https" and not (parts.scheme == "http" and is_loopback(parts.hostname)):
            raise ValueError(f"'authServerMetadataUrl': expected {_KEYS['authServerMetadataUrl']}")
    return url


def _split(url: str, key: str) -> Any:
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError:
        raise ValueError(f"'{key}': expected {_KEYS[key]}") from None
    return parts


class SignInProblem(HookSDKError):
    """Why a sign-in to a server did not come about, or is not there; the text holds no secret."""


class SignIn(BaseModel):
    """A sign-in to one server. Its `repr` shows no secret.

    Attributes:
        server: The server's address.
        holder: Whose it is: the name of a token of the gateway, or `local`.
        client_auth: How the client shows its secret: `client_secret_basic` or `client_secret_post`.
        own_client: True where the entry or the person gave the client's id; False where the server registered it.
        redirect_uri: What the client was registered with.
        issuer: Which authorization server the client is registered at.
        resource: Which server the tokens are for, as it calls itself.
        access_token: None once the server has taken it back: the person must sign in anew.
        expires: The moment when the access token expires, in seconds since the epoch; None: nobody said.
        scope: The rights that were given.
        wanted_scope: Rights that the server has asked for since.
    """

    model_config = ConfigDict(frozen=True)
    server: str = Field(repr=False)
    holder: str = LOCAL
    client_id: str
    client_secret: str | None = Field(default=None, repr=False)
    client_auth: str | None = None
    own_client: bool = False
    redirect_uri: str
    issuer: str | None = None
    token_endpoint: str
    revocation_endpoint: str | None = None
    resource: str | None = None
    access_token: str | None = Field(default=None, repr=False)
    refresh_token: str | None = Field(default=None, repr=False)
    expires: float | None = None
    scope: str | None = None
    wanted_scope: str | None = None


@dataclass(eq=False)
class SignInPage:
    """A page on which a person signs in to a server. The browser comes back to a listener on this machine.

    Attributes:
        server: What the server is called.
        over: Set once nobody waits for it any more.
    """

    server: str
    url: str = field(repr=False)
    id: str = field(default_factory=lambda: uuid.uuid4().hex)
    over: anyio.Event = field(default_factory=anyio.Event)
    signed_in: bool = False


@final
class SignIns:
    """The sign-ins of this user, in `folder`; by default in the user's state folder. `clock` is compared with the times
    at which tokens expire."""

    def __init__(self, folder: str | os.PathLike[str] | None = None, *, clock: Callable[[], float] = time.time) -> None:
        self._folder = None if folder is None else Path(folder)
        self.clock = clock

    @property
    def folder(self) -> Path:
        """Where the files are."""
        return self._folder or state_folder() / "sign-ins"

    def stamp(self, server: str, holder: str = LOCAL) -> Stamp | None:
        """A value that changes whenever the sign-in does, in whichever process; None where there is none. Costs one look at
        a file."""
        try:
            found = self._path(server, holder).stat()
        except OSError:
            return None
        return found.st_mtime_ns, found.st_size, found.st_ino

    async def read(self, server: str, holder: str = LOCAL) -> SignIn | None:
        """The sign-in; None where there is none. Raises `SignInProblem` for one that cannot be read."""
        path = self._path(server, holder)
        try:
            data: dict[str, Any] = json.loads(path.read_bytes())
            if data.get("in") == "keyring":
                text = await anyio.to_thread.run_sync(_from_keyring, _user(server, holder))
                return None if text is None else SignIn.model_validate_json(text)
            return SignIn.model_validate(data["sign_in"])
        except FileNotFoundError:
            return None
        except (OSError, ValidationError, ValueError, KeyError, TypeError, AttributeError):
            raise SignInProblem(f"the sign-in kept in {path} cannot be read; sign in anew") from None

    async def write(self, sign_in: SignIn) -> None:
        """Keep it. Whoever writes has the lock. Raises `StoreError` where the disk does not take it."""
        path = self._path(sign_in.server, sign_in.holder)
        text = sign_in.model_dump_json()
        user = _user(sign_in.server, sign_in.holder)
        in_keyring = await anyio.to_thread.run_sync(_to_keyring, user, text)
        data: dict[str, Any] = {"schema": 1, "server": _place(sign_in.server), "holder": sign_in.holder}
        if in_keyring:
            data |= {"in": "keyring", "changed": time.time()}
        else:
            data |= {"in": "file", "sign_in": sign_in.model_dump()}
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        await anyio.to_thread.run_sync(replace_file, path, json.dumps(data).encode())

    async def remove(self, server: str, holder: str = LOCAL) -> bool:
        """Forget it; True if there was one. Whoever removes one has the lock."""
        path = self._path(server, holder)
        there = path.exists()
        path.unlink(missing_ok=True)
        await anyio.to_thread.run_sync(_out_of_keyring, _user(server, holder))
        return there

    @asynccontextmanager
    async def locked(self, server: str, holder: str = LOCAL) -> AsyncGenerator[None]:
        """Hold the lock of one sign-in, among all processes of this user; another holder's end is waited for. The system
        releases it with the process."""
        path = self._path(server, holder).with_suffix(".lock")
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        fd = os.open(path, os.O_RDWR | os.O_CREAT | BINARY, 0o600)
        try:
            while not lock(fd):  # noqa: ASYNC110 - another process's lock sets no event
                await anyio.sleep(_PAUSE)
            try:
                yield
            finally:
                unlock(fd)
        finally:
            os.close(fd)

    def _path(self, server: str, holder: str) -> Path:
        return self.folder / f"{_digest(server, holder)}.json"


def canonical(server: str) -> str:
    """The address as it is compared: scheme and host in small letters, nothing after a `#`."""
    parts = urlsplit(server)
    return urlunsplit(parts._replace(scheme=parts.scheme.lower(), netloc=parts.netloc.lower(), fragment=""))


def _digest(server: str, holder: str) -> str:
    return hashlib.sha256(f"{canonical(server)}\0{holder}".encode()).hexdigest()[:32]


def _place(server: str) -> str:
    """The address without what it may carry in secret."""
    parts = urlsplit(server)
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))


def _user(server: str, holder: str) -> str:
    """What the keyring calls it: readable, and another one for each."""
    return f"{urlsplit(server).hostname} {holder} {_digest(server, holder)[:12]}"


def _keyring() -> Any:
    """The system's keyring; None where there is none that its makers recommend."""
    if find_spec("keyring") is None:
        return None
    import keyring

    with contextlib.suppress(Exception):  # a backend's own
        backend: Any = keyring.get_keyring()
        if backend.priority >= _SUITABLE:
            return backend
    return None


def _to_keyring(user: str, text: str) -> bool:
    """True once the keyring has it; some take no long texts, others are locked."""
    backend = _keyring()
    if backend is None:
        return False
    try:
        backend.set_password(SERVICE, user, text)
        return backend.get_password(SERVICE, user) == text
    except Exception:
        return False


def _from_keyring(user: str) -> str | None:
    backend = _keyring()
    if backend is None:
        raise SignInProblem("the sign-in is kept in the system's keyring, and there is none here; sign in anew")
    try:
        return backend.get_password(SERVICE, user)
    except Exception as error:
        kind = type(error).__name__
        raise SignInProblem(f"the sign-in is kept in the system's keyring, which cannot be read ({kind})") from None


def _out_of_keyring(user: str) -> None:
    with contextlib.suppress(Exception):  # there may be none
        if (backend := _keyring()) is not None and backend.get_password(SERVICE, user) is not None:
            backend.delete_password(SERVICE, user)
