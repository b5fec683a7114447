"""An issuer of access tokens on this machine: its metadata, its keys, and tokens that it signs."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from jwt.algorithms import ECAlgorithm, RSAAlgorithm

RESOURCE = "https://tools.example.org/mcp"


class Issuer:
    """Signs tokens, and shows its public keys at the address that it says."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.keys: dict[str, Any] = {}
        self.works = True
        self.asked: list[str] = []
        """The paths that were fetched."""
        self.rotate("first")

    def rotate(self, kid: str, algorithm: str = "RS256") -> None:
        """Only this key counts from now on."""
        key = (
            rsa.generate_private_key(public_exponent=65537, key_size=2048)
            if algorithm == "RS256"
            else ec.generate_private_key(ec.SECP256R1())
        )
        self.keys = {kid: key}

    def token(self, kid: str | None = None, *, algorithm: str = "RS256", key: Any = None, **claims: Any) -> str:
        """A token of ann for the gateway, for an hour; a claim that is None is left out."""
        now = int(time.time())
        said = {"iss": self.url, "aud": RESOURCE, "sub": "user-1", "exp": now + 3600, "iat": now, **claims}
        name = kid or next(iter(self.keys))
        return jwt.encode(
            {claim: value for claim, value in said.items() if value is not None},
            key if key is not None else self.keys[name], algorithm=algorithm, headers={"kid": name},
        )  # fmt: skip

    def answer(self, path: str) -> dict[str, Any] | None:
        self.asked.append(path)
        if path == "/.well-known/openid-configuration":
            pages = {"jwks_uri": "keys", "authorization_endpoint": "authorize", "token_endpoint": "token"}
            return {
                "issuer": self.url, **{name: f"{self.url}/{page}" for name, page in pages.items()},
                "response_types_supported": ["code"], "code_challenge_methods_supported": ["S256"],
            }  # fmt: skip
        if path == "/keys":
            return {"keys": [{**json.loads(public(key)), "kid": kid, "use": "sig"} for kid, key in self.keys.items()]}
        return None


def public(key: Any) -> str:
    """The public half as a JSON Web Key."""
    if isinstance(key, rsa.RSAPrivateKey):
        return RSAAlgorithm.to_jwk(key.public_key())
    return ECAlgorithm.to_jwk(key.public_key())


@contextmanager
def issuing() -> Generator[Issuer]:
    """An issuer that listens."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            path, _, query = self.path.partition("?")
            if path == "/authorize":  # everybody is ann, and says yes
                asked = dict(parse_qsl(query))
                self.send_response(302)
                self.send_header("Location", f"{asked['redirect_uri']}?code=c1&state={asked['state']}")
                self.end_headers()
                return
            self.reply(issuer.answer(path) if issuer.works else None)

        def do_POST(self) -> None:
            asked = dict(parse_qsl(self.rfile.read(int(self.headers["Content-Length"])).decode()))
            issuer.asked.append(f"{self.path} {asked['code']} {asked['resource']}")
            token = issuer.token(aud=asked["resource"])
            self.reply({"access_token": token, "token_type": "Bearer", "expires_in": 3600})

        def reply(self, found: dict[str, Any] | None) -> None:
            self.send_response(500 if not issuer.works else 200 if found else 404)
            self.send_header("Content-Type", "application/json")
            self.end_headers()
            self.wfile.write(json.dumps(found).encode())

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
            """Tests are quiet."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    issuer = Issuer(f"http://127.0.0.1:{server.server_port}")
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield issuer
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
