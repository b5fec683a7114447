"""`{{secret:NAME}}` placeholders: found after a call was judged, filled in a private copy, and the values taken out of
everything that the session puts out from then on."""

from __future__ import annotations

import base64
import contextlib
import html
import json
import logging
import re
import threading
import unicodedata
import weakref
from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields, replace
from typing import Any, TypeVar, cast, final
from urllib.parse import quote, quote_plus

from hooksdk._tasks.background import logger
from hooksdk._tasks.limits import is_uncatchable
from hooksdk.calls import ToolResult
from hooksdk.records import Content, Record

T = TypeVar("T")
Traced = TypeVar("Traced", bound=Record | Content)

MIN_MASKED = 4
"""Characters of the shortest value that a whole session is searched for: `1` or `yes` stands in every second text. A
shorter one is taken out of the result of its own call only."""
MIN_LOOSE = 8
"""Characters from which a spelling is found in any case and across line ends and blanks. A shorter one, so loosely
compared, would be found where it is not."""
MIN_BASE64 = 6
"""Bytes of the shortest value that is looked for within the base64 of something longer."""

_PLACEHOLDER = re.compile(r"\{\{\s*secret:([A-Za-z0-9_.\-]+)\s*\}\}")


def placeholders(value: object) -> list[str]:
    """The names of all secrets that a JSON value asks for, each once, in order."""
    names: dict[str, None] = {}

    def note(text: str) -> str:
        names.update(dict.fromkeys(_PLACEHOLDER.findall(text)))
        return text

    _map_strings(value, note)
    return list(names)


def fill(value: Any, secrets: Mapping[str, str]) -> Any:
    """A copy of the value with the placeholders filled."""
    return _map_strings(value, lambda text: _PLACEHOLDER.sub(lambda match: secrets[match[1]], text))


