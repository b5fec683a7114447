"""The report of a trace and a session: what stands on the page, and that nothing of the input can do anything there."""

from __future__ import annotations

import dataclasses
import itertools
import json
import re
import time
from pathlib import Path
from typing import Any
from xml.etree.ElementTree import Element

import pytest
from reports import (
    HOSTILE,
    STEERING,
    TOOLS,
    of_class,
    part,
    play_runs,
    read_page,
    rows,
    stored_session,
    trace_of,
    words,
)

from hooksdk import ToolCall, ToolResult, hooks
from hooksdk.formats import get_format
from hooksdk.hooks import AgentStart, BeforeToolCall, Block
from hooksdk.report import StoredSession, build, page, render
from hooksdk.stores import SqlStore
from hooksdk.testing import call, open_session, play

pytestmark = pytest.mark.anyio


@pytest.fixture
async def folder(tmp_path: Path) -> Path:
    """The two runs, stored and traced."""
    await play_runs(tmp_path)
    return tmp_path


@pytest.fixture
async def whole(folder: Path) -> Element:
    """The page of trace and session."""
    return read_page(page(trace_of(folder), [await stored_session(folder)]))


def line(kind: str, at: float = 0.0, **values: Any) -> dict[str, Any]:
    head = {"schema": 1, "time": 1_700_000_000 + at, "kind": kind, "session_id": "s", "run_id": "run-1", "attempt": 1}
    return {**head, "agent_id": "main", **values}


def started(call_id: str, at: float, name: str = "read_file", parent: str | None = None) -> dict[str, Any]:
    return line(
        "call_started", at, call_id=call_id, parent_id=parent, origin="model", tool=f"host:core:{name}", name=name
    )


def finished(call_id: str, at: float, status: str = "ok", seconds: float = 0.5) -> dict[str, Any]:
    return line("call_finished", at, call_id=call_id, parent_id=None, origin="model", tool="host:core:read_file",
                name="read_file", status=status, seconds=seconds, characters=5)  # fmt: skip


def tiles(page: Element) -> dict[str, str]:
    first = of_class(page, "tiles")[0]
    return {words(tile[0]): words(tile[1]) for tile in first}


# What is on it


async def test_the_tiles_count_what_became_of_the_calls(whole: Element) -> None:
    numbers = tiles(whole)
    assert {name: numbers[name] for name in ("Calls", "Blocked", "Asked", "Requests")} == {
        "Calls": "8", "Blocked": "2", "Asked": "1", "Requests": "4",
    }  # fmt: skip


async def test_every_run_has_a_section_with_its_calls_in_order(whole: Element) -> None:
    runs = [part(whole, f"Run {number}") for number in (1, 2)]
    names = [[one.get("data-tool") for one in run.iter("li") if one.get("data-tool")] for run in runs]
    asked = ["read_file", "delete_file", "write_file", "tool_search", "weather", "shell", "fail"]
    assert names == [asked, ["trim-tool-result"]]


async def test_decisions_say_who_said_what_and_why(whole: Element) -> None:
    table = {row[1]: row[2:] for row in rows(part(part(whole, "Run 1"), "Decisions"))}
    assert set(table) == {"delete_file", "write_file", "weather", "shell"}
    assert table["delete_file"][:2] == ["Block", "no_deletes NoDeletes.judge"]
    assert table["delete_file"][2].endswith("nothing is deleted here, not b.md")
    assert re.fullmatch(r"ask_writes asked \(critical\); granted after .+ \(ann\)", table["write_file"][2])
    assert table["weather"][2] == "the plugin gave the result, and the tool did not run"
    assert table["shell"][2] == "blocked, since a policy that fails lets nothing through (RuntimeError)"


async def test_a_call_shows_arguments_result_and_hooks(whole: Element) -> None:
    step = next(one for one in whole.iter("li") if one.get("data-tool") == "delete_file")
    assert '{"path": "b.md"}' in words(step)
    assert "Blocked by no_deletes" in words(step)
    assert "before_tool_call no_deletes" in words(of_class(step, "hooks")[0])


