"""Rules that are misspelt in one way each, for `misspelt_rules.py`: what a rival makes of them is in a file of its own."""

from __future__ import annotations

CASES = {
    "allows": "is right, and does not fit the call",
    "blocks": "is right, and fits the call",
    "list": "has a list that does not end",
    "name": "misspells what it looks at",
    "function": "uses a function that there is not",
    "operator": "uses an operator that there is not",
    "case": "has the tool's name in other case",
    "verdict": "misspells its verdict",
    "equals": "has `=` for `==`, or the other way round",
    "pattern": "has a pattern for the tool's name",
    "tool": "misspells the tool's name",
    "rules": "stands under a misspelt `rules`",
    "key": "misspells the key of its verdict",
    "default": "stands beside a misspelt default",
}
"""Each case by its short name, as the row of the table says it after "A rule that"."""
SIX = ("list", "name", "function", "operator", "case", "verdict")
"""The ones with which it began."""
