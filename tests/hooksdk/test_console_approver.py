"""The question on a terminal: what it shows, what its answers mean, and that nothing others wrote looks like a line of it."""

from __future__ import annotations

import io
import os
import re
import sys
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hooksdk import Approval, ApprovalRequest, Tool, ToolCall
from hooksdk.approvals import Question
from hooksdk.desk import ConsoleApprover
from hooksdk.desk.console import PROMPT_CRITICAL
from hooksdk.hooks import Origin

pytestmark = pytest.mark.anyio
WIDTH = 60
HEADING = re.compile(r"A call needs your approval: (info|warning|critical)")
LABEL = re.compile(r"\| (info|warning|critical|tool|of|asked for by|arguments) +")


@contextmanager
def typing_in(text: str) -> Generator[None]:
    """Standard input is a pipe with this text."""
    theirs, ours = os.pipe()
    os.write(ours, text.encode())
    os.close(ours)
    before = sys.stdin
    with open(theirs) as sys.stdin:
        try:
            yield
        finally:
            sys.stdin = before


def request_of(arguments: dict[str, Any] | None = None, **fields: Any) -> ApprovalRequest:
    tool = Tool(name=fields.pop("tool", "pay"), source="mcp", owner=fields.pop("owner", "bank"))
    values: dict[str, Any] = {"title": "Pay?", "plugin": "purse", "severity": "critical", **fields}
    return ApprovalRequest(call=ToolCall("c1", tool.name), tool=tool, arguments=arguments or {}, **values)


async def ask(request: ApprovalRequest, answer: str = "n\n", **options: Any) -> tuple[Approval, list[str]]:
    """Ask on a console of `WIDTH` cells; answers the answer, and the lines that were shown."""
    shown = io.StringIO()
    from rich.console import Console

    console = Console(file=shown, width=WIDTH)
    with typing_in(answer):
        approval = await ConsoleApprover(console, by="ann", **options)(request)
    return approval, shown.getvalue().split("\n")


async def test_it_shows_the_severity_every_question_the_tool_its_server_and_each_argument() -> None:
    questions = (
        Question(title="Wire 10,000 USD?", description="To a new account.", severity="critical", plugin="bank_policy"),
        Question(title="Format the text?", severity="info", plugin="style"),
    )
    request = request_of(
        {"amount": 10000, "to": "DE12", "notes": ["a", "b"]}, title=questions[0].title, questions=questions,
        requester={"id": "ada"},
    )  # fmt: skip
    _, lines = await ask(request)
    assert lines == [
        "",
        "A call needs your approval: critical",
        "| critical     bank_policy asks: Wire 10,000 USD?",
        "|              To a new account.",
        "| info         style asks: Format the text?",
        "| tool         mcp:bank:pay",
        "| of           mcp bank",
        "| asked for by ada",
        "| arguments    amount = 10000",
        '|              to = "DE12"',
        '|              notes = ["a","b"]',
        f"{PROMPT_CRITICAL}n",
        "",
    ]


@pytest.mark.parametrize(
    ("answer", "granted", "scope"),
    [
        ("y\n", True, "once"), ("YES \n", True, "once"), ("s\n", True, "session"), ("always\n", True, "always"),
        ("a\n", False, "once"), ("a\nalways\n", True, "always"), ("alway\n", False, "once"),
        ("never\n", False, "always"), ("n\n", False, "once"), ("\n", False, "once"), ("", False, "once"),
        ("yy\n", False, "once"), ("no y\n", False, "once"), ("v\ny\n", True, "once"), ("v\nv\n", False, "once"),
        ("\x1by\n", False, "once"),
    ],
)  # fmt: skip
async def test_only_a_clear_yes_is_one_and_it_says_how_long_it_counts(answer: str, granted: bool, scope: str) -> None:
    approval, _ = await ask(request_of(severity="warning"), answer)
    assert (approval.granted, approval.scope, approval.by) == (granted, scope, "" if approval.unanswered else "ann")
    assert not (approval.granted and approval.unanswered)


@pytest.mark.parametrize(
    ("answer", "granted", "scope"),
    [
        ("yes\n", True, "once"), ("session\n", True, "session"), ("Always\n", True, "always"), ("never\n", False, "always"),
        ("y\n", False, "once"), ("s\n", False, "once"), ("a\n", False, "once"), ("y\nyes\n", True, "once"), ("n\n", False, "once"),
        ("y\n" * 50 + "yes\n", False, "once"),
    ],
)  # fmt: skip
async def test_what_is_critical_wants_a_whole_word_and_says_so(answer: str, granted: bool, scope: str) -> None:
    approval, lines = await ask(request_of(severity="critical"), answer)
    assert (approval.granted, approval.scope) == (granted, scope)
    letter = answer.partition("\n")[0]
    word = {"y": "yes", "s": "session", "a": "always"}.get(letter)
    assert (f"Type the whole word for that: {word}" in lines) is (word is not None)


async def test_long_arguments_are_cut_visibly_and_v_shows_them_whole() -> None:
    request = request_of({"text": "z" * 1000, "last": 1})
    _, lines = await ask(request, max_chars=100)
    assert sum(line.count("z") for line in lines) == 99
    assert "(902 more characters)" in "".join(line.removeprefix("|").strip() for line in lines)
    _, lines = await ask(request, "v\nn\n", max_chars=100)
    assert sum(line.count("z") for line in lines) == 1099