async def test_a_call_links_to_its_message(whole: Element) -> None:
    step = next(one for one in whole.iter("li") if one.get("data-tool") == "read_file")
    (link,) = step.iter("a")
    target = next(one for one in whole.iter("article") if f"#{one.get('id')}" == link.get("href"))
    assert "a line of a.md" in words(target)


async def test_the_catalog_says_what_was_offered_deferred_and_withheld(whole: Element) -> None:
    tools = part(part(whole, "Run 1"), "Tools")
    place = {words(one[0]).partition(":")[0]: {row[0] for row in rows(one)} for one in tools.iter("details")}
    assert {"read_file", "delete_file", "write_file"} < place["Offered"]
    assert {"weather", "shell", "fail"} <= place["Found by search"]
    assert "tool_call" in place["Bridge tools, offered besides"]
    assert ["no_payments", "1 tool", "pay_bill", "this agent pays nothing"] in rows(tools)


async def test_searches_show_their_queries_and_hits(whole: Element) -> None:
    queries = of_class(part(whole, "Searches for tools"), "queries")[0]
    assert [words(next(one.iter("q"))) for one in queries] == ["tell the weather of a city", "run a command"]
    assert [words(next(one.iter("code"))) for one in queries] == ["weather", "shell"]


async def test_a_trim_shows_both_texts_and_why(whole: Element) -> None:
    (row,) = rows(part(whole, "Trims"))
    assert row[:5] == ["r1", "read_file", "applied", "tool_results", "it is long"]
    (pair,) = of_class(whole, "pair")
    assert "a line of a.md" in words(of_class(pair, "before")[0])
    assert "200 lines" in words(of_class(pair, "after")[0])


async def test_nested_calls_stand_inside_of_theirs() -> None:
    trace = [
        line("run_started", trigger="user", model="m"), started("a", 1, "code"), started("b", 1.1, parent="a"),
        finished("b", 1.2), finished("a", 2), line("run_ended", 3, reason="completed", stats={}),
    ]  # fmt: skip
    steps = {step.call_id: step for step in build(trace).runs[0].steps if step.kind == "call"}
    assert (steps["a"].depth, steps["b"].depth) == (0, 1)


async def test_the_calls_of_a_batch_stand_inside_of_it_and_are_not_missed_in_the_session(tmp_path: Path) -> None:
    config = {
        "plugins": {
            "trace_file": {"config": {"path": str(tmp_path / "trace.jsonl")}},
            "tool_search": {"config": {"enabled": "on"}},
        }
    }
    calls = [{"name": "weather", "arguments": {"city": city}} for city in ("Rome", "Bern")]
    store = SqlStore(tmp_path / "sessions")
    async with open_session("trace_file", "tool_search", tools=TOOLS, config=config, store=store) as session:
        await play(session, [call("tool_call", calls=calls), "Rainy."])
    trace, stored = trace_of(tmp_path), await stored_session(tmp_path)
    steps = [step for step in build(trace, [stored]).runs[0].steps if step.kind == "call"]
    assert [(step.name, step.depth) for step in steps] == [("tool_call", 0), ("weather", 1), ("weather", 1)]
    read = page(trace, [stored])
    assert "one of several" in read
    assert "does not tell the arguments" not in read


async def test_time_is_split_between_model_tools_and_person() -> None:
    asked = {"plugin": "p", "severity": "info", "questions": 1, "digest": ""}
    answered = {"granted": False, "by": "", "scope": "once", "remembered": False, "digest": ""}
    trace = [
        line("run_started", trigger="user", model="m"), line("model_called", 1, messages=1, characters=9),
        line("model_replied", 3, usage=None, stop_reason=None), started("a", 3),
        line("approval_asked", 4, call_id="a", **asked), line("approval_answered", 8, call_id="a", **answered),
        finished("a", 9, "blocked", seconds=6), line("run_ended", 10, reason="completed", stats={}),
    ]  # fmt: skip
    (run,) = build(trace).runs
    shares = run.shares
    assert [round(value, 6) for value in (shares.model, shares.tools, shares.person, shares.rest)] == [2, 2, 4, 2]
    assert (run.asked, run.granted) == (1, 0)


