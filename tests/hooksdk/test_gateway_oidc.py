"""Tokens of an issuer in place of the gateway's own: an issuer on this machine, and the official client."""

from __future__ import annotations

import base64
import json
import time
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import anyio
import httpx2
import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from mcp import Client
from mcp.client.auth import AuthorizationCodeResult, OAuthClientProvider
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.auth import OAuthClientInformationFull, OAuthClientMetadata, OAuthToken
from pydantic import AnyUrl

from hooksdk import Host
from hooksdk.gateway import Gateway, _tokens, config_problems
from tests.hooksdk.gateways import ERAS, gateway, http_client, names, source
from tests.hooksdk.issuers import RESOURCE, Issuer, issuing
from tests.hooksdk.mcp_servers import until
from tests.ports import own_port

pytestmark = [pytest.mark.heavy, pytest.mark.anyio]
PROFILES: dict[str, Any] = {"reader": {"allow": ["read_*"]}, "owner": {}}
BY_GROUP: dict[str, Any] = {"profile_claim": "groups", "profiles": {"staff": "reader", "admins": "owner"}}


@pytest.fixture(scope="module")
def shared_issuer() -> Generator[Issuer]:
    with issuing() as made:
        yield made


@pytest.fixture
def issuer(shared_issuer: Issuer) -> Issuer:
    shared_issuer.asked.clear()
    shared_issuer.works = True
    if "first" not in shared_issuer.keys:
        shared_issuer.rotate("first")
    return shared_issuer


def settings(issuer: Issuer, **oidc: Any) -> dict[str, Any]:
    return {"url": RESOURCE, "oidc": {"issuer": issuer.url, **oidc}, "profiles": PROFILES}


@asynccontextmanager
async def asking(made: Gateway) -> AsyncGenerator[httpx2.AsyncClient]:
    """HTTP to a gateway's application, without a network."""
    app = made.http_app()
    transport = httpx2.ASGITransport(app=app)
    async with (
        app.router.lifespan_context(app),
        httpx2.AsyncClient(transport=transport, base_url="https://tools.example.org") as http,
    ):
        yield http


async def ask(http: httpx2.AsyncClient, token: str) -> httpx2.Response:
    """What a client is answered that says hello."""
    hello = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
    body = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello}
    accept = {"Accept": "application/json, text/event-stream", "Authorization": f"Bearer {token}"}
    return await http.post("/mcp", json=body, headers=accept)


@asynccontextmanager
async def listening(config: dict[str, Any]) -> AsyncGenerator[tuple[Gateway, str]]:
    urls: list[str] = []
    async with gateway(source(), config=config) as made, anyio.create_task_group() as group:
        group.start_soon(lambda: made.serve_http(on_listening=urls.append))
        await until(lambda: urls)
        yield made, urls[0]
        group.cancel_scope.cancel()


@pytest.mark.parametrize("era", ERAS)
async def test_a_client_with_a_token_of_the_issuer_has_its_name_and_its_profile(era: str, issuer: Issuer) -> None:
    config = settings(issuer, name_claim="email", **BY_GROUP)
    token = issuer.token(email="ann@example.org", email_verified=True, groups=["x", "staff"])
    async with listening(config) as (made, url), http_client(url, era, token) as connected:
        assert await names(connected) == ["read_note", "read_mail"]
        (session,) = made.sessions
        assert session.identity.requester == {"id": "ann@example.org", "roles": ["reader"]}


class Stored:
    """Where a client keeps what it signed in with."""

    def __init__(self, redirect: str) -> None:
        self.tokens: OAuthToken | None = None
        self.client = OAuthClientInformationFull(
            client_id="tools-client", redirect_uris=[AnyUrl(redirect)], token_endpoint_auth_method="none"
        )

    async def get_tokens(self) -> OAuthToken | None:
        return self.tokens

    async def set_tokens(self, tokens: OAuthToken) -> None:
        self.tokens = tokens

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        return self.client

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        self.client = client_info


