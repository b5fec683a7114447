"""The gateway's own bearer tokens, and whom a request comes from."""

from __future__ import annotations

import hmac
import logging
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any, Protocol, final

from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
from mcp.server.auth.provider import AccessToken
from starlette.requests import HTTPConnection

from hooksdk.config import FileWatch
from hooksdk.errors import ConfigError
from hooksdk.gateway._settings import GatewayConfig

logger = logging.getLogger("hooksdk")

# Characters that a token has at least: a shorter one can be guessed.
SHORTEST_TOKEN = 16


class Principal(AccessToken):
    """Whom a request comes from.

    Attributes:
        key: Nobody else has it.
        profile: The profile that an issuer's token gives; None for the gateway's own tokens, whose profile the
            configuration says.
    """

    key: str
    profile: str | None = None

    @property
    def name(self) -> str:
        """Who asks, for policies."""
        return self.client_id

    @property
    def issuer(self) -> str | None:
        """Whose token it is; None for the gateway's own."""
        return (self.claims or {}).get("iss")


# Where no token is asked for.
LOCAL = Principal(token="", client_id="local", scopes=[], key="local")


def principal_of(request: HTTPConnection) -> Principal:
    """Whom a request comes from."""
    user = request.scope.get("user")
    token = user.access_token if isinstance(user, AuthenticatedUser) else None
    return token if isinstance(token, Principal) else LOCAL


class Verifier(Protocol):
    """Knows some tokens."""

    async def verify_token(self, token: str) -> AccessToken | None:
        """Whose token it is; None for one that it does not know."""
        ...


@final
class OwnTokens:
    """Knows the configuration's tokens. `catch_up` brings them up to date before each request: what is gone lets
    nobody in."""

    def __init__(self, tokens: Mapping[str, str], catch_up: Callable[[], Awaitable[Any]]) -> None:
        self._tokens = tokens
        self._catch_up = catch_up

    async def verify_token(self, token: str) -> AccessToken | None:
        """Whose token it is; the time that this takes says nothing of the tokens."""
        await self._catch_up()
        given = token.encode("utf-8")
        owners = [name for name, known in self._tokens.items() if hmac.compare_digest(known.encode(), given)]
        return Principal(token="", client_id=owners[0], scopes=[], key=owners[0]) if owners else None


def read_tokens(config: GatewayConfig, environment: Mapping[str, str], folder: Path) -> dict[str, str]:
    """The tokens of the configuration, by name. Raises `ConfigError` for one that is not there, too short, or
    another's."""
    tokens: dict[str, str] = {}
    for name in config.tokens:
        tokens[name] = _read_token(name, config, environment, folder, tokens)
    return tokens


def _reread_tokens(config: GatewayConfig, environment: Mapping[str, str], folder: Path) -> dict[str, str]:
    """Those tokens that can be had now: one whose file is gone or broken lets nobody in, and the log says why."""
    tokens: dict[str, str] = {}
    for name in config.tokens:
        try:
            tokens[name] = _read_token(name, config, environment, folder, tokens)
        except ConfigError as problem:
            logger.warning("the token lets nobody in any more: %s", problem)
    return tokens


@final
class TokenTable:
    """The configuration's tokens as they are now."""

    def __init__(self, config: GatewayConfig, environment: Mapping[str, str], folder: Path) -> None:
        """Raises `ConfigError` for a token that cannot be had."""
        self.by_name: dict[str, str] = {}
        self._environment = environment
        self._folder = folder
        self._files = FileWatch([])
        self.learn(config)
        self._asks = _asks(config, self.by_name)

    def check(self, config: GatewayConfig) -> None:
        """Raises `ConfigError` where clients would need a token from now on, or none any more, and for one that
        cannot be had."""
        if self._asks != _asks(config, read_tokens(config, self._environment, self._folder)):
            problem = "whether clients need a token is settled at the start: start it again"
            raise ConfigError("gateway.tokens", (problem,))

    def learn(self, config: GatewayConfig) -> None:
        """Go by this configuration. Raises `ConfigError` for a token that cannot be had."""
        self._watch(config)
        self._replace(read_tokens(config, self._environment, self._folder))

    def catch_up(self, config: GatewayConfig) -> None:
        """Read the files of tokens where they have changed. One that cannot be had any more lets nobody in."""
        if self._files.changed():
            self._watch(config)
            self._replace(_reread_tokens(config, self._environment, self._folder))

    def _watch(self, config: GatewayConfig) -> None:  # looks before they are read
        self._files = FileWatch(
            [self._folder / Path(token.file).expanduser() for token in config.tokens.values() if token.file]
        )

    def _replace(self, tokens: Mapping[str, str]) -> None:
        self.by_name.clear()
        self.by_name.update(tokens)


def _asks(config: GatewayConfig, tokens: Mapping[str, str]) -> bool:
    return bool(tokens) or config.oidc is not None


def _read_token(
    name: str, config: GatewayConfig, environment: Mapping[str, str], folder: Path, others: Mapping[str, str]
) -> str:
    place = config.tokens[name]
    where = f"the variable {place.env}" if place.env else f"the file {place.file}"
    try:
        text = environment.get(place.env or "", "") if place.env else _read(config, folder, place.file or "")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"gateway.tokens.{name}", (f"{where} cannot be read: {error}",)) from None
    token = text.strip()
    if not token:
        raise ConfigError(f"gateway.tokens.{name}", (f"{where} holds no token",))
    if len(token) < SHORTEST_TOKEN or not token.isascii() or not token.isprintable() or " " in token:
        cure = 'make one with: python -c "import secrets; print(secrets.token_urlsafe(32))"'
        problem = f"{where} must hold {SHORTEST_TOKEN} or more letters, digits and signs in one line; {cure}"
        raise ConfigError(f"gateway.tokens.{name}", (problem,))
    if token in others.values():
        raise ConfigError(f"gateway.tokens.{name}", ("another name has the same token; give each its own",))
    return token


def _read(config: GatewayConfig, folder: Path, name: str) -> str:
    return config.read_file(folder / Path(name).expanduser()).decode("utf-8")
