"""A run or a session as one page of HTML, to look at and to send: `hooksdk report`, and the functions below it.

```python
from hooksdk.report import page

records = [
    {"time": 1.0, "kind": "run_started", "session_id": "ann", "run_id": "run-1", "attempt": 1, "agent_id": "main"},
    {"time": 3.5, "kind": "run_ended", "session_id": "ann", "run_id": "run-1", "attempt": 1, "agent_id": "main", "reason": "completed"},
]
assert "completed" in page(records)
```

Status: trial.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from hooksdk.report._build import NoTrace, build, read_trace
from hooksdk.report._model import Report
from hooksdk.report._page import is_page, render
from hooksdk.report._stored import StoredSession

__all__ = ["NoTrace", "Report", "StoredSession", "build", "is_page", "page", "read_trace", "render"]


def page(
    trace: Iterable[Mapping[str, Any]] | None = None, sessions: Sequence[StoredSession] = (), *, title: str = ""
) -> str:
    """One self-contained page of the runs in a trace's records, of stored sessions, or of both. It loads nothing from
    anywhere, and what is not given is said on it. Everything in the input is data: it is escaped, and nothing of it can
    run."""
    return render(build(trace, sessions, title=title))
