"""The weight of one occurrence of a word, by its field and the length of the text there."""

from builtin_plugins.tool_search._ranking.entries import FIELDS
from builtin_plugins.tool_search._ranking.postings import FIELD_BITS, FIELD_MASK, Postings

# By field, in the order of `tool_text`. Chosen on the public retrieval sets; small changes of them change little.
WEIGHTS = (4.0, 1.5, 0.7, 0.6, 0.3, 0.4, 1.5)
"""How much a word there counts."""
LENGTHS = (0.3, 0.4, 0.6, 0.5, 0.4, 0.9, 0.2)
"""How much a longer text than in other tools lowers it."""
K1 = 1.8
"""How quickly further occurrences stop counting."""


class Gains(dict[int, float]):
    """What an occurrence adds to the weight of a word, by its place; computed at first use."""

    def __init__(self, postings: Postings) -> None:
        self._lengths = postings.lengths
        columns = [[lengths[field] for lengths in postings.lengths] for field in range(FIELDS)]
        self._means = [sum(lengths) / max(1, sum(map(bool, lengths))) or 1.0 for lengths in columns]

    def __missing__(self, place: int) -> float:
        field = place & FIELD_MASK
        b = LENGTHS[field]
        length = self._lengths[place >> FIELD_BITS][field]
        gain = self[place] = WEIGHTS[field] / (1 - b + b * length / self._means[field])
        return gain