async def test_a_hook_without_a_call_id_goes_to_the_one_call_that_is_open() -> None:
    hook = {"hook": "before_tool_call", "plugin": "p", "handler": "judge", "outcome": "Block", "seconds": 0.1}
    trace = [
        line("run_started", trigger="user", model="m"),
        started("a", 1),
        line("hook", 1.5, **hook),
        finished("a", 2),
    ]
    call_step = next(step for step in build(trace).runs[0].steps if step.kind == "call")
    assert [decision.plugin for decision in call_step.decisions] == ["p"]


async def test_of_several_open_calls_none_is_given_a_hook_that_names_none() -> None:
    hook = {"hook": "before_tool_call", "plugin": "p", "handler": "judge", "outcome": "Block", "seconds": 0.1}
    trace = [
        line("run_started", trigger="user", model="m"), started("a", 1), started("b", 1), line("hook", 1.5, **hook),
        finished("a", 2), finished("b", 2),
    ]  # fmt: skip
    steps = build(trace).runs[0].steps
    assert [bool(step.decisions) for step in steps if step.kind == "call"] == [False, False]
    assert steps[0].decisions[0].plugin == "p"


async def test_the_trace_tells_of_concurrent_calls_which_one_a_hook_was_about(tmp_path: Path) -> None:
    class NoB:
        @hooks.before_tool_call
        def judge(self, event: BeforeToolCall) -> Block | None:
            return Block("not b") if event.arguments["path"] == "b" else None

    def read(path: str) -> str:
        return path

    config = {"plugins": {"trace_file": {"config": {"path": str(tmp_path / "trace.jsonl")}}}}
    async with open_session(NoB, "trace_file", tools=[read], config=config) as session:
        await play(session, [[call("read", path="a"), call("read", path="b")], "Done."])
    steps = [step for step in build(trace_of(tmp_path)).runs[0].steps if step.kind == "call"]
    assert [[line.outcome for line in step.decisions] for step in steps] == [[], ["Block"]]


async def test_a_run_that_was_blocked_before_it_began_is_there(tmp_path: Path) -> None:
    class Closed:
        @hooks.agent_start
        def judge(self, event: AgentStart) -> Block:
            return Block("closed on Sundays")

    config = {"plugins": {"trace_file": {"config": {"path": str(tmp_path / "trace.jsonl")}}}}
    async with open_session(Closed, "trace_file", config=config) as session:
        with pytest.raises(Exception, match="Sundays"):
            await play(session, ["Hello."])
    read = read_page(page(trace_of(tmp_path)))
    assert [row[2] for row in rows(part(read, "Decisions"))] == ["Block"]


async def test_repeated_call_ids_are_told_apart_by_time_or_not_at_all(folder: Path) -> None:
    trace, stored = trace_of(folder), await stored_session(folder)
    again = [*stored.messages, stored.messages[1], *(one for one in stored.messages[2:] if one["role"] == "tool")]
    twice = StoredSession(session_id="test", messages=again, journal=stored.journal)
    results = [step.result for step in build(trace, [twice]).runs[0].steps if step.kind == "call"]
    assert results[0] is not None
    without_times = StoredSession(
        session_id="test", messages=again, journal=[one for one in stored.journal if one["kind"] == "format"]
    )
    report = build(trace, [without_times])
    assert [step.result for step in report.runs[0].steps if step.kind == "call"] == [None] * 7
    assert any("cannot be told from others" in sentence for sentence in report.missing)


@pytest.mark.parametrize("name", ["openai-chat", "anthropic", "openai-responses", "gemini"])
async def test_messages_of_every_format_are_shown(name: str) -> None:
    form = get_format(name)
    made = ToolCall("c1", "read_file", {"path": "a.md"})
    messages = [
        form.user("What is in it?"), *form.reply_messages("I look.", [made]),
        *form.result_messages([(made, ToolResult("a line"))]), *form.reply_messages("A line."),
    ]  # fmt: skip
    told = words(
        part(read_page(page(sessions=[StoredSession(session_id="s", messages=messages, format=name)])), "Messages")
    )
    assert [
        text for text in ("What is in it?", "I look.", "read_file", "a.md", "a line", "A line.") if text not in told
    ] == []


