"""Bearer tokens, and whom a request comes from: tokens of the gateway's own, and access tokens of an OpenID Connect
issuer, whose claims give the profile."""

from __future__ import annotations

import hmac
import logging
import time
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any, Protocol, cast, final
from urllib.parse import urlsplit

import anyio
import httpx2
import jwt
from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
from mcp.server.auth.provider import AccessToken
from starlette.authentication import AuthenticationError
from starlette.requests import HTTPConnection
from starlette.responses import PlainTextResponse, Response

from hooksdk.config import FileWatch
from hooksdk.errors import ConfigError
from hooksdk.gateway._metrics import Metrics
from hooksdk.gateway._settings import GatewayConfig, OidcSettings, is_loopback

logger = logging.getLogger("hooksdk")

# Characters that a token has at least: a shorter one can be guessed.
SHORTEST_TOKEN = 16
# Seconds after which the issuer's keys are fetched anew: one that it has withdrawn counts no longer.
KEEP_KEYS = 600.0
# Seconds between two fetches, at least: tokens that anybody makes up, under keys that there are not, cause no more.
PAUSE = 5.0
# Seconds for each answer of the issuer.
FETCH_TIME = 5.0
# Pairs of keys, of which the issuer shows one half.
KEY_TYPES = {"RSA", "EC", "OKP"}


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


class NotNow(AuthenticationError):
    """The issuer's keys cannot be had, so nobody knows whether a token is good."""


class TokenRefused(AuthenticationError):
    """The token is good, and its owner may not use this gateway."""


def refusal_of(metrics: Metrics) -> Callable[[HTTPConnection, AuthenticationError], Response]:
    """What clients are told whose token leads nowhere. One that is not known at all is a 401, which makes clients
    sign in."""

    def refuse(_request: HTTPConnection, problem: AuthenticationError) -> Response:
        metrics.refuse("profile" if isinstance(problem, TokenRefused) else "issuer")
        if isinstance(problem, TokenRefused):
            return PlainTextResponse(str(problem), 403)
        return PlainTextResponse(str(problem), 503, {"Retry-After": str(int(PAUSE))})

    return refuse


@final
class EitherTokens:
    """Tokens of the gateway's own, and those of an issuer."""

    def __init__(self, own: Verifier, issuer: Verifier) -> None:
        self._own = own
        self._issuer = issuer

    async def verify_token(self, token: str) -> AccessToken | None:
        """Whose token it is."""
        return await self._own.verify_token(token) or await self._issuer.verify_token(token)


@final
class IssuerTokens:
    """Knows the tokens of the configuration's issuer, as the configuration is at each request."""

    def __init__(self, config: Callable[[], GatewayConfig]) -> None:
        self._config = config
        self._keys: _Keys | None = None

    async def verify_token(self, token: str) -> AccessToken | None:
        """Whose token it is; None for one that does not count. Raises `TokenRefused` for one without a profile, and
        `NotNow`."""
        config = self._config()
        settings = config.oidc
        if settings is None:
            return None
        if self._keys is None or not self._keys.are_of(settings):
            self._keys = _Keys(settings)
        try:
            header = jwt.get_unverified_header(token)
            if header.get("alg") not in settings.algorithms:
                raise jwt.InvalidAlgorithmError(f"signed by {header.get('alg')!r}, which is not in algorithms")
            key = await self._keys.find(header.get("kid"), str(header["alg"]))
            claims: dict[str, Any] = jwt.decode(
                token,
                key,
                algorithms=list(settings.algorithms),
                audience=settings.audience or config.url,
                issuer=settings.issuer,
                leeway=settings.leeway,
                options={"require": ["exp", "iss", "aud", "sub"]},
            )
        except jwt.PyJWTError as problem:
            logger.info("a token of the issuer does not count: %s", problem)
            return None
        return _principal(config, settings, claims)


def _principal(config: GatewayConfig, settings: OidcSettings, claims: Mapping[str, Any]) -> Principal:
    subject, name = str(claims["sub"]), _claim(claims, settings.name_claim)
    if not isinstance(name, str) or not name:
        raise TokenRefused(f"the token has no claim '{settings.name_claim}' that says who you are")
    if name in config.tokens or name == LOCAL.name:
        raise TokenRefused(f"the name '{name}' is that of another token of this gateway")
    if settings.name_claim == "email" and claims.get("email_verified") is False:
        raise TokenRefused("the issuer has not checked that the address is yours")
    scopes = _texts(claims.get("scope", claims.get("scp")), split=True)
    if missing := [scope for scope in settings.scopes if scope not in scopes]:
        raise TokenRefused(f"the token lacks the scope {', '.join(missing)}")
    profile = settings.other
    if settings.profile_claim is not None:
        values = _texts(_claim(claims, settings.profile_claim))
        profile = next((one for value, one in settings.profiles.items() if value in values), settings.other)
        if profile is None:
            raise TokenRefused(
                f"no profile of this gateway is for what the token says under '{settings.profile_claim}'"
            )
    return Principal(
        token="",
        client_id=name,
        scopes=scopes,
        expires_at=int(claims["exp"] + settings.leeway),
        subject=subject,
        claims={"iss": settings.issuer},
        key=f"oidc {settings.issuer} {subject} {profile or ''}",
        profile=profile,
    )


