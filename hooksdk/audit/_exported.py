"""The form in which a chain is exported: CloudEvents, each with its signed line, from which the chain is read again."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from hooksdk.audit import _chain as chain
from hooksdk.audit._chain import ChainRecord
from hooksdk.values import as_object, is_list, is_object

# What begins the `source` of an event; the chain's public key follows.
_SOURCE = "urn:hooksdk:audit:"
_NO_RECORD = "is no record"


def event_of(record: ChainRecord, key: str) -> dict[str, Any]:
    """A record in the form of CloudEvents 1.0. `source` is the chain, by its public key; `signedline` is the record as
    it was signed."""
    session = record.fields.get("session_id")
    return {
        "specversion": "1.0",
        "id": str(record.number),
        "source": f"{_SOURCE}{key}",
        "type": f"hooksdk.audit.{record.kind}",
        "time": datetime.fromtimestamp(record.happened, UTC).isoformat().replace("+00:00", "Z"),
        **({"subject": str(session)} if session else {}),
        "datacontenttype": "application/json",
        "data": dict(record.fields),
        "signedline": record.line.decode("utf-8", "replace"),
    }


def read_line(line: bytes, key: str | None = None) -> tuple[ChainRecord | None, bool, str]:
    """The record in a line of a chain, or of an export of the chain with this key; whether it is of an export; and what
    is wrong where it is no record."""
    if (record := chain.parse_line(line)) is not None:
        return record, False, ""
    try:
        event = _parsed(line)
    except (ValueError, RecursionError):
        return None, line.startswith(b'{"specversion"'), _NO_RECORD
    if not is_object(event) or "specversion" not in event:
        return None, False, _NO_RECORD
    signed, source = event.get("signedline"), str(event.get("source", ""))
    record = chain.parse_line(signed.encode("utf-8", "replace")) if isinstance(signed, str) else None
    if record is None:
        return None, True, "is an event without the signed line of a record"
    if key is not None and source != f"{_SOURCE}{key}":
        return None, True, "is an event of another source than the chain with this key"
    expected = event_of(record, source.removeprefix(_SOURCE))
    if json.dumps(event, sort_keys=True) != json.dumps(expected, sort_keys=True):  # 1 and true are equal in Python
        return None, True, "says something else than the signed line in it"
    return record, True, ""


def _parsed(content: bytes) -> object:
    """The JSON value. Raises `ValueError` also for a key that is there twice, of which readers take either."""

    def as_dict(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        if len(found := dict(pairs)) < len(pairs):
            raise ValueError("a key is there twice")
        return found

    return json.loads(content, object_pairs_hook=as_dict)


def record_in(line: bytes) -> ChainRecord | None:
    """The record in a line of a chain or of an export, or None."""
    return read_line(line)[0]


def file_lines(path: Path) -> Iterator[tuple[bytes, bool]]:
    """Each line of a file without its end, and whether it has one; of an export that is one batch each event. Raises
    `OSError`."""
    with path.open("rb") as file:
        is_batch = file.read(1) == b"["
    if not is_batch:
        yield from chain.written_lines(path)
        return
    content = path.read_bytes()
    try:
        batch = _parsed(content)
    except (ValueError, RecursionError):
        batch = None
    events = [json.dumps(as_object(event)).encode() for event in batch] if is_list(batch) else [content]
    yield from ((event, True) for event in events)