# What is not known is said


async def test_without_a_session_the_page_says_what_is_missing(folder: Path) -> None:
    read = read_page(page(trace_of(folder)))
    assert "No session was given" in words(of_class(read, "notes")[0])
    table = {row[1]: row[-1] for row in rows(part(part(read, "Run 1"), "Decisions"))}
    assert table["delete_file"] == "blocked; the reason is in the messages, not in the trace"
    assert "1 search for tools" in words(part(part(read, "Run 1"), "Searches"))


async def test_without_a_trace_the_page_says_what_is_missing(folder: Path) -> None:
    read = read_page(page(sessions=[await stored_session(folder)]))
    assert "No trace was given, so there are no times" in words(of_class(read, "notes")[0])
    assert words(read).index("What this page does not know") > words(read).index("Messages")
    assert "Messages" in tiles(read)
    assert [one for one in read.iter("li") if one.get("data-tool")] == []


async def test_a_trace_of_an_earlier_version_does_not_list_tools_and_the_page_says_so() -> None:
    counts: dict[str, Any] = {
        "tools": 9,
        "offered": 3,
        "withheld": 0,
        "tokens": 900,
        "tokens_offered": 300,
        "notes": [],
    }
    report = build([line("run_started", trigger="user", model="m"), line("tools_resolved", 1, **counts)])
    assert any("earlier version" in sentence for sentence in report.missing)
    assert "67 % less in each request" in words(part(read_page(render(report)), "Tools"))


async def test_a_run_without_an_end_is_told_and_its_open_call_too() -> None:
    report = build([line("run_started", trigger="user", model="m"), started("a", 1)])
    assert any("no end in the trace" in sentence for sentence in report.missing)
    assert "not ended" in words(read_page(render(report)))


async def test_a_page_of_nothing_says_so() -> None:
    assert "No trace was given" in page()
    assert "The trace holds no run of it." in page([])


# Others' words


@pytest.mark.parametrize("text", [HOSTILE, STEERING])
async def test_nothing_of_the_input_becomes_markup_or_is_hidden(text: str) -> None:
    hook = {
        "hook": text,
        "plugin": text,
        "handler": text,
        "outcome": text,
        "seconds": 1,
        "problem": text,
        "call_id": "a",
    }
    catalog = [{"tool": text, "name": text, "tokens": 5, "place": "offered"}]
    trace = [
        {**line("run_started", trigger=text, model=text), "run_id": text, "session_id": text, "agent_id": text},
    ]
    own = [
        line("withheld", 0.1, plugin=text, names=[text], reason=text), line("unmatched", 0.2, plugin=text, where=text, names=[text]),
        line("tools_resolved", 0.3, tools=1, offered=1, withheld=1, tokens=5, tokens_offered=5, notes=[text], catalog=catalog),
        line("model_called", 0.4, messages=1, characters=1), line("model_replied", 0.5, usage={text: 5}, stop_reason=text),
        {**started("a", 1), "name": text, "tool": text, "origin": text}, line("hook", 1.1, **hook),
        line("progress", 1.2, call_id="a", text=text, share=0.5),
        line("approval_asked", 1.3, call_id="a", plugin=text, severity=text, questions=2, digest=text),
        line("approval_answered", 1.4, call_id="a", granted=True, by=text, scope=text, remembered=False, digest=text),
        finished("a", 2, text), line("trim_queued", 3, plugin=text, handle=text, characters_before=9, characters_after=1),
        line("trim_drained", 4, plugin=text, handle=text, status=text, tool=text, turns_ago=1, tokens_saved=2, pays_back_after=1),
        line("run_ended", 5, reason=text, stats={}),
    ]  # fmt: skip
    trace += [{**one, "run_id": text, "session_id": text} for one in own]
    messages = [
        {"role": text, "content": text}, {"role": "assistant", "content": text, "tool_calls": [
            {"id": text, "type": "function", "function": {"name": text, "arguments": text}}]},
        {"role": "tool", "tool_call_id": text, "content": text},
    ]  # fmt: skip
    html = page(trace, [StoredSession(session_id=text, messages=messages)], title=text)
    html.encode("utf-8")
    read = read_page(html)
    assert len(list(read.iter("script"))) == 1
    assert list(read.iter("img")) == []
    assert [
        name for one in read.iter() for name in one.attrib if name.startswith("on") or name in {"src", "srcset"}
    ] == []
    assert [one.get("href") for one in read.iter("a") if not re.fullmatch(r"#(m|run)\d+", one.get("href", ""))] == []
    assert [
        char for char in html if char not in "\n\t" and (ord(char) < 32 or char in "\u202e\u200b\x7f\U000e0041")
    ] == []


