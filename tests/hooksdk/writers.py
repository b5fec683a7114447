"""How servers and programs write a value: each writer as a function of it."""

from __future__ import annotations

import base64
import csv
import html
import io
import json
import quopri
import shlex
import textwrap
from collections.abc import Callable
from urllib.parse import quote, quote_plus

Writer = Callable[[str], str]


def in_json(value: str) -> str:
    return json.dumps(value)[1:-1]


def replacing(signs: str, write: Callable[[str], str], before: Writer = str) -> Writer:
    """Writes some signs of what `before` makes of the value in another way."""
    return lambda value: "".join(write(char) if char in signs else char for char in before(value))


def in_csv(value: str) -> str:
    file = io.StringIO()
    csv.writer(file, quoting=csv.QUOTE_ALL).writerow([value])
    return file.getvalue().strip()


def small_hex(value: str) -> str:
    parts = quote(value, safe="").split("%")
    return "%".join([parts[0], *(part[:2].lower() + part[2:] for part in parts[1:])])


def halves(char: str) -> list[str]:
    """The numbers of UTF-16 that a character is: two beyond 65535."""
    digits = char.encode("utf-16-be").hex()
    return [digits[at : at + 4] for at in range(0, len(digits), 4)]


def four_digits(value: str) -> str:
    digits = value.encode().hex()
    return " ".join(digits[at : at + 4] for at in range(0, len(digits), 4))


def xxd(value: str) -> str:
    """As `xxd` prints it."""
    raw = value.encode()
    lines: list[str] = []
    for at in range(0, len(raw), 16):
        row = raw[at : at + 16]
        digits = " ".join(row[two : two + 2].hex() for two in range(0, len(row), 2))
        lines.append(f"{at:08x}: {digits:<39}  {_shown(row)}\n")
    return "".join(lines)


def hexdump(value: str) -> str:
    """As `hexdump -C` prints it."""
    raw = value.encode()
    lines: list[str] = []
    for at in range(0, len(raw), 16):
        row = raw[at : at + 16]
        halves = "  ".join(half.hex(" ") for half in (row[:8], row[8:]) if half)
        lines.append(f"{at:08x}  {halves:<49} |{_shown(row)}|\n")
    return "".join(lines)


def _shown(row: bytes) -> str:
    return "".join(chr(code) if 32 <= code < 127 else "." for code in row)


LISTED: dict[str, Writer] = {
    "as it is": str,
    "JSON": in_json,
    "JSON of PHP": replacing("/", lambda char: rf"\{char}", in_json),
    "JSON of .NET": replacing("+&<>'\"", lambda char: f"\\u{ord(char):04X}", lambda value: value.replace("\\", r"\\")),
    "JSON of Go": replacing("<>&", lambda char: f"\\u{ord(char):04x}", in_json),
    "HTML of Python": html.escape,
    "HTML of Django": lambda value: html.escape(value).replace("&#x27;", "&#39;"),
    "HTML of PHP": lambda value: html.escape(value).replace("&#x27;", "&#039;"),
    "HTML of Go": replacing("\"'+", lambda char: f"&#{ord(char)};", lambda value: html.escape(value, quote=False)),
    "encodeURIComponent": lambda value: quote(value, safe="-_.!~*'()"),
    "encodeURI": lambda value: quote(value, safe="-_.!~*'();/?:@&=+$,#"),
    "form": quote_plus,
    "URL with small hex": small_hex,
    "URL twice": lambda value: quote(quote(value, safe=""), safe=""),
    "shell": shlex.quote,
    "Python": repr,
    "bytes of Python": lambda value: repr(value.encode()),
    "SQL": lambda value: "'" + value.replace("'", "''") + "'",
    "YAML and TOML": lambda value: "'" + value.replace("'", "''") + "'",
    "CSV": in_csv,
    "attribute of XML": replacing('&<"', lambda char: {"&": "&amp;", "<": "&lt;", '"': "&quot;"}[char]),
    "hex in groups of four": four_digits,
    "hex with colons": lambda value: value.encode().hex(":"),
    "header of curl -v": lambda value: f"> Authorization: Bearer {value}\n",
    "line of a diff": lambda value: f"+TOKEN={value}\n-TOKEN=none\n",
}
"""Spellings that a reviewer of another version listed, 14 of which it did not find."""

OTHERS: dict[str, Writer] = {
    "JSON in JSON": lambda value: in_json(in_json(value)),
    "JSON in JSON in an address": lambda value: quote(in_json(in_json(value)), safe=""),
    "every character for HTML": lambda value: "".join(f"&#x{ord(char):x};" for char in value),
    "every character for JavaScript": lambda value: "".join(f"\\x{code:02x}" for code in value.encode()),
    "octal": lambda value: "".join(f"\\{code:03o}" for code in value.encode()),
    "escape() of old JavaScript": lambda value: "".join(
        char if char.isascii() and char.isalnum() else f"%u{'%u'.join(halves(char))}" for char in value
    ),
    "Rust and PHP": lambda value: "".join(f"\\u{{{ord(char):x}}}" if not char.isalnum() else char for char in value),
    "printf %q": lambda value: "".join(char if char.isalnum() or char in "\r\n" else f"\\{char}" for char in value),
    "Markdown": replacing("\\`*_{}[]()#+-.!|<>", lambda char: f"\\{char}"),
    "mail": lambda value: quopri.encodestring(f"KEY={value}".encode(), quotetabs=True).decode(),
    "base64": lambda value: base64.b64encode(value.encode()).decode(),
    "base64 with a user's name": lambda value: base64.b64encode(f"user:{value}".encode()).decode(),
    "base64 for addresses": lambda value: base64.urlsafe_b64encode(f"us:{value}".encode()).decode().rstrip("="),
    "base64 in lines": lambda value: base64.encodebytes(f"{'x' * 50}:{value}".encode()).decode(),
    "base64 of JSON": lambda value: base64.b64encode(json.dumps({"key": value}).encode()).decode(),
    "base64 in JSON of PHP": lambda value: base64.b64encode(value.encode()).decode().replace("/", "\\/"),
    "base64 in an address": lambda value: quote(base64.b64encode(value.encode()).decode(), safe=""),
    "hex in capitals": lambda value: value.encode().hex().upper(),
    "bytes of C": lambda value: ", ".join(f"0x{code:02x}" for code in value.encode()),
    "buffer of Node": lambda value: json.dumps({"type": "Buffer", "data": list(value.encode())}),
    "Compose file": lambda value: value.replace("$", "$$"),
    "configparser": lambda value: value.replace("%", "%%"),
    "xxd": xxd,
    "hexdump -C": hexdump,
    "two lines": lambda value: f"{value[:7]}\n    {value[7:]}",
    "two lines of Windows, in JSON": lambda value: in_json(f"{value[:7]}\r\n{value[7:]}"),
    "an address in lines": lambda value: "\n".join(textwrap.wrap(quote(value, safe=""), 7)),
    "two texts in a program": lambda value: f'"{value[:7]}" +\n    "{value[7:]}"',
    "in colour": lambda value: f"\x1b[01;31m\x1b[K{value[:7]}\x1b[m\x1b[K{value[7:]}",
    "marked on a page": lambda value: f"<mark>{html.escape(value[:7])}</mark>{html.escape(value[7:])}",
    "with places to break": lambda value: "\u200b".join((value[:7], value[7:])),
}
