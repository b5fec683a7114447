"""Reading a person's answer at a terminal: what was typed before the question shows, and what is pasted in several lines, is none."""

from __future__ import annotations

import contextlib
import os
import select
import sys
from collections.abc import Callable, Generator

__all__ = ["PASTED", "TRIES", "forget_typed", "is_pasted", "marking_pastes", "read_typed", "without_marks"]

PASTED = "More than one line came at once, so none is taken for an answer. Type it, please."
"""What is said of a paste, before the question is put again."""
TRIES = 5
"""How often a question is put before silence counts."""
_BEGIN, _END = "\x1b[200~", "\x1b[201~"


def forget_typed() -> None:
    """Drop what was typed before a question shows: it is no answer to it. Of a pipe or a file nothing is dropped."""
    if not _is_terminal():
        return
    if sys.platform == "win32":
        import msvcrt

        while msvcrt.kbhit():
            msvcrt.getwch()
    else:
        import termios

        with contextlib.suppress(OSError, termios.error):
            termios.tcflush(sys.stdin.fileno(), termios.TCIFLUSH)


def is_pasted(line: str) -> bool:
    """True for a line that came at a terminal together with others, or in a paste of several that the terminal marks."""
    if not line or not _is_terminal():
        return False
    if sys.platform == "win32":
        import msvcrt

        return msvcrt.kbhit()
    return (_BEGIN in line and _END not in line) or bool(select.select([sys.stdin], [], [], 0)[0])


def without_marks(line: str) -> str:
    """The line without the marks of a paste: one word may be pasted."""
    return line.replace(_BEGIN, "").replace(_END, "")


@contextlib.contextmanager
def marking_pastes() -> Generator[None]:
    """The terminal marks pastes while a question is put; one that does not know how to does nothing."""
    can_mark = _is_terminal() and sys.stderr.isatty() and os.environ.get("TERM", "dumb") != "dumb"
    try:
        if can_mark:
            _write("\x1b[?2004h")
        yield
    finally:
        if can_mark:
            _write("\x1b[?2004l")


def read_typed(put_question: Callable[[], object]) -> str:
    """Put a question, and read the line that is typed in answer; empty at the end of stdin, and where lines are pasted again
    and again."""
    with marking_pastes():
        for _ in range(TRIES):
            forget_typed()
            put_question()
            line = sys.stdin.readline()
            if not is_pasted(line):
                return without_marks(line).strip()
            _write(PASTED + "\n")
    return ""


def _write(text: str) -> None:
    sys.stderr.write(text)
    sys.stderr.flush()


def _is_terminal() -> bool:
    return bool(sys.stdin) and sys.stdin.isatty()
