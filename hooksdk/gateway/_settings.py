"""`[gateway]`: what the clients of `hooksdk gateway` are shown, and who may do what."""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

import pydantic
from pydantic import BaseModel, ConfigDict, Field, PrivateAttr, model_validator

from hooksdk.config import Config
from hooksdk.errors import ConfigError, did_you_mean, table_problems
from hooksdk.patterns import ToolPattern, check_patterns
from hooksdk.tools import Expose, Tool

# The sources of tools that are servers'.
MCP_SOURCES = {"mcp", "prompt", "resource"}

# Signatures that only the issuer can make. With `HS256` whoever can check a token can make one; `none` is no signature.
Algorithm = Literal["RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"]
Asked = Literal["elicitation", "sampling", "roots"]
# The smallest limit with which a note and some text have their place.
LEAST_RESULT_CHARS = 1_000


def _as_list(value: object) -> object:
    return [value] if isinstance(value, str) else value


def _none_or_enough(value: int) -> int:
    if value and value < LEAST_RESULT_CHARS:
        raise ValueError(f"expected at least {LEAST_RESULT_CHARS}, or 0 for whole results, got {value}")
    return value


def is_loopback(host: str) -> bool:
    """True for this machine alone."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _web_address(value: str) -> str:
    parts = urlsplit(value)
    host = parts.hostname or ""
    if not host or parts.scheme not in {"https", "http"} or (parts.scheme == "http" and not is_loopback(host)):
        raise ValueError(f"expected an address with https, or with http on this machine, got {value!r}")
    return value


Texts = Annotated[list[str], pydantic.BeforeValidator(_as_list)]
WebAddress = Annotated[str, pydantic.AfterValidator(_web_address)]
Rate = Annotated[int, Field(gt=0)] | None
Patterns = Annotated[list[str], pydantic.BeforeValidator(_as_list), pydantic.AfterValidator(check_patterns)]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class TlsSettings(_Strict):
    """`[gateway.tls]`: the certificate that clients see.

    Attributes:
        cert: A PEM file with the certificate, and those above it.
        key: A PEM file with its key, without a passphrase.
    """

    cert: str
    key: str


class MetricsSettings(_Strict):
    """`[gateway.metrics]`: `/metrics`, for Prometheus.

    Attributes:
        tokens: The names of tokens that may read it. Where the gateway asks for no tokens, it does not here either.
        open: Anybody who can reach the gateway may read it.
    """

    tokens: Texts = Field(default_factory=list[str])
    open: bool = False


class OidcSettings(_Strict):
    """`[gateway.oidc]`: access tokens of an OpenID Connect or OAuth 2.1 issuer, as JWTs (RFC 9068).

    Attributes:
        issuer: Its name as its metadata and the claim `iss` have it, to the letter.
        audience: The audience that the claim `aud` must have; None: the gateway's `url`.
        jwks_url: The address of its keys; None: the one that its metadata names.
        algorithms: The algorithms of signatures that count.
        scopes: The scopes that the claim `scope` must have, all of them.
        name_claim: The claim with the name of the requester, for policies.
        profile_claim: The claim that decides the profile, a text or a list of texts; a dot leads to an inner claim:
            `realm_access.roles`.
        profiles: The profile for each value of that claim; of several that fit the first.
        other: The profile of clients for which none fits; None: they are refused. Without `profile_claim` it is the
            profile of all.
        leeway: Seconds by which clocks may differ.
    """

    issuer: WebAddress
    audience: str | None = None
    jwks_url: WebAddress | None = None
    algorithms: Annotated[list[Algorithm], Field(min_length=1), pydantic.BeforeValidator(_as_list)] = Field(
        default_factory=lambda: list[Algorithm](["RS256", "ES256"])
    )
    scopes: Texts = Field(default_factory=list[str])
    name_claim: str = "sub"
    profile_claim: str | None = None
    profiles: dict[str, str] = Field(default_factory=dict[str, str])
    other: str | None = None
    leeway: Annotated[float, Field(ge=0, le=300)] = 30.0

    @model_validator(mode="after")
    def _check(self) -> OidcSettings:
        if bool(self.profiles) != (self.profile_claim is not None):
            raise ValueError("profile_claim and profiles go together: the claim, and the profile of each of its values")
        return self


class Profile(_Strict):
    """`[gateway.profiles.NAME]`: what the clients with this profile may use.

    Attributes:
        servers: Only the tools of these servers, beside the tools of plugins; None: of all servers.
        allow: Only the tools that fit one of these patterns; None: all.
        deny: Not the tools that fit one of these patterns, even where `allow` has them.
        expose: The `expose` of these clients, in the place of the gateway's.
        requester: The requester that policies are told of: `is_owner`, `roles`, `id`.
        requests_per_minute: Requests that each client with this profile may make over HTTP; None: the gateway's.
    """

    servers: Texts | None = None
    allow: Patterns | None = None
    deny: Patterns = Field(default_factory=list[str])
    expose: Expose | None = None
    requester: dict[str, Any] = Field(default_factory=dict[str, Any])
    requests_per_minute: Rate = None


class Token(_Strict):
    """`[gateway.tokens.NAME]`: a bearer token for clients over HTTP. Policies are told its name as the requester.

    Attributes:
        env: The environment variable that holds it.
        file: The file that holds it, and nothing else.
        profile: The profile that its clients get; None: the gateway's.
        requests_per_minute: Requests that its clients may make together; None: the profile's.
    """

    env: str | None = None
    file: str | None = None
    profile: str | None = None
    requests_per_minute: Rate = None

    @model_validator(mode="after")
    def _check(self) -> Token:
        if (self.env is None) == (self.file is None):
            raise ValueError('say where the token is: env = "VARIABLE", or file = "PATH"')
        return self


class WebhookSettings(_Strict):
    """`[gateway.approvals.webhook]`: a web service of yours that is told of each question, and may answer it.

    Attributes:
        url: The address to which each question is POSTed as JSON: https, or http on this machine.
        secret_env: The environment variable with the secret that requests are signed with.
        headers_env: Further headers, each with the environment variable that holds its value.
        timeout: Seconds for the answer; after that the call waits for an answer by another way.
    """

    url: str
    secret_env: str | None = None
    headers_env: dict[str, str] = Field(default_factory=dict[str, str])
    timeout: Annotated[float, Field(gt=0, le=120)] = 10.0


class ApprovalSettings(_Strict):
    """`[gateway.approvals]`: how people are asked about calls.

    Attributes:
        client: Ask the person at the client, where the client can show a question.
        wait: Seconds for which a call is held; then its result says that it waits.
        keep: Seconds after which a question that nobody answered expires, and an answer that no call took.
    """

    client: bool = True
    wait: Annotated[float, Field(ge=0)] = 30.0
    keep: Annotated[float, Field(gt=0)] = 24 * 3600.0
    webhook: WebhookSettings | None = None


class GatewayConfig(_Strict):
    """`[gateway]`.

    Attributes:
        expose: `auto`: the tools themselves until tool search is worth it, then its bridge; `bridge`: always the
            bridge; `direct`: always the tools; `hybrid`: the bridge, and beside it the tools that are known to read
            only.
        profile: The profile of clients that get no other; None: they may use everything that the policies allow.
        trusted_hints: The names of servers that are believed when they say that a tool only reads; `*`: all.
        context_window: Tokens of the clients' models, for tool search.
        idle: Seconds without a call after which a session over HTTP ends.
        origins: Web origins that may call over HTTP, beside those of this machine: `https://chat.example.org`.
        max_result_chars: Characters of text that a client gets of one result; the rest is read with
            `recall-tool-result`. 0: all of it.
        kept_result_bytes: Bytes of long results that are kept for each session, in memory; of more, the newest.
        instructions: Instructions for clients, before those of the servers; empty: a sentence that there are tools of
            several servers.
        max_instructions_chars: Characters of all instructions together; your own count first, and are never cut.
        relay: The questions that servers may ask of the client whose call they serve.
        deployment: The name of all gateways behind one address: those of one name and one database share the sessions
            of their clients. None: each has its own.
        url: The address at which clients find it over HTTP, where that is not the one that it listens on:
            `https://tools.example.org/mcp`.
        max_connections: Connections over HTTP that are open at once, at most; never more than half of the files that
            the process may open.
        stop_wait: Seconds that open calls over HTTP have for ending by themselves, once the gateway is told to stop.
        requests_per_minute: Requests over HTTP that are taken of each client; None: any number.
    """

    expose: Expose = "auto"
    profile: str | None = None
    trusted_hints: Texts = Field(default_factory=list[str])
    context_window: Annotated[int, Field(gt=0)] | None = None
    idle: Annotated[float, Field(gt=0)] = 600.0
    origins: Texts = Field(default_factory=list[str])
    max_result_chars: Annotated[int, pydantic.AfterValidator(_none_or_enough)] = 30_000
    kept_result_bytes: Annotated[int, Field(gt=0)] = 8_000_000
    instructions: str = ""
    max_instructions_chars: Annotated[int, Field(ge=0)] = 2_000
    relay: Annotated[list[Asked], pydantic.BeforeValidator(_as_list)] = Field(default_factory=list[Asked])
    deployment: Annotated[str, Field(min_length=1)] | None = None
    url: WebAddress | None = None
    max_connections: Annotated[int, Field(gt=0)] = 1_000
    stop_wait: Annotated[float, Field(ge=0)] = 5.0
    requests_per_minute: Rate = None
    tls: TlsSettings | None = None
    metrics: MetricsSettings | None = None
    oidc: OidcSettings | None = None
    profiles: dict[str, Profile] = Field(default_factory=dict[str, Profile])
    tokens: dict[str, Token] = Field(default_factory=dict[str, Token])
    approvals: ApprovalSettings = Field(default_factory=ApprovalSettings)
    # The configuration that it was read from.
    _config: Config | None = PrivateAttr(default=None)

    @classmethod
    def of(cls, config: Config) -> GatewayConfig:
        """`[gateway]` of a configuration. Raises `ConfigError`."""
        if problems := config_problems(config.gateway):
            raise ConfigError("configuration", tuple(problems))
        settings = cls.model_validate(config.gateway)
        settings._config = config  # noqa: SLF001
        return settings

    def read_file(self, path: Path) -> bytes:
        """The content of a file that a setting names. Raises `OSError`, and `ConfigError` for a file that has changed
        since you trusted the folder whose settings name it."""
        return path.read_bytes() if self._config is None else self._config.read_file(path)

    @model_validator(mode="after")
    def _check_names(self) -> GatewayConfig:
        issuers = (*self.oidc.profiles.values(), self.oidc.other) if self.oidc else ()
        for name in (self.profile, *(token.profile for token in self.tokens.values()), *issuers):
            if name is not None and name not in self.profiles:
                raise ValueError(f"there is no profile '{name}'.{did_you_mean(name, self.profiles)}")
        for name in self.metrics.tokens if self.metrics else ():
            if name not in self.tokens:
                raise ValueError(f"there is no token '{name}' for metrics.{did_you_mean(name, self.tokens)}")
        if self.oidc is not None and self.url is None:
            raise ValueError('tokens of an issuer are made for an address: say url = "https://HOST/mcp" as well')
        return self


def profile_of(config: GatewayConfig, name: str | None) -> tuple[str | None, Profile]:
    """The profile of this name, or else the gateway's own, and its name. Raises `ConfigError`."""
    name = config.profile if name is None else name
    if name is None:
        return None, Profile()
    if name not in config.profiles:
        known = ", ".join(config.profiles) or "the configuration has none under [gateway.profiles]"
        hint = did_you_mean(name, config.profiles) or f" Known: {known}."
        raise ConfigError("gateway", (f"there is no profile '{name}'.{hint}",))
    return name, config.profiles[name]


