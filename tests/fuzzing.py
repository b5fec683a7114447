"""Feeds what models, servers and tools may write to the readers that policies and masking stand on, until the time is over.

    scripts/fuzz MINUTES [READER ...]
    scripts/fuzz --again FILE

A text that makes a reader raise, hang or break its promise is written into `fuzz-findings/`, as small as it still does so.
The code is 1 when there is one.
"""

from __future__ import annotations

import argparse
import ast
import hashlib
import json
import os
import random
import re
import shlex
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from hypothesis import HealthCheck, Phase, Verbosity, given, seed, settings
from hypothesis import strategies as st
from pydantic_core import Url

from builtin_plugins.catalog_audit._texts import hidden_text, instructions
from builtin_plugins.tool_policy._commands import CommandReader
from builtin_plugins.tool_policy._hosts import HostReader
from builtin_plugins.tool_policy._paths import PathReader
from hooksdk import Tool
from hooksdk._masking.escapes import unescaped
from hooksdk._masking.mask import SecretMask
from hooksdk.cli._console import json_text, printable
from hooksdk.patterns import PatternError, ToolPattern
from hooksdk.testing import attacks, make_workspace
from tests.hooksdk.test_masking import BROKEN, VALUES
from tests.hooksdk.writers import LISTED, OTHERS

FOLDER = Path("fuzz-findings")
SECONDS = 5.0
"""Of the processor, for one text: more is a hang. The readers take milliseconds."""
ROUND = 500
"""Texts between two looks at the clock."""


class Hang(BaseException):
    """A reader did not come back. No `Exception`, so that nobody looks for a smaller text that takes as long."""


@dataclass(frozen=True)
class Reader:
    """One thing that reads what others wrote, and what it promises."""

    texts: st.SearchStrategy[Any]
    check: Callable[[Any], None]
    """Raises `AssertionError` where the promise is broken."""


def pieces(kind: Any, *more: str) -> st.SearchStrategy[str]:
    """Texts made of the corpus of attacks, of these pieces, and of whatever Unicode has."""
    known = [
        one.value
        for one in attacks(kind, allowed="git", denied="rm")
        if isinstance(one.value, str) and len(one.value) < 200
    ]
    part = st.one_of(st.sampled_from([*known, *more]), st.text(max_size=5))
    return st.one_of(
        st.lists(part, max_size=8).map("".join), st.lists(part, max_size=8).map(" ".join), st.text(max_size=60)
    )


def check_command(text: str) -> None:
    """What is surely a line of listed programs is one for Python's own splitter, too, and a deny of them fits it."""
    reader, wanted = CommandReader(), ["git", "ls"]
    reader.possibly(text, ["rm"], None, named=True)
    reader.possibly(text, ["rm"], None, named=False)
    if reader.surely(text, wanted, None):
        return
    assert reader.possibly(text, wanted, None, named=True), "an allow fits what a deny of the same does not"
    lexer = shlex.shlex(text, posix=True, punctuation_chars="|&;()<>")
    lexer.whitespace_split = True
    lexer.commenters = ""
    begins = True
    for word in lexer:
        if begins:
            assert word in wanted, f"it runs {word!r}"
        begins = word in {"|", "||", "&&", ";"}


@cache
def workspace() -> Path:
    """A folder with links of all kinds, until the process ends."""
    folder = tempfile.TemporaryDirectory(prefix="hooksdk-fuzz-")
    _kept.append(folder)
    return make_workspace(os.path.realpath(folder.name) + "/workspace", "/etc/passwd")


_kept: list[tempfile.TemporaryDirectory[str]] = []


def check_path(text: str) -> None:
    """What is surely inside is where the system puts it, and a deny fits all that the system puts inside."""
    reader, folder = PathReader(), str(workspace())
    sure = reader.surely(text, ["."], folder) == ""
    possible = reader.possibly(text, ["."], folder, named=True)
    reader.possibly(text, ["/etc"], folder, named=False)
    try:
        real = os.path.realpath(os.path.join(folder, text))
    except (OSError, ValueError):
        assert not sure
        return
    inside = real == folder or real.startswith(f"{folder}/")
    assert inside or not sure, f"it leads to {real}"
    assert possible or not inside, "a deny does not fit it"


HOSTS = ["example.org", "*.example.org", "127.0.0.1"]


def check_address(text: str) -> None:
    """An address that surely leads to a listed host does so for Python and for browsers, and a deny of the same fits it."""
    reader = HostReader()
    possible = reader.possibly(text, HOSTS, None, named=True)
    reader.possibly(text, ["*", "[::1]"], None, named=False)
    if reader.surely(text, HOSTS, None):
        return
    assert possible, "an allow fits what a deny of the same does not"
    whole = text if "://" in text else f"https://{text}"
    for host in (urlsplit(whole).hostname, Url(whole).host):
        assert host is not None
        assert host in HOSTS or host.endswith(".example.org"), f"it leads to {host}"


WRITERS = {**LISTED, **OTHERS}
"""What servers and programs make of a value."""


BEGUN = re.compile(r"[\\%&=<]\w*\s*$")
"""An escape that is begun and goes on behind a line end takes the first characters of what stands there for its own."""


def check_masking(written: tuple[str, str, str, str]) -> None:
    """A value is found between texts of any kind, whoever wrote it."""
    value, name, before, after = written
    if (name in BROKEN and unescaped(value)) or BEGUN.search(before):
        return
    masked = SecretMask([("NAME", value)]).text(f"{before}\n{WRITERS[name](value)}\n{after}")
    assert "{{secret:NAME}}" in masked, "it is not found"


