"""Random steps of a session, and everything that a ledger knows of it, to compare two."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

from hypothesis import strategies as st
from transcripts import OPENAI, call

from hooksdk import schema
from hooksdk._origins.folding import fold
from hooksdk._transcript.journal import Ledger
from hooksdk.calls import ToolResult
from hooksdk.formats import MessageFormat
from hooksdk.tools import Tool
from hooksdk.transcript import Results, Transcript

JSON = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False, allow_infinity=False), st.text(max_size=5)),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text("abc", max_size=1), inner, max_size=4),
    max_leaves=12,
)  # fmt: skip

STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("turn"), st.permutations(range(3)), st.booleans()),
        st.tuples(st.just("early"), st.integers(0, 2)),
        st.tuples(st.just("state"), st.sampled_from("pq"), JSON),
        st.tuples(st.just("trim"), st.integers(0, 20)),
        st.tuples(st.just("restore"), st.integers(0, 20)),
        st.tuples(st.just("drain")),
        st.tuples(st.just("compact")),
        st.tuples(st.just("close")),
    ),
    max_size=20,
)


PROMPTS = ("begin", "Begin", "summary 3", "never said")


async def play_steps(transcript: Transcript, steps: list[tuple[Any, ...]], form: MessageFormat = OPENAI) -> None:
    """Do what the steps say, each with a number that no earlier one of this session had."""
    results = Results(transcript, "p")
    first = transcript.count + 1
    await transcript.append([form.user("begin")])
    for number, (kind, *details) in enumerate(steps, first):
        handles = [info.handle for info in transcript.list_results(arguments=True)]
        if kind == "turn":
            calls = [call(number, "same" if details[1] else f"c{number}-{each}", f"tool{each}") for each in range(3)]
            calls[1].arguments["text"] = f"{number} " * 300
            await transcript.append(form.reply_messages("", calls))
            order: list[int] = details[0][: 3 if number % 4 else 2]
            for each in order:
                await transcript.answer(
                    calls[each], ToolResult(f"{number} {each} " * 200), Tool(name="real", disposable=True)
                )
        elif kind == "early":
            calls = [call(number, f"e{each}") for each in range(details[0] + 1)]
            await transcript.answer(calls[-1], ToolResult(f"early {number} " * 100), None)
            if number % 3:
                await transcript.append(form.reply_messages("", calls))
        elif kind == "state":
            await transcript.save_state(details[0], {"value": details[1]})
        elif kind in ("trim", "restore") and handles:
            await getattr(results, kind)(handles[details[0] % len(handles)])
        elif kind == "drain":
            await transcript.drain()
        elif kind == "close":
            await transcript.close_turn("not run")
        elif kind == "compact" and not transcript.pending:
            await transcript.compact([*transcript.view[:1], form.user(f"summary {number}")])


ELSEWHERE = {
    "format", "messages", "rows", "records", "slots", "states", "tokens_at", "_results_read", "effects", "_lookup", "void",
    "shown_before", "shown_count", "kept_upto", "lookup", "entries", "shown_forms", "trimmed_messages",
}  # fmt: skip
"""What is not compared as it stands: it is below in other words, or is how much was stored or asked so far."""


def knowledge(ledger: Ledger) -> dict[str, Any]:
    """Everything that a ledger knows; in which order the plugins' states came does not matter."""
    rows = ["handle", "position", "index", "call_id", "characters", "tokens", "is_error", "refusal", "turn", "tool",
            "summary", "call"]  # fmt: skip
    slots = ["row", "order", "call", "open"]
    return {
        **{name: repr(value) for name, value in vars(ledger).items() if name not in ELSEWHERE},
        "effects": repr(ledger.effects),
        "messages": list(ledger.messages),
        "rows": list(ledger.rows),
        "records": [{row: getattr(record, row) for row in rows} for record in ledger.records],
        "marks": [[repr(row.marks) for row in record.with_arguments] for record in ledger.records],
        "labels": ledger.records.labels,
        "handle_ids": ledger.records.handle_ids,
        "infos": [asdict(info) for info in ledger.infos(arguments=True)],
        "bodies": [repr(ledger.body(record)) for record in ledger.records],
        "slots": [repr([getattr(slot, name) for name in slots]) for slot in ledger.slots],
        "states": json.dumps(ledger.states, sort_keys=True),
        "view": ledger.view,
        "trimmed": {place: ledger.shown_at(place) for place in ledger.trimmed_messages},
        "places": [ledger.lookup.places(schema.fingerprint(message)) for message in ledger.messages],
        "prompts": [ledger.lookup.has_prompt(fold(text)) for text in PROMPTS],
        "shown": {place: sorted(forms) for place, forms in ledger.shown_before.items()},
    }
