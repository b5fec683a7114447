"""What each request of a session used, as the session's journal keeps it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from hooksdk.costs._usage import Usage
from hooksdk.transcript import Entry
from hooksdk.values import as_object

KIND = "used"
"""The kind of the journal's entries."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One request to a model, and what its provider counted."""

    model: str
    """`PROVIDER:NAME` as the run said it, `NAME` where it named no provider; empty where it said neither."""
    usage: Usage
    run_id: str = ""
    family: str = field(default="", compare=False)
    """The family of its run: the id of the outermost run, `run_id` itself where it is no sub-agent's."""
    messages: int = 0
    """How many messages were stored once the reply was."""
    time: float | None = field(default=None, compare=False)
    """When that was, in seconds since 1970; None where it is not known."""

    def entry(self) -> Entry:
        """What the journal keeps of it. Places and times are the journal's own."""
        tokens = {name: count for name, count in asdict(self.usage).items() if count}
        above = {} if self.family in {"", self.run_id} else {"family": self.family}
        return {"model": self.model, "run": self.run_id, **above, "tokens": tokens}


def model_name(provider: str | None, model: str | None) -> str:
    """`PROVIDER:NAME`, or the name alone.

    ```python
    from hooksdk.costs import model_name

    assert model_name("openai", "gpt-5") == "openai:gpt-5"
    ```
    """
    return f"{provider}:{model}" if provider and model else model or ""


def requests_in(journal: Iterable[Mapping[str, Any]]) -> list[Request]:
    """The requests of a session, from its journal, as `store.read_session(id)` answers it. Empty for a session that version
    0.2.0 or an older one stored, and where the provider counted nothing: what these used is not known.

    ```python
    from hooksdk.costs import requests_in

    journal = [{"kind": "used", "model": "openai:gpt-5", "run": "run-1", "tokens": {"fresh": 900, "output": 5}, "m": 2}]
    assert requests_in(journal)[0].usage.prompt == 900
    ```
    """
    return [_request(entry) for entry in journal if entry.get("kind") == KIND]


def _request(entry: Mapping[str, Any]) -> Request:
    counts = as_object(entry.get("tokens"))
    usage = Usage(**{one.name: int(counts.get(one.name, 0)) for one in fields(Usage)})
    time = entry.get("time")
    return Request(
        model=str(entry.get("model", "")),
        usage=usage,
        run_id=str(entry.get("run", "")),
        family=str(entry.get("family") or entry.get("run", "")),
        messages=int(entry.get("m", 0)),
        time=float(time) if isinstance(time, (int, float)) else None,
    )