def narrowing(
    name: str | None, profile: Profile, *, own: Callable[[Tool], bool] = lambda _: False
) -> Callable[[Tool], str | None]:
    """A function that says of a tool why a client with this profile does not have it; None where it has it. `allow`
    need not name the tools for which `own` is true, which are the gateway's."""
    allow = None if profile.allow is None else [ToolPattern(text) for text in profile.allow]
    deny = [ToolPattern(text) for text in profile.deny]
    reason = f"the profile '{name}' does not have it"

    def why_not(tool: Tool) -> str | None:
        if profile.servers is not None and tool.source in MCP_SOURCES and tool.owner not in profile.servers:
            return reason
        if any(pattern.may_mean(tool) for pattern in deny):
            return reason
        if own(tool):
            return None
        return None if allow is None or any(pattern.matches(tool) for pattern in allow) else reason

    return why_not


def config_problems(table: object) -> list[str]:
    """The problems of a `[gateway]` table, for `read_config(tables=...)`."""
    try:
        GatewayConfig.model_validate(table)
    except pydantic.ValidationError as error:
        return table_problems(error, "gateway", _places)
    return []


_OWN_TABLES: dict[str, type[BaseModel]] = {"tls": TlsSettings, "metrics": MetricsSettings, "oidc": OidcSettings}


def _places(path: Sequence[str]) -> list[str]:
    """The settings that may stand in the place of this one."""
    if path[1] == "approvals":
        fields: type[BaseModel] = (GatewayConfig, ApprovalSettings, WebhookSettings)[min(len(path) - 2, 2)]
    elif path[1] in _OWN_TABLES and len(path) > 2:
        fields = _OWN_TABLES[path[1]]
    else:
        tables: dict[str, type[BaseModel]] = {"profiles": Profile, "tokens": Token}
        fields = tables[path[1]] if len(path) > 3 else GatewayConfig
    return [".".join([*path[:-1], name]) for name in fields.model_fields]