async def test_what_a_reader_would_not_see_is_shown_by_its_number() -> None:
    messages = [{"role": "user", "content": STEERING}]
    text = words(part(read_page(page(sessions=[StoredSession(session_id="s", messages=messages)])), "Messages"))
    assert (
        "a[U+202E]b\N{REPLACEMENT CHARACTER}c\N{REPLACEMENT CHARACTER}d[U+200B]e\N{REPLACEMENT CHARACTER}[31mf[U+E0041]g"
        in text
    )


async def test_scripts_that_join_letters_and_emoji_stay_as_they_are() -> None:
    text = (
        "\N{ARABIC LETTER MEEM}\N{ZERO WIDTH NON-JOINER}\N{ARABIC LETTER KHAH} \N{WOMAN}\u200d\N{GIRL} a\u00a0b\u3000c"
    )
    assert text in page(sessions=[StoredSession(session_id="s", messages=[{"role": "user", "content": text}])])


@pytest.mark.light(every=5)
@pytest.mark.parametrize("value", ["x", None, True, [], {}, 1e400, float("nan"), -5, 10**400, 1e300])
async def test_records_with_wrong_values_make_a_page_all_the_same(value: Any) -> None:
    kinds = [
        line("run_started", trigger="user", model="m"), line("tools_resolved", 1, tools=1), line("model_called", 1),
        line("model_replied", 2, usage={"a": 1}), started("a", 3), line("hook", 3, hook="before_tool_call", call_id="a"),
        line("progress", 3, call_id="a"), line("approval_asked", 3, call_id="a"), line("approval_answered", 3, call_id="a"),
        finished("a", 4), line("trim_queued", 5), line("trim_drained", 5), line("run_ended", 6), line("unheard_of", 7),
    ]  # fmt: skip
    for record in kinds:
        for key in record.keys() - {"kind"}:
            read_page(page([{**one, key: value} if one is record else one for one in kinds]))
    read_page(page([{**record, **dict.fromkeys(record.keys() - {"kind"}, value)} for record in kinds]))


async def test_the_page_forbids_itself_everything_but_its_own_style_and_script(folder: Path) -> None:
    html = page(trace_of(folder))
    (policy,) = [one.get("content") for one in read_page(html).iter("meta") if one.get("http-equiv")]
    assert policy is not None
    assert policy.startswith("default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-")
    assert not re.search(r"https?://|url\(|@import|<link|<iframe", html.replace(HOSTILE, ""))


async def test_the_same_input_makes_the_same_page(folder: Path) -> None:
    trace, stored = trace_of(folder), await stored_session(folder)
    assert page(trace, [stored]) == page(trace, [stored])


async def test_headings_go_down_one_by_one_and_tables_have_heads(whole: Element) -> None:
    levels = [int(one.tag[1]) for one in whole.iter() if re.fullmatch(r"h[1-6]", one.tag)]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(after <= before + 1 for before, after in itertools.pairwise(levels))
    assert all(cell.get("scope") == "col" for cell in whole.iter("th"))
    assert all(len(list(table.iter("th"))) > 1 for table in whole.iter("table"))


# Much


def long_trace(calls: int) -> list[dict[str, Any]]:
    trace = [line("run_started", trigger="user", model="m")]
    for number in range(calls):
        judged = {
            "hook": "before_tool_call",
            "plugin": "p",
            "handler": "judge",
            "seconds": 0.001,
            "call_id": f"c{number}",
        }
        trace += [
            line("model_called", number, messages=1, characters=1), line("model_replied", number + 0.1, usage={"input_tokens": 5}),
            started(f"c{number}", number + 0.2),
            line("hook", number + 0.3, outcome="Block" if number % 997 == 500 else "passed", **judged),
            finished(f"c{number}", number + 0.7, "blocked" if number % 997 == 500 else "ok"),
        ]  # fmt: skip
    return [*trace, line("run_ended", calls, reason="completed", stats={})]


