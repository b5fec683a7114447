"""What is asked of an authorization server without a person: a new token for an old one, and an end."""

from __future__ import annotations

import json
from typing import Any

import httpx2
from mcp.client.auth.oauth2 import OAuthContext
from mcp.shared.auth import OAuthClientInformationFull, OAuthClientMetadata, OAuthToken
from pydantic import ValidationError

from hooksdk.mcp.sign_in._store import SignIn

# Seconds for an authorization server's answer.
_PATIENCE = 15.0
# What a refresh is refused with that no later one would mend.
_ENDED = ("invalid_grant", "invalid_client", "unauthorized_client")


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
            "access_token": token.access_token, "refresh_token": token.refresh_token or sign_in.refresh_token,
            "expires": None if token.expires_in is None else now + token.expires_in, "scope": token.scope or sign_in.scope,
        }
    )  # fmt: skip


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
    info = OAuthClientInformationFull.model_validate({
        "client_id": sign_in.client_id, "client_secret": sign_in.client_secret, "redirect_uris": [sign_in.redirect_uri],
        "token_endpoint_auth_method": sign_in.client_auth,
    })  # fmt: skip
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