async def test_a_client_without_a_token_finds_the_issuer_and_signs_in_there(issuer: Issuer) -> None:
    port = own_port()
    url, redirect = f"http://127.0.0.1:{port}/mcp", "http://127.0.0.1:1/callback"
    config = {**settings(issuer), "url": url}
    pages: list[str] = []

    async def come_back() -> AuthorizationCodeResult:
        async with httpx2.AsyncClient(timeout=60) as browser:
            answer = await browser.get(pages[0])
        back = dict(parse_qsl(urlsplit(answer.headers["location"]).query))
        return AuthorizationCodeResult(code=back["code"], state=back["state"])

    async def open_page(page: str) -> None:
        pages.append(page)

    about = OAuthClientMetadata(redirect_uris=[AnyUrl(redirect)], client_name="test")
    sign_in = OAuthClientProvider(url, about, Stored(redirect), open_page, come_back)
    async with gateway(source(), config=config) as made, anyio.create_task_group() as group:
        urls: list[str] = []
        group.start_soon(lambda: made.serve_http(port=port, on_listening=urls.append))
        await until(lambda: urls)
        async with (
            httpx2.AsyncClient(auth=sign_in, timeout=60) as http,
            Client(streamable_http_client(url, http_client=http)) as connected,
        ):
            assert "read_note" in await names(connected)
        group.cancel_scope.cancel()
    assert f"/token c1 {url}" in issuer.asked


async def test_two_people_have_two_sessions(issuer: Issuer) -> None:
    tokens = [issuer.token(sub=sub) for sub in ("user-1", "user-2")]
    async with (
        listening(settings(issuer)) as (made, url),
        http_client(url, "auto", tokens[0]) as one,
        http_client(url, "auto", tokens[1]) as two,
    ):
        await one.list_tools()
        await two.list_tools()
        assert sorted(session.identity.name for session in made.sessions) == ["user-1", "user-2"]


async def test_somebody_whose_profile_changes_gets_a_new_session(issuer: Issuer) -> None:
    async with listening(settings(issuer, **BY_GROUP)) as (_, url):
        for groups, listed in ((["admins"], 3), (["staff"], 2)):
            async with http_client(url, "auto", issuer.token(groups=groups)) as connected:
                assert len(await names(connected)) == listed


def unsigned(issuer: Issuer) -> str:
    """A token with `alg` none."""
    parts = [{"alg": "none"}, {"iss": issuer.url, "aud": RESOURCE, "sub": "user-1", "exp": 2**33}]
    return ".".join(base64.urlsafe_b64encode(json.dumps(one).encode()).decode().rstrip("=") for one in parts) + "."


STRANGER = rsa.generate_private_key(public_exponent=65537, key_size=2048)
BAD: dict[str, Callable[[Issuer], str]] = {
    "another audience": lambda issuer: issuer.token(aud="https://other.example.org/mcp"),
    "no audience": lambda issuer: issuer.token(aud=None),
    "another issuer": lambda issuer: issuer.token(iss="https://login.example.org"),
    "expired": lambda issuer: issuer.token(exp=int(time.time()) - 60),
    "not yet": lambda issuer: issuer.token(nbf=int(time.time()) + 600),
    "without an end": lambda issuer: issuer.token(exp=None),
    "nobody's": lambda issuer: issuer.token(sub=None),
    "alg none": unsigned,
    "a shared secret": lambda issuer: issuer.token(algorithm="HS256", key="k" * 64),
    "an algorithm that is not allowed": lambda issuer: issuer.token(algorithm="RS512"),
    "another's key": lambda issuer: issuer.token(key=STRANGER),
    "changed": lambda issuer: issuer.token()[:-20] + "A" * 20,
    "no token": lambda _issuer: "not.a.token",
    "empty": lambda _issuer: "",
}


@pytest.mark.parametrize("how", BAD)
async def test_a_token_that_does_not_count_is_a_401_that_says_where_to_sign_in(how: str, issuer: Issuer) -> None:
    async with gateway(source(), config=settings(issuer)) as made, asking(made) as http:
        assert (await ask(http, issuer.token())).status_code == 200
        refused = await ask(http, BAD[how](issuer))
        assert refused.status_code == 401
        where = "https://tools.example.org/.well-known/oauth-protected-resource/mcp"
        assert f'resource_metadata="{where}"' in refused.headers["www-authenticate"]
        assert len(made.sessions) <= 1


async def test_the_resources_metadata_names_the_issuer(issuer: Issuer) -> None:
    async with gateway(source(), config=settings(issuer, scopes=["mcp"])) as made, asking(made) as http:
        about = (await http.get("/.well-known/oauth-protected-resource/mcp")).json()
    assert about["resource"] == RESOURCE
    assert about["authorization_servers"] == [issuer.url]
    assert about["scopes_supported"] == ["mcp"]


