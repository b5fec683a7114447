"""What an entry says of how to sign in to its server, as clients write it."""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, cast
from urllib.parse import urlsplit

from hooksdk.errors import did_you_mean

CALLBACK_PATH = "/callback"
_KEYS = {
    "clientId": "text",
    "clientSecret": "text",
    "callbackPort": "a port of this machine, such as 8787",
    "redirectUri": "an address of this machine, such as http://localhost:8787/callback",
    "scopes": 'a list of texts such as ["read"], or one text with blanks between',
    "authServerMetadataUrl": "an address that begins with https://",
}


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
        client_id=client_id, client_secret=secret, callback_port=_port(values.get("callbackPort")),
        redirect_uri=_redirect(text("redirectUri")), scopes=_scopes(values.get("scopes"), fill),
        metadata_url=_metadata_url(text("authServerMetadataUrl")),
    )  # fmt: skip


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
