"""What a query asks for, by its verb or its beginning: to know something, a change, or words and no tool; and what a tool is
for, by its verb and its annotations."""

import re
from typing import Literal

from builtin_plugins.tool_search._ranking.entries import Document
from builtin_plugins.tool_search._ranking.words import changing_verbs, name_words, reading_verbs, stop_words

Purpose = Literal["read", "change", "other"]

_LONGEST = 8  # words of a query that is judged: a longer one asks for several things
_VERB_PLACES = 3  # words of a name among which its verb is looked for: git_commit, mail_send_message
_WORD = re.compile(r"[a-z]+")


def only_reads(query: str) -> bool:
    """Whether a short query asks for no change: its verb stands first, or last as in "issue create"."""
    if len(query.split()) > _LONGEST:
        return False
    words = [word for word in _WORD.findall(query.lower()) if word not in stop_words()]
    return bool(words) and changing_verbs().isdisjoint((words[0], words[-1]))


def purpose(document: Document) -> Purpose:
    """What a tool is for, by its annotations, else by the first verb in its name."""
    if document.read_only is not None:
        return "read" if document.read_only else "change"
    for word in name_words(document.name, _VERB_PLACES):
        if word in reading_verbs():
            return "read"
        if word in changing_verbs():
            return "change"
    return "other"