@pytest.mark.heavy
async def test_a_trace_of_100_000_records_makes_a_page_that_a_browser_opens() -> None:
    trace = long_trace(20_000)
    assert len(trace) > 100_000
    begin = time.process_time()
    report = build(trace)
    html = render(report)
    assert time.process_time() - begin < 60  # a few seconds; only against what grows with the square of it
    assert len(html) < 15_000_000
    (run,) = report.runs
    assert run.calls == 20_000
    assert run.steps_left_out > 0
    assert sum(bool(step.decisions) for step in run.steps) == run.by_status["blocked"] == 20
    assert f"{run.steps_left_out:,} others are left out" in html


@pytest.mark.heavy
async def test_a_session_of_10_000_messages_makes_a_page_that_a_browser_opens() -> None:
    form = get_format("openai-chat")
    messages = [form.user("Go.")]
    for number in range(5_000):
        made = ToolCall(f"c{number}", "read_file", {"path": f"{number}.py"})
        messages += [form.reply("", [made]), *form.result_messages([(made, ToolResult("a line of code\n" * 300))])]
    begin = time.process_time()
    html = page(sessions=[StoredSession(session_id="s", messages=messages)])
    assert time.process_time() - begin < 60
    assert len(html) < 30_000_000
    assert "#9999" in html
    assert "too long for this page" in html


async def test_a_long_text_is_cut_and_stands_whole_behind_a_fold() -> None:
    text = "\n".join(f"line {number}" for number in range(1_000))
    read = read_page(page(sessions=[StoredSession(session_id="s", messages=[{"role": "user", "content": text}])]))
    (fold,) = of_class(read, "whole")
    assert "line 999" in words(fold)
    short = next(one for one in of_class(read, "message")[0] if one.tag == "pre")
    assert words(short).endswith("line 15…")


async def test_many_runs_are_listed_up_to_a_number_and_the_page_says_how_many_are_left_out() -> None:
    trace = [
        {**one, "run_id": f"run-{number}"}
        for number in range(100)
        for one in (
            line("run_started", number, trigger="user", model="m"),
            line("run_ended", number + 0.5, reason="completed"),
        )
    ]
    report = build(trace)
    assert (len(report.runs), report.runs_left_out) == (40, 60)
    assert report.runs[-1].run_id == "run-99"
    assert "60 earlier ones are left out" in words(part(read_page(render(report)), "Runs"))


async def test_the_report_as_data_is_json(folder: Path) -> None:
    report = build(trace_of(folder), [await stored_session(folder)])
    document = json.loads(json.dumps(dataclasses.asdict(report)))
    assert document["runs"][0]["by_status"] == {"ok": 3, "blocked": 2, "answered": 1, "error": 1}
    assert document["sessions"][0]["searches"][0]["queries"][0]["hits"][0]["name"] == "weather"


@pytest.mark.parametrize("kind", [["hook"], {"hook": 1}, None, 5])
async def test_a_record_whose_kind_is_no_text_is_passed_over(kind: Any) -> None:
    trace = [{**line("hook"), "kind": kind, "run_id": ""}, started("c1", 0.0), finished("c1", 1.0)]
    assert "read_file" in words(read_page(page(trace)))


def test_a_question_shows_where_the_values_came_from_that_the_person_was_shown() -> None:
    asked = line(
        "approval_asked", 0.1, call_id="c1", plugin="gate", severity="warning", questions=1, digest="",
        evidence=["to: r3 untrusted", "cc: nowhere"],
    )  # fmt: skip
    trace = [
        line("run_started", trigger="user"),
        started("c1", 0.0),
        asked,
        finished("c1", 1.0, "blocked"),
        line("run_ended", 2.0, reason="completed", stats={}),
    ]
    assert "gate asked (warning): to: r3 untrusted; cc: nowhere; there is no answer" in page(trace)
