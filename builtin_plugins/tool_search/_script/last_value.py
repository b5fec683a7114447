"""The value of a script's last line, and of a `return` outside of functions: the script changed so that it is kept."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

TEXT_OR_COMMENT = (
    r'"""(?s:\\.|[^\\])*?(?:"""|\Z)|\'\'\'(?s:\\.|[^\\])*?(?:\'\'\'|\Z)'
    r'|"(?:\\(?:\r\n|(?s:.))|[^"\\\n])*"?|\'(?:\\(?:\r\n|(?s:.))|[^\'\\\n])*\'?|#[^\n]*'
)
"""The texts and comments of a script, as a pattern that needs no second look, however they are left open."""
_TOKEN = re.compile(TEXT_OR_COMMENT + r"|\\\r?\n|(?P<mark>[()\[\]{};\n])")
_DEFINES = re.compile(r"(?:async\s+)?def\b")
_RETURNS = re.compile(
    r"((?:if|elif|else|for|while|with|try|except|finally)\b[^\"'#]*:\s*)?return\b(?=.*\S)",  # also in the line of a block
    re.DOTALL,
)


def keeping_value(code: str) -> list[str]:
    """The script with the value of its last line kept under a name, and what a `return` at the top level gives, too. Where
    that line is no expression the first of these is a syntax error, and the second keeps only the others."""
    lines = list(statements(code))
    returns = list(_returns(code, lines))
    edited = [_edited(code, [*returns, *_last(code, lines, returns)]), _edited(code, returns)]
    return list(dict.fromkeys(one for one in edited if one != code))


def _edited(code: str, edits: Sequence[tuple[int, int, str]]) -> str:
    for start, end, text in reversed(edits):
        code = f"{code[:start]}{text}{code[end:]}"
    return code


def _last(
    code: str, lines: Sequence[tuple[int, int]], returns: Sequence[tuple[int, int, str]]
) -> list[tuple[int, int, str]]:
    if not lines or (returns and returns[-1][1] == lines[-1][1]):
        return []
    start, end = lines[-1]
    line = code[start:end]
    if line[0].isspace():
        if code[start - 1 : start] != ";":
            return []  # in a block
        start += len(line) - len(line.lstrip())
    return [(start, end, f"__value__ = ({code[start:end]}\n)")]


def _returns(code: str, lines: Sequence[tuple[int, int]]) -> Iterator[tuple[int, int, str]]:
    """Of each `return` with a value that is in no function, and how its value is kept. In one line, so that an error
    after it has the line that it had; before a comment in the middle of the script that cannot be, and the value is lost."""
    functions: list[int] = []
    for start, end in lines:
        line = code[start:end]
        text = line.lstrip()
        indent = len(line) - len(text)
        if code[start - 1 : start] != ";":
            while functions and indent <= functions[-1]:
                functions.pop()
            if _DEFINES.match(text):
                functions.append(indent)
        match = _RETURNS.match(text)
        comment = "#" in text
        if match and not functions and not (comment and end != lines[-1][1]):
            value = text[match.end() :].strip() + ("\n" if comment else "")
            yield start + indent, end, f"{match[1] or ''}__value__ = ({value}); return"


def statements(code: str) -> Iterator[tuple[int, int]]:
    """Where the statements begin and end: a line each, or the parts of one between semicolons."""
    start = depth = 0
    for token in (*_TOKEN.finditer(code), None):
        mark = token["mark"] if token else "\n"
        if mark is None:
            continue
        if mark not in ";\n":
            depth = max(0, depth + (1 if mark in "([{" else -1))
        elif token is None or depth == 0:
            end = token.start() if token else len(code)
            if (line := code[start:end].strip()) and not line.startswith("#"):
                yield start, end
            start = end + 1