def _claim(claims: Mapping[str, Any], name: str) -> object:
    """A claim by its whole name, which may have dots, or by a path."""
    if name in claims:
        return claims[name]
    value: object = claims
    for step in name.split("."):
        value = cast("dict[str, object]", value).get(step) if isinstance(value, dict) else None
    return value


def _texts(value: object, *, split: bool = False) -> list[str]:
    if isinstance(value, str):
        return value.split() if split else [value]
    return [one for one in cast("list[object]", value) if isinstance(one, str)] if isinstance(value, list) else []


@final
class _Keys:
    """The issuer's keys, fetched when a token asks for them."""

    def __init__(self, settings: OidcSettings) -> None:
        self._settings = settings
        self._keys: list[jwt.PyJWK] = []
        self._fetched = self._tried = -KEEP_KEYS
        self._lock = anyio.Lock()

    def are_of(self, settings: OidcSettings) -> bool:
        """False once they would be fetched from elsewhere."""
        return (settings.issuer, settings.jwks_url) == (self._settings.issuer, self._settings.jwks_url)

    async def find(self, kid: object, algorithm: str) -> jwt.PyJWK:
        """The key of this id. Raises a `PyJWTError` where there is none, and `NotNow` where that cannot be known."""
        async with self._lock:
            if self._age(self._fetched) >= KEEP_KEYS:
                await self._refresh()
            key = self._known(kid, algorithm)
            if key is None:  # it may be new
                await self._refresh()
                key = self._known(kid, algorithm)
        if key is None and not self._keys:
            raise NotNow("the issuer's keys cannot be had at the moment")
        if key is None:
            raise jwt.InvalidKeyError(f"the issuer has no key {kid!r} for {algorithm}")
        return key

    def _known(self, kid: object, algorithm: str) -> jwt.PyJWK | None:
        fitting = [one for one in self._keys if one.algorithm_name == algorithm]
        if kid is None:
            return fitting[0] if len(fitting) == 1 else None
        return next((one for one in fitting if one.key_id == kid), None)

    @staticmethod
    def _age(when: float) -> float:
        return time.monotonic() - when

    async def _refresh(self) -> None:
        """Fetch them; where that fails, those from before count on."""
        if self._age(self._tried) < PAUSE:
            return
        self._tried = time.monotonic()
        try:
            async with httpx2.AsyncClient(timeout=FETCH_TIME) as http:
                url = self._settings.jwks_url or await self._discover(http)
                keys = jwt.PyJWKSet.from_dict((await http.get(url)).raise_for_status().json()).keys
        except (httpx2.HTTPError, httpx2.InvalidURL, ValueError, TypeError, jwt.PyJWTError) as problem:
            logger.warning("the keys of the issuer %s cannot be had: %r", self._settings.issuer, problem)
            return
        self._keys = [one for one in keys if one.key_type in KEY_TYPES and one.public_key_use in {None, "sig"}]
        self._fetched = time.monotonic()

    async def _discover(self, http: httpx2.AsyncClient) -> str:
        """Where its metadata says that its keys are, as OpenID Connect Discovery and RFC 8414 have it."""
        issuer = self._settings.issuer
        parts = urlsplit(issuer)
        answer = await http.get(f"{issuer.rstrip('/')}/.well-known/openid-configuration")
        if answer.status_code == 404:
            path = f"/.well-known/oauth-authorization-server{parts.path.rstrip('/')}"
            answer = await http.get(f"{parts.scheme}://{parts.netloc}{path}")
        about: dict[str, Any] = answer.raise_for_status().json()
        url = str(about.get("jwks_uri"))
        if about.get("issuer") != issuer:
            raise ValueError(f"its metadata calls it {about.get('issuer')!r}")
        if urlsplit(url).scheme != "https" and not is_loopback(urlsplit(url).hostname or ""):
            raise ValueError(f"its keys would come from {url!r}, and not over https")
        return url
