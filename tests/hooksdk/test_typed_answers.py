"""Only what a person types after a question shows, in one line, answers it: on real pseudo-terminals."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from hooksdk.desk.terminal import PASTED

pytestmark = [
    pytest.mark.heavy,
    pytest.mark.skipif(sys.platform == "win32", reason="needs a pseudo-terminal"),
]
ROOT = Path(__file__).parents[2]
ASK = """
import os, sys
import anyio
from hooksdk import ApprovalRequest, Tool, ToolCall
from hooksdk.desk import ConsoleApprover
from hooksdk.desk.terminal import read_typed

async def main():
    sys.stderr.write("begin\\n")
    os.read(int(sys.argv[2]), 1)
    for number in range(int(sys.argv[3])):
        tool = Tool(name="pay", source="host")
        request = ApprovalRequest(title="Pay?", severity=sys.argv[1], call=ToolCall("c1", "pay"), tool=tool, arguments={})
        approval = await ConsoleApprover(by="ann")(request)
        print("granted" if approval.granted else "refused", approval.scope, flush=True)

anyio.run(main)
"""


class Terminal:
    """A command at a pseudo-terminal, and the person at it."""

    def __init__(self, command: Sequence[str], *, folder: Path, passed: Sequence[int] = ()) -> None:
        self.ours, theirs = os.openpty()
        self.shown = ""
        variables = {**os.environ, "TERM": "xterm", "COLUMNS": "80", "PYTHONPATH": str(ROOT), "HOME": str(folder)}
        variables |= {"XDG_CONFIG_HOME": str(folder / "xdg"), "HOOKSDK_HOME": str(folder / "state")}
        self.process = subprocess.Popen(
            command, cwd=folder, env=variables, stdin=theirs, stderr=theirs, stdout=subprocess.PIPE, pass_fds=passed
        )
        os.close(theirs)

    def type(self, text: str) -> None:
        os.write(self.ours, text.encode())

    def wait_for(self, text: str, times: int = 1) -> None:
        """Until this has been shown so many times."""
        while self.shown.count(text) < times:
            try:
                self.shown += os.read(self.ours, 1000).decode(errors="replace")
            except OSError:
                raise AssertionError(f"it ended without {text!r}: {self.shown}") from None

    def end(self) -> str:
        """What the command has answered on stdout, once all that it shows was seen."""
        try:
            while piece := os.read(self.ours, 1000):
                self.shown += piece.decode(errors="replace")
        except OSError:  # nobody has the other end any more
            pass
        out, _ = self.process.communicate(timeout=60)
        os.close(self.ours)
        return out.decode()


class Asking(Terminal):
    """A `ConsoleApprover` that asks as soon as it is told to."""

    def __init__(self, folder: Path, severity: str = "warning", questions: int = 1) -> None:
        gate, self._go = os.pipe()
        super().__init__([sys.executable, "-c", ASK, severity, str(gate), str(questions)], folder=folder, passed=[gate])
        os.close(gate)
        self.wait_for("begin")

    def go(self) -> None:
        os.write(self._go, b"!")
        os.close(self._go)


@pytest.mark.parametrize("severity", ["warning", "critical"])
@pytest.mark.parametrize("typed", ["y\n", "always\n", "yes\nalways\nyes\n", "s\n\n\nyes"])
def test_what_was_typed_before_the_question_shows_answers_nothing(severity: str, typed: str, tmp_path: Path) -> None:
    person = Asking(tmp_path, severity)
    person.type(typed)
    person.wait_for(typed.strip().rpartition("\n")[2])  # the terminal has it, since it shows it
    person.go()
    person.wait_for("Allow it?")
    with pytest.raises(subprocess.TimeoutExpired):
        person.process.wait(0.3)
    person.type("n\n")
    assert person.end() == "refused once\n"


def test_what_is_typed_after_it_shows_does(tmp_path: Path) -> None:
    person = Asking(tmp_path, "critical")
    person.go()
    person.wait_for("Allow it?")
    person.type("always\n")
    assert person.end() == "granted always\n"


@pytest.mark.parametrize("paste", ["y\nyes\nalways\n", "\x1b[200~y\nyes\x1b[201~\n", "\x1b[200~yes\nalways"])
def test_a_paste_of_several_lines_answers_nothing_and_the_question_is_put_again(paste: str, tmp_path: Path) -> None:
    person = Asking(tmp_path)
    person.go()
    person.wait_for("Allow it?")
    person.type(paste)
    person.wait_for("Allow it?", times=2)
    person.type("n\n")
    assert person.end() == "refused once\n"
    assert PASTED in person.shown


def test_a_paste_goes_to_no_later_question_either(tmp_path: Path) -> None:
    person = Asking(tmp_path, questions=2)
    person.go()
    person.wait_for("Allow it?")
    person.type("n\nalways\nalways\n")
    person.wait_for("Allow it?", times=2)
    person.type("n\n")
    person.wait_for("Allow it?", times=3)
    person.type("n\n")
    assert person.end() == "refused once\nrefused once\n"


def test_one_word_may_be_pasted_and_the_terminal_is_left_as_it_was(tmp_path: Path) -> None:
    person = Asking(tmp_path, "critical")
    person.go()
    person.wait_for("Allow it?")
    person.type("\x1b[200~yes\x1b[201~\n")
    assert person.end() == "granted once\n"
    begun, ended = person.shown.index("\x1b[?2004h"), person.shown.rindex("\x1b[?2004l")
    assert begun < person.shown.index("Allow it?") < ended


def test_no_question_of_a_command_is_answered_by_what_was_typed_before_it(tmp_path: Path) -> None:
    (tmp_path / "repository").mkdir()
    (tmp_path / "repository" / "hooksdk.toml").write_text('plugins_file = "hooksdk_plugins.py"\n')
    (tmp_path / "repository" / "hooksdk_plugins.py").write_text("")
    # Whoever runs the tests may be an agent.
    program = "import hooksdk.cli._config.trust as t; t.agent_around = str; from hooksdk.cli import main; main()"
    command = [sys.executable, "-P", "-c", program, "trust", str(tmp_path / "repository")]
    person = Terminal(command, folder=tmp_path)
    person.type("y\nyes\ny\n")
    out = person.process.stdout
    assert out is not None
    shown = b""
    while b"[y/N]" not in shown:
        piece = os.read(out.fileno(), 1000)
        assert piece, shown
        shown += piece
    person.type("n\n")
    assert "not trusted" in person.end()


def test_answers_are_read_in_one_place() -> None:
    """So that each of them is read so."""
    reading = {
        str(path.relative_to(ROOT))
        for path in (ROOT / "hooksdk").rglob("*.py")
        if any(
            word in path.read_text() for word in ("sys.stdin.readline", "typer.confirm", "typer.prompt", "Confirm.ask")
        )
    }
    assert reading == {"hooksdk/desk/console.py", "hooksdk/desk/terminal.py"}
