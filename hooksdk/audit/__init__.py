"""A chain of signed records, as the plugin `audit` writes it: its form, its keys, and how to verify it.

```python
from pathlib import Path

from hooksdk.audit import Head, file_source, read_public_key, verify


def is_whole(files: list[Path], key: str, head: str) -> bool:
    report = verify([file_source(path) for path in files], read_public_key(key), [Head.of(head)])
    return report.damage is None
```

Status: trial.
"""

from __future__ import annotations

from hooksdk.audit._chain import (
    CHAIN_BEGUN,
    FILE_BEGUN,
    FILES_REMOVED,
    LINE_TORN,
    NO_HASH,
    SCHEMA,
    ChainRecord,
    Head,
    NoCryptography,
    Signer,
    hash_of,
    is_genuine,
    load_key,
    numbered_files,
    parse_line,
    public_text,
    read_public_key,
    read_records,
    seal,
    written_lines,
)
from hooksdk.audit._exported import event_of, record_in
from hooksdk.audit._stored import StoredValues, Values, read_store, record_key, record_keys
from hooksdk.audit._verify import Damage, DamageKind, Report, Source, file_source, verify

__all__ = [
    "CHAIN_BEGUN",
    "FILES_REMOVED",
    "FILE_BEGUN",
    "LINE_TORN",
    "NO_HASH",
    "SCHEMA",
    "ChainRecord",
    "Damage",
    "DamageKind",
    "Head",
    "NoCryptography",
    "Report",
    "Signer",
    "Source",
    "StoredValues",
    "Values",
    "event_of",
    "file_source",
    "hash_of",
    "is_genuine",
    "load_key",
    "numbered_files",
    "parse_line",
    "public_text",
    "read_public_key",
    "read_records",
    "read_store",
    "record_in",
    "record_key",
    "record_keys",
    "seal",
    "verify",
    "written_lines",
]
