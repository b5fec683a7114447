"""What `hooksdk audit key`, `head`, `show` and `export` print."""

from __future__ import annotations

import json
import time
from collections import deque
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from hooksdk.audit import ChainRecord
from hooksdk.cli._audit.chains import audit_plugin, records_of, sources_of
from hooksdk.cli._console import CommandProblem, json_text, print_columns, print_json, printable, stdout_console
from hooksdk.cli._project import project_config
from hooksdk.values import clip

_DETAIL = 120
"""Characters of what a record says, in the table."""
_SHOWN_ELSEWHERE = frozenset({
    "n", "prev", "time", "kind", "session_id", "run_id", "agent_id", "call_id", "name", "happened", "tool", "origin", "parent_id",
    "tool_fingerprint", "arguments_sha256", "result_sha256", "effect_id",
})  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """Which records."""

    session: str | None = None
    kinds: Sequence[str] = ()
    call: str | None = None
    last: int | None = None

    def of(self, records: Iterable[ChainRecord]) -> Iterator[ChainRecord]:
        """Those of them."""
        chosen = (record for record in records if self._has(record.kind, record.fields))
        return iter(deque(chosen, self.last)) if self.last is not None else chosen

    def _has(self, kind: str, fields: Mapping[str, Any]) -> bool:
        if self.session is not None and fields.get("session_id") != self.session:
            return False
        if self.call is not None and self.call not in (fields.get("call_id"), fields.get("effect_id")):
            return False
        return not self.kinds or kind in self.kinds


@contextmanager
def _readable() -> Generator[None]:
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        raise CommandProblem(f"{error.filename or 'the output'} cannot be read or written: {error.strerror}") from None


def show_key(project: Path, *, as_json: bool) -> int:
    """Print the public half of the key."""
    plugin = audit_plugin(project_config(project))
    if plugin is None:
        raise CommandProblem("the plugin audit is not installed here")
    key = plugin.holder.public_key(plugin.config)
    print_json({"schema": 1, "key": key}) if as_json else print(key)
    return 0


def show_head(project: Path, files: Sequence[str], *, as_json: bool) -> int:
    """Print the head."""
    with _readable():
        newest = deque(records_of(sources_of(project, files)), 1)
    if not newest:
        raise CommandProblem("the chain has no record")
    head = newest[0].head
    if as_json:
        print_json({"schema": 1, "head": str(head), "record": head.number, "time": newest[0].fields.get("time")})
    else:
        print(head)
    return 0


def show(project: Path, files: Sequence[str], wanted: Wanted, *, as_json: bool) -> int:
    """Print the records as a table, or as they are."""
    with _readable():
        records = list(wanted.of(records_of(sources_of(project, files))))
    if as_json:
        shown = [{**record.fields, "hash": record.hash} for record in records]
        print_json({"schema": 1, "records": shown})
    elif records:
        rows = [_row(record) for record in records]
        print_columns(("record", "time", "session", "kind", "call", "what"), rows, numbers="record")
    else:
        stdout_console().print("no record", style="dim")
    return 0


def _row(record: ChainRecord) -> Sequence[str]:
    fields = record.fields
    said = [
        f"{name}={_word(value)}"
        for name, value in fields.items()
        if name not in _SHOWN_ELSEWHERE and value not in ([], "")
    ]
    call = " ".join(str(word) for word in (fields.get("call_id"), fields.get("name")) if word)
    cells = (
        str(record.number), time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(record.happened)), clip(str(fields.get("session_id", "")), 24),
        record.kind, clip(call, 40), clip(" ".join(said), _DETAIL),
    )  # fmt: skip
    return [printable(cell).replace("\n", " ").replace("\t", " ") for cell in cells]


def _word(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def export(project: Path, files: Sequence[str], wanted: Wanted, output: Path | None, *, as_json: bool) -> int:
    """Write CloudEvents: one a line, or one batch."""
    with _readable():
        sources = sources_of(project, files)
        events = _events(wanted.of(records_of(sources)), _key_in(records_of(sources)))
        if as_json:
            text = iter([f"{json_text(list(events), indent=2)}\n"])
        else:
            text = (f"{json.dumps(event)}\n" for event in events)
        if output is None:
            for piece in text:
                print(piece, end="")
        else:
            with output.open("w", encoding="utf-8") as file:
                file.writelines(text)
    return 0


def _key_in(records: Iterator[ChainRecord]) -> str:
    """The key that the chain names in its first record."""
    first = next(records, None)
    return str(first.fields.get("key", "")) if first is not None else ""


def _events(records: Iterable[ChainRecord], key: str) -> Iterator[dict[str, Any]]:
    """Records in the form of CloudEvents 1.0. `source` is the chain, by its key; `signedline` is the record as it was signed, from
    which a chain can be put together again."""
    for record in records:
        session = record.fields.get("session_id")
        yield {
            "specversion": "1.0", "id": str(record.number), "source": f"urn:hooksdk:audit:{key}", "type": f"hooksdk.audit.{record.kind}",
            "time": datetime.fromtimestamp(record.happened, UTC).isoformat().replace("+00:00", "Z"),
            **({"subject": str(session)} if session else {}),
            "datacontenttype": "application/json", "data": dict(record.fields), "signedline": record.line.decode("ascii"),
        }  # fmt: skip
