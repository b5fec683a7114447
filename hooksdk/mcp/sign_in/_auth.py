"""The requests of a connection, with the token of a sign-in, and what is asked of an authorization server without a
person: a new token for an old one, and an end. No client is registered here, and no page opened."""

from __future__ import annotations

import contextlib
import json
import re
import shlex
from collections.abc import AsyncGenerator
from typing import Any, final

import anyio
import httpx2
from mcp.client.auth.oauth2 import OAuthContext
from mcp.shared.auth import OAuthClientInformationFull, OAuthClientMetadata, OAuthToken
from pydantic import ValidationError

from hooksdk.errors import HookSDKError
from hooksdk.mcp._config import ServerSpec
from hooksdk.mcp.sign_in._store import LOCAL, SignIn, SignInProblem, SignIns, Stamp

# Seconds for an authorization server's answer.
_PATIENCE = 15.0
# What a refresh is refused with that no later one would mend.
_ENDED = ("invalid_grant", "invalid_client", "unauthorized_client")


def cure(name: str, holder: str) -> str:
    """What a person types to sign in to a server."""
    whose = "" if holder == LOCAL else f" --token {shlex.quote(holder)}"
    return f"type `hooksdk gateway login {shlex.quote(name)}{whose}`"


@final
class SignedIn(httpx2.Auth):
    """Adds the token of one server's sign-in to each request, and renews it. All processes of the user share it: before
    each request the store is looked at, and a lock is held while it is renewed. A server's refusal is noted, never
    raised: an error would end the connection, and with it every call that is under way.

    Attributes:
        needs: Why a person must sign in, and the command to type; empty where nobody must.
        problem: Why the last request was refused besides that.
    """

    def __init__(self, spec: ServerSpec, holder: str, sign_ins: SignIns) -> None:
        self.server, self.holder = spec.url, holder
        self.needs = ""
        self.problem = ""
        self._cure = cure(spec.name, holder)
        self._has_headers = bool(spec.headers)
        self._sign_ins = sign_ins
        self._known: tuple[Stamp | None, SignIn | None] = (None, None)
        # What the sign-in was when a person was needed.
        self._refused_at: Stamp | None = None

    def due(self, retry_at: float) -> float:
        """When the server is to be tried again: at once where somebody may have signed in since it asked for that."""
        return 0.0 if self.needs and self._stamp() != self._refused_at else retry_at

    def _stamp(self) -> Stamp | None:
        return self._sign_ins.stamp(self.server, self.holder)

    async def async_auth_flow(self, request: httpx2.Request) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
        """The request, and once more with a renewed token where the server does not take the first."""
        self.problem, reason = "", "it needs a sign-in"
        stamp = self._stamp()  # whoever signs in from here on did so after what is refused
        sign_in: SignIn | None = None
        try:
            sign_in = await self._current()
        except SignInProblem as problem:
            reason = str(problem)
        if sign_in is not None:  # it may have been renewed
            stamp = self._stamp()
        _add(request, sign_in)
        response = yield request
        if response.status_code == 401 and sign_in is not None:
            reason = "its sign-in has expired or was taken back"
            newer = await self._newer(sign_in) if sign_in.access_token else None
            stamp = self._stamp()
            if newer is not None:
                _add(request, newer)
                response = yield request
        if response.status_code == 401:
            if not self.problem and (sign_in is not None or asks_for_sign_in(response, has_headers=self._has_headers)):
                self._refused_at = stamp
                self.needs = f"{reason}: {self._cure}"
            return
        self.needs = ""
        if response.status_code == 403 and sign_in is not None and _field(response, "error") == "insufficient_scope":
            await self._note_scope(_field(response, "scope"))

    async def _current(self) -> SignIn | None:
        """The sign-in with a token that has not expired, where that can be had."""
        sign_in = await self._read()
        if sign_in is None or sign_in.access_token is None or not self._has_expired(sign_in):
            return sign_in
        return await self._newer(sign_in) or sign_in

    async def _read(self) -> SignIn | None:
        stamp = self._stamp()
        if stamp != self._known[0]:
            self._known = stamp, await self._sign_ins.read(self.server, self.holder)
        return self._known[1]

    def _has_expired(self, sign_in: SignIn) -> bool:
        return sign_in.expires is not None and self._sign_ins.clock() >= sign_in.expires

    async def _newer(self, old: SignIn) -> SignIn | None:
        """The sign-in with another token than this: one that another process was given meanwhile, or a renewed one; None
        where there is none to be had."""
        try:
            async with self._sign_ins.locked(self.server, self.holder):
                now = await self._sign_ins.read(self.server, self.holder)
                if now is None or now.access_token is None:
                    return None
                if now.access_token != old.access_token and not self._has_expired(now):
                    return now
                if not now.refresh_token:
                    return None
                # Nothing may come between the server's new token, which takes the old one back, and its place in the
                # store.
                with anyio.CancelScope(shield=True):
                    return await self._renewed(now)
        except NotNow as problem:
            self.problem = f"its sign-in could not be renewed: {problem}"
        except (OSError, HookSDKError) as problem:
            self.problem = f"its renewed sign-in could not be kept: {problem}"
        return None

    async def _renewed(self, old: SignIn) -> SignIn | None:
        """The same, with the lock. Raises `NotNow` and `StoreError`."""
        try:
            new = await renew(old, self._sign_ins.clock())
        except Ended as ended:
            gone = {"client_id": ""} if ended.client and not old.own_client else {}
            over = {"access_token": None, "refresh_token": None, "expires": None, **gone}
            await self._sign_ins.write(old.model_copy(update=over))
            return None
        self._known = self._known[0], new  # good for this process, whatever becomes of the disk
        await self._sign_ins.write(new)
        return new

    async def _note_scope(self, scope: str) -> None:
        """The server wants more rights for this request: the next sign-in asks for them."""
        rights = f" (scope {scope})" if scope else ""
        self.problem = f"it asks for more rights{rights} than the sign-in has: {self._cure}"
        with contextlib.suppress(OSError, HookSDKError):  # then the person is told all the same
            async with self._sign_ins.locked(self.server, self.holder):
                now = await self._sign_ins.read(self.server, self.holder)
                if now is not None and scope and scope != now.wanted_scope:
                    await self._sign_ins.write(now.model_copy(update={"wanted_scope": scope}))


