"""The tables below `[gateway]` that are about clients over HTTP."""

from __future__ import annotations

import ipaddress
from typing import Annotated, Literal
from urllib.parse import urlsplit

import pydantic
from pydantic import BaseModel, ConfigDict, Field, model_validator

Algorithm = Literal[
    "RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"
]  # fmt: skip
"""Signatures that only the issuer can make. With `HS256` whoever can check a token can make one; `none` is no signature."""


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


def _as_list(value: object) -> object:
    return [value] if isinstance(value, str) else value


WebAddress = Annotated[str, pydantic.AfterValidator(_web_address)]
Texts = Annotated[list[str], pydantic.BeforeValidator(_as_list)]
Rate = Annotated[int, Field(gt=0)] | None


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class TlsSettings(_Strict):
    """`[gateway.tls]`: the certificate that clients see."""

    cert: str
    """A PEM file with the certificate, and those above it."""
    key: str
    """A PEM file with its key, without a passphrase."""


class MetricsSettings(_Strict):
    """`[gateway.metrics]`: `/metrics`, for Prometheus."""

    tokens: Texts = Field(default_factory=list[str])
    """The names of tokens that may read it. Where the gateway asks for no tokens, it does not here either."""
    open: bool = False
    """Whoever reaches the gateway may read it."""


class OidcSettings(_Strict):
    """`[gateway.oidc]`: access tokens of an OpenID Connect or OAuth 2.1 issuer, as JWTs (RFC 9068)."""

    issuer: WebAddress
    """As its metadata and the claim `iss` say it, to the letter."""
    audience: str | None = None
    """What the claim `aud` must hold; None: the gateway's `url`."""
    jwks_url: WebAddress | None = None
    """Where its keys are; None: where its metadata says."""
    algorithms: Annotated[list[Algorithm], Field(min_length=1), pydantic.BeforeValidator(_as_list)] = Field(
        default_factory=lambda: list[Algorithm](["RS256", "ES256"])
    )
    """Signatures that count."""
    scopes: Texts = Field(default_factory=list[str])
    """What the claim `scope` must hold, all of it."""
    name_claim: str = "sub"
    """Who asks, for policies."""
    profile_claim: str | None = None
    """Which claim says the profile, a text or a list of texts; a dot goes deeper: `realm_access.roles`."""
    profiles: dict[str, str] = Field(default_factory=dict[str, str])
    """The profile for each value of that claim; of several that fit the first."""
    other: str | None = None
    """The profile of those for whom none fits; None: they are refused. Without `profile_claim` it is everybody's."""
    leeway: Annotated[float, Field(ge=0, le=300)] = 30.0
    """Seconds by which clocks may differ."""

    @model_validator(mode="after")
    def _check(self) -> OidcSettings:
        if bool(self.profiles) != (self.profile_claim is not None):
            raise ValueError("profile_claim and profiles go together: the claim, and the profile of each of its values")
        return self