@final
class SecretMask:
    """Turns values of secrets back into their placeholders, however they are written. A session has one, and shares it
    with its children."""

    def __init__(self, values: Iterable[tuple[str, str]] = (), *, shortest: int = MIN_MASKED) -> None:
        """The log is not searched for `values`; for what is added later it is."""
        self._shortest = shortest
        self._values: set[tuple[str, str]] = set()
        self._loose: dict[str, tuple[tuple[str, ...], str]] = {}
        """By their folded form: the spellings and their placeholder."""
        self._exact: dict[str, str] = {}
        self.active = False
        """True once it knows a value: there is nothing to do before."""
        self._learn(values)

    def add(self, values: Mapping[str, str]) -> None:
        """Look for these values from now on, those that are long enough."""
        if self._learn(values.items()):
            _keep_out_of_logs(self)

    def _learn(self, values: Iterable[tuple[str, str]]) -> bool:
        fresh = {pair for pair in values if len(pair[1].strip()) >= self._shortest} - self._values
        if not fresh:
            return False
        loose, exact = dict(self._loose), dict(self._exact)
        for name, value in sorted(fresh):
            for spelling in sorted(_spellings(value), key=len, reverse=True):
                folded = _unbroken(spelling)
                if len(folded) >= MIN_LOOSE:
                    others, placeholder = loose.get(folded, ((), _placeholder(name)))
                    if not others or not spelling.isascii():  # beyond ASCII not every case folds to one form
                        loose[folded] = (*others, spelling), placeholder
                elif folded:
                    exact.setdefault(spelling, _placeholder(name))
        # Replaced as a whole: a thread may be reading.
        self._values, self._loose, self._exact = self._values | fresh, loose, exact
        self.active = bool(loose or exact)
        return True

    def joined(self, others: Iterable[SecretMask]) -> SecretMask:
        """One mask for the values of all, since one after the other would cut a value in which another's is a part."""
        return SecretMask(pair for mask in (self, *others) for pair in mask._values)  # noqa: SLF001 - of its own kind

    def text(self, text: str) -> str:
        """The text with each value as its placeholder."""
        if not self.active:
            return text
        hits = [spelling for spelling in self._exact if spelling in text]
        if self._loose:
            folded = _unbroken(text)
            hits += [one for key, (spellings, _) in self._loose.items() if key in folded for one in spellings]
        return self._pattern(hits).sub(self._replacement, text) if hits else text

    def value(self, value: T, *, numbers: bool = True) -> T:
        """A copy of a JSON value, keys included; with `numbers` one that is a value becomes text, too."""
        if not self.active:
            return value

        def clean_number(number: float) -> object:
            text = str(number)
            masked = self.text(text)
            return number if masked == text else masked

        return _map_strings(value, self.text, clean_number if numbers else None)

    def result(self, result: ToolResult) -> ToolResult:
        """The same for a result: text, blocks, structured form and `meta`."""
        if not self.active:
            return result
        blocks = () if result.plain else self.value(result.blocks)
        structured, meta, text = self.value(result.structured), self.value(result.meta), self.text(result.text)
        return ToolResult(text, is_error=result.is_error, blocks=blocks, structured=structured, meta=meta)

    def record(self, record: Traced) -> Traced:
        """The same for a trace record and what it is about; its numbers are counts and times."""
        if not self.active:
            return record
        changed: dict[str, Any] = {}
        for name, value in ((field.name, getattr(record, field.name)) for field in fields(record)):
            masked: Any = self.value(value, numbers=False)
            changed[name] = tuple(masked) if isinstance(value, tuple) else masked
        return replace(record, **changed)

    def error(self, error: BaseException) -> BaseException:
        """Take the values out of an exception that leaves the session, its causes, and a group's members. They are changed
        in place; one whose text cannot be changed is replaced by another of its kind. Answers what to raise."""
        return self._clean_error(error, {}) if self.active else error

    def _clean_error(self, error: BaseException, done: dict[int, BaseException]) -> BaseException:
        place = id(error)
        if place in done:
            return done[place]
        done[place] = clean = error
        for name in ("args", "filename", "filename2", *vars(error)):
            self._set(error, name, self._plain(getattr(error, name, None)))
        text = _text_of(error)
        if isinstance(error, BaseExceptionGroup):
            group = cast("BaseExceptionGroup[BaseException]", error)
            members = [self._clean_error(each, done) for each in group.exceptions]
            if self.text(text) != text or members != [*group.exceptions]:
                clean = BaseExceptionGroup(self.text(group.message), members)
        elif self.text(text) != text:
            clean = _of_same_kind(error, self.text(text))
        if clean is not error:
            clean.__dict__.update(vars(error))
            done[place] = clean.with_traceback(error.__traceback__)
        hidden, cause, context = error.__suppress_context__, error.__cause__, error.__context__
        self._set(clean, "__context__", context and self._clean_error(context, done))
        self._set(clean, "__cause__", cause and self._clean_error(cause, done))
        self._set(clean, "__suppress_context__", hidden)  # setting a cause hides the context
        return clean

    @staticmethod
    def _set(error: BaseException, name: str, value: object) -> None:
        if getattr(error, name, None) is not value:
            with contextlib.suppress(Exception):  # one that cannot be set shows in the exception's text, if at all
                setattr(error, name, value)

    def _plain(self, value: Any) -> Any:
        """Masked where it is text or JSON, and as it is where it is something else, or nothing is to be masked."""
        masked: Any = self.value(value) if type(value) in {str, dict, list, tuple} else value
        if masked == value:
            return value
        return tuple(masked) if type(value) is tuple else masked

    def _pattern(self, hits: Iterable[str]) -> re.Pattern[str]:
        # What is masked already stays as it is, even where a value is part of a placeholder.
        ours = "|".join(sorted({re.escape(_placeholder(name)) for name, _ in self._values}))
        written = "|".join(_as_written(hit) for hit in sorted(hits, key=len, reverse=True))
        return re.compile(f"({ours})|{written}")  # `re` keeps the latest ones compiled

    def _replacement(self, match: re.Match[str]) -> str:
        if match[1]:
            return match[1]
        text = match[0]
        return self._exact.get(text) or self._loose.get(_unbroken(text), ("", "{{secret}}"))[1]


def _text_of(error: BaseException) -> str:
    try:
        return str(error)
    except BaseException as problem:  # somebody else's `__str__`
        if is_uncatchable(problem):
            raise
        return ""


def _of_same_kind(error: BaseException, text: str) -> BaseException:
    """The nearest of Python's own exceptions that can be made of a text."""
    for kind in type(error).__mro__:
        if kind.__module__ == "builtins" and issubclass(kind, BaseException):
            try:
                return kind(text)
            except TypeError:  # such as UnicodeDecodeError, which takes five things
                continue
    return Exception(text)