async def test_a_thousand_arguments_do_not_push_the_question_off_the_screen() -> None:
    _, lines = await ask(request_of({f"a{number}": number for number in range(1000)}))
    assert len(lines) < 60
    assert "|              … and 960 more arguments" in lines


FORGERIES = [
    "x\nAllow it? y(es) [N] y\n",
    "x\r\nA call needs your approval: info",
    "x\x1b[2J\x1b[1;1HA call needs your approval: info",
    "x\x9b2J\x85| tool         mcp:safe:read",
    "x\u2028| tool         mcp:safe:read\u2029",
    "x\u202e\u2066]N[ reven ?ti wollA\u2069",
    "x\x08\x08\x08\x7f\x00\x0b\x0c",
    "x\U000e0041\u200b\ufeff\u00ad",
    " " * 200 + "| tool         mcp:safe:read",
    "x" + " " * (WIDTH - 15) + "A call needs your approval: info" + " " * 28 + "| tool         mcp:safe:read",
    "\u3000" * 31 + "Allow it?",
    "[bold red]markup[/] [link=https://a.example]b[/link] :warning:",
]


def check(lines: list[str], request: ApprovalRequest) -> None:
    """Every line is ours by its form, and there is one of each of ours."""
    assert lines[0] == ""
    assert [line for line in lines if HEADING.match(line)] == [lines[1]]
    assert [line for line in lines if line.startswith("Allow it?")] == lines[-2:-1]
    assert lines[1:-2] == [lines[1], *[line for line in lines if line.startswith("| ")]]
    labels = [match[1] for line in lines if (match := LABEL.match(line))]
    assert labels == [request.severity, "tool", "of", "arguments"]
    for line in lines:
        assert line.isprintable()
        assert sum(1 if char.isascii() else 2 for char in line) <= WIDTH or line.startswith("Allow it?")


@pytest.mark.light(every=9)
@pytest.mark.parametrize("text", FORGERIES)
@pytest.mark.parametrize("place", ["title", "description", "plugin", "tool", "owner", "name", "value", "nested"])
async def test_nothing_that_others_wrote_looks_like_a_line_of_the_question(place: str, text: str) -> None:
    arguments = {"name": {text: 1}, "value": {"a": text}, "nested": {"a": {text: [text]}}}.get(place, {"a": 1})
    fields = {place: text} if place in {"title", "description", "plugin", "tool", "owner"} else {}
    request = request_of(arguments, **fields)
    _, lines = await ask(request)
    check(lines, request)


@settings(deadline=None)
@given(text=st.text(max_size=300), key=st.text(max_size=40))
async def test_no_text_at_all_does(text: str, key: str) -> None:
    request = request_of({key: text}, title=text, description=text, plugin=key, tool=text, owner=key)
    _, lines = await ask(request)
    check(lines, request)


def evidence_of(text: str) -> tuple[Question, ...]:
    origin = Origin(value=text, path="to", kind="result", handle="r3", tool=text, label="untrusted", quote=text)
    known = Origin(value="ann@corp.example", path="cc", kind="prompt")
    return (Question(title="Pay?", plugin="purse", severity="critical", evidence=(known, origin)),)


async def test_strange_values_stand_before_all_arguments_with_place_and_quote() -> None:
    _, lines = await ask(request_of({"to": "eve"}, questions=evidence_of("eve@evil.example")))
    text = "\n".join(lines)
    assert text.index("| strange") < text.index("| known") < text.index("| arguments")
    assert "'eve@evil.example'" in text
    assert "(r3, untrusted)" in text


@pytest.mark.parametrize("text", FORGERIES)
async def test_no_evidence_looks_like_a_line_of_the_question(text: str) -> None:
    _, lines = await ask(request_of({"a": 1}, questions=evidence_of(text)))
    assert [line for line in lines if line.startswith("Allow it?")] == lines[-2:-1]
    assert all(line.startswith("| ") for line in lines[2:-3])
    assert all(line.isprintable() for line in lines)


async def test_values_is_a_yes_to_what_is_shown_as_evidence_and_none_where_nothing_is() -> None:
    approval, _ = await ask(request_of({"a": 1}, questions=evidence_of("eve@evil.example")), "values\n")
    assert (approval.granted, approval.scope, approval.agree) == (True, "once", "values")
    approval, lines = await ask(request_of({"a": 1}), "values\n")
    assert not approval.granted
    assert not any("`values`" in line for line in lines)


async def test_two_calls_are_asked_about_one_after_the_other() -> None:
    import anyio

    shown = io.StringIO()
    from rich.console import Console

    approver = ConsoleApprover(Console(file=shown, width=WIDTH), by="ann")
    answers: list[bool] = []

    async def one(amount: int) -> None:
        answers.append((await approver(request_of({"amount": amount}))).granted)

    with typing_in("yes\nno\n"):
        async with anyio.create_task_group() as group:
            group.start_soon(one, 1)
            group.start_soon(one, 2)
    assert sorted(answers) == [False, True]
    kinds = [line[:5] for line in shown.getvalue().split("\n") if line.startswith(("A call", "Allow"))]
    assert kinds == ["A cal", "Allow", "A cal", "Allow"]


@pytest.mark.heavy
async def test_rich_is_imported_when_it_is_used_only() -> None:
    import subprocess

    code = "import sys, hooksdk.desk; hooksdk.desk.ConsoleApprover; print('rich' in sys.modules)"
    assert subprocess.check_output([sys.executable, "-c", code], text=True) == "False\n"
