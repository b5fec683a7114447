"""`url_host`: whether an address leads to a host, for every client that may read it."""

from __future__ import annotations

import ipaddress
import re
import unicodedata
from collections.abc import Iterator, Sequence
from urllib.parse import unquote, urlsplit

from builtin_plugins.tool_policy._conditions import MAX_CHARS, words_of

_LAST_WORDS = {
    "url", "urls", "uri", "uris", "link", "links", "href", "endpoint", "host", "hosts", "hostname", "domain", "domains",
    "site", "website", "address", "server", "origin", "webhook", "callback", "proxy",
}  # fmt: skip
_LABEL = r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?"
_NAME = rf"{_LABEL}(?:\.{_LABEL})*"
_HOST = rf"(?P<host>{_NAME}|\[[0-9a-f:.]+\])(?::(?P<port>\d{{1,5}}))?"
_ADDRESS = re.compile(rf"(?:https?|wss?)://{_HOST}(?P<rest>[/?#][!-~]*)?", re.IGNORECASE)
"""One of the forms that all clients read alike: no user, no blanks, nothing but ASCII, the two slashes written out."""
_BARE = re.compile(_HOST, re.IGNORECASE)


class HostReader:
    """Reads addresses of the web."""

    noun = "an address"
    lists = True
    only_named = False

    def is_named(self, name: str) -> bool:
        """True for `url`, `base_url`, `webhookUrl`."""
        words = words_of(name)
        return bool(words) and words[-1] in _LAST_WORDS

    def resembles(self, text: str) -> bool:
        """True for a text with a scheme or with two slashes at its start."""
        start = text.strip().casefold()
        return start.startswith(("//", "\\\\", "www.")) or bool(re.match(r"[a-z][a-z0-9+.-]*:[/\\]", start))

    def surely(self, text: str, wanted: Sequence[str], workspace: str | None) -> str:  # noqa: ARG002 - the protocol's parameter
        """Why the address does not surely lead to one of the hosts; empty when it does."""
        host = _sure_host(text)
        if host is None:
            return "is not an address that every client reads alike (write https://HOST/PATH)"
        if any(_matches(host, pattern) for pattern in wanted):
            return ""
        return f"leads to {host}, which is none of {', '.join(wanted)}"

    def possibly(self, text: str, wanted: Sequence[str], workspace: str | None, *, named: bool) -> bool:  # noqa: ARG002 - the protocol's parameters
        """True when the text names one of the hosts anywhere, in any spelling, or hides its host in a placeholder."""
        if named and re.search(r"\{\{|\$\{|\$[A-Za-z_]", text):
            return True
        readings = list(_readings(text))
        for pattern in wanted:
            names = _search_for(pattern)
            numbers = _number_of(pattern.strip("[]"))
            for reading in readings:
                if names.search(reading) or (numbers is not None and numbers in _numbers_in(reading)):
                    return True
        return False


def check_host(text: str) -> str:
    """A host as a rule names it: `example.org`, or `*.example.org` for all below it. Raises `ValueError`."""
    host = text.casefold()
    if not host.isascii():
        try:
            encoded = host.encode("idna").decode()
        except UnicodeError:
            encoded = "its punycode"
        raise ValueError(f"'{text}' is not ASCII; addresses hold punycode, so write '{encoded}'")
    if host != "*" and not re.fullmatch(rf"(?:\*\.)?{_NAME}|\[[0-9a-f:.]+\]", host):
        raise ValueError(
            f"'{text}' is not a host; write 'example.org' or '*.example.org', without scheme, port and path"
        )
    return host


def _sure_host(text: str) -> str | None:
    """The host, where every reader of addresses finds the same; else None."""
    address = _ADDRESS.fullmatch(text) or _BARE.fullmatch(text)
    if address is None or len(text) > MAX_CHARS or int(address["port"] or 1) not in range(1, 65536):
        return None
    rest = address.groupdict().get("rest") or ""
    # Old clients look for the user's name up to the last @, whatever comes before it; and \ is a slash for browsers.
    if "\\" in rest or (rest[:1] in {"?", "#"} and "@" in rest):
        return None
    host = str(address["host"]).casefold()
    if "://" in text and (urlsplit(text).hostname or "") != host.strip("[]"):
        return None
    return host


def _matches(host: str, pattern: str) -> bool:
    if pattern.startswith("*."):
        return host.endswith(pattern[1:]) and len(host) > len(pattern) - 1
    return pattern in {"*", host}


def _readings(text: str) -> Iterator[str]:
    """The text as clients clean it up: without control characters, decoded, in one width, as punycode."""
    visible = text
    if not (text.isascii() and text.isprintable()):
        visible = "".join(char for char in text if unicodedata.category(char) not in {"Cc", "Cf", "Zl", "Zp"})
    for one in dict.fromkeys((text, visible, unquote(unquote(visible)))):
        reading = unicodedata.normalize("NFKC", one).casefold().replace("\N{IDEOGRAPHIC FULL STOP}", ".")
        yield reading
        if not reading.isascii():
            yield re.sub(r"[^\s/@:?#\\]+", _punycode, reading)


def _punycode(match: re.Match[str]) -> str:
    if match[0].isascii() or len(match[0]) > MAX_CHARS:
        return match[0]
    try:
        return match[0].strip(".").encode("idna").decode()
    except UnicodeError:
        return match[0]


def _search_for(pattern: str) -> re.Pattern[str]:
    if pattern == "*":
        return re.compile(r"://|^//|[a-z0-9]\.[a-z]")
    above = r"(?<![\w.-])(?:[\w-]+\.)+" if pattern.startswith("*.") else r"(?<![\w.-])"
    return re.compile(above + re.escape(pattern.removeprefix("*.")) + r"(?!\.?[\w-])")


def _number_of(host: str) -> int | None:
    """An IP address as a number, in any of the spellings that the C library reads; None for another text."""
    if ":" not in host:
        return _old_number_of(host)
    try:
        address = ipaddress.IPv6Address(host)
    except ValueError:
        return None
    return int(address.ipv4_mapped or address)


def _old_number_of(host: str) -> int | None:
    """`127.1`, `0x7f000001`, `017700000001`, `2130706433`."""
    parts = host.rstrip(".").split(".")
    if len(parts) > 4 or not all(re.fullmatch(r"0x[0-9a-f]*|\d+", part) for part in parts):
        return None
    try:
        numbers = [_c_number(part) for part in parts]
    except ValueError:
        return None
    *upper, last = numbers
    if any(number > 255 for number in upper) or last >= 256 ** (5 - len(parts)):
        return None
    return sum(number << (24 - 8 * at) for at, number in enumerate(upper)) + last


def _c_number(part: str) -> int:
    if part.startswith("0x"):
        return int(part[2:] or "0", 16)
    return int(part, 8) if part.startswith("0") else int(part)


def _numbers_in(reading: str) -> set[int]:
    tokens = {*re.findall(r"(?<![0-9a-z])\d[0-9a-fx.]*", reading), *re.findall(r"\[([0-9a-f:.]+)\]", reading)}
    return {number for token in tokens if len(token) <= 60 and (number := _number_of(token)) is not None}
