"""Scopes: a server has one process for all of a gateway's clients, one for each token, or one for each session."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePath
from typing import Literal, get_args

# One process for each session of a client, for each token (over stdio there is one user, `local`), or for the whole
# gateway.
Scope = Literal["session", "token", "gateway"]
SCOPES: Sequence[Scope] = get_args(Scope)
# The holder of calls of which nothing else is known: the user of this process.
LOCAL = "local"


@dataclass(frozen=True, kw_only=True)
class ScopeKey:
    """The clients that a connection is for.

    Attributes:
        holder: The name of a token, or `local`.
        session: The id of a session that has the process for itself; empty where it is for all sessions of the holder.
    """

    holder: str = LOCAL
    session: str = ""

    def is_of(self, holder: str, session: str) -> bool:
        """True where the calls of this client's session go to the connection."""
        return self.holder in {"", holder} and self.session in {"", session}


# The key of connections that were opened without a client's call.
NOBODY = ScopeKey()
# The key of connections that all clients share.
EVERYBODY = ScopeKey(holder="")

_PLACEHOLDER = re.compile(r"\{\{\s*secret:")
# Words in the names of variables that hold credentials, such as GITHUB_TOKEN or OPENAI_API_KEY.
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
# A user and a password in an address, such as a database's.
_ADDRESS = re.compile(r"\w+://[^\s/@:]*:[^\s/@]+@")
# Words in the names of programs and packages of browsers: @playwright/mcp, chrome-devtools-mcp. Clients that share such
# a process are signed in wherever one of them is. A program that only looks like one loses nothing but a shared
# process.
_BROWSER = re.compile(r"playwright|puppeteer|selenium|chrome|browser", re.IGNORECASE)


def asks_secrets(texts: Iterable[str]) -> bool:
    """True where one of the texts has a placeholder `{{secret:NAME}}`."""
    return any(_PLACEHOLDER.search(text) for text in texts)


def default_scope(url: str, command: str, args: Sequence[str], env: Mapping[str, str]) -> Scope:
    """The scope of an entry that names none. Each token has its own process where a shared one would let a user act
    as another: on a hosted server, with a credential in the environment or an address, and with a browser."""
    holds_credential = (
        any(_CREDENTIAL & set(re.split(r"[^A-Z]+", name.upper())) for name in env)
        or asks_secrets(env.values())
        or any(_ADDRESS.search(text) for text in (*args, *env.values()))
    )
    return "token" if url or holds_credential or any(map(_BROWSER.search, _programs(command, args))) else "gateway"


def _programs(command: str, args: Sequence[str]) -> Iterable[str]:
    """The names of programs that an entry may run: the command, and the packages and files among its arguments,
    without folders."""
    for word in (command, *(word for word in args if not word.startswith("-"))):
        yield word if word.startswith("@") else PurePath(word).name
