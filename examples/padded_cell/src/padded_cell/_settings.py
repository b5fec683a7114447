"""The settings, checked when the host starts: what is wrong with them is to be read then, not by a model later."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated
from urllib.parse import urlsplit

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

PROXY_SCHEMES = ("http", "https", "socks4", "socks4a", "socks5", "socks5h")
PROXY_VARIABLES: Sequence[str] = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy")
NO_PROXY_VARIABLES: Sequence[str] = ("NO_PROXY", "no_proxy")
DIRECT = "localhost,127.0.0.1,::1"
"""This machine itself is reached without the proxy, whatever the environment says."""
_LOGIN = re.compile(r"[A-Za-z0-9._~!$&'()*+,;=:%-]*")
_ASSIGNMENT = re.compile(r"(?:export\s+)?([A-Za-z_][A-Za-z0-9_]*)=(.*)")


def _check_program(text: str) -> str:
    if not text:
        return text
    path = Path(text).expanduser()
    if not path.is_absolute():
        raise ValueError(f"{text!r} is not an absolute path")
    if not path.is_file():
        raise ValueError(f"there is no file {path}")
    if not os.access(path, os.X_OK):
        raise ValueError(f"{path} is not executable. Try: chmod +x {shlex.quote(str(path))}")
    return str(path)


def _check_profile(text: str) -> str:
    if text:
        read_profile(text)
    return text


class Proxy:
    """A proxy of the list, or one that a call names: `http://proxy:3128`, `socks5://127.0.0.1:1080`, `proxy:3128`."""

    def __init__(self, text: str) -> None:
        parts = urlsplit(text if "://" in text else f"http://{text}")
        login, _, _ = parts.netloc.rpartition("@")
        if parts.scheme not in PROXY_SCHEMES:
            raise ValueError(f"its scheme is not one of {', '.join(PROXY_SCHEMES)}")
        if not parts.hostname or parts.path.strip("/") or parts.query or parts.fragment or "\\" in parts.netloc:
            raise ValueError("it is not written as scheme://host:port")
        if parts.port is None:  # programs do not agree on what it would be
            raise ValueError("it names no port")
        if not _LOGIN.fullmatch(login):
            raise ValueError("user and password must be percent-encoded")
        host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
        self.login = login
        self.address = f"{parts.scheme}://{host}:{parts.port}"
        """Without user and password."""
        self.url = f"{parts.scheme}://{login}@{host}:{parts.port}" if login else self.address

    @property
    def variables(self) -> dict[str, str]:
        """What sends a program's requests through it."""
        return dict.fromkeys(PROXY_VARIABLES, self.url) | dict.fromkeys(NO_PROXY_VARIABLES, DIRECT)


def _check_entry(text: str) -> str:
    try:
        proxy = Proxy(text)
    except ValueError as error:
        raise ValueError(f"an entry is no proxy: {error}") from None
    if proxy.login:
        secret = f"{proxy.address.replace('://', '://{{secret:NAME}}@')}"
        raise ValueError(
            f"the entry of {proxy.address} holds a login, which the model would read. Leave it out here; a call gives it as"
            f" {secret}"
        )
    return proxy.address


class Config(BaseModel):
    """What the operator sets; the names are those of the manifest."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    enabled: bool = True
    """False: the tools are withheld from every run."""
    secret_manager: Annotated[str, AfterValidator(_check_program)] = Field(default="", alias="secretMgrPath")
    """A program that tells secrets: `PROGRAM get NAME`."""
    profile: Annotated[str, AfterValidator(_check_profile)] = Field(default="", alias="openclawProfilePath")
    """A file with variables for every command, or a folder with such a file named `.env`."""
    proxies: list[Annotated[str, AfterValidator(_check_entry)]] = Field(default=[], alias="proxyAllowlist")
    """The proxies that `proxy-pcexec` may use; the first one unless a call names another."""


def read_profile(text: str) -> dict[str, str]:
    """The variables of a profile: lines `NAME=value`, quoted as in a shell, `export` before them or not. Nothing is
    run and nothing is expanded. Raises `ValueError`, which quotes no value."""
    path = Path(text).expanduser()
    if path.is_dir():
        path /= ".env"
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise ValueError(f"{path} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise ValueError(f"{path} is not UTF-8 text") from None
    variables: dict[str, str] = {}
    for number, line in enumerate(lines, 1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        assignment = _ASSIGNMENT.fullmatch(line.strip())
        if assignment is None:
            raise ValueError(f"{path}, line {number} is not NAME=value")
        try:
            words = shlex.split(assignment[2], comments=True)
        except ValueError:
            raise ValueError(f"{path}, line {number}: a quote is not closed") from None
        variables[assignment[1]] = " ".join(words)
    return variables
