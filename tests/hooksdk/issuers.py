"""An issuer of access tokens on this machine: its metadata, its keys, and tokens that it signs."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

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
            return {"issuer": self.url, "jwks_uri": f"{self.url}/keys"}
        if path == "/keys":
            return {"keys": [{**json.loads(public(key)), "kid": kid, "use": "sig"} for kid, key in self.keys.items()]}
        return None


def public(key: Any) -> str:
    """The public half as a JSON Web Key."""
    algorithm = RSAAlgorithm if isinstance(key, rsa.RSAPrivateKey) else ECAlgorithm
    return algorithm.to_jwk(key.public_key())


@contextmanager
def issuing() -> Generator[Issuer]:
    """An issuer that listens."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            found = issuer.answer(self.path) if issuer.works else None
            self.send_response(500 if not issuer.works else 200 if found else 404)
            self.end_headers()
            self.wfile.write(json.dumps(found).encode())

        def log_message(self, *_args: Any) -> None:
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
