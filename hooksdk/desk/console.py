"""The question on a terminal. Words of models, servers and plugins are shown so that they cannot look like hooksdk's
own."""

from __future__ import annotations

import getpass
import json
import os
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import IO, TYPE_CHECKING, Any, final

import anyio
import anyio.lowlevel
import anyio.to_thread

from hooksdk.approvals import Approval, ApprovalRequest, Question, Unanswered
from hooksdk.desk.terminal import PASTED, TRIES, forget_typed, is_pasted, marking_pastes, without_marks
from hooksdk.values import Uncloneable, canonical

if TYPE_CHECKING:
    from rich.console import Console

__all__ = [
    "MAX_ARGUMENTS",
    "MAX_CHARS",
    "MAX_EVIDENCE",
    "MAX_QUESTIONS",
    "ConsoleApprover",
    "clip_visibly",
    "question_text",
    "visible",
]

MAX_CHARS = 400
"""Characters of a text, or of an argument's value, that are shown by default."""
MAX_ARGUMENTS = 40
"""Arguments that are shown: models have sent thousands."""
MAX_EVIDENCE = 10
"""Places of values that are shown of one question."""
MAX_QUESTIONS = 10
"""Questions that are shown, the gravest first."""
# Characters of a line on the narrowest terminal.
_NARROWEST = 40
# Characters of the column of labels.
_LABEL = 13
_PLAIN_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*")
_ANSWERS = {
    "yes": Approval(True),
    "session": Approval(True, scope="session"),
    "always": Approval(True, scope="always"),
    "never": Approval(False, scope="always"),
    "values": Approval(True, agree="values"),
}
_LETTERS = {"y": "yes", "s": "session", "a": "always"}
_COLOURS = {"info": "cyan", "warning": "yellow", "critical": "bold red"}
PROMPT = "Allow it? [y]es once, [s]ession, always; [N]o, never (from now on); [v]iew: "
PROMPT_CRITICAL = "Allow it? yes (once), session, always; [N]o, never (from now on); [v]iew: "
VALUES = "`values` allows it once, and the values above for the rest of the session."
_WHOLE_WORD = "Type the whole word for that: "
_REFUSAL = "the person at the terminal said no"
# Answers that mean no; an empty line does, too.
_NOES = {"", "n", "no", "never"}
_NOBODY = {
    "end_of_input": "nobody answered: the input has ended",
    "connection_lost": "nobody answered: the terminal went away",
    "not_an_answer": "nobody answered: what was typed is none of the answers",
}


