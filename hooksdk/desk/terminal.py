"""Reading a person's answer at a terminal. Text that was typed before the question, or pasted in several lines, is no
answer."""

from __future__ import annotations

import contextlib
import os
import select
import sys
from collections.abc import Callable, Generator

__all__ = ["PASTED", "TRIES", "forget_typed", "is_pasted", "marking_pastes", "read_typed", "without_marks"]

PASTED = "More than one line came at once, so none is taken for an answer. Type it, please."
"""The answer to a paste, before the question is put again."""
TRIES = 5
"""How often a question is put before it counts as unanswered."""
_BEGIN, _END = "\x1b[200~", "\x1b[201~"


def forget_typed() -> None:
    """Drop what was typed at a terminal so far. From a pipe or a file nothing is dropped."""
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
    """True for a line that came at a terminal together with others, or in a marked paste of several lines."""
    if not line or not _is_terminal():
        return False
    if sys.platform == "win32":
        import msvcrt

        return msvcrt.kbhit()
    return (_BEGIN in line and _END not in line) or bool(select.select([sys.stdin], [], [], 0)[0])


def without_marks(line: str) -> str:
    """The line without the marks around a pasted word."""
    return line.replace(_BEGIN, "").replace(_END, "")


@contextlib.contextmanager
def marking_pastes() -> Generator[None]:
    """Let the terminal mark pastes while a question is put, if it can."""
    can_mark = _is_terminal() and sys.stderr.isatty() and os.environ.get("TERM", "dumb") != "dumb"
    try:
        if can_mark:
            _write("\x1b[?2004h")
        yield
    finally:
        if can_mark:
            _write("\x1b[?2004l")


def read_typed(put_question: Callable[[], object]) -> str:
    """Put a question, and read the line that is typed; empty at the end of stdin, and after too many pastes of several
    lines."""
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
