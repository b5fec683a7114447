"""Taking secret-shaped text out of results, by the rules of Kingfisher: they know the keys of some hundred services by
prefix, checksum and surroundings, private keys, and passwords in addresses, plain or in base64."""

from __future__ import annotations

import functools
import hashlib
import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any, cast, final

import anyio.to_thread
from pydantic import AfterValidator

from hooksdk import ToolResult

if TYPE_CHECKING:
    from kingfisher_sdk import Finding, Scanner

# Characters from which on a result is searched in a worker thread: about a millisecond's work, ten times what a thread
# costs.
IN_THREAD = 50_000
# Kingfisher's hidden rules for the secret part of a pair; its other hidden rules are about names and addresses.
_SECRET_PART = re.compile(r"(secret|token|passphrase)(-[a-z-]*key)?(\.\d+)?$")


def _check_allow(entries: list[str]) -> list[str]:
    for entry in entries:
        if not entry.startswith("sha256:"):
            try:
                re.compile(entry)
            except re.error as error:
                raise ValueError(f"'{entry}' is no regular expression: {error}") from None
        elif not re.fullmatch(r"sha256:[0-9a-f]{64}", entry):
            raise ValueError(f"'{entry}' is not sha256: and 64 hex digits, as `printf %s TEXT | sha256sum` shows them")
    return entries


AllowList = Annotated[list[str], AfterValidator(_check_allow)]


@dataclass
class _Document:
    """All strings of a result as one text, each after its key, with their places."""

    lines: list[bytes] = field(default_factory=list[bytes])
    starts: list[int] = field(default_factory=list[int])
    strings: list[bytes] = field(default_factory=list[bytes])
    size: int = 0

    def add(self, key: str, text: str) -> None:
        """Add a string after its key: many rules look at both."""
        before, raw = _encode(f"{key}: " if key else ""), _encode(text)
        self.lines += before, raw, b"\n"
        self.starts.append(self.size + len(before))
        self.strings.append(raw)
        self.size += len(before) + len(raw) + 1


@final
class Redactor:
    """Replaces what looks like a secret by `[redacted: RULE]`."""

    def __init__(self, allow: Sequence[str]) -> None:
        self._scanner = _scanner()
        self._hashes = {entry.removeprefix("sha256:") for entry in allow if entry.startswith("sha256:")}
        self._patterns = [re.compile(entry) for entry in allow if not entry.startswith("sha256:")]

    async def redact(self, result: ToolResult, rules: Counter[str]) -> ToolResult:
        """The result without secret-shaped text in its text, blocks, structured form and meta, keys included. `rules`
        counts what each rule found."""
        if len(result.text) < IN_THREAD:
            return self._redact(result, rules)
        return await anyio.to_thread.run_sync(self._redact, result, rules)

    def _redact(self, result: ToolResult, rules: Counter[str]) -> ToolResult:
        content: list[Any] = [result.text, [] if result.plain else result.blocks, result.structured, result.meta]
        document = _Document()
        _walk(content, lambda key, text: document.add(key, text) or text)
        cuts = self._cuts(document)
        if not cuts:
            return result
        redacted = iter([_without(raw, cuts.get(number, ()), rules) for number, raw in enumerate(document.strings)])
        text, blocks, structured, meta = _walk(content, lambda _key, _text: next(redacted))
        return ToolResult(text, is_error=result.is_error, blocks=blocks, structured=structured, meta=meta)

    def _cuts(self, document: _Document) -> dict[int, list[tuple[int, int, str]]]:
        """The bytes to take out, by the number of the string, each with its rule."""
        raw = b"".join(document.lines)
        cuts: dict[int, list[tuple[int, int, str]]] = {}
        for finding in self._scanner.scan(raw):
            if not (finding.visible or _SECRET_PART.search(finding.rule_id)):
                continue
            start, end = self._place(raw, finding)
            if self._is_allowed(raw[start:end].decode("utf-8", "replace"), finding.secret):
                continue
            rule = re.split(r"[./]", finding.rule_id, maxsplit=1)[-1]
            number = max(bisect_right(document.starts, start) - 1, 0)
            while number < len(document.starts) and document.starts[number] < end:
                begin, size = document.starts[number], len(document.strings[number])
                first, last = max(start - begin, 0), min(end - begin, size)
                if first < last:
                    cuts.setdefault(number, []).append((first, last, rule))
                number += 1
        return cuts

    @staticmethod
    def _place(raw: bytes, finding: Finding) -> tuple[int, int]:
        """The place of the secret within the match of the rule; the whole match if the secret is encoded in it."""
        start, end = finding.location["start_offset"], finding.location["end_offset"]
        secret = _encode(finding.secret)
        if not finding.is_base64_encoded and (at := raw.find(secret, start, end)) >= 0:
            return at, at + len(secret)
        return start, end

    def _is_allowed(self, *texts: str) -> bool:
        return any(
            any(pattern.fullmatch(text) for pattern in self._patterns)
            or (self._hashes and hashlib.sha256(_encode(text)).hexdigest() in self._hashes)
            for text in texts
        )


@functools.cache
def _scanner() -> Scanner:
    """One scanner for all hosts of the process: it is thread-safe, and takes long to make."""
    from kingfisher_sdk import Scanner

    return Scanner()


def _encode(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _without(raw: bytes, cuts: Iterable[tuple[int, int, str]], rules: Counter[str]) -> str:
    pieces: list[bytes] = []
    at = 0
    for start, end, rule in sorted(cuts):
        if start >= at:  # else the last cut has it
            pieces += raw[at:start], f"[redacted: {rule}]".encode()
            rules[rule] += 1
        at = max(at, end)
    return b"".join([*pieces, raw[at:]]).decode("utf-8", "surrogatepass")


def _walk(value: Any, change: Callable[[str, str], str], key: str = "") -> Any:
    """A copy of a JSON value with its strings and keys changed, in a fixed order."""
    if isinstance(value, str):
        return change(key, value)
    if isinstance(value, Mapping):
        items = cast("Mapping[str, Any]", value).items()
        return {change("", name): _walk(item, change, name) for name, item in items}
    if isinstance(value, (list, tuple)):
        return [_walk(item, change, key) for item in cast("Sequence[Any]", value)]
    return value
