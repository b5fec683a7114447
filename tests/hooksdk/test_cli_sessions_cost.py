"""`hooksdk sessions cost`: the bill of a history under several policies."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
from commands import hooksdk
from history_samples import CLAUDE_CODE, GEMINI
from transcripts import ANTHROPIC, OPENAI, body, history

from hooksdk import Host
from hooksdk.agent import run_agent
from hooksdk.formats import Message, MessageFormat
from hooksdk.models.anthropic import AnthropicModel
from hooksdk.stores import SqlStore
from hooksdk.testing import Turn, call
from hooksdk.testing.server import ScriptedServer

pytestmark = [pytest.mark.heavy, pytest.mark.anyio]

POLICIES = [
    "untrimmed", "everything old, at each run's end", "everything old, before each request", "clear_tool_results",
    "the least possible",
]  # fmt: skip


def messages_of(form: MessageFormat) -> list[Message]:
    return [*history(form, [body(number, 4_000) for number in range(6)]), form.user("And now?"), form.reply("Nothing.")]


@pytest.mark.in_ci(every=4)
@pytest.mark.parametrize("form", [OPENAI, ANTHROPIC], ids=["openai-chat", "anthropic"])
@pytest.mark.parametrize("kind", ["list", "lines", "request", "stdin"])
async def test_it_reads_a_history_and_prints_a_row_for_each_policy(
    tmp_path: Path, form: MessageFormat, kind: str
) -> None:
    messages = messages_of(form)
    lines = "\n".join(json.dumps(message) for message in messages)
    text = {"list": json.dumps(messages), "request": json.dumps({"model": "any", "messages": messages})}.get(
        kind, lines
    )
    (tmp_path / "history").write_text(text)
    argument = "-" if kind == "stdin" else "history"
    done = await hooksdk("sessions", "cost", argument, folder=tmp_path, stdin=text)
    assert done.code == 0, done.err
    first, note, head, *rows = done.out.splitlines()
    assert first == f"{len(messages)} messages in format {form.name}, 8 requests"
    assert note.startswith(f"note  read as {form.name}: ")
    assert head.split() == ["policy", "tokens", "share", "bill", "share", "trims", "drains"]
    assert [row.partition("  ")[0] for row in rows] == POLICIES


async def test_as_json_it_says_what_was_read_and_written(tmp_path: Path) -> None:
    (tmp_path / "history.json").write_text(json.dumps(messages_of(OPENAI)))
    arguments = ["history.json", "--json", "--trigger", "2000", "--write", "2", "--pause", "400"]
    done = await hooksdk("sessions", "cost", *arguments, folder=tmp_path)
    answer = done.json()
    assert (answer["source"], answer["format"], answer["messages"], answer["requests"]) == (*["openai-chat"] * 2, 16, 8)
    assert answer["prices"] == {"read": 0.1, "write": 2, "life": 300}
    whole, *_, cleared, least = answer["policies"]
    assert (whole["policy"], whole["bill_share"], whole["trims"]) == ("untrimmed", 1, 0)
    assert whole["bill"] == pytest.approx(0.1 * whole["read"] + 2 * whole["written"])
    assert whole["tokens"] == whole["read"] + whole["written"]
    assert (cleared["policy"], cleared["trims"]) == ("clear_tool_results", 4)
    assert least["bill"] <= cleared["bill"] < whole["bill"]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ('{"role": "user", "content": "a"}\n{"role": "us\n', "history, line 2: this is not valid JSON"),
        ("[1]", "history, item 0: expected an object, but this is integer"),
        ("3", "history: expected a list of messages, but this is integer"),
        ('[{"content": "a"}]', "history, item 0: expected a history of"),
        ("\udcff", "history: it is no UTF-8 text"),
    ],
)
async def test_a_file_that_is_no_history_is_refused_with_its_place(tmp_path: Path, text: str, problem: str) -> None:
    (tmp_path / "history").write_bytes(text.encode("utf-8", "surrogateescape"))
    done = await hooksdk("sessions", "cost", "history", folder=tmp_path)
    assert done.code != 0
    assert problem in " ".join(done.err.split())


@pytest.mark.parametrize("option", [["--format", "klingon"], ["--read", "-1"], ["--read", "nan"], ["--write", "inf"]])
async def test_an_option_that_cannot_be_is_refused(tmp_path: Path, option: list[str]) -> None:
    (tmp_path / "history").write_text("[]")
    done = await hooksdk("sessions", "cost", "history", *option, folder=tmp_path)
    assert done.code in {2, 3}
    assert option[-1] in done.err or option[0] in done.err


async def test_what_is_neither_a_file_nor_a_session_is_named(tmp_path: Path) -> None:
    done = await hooksdk("sessions", "cost", "nothing.json", folder=tmp_path)
    assert done.code == 1
    said = " ".join(done.err.split())
    assert "there is no session 'nothing.json' in " in said
    assert said.endswith("And there is no such file.")


# In money


SONNET = "anthropic:claude-sonnet-5-5"
ROWS = ["untrimmed, without a cache", "untrimmed", "as it was", *POLICIES[1:]]


def read(number: int) -> str:
    """Read one page."""
    return f"{number} word " * 700


async def stored(folder: Path, name: str = SONNET, **options: Any) -> None:
    """A session of one run, as the commands find it."""

    def script(turn: Turn) -> Any:
        return call("read", number=turn.number) if turn.number < 6 else "done"

    async with (
        ScriptedServer(script) as server, Host(store=SqlStore(folder / "kept")) as host, host.session("7k2m9x4q") as session,
        AnthropicModel(name.partition(":")[2], base_url=server.anthropic_url, api_key="none", **options) as model,
    ):  # fmt: skip
        await run_agent(session, model, "Read.", tools=[read], system="You read. " * 500, workspace_dir=str(folder))


@pytest.mark.parametrize("typed", ["7k2m9x4q", "7k2m", "last"])
async def test_a_stored_session_says_what_was_paid_and_what_it_would_have_been(tmp_path: Path, typed: str) -> None:
    await stored(tmp_path)
    done = await hooksdk("sessions", "cost", typed, folder=tmp_path)
    assert done.code == 0, done.err
    first, _, paid, prices, head, *rows = done.out.splitlines()
    assert first == "13 messages in format anthropic, 6 requests"
    assert re.fullmatch(rf"{SONNET} +6 +[\d,]+ +[\d,]+ +[\d,]+ +\d+ +\$[\d.]+ +\$[\d.]+", paid)
    assert re.fullmatch(r"prices +genai-prices [\d.]+ of 20\d\d-\d\d-\d\d", prices)
    assert head.split()[-1] == "dollars"
    assert [row.partition("  ")[0] for row in rows] == ROWS
    assert all(re.search(r" \$[\d.]+$", row) for row in rows)


async def test_as_json_it_has_the_same_figures_and_what_the_cache_should_have_held(tmp_path: Path) -> None:
    await stored(tmp_path, cache="off")
    (tmp_path / "hooksdk.toml").write_text(f'[prices."{SONNET}"]\ninput = 1\noutput = 2\ncache_read = 0.2\n')
    told = (await hooksdk("sessions", "cost", "last", "--json", folder=tmp_path)).json()
    assert told["prices_of"].startswith("genai-prices"), "a project's own count once it is trusted"
    user = tmp_path / "none" / "hooksdk" / "config.toml"
    user.parent.mkdir(parents=True)
    (tmp_path / "hooksdk.toml").rename(user)
    told = (await hooksdk("sessions", "cost", "last", "--json", folder=tmp_path)).json()
    assert (told["session"], told["model"], told["prices_of"]) == ("7k2m9x4q", SONNET, "[prices]")
    paid, (cache,) = told["paid"], told["cache"]
    assert paid["dollars"] == pytest.approx((paid["fresh"] + 2 * paid["output"]) / 1e6) == paid["without_cache"]
    assert [one["model"] for one in paid["models"]] == [SONNET]
    assert (cache["model"], cache["read"]) == (SONNET, 0)
    assert cache["difference"].endswith("is caching on?")
    policies = {one["policy"]: one for one in told["policies"]}
    assert list(policies) == ROWS
    assert told["prices"] == {"read": 0.2, "write": 1, "life": 300}
    assert policies["untrimmed"]["dollars"] == pytest.approx(policies["untrimmed"]["bill"] / 1e6, rel=1e-3)
    said = await hooksdk("sessions", "cost", "last", folder=tmp_path)
    assert f"cache       {cache['difference']}" in said.out


async def test_a_model_without_a_price_is_counted_in_tokens_and_said_to_have_none(tmp_path: Path) -> None:
    await stored(tmp_path, "anthropic:one-of-mine")
    done = await hooksdk("sessions", "cost", "last", folder=tmp_path)
    assert done.code == 0, done.err
    assert re.search(r"^anthropic:one-of-mine .* no price +no price$", done.out, re.MULTILINE)
    assert "prices      no price of anthropic:one-of-mine: neither in [prices] nor in genai-prices" in done.out
    assert "$" not in done.out


async def test_of_an_older_session_what_was_paid_is_not_known(tmp_path: Path) -> None:
    shutil.copytree(Path(__file__).with_name("stored_0_2_0") / "home", tmp_path / "kept")
    listed = (await hooksdk("sessions", "list", "--json", folder=tmp_path)).json()["sessions"]
    done = await hooksdk("sessions", "cost", listed[0]["id"], folder=tmp_path)
    assert done.code == 0, done.err
    assert "paid        not known: no usage is stored with it" in done.out
    told = (await hooksdk("sessions", "cost", listed[0]["id"], "--json", folder=tmp_path)).json()
    assert (told["paid"], told["cache"]) == (None, [])


async def test_a_file_is_told_in_money_when_its_model_is_named(tmp_path: Path) -> None:
    (tmp_path / "history.json").write_text(json.dumps(messages_of(OPENAI)))
    done = await hooksdk("sessions", "cost", "history.json", "--model", "openai:gpt-5", folder=tmp_path)
    rows = [row.partition("  ")[0] for row in done.out.splitlines() if row.endswith(tuple("0123456789"))]
    assert rows[-6:] == ["untrimmed, without a cache", *POLICIES]
    assert "prices      genai-prices " in done.out
    assert "paid" not in done.out


async def test_it_reads_what_import_reads(tmp_path: Path) -> None:
    (tmp_path / "5f1c.jsonl").write_text("".join(json.dumps(line) + "\n" for line in CLAUDE_CODE))
    answer = (await hooksdk("sessions", "cost", "5f1c.jsonl", "--json", folder=tmp_path)).json()
    assert (answer["source"], answer["format"], answer["messages"]) == ("claude-code", "anthropic", 5)
    assert any(note.startswith("left out: ") for note in answer["notes"])


async def test_a_format_of_ours_is_counted_as_it_was_sent(tmp_path: Path) -> None:
    (tmp_path / "contents.json").write_text(json.dumps(GEMINI))
    answer = (await hooksdk("sessions", "cost", "contents.json", "--json", folder=tmp_path)).json()
    assert (answer["source"], answer["format"], answer["messages"]) == ("gemini", "gemini", len(GEMINI["contents"]))
