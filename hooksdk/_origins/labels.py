"""Labels: words that say what a result's text is worth."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, Final, cast, overload

from hooksdk.errors import check_list, refuse
from hooksdk.values import as_object

# The labels of a text. One without `trusted` vouches for nothing, one with `untrusted` may be an outsider's; other
# words are the host's own.
Labels = frozenset[str]

# The label of a text that is as good as what the user says.
TRUSTED: Final = "trusted"
# The label of a text that an outsider may have written.
UNTRUSTED: Final = "untrusted"
# What a text has that nobody labels.
UNLABELLED: Final[Labels] = frozenset((UNTRUSTED,))
# What nothing has that was read: it is neither trusted nor untrusted.
NO_LABELS: Final[Labels] = frozenset()
# Under this key of `_meta` an MCP server may say a list of labels of its result.
META: Final = "hooksdk/labels"
_WORD = re.compile(r"[A-Za-z0-9_.:/-]{1,64}")
# Labels of a server's that are read of one result.
_MOST_SAID = 16


def read_labels(where: str, labels: str | Iterable[str] | None) -> Labels | None:
    """One label or several, checked. Raises `WrongArgument`."""
    if labels is None:
        return None
    words = [labels] if isinstance(labels, str) else check_list(where, labels, "labels")
    for word in words:
        if not isinstance(word, str) or not _WORD.fullmatch(word):
            refuse(where, word, "a label such as 'trusted': at most 64 letters, digits and _.:/-")
    return _agreed(frozenset(words))


def join_labels(*labels: Labels | None) -> Labels:
    """The labels of a text that is made of texts with these. It is trusted where each of them is, and untrusted where
    one of them is, or is not labelled (None); all other labels are joined."""
    each = [UNLABELLED if one is None else one for one in labels]
    joined = frozenset[str]().union(*each)
    return _agreed(joined if all(TRUSTED in one for one in each) else joined - {TRUSTED})


def said_of(*said: Labels | None) -> Labels:
    """What several have said of one text. One word of `untrusted` beats all others, and so does an empty set `trusted`;
    where nobody says anything of that, the text is untrusted."""
    sets = [one for one in said if one is not None]
    if not sets:
        return UNLABELLED
    words = frozenset[str]().union(*sets)
    if not all(sets):
        words -= {TRUSTED}
    elif not words & {TRUSTED, UNTRUSTED}:
        words |= UNLABELLED
    return _agreed(words)


def shown_labels(labels: Iterable[str]) -> list[str]:
    """What to show beside a result: nothing where it is `untrusted` alone, as every result is that nobody has
    labelled."""
    words = sorted(labels)
    return [] if words == [UNTRUSTED] else words


def stored_labels(labels: Labels | None) -> dict[str, Any]:
    """What a journal entry about a result says of its labels: nothing where nobody has labelled it."""
    return {} if labels is None or labels == UNLABELLED else {"labels": sorted(labels)}


def worsened(labels: Labels, meta: object) -> Labels:
    """The labels of a result whose server says these in its `_meta`: `trusted` from there counts for nothing, and what
    cannot be read counts as `untrusted`."""
    said: Any = as_object(meta).get(META, ())
    if isinstance(said, str):
        said = [said]
    if not isinstance(said, (list, tuple)):
        return join_labels(labels, None)
    words = cast("list[object]", list(said))[: _MOST_SAID + 1]  # pyright: ignore[reportUnknownArgumentType]
    fitting = {word for word in words if isinstance(word, str) and _WORD.fullmatch(word)}
    if len(fitting) < len(words) or len(words) > _MOST_SAID:
        fitting.add(UNTRUSTED)
    return _agreed(labels | (fitting - {TRUSTED}))


class LabelsField:
    """A dataclass field for one label or several, or None."""

    @overload
    def __get__(self, instance: None, owner: type) -> None: ...
    @overload
    def __get__(self, instance: object, owner: type) -> Labels | None: ...
    def __get__(self, instance: object | None, owner: type) -> Labels | None:
        return None if instance is None else instance.__dict__["labels"]

    def __set__(self, instance: object, value: str | Iterable[str] | None) -> None:
        instance.__dict__["labels"] = read_labels(f"{type(instance).__name__}(labels=...)", value)


def _agreed(labels: Labels) -> Labels:
    return labels - {TRUSTED} if UNTRUSTED in labels else labels
