"""Signing in, with a person: a page in the browser, and what comes back of it. The protocol is the official SDK's."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from contextlib import AsyncExitStack, contextmanager
from contextvars import ContextVar
from typing import Any, final
from urllib.parse import parse_qs, urlsplit

import anyio
import httpx2
from mcp.client.auth import AuthorizationCodeResult, OAuthClientProvider, OAuthFlowError
from mcp.client.auth.utils import extract_resource_metadata_from_www_auth, extract_scope_from_www_auth, union_scopes
from mcp.shared.auth import OAuthClientInformationFull, OAuthClientMetadata, OAuthMetadata, OAuthToken
from pydantic import ValidationError

from hooksdk.mcp.sign_in._auth import asks_for_sign_in as _asks
from hooksdk.mcp.sign_in._auth import revoke, with_token
from hooksdk.mcp.sign_in._listener import Listener, Pasted, free_port, is_free, listening
from hooksdk.mcp.sign_in._store import CALLBACK_PATH, OAuthSettings, SignIn, SignInProblem, SignIns, Target, canonical
from hooksdk.values import clip

# Seconds that a person has for the page.
WAIT = 300.0
# Seconds for each answer of a server.
_PATIENCE = 30.0
_PING = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
_ACCEPT = {"Accept": "application/json, text/event-stream"}
_running: ContextVar[bool] = ContextVar("hooksdk sign-in", default=False)


@contextmanager
def _quietly() -> Generator[None]:
    """Keep the SDK from logging a traceback of a problem that the person is told of anyway; it may hold a secret that the
    server has named."""

    def is_news(_record: logging.LogRecord) -> bool:
        return not _running.get()

    logger = logging.getLogger("mcp.client.auth.oauth2")
    logger.addFilter(is_news)
    token = _running.set(True)
    try:
        yield
    finally:
        _running.reset(token)
        logger.removeFilter(is_news)


async def sign_in(
    target: Target,
    sign_ins: SignIns,
    *,
    show: Callable[[str], Awaitable[None]],
    paste: Callable[[], Awaitable[str]] | None = None,
    client_secret: str = "",
    wait: float = WAIT,
) -> SignIn:
    """Sign a person in, and keep the sign-in. `show` is given the address of the page. With `paste` nothing listens: it
    answers the address that the browser was sent to. Raises `SignInProblem`."""
    try:
        old = await sign_ins.read(target.server, target.holder)
    except SignInProblem:
        old = None
    async with AsyncExitStack() as stack:
        redirect, port = _way_back(target.settings, old)
        if paste is None:
            way_back = await stack.enter_async_context(listening(redirect, port))
        else:
            way_back = Pasted(redirect or f"http://localhost:{port or free_port()}{CALLBACK_PATH}", paste)
        client = _client_of(target.settings, client_secret, old, way_back.redirect)
        flow = _Flow(target, old, client, way_back, show, wait)
        new = await flow.run(sign_ins.clock)
    async with sign_ins.locked(target.server, target.holder):
        await sign_ins.write(new)
    return new


async def sign_out(target: Target, sign_ins: SignIns) -> str | None:
    """End a sign-in: at the server, where it can be told, and here. None where there was none; else why the server could
    not be told, empty where it was."""
    async with sign_ins.locked(target.server, target.holder):
        try:
            old = await sign_ins.read(target.server, target.holder)
        except SignInProblem as problem:
            old, unread = None, f"the server could not be told: {problem}"
        else:
            unread = ""
        if not await sign_ins.remove(target.server, target.holder):
            return None
        return unread if old is None else await revoke(old)


async def asks_for_sign_in(target: Target) -> bool:
    """True where the server refuses a request without a sign-in. Raises `SignInProblem` where it cannot be asked."""
    try:
        async with (
            httpx2.AsyncClient(timeout=_PATIENCE, headers=dict(target.headers)) as client,
            client.stream("POST", target.server, json=_PING, headers=_ACCEPT) as response,
        ):
            return _asks(response, has_headers=bool(target.headers))
    except httpx2.HTTPError as error:
        raise SignInProblem(f"it cannot be reached: {type(error).__name__}") from None


def _way_back(settings: OAuthSettings, old: SignIn | None) -> tuple[str, int | None]:
    """The address that the browser comes back to, or else its port: that of the entry, or of the client that was
    registered."""
    if settings.redirect_uri or settings.callback_port or old is None or old.own_client or not old.client_id:
        return settings.redirect_uri, settings.callback_port
    port = urlsplit(old.redirect_uri).port
    return "", port if port and is_free(port) else None


def _client_of(
    settings: OAuthSettings, secret: str, old: SignIn | None, redirect: str
) -> OAuthClientInformationFull | None:
    """The client of one's own, or the one that was registered with the same way back; None: one must be registered."""
    if settings.client_id:
        known = old.client_secret if old is not None and old.client_id == settings.client_id else None
        chosen = secret or settings.client_secret or known
        fields: dict[str, Any] = {"client_id": settings.client_id, "client_secret": chosen}
    elif old is not None and old.client_id and not old.own_client and old.redirect_uri == redirect:
        fields = {"client_id": old.client_id, "client_secret": old.client_secret, "issuer": old.issuer}
        fields["token_endpoint_auth_method"] = old.client_auth
    else:
        return None
    return OAuthClientInformationFull.model_validate({**fields, "redirect_uris": [redirect]})