def _add(request: httpx2.Request, sign_in: SignIn | None) -> None:
    if sign_in is not None and sign_in.access_token:
        request.headers["Authorization"] = f"Bearer {sign_in.access_token}"


def asks_for_sign_in(response: httpx2.Response, *, has_headers: bool) -> bool:
    """True for a refusal that a sign-in may end. One that does not say so may be about a key in another header of the
    entry."""
    challenge = response.headers.get("WWW-Authenticate", "").lower()
    return response.status_code == 401 and (challenge.startswith("bearer") or not (challenge or has_headers))


def _field(response: httpx2.Response, name: str) -> str:
    found = re.search(rf'\b{name}=(?:"([^"]+)"|([^\s,]+))', response.headers.get("WWW-Authenticate", ""))
    return (found[1] or found[2]) if found else ""


class Ended(Exception):
    """The sign-in is over: the person must sign in anew. `client`: the client's registration is gone, too."""

    def __init__(self, *, client: bool) -> None:
        super().__init__()
        self.client = client


class NotNow(Exception):
    """The authorization server could not be asked; the text says why."""


async def renew(sign_in: SignIn, now: float) -> SignIn:
    """The sign-in with a new access token. Raises `Ended` and `NotNow`."""
    fields = {"grant_type": "refresh_token", "refresh_token": sign_in.refresh_token or ""}
    if sign_in.resource:
        fields["resource"] = sign_in.resource
    try:
        response = await _post(sign_in, sign_in.token_endpoint, fields)
    except httpx2.HTTPError as error:
        raise NotNow(type(error).__name__) from None
    if response.status_code in {400, 401}:
        problem = _error_of(response)
        if problem in _ENDED:
            raise Ended(client=problem != "invalid_grant")
    if response.status_code != 200:
        raise NotNow(f"HTTP {response.status_code} {response.reason_phrase}".strip())
    try:
        token = OAuthToken.model_validate_json(response.content)
    except ValidationError:
        raise NotNow("its answer is no token") from None
    return with_token(sign_in, token, now)


def with_token(sign_in: SignIn, token: OAuthToken, now: float) -> SignIn:
    """The sign-in with what a token endpoint has answered. What an answer leaves out stays as it was."""
    return sign_in.model_copy(
        update={
            "access_token": token.access_token,
            "refresh_token": token.refresh_token or sign_in.refresh_token,
            "expires": None if token.expires_in is None else now + token.expires_in,
            "scope": token.scope or sign_in.scope,
        }
    )


async def revoke(sign_in: SignIn) -> str:
    """Tell the authorization server that the sign-in is over. Answers why that was not possible; empty where it was."""
    if not sign_in.revocation_endpoint:
        return "the server has no way to be told"
    for kind, token in (("refresh_token", sign_in.refresh_token), ("access_token", sign_in.access_token)):
        if not token:
            continue
        try:
            fields = {"token": token, "token_type_hint": kind}
            response = await _post(sign_in, sign_in.revocation_endpoint, fields)
        except httpx2.HTTPError as error:
            return f"the server could not be told: {type(error).__name__}"
        if response.status_code != 200:
            return f"the server could not be told: HTTP {response.status_code} {response.reason_phrase}".strip()
    return ""


async def _post(sign_in: SignIn, url: str, fields: dict[str, str]) -> httpx2.Response:
    info = OAuthClientInformationFull.model_validate(
        {
            "client_id": sign_in.client_id,
            "client_secret": sign_in.client_secret,
            "redirect_uris": [sign_in.redirect_uri],
            "token_endpoint_auth_method": sign_in.client_auth,
        }
    )
    metadata = OAuthClientMetadata.model_validate({"redirect_uris": [sign_in.redirect_uri]})
    nothing: Any = None
    context = OAuthContext(sign_in.server, metadata, nothing, None, None, client_info=info)
    data, headers = context.prepare_token_auth({**fields, "client_id": sign_in.client_id}, {})
    async with httpx2.AsyncClient(timeout=_PATIENCE) as client:
        return await client.post(url, data=data, headers=headers)


def _error_of(response: httpx2.Response) -> str:
    try:
        body: Any = json.loads(response.content)
        return str(body.get("error", ""))
    except (ValueError, AttributeError):
        return ""
