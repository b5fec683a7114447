"""A hosted MCP server with an authorization server of its own, on loopback: authorization code with PKCE, dynamic registration,
refresh tokens that rotate, revocation. Its clock stands still unless a test moves it."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import secrets
import socket
import threading
from base64 import b64decode
from collections import Counter
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.error import HTTPError
from urllib.parse import parse_qsl, unquote, urlencode
from urllib.request import urlopen

import anyio.to_thread
import httpx2
import uvicorn
from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.routing import Route

WHOAMI = {"name": "whoami", "description": "Says whose token it is.", "inputSchema": {"type": "object"}}


@dataclass
class HostedServer:
    """What it is told to do, and what was done there."""

    now: float = 1_000_000.0
    """Its clock, in seconds."""
    token_seconds: int | None = 3600
    refreshes: bool = True
    """It gives refresh tokens, each for one use: a second use ends the sign-in."""
    registers: bool = True
    revokes: bool = True
    challenges: bool = True
    """Its refusals say that a sign-in would help."""
    open_to_all: bool = False
    """It answers without a token, too."""
    person: str = "ann"
    """Who sits before the browser; empty: somebody who says no."""
    token_status: int = 0
    """What its token endpoint answers instead of tokens, such as 503."""
    gate: threading.Event = field(default_factory=threading.Event)
    """Its token endpoint answers only while this is set."""
    wanted_scope: str = ""
    """Without it calls of tools are refused."""
    clients: dict[str, dict[str, Any]] = field(default_factory=dict[str, dict[str, Any]])
    seen: Counter[str] = field(default_factory=Counter[str])
    """How often each thing happened."""
    asked: list[dict[str, str]] = field(default_factory=list[dict[str, str]])
    """What pages for signing in were opened with."""
    url: str = ""
    _codes: dict[str, dict[str, Any]] = field(default_factory=dict[str, dict[str, Any]])
    _access: dict[str, dict[str, Any]] = field(default_factory=dict[str, dict[str, Any]])
    _refresh: dict[str, dict[str, Any]] = field(default_factory=dict[str, dict[str, Any]])
    _ended: set[str] = field(default_factory=set[str])
    """Sign-ins that are over."""

    @property
    def mcp_url(self) -> str:
        return f"{self.url}/mcp"

    @property
    def secrets(self) -> list[str]:
        """Everything that nobody may show."""
        return [
            *self._codes,
            *self._access,
            *self._refresh,
            *(one.get("client_secret") or "-" for one in self.clients.values()),
        ]

    def entry(self, **more: Any) -> dict[str, Any]:
        return {"url": self.mcp_url, **more}

    def app(self) -> Starlette:
        return Starlette(
            routes=[
                Route("/mcp", self._mcp, methods=["POST", "GET", "DELETE"]),
                Route("/.well-known/oauth-protected-resource/mcp", self._resource),
                Route("/.well-known/oauth-authorization-server", self._metadata),
                Route("/register", self._register, methods=["POST"]),
                Route("/authorize", self._authorize),
                Route("/token", self._token, methods=["POST"]),
                Route("/revoke", self._revoke, methods=["POST"]),
            ]
        )

    async def _mcp(self, request: Request) -> Response:
        token = request.headers.get("authorization", "").removeprefix("Bearer ")
        owner = self._access.get(token)
        if owner is not None and (owner["family"] in self._ended or (owner["until"] or self.now + 1) <= self.now):
            owner = None
        if owner is None and not self.open_to_all:
            self.seen["refused"] += 1
            about = f"{self.url}/.well-known/oauth-protected-resource/mcp"
            if not self.challenges:
                return Response(status_code=401)
            return Response(status_code=401, headers={"WWW-Authenticate": f'Bearer resource_metadata="{about}"'})
        if request.method != "POST":
            return Response(status_code=405)
        try:
            message: dict[str, Any] = await request.json()
        except ClientDisconnect:
            return Response()
        if "id" not in message:
            return Response(status_code=202)
        return self._answer(message, owner or {"person": "nobody", "scope": ""})

    def _answer(self, message: dict[str, Any], owner: dict[str, Any]) -> Response:
        method, params = message["method"], message.get("params", {})
        if method == "tools/call" and self.wanted_scope and self.wanted_scope not in owner["scope"].split():
            challenge = f'Bearer error="insufficient_scope", scope="{self.wanted_scope}"'
            return Response(status_code=403, headers={"WWW-Authenticate": challenge})
        results: dict[str, Any] = {
            "initialize": {
                "protocolVersion": params.get("protocolVersion"), "capabilities": {"tools": {}},
                "serverInfo": {"name": "hosted", "version": "1"},
            },
            "tools/list": {"tools": [WHOAMI]},
            "tools/call": {"content": [{"type": "text", "text": owner["person"]}]},
            "ping": {},
        }  # fmt: skip
        self.seen[method] += 1
        answer: dict[str, Any] = {"jsonrpc": "2.0", "id": message["id"]}
        known = method in results
        return JSONResponse(
            answer | ({"result": results[method]} if known else {"error": {"code": -32601, "message": "unknown"}})
        )

    async def _resource(self, _request: Request) -> Response:
        return JSONResponse({
            "resource": self.mcp_url, "authorization_servers": [self.url], "scopes_supported": ["read"],
        })  # fmt: skip

    async def _metadata(self, _request: Request) -> Response:
        self.seen["metadata"] += 1
        return JSONResponse({
            "issuer": self.url, "authorization_endpoint": f"{self.url}/authorize", "token_endpoint": f"{self.url}/token",
            **({"registration_endpoint": f"{self.url}/register"} if self.registers else {}),
            **({"revocation_endpoint": f"{self.url}/revoke"} if self.revokes else {}),
            "response_types_supported": ["code"], "code_challenge_methods_supported": ["S256"],
        })  # fmt: skip

    async def _register(self, request: Request) -> Response:
        self.seen["registered"] += 1
        client = {**await request.json(), "client_id": f"client-{len(self.clients) + 1}"}
        client["client_secret"], client["token_endpoint_auth_method"] = secrets.token_urlsafe(16), "client_secret_post"
        self.clients[client["client_id"]] = client
        return JSONResponse(client, 201)

    async def _authorize(self, request: Request) -> Response:
        self.seen["page"] += 1
        fields = dict(request.query_params)
        self.asked.append(fields)
        client = self.clients.get(fields["client_id"])
        if client is None or fields["redirect_uri"] not in client["redirect_uris"]:
            return Response("Redirect URI not registered", 400)
        if fields["code_challenge_method"] != "S256" or fields["resource"] != self.mcp_url:
            return Response("PKCE and the resource are needed", 400)
        answer = {"state": fields["state"], "iss": self.url}
        if not self.person:
            return _go(fields["redirect_uri"], answer | {"error": "access_denied", "error_description": "not today"})
        code = secrets.token_urlsafe(12)
        self._codes[code] = {**fields, "person": self.person}
        return _go(fields["redirect_uri"], answer | {"code": code})

    async def _token(self, request: Request) -> Response:
        fields = dict(parse_qsl((await request.body()).decode()))
        self.seen["token asked"] += 1
        if self.token_status:
            return Response(status_code=self.token_status)
        client = self._client(request, fields)
        if client is None:
            return JSONResponse({"error": "invalid_client"}, 401)
        if fields["grant_type"] == "refresh_token":
            return await self._refreshed(fields)
        grant = self._codes.pop(fields["code"], None)
        challenge = (
            base64.urlsafe_b64encode(hashlib.sha256(fields["code_verifier"].encode()).digest()).decode().rstrip("=")
        )
        if grant is None or challenge != grant["code_challenge"] or fields["redirect_uri"] != grant["redirect_uri"]:
            return JSONResponse({"error": "invalid_grant"}, 400)
        self.seen["signed in"] += 1
        owner = {"person": grant["person"], "scope": grant.get("scope", ""), "family": secrets.token_hex(4)}
        return JSONResponse(self._tokens(owner))

    def _client(self, request: Request, fields: dict[str, str]) -> dict[str, Any] | None:
        """The client that shows its secret, in one of the two ways."""
        header = request.headers.get("authorization", "")
        if header.startswith("Basic "):
            name, _, secret = b64decode(header.removeprefix("Basic ")).decode().partition(":")
            name, secret = unquote(name), unquote(secret)
        else:
            name, secret = fields.get("client_id", ""), fields.get("client_secret", "")
        client = self.clients.get(name)
        return client if client is not None and (client.get("client_secret") or "") == secret else None

    async def _refreshed(self, fields: dict[str, str]) -> Response:
        old = self._refresh.get(fields["refresh_token"])
        if old is None or old["family"] in self._ended:
            return JSONResponse({"error": "invalid_grant"}, 400)
        if old["used"]:  # whoever has it besides may be a thief
            self.seen["used twice"] += 1
            self._ended.add(old["family"])
            return JSONResponse({"error": "invalid_grant"}, 400)
        old["used"] = True
        self.seen["refreshed"] += 1
        answer = self._tokens(old)
        while not self.gate.is_set():
            await asyncio.sleep(0.01)
        return JSONResponse(answer)

    def _tokens(self, owner: dict[str, Any]) -> dict[str, Any]:
        access, refresh = f"access-{secrets.token_urlsafe(12)}", f"refresh-{secrets.token_urlsafe(12)}"
        until = None if self.token_seconds is None else self.now + self.token_seconds
        self._access[access] = {**owner, "until": until}
        answer: dict[str, Any] = {"access_token": access, "token_type": "Bearer"}
        if self.token_seconds is not None:
            answer["expires_in"] = self.token_seconds
        if self.refreshes:
            self._refresh[refresh] = {**owner, "used": False}
            answer["refresh_token"] = refresh
        return answer

    async def _revoke(self, request: Request) -> Response:
        fields = dict(parse_qsl((await request.body()).decode()))
        if self._client(request, fields) is None:
            return JSONResponse({"error": "invalid_client"}, 401)
        self.seen["revoked"] += 1
        owner = self._refresh.get(fields["token"]) or self._access.get(fields["token"])
        if owner is not None:
            self._ended.add(owner["family"])
        return Response()

    def end_all(self) -> None:
        """Every sign-in is over, as when the person takes back what they allowed."""
        self._ended |= {one["family"] for one in self._access.values()}

    def forget_tokens(self) -> None:
        """The access tokens expire at once, whatever was said of them."""
        for one in self._access.values():
            one["until"] = self.now


def _go(address: str, fields: dict[str, str]) -> Response:
    return RedirectResponse(f"{address}?{urlencode(fields)}")


@contextmanager
def hosted(**settings: Any) -> Generator[HostedServer]:
    """The server, listening."""
    server = HostedServer(**settings)
    server.gate.set()
    with socket.create_server(("127.0.0.1", 0)) as listener:
        server.url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        runner = uvicorn.Server(uvicorn.Config(server.app(), log_config=None, access_log=False, lifespan="off"))
        thread = threading.Thread(target=lambda: asyncio.run(runner.serve(sockets=[listener])), daemon=True)
        thread.start()
        try:
            yield server
        finally:
            runner.should_exit = True
            thread.join()


class Browser:
    """A person's browser: it goes where it is led."""

    def __init__(self) -> None:
        self.pages: list[str] = []
        self.last = ""
        """What the last page said."""

    async def __call__(self, url: str) -> None:
        self.pages.append(url)
        self.last = await anyio.to_thread.run_sync(_visit, url)


def _visit(url: str) -> str:
    """It writes no log, in which a test would find what it must not."""
    try:
        with urlopen(url, timeout=30) as answer:
            return answer.read().decode()
    except HTTPError as error:
        with error:
            return error.read().decode()


async def pasted(url: str) -> str:
    """The address that a browser elsewhere is sent to."""
    async with httpx2.AsyncClient(timeout=60) as client:
        return (await client.get(url)).headers["location"]
