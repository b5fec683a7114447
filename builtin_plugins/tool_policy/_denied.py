"""What a deny lists, and whether words or a text may be it."""

from __future__ import annotations

import re
from collections.abc import Sequence

from builtin_plugins.tool_policy._shell_words import HOLES

HOLE = f"[{''.join(sorted(HOLES))}]"
_ENDINGS = re.compile(r"\.(?:exe|cmd|bat|com)$")


class Denied:
    """What a deny lists: each a program, or a program and the words of one of its commands."""

    def __init__(self, wanted: Sequence[str]) -> None:
        self._wanted = [[part.casefold() for part in text.split()] for text in wanted]
        for words in self._wanted:
            words[0] = base(words[0])

    def mentioned(self, text: str) -> bool:
        """True when all words of one of them stand in the text, whatever it is."""
        plain = re.sub(r"[\\'\"]", "", text).casefold()
        return any(all(_mentions(plain, word) for word in words) for words in self._wanted)

    def fits(self, words: Sequence[str], *, literally: bool = False) -> bool:
        """True when the command may be one of them. `literally`: not only because its program is filled in."""
        program = words[0]
        if literally and not HOLES.isdisjoint(program.rpartition("/")[2]):
            return False
        if not literally and program.startswith(("!", "^", "%")):
            return True  # a line or a job of before, where a shell is kept open
        for wanted in self._wanted:
            if _may_end_with(program, wanted[0]) and _follows(words, wanted[1:]):
                return True
            for length in range(2, len(wanted) + 1):  # `git-push`, `docker-compose up`
                if _may_end_with(program, "-".join(wanted[:length])) and _follows(words, wanted[length:]):
                    return True
        return False


def base(program: str) -> str:
    """The name without its folder; some file systems do not tell upper from lower case."""
    return _ENDINGS.sub("", program.rpartition("/")[2].casefold())


def _mentions(text: str, word: str) -> bool:
    return re.search(rf"(?<![\w.-]){re.escape(word)}(?![\w-])", text) is not None


def _may_end_with(word: str, program: str) -> bool:
    """Whether a word with holes may be this program, in some folder."""
    if HOLES.isdisjoint(word):
        return base(word) == program
    end = re.split(HOLE, word)[-1]
    return base(end) == program if "/" in end else program.endswith(end.casefold())


def _may_be(word: str, wanted: str) -> bool:
    """Whether a word with holes may be this command of a program, or a shorter form of it: npm takes `publ` for
    `publish`."""
    if HOLES.isdisjoint(word):
        folded = word.casefold()
        return folded == wanted or (bool(folded) and wanted.startswith(folded) and wanted[len(folded) :].isalpha())
    return re.fullmatch(".*".join(map(re.escape, re.split(HOLE, word.casefold()))), wanted) is not None


def _follows(words: Sequence[str], wanted: Sequence[str]) -> bool:
    """Whether these words may follow the program, with options between them. An option may take the next word as its
    value or not: both are read."""
    places, after_option = {0}, False
    for word in words[1:]:
        if len(wanted) in places:
            return True
        empty = word in HOLES
        option = word.startswith(("-", "+"))
        following = {place + 1 for place in places if not option and _may_be(word, wanted[place])}
        places = following | places if option or empty or after_option else following
        after_option = empty or (option and "=" not in word)
        if not places:
            return False
    return len(wanted) in places