@final
class ConsoleApprover:
    """Asks on a terminal and reads the answer from stdin, one question at a time. Needs rich: `pip install
    'hooksdk[cli]'`.

    It shows the severity, every plugin's question, the tool's id and owner, and each argument on a line of its own, cut
    at `max_chars` characters; the answer `v` shows all of it. Words of a model, a server or a plugin stand behind a
    bar, with control, bidi and invisible characters escaped, so that they cannot look like hooksdk's own.

    `y` allows this call, `s` the session, `always` all later calls, too; `values` allows this call and, for the
    session, the values that are shown as evidence. `never` refuses all later calls, too; `n`, `no` and an empty line
    refuse this call. A critical question takes the whole words `yes` and `session` only. At a terminal, text that was
    typed before the question or pasted in several lines does not count. `by` names in the trace who has answered: by
    default the user of the process. Any other word, the end of stdin and a lost terminal refuse the call, too, as
    nobody's answer: `by` is empty then, and `Approval.unanswered` says which it was.

    ```python
    from hooksdk import Host
    from hooksdk.desk import ConsoleApprover

    host = Host(approver=ConsoleApprover(by="ann"))
    ```

    Attributes:
        at_end: True once stdin has ended: later refusals are nobody's answer.
    """

    def __init__(self, console: Console | None = None, *, by: str | None = None, max_chars: int = MAX_CHARS) -> None:
        if console is None:
            from rich.console import Console

            console = Console(stderr=True, highlight=False, emoji=False)
        self._console = console
        self._by = _user() if by is None else by
        self._max_chars = max_chars
        self._one_at_a_time = anyio.Lock()
        self.at_end = False

    async def __call__(self, request: ApprovalRequest) -> Approval:
        """Ask about one call."""
        async with self._one_at_a_time:
            self._show(request, self._max_chars)
            stdin: IO[str] | None = sys.stdin
            if stdin is None or stdin.closed:
                self.at_end = True
                return _nobody("end_of_input")
            with marking_pastes():
                answer = await self._answer(request)
        if isinstance(answer, Approval):
            return answer
        if answer in _NOES:
            return replace(_ANSWERS.get(answer, Approval(False)), reason=_REFUSAL, by=self._by)
        is_offered = answer in _ANSWERS and (answer != "values" or request.evidence)
        return replace(_ANSWERS[answer], by=self._by) if is_offered else _nobody("not_an_answer")

    async def _answer(self, request: ApprovalRequest) -> str | Approval:
        """The word that is the answer; nobody's refusal if none came."""
        is_grave = request.severity == "critical"
        if request.evidence:
            self._print(VALUES)
        for _ in range(TRIES):
            was_terminal = sys.stdin.isatty()
            try:
                answer = await self._read(PROMPT_CRITICAL if is_grave else PROMPT)
            except OSError:
                answer, self.at_end = "", True
            if self.at_end:  # stdin is no terminal any more once that was closed
                return _nobody("connection_lost" if was_terminal and not sys.stdin.isatty() else "end_of_input")
            if answer is None:
                self._print(PASTED)
            elif answer in {"v", "view"}:
                self._show(request, sys.maxsize)
            elif answer in _LETTERS and (is_grave or answer == "a"):
                self._print(_WHOLE_WORD + _LETTERS[answer])
            else:
                return _LETTERS.get(answer, answer)
        return _nobody("not_an_answer")

    def _show(self, request: ApprovalRequest, max_chars: int) -> None:
        self._print(f"\nA call needs your approval: {request.severity}", style=_COLOURS[request.severity])
        tool, others = request.tool, len(request.questions) - MAX_QUESTIONS
        for question in request.questions[:MAX_QUESTIONS]:
            self._field(question.severity, f"{question.plugin} asks: {question.title}", max_chars)
            if question.description:
                self._field("", question.description, max_chars)
            for origin in question.evidence[:MAX_EVIDENCE]:
                self._field("known" if origin.cleared else "strange", str(origin), max_chars * 2)
            if more := len(question.evidence[MAX_EVIDENCE:]):
                self._field("", f"… and {more:,} more values", max_chars)
        if others > 0:
            self._field("", f"… and {others:,} more questions", max_chars)
        self._field("tool", tool.id, max_chars)
        self._field("of", f"{tool.source} {tool.owner}" if tool.owner else tool.source, max_chars)
        if request.requester:
            self._field("asked for by", str(request.requester.get("id")), max_chars)
        arguments = request.arguments
        if not arguments:
            self._field("arguments", "none", max_chars)
        limit = MAX_ARGUMENTS if max_chars < sys.maxsize else len(arguments)
        for number, (name, value) in enumerate(arguments.items()):
            label = "arguments" if number == 0 else ""
            if number == limit:
                self._field(label, f"… and {len(arguments) - limit:,} more arguments", max_chars)
                break
            key = name if _PLAIN_NAME.fullmatch(name) else json.dumps(name, ensure_ascii=False)
            text = f"{clip_visibly(key, max_chars)} = {clip_visibly(_as_json(value), max_chars)}"
            self._field(label, text, sys.maxsize)

    def _field(self, label: str, text: str, max_chars: int) -> None:
        """Show a text behind a bar, in lines that the terminal need not break: the rest of a broken line would have no
        bar."""
        room = max(self._console.width, _NARROWEST) - _LABEL - 4
        for number, line in enumerate(_lines_of(visible(clip_visibly(text, max_chars)), room)):
            self._print(f"| {label if number == 0 else '':<{_LABEL}}{line}")

    def _print(self, text: str, *, style: str = "", end: str = "\n") -> None:
        self._console.print(text, style=style, end=end, markup=False, highlight=False, emoji=False, soft_wrap=True)

    async def _read(self, prompt: str) -> str | None:
        """The line that is typed; None if several came at once."""
        forget_typed()
        self._print(prompt, end="")
        try:
            line = await _read_line()
        except BaseException:
            self._print("")
            raise
        answer = without_marks(line).strip()
        self.at_end = not answer and not line.endswith("\n")
        if not sys.stdin.isatty():
            self._print(visible(answer[:100]))  # a terminal would have shown what was typed
        elif self.at_end:
            self._print("")  # Ctrl-D, which ends no line
        return None if is_pasted(line) else answer.lower()


