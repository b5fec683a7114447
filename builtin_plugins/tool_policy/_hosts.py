"""`url_host`: whether an address leads to a host, for every client that may read it."""

from __future__ import annotations

import ipaddress
import re
import unicodedata
from collections.abc import Iterator, Sequence
from urllib.parse import unquote, urlsplit

from builtin_plugins.tool_policy._conditions import MAX_CHARS, Reader, Words, words_of
from builtin_plugins.tool_policy._lines import texts_in
from builtin_plugins.tool_policy._tables import HOST_NAMES

_LABEL = r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?"
_NAME = rf"{_LABEL}(?:\.{_LABEL})*"
_HOST = rf"(?P<host>{_NAME}|\[[0-9a-f:.]+\])(?::(?P<port>\d{{1,5}}))?"
# One of the forms that all clients read alike: no user, no blanks, nothing but ASCII, the two slashes written out.
_ADDRESS = re.compile(rf"(?:https?|wss?)://{_HOST}(?P<rest>[/?#][!-~]*)?", re.IGNORECASE)
_BARE = re.compile(_HOST, re.IGNORECASE)
# Before an IPv4 address at the end of an IPv6 one: NAT64, translated, compatible.
_PREFIXES = (0x64FF9B << 64, 0xFFFF << 16, 0)
# Added to the number of an IPv6 address, so that ::1 is not 0.0.0.1.
_IPV6 = 1 << 128
_LOOPBACK_NAMES = frozenset({"localhost", "*.localhost", "[::1]", "[::]"})
# All of them lead to the machine itself, so who denies one denies all.
_LOCALHOST = re.compile(r"(?<![\w-])localhost(?:\.localdomain)?(?!\.?[\w-])")


class HostReader(Reader):
    """Reads addresses of the web."""

    noun = "an address"

    def is_named(self, name: str) -> bool:
        """True for `url`, `base_url`, `webhookUrl`."""
        words = words_of(name)
        return bool(words) and words[-1] in HOST_NAMES

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
        numbers = set[int]().union(*map(_numbers_in, readings))
        for pattern in wanted:
            names = _search_for(pattern)
            own = _numbers_of(pattern.strip("[]"))
            if any(map(names.search, readings)) or own & numbers:
                return True
            if (pattern in _LOOPBACK_NAMES or any(map(_is_loopback, own))) and any(
                _leads_here(reading, named) for reading in readings
            ):
                return True
        return False

    def in_line(self, line: str, wanted: Sequence[str], workspace: str | None) -> bool:
        """True when a word of the line, without its quotes, names one of the hosts."""
        return self.in_words(Words(list(texts_in(line)), ()), wanted, workspace)

    def in_words(self, words: Words, wanted: Sequence[str], workspace: str | None) -> bool:
        """The same of the words of one command."""
        return self.possibly(" ".join(dict.fromkeys(words.texts)), wanted, workspace, named=False)


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
    unquoted = re.sub(r"""["'\\]""", "", visible)  # as a shell does
    for one in dict.fromkeys((text, visible, unquote(unquote(visible)), unquoted)):
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


def _numbers_of(host: str) -> set[int]:
    """An IP address as numbers, in any of the spellings that some client reads; none for another text. An IPv6 address
    that leads to an IPv4 one is both."""
    if ":" not in host:
        return _old_numbers_of(host)
    try:
        address = ipaddress.IPv6Address(host.partition("%")[0])
    except ValueError:
        return set()
    number = int(address)
    inner = {int(one) for one in (address.ipv4_mapped, address.sixtofour, *(address.teredo or ())) if one is not None}
    if number > 0xFFFF and any(number >> 32 == prefix for prefix in _PREFIXES):
        inner.add(number & 0xFFFFFFFF)
    return inner or {number + _IPV6}


def _old_numbers_of(host: str) -> set[int]:
    """`127.1`, `0x7f000001`, `2130706433`, and `0177.0.0.1`, which some clients read as `177.0.0.1`."""
    parts = host.rstrip(".").split(".")
    if len(parts) > 4 or not all(re.fullmatch(r"0x[0-9a-f]*|\d+", part) for part in parts):
        return set()
    numbers = set[int]()
    for octal in (True, False):
        try:
            *upper, last = [_c_number(part, octal=octal) for part in parts]
        except ValueError:
            continue
        if all(number <= 255 for number in upper) and last < 256 ** (5 - len(parts)):
            numbers.add(sum(number << (24 - 8 * at) for at, number in enumerate(upper)) + last)
    return numbers


def _c_number(part: str, *, octal: bool) -> int:
    if part.startswith("0x"):
        return int(part[2:] or "0", 16)
    return int(part, 8) if octal and part.startswith("0") else int(part)


def _is_loopback(number: int) -> bool:
    """True for 127.0.0.0/8 and ::1, and for the address of no machine, which leads to this one."""
    return number >> 24 == 127 or number in {0, _IPV6, _IPV6 + 1}


def _leads_here(reading: str, named: bool) -> bool:
    """Whether a text names this machine. A number such as 127.5 counts only where a host stands."""
    hosts = re.findall(r"//(?:[^/?#\s@]*@)?(\[[^\]]*\]|[^/?#\s:]*)", reading)
    hosts += re.findall(r"(?<![\w.:-])(?:[\da-fx]+(?:\.[\da-fx]+){3}|::1?)(?![\w.:-])|\[::1?\]", reading)
    if named:
        hosts.append(re.sub(r":\d*$", "", reading) if reading.count(":") == 1 else reading)
    numbers = set[int]().union(*(_numbers_of(host.strip("[]")) for host in hosts if len(host) <= 60))
    return any(map(_is_loopback, numbers)) or _LOCALHOST.search(reading) is not None


def _numbers_in(reading: str) -> set[int]:
    tokens = {
        *re.findall(r"(?<![0-9a-z])\d[0-9a-fx.]*", reading),
        *re.findall(r"\[([0-9a-f:.]+(?:%[\w.-]+)?)\]", reading),
        *re.findall(r"(?<![0-9a-z:.])[0-9a-f]{0,4}(?::[0-9a-f]{0,4}){2,7}(?:[\d.]{4,15})?(?![0-9a-z:])", reading),
    }
    return set[int]().union(*(_numbers_of(token) for token in tokens if len(token) <= 60))
