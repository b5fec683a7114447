"""Numbers, times and the small parts that all sections of a page are made of."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime

from hooksdk.report._html import Child, Html, join, tag
from hooksdk.report._model import Text

_WORDS = {
    "good": "ok completed applied offered granted trusted",
    "bad": "blocked error failed Block refused cancelled invalid unknown stale gone critical",
    "warn": "untrusted asked Ask queued paused not_run warning",
    "note": "answered Answer bridge trimmed",
}
# The colour that a word has on the page. Every colour stands beside its word, so nobody needs to see it.
TONES = {word: tone for tone, words in _WORDS.items() for word in words.split()}
# Between a number and its unit.
_JOINT = "\N{NO-BREAK SPACE}"


def duration(seconds: float) -> str:
    """`340 µs`, `12 ms`, `1.4 s`, `3 min 20 s`."""
    if seconds < 0.001:
        return f"{seconds * 1e6:.0f}{_JOINT}µs"
    if seconds < 1:
        return f"{seconds * 1000:.3g}{_JOINT}ms" if seconds < 0.9995 else f"1{_JOINT}s"
    if seconds < 60:
        return f"{seconds:.3g}{_JOINT}s"
    whole = round(seconds)
    if whole < 3600:
        return f"{whole // 60}{_JOINT}min{_JOINT}{whole % 60}{_JOINT}s"
    return f"{whole // 3600:,}{_JOINT}h{_JOINT}{whole % 3600 // 60}{_JOINT}min"


def offset(seconds: float) -> str:
    """`+1.204 s` after the begin."""
    if seconds < 100:
        return f"+{seconds:.3f}{_JOINT}s"
    return f"+{int(seconds) // 60}:{seconds % 60:04.1f}" if seconds < 3600 else f"+{duration(seconds)}"


def moment(seconds: float) -> Html:
    """A date and time in UTC."""
    try:
        when = datetime.fromtimestamp(seconds, UTC)
    except (OverflowError, OSError, ValueError):
        return join("an unknown time")
    return tag("time", f"{when:%Y-%m-%d %H:%M:%S} UTC", datetime=f"{when:%Y-%m-%dT%H:%M:%SZ}")


def counted(number: int, noun: str) -> str:
    """`1 call`, `2 calls`."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def percent(part: float, whole: float) -> str:
    """`98 %`; never 100 while something is left."""
    if not whole:
        return f"0{_JOINT}%"
    share = 100 * part / whole
    return f"{min(share, 99.9) if part < whole else share:.3g}{_JOINT}%" if share > 99 else f"{share:.0f}{_JOINT}%"


def badge(word: str, tone: str | None = None) -> Html:
    """A word in a colour."""
    return tag(
        "span", word.replace("_", " ") if word in TONES else word, class_=f"badge {tone or TONES.get(word, 'plain')}"
    )


def code(text: str, *, class_: str | None = None) -> Html:
    """A name by others."""
    return tag("code", text, class_=class_)


def tile(label: str, value: str, note: Child = None, tone: str = "") -> Html:
    """One number on top."""
    parts = tag("dt", label), tag("dd", value, class_="value"), tag("dd", note, class_="note") if note else None
    return tag("div", *parts, class_=f"tile {tone}".strip())


def tiles(*each: Html | None) -> Html:
    """The row of numbers on top."""
    return tag("dl", *each, class_="tiles")


def table(headings: Sequence[str], rows: Iterable[Sequence[Child]], *, numbers: str = "") -> Html:
    """A table; `numbers` are the columns, by a letter each (`a` is the first), that stand right."""
    classes = ["number" if chr(ord("a") + at) in numbers else None for at in range(len(headings))]
    head = [tag("th", word, scope="col", class_=each) for word, each in zip(headings, classes, strict=True)]
    body = [tag("tr", *map(_cell, row, classes, headings)) for row in rows]
    whole = tag("table", tag("thead", tag("tr", *head)), tag("tbody", *body))
    label = f"Table: {', '.join(filter(None, headings))}"
    return tag("div", whole, class_="scroll", tabindex="0", role="region", aria_label=label)


def _cell(content: Child, class_: str | None, heading: str) -> Html:
    return tag("td", content, class_=class_, data_label=heading)


def quote(text: Text, *, class_: str = "") -> Html:
    """A text by others, with its whole behind a fold where it is cut."""
    start = tag("pre", text.shown, "…" if text.characters > len(text.shown) else None, class_=class_ or None)
    if text.characters <= len(text.shown):
        return start
    if text.whole is None:
        return join(
            start, tag("p", f"cut: {text.characters:,} characters in all, too long for this page", class_="quiet")
        )
    whole = tag("pre", text.whole, class_=class_ or None)
    more = tag("details", tag("summary", f"whole: {text.characters:,} characters"), whole, class_="whole")
    return join(start, more)


def section(level: int, title: Child, *content: Child, id_: str | None = None, note: Child = None) -> Html:
    """A part of the page under a heading."""
    heading = tag(f"h{level}", title)
    return tag("section", heading, tag("p", note, class_="quiet") if note else None, *content, id=id_)
