"""Replace the values of secrets that the calls of a session were given by their placeholders in all that leaves the
session: results, records, exceptions, log lines."""

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

# Characters of the shortest value that is masked in a whole session: `1` or `yes` stands in every second text. A
# shorter value is masked in the result of its own call only.
MIN_MASKED = 4

_PLACEHOLDER = re.compile(r"\{\{secret:([^{}\s]+)\}\}")


@final
class SecretMask:
    """Turns values of secrets back into their placeholders, in whichever form they are written. A session shares its
    mask with its children.

    Attributes:
        active: True once the mask knows a value; until then nothing is masked.
    """

    def __init__(self, values: Iterable[tuple[str, str]] = (), *, shortest: int = MIN_MASKED) -> None:
        """`values` are not masked in the log; values that are added later are."""
        self._shortest = shortest
        self._values: set[tuple[str, str]] = set()
        self._matcher: Matcher | None = None
        self.active = False
        self._learn(values)

    def add(self, values: Mapping[str, str]) -> None:
        """Mask these values from now on, as far as they are long enough."""
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
        """One mask for the values of all. Several masks in a row would cut a value that contains another one."""
        return SecretMask(pair for mask in (self, *others) for pair in mask._values)  # noqa: SLF001 - of its own kind

    def text(self, text: str) -> str:
        """The text with each value as its placeholder."""
        hits = self._matcher.find(text) if self._matcher else ()
        if not hits:
            return text
        names = {name for name, _ in self._values}
        # A placeholder stays as it is, even if a value is a part of it.
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
        """A masked copy of a JSON value, keys included. With `numbers` also a number that is a value becomes its
        placeholder."""
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
        if not self._matcher.find("\0".join(texts)):  # one search of all texts instead of thousands
            return copy
        return map_strings(value, self.text, clean_number if numbers else None)

    def result(self, result: ToolResult) -> ToolResult:
        """A masked copy of a result: of its text, blocks, structured form and `meta`."""
        if not self.active:
            return result
        blocks = () if result.plain else self.value(result.blocks)
        structured, meta, text = self.value(result.structured), self.value(result.meta), self.text(result.text)
        same: dict[str, Any] = {"is_error": result.is_error, "references": result.references, "handle": result.handle}
        return ToolResult(text, blocks=blocks, structured=structured, meta=meta, labels=result.labels, **same)

    def record(self, record: Traced) -> Traced:
        """A masked copy of a trace record, or of the content that it is about. Its numbers are counts and times, which
        stay."""
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
        """Mask an exception that leaves the session, its causes, and the members of a group. They are changed in place.
        An exception whose text cannot be changed is replaced by another one of its kind. Answers the exception to
        raise."""
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
            with contextlib.suppress(Exception):  # an attribute that cannot be set may be in the text, which is masked
                setattr(error, name, value)

    def _plain(self, value: Any) -> Any:
        """The value masked if it is text or JSON; the same object if nothing in it is a secret."""
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
    """The nearest of Python's own exceptions that can be made with a text."""
    for kind in type(error).__mro__:
        if kind.__module__ == "builtins" and issubclass(kind, BaseException):
            try:
                return kind(text)
            except TypeError:  # such as UnicodeDecodeError, which takes five things
                continue
    return Exception(text)


# All sessions share one log, so its filter knows the masks of all open sessions.

_masks: tuple[weakref.ref[SecretMask], ...] = ()
_masks_lock = threading.Lock()


def _keep_out_of_logs(mask: SecretMask) -> None:
    global _masks  # noqa: PLW0603 - replaced as a whole, since other threads log meanwhile
    with _masks_lock:
        _masks = (*(ref for ref in _masks if ref() not in {None, mask}), weakref.ref(mask))
    below = [name for name in logging.root.manager.loggerDict if name.startswith(f"{logger.name}.")]
    for one in (logger, *map(logging.getLogger, below)):  # a filter does not see the records of the loggers below
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