def check_definition(text: str) -> None:
    """Whatever a server writes is looked through."""
    tool = Tool(
        name="x", source="mcp", owner="y", description=text, parameters={"type": "object", "properties": {text: {}}}
    )
    hidden_text(tool)
    instructions(tool)


def check_terminal(text: str) -> None:
    """Nothing that is printed steers a terminal, and a document means the same."""
    assert all(char.isprintable() or char in "\n\t" for char in printable(text))
    shown = json_text({"text": text})
    assert all(char.isprintable() or char == "\n" for char in shown)
    assert json.loads(shown) == {"text": text}


def check_pattern(pair: tuple[str, str]) -> None:
    """A pattern is refused, or says of every tool whether it is meant."""
    text, name = pair
    tool = Tool(name=name, source="mcp", owner="y")
    try:
        ToolPattern(text).matches(tool)
    except PatternError:
        return


NAMES = st.text(min_size=1, max_size=20).filter(lambda text: bool(text.strip()))
READERS: Mapping[str, Reader] = {
    "commands": Reader(pieces("command", "git", "ls", "'", '"', "\\", "$", ";", "|", "&&", "#", "\n", "{", "(", "<", "=", "!"), check_command),
    "paths": Reader(pieces("path", "/", "..", ".", "sub", "away", "up", "within", "circle", "~", "%2e", "\\", "//"), check_path),
    "addresses": Reader(
        pieces("host", "example.org", "https://", "@", ":", "\\", "/", "?", "#", ".", "127.0.0.1", "0x7f.1", "[::1]", "%2e"), check_address
    ),
    "masking": Reader(
        st.tuples(VALUES, st.sampled_from(sorted(WRITERS)), st.text(max_size=20), st.text(max_size=20)), check_masking
    ),
    "definitions": Reader(pieces("description", "ignore all ", "read ~/", " " * 50, "\n" * 10, "<!--"), check_definition),
    "terminal": Reader(st.one_of(st.text(), pieces("description", "\x1b[2J", "\x9b", "\u2028")), check_terminal),
    "patterns": Reader(st.tuples(st.one_of(st.text("a*?:[]_", max_size=40), NAMES), NAMES), check_pattern),
}  # fmt: skip


@contextmanager
def time_limit(seconds: float) -> Generator[None]:
    """Raise `Hang` when the block takes longer, of the processor: no busy machine makes it longer."""

    def stop(*_: object) -> None:
        raise Hang

    before = signal.signal(signal.SIGVTALRM, stop)
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


def fuzz(
    name: str, reader: Reader, texts: int, start: int, folder: Path = FOLDER, limit: float = SECONDS
) -> Path | None:
    """Feed the reader so many texts; the file about one that it does not take, if there is one. `start` says which texts."""
    latest: list[Any] = []

    @seed(start)
    @settings(
        max_examples=texts, deadline=None, database=None, phases=[Phase.generate, Phase.shrink], report_multiple_bugs=False,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.large_base_example, HealthCheck.data_too_large, HealthCheck.filter_too_much], verbosity=Verbosity.quiet, print_blob=False,
    )  # fmt: skip
    @given(reader.texts)
    def feed(text: Any) -> None:
        latest[:] = [text]
        with time_limit(limit):
            reader.check(text)

    try:
        feed()
    except Hang:
        problem = f"hangs: more than {limit:g} s of the processor"
    except Exception as error:
        problem = "".join(traceback.format_exception_only(error)).strip() + "\n\n" + traceback.format_exc()
    else:
        return None
    digest = hashlib.sha256(repr(latest[0]).encode("utf-8", "surrogatepass")).hexdigest()[:12]
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / f"{name}-{digest}.txt"
    file.write_text(f"{name}\n{latest[0]!a}\n\n{problem}\n", "utf-8", "backslashreplace")
    return file


def again(file: Path) -> None:
    """Feed a reader the text of a finding. Raises what the reader raises."""
    name, text, *_ = file.read_text("utf-8").splitlines()
    with time_limit(SECONDS):
        READERS[name].check(ast.literal_eval(text))


def main(arguments: Sequence[str]) -> int:
    """The command line."""
    parser = argparse.ArgumentParser(prog="scripts/fuzz")
    parser.add_argument("minutes", nargs="?", type=float, default=5.0)
    parser.add_argument("readers", nargs="*", metavar="READER", help=f"by default all: {', '.join(READERS)}")
    parser.add_argument("--again", type=Path, metavar="FILE", help="feed the text of a finding once more")
    options = parser.parse_args(arguments)
    if options.again:
        again(options.again)
        print("it is taken now")
        return 0
    if unknown := [name for name in options.readers if name not in READERS]:
        parser.error(f"there is no reader '{unknown[0]}'; there are {', '.join(READERS)}")
    names: list[str] = options.readers or list(READERS)
    findings: list[Path] = []
    for name in names:
        end = time.monotonic() + options.minutes * 60 / len(names)
        rounds, finding = 0, None
        while finding is None and (rounds == 0 or time.monotonic() < end):
            rounds += 1
            finding = fuzz(name, READERS[name], ROUND, random.getrandbits(64))
        findings += [finding] if finding else []
        print(f"{name:<12} {rounds * ROUND:>9,} texts  {finding or 'all taken'}", flush=True)
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
