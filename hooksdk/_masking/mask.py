"""The values that the calls of a session were given, taken out of everything that the session puts out from then on."""

from __future__ import annotations

import contextlib
import logging
import re
import threading
import weakref
from collections.abc import Iterable, Mapping
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any, TypeVar, cast, final

from hooksdk._tasks.background import logger
from hooksdk._tasks.limits import is_uncatchable
from hooksdk.calls import ToolResult
from hooksdk.records import Content, Record
from hooksdk.values import map_strings

if TYPE_CHECKING:
    from hooksdk._masking.matcher import Matcher

T = TypeVar("T")
Traced = TypeVar("Traced", bound=Record | Content)

# Characters of the shortest value that a whole session is searched for: `1` or `yes` stands in every second text. A
# shorter one is taken out of the result of its own call only.
MIN_MASKED = 4

_PLACEHOLDER = re.compile(r"\{\{secret:([^{}\s]+)\}\}")


@final
class SecretMask:
    """Turns values of secrets back into their placeholders, however they are written. A session has one, and shares it
    with its children.

    Attributes:
        active: True once it knows a value: there is nothing to do before.
    """

    def __init__(self, values: Iterable[tuple[str, str]] = (), *, shortest: int = MIN_MASKED) -> None:
        """The log is not searched for `values`; for what is added later it is."""
        self._shortest = shortest
        self._values: set[tuple[str, str]] = set()
        self._matcher: Matcher | None = None
        self.active = False
        self._learn(values)

    def add(self, values: Mapping[str, str]) -> None:
        """Look for these values from now on, those that are long enough."""
        if self._learn(values.items()):
            _keep_out_of_logs(self)

    def _learn(self, values: Iterable[tuple[str, str]]) -> bool:
        fresh = {pair for pair in values if len(pair[1].strip()) >= self._shortest} - self._values
        if not fresh:
            return False
        from hooksdk._masking.matcher import Matcher  # hosts without secrets need none

        # Replaced as a whole: a thread may be reading.
        self._values = self._values | fresh
        self._matcher = Matcher(self._values)
        self.active = True
        return True

    def joined(self, others: Iterable[SecretMask]) -> SecretMask:
        """One mask for the values of all, since one after the other would cut a value in which another's is a part."""
        return SecretMask(pair for mask in (self, *others) for pair in mask._values)  # noqa: SLF001 - of its own kind

    def text(self, text: str) -> str:
        """The text with each value as its placeholder."""
        hits = self._matcher.find(text) if self._matcher else ()
        if not hits:
            return text
        names = {name for name, _ in self._values}
        # What is masked already stays as it is, even where a value is part of a placeholder.
        ours = [match.span() for match in _PLACEHOLDER.finditer(text) if match[1] in names]
        pieces: list[str] = []
        done = number = 0
        for start, end, name in hits:
            while number < len(ours) and ours[number][1] <= start:
                number += 1
            if number < len(ours) and ours[number][0] <= start:
                start = ours[number][1]  # noqa: PLW2901
            if start < end:
                pieces += text[done:start], f"{{{{secret:{name}}}}}"
                done = end
        return "".join([*pieces, text[done:]])

    def value(self, value: T, *, numbers: bool = True) -> T:
        """A copy of a JSON value, keys included; with `numbers` one that is a value becomes text, too."""
        if self._matcher is None:
            return value
        texts: list[str] = []

        def note(text: str) -> str:
            texts.append(text)
            return text

        def note_number(number: float) -> float:
            texts.append(str(number))
            return number

        def clean_number(number: float) -> object:
            text = str(number)
            masked = self.text(text)
            return number if masked == text else masked

        copy = map_strings(value, note, note_number if numbers else None)
        if not self._matcher.find("\0".join(texts)):  # all of them at once: one search instead of thousands
            return copy
        return map_strings(value, self.text, clean_number if numbers else None)

    def result(self, result: ToolResult) -> ToolResult:
        """The same for a result: text, blocks, structured form and `meta`."""
        if not self.active:
            return result
        blocks = () if result.plain else self.value(result.blocks)
        structured, meta, text = self.value(result.structured), self.value(result.meta), self.text(result.text)
        same: dict[str, Any] = {"is_error": result.is_error, "references": result.references, "handle": result.handle}
        return ToolResult(text, blocks=blocks, structured=structured, meta=meta, labels=result.labels, **same)

    def record(self, record: Traced) -> Traced:
        """The same for a trace record and what it is about; its numbers are counts and times."""
        if not self.active:
            return record
        values = {field.name: getattr(record, field.name) for field in fields(record)}
        masked: Iterable[Any] = self.value(list(values.values()), numbers=False)
        changed = {
            name: tuple(new) if isinstance(old, tuple) else new
            for (name, old), new in zip(values.items(), masked, strict=True)
        }
        return replace(record, **changed)

    def error(self, error: BaseException) -> BaseException:
        """Take the values out of an exception that leaves the session, its causes, and a group's members. They are
        changed in place; one whose text cannot be changed is replaced by another of its kind. Answers what to raise."""
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
