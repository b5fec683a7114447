"""The output of `hooksdk audit verify`, `key`, `head`, `show` and `export`."""

from __future__ import annotations

import json
import sys
import time
from collections import deque
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from hooksdk.audit import ChainRecord, Head, Report, public_text, read_public_key, verify
from hooksdk.cli._audit.chains import audit_plugin, records_of, sources_of, typed_sources
from hooksdk.cli._console import CommandProblem, counted, json_text, one_line
from hooksdk.cli._project import project_config
from hooksdk.cli._view import View
from hooksdk.values import clip

_DETAIL = 120
"""The most characters of a record's own fields in the table."""
_SHOWN_ELSEWHERE = (
    "n prev time kind session_id run_id agent_id call_id name happened tool origin parent_id tool_fingerprint "
    "arguments_sha256 result_sha256 effect_id"
)
"""Fields that are not among a record's own in the table."""
_WORDS = {"left_out": "left out", "cut": "cut off", "anew": "made anew"}
"""Kinds of damage that are not words."""


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """The records that are asked for."""

    session: str | None = None
    kinds: Sequence[str] = ()
    call: str | None = None
    last: int | None = None

    def of(self, records: Iterable[ChainRecord]) -> Iterator[ChainRecord]:
        """The records that were asked for."""
        chosen = filter(self._has, records)
        return iter(deque(chosen, self.last)) if self.last is not None else chosen

    def _has(self, record: ChainRecord) -> bool:
        fields = record.fields
        return (
            (self.session is None or fields.get("session_id") == self.session)
            and (self.call is None or self.call in (fields.get("call_id"), fields.get("effect_id")))
            and (not self.kinds or record.kind in self.kinds)
        )


@contextmanager
def _readable() -> Generator[None]:
    """Turn an unreadable file into a `CommandProblem`."""
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        raise CommandProblem(f"{error.filename or 'the output'} cannot be read or written: {error.strerror}") from None


def verify_files(files: Sequence[str], key: str, heads: Sequence[str], *, as_json: bool) -> int:
    """Verify a chain, and print the outcome. The exit code: 1 for a chain that is not whole."""
    public = read_public_key(key)
    with _readable():
        report = verify(typed_sources(files), public, [Head.of(text) for text in heads])
    view = View(
        {
            "whole": report.damage is None,
            "records": report.records,
            "first": report.first,
            "head": str(report.head) if report.head else None,
            "key": public_text(public),
            "against_heads": list(heads),
            "damage": asdict(report.damage) if report.damage else None,
            "notes": report.notes,
        },
        indent=9,
    )
    _add_report(view, report, against_heads=bool(heads))
    view.show(as_json=as_json)
    return 0 if report.damage is None else 1


def _add_report(view: View, report: Report, *, against_heads: bool) -> None:
    if (damage := report.damage) is not None:
        where = f"record {damage.record}" if damage.record is not None else "the chain"
        view.markup(f"[red]{_WORDS.get(damage.kind, damage.kind)}[/]  {where}: {one_line(damage.text)}")
        head, unknown = report.head, "nothing before it is vouched for"
        view.line("before", f"up to record {head.number} nothing is wrong" if head else unknown, "dim")
    else:
        view.line("whole", f"{counted(report.records, 'record')}, each as it was signed", "green")
        view.line("head", report.head)
        if not against_heads:
            note = "without --head a cut end, and a chain that the holder of the key made anew, are not seen"
            view.line("note", note, "dim")
    view.lines("note", report.notes, "dim")


def show_key(project: Path, *, as_json: bool) -> int:
    """Print the public half of the key."""
    plugin = audit_plugin(project_config(project))
    if plugin is None:
        raise CommandProblem("the plugin audit is not installed here")
    key: str = plugin.holder.public_key(plugin.config)
    view = View({"key": key})
    view.text(key)
    view.show(as_json=as_json)
    return 0


def show_head(project: Path, files: Sequence[str], *, as_json: bool) -> int:
    """Print the head of the chain."""
    with _readable():
        newest = deque(records_of(sources_of(project, files)), 1)
    if not newest:
        raise CommandProblem("the chain has no record")
    head = newest[0].head
    view = View({"head": str(head), "record": head.number, "time": newest[0].fields.get("time")})
    view.text(str(head))
    view.show(as_json=as_json)
    return 0


def show(project: Path, files: Sequence[str], wanted: Wanted, *, as_json: bool) -> int:
    """Print the records."""
    with _readable():
        records = list(wanted.of(records_of(sources_of(project, files))))
    view = View({"records": [{**record.fields, "hash": record.hash} for record in records]})
    if records:
        headings = ("record", "time", "session", "kind", "call", "what")
        view.table(headings, [_row(record) for record in records], numbers="record")
    else:
        view.markup("[dim]no record[/]")
    view.show(as_json=as_json)
    return 0


def _row(record: ChainRecord) -> Sequence[str]:
    fields = record.fields
    hidden = _SHOWN_ELSEWHERE.split()
    own = [f"{name}={_word(value)}" for name, value in fields.items() if name not in hidden and value not in ([], "")]
    call = " ".join(str(word) for word in (fields.get("call_id"), fields.get("name")) if word)
    return [
        str(record.number),
        time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(record.happened)),
        clip(str(fields.get("session_id", "")), 24),
        record.kind,
        clip(call, 40),
        clip(" ".join(own), _DETAIL),
    ]


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
        with nullcontext(sys.stdout) if output is None else output.open("w", encoding="utf-8") as file:
            file.writelines(text)
    return 0


def _key_in(records: Iterator[ChainRecord]) -> str:
    """The key in the chain's first record."""
    first = next(records, None)
    return str(first.fields.get("key", "")) if first is not None else ""


def _events(records: Iterable[ChainRecord], key: str) -> Iterator[dict[str, Any]]:
    """Records in the form of CloudEvents 1.0. `source` is the chain, by its key; `signedline` is the record as it was
    signed, from which a chain can be put together again."""
    for record in records:
        session = record.fields.get("session_id")
        yield {
            "specversion": "1.0",
            "id": str(record.number),
            "source": f"urn:hooksdk:audit:{key}",
            "type": f"hooksdk.audit.{record.kind}",
            "time": datetime.fromtimestamp(record.happened, UTC).isoformat().replace("+00:00", "Z"),
            **({"subject": str(session)} if session else {}),
            "datacontenttype": "application/json",
            "data": dict(record.fields),
            "signedline": record.line.decode("ascii"),
        }