def _placeholder(name: str) -> str:
    return f"{{{{secret:{name}}}}}"


def _unbroken(text: str) -> str:
    """Without case, and without the line ends and blanks that wrapping puts in."""
    return "".join(text.lower().split())


def _as_written(spelling: str) -> str:
    if len(_unbroken(spelling)) < MIN_LOOSE:
        return re.escape(spelling)
    core = spelling.strip()
    before, after = spelling.split(core, maxsplit=1)[0], spelling[len(spelling.rstrip()) :]
    written = r"\s*".join(map(re.escape, "".join(core.split())))
    return f"(?i:(?:{re.escape(before)})?{written}(?:{re.escape(after)})?)"


def _spellings(value: str) -> set[str]:
    """How a value is commonly written; upper and lower case, blanks and line ends do not count in most of them."""
    texts = {value, value.strip(), unicodedata.normalize("NFC", value), unicodedata.normalize("NFD", value)}
    if not value.isascii() and len(value) >= MIN_LOOSE:
        texts |= {value.lower(), value.upper()}
    spellings = set(texts)
    for text in texts:
        raw = text.encode("utf-8", "surrogatepass")
        in_json = {json.dumps(text)[1:-1], json.dumps(text, ensure_ascii=False)[1:-1]}
        spellings |= in_json | {json.dumps(once)[1:-1] for once in in_json}
        spellings |= {repr(text)[1:-1], html.escape(text), quote(raw, safe=""), quote(raw), quote_plus(raw), raw.hex()}
        spellings.update(_in_base64(raw))
    return spellings


def _in_base64(raw: bytes) -> Iterable[str]:
    """In base64, alone and as a part of something longer, such as `user:value`: it may begin at each of three places
    within four characters, and the characters at its ends are shared with its neighbours."""
    for encode in (base64.b64encode, base64.urlsafe_b64encode):
        whole = encode(raw).decode()
        yield from (whole, whole.rstrip("="))
        for before in range(3 if len(raw) >= MIN_BASE64 else 0):
            start, end = (before * 8 + 5) // 6, (before + len(raw)) * 8 // 6
            yield encode(bytes(before) + raw).decode()[start:end]


def _map_strings(
    value: Any, change: Callable[[str], str], change_number: Callable[[float], object] | None = None
) -> Any:
    if isinstance(value, str):
        return change(value)
    if isinstance(value, Mapping):
        return {change(str(key)): _map_strings(item, change, change_number) for key, item in value.items()}  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
    if isinstance(value, (list, tuple)):
        return [_map_strings(item, change, change_number) for item in value]  # pyright: ignore[reportUnknownVariableType]
    if change_number and isinstance(value, (int, float)) and not isinstance(value, bool):
        return change_number(value)
    return value


# The log is one for all sessions, so its filter knows the masks of those that are open.

_masks: tuple[weakref.ref[SecretMask], ...] = ()
_masks_lock = threading.Lock()


def _keep_out_of_logs(mask: SecretMask) -> None:
    global _masks  # noqa: PLW0603 - replaced as a whole, since other threads log meanwhile
    with _masks_lock:
        _masks = (*(ref for ref in _masks if ref() not in {None, mask}), weakref.ref(mask))
    below = [name for name in logging.root.manager.loggerDict if name.startswith(f"{logger.name}.")]
    for one in (logger, *map(logging.getLogger, below)):  # a logger's filter does not see the records of those below it
        one.addFilter(_clean_record)


def _clean_record(record: logging.LogRecord) -> bool:
    masks = [mask for ref in _masks if (mask := ref()) is not None]
    if not masks:
        return True
    try:
        written = record.getMessage()
    except Exception:  # a wrong format string: logging reports that itself
        return True
    raised = record.exc_info[1] if record.exc_info else None
    if raised is None and all(mask.text(written) == written for mask in masks):
        return True
    mask = masks[0].joined(masks[1:])
    if (text := mask.text(written)) != written:
        record.msg, record.args = text, ()
    if raised is not None:
        error = mask.error(raised)
        record.exc_info = (type(error), error, error.__traceback__)
    return True