@final
class _Kept:
    """What the SDK stores, in memory: it is written when all of it is there."""

    def __init__(self, client: OAuthClientInformationFull | None) -> None:
        self.client = client

    async def get_tokens(self) -> OAuthToken | None:
        return None

    async def set_tokens(self, tokens: OAuthToken) -> None:
        """They are taken from the provider."""

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        return self.client

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        self.client = client_info


@final
class _Flow(httpx2.Auth):
    """One sign-in. The SDK's provider knows the requests to make; here it is given the answers of a server whose entry
    says more than the server does, and problems are put into words."""

    def __init__(
        self,
        target: Target,
        old: SignIn | None,
        client: OAuthClientInformationFull | None,
        way_back: Listener | Pasted,
        show: Callable[[str], Awaitable[None]],
        wait: float,
    ) -> None:
        self._target, self._old, self._redirect = target, old, way_back.redirect
        self._show, self._way_back, self._wait = show, way_back, wait
        self._last: httpx2.Response | None = None
        # What the entry's own address says of the authorization server.
        self._metadata: OAuthMetadata | None = None
        metadata = OAuthClientMetadata.model_validate(
            {
                "client_name": "hooksdk",
                "redirect_uris": [self._redirect],
                "grant_types": ["authorization_code", "refresh_token"],
                "response_types": ["code"],
            }
        )
        self._provider = OAuthClientProvider(
            target.server, metadata, _Kept(client), redirect_handler=self._open, callback_handler=self._wait_for_person
        )

    async def run(self, clock: Callable[[], float]) -> SignIn:
        """The sign-in that came of it. Raises `SignInProblem`."""
        try:
            with _quietly():
                async with httpx2.AsyncClient(
                    timeout=_PATIENCE, auth=self, headers=dict(self._target.headers)
                ) as client:
                    response = await client.post(self._target.server, json=_PING, headers=_ACCEPT)
        except httpx2.HTTPError as error:
            raise SignInProblem(f"the server cannot be reached: {type(error).__name__}") from None
        except (OAuthFlowError, ValidationError) as error:
            raise SignInProblem(self._problem(error)) from None
        context = self._provider.context
        if response.status_code == 401 or context.current_tokens is None or context.client_info is None:
            raise SignInProblem("the server does not take the token that the sign-in at its own address has given")
        client, metadata = context.client_info, context.oauth_metadata
        endpoint = (
            metadata.token_endpoint if metadata else context.get_authorization_base_url(context.server_url) + "/token"
        )
        new = SignIn(
            server=self._target.server,
            holder=self._target.holder,
            client_id=client.client_id,
            client_secret=client.client_secret,
            client_auth=client.token_endpoint_auth_method,
            own_client=bool(self._target.settings.client_id),
            redirect_uri=self._redirect,
            issuer=client.issuer,
            token_endpoint=str(endpoint),
            revocation_endpoint=str(metadata.revocation_endpoint)
            if metadata and metadata.revocation_endpoint
            else None,
            resource=context.get_resource_url() if context.should_include_resource_param(None) else None,
        )
        return with_token(new, context.current_tokens, clock())

    async def async_auth_flow(self, request: httpx2.Request) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
        """The SDK's requests, one after the other."""
        if self._target.settings.metadata_url:
            response = yield httpx2.Request("GET", self._target.settings.metadata_url)
            await response.aread()
            self._metadata = self._read_metadata(response)
        flow = self._provider.async_auth_flow(request)
        try:
            await anext(flow)
            first = yield request
            if first.status_code >= 500 or first.status_code in {404, 410}:
                raise SignInProblem(f"the server answers HTTP {first.status_code} {first.reason_phrase}")
            answer = self._challenge(first)
            while True:
                outgoing = await flow.asend(answer)
                self._check(outgoing, request, asked=first.status_code == 401)
                answer = self._known(outgoing)
                if answer is None:
                    answer = self._last = yield outgoing
        except StopAsyncIteration:
            return
        finally:
            await flow.aclose()

    def _challenge(self, first: httpx2.Response) -> httpx2.Response:
        """The refusal that begins a sign-in, with the rights that are wanted, whether the server has refused or not."""
        scope = " ".join(self._target.settings.scopes) or extract_scope_from_www_auth(first)
        if self._old is not None and self._old.wanted_scope:
            scope = union_scopes(union_scopes(self._old.scope, scope), self._old.wanted_scope)
        described = extract_resource_metadata_from_www_auth(first) if first.status_code in {401, 403} else None
        fields = {"scope": scope, "resource_metadata": described}
        header = "Bearer " + ", ".join(f'{name}="{value}"' for name, value in fields.items() if value)
        return httpx2.Response(401, headers={"WWW-Authenticate": header.strip()}, request=first.request)

    def _known(self, outgoing: httpx2.Request) -> httpx2.Response | None:
        """What need not be asked, since the entry says where the authorization server describes itself."""
        if self._metadata is None or outgoing.method != "GET":
            return None
        if "/.well-known/oauth-protected-resource" in outgoing.url.path:
            servers = [str(self._metadata.issuer)]
            about: Any = {"resource": canonical(self._target.server), "authorization_servers": servers}
            return httpx2.Response(200, json=about, request=outgoing)
        text = self._metadata.model_dump_json(exclude_none=True)
        return httpx2.Response(200, content=text.encode(), request=outgoing)

    def _read_metadata(self, response: httpx2.Response) -> OAuthMetadata:
        try:
            if response.status_code == 200:
                return OAuthMetadata.model_validate_json(response.content)
        except ValidationError:
            pass
        raise SignInProblem(
            f"'authServerMetadataUrl' leads to no description of an authorization server (HTTP {response.status_code})"
        )

    def _check(self, outgoing: httpx2.Request, request: httpx2.Request, *, asked: bool) -> None:
        """Raise `SignInProblem` before anything is sent that can come to nothing, or would go in the clear."""
        context = self._provider.context
        if outgoing is request or outgoing.method != "POST":
            return
        if self._target.server.lower().startswith("https:") and outgoing.url.scheme != "https":
            raise SignInProblem(
                f"its authorization server would be told secrets in the clear, at {outgoing.url.copy_with(query=None)}"
            )
        if context.client_info is not None:
            return
        if context.oauth_metadata is None and not asked:
            raise SignInProblem("the server answers without a sign-in, and offers none")
        if context.oauth_metadata is not None and context.oauth_metadata.registration_endpoint is None:
            raise SignInProblem(
                f"the server registers no clients by itself: register one there, with the redirect address {self._redirect}, "
                f'and write into the entry: "oauth": {{"clientId": "...", "callbackPort": {urlsplit(self._redirect).port}}}'
            )

    async def _open(self, url: str) -> None:
        parts = urlsplit(url)
        if self._target.server.lower().startswith("https:") and parts.scheme != "https":
            raise SignInProblem("its page for signing in would be opened in the clear, over http")
        client, metadata = self._provider.context.client_info, self._provider.context.oauth_metadata
        if client is not None and client.client_secret and client.token_endpoint_auth_method is None:
            ways = (metadata.token_endpoint_auth_methods_supported if metadata else None) or ["client_secret_basic"]
            basic = "client_secret_basic" in ways or "client_secret_post" not in ways
            client.token_endpoint_auth_method = "client_secret_basic" if basic else "client_secret_post"
        self._way_back.expect(parse_qs(parts.query)["state"][0])
        await self._show(url)

    async def _wait_for_person(self) -> AuthorizationCodeResult:
        try:
            with anyio.fail_after(self._wait):
                fields = await self._way_back.answer()
        except TimeoutError:
            raise SignInProblem(f"nobody signed in within {self._wait:g} s") from None
        return AuthorizationCodeResult(code=fields["code"], state=fields.get("state"), iss=fields.get("iss"))

    def _problem(self, error: Exception) -> str:
        """What went wrong, by the server's own word where it has one."""
        step, last = type(error).__name__, self._last
        what = {
            "OAuthRegistrationError": "it does not register this client",
            "OAuthTokenError": "it gives no token",
        }.get(step, "")
        if not what or last is None:
            return clip(
                self._mask(str(error) if isinstance(error, OAuthFlowError) else "its answer cannot be read"), 300
            )
        said = ""
        try:
            body: Any = last.json()
            said = ": ".join(str(body[key]) for key in ("error", "error_description") if body.get(key))
        except (ValueError, AttributeError, TypeError):
            pass
        secret = "" if self._provider.context.client_info is None else self._provider.context.client_info.client_secret
        hint = (
            ". A client with a secret needs that, too: --client-secret"
            if "invalid_client" in said and not secret
            else ""
        )
        return clip(self._mask(f"{what}: HTTP {last.status_code}{f', {said}' if said else ''}"), 300) + hint

    def _mask(self, text: str) -> str:
        client = self._provider.context.client_info
        secret = client.client_secret if client is not None else None
        return " ".join(text.replace(secret, "***").split()) if secret else " ".join(text.split())
