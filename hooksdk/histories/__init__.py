r"""Read the history that another library or program has stored, as messages that a provider takes.

```python
from hooksdk.histories import read_history
from hooksdk.trimming import list_results

history = read_history(
    [
        {"role": "user", "parts": [{"text": "What time is it?"}]},
        {"role": "model", "parts": [{"functionCall": {"name": "now", "args": {}}}]},
        {"role": "user", "parts": [{"functionResponse": {"name": "now", "response": {"output": "12:31"}}}]},
    ]
)
assert (history.source, history.format) == ("gemini", "openai-chat")
assert list_results(history.messages, history.format)[0].tool == "now"
```
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from io import BufferedIOBase
from pathlib import Path
from typing import Any

from hooksdk.errors import ConfigError, did_you_mean
from hooksdk.formats import FORMATS, Message
from hooksdk.histories import (
    _claude_code,
    _gemini,
    _langchain,
    _openai_chat,
    _openai_responses,
    _openclaw,
    _pydantic_ai,
)
from hooksdk.histories._draft import Draft
from hooksdk.histories._native import as_they_are, convert_anthropic, recognise_anthropic, recognise_openai
from hooksdk.histories._source import HistoryError, Source, open_source

__all__ = ["SOURCES", "History", "HistoryError", "read_history"]


@dataclass(frozen=True)
class _Reader:
    recognise: Callable[[Source], str]
    convert: Callable[[Source, Draft], None]
    target: Callable[[Source], str]
    own: str = ""
    """The format of ours that the source is in, if there is one: into that one it is read as it is."""


def _always(target: str) -> Callable[[Source], str]:
    return lambda _: target


_RESPONSES = _Reader(
    _openai_responses.recognise, _openai_responses.convert, _always(_openai_responses.TARGET), own="openai-responses"
)
_READERS = {
    "claude-code": _Reader(_claude_code.recognise, _claude_code.convert, _always(_claude_code.TARGET)),
    "openclaw": _Reader(_openclaw.recognise, _openclaw.convert, _always(_openclaw.TARGET)),
    "pydantic-ai": _Reader(_pydantic_ai.recognise, _pydantic_ai.convert, _pydantic_ai.target),
    "langchain": _Reader(_langchain.recognise, _langchain.convert, _langchain.target),
    "gemini": _Reader(_gemini.recognise, _gemini.convert, _always(_gemini.TARGET), own="gemini"),
    "openai-responses": _RESPONSES,
    "openai-agents": _RESPONSES,
    "anthropic": _Reader(recognise_anthropic, convert_anthropic, _always("anthropic"), own="anthropic"),
    "openai-chat": _Reader(recognise_openai, _openai_chat.convert, _always("openai-chat"), own="openai-chat"),
}
"""In the order of guessing: the shapes that nothing else has come first."""
SOURCES = tuple(_READERS)
"""What `read_history` reads."""


@dataclass(frozen=True)
class History:
    """Messages that a provider takes, from wherever they came.

    ```python
    from hooksdk.histories import read_history

    history = read_history([{"role": "user", "content": "Hello"}])
    assert (history.source, history.format, len(history.messages)) == ("openai-chat", "openai-chat", 1)
    ```
    """

    messages: list[Message]
    format: str
    """The format of `messages`."""
    source: str
    """What they were read as: one of `SOURCES`."""
    notes: tuple[str, ...]
    """How the source was guessed, what was repaired, and what was left out."""
    system: str = ""
    """What the operator says, where the format has no message for it (`gemini`): it belongs into the request."""


def read_history(
    source: str | Path | BufferedIOBase | Sequence[Any] | dict[str, Any],
    format: str | None = None,  # noqa: A002 - the command's word
    *,
    into: str | None = None,
    session: str | None = None,
) -> History:
    """Read a file (JSON, or one item a line; its path, or opened in binary mode) or objects. `format` is one of `SOURCES`; None guesses it, and a note tells why.

    `into` is the format of the messages, one of `hooksdk.formats.FORMATS`: by default `openai-chat` or `anthropic`, the one of
    the two that loses less of this source. The source's own format keeps everything. Calls without a result get an error
    result, except those that the history ends with. `session` names one of the conversations of a file that holds several, as
    databases of openai-agents do. Raises `HistoryError` with file and line of what cannot be read.
    """
    if format is not None and format not in _READERS:
        problem = f"'{format}' is no source of histories: take one of {', '.join(SOURCES)}."
        raise ConfigError("format", (f"{problem}{did_you_mean(format, SOURCES)}",))
    items = open_source(source, session)
    _refuse_trace(items)
    name, reason = (format, "") if format is not None else _guess(items)
    reader = _READERS[name]
    target = into or reader.target(items)
    if target not in FORMATS:
        problem = f"a history of '{name}' cannot be read into '{target}'. Take {' or '.join(FORMATS)}"
        raise ConfigError("into", (problem,))
    notes, beside = [*([f"read as {name}: {reason}"] if reason else []), *items.notes], ""
    if target == reader.own:
        messages = as_they_are(items, target, notes)
    else:
        draft = Draft(target)
        reader.convert(items, draft)
        messages, beside = draft.messages(), draft.beside
        notes += draft.notes
    if not messages:
        raise HistoryError(
            items.name or "the history",
            f"there is no message in it for a model ({'; '.join(notes)})",
            "Pass another one",
        )
    return History(messages, target, name, tuple(notes), beside)


def _refuse_trace(source: Source) -> None:
    """Raise `HistoryError` for a file of `trace_file`, whose lines look like items and hold no message."""
    if source.items and {"kind", "run_id", "session_id"} <= source.items[0].keys():
        names = ", ".join(f"'{one}'" for one in sorted({str(item.get("session_id")) for item in source.items})[:5])
        problem = "it is a trace, which holds no arguments of calls and no messages"
        raise HistoryError(
            Path(source.name).name or "the history",
            problem,
            f"Take the stored session itself; this trace is of {names}",
        )


def _guess(source: Source) -> tuple[str, str]:
    for name, reader in _READERS.items():
        if reason := reader.recognise(source):
            return name, reason
    advice = "Name the format if it is one of these, or pass the messages as OpenAI's or Anthropic's API takes them"
    raise source.wrong(0, f"a history of {', '.join(SOURCES)}", advice)
