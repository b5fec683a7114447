"""What the messages of the view cost."""

from __future__ import annotations

from hooksdk import schema
from hooksdk._transcript.journal import Ledger
from hooksdk.formats._content import size_of


def message_tokens(ledger: Ledger) -> list[int]:
    """The size of each stored message in the view. What a compaction put in the place of some counts at the last of them."""
    tokens = [0] * ledger.count
    ledger.tokens_at.extend([-1] * (ledger.count - len(ledger.tokens_at)))
    for place in ledger.places:
        if isinstance(place, int):
            tokens[place] += _tokens_at(ledger, place)
        elif tokens:
            tokens[max(ledger.upto - 1, 0)] += schema.estimate_tokens(place)
    return tokens


def _tokens_at(ledger: Ledger, position: int) -> int:
    if ledger.tokens_at[position] < 0:
        message = ledger.shown_at(position)
        tokens = schema.estimate_tokens(message)
        # An image costs less than its data is long.
        for result in ledger.need_format().results(message) if ledger.records.at(position) else ():
            tokens += size_of(result.content).tokens - schema.estimate_tokens(result.content)
        ledger.tokens_at[position] = max(tokens, 0)
    return ledger.tokens_at[position]