def _nobody(why: Unanswered) -> Approval:
    return Approval(False, _NOBODY[why], unanswered=why)


def _user() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError, ImportError):  # a process without a user's entry, such as in a container
        return ""


def _as_json(value: Any) -> str:
    try:
        return canonical(value)
    except Uncloneable:  # a plugin may have put in a value that is no JSON
        return repr(value)


def clip_visibly(text: str, max_chars: int) -> str:
    """At most `max_chars` characters, and the number of the others."""
    return text if len(text) <= max_chars else f"{text[:max_chars]}… ({len(text) - max_chars:,} more characters)"


def visible(text: str) -> str:
    """The text in one line, with escapes for characters that steer a terminal, turn words around or cannot be seen."""
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text)


def question_text(
    head: str,
    questions: Sequence[Question],
    tool: str,
    arguments: Mapping[str, Any],
    *,
    mask: Callable[[str], str] = str,
) -> str:
    """The questions about a call, in lines for a client's form, below `head`. Others' words cannot look like lines of
    hooksdk. The first ones are shown where there are too many to read; `mask` hides secrets in texts."""

    def line(label: str, text: str) -> str:
        return f"{label}: {visible(clip_visibly(mask(text), MAX_CHARS))}"

    lines = [head]
    for question in questions[:MAX_QUESTIONS]:
        lines.append(line(f"{question.plugin} asks ({question.severity})", question.title))
        if question.description:
            lines.append(line("  because", question.description))
        lines += [line("  known" if one.cleared else "  strange", str(one)) for one in question.evidence[:MAX_EVIDENCE]]
    lines.append(line("tool", tool))
    for name, value in [*arguments.items()][:MAX_ARGUMENTS]:
        lines.append(line(f"argument {visible(clip_visibly(name, 80))}", canonical(value)))
    if len(arguments) > MAX_ARGUMENTS:
        lines.append(f"… and {len(arguments) - MAX_ARGUMENTS:,} more arguments")
    return "\n".join(lines)


def _lines_of(text: str, room: int) -> list[str]:
    """The text in pieces of at most `room` cells. A character that is not ASCII counts as two cells, the widest it can
    be."""
    lines, line, cells = list[str](), "", 0
    for char in text:
        width = 1 if char.isascii() else 2
        if cells + width > room:
            lines.append(line)
            line, cells = "", 0
        line, cells = line + char, cells + width
    return [*lines, line]


async def _read_line() -> str:
    if os.name == "nt":
        return await anyio.to_thread.run_sync(sys.stdin.readline, abandon_on_cancel=True)
    # Not in a thread: after Ctrl-C the process would only end once another line is typed. Byte by byte, since a buffer
    # could take the next answer, too, and `wait_readable` would then wait for ever.
    line = b""
    while not line.endswith(b"\n"):
        try:
            await anyio.wait_readable(sys.stdin)
        except PermissionError:  # a file, which is always ready
            await anyio.lowlevel.checkpoint()
        if not (byte := os.read(sys.stdin.fileno(), 1)):
            break
        line += byte
    return line.decode(errors="replace")
