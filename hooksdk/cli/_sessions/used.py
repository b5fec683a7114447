"""What the sessions of a store have used, each with its sub-agents': `hooksdk sessions list --used`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from hooksdk.cli._spent import spent_json
from hooksdk.costs import PriceList, Request, in_dollars, requests_in
from hooksdk.errors import StoreError
from hooksdk.stores import Store

HEADINGS = ("requests", "tokens", "paid", "with sub-agents", "paid")


async def requests_of(store: Store, session_ids: Iterable[str]) -> dict[str, list[Request]]:
    """By session, the requests whose provider counted; a session that cannot be read is left out."""
    requests: dict[str, list[Request]] = {}
    for session_id in session_ids:
        try:
            requests[session_id] = requests_in((await store.read_session(session_id))[1])
        except StoreError:
            continue
    return requests


def used_by(requests: Mapping[str, Sequence[Request]], prices: PriceList) -> dict[str, dict[str, Any]]:
    """By session, what it used, and what the tasks used that began in it. A sub-agent's request is of the session in which its
    family's outermost run made a request; where that is not known, of its own alone."""
    session_of = {one.run_id: name for name, own in requests.items() for one in own if one.run_id == one.family}
    tasks: dict[str, list[Request]] = {name: [] for name in requests}
    for name, own in requests.items():
        for one in own:
            tasks[session_of.get(one.family, name)].append(one)
    return {
        name: {**spent_json(prices.spent(own)), "with_subagents": spent_json(prices.spent(tasks[name]))}
        for name, own in requests.items()
    }


def used_cells(used: Mapping[str, Any] | None) -> Sequence[str]:
    """One row of the list; a question mark where nothing can be read, a dash for money where there is no price."""
    if used is None:
        return ("?",) * len(HEADINGS)
    whole = used["with_subagents"]
    return (f"{used['requests']:,}", _tokens(used), _paid(used), _tokens(whole), _paid(whole))


def _tokens(used: Mapping[str, Any]) -> str:
    return f"{used['prompt'] + used['output']:,}"


def _paid(used: Mapping[str, Any]) -> str:
    return "-" if used["dollars"] is None else in_dollars(used["dollars"])
