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

Status: trial.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from io import BufferedIOBase
from pathlib import Path
from typing import Any, Protocol

from hooksdk.errors import ConfigError, did_you_mean
from hooksdk.formats import FORMATS, Message
from hooksdk.histories import (
    _anthropic,
    _claude_code,
    _gemini,
    _langchain,
    _openai_chat,
    _openai_responses,
    _openclaw,
    _pydantic_ai,
)
from hooksdk.histories._draft import Draft
from hooksdk.histories._native import as_they_are
from hooksdk.histories._source import HistoryError, Source, open_source
from hooksdk.histories._writing import Writer

__all__ = ["SOURCES", "History", "HistoryError", "read_history"]


class _Reader(Protocol):
    """A module that reads one kind of history."""

    def recognise(self, source: Source) -> str:
        """Why the source looks like this kind; empty where it does not."""
        ...

    def convert(self, source: Source, draft: Draft) -> None:
        """Tell the draft what happens in the source."""
        ...


# In the order of guessing: the kinds with a shape of their own come first.
_READERS: dict[str, _Reader] = {
    "claude-code": _claude_code,
    "openclaw": _openclaw,
    "pydantic-ai": _pydantic_ai,
    "langchain": _langchain,
    "gemini": _gemini,
    "openai-responses": _openai_responses,
    "openai-agents": _openai_responses,
    "anthropic": _anthropic,
    "openai-chat": _openai_chat,
}
# Kinds that are read into Anthropic's format by default; the others are read into `openai-chat`.
_FOR_ANTHROPIC = ("claude-code", "openclaw", "anthropic")
SOURCES = tuple(_READERS)
"""What `read_history` reads."""


@dataclass(frozen=True)
class History:
    """What was read: messages that a provider takes.

    ```python
    from hooksdk.histories import read_history

    history = read_history([{"role": "user", "content": "Hello"}])
    assert (history.source, history.format, len(history.messages)) == ("openai-chat", "openai-chat", 1)
    ```

    Attributes:
        format: The format of `messages`.
        source: What they were read as: one of `SOURCES`.
        notes: How the source was guessed, and what was repaired and left out.
        system: What the operator says, if the format has no message for it (`gemini`): it belongs into the request.
    """

    messages: list[Message]
    format: str
    source: str
    notes: tuple[str, ...]
    system: str = ""


def read_history(
    source: str | Path | BufferedIOBase | Sequence[Any] | dict[str, Any],
    format: str | None = None,  # noqa: A002 - the command's word
    *,
    into: str | None = None,
    session: str | None = None,
) -> History:
    """Read a file (JSON, or one item a line; its path, or opened in binary mode) or objects. `format` is one of
    `SOURCES`; None guesses it, and a note tells why.

    `into` is the format of the messages, one of `hooksdk.formats.FORMATS`: by default `openai-chat` or `anthropic`, the
    one of the two that loses less of this source. The source's own format keeps everything. Calls without a result get
    an error result, except calls that the history ends with. `session` names one of the conversations of a file that
    holds several, such as a database of openai-agents. Raises `HistoryError` with the file and the line that cannot be
    read.
    """
    if format is not None and format not in _READERS:
        problem = f"'{format}' is no source of histories: take one of {', '.join(SOURCES)}."
        raise ConfigError("format", (f"{problem}{did_you_mean(format, SOURCES)}",))
    items = open_source(source, session)
    _refuse_trace(items)
    name, reason = (format, "") if format is not None else _guess(items)
    reader = _READERS[name]
    target = into or _target_of(name, items)
    if target not in FORMATS:
        problem = f"a history of '{name}' cannot be read into '{target}'. Take {' or '.join(FORMATS)}"
        raise ConfigError("into", (problem,))
    notes, beside = [*([f"read as {name}: {reason}"] if reason else []), *items.notes], ""
    if target == ("openai-responses" if name == "openai-agents" else name):
        messages = as_they_are(items, target, notes)
    else:
        draft = Draft(target)
        reader.convert(items, draft)
        writer = Writer(draft)
        messages = writer.write()
        notes, beside = notes + draft.notes, "\n\n".join(writer.beside)
    if not messages:
        problem = f"there is no message in it for a model ({'; '.join(notes)})"
        raise HistoryError(items.name or "the history", problem, "Pass another one")
    return History(messages, target, name, tuple(notes), beside)


def _target_of(name: str, source: Source) -> str:
    """The one of the two formats that loses less of the source."""
    tells = {"langchain": _langchain.is_by_anthropic, "pydantic-ai": _pydantic_ai.is_by_anthropic}.get(name)
    return "anthropic" if name in _FOR_ANTHROPIC or (tells and tells(source)) else "openai-chat"


def _refuse_trace(source: Source) -> None:
    """Raise `HistoryError` for a file of `trace_file`: its lines look like items, and hold no message."""
    if source.items and {"kind", "run_id", "session_id"} <= source.items[0].keys():
        names = ", ".join(f"'{one}'" for one in sorted({str(item.get("session_id")) for item in source.items})[:5])
        problem = "it is a trace, which holds no arguments of calls and no messages"
        advice = f"Take the stored session itself; this trace is of {names}"
        raise HistoryError(Path(source.name).name or "the history", problem, advice)


def _guess(source: Source) -> tuple[str, str]:
    for name, reader in _READERS.items():
        if reason := reader.recognise(source):
            return name, reason
    advice = "Name the format if it is one of these, or pass the messages as OpenAI's or Anthropic's API takes them"
    raise source.wrong(0, f"a history of {', '.join(SOURCES)}", advice)
