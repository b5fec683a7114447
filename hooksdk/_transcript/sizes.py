"""What the messages of the view cost."""

from __future__ import annotations

from hooksdk import schema
from hooksdk._transcript.journal import Ledger
from hooksdk.formats import Message
from hooksdk.formats.content import size_of


def message_tokens(ledger: Ledger) -> list[int]:
    """The size of each stored message in the view. What a compaction put in the place of some counts at the last of
    them."""
    _fill(ledger)
    tokens = [0] * ledger.count
    tokens[ledger.upto :] = ledger.tokens_at[ledger.upto :]
    for place in ledger.base:
        if isinstance(place, int):
            tokens[place] += ledger.tokens_at[place]
        elif tokens:
            tokens[max(ledger.upto - 1, 0)] += schema.estimate_tokens(place)
    return tokens


def _fill(ledger: Ledger) -> None:
    """Find the sizes that are not known yet: messages that stand together are read together."""
    sizes = ledger.tokens_at
    sizes.extend([-1] * (ledger.count - len(sizes)))
    for place in ledger.base:
        if isinstance(place, int) and sizes[place] < 0:
            sizes[place] = _tokens(ledger, place, ledger.shown_at(place))
    missing = (place for place in range(ledger.upto, ledger.count) if sizes[place] < 0)
    for start in missing:
        stop = next((place for place in range(start, ledger.count) if sizes[place] >= 0), ledger.count)
        for place, message in enumerate(ledger.messages.since(start, stop), start):
            sizes[place] = _tokens(ledger, place, ledger.trimmed_messages.get(place, message))


def _tokens(ledger: Ledger, position: int, message: Message) -> int:
    tokens = schema.estimate_tokens(message)
    # An image costs less than its data is long.
    for result in ledger.need_format().results(message) if ledger.records.at(position) else ():
        tokens += size_of(result.content).tokens - schema.estimate_tokens(result.content)
    return max(tokens, 0)
