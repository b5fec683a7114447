"""Whose process a server is: one for all who call it, one for each who signs in, or one for each of their sessions."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePath
from typing import Literal, get_args

Scope = Literal["session", "token", "gateway"]
"""One process for each session of a client, for each token (over stdio there is one user, `local`), or for the whole gateway."""
SCOPES: Sequence[Scope] = get_args(Scope)
LOCAL = "local"
"""Who calls where nobody says who it is: the user of this process."""


@dataclass(frozen=True, kw_only=True)
class ScopeKey:
    """Whose a connection is."""

    holder: str = LOCAL
    """The name of a token, or `local`."""
    session: str = ""
    """The id of a client's session, where the process is this session's alone."""

    def is_of(self, holder: str, session: str) -> bool:
        """True where this client's calls go to the connection."""
        return self.holder in {"", holder} and self.session in {"", session}


NOBODY = ScopeKey()
"""Of a connection that no client's call has brought about."""
EVERYBODY = ScopeKey(holder="")
"""Of one that all clients share."""

_PLACEHOLDER = re.compile(r"\{\{\s*secret:")
_CREDENTIAL = {
    "APIKEY",
    "AUTH",
    "AUTHORIZATION",
    "COOKIE",
    "CREDENTIAL",
    "CREDENTIALS",
    "DSN",
    "KEY",
    "LOGIN",
    "PASS",
    "PASSWD",
    "PASSWORD",
    "PAT",
    "SECRET",
    "TOKEN",
}
"""Words in names of variables, such as GITHUB_TOKEN or OPENAI_API_KEY."""
_ADDRESS = re.compile(r"\w+://[^\s/@:]*:[^\s/@]+@")
"""A user and a password in an address, such as a database's."""
_BROWSER = re.compile(r"playwright|puppeteer|selenium|chrome|browser", re.IGNORECASE)
"""In the names of programs and packages: @playwright/mcp, chrome-devtools-mcp. Whoever shares such a process is signed in where
the other is. One that is no browser loses nothing but a shared process."""


def asks_secrets(texts: Iterable[str]) -> bool:
    """True where one of the texts has a placeholder `{{secret:NAME}}`."""
    return any(_PLACEHOLDER.search(text) for text in texts)


def default_scope(url: str, command: str, args: Sequence[str], env: Mapping[str, str]) -> Scope:
    """The scope of an entry that says none: each token has its own process where one user's would be the other's: signed in
    to a hosted server, with a key in the environment or an address, or with a browser."""
    holds_credential = (
        any(_CREDENTIAL & set(re.split(r"[^A-Z]+", name.upper())) for name in env)
        or asks_secrets(env.values())
        or any(_ADDRESS.search(text) for text in (*args, *env.values()))
    )
    return "token" if url or holds_credential or any(map(_BROWSER.search, _programs(command, args))) else "gateway"


def _programs(command: str, args: Sequence[str]) -> Iterable[str]:
    """The names of what may be run: of the command, and of the packages and files that it is told, without their folders."""
    for word in (command, *(word for word in args if not word.startswith("-"))):
        yield word if word.startswith("@") else PurePath(word).name
