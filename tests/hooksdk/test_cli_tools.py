"""`hooksdk tools list` and `hooksdk tools search`: what a model would get of real MCP servers, and at what price."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import anyio
import pytest

pytest.importorskip("mcp", reason="needs the extra `mcp`")

from commands import COMMAND, environment, hooksdk, install_plugin, write_servers
from mcp_servers import script

from hooksdk import MemoryStore, Tool, schema
from hooksdk.cli._console import first_sentence, print_columns, printable
from hooksdk.cli._project import ThrowawayStore
from hooksdk.cli._tools.look import view_of_search

pytestmark = [pytest.mark.heavy, pytest.mark.anyio]
HOUSE = script("many")


@pytest.fixture
def anyio_backend() -> str:
    """The command brings its own event loop."""
    return "asyncio"


# list


async def test_every_tool_is_listed_with_its_owner_its_tokens_and_its_first_sentence(tmp_path: Path) -> None:
    servers = write_servers(tmp_path / "mcp.json", house=HOUSE)
    done = await hooksdk("tools", "list", "--mcp", servers, folder=tmp_path)
    lines = done.out.splitlines()
    assert done.code == 0
    assert lines[0] == "owner  name           tokens  what it does"
    assert lines[1] == "house  sweep_kitchen      76  Sweep the floor of the kitchen."
    assert len(lines) == 45
    assert lines[42].startswith("in all       40 tools, ")


async def test_the_tokens_are_those_of_the_definitions_and_the_totals_add_up(tmp_path: Path) -> None:
    servers = write_servers(tmp_path / "mcp.json")
    told = (await hooksdk("tools", "list", "--json", "--mcp", servers, folder=tmp_path)).json()
    assert told["schema"] == 1
    assert [(server["name"], server["state"], server["tools"]) for server in told["servers"]] == [("plain", "up", 6)]
    folder = next(tool for tool in told["tools"] if tool["id"] == "mcp:plain:folder")
    definition: dict[str, Any] = {"type": "object", "properties": {}, "title": "folderArguments"}
    same = Tool(name="folder", description="The server's working folder.", parameters=definition, source="mcp")
    assert folder["tokens"] == same.tokens
    assert told["tokens"] == told["tokens_offered"] == sum(tool["tokens"] for tool in told["tools"])
    assert all(tool["offered"] for tool in told["tools"])


@pytest.mark.parametrize(("window", "comes_on"), [(200_000, False), (20_000, True)])
async def test_it_says_whether_auto_comes_on_at_a_context_window(window: int, comes_on: bool, tmp_path: Path) -> None:
    servers = write_servers(tmp_path / "mcp.json", house=HOUSE)
    done = await hooksdk("tools", "list", "--mcp", servers, "--context-window", str(window), folder=tmp_path)
    last = "on in this project; auto comes on" if comes_on else "off in this project; auto stays off"
    assert done.out.splitlines()[-1] == f"             it is {last} at a context window of {window:,} tokens"
    assert "tool search  offers " in done.out


async def test_a_project_that_switches_tool_search_on_is_told_what_auto_would_do(tmp_path: Path) -> None:
    (tmp_path / "hooksdk.toml").write_text('[plugins.tool_search.config]\nenabled = "on"\npinned = ["sweep_*"]\n')
    servers = write_servers(tmp_path / "mcp.json", house=HOUSE)
    told = (await hooksdk("tools", "list", "--json", "--mcp", servers, folder=tmp_path)).json()
    assert (told["search"]["on"], told["search"]["auto"], told["search"]["possible"]) == (True, False, True)
    assert told["tokens_offered"] == told["search"]["tokens"] < told["tokens"]
    assert sum(tool["offered"] for tool in told["tools"]) == 8


async def test_what_policy_withholds_is_not_listed_but_named(tmp_path: Path) -> None:
    rule = 'action = "deny"\ntools = "mcp:plain:environment"\nreason = "secrets are in there"\n'
    (tmp_path / "hooksdk.toml").write_text(f"[[plugins.tool_policy.config.rules]]\n{rule}")
    servers = write_servers(tmp_path / "mcp.json")
    done = await hooksdk("tools", "list", "--mcp", servers, folder=tmp_path)
    assert "plain  environment" not in done.out
    assert "withheld     environment: secrets are in there" in done.out
    assert "in all       5 tools" in done.out


async def test_names_are_those_that_the_model_sees(tmp_path: Path) -> None:
    servers = write_servers(tmp_path / "mcp.json", one=script("quick"), two=script("quick"))
    done = await hooksdk("tools", "list", "--mcp", servers, folder=tmp_path)
    assert "one    one__add" in done.out
    assert "two    two__add" in done.out
    assert "note         mcp:one:add: offered as one__add, since another tool has its name" in done.out


async def test_a_reason_of_several_lines_is_told_in_one_and_one_tool_is_no_tools(tmp_path: Path) -> None:
    (tmp_path / "hooksdk.toml").write_text(
        "[[plugins.tool_policy.config.rules]]\n"
        'action = "deny"\ntools = "mcp:noisy:greet"\nreason = "Too loud.\\nin all       9 tools"\n'
    )
    servers = write_servers(tmp_path / "mcp.json", noisy=script("noisy"))
    done = await hooksdk("tools", "list", "--mcp", servers, folder=tmp_path)
    assert "withheld     greet: Too loud. in all 9 tools\n" in done.out
    assert "servers     1 tool (noisy 1) after" in done.err


async def test_the_tools_of_the_project_s_plugins_are_listed_too(tmp_path: Path) -> None:
    code = "from hooksdk import tool\nclass Watch:\n    @tool\n    def look(self) -> str:\n        '''Look around.'''\n"
    done = await hooksdk("tools", "list", folder=tmp_path, variables=install_plugin(tmp_path / "site", code, "offer"))
    assert "watch  look" in done.out


async def test_a_server_that_does_not_start_makes_the_code_1_and_the_others_are_listed(tmp_path: Path) -> None:
    servers = write_servers(tmp_path / "mcp.json", plain=script("quick"), gone={"command": "no-such-program"})
    done = await hooksdk("tools", "list", "--mcp", servers, folder=tmp_path)
    assert done.code == 1
    assert "in all       6 tools" in done.out
    assert "left out    the MCP server 'gone': the command 'no-such-program' was not found" in done.err


async def test_without_the_mcp_package_it_says_what_to_install(tmp_path: Path) -> None:
    (tmp_path / "mcp.py").write_text("raise ModuleNotFoundError('gone', name='mcp')\n")
    servers = write_servers(tmp_path / "mcp.json")
    found = {"PYTHONPATH": str(tmp_path)}
    done = await hooksdk("tools", "list", "--mcp", servers, folder=tmp_path, variables=found)
    assert (done.code, done.err) == (1, "hooksdk: MCP servers need the package 'mcp': pip install 'hooksdk[mcp]'\n")


async def test_without_servers_it_says_how_to_give_some(tmp_path: Path) -> None:
    done = await hooksdk("tools", "list", folder=tmp_path)
    assert (done.code, done.out) == (
        0,
        "in all       0 tools, 0 tokens of schemas\n             MCP servers are read from mcp.json here, or given with --mcp FILE\n",
    )


@pytest.mark.skipif(sys.platform == "win32", reason="pipes end otherwise there")
@pytest.mark.parametrize("option", [(), ("--json",)], ids=["table", "json"])
async def test_a_reader_who_has_seen_enough_is_no_failure(option: tuple[str, ...], tmp_path: Path) -> None:
    servers = write_servers(tmp_path / "mcp.json")
    # Nobody has the other end by the time the table comes.
    reading, writing = os.pipe()
    os.close(reading)
    done = await anyio.run_process(
        [*COMMAND, "tools", "list", *option, "--mcp", servers],
        cwd=tmp_path,
        env=environment(tmp_path),
        stdout=writing,
        check=False,
    )
    os.close(writing)
    assert (done.returncode, b"Traceback" in done.stderr) == (0, False)


async def test_what_is_logged_as_a_warning_is_told_once(tmp_path: Path) -> None:
    (tmp_path / "hooksdk.toml").write_text("[plugins.tool_search.config]\nmax_search_limit = 99\n")
    done = await hooksdk("tools", "list", folder=tmp_path)
    assert done.err == "warning     tool_search: max_search_limit = 99 is out of range, 50 is used\n"


async def test_looking_keeps_nothing(tmp_path: Path) -> None:
    (tmp_path / "hooksdk.toml").write_text('[plugins.catalog_audit.config]\non_change = "withhold"\n')
    servers = write_servers(tmp_path / "mcp.json")
    done = await hooksdk("tools", "list", "--mcp", servers, folder=tmp_path)
    assert "in all       6 tools" in done.out
    assert sorted(path.name for path in tmp_path.iterdir()) == ["hooksdk.toml", "mcp.json"]


# search


async def test_a_search_answers_what_the_model_would_get_with_its_price(tmp_path: Path) -> None:
    servers = write_servers(tmp_path / "mcp.json", house=HOUSE)
    searched = ("tools", "search", "sweep the cellar", "paint the garage", "--mcp", servers)
    told = (await hooksdk(*searched, "--json", folder=tmp_path)).json()
    answer = told["answer"]
    assert [group["hits"][0]["name"] for group in answer["results"]] == ["sweep_cellar", "paint_garage"]
    assert told["tokens"] == schema.estimate_tokens(json.dumps(answer, separators=(",", ":"), ensure_ascii=False))


async def test_hits_are_printed_with_signature_owner_and_description_in_one_line_each(tmp_path: Path) -> None:
    servers = write_servers(tmp_path / "mcp.json", house=HOUSE)
    done = await hooksdk("tools", "search", "sweep the cellar", "--mcp", servers, "--limit", "1", folder=tmp_path)
    lines = done.out.splitlines()
    assert done.code == 0
    assert lines[:3] == [
        "sweep the cellar",
        "  sweep_cellar(minutes: integer, quietly?: boolean)",
        "      house: Sweep the floor of the cellar.",
    ]
    assert lines[-1].startswith("40 tools searched; this answer costs the model ")


async def test_what_is_absent_is_said_with_what_there_is(tmp_path: Path) -> None:
    servers = write_servers(tmp_path / "mcp.json", house=HOUSE)
    done = await hooksdk("tools", "search", "translate zebra", "--mcp", servers, folder=tmp_path)
    assert "translate zebra\n  nothing found\n" in done.out
    assert "There are tools from house (40).\n" in done.out


def test_what_fits_badly_is_marked_and_what_is_offered_already_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    hits = [{"call": "sweep(room: string[])", "name": "sweep", "description": "Sweep.", "from": "house", "weak": True}]
    poor = {"query": "[mine] sweeping", "hits": hits, "weak": "None of these fits well."}
    shown: dict[str, Any] = {"query": "add", "hits": [], "already_offered": "add is offered to you directly"}
    view_of_search({"total_available": 1, "results": [poor, shown]}, 30).show(as_json=False)
    assert capsys.readouterr().out == (
        "[mine] sweeping\n  sweep(room: string[])  (weak)\n      house: Sweep.\n  None of these fits well.\n\n"
        "add\n  add is offered to you directly\n\n"
        "1 tool searched; this answer costs the model 30 tokens.\n"
    )


@pytest.mark.in_ci(every=4)
@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ('deny = ["tool-search"]\n', "denied by the configuration"),
        ("[plugins.tool_search]\nenabled = false\n", "switched off by the configuration"),
        ('[plugins.tool_search.config]\nenabled = "off"\n', "switched off by the configuration"),
        ("[plugins.tool_search.config]\nsearch_default_limit = 2\n", ""),
    ],
)
async def test_tool_search_is_on_for_the_command_whatever_the_project_says(
    text: str, reason: str, tmp_path: Path
) -> None:
    (tmp_path / "hooksdk.toml").write_text(text)
    servers = write_servers(tmp_path / "mcp.json")
    done = await hooksdk("tools", "search", "add two numbers", "--mcp", servers, folder=tmp_path)
    assert "  add(a: integer, b: integer) -> {result: integer}\n" in done.out
    assert (f"tool search is off in this project ({reason}); it is on for this command" in done.err) is bool(reason)
    if not reason:
        assert done.out.count("      plain: ") <= 2, "its other settings count"


async def test_what_policy_withholds_is_not_found(tmp_path: Path) -> None:
    rule = 'action = "deny"\ntools = "sweep_cellar"\n'
    (tmp_path / "hooksdk.toml").write_text(f"[[plugins.tool_policy.config.rules]]\n{rule}")
    servers = write_servers(tmp_path / "mcp.json", house=HOUSE)
    done = await hooksdk("tools", "search", "sweep the cellar", "--mcp", servers, folder=tmp_path)
    assert "  sweep_cellar(" not in done.out
    assert done.out.splitlines()[-1].startswith("39 tools searched")


async def test_a_prompt_shows_what_is_prefetched_for_it_and_what_the_first_request_costs(tmp_path: Path) -> None:
    servers = write_servers(tmp_path / "mcp.json", house=HOUSE)
    asked = ("tools", "search", "--as-prompt", "please sweep the cellar", "--mcp", servers)
    told = (await hooksdk(*asked, "--json", folder=tmp_path)).json()
    assert [tool["name"] for tool in told["prefetched"]] == ["sweep_cellar"]
    tokens = told["tokens"]
    assert tokens["prefetched"] == sum(tool["tokens"] for tool in told["prefetched"]) <= 2_000
    assert (
        tokens["request"] == tokens["without_prefetch"] + tokens["prefetched"] + tokens["added"] < tokens["all_shown"]
    )
    (behind,) = told["added"]
    lines = (await hooksdk(*asked, folder=tmp_path)).out.splitlines()
    assert lines[1].split()[:2] == ["house", "sweep_cellar"]
    assert f"behind the prompt, in this request alone ({tokens['added']:,} tokens):" in lines
    assert f"  {behind.splitlines()[-1]}" in lines
    assert lines[-3].startswith(f"prefetched   1 tool, {tokens['prefetched']:,} tokens, beside the bridge's ")


@pytest.mark.parametrize(
    ("arguments", "code", "told"),
    [
        (
            ("add",),
            1,
            "there is nothing to search: none of 0 tools can be deferred; MCP servers are read from mcp.json",
        ),
        ((" ",), 2, "QUERY: a query is empty"),
        ((), 2, "Missing argument 'QUERY...'"),
        (("add", "--limit", "0"), 2, "'--limit'"),
    ],
)
async def test_a_search_that_cannot_be_made_is_one_line(
    arguments: tuple[str, ...], code: int, told: str, tmp_path: Path
) -> None:
    done = await hooksdk("tools", "search", *arguments, folder=tmp_path)
    assert (done.code, done.out) == (code, "")
    assert told in done.err
    assert len(done.err.splitlines()) == 1


# What they are made of


@pytest.mark.parametrize("anyio_backend", ["asyncio", "trio"])
async def test_a_store_to_look_into_shows_what_is_kept_and_keeps_nothing() -> None:
    kept = MemoryStore()
    await kept.set_value("notes", "a", 1)
    look = ThrowawayStore(kept)
    await look.set_value("notes", "b", 2)
    await look.delete_value("notes", "a")
    assert await look.list_keys("notes") == ["b"]
    assert (await look.get_value("notes", "b"), await look.get_value("notes", "a")) == (2, None)
    assert await kept.list_keys("notes") == ["a"]
    await (await look.open_session("s1")).close()
    assert (await look.list_sessions(), await look.session_exists("s1")) == (["s1"], True)
    assert await kept.list_sessions() == []
    await look.aclose()


@pytest.mark.parametrize(
    ("description", "first"),
    [
        ("Reads a file. Answers its text.", "Reads a file."),
        ("Takes units, e.g. metres, too. More.", "Takes units, e.g. metres, too."),
        ("  One\nline\n\nArgs:\n  a: b", "One line"),
        ("word " * 100, "word " * 59 + "word…"),
        ("Red \x1b[31malert", "Red \N{REPLACEMENT CHARACTER}[31malert"),
        ("", ""),
    ],
)
def test_the_first_sentence_is_one_safe_line(description: str, first: str) -> None:
    assert first_sentence(description) == first


def test_text_of_others_cannot_steer_the_terminal() -> None:
    assert printable("ok\n\ta\x1b]0;title\x07\u202egnp.exe") == "ok\n\ta\ufffd]0;title\ufffd\ufffdgnp.exe"


def test_a_table_keeps_names_whole_and_numbers_aligned(capsys: pytest.CaptureFixture[str]) -> None:
    print_columns(
        ("name", "tokens", "what"), [["n" * 90, "5", "Wide [bold]text[/] 宽"], ["宽", "1,000", ""]], numbers="tokens"
    )
    heading, first, second = capsys.readouterr().out.splitlines()
    assert first == "n" * 90 + "       5  Wide [bold]text[/] 宽"
    assert (heading.index("tokens"), second) == (92, "宽" + " " * 88 + "   1,000  ")