async def test_keys_that_the_issuer_rotates_count_and_the_old_no_longer(
    issuer: Issuer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_tokens, "PAUSE", 0.0)
    async with gateway(source(), config=settings(issuer)) as made, asking(made) as http:
        before = issuer.token()
        assert (await ask(http, before)).status_code == 200
        issuer.rotate("second", "ES256")
        assert (await ask(http, issuer.token(algorithm="ES256"))).status_code == 200
        assert (await ask(http, before)).status_code == 401


async def test_tokens_under_made_up_keys_make_the_gateway_ask_the_issuer_once(issuer: Issuer) -> None:
    async with gateway(source(), config=settings(issuer)) as made, asking(made) as http:
        for number in range(20):
            assert (await ask(http, issuer.token(f"made-up-{number}", key=STRANGER))).status_code == 401
    assert issuer.asked.count("/keys") <= 1


async def test_without_the_issuers_keys_nobody_is_told_that_his_token_is_bad(
    issuer: Issuer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_tokens, "PAUSE", 0.0)
    issuer.works = False
    async with gateway(source(), config=settings(issuer)) as made, asking(made) as http:
        unknown = await ask(http, issuer.token())
        assert (unknown.status_code, "retry-after" in unknown.headers) == (503, True)
        issuer.works = True
        assert (await ask(http, issuer.token())).status_code == 200
        issuer.works = False
        monkeypatch.setattr(_tokens, "KEEP_KEYS", 0.0)
        assert (await ask(http, issuer.token())).status_code == 200  # by the keys from before


@pytest.mark.parametrize(
    ("oidc", "claims", "status"),
    [
        (BY_GROUP, {"groups": ["visitors"]}, 403),
        (BY_GROUP, {}, 403),
        ({**BY_GROUP, "other": "reader"}, {"groups": ["visitors"]}, 200),
        (BY_GROUP, {"groups": "staff"}, 200),
        ({**BY_GROUP, "profile_claim": "realm_access.roles"}, {"realm_access": {"roles": ["staff"]}}, 200),
        ({**BY_GROUP, "profile_claim": "https://a.org/roles"}, {"https://a.org/roles": ["staff"]}, 200),
        ({"scopes": ["mcp"]}, {"scope": "openid mcp"}, 200),
        ({"scopes": ["mcp"]}, {"scope": "openid"}, 403),
        ({"name_claim": "email"}, {"email": "ann@example.org", "email_verified": False}, 403),
        ({"name_claim": "email"}, {}, 403),
        ({}, {"sub": "local"}, 403),
    ],
)
async def test_claims_settle_who_may_come_in(
    oidc: dict[str, Any], claims: dict[str, Any], status: int, issuer: Issuer
) -> None:
    async with gateway(source(), config=settings(issuer, **oidc)) as made, asking(made) as http:
        assert (await ask(http, issuer.token(**claims))).status_code == status


async def test_profiles_of_claims_may_change_while_the_gateway_runs(issuer: Issuer) -> None:
    async with (
        Host(config={"gateway": settings(issuer, **BY_GROUP)}) as before,
        Host(config={"gateway": settings(issuer, profile_claim="groups", profiles={"admins": "owner"})}) as after,
        Gateway(before, source()) as made,
        asking(made) as http,
    ):
        token = issuer.token(groups=["staff"])
        assert (await ask(http, token)).status_code == 200
        await made.use(after)
        assert (await ask(http, token)).status_code == 403


async def test_own_tokens_count_beside_the_issuers_and_their_names_are_theirs(
    issuer: Issuer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ROBOT_TOKEN", "r" * 20)
    config = {**settings(issuer), "tokens": {"robot": {"env": "ROBOT_TOKEN"}}}
    async with gateway(source(), config=config) as made, asking(made) as http:
        assert (await ask(http, "r" * 20)).status_code == 200
        assert (await ask(http, issuer.token())).status_code == 200
        assert (await ask(http, issuer.token(sub="robot"))).status_code == 403


def test_an_issuer_lets_the_gateway_listen_for_others() -> None:
    assert config_problems({"oidc": {"issuer": "https://login.example.org"}}) != []
    assert config_problems({"oidc": {"issuer": "http://login.example.org"}, "url": RESOURCE}) != []
    assert config_problems({"oidc": {"issuer": "https://login.example.org", "algorithms": ["HS256"]}, "url": RESOURCE})
    unknown: dict[str, Any] = {
        "oidc": {"issuer": "https://a.org", **BY_GROUP},
        "url": RESOURCE,
        "profiles": {"reader": {}},
    }
    assert "there is no profile 'owner'" in " ".join(config_problems(unknown))
    assert config_problems({"oidc": {"issuer": "https://login.example.org"}, "url": RESOURCE}) == []
