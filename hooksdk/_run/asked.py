"""What calls have said: a tool repeats what it was asked, so the text of its result vouches for nothing that may be made of that."""

from __future__ import annotations

import html
import quopri
import re
import unicodedata
from collections import defaultdict
from collections.abc import Iterator
from typing import Any, NamedTuple, final
from urllib.parse import unquote

from hooksdk import schema
from hooksdk._origins.folding import fold, undo_escapes
from hooksdk._origins.texts import NEVER, Moment
from hooksdk._origins.values import parts_of

_WORD = re.compile(r"[^\W_]+")
# Characters that are read of one call with its escapes undone. Of a call with more nobody can say what may be made of
# it.
_MOST_READ = 500_000
# Characters of all calls of one tool. Above it the older half is forgotten.
_MOST_KEPT = 1_000_000
# Calls whose arguments are kept as they are.
_MOST_WAITING = 100
# Characters of a word that is looked for in pieces. A longer one that stands nowhere as a whole counts as said.
_LONGEST = 1024


class _Said(NamedTuple):
    moment: Moment
    # Its words, with one blank between two.
    text: str


@final
class Asked:
    """What the calls of each tool have said, in their order."""

    def __init__(self) -> None:
        self._tools: defaultdict[tuple[str, bool], _Calls] = defaultdict(_Calls)

    def note(self, tool: str, arguments: Any, moment: Moment, *, by_agent: bool = False) -> None:
        """A call has said this; one of a sub-agent, where it is `by_agent`."""
        self._tools[tool, by_agent].add(moment, arguments)

    def first_said(self, tool: str, value: str, *, by_agents: bool = True) -> Moment:
        """When a call of the tool first said what the value may be made of."""
        return min(self._tools[tool, by_agent].first_said(_bare(value)) for by_agent in {False, by_agents})


class _Calls:
    """The calls of one tool."""

    def __init__(self) -> None:
        # Those that nobody has asked after yet: most tools vouch for nothing.
        self._waiting: list[tuple[Moment, Any]] = []
        self._said: list[_Said] = []
        self._words: dict[str, Moment] = {}
        self._unreadable = NEVER

    def add(self, moment: Moment, arguments: Any) -> None:
        self._waiting.append((moment, arguments))
        if len(self._waiting) >= _MOST_WAITING:
            self._read()

    def first_said(self, value: str) -> Moment:
        if self._waiting:
            self._read()
        whole = min((said.moment for said in self._said if value in said.text), default=NEVER)
        return min(whole, max(map(self._made, value.split()), default=NEVER), self._unreadable)

    def _read(self) -> None:
        said: list[_Said] = []
        for moment, arguments in self._waiting:
            try:
                said += dict.fromkeys([_Said(moment, _bare(text)) for text in _readings(arguments)])
            except OverflowError:
                self._unreadable = min(self._unreadable, moment)
        self._waiting.clear()
        self._said += said
        if sum(len(one.text) for one in self._said) > _MOST_KEPT:
            self._said = said = self._said[len(self._said) // 2 :]
            self._words.clear()
        for moment, text in said:
            for word in text.split():
                self._words[word] = min(moment, self._words.get(word, NEVER))

    def _made(self, word: str) -> Moment:
        """When the last of the pieces was first said of which the word may be put together, at the earliest."""
        if len(word) > _LONGEST:
            return (0, 0)
        ends: list[Moment] = [(0, 0), *[NEVER] * len(word)]
        for start in range(len(word)):
            if ends[start] < NEVER:
                for end in range(start + 1, len(word) + 1):
                    ends[end] = min(ends[end], max(ends[start], self._words.get(word[start:end], NEVER)))
        return ends[-1]


def as_text(arguments: Any) -> str:
    """The arguments of a call as one text."""
    try:
        return arguments if isinstance(arguments, str) else schema.canonical(arguments)
    except schema.Uncloneable:  # a rewriting plugin may have put in what is no JSON
        return repr(arguments)


def _readings(arguments: Any) -> Iterator[str]:
    """What a tool may make of its arguments: put together in any order, and with the escapes of any writer undone as often as there
    are any. Raises `OverflowError` where that is too much to read."""
    keys, values = parts_of(arguments)
    written = as_text(arguments)
    yield written
    joined = [join for parts in (values, keys) for join in (" ".join(parts), "".join(parts), "".join(reversed(parts)))]
    known = dict.fromkeys(joined if keys or values else [written])
    waiting, left = [*known], _MOST_READ
    while waiting:
        text = waiting.pop()
        yield text
        for undo in (fold, undo_escapes, html.unescape, unquote, _of_mail, _of_all):
            if (other := undo(text)) not in known:
                left -= 0 if undo is fold else len(other)
                if left < 0:
                    raise OverflowError
                known[other] = None
                waiting.append(other)


def _of_all(text: str) -> str:
    from hooksdk._masking.escapes import unescaped  # with the first arguments that are searched for a value

    return [text, *unescaped(text, 1)][-1]


def _of_mail(text: str) -> str:
    raw = text.encode("utf-8", "surrogatepass")
    return quopri.decodestring(raw).decode("utf-8", "replace") if b"=" in raw else text


def _bare(text: str) -> str:
    """The words of a text, as they are alike in any case, form of Unicode and punctuation: more alike than for a search, since a tool
    may change all of that in what it repeats."""
    if not text.isascii():
        text = _without_marks(_without_marks(text).upper().casefold())
    return " ".join(_WORD.findall(text.lower()))


def _without_marks(text: str) -> str:
    text = unicodedata.normalize("NFKD", text)
    return text.translate(
        {ord(char): None for char in set(text) if unicodedata.category(char) in {"Mn", "Mc", "Me", "Cf"}}
    )
