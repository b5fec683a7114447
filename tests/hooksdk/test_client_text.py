"""Clients' settings as text: the gateway takes the servers' place and gives it back, and every other byte stays."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, cast

import pytest

pytest.importorskip("mcp", reason="needs the extra `mcp`")

from hypothesis import HealthCheck, given
from hypothesis import settings as limits
from hypothesis import strategies as st

from hooksdk.cli._edits import json_text
from hooksdk.cli._edits.client_text import ClientText, Hunk
from hooksdk.errors import ConfigError

pytestmark = pytest.mark.heavy

GATEWAY = {"command": "/opt/venv/bin/python", "args": ["-m", "hooksdk", "gateway"]}
JSON = ClientText(Path("settings.json"), ("mcpServers",))
TOML = ClientText(Path("config.toml"), ("mcp_servers",))

few = limits(max_examples=60, deadline=None, suppress_health_check=cast("list[HealthCheck]", list(HealthCheck)))
names = st.text(st.sampled_from('abc"\\/{}[],: é#'), min_size=1, max_size=5)
blanks = st.sampled_from(["", " ", "\n", "\n\n    ", "\t", " /* a, b: {} */ ", '// "x": 1\n', "  // it's [\n  "])
values = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | names,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=3),
    max_leaves=6,
)


@st.composite
def written(draw: st.DrawFn, value: Any) -> str:
    """The value as somebody may have written it: blanks, comments and trailing commas wherever they may be."""

    def blank() -> str:
        return draw(blanks)

    def write(one: Any) -> str:
        if isinstance(one, dict):
            entries = cast("dict[str, Any]", one).items()
            inner = ",".join(
                f"{blank()}{json.dumps(key)}{blank()}:{blank()}{write(value)}{blank()}" for key, value in entries
            )
            return f"{{{inner}{draw(st.sampled_from(['', ','])) if one else ''}{blank()}}}"
        if isinstance(one, list):
            inner = ",".join(f"{blank()}{write(value)}{blank()}" for value in cast("list[Any]", one))
            return f"[{inner}{draw(st.sampled_from(['', ','])) if one else ''}{blank()}]"
        return json.dumps(one, ensure_ascii=draw(st.booleans()))

    return f"{blank()}{write(value)}{blank()}"


@st.composite
def settings(draw: st.DrawFn) -> tuple[str, list[str]]:
    """A client's settings as text, and the names of some of its servers."""
    others = draw(st.dictionaries(names, values, max_size=3))
    servers = draw(st.dictionaries(names, st.fixed_dictionaries({"command": names}), max_size=4))
    members = [*others.items()]
    if servers or draw(st.booleans()):
        members.insert(draw(st.integers(0, len(members))), ("mcpServers", servers))
    text = draw(written(dict(members)))
    if draw(st.booleans()):
        text = text.replace("\n", "\r\n")
    taken = [name for name in servers if draw(st.integers(0, 3))]
    return draw(st.sampled_from(["", "\ufeff"])) + text, taken


@few
@given(settings())
def test_the_gateway_takes_the_place_of_servers_and_gives_back_the_same_text(case: tuple[str, list[str]]) -> None:
    text, taken = case
    servers = JSON.servers(text)
    new = JSON.replace(text, taken, "hooksdk", GATEWAY)
    assert JSON.servers(new) == {one: servers[one] for one in servers if one not in taken} | {"hooksdk": GATEWAY}
    assert {**JSON.read(new), "mcpServers": 0} == {**JSON.read(text), "mcpServers": 0}
    hunk = Hunk.between(text, new)
    assert JSON.put_back(new, text, hunk, taken, "hooksdk") == text


@few
@given(settings(), names, values)
def test_what_was_added_elsewhere_meanwhile_stays(case: tuple[str, list[str]], key: str, value: Any) -> None:
    text, taken = case
    new = JSON.replace(text, taken, "hooksdk", GATEWAY)
    edited = json_text.set_member(new, [], f"my {key}", value)
    back = JSON.put_back(edited, text, Hunk.between(text, new), taken, "hooksdk")
    left = JSON.read(back)
    assert left.pop(f"my {key}") == value
    assert {"mcpServers": {}, **left} == {"mcpServers": {}, **JSON.read(text)}


@few
@given(settings(), names)
def test_a_server_that_was_added_meanwhile_stays_beside_those_that_come_back(case: Any, name: str) -> None:
    text, taken = case
    new = JSON.replace(text, taken, "hooksdk", GATEWAY)
    edited = json_text.set_member(new, ["mcpServers"], f"my {name}", {"command": "mine"})
    back = JSON.put_back(edited, text, Hunk.between(text, new), taken, "hooksdk")
    assert JSON.servers(back) == {**JSON.servers(text), f"my {name}": {"command": "mine"}}


@few
@given(settings())
def test_a_file_that_its_client_has_written_anew_gets_its_servers_back(case: tuple[str, list[str]]) -> None:
    text, taken = case
    new = JSON.replace(text, taken, "hooksdk", GATEWAY)
    anew = json.dumps(JSON.read(new), indent=4)
    back = JSON.put_back(anew, text, Hunk.between(text, new), taken, "hooksdk")
    assert JSON.servers(back) == JSON.servers(text)


@few
@given(
    st.dictionaries(names, values, max_size=4).flatmap(lambda one: st.tuples(st.just(one), written(one))), names, values
)
def test_one_member_is_set_and_removed_and_all_others_stay(
    case: tuple[dict[str, Any], str], name: str, value: Any
) -> None:
    before, text = case
    with_it = json_text.set_member(text, [], name, value)
    assert JSON.read(with_it) == {**before, name: value}
    assert JSON.read(json_text.remove_member(with_it, [], name)) == {key: before[key] for key in before if key != name}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("{}", '{\n  "mcpServers": {\n    "a": 1\n  }\n}'),
        ('{"x": 1}', '{"x": 1, "mcpServers": {"a": 1}}'),
        ('{\n\t"x": 1 // one\n}\n', '{\n\t"x": 1, // one\n\t"mcpServers": {\n\t\t"a": 1\n\t}\n}\n'),
        ('{\r\n    "x": 1,\r\n}', '{\r\n    "x": 1,\r\n    "mcpServers": {\r\n        "a": 1\r\n    },\r\n}'),
    ],
)
def test_what_is_new_is_written_as_the_rest_of_the_file(text: str, expected: str) -> None:
    assert json_text.set_member(text, ["mcpServers"], "a", 1) == expected


def test_a_line_that_is_removed_goes_whole_and_its_neighbours_comments_stay() -> None:
    text = '{\n  // first\n  "a": 1, // one\n  "b": 2,\n  // last\n  "c": 3\n}\n'
    assert json_text.remove_member(text, [], "b") == '{\n  // first\n  "a": 1, // one\n  // last\n  "c": 3\n}\n'
    assert json_text.remove_member(text, [], "c") == '{\n  // first\n  "a": 1, // one\n  "b": 2\n  // last\n}\n'


# TOML

CONFIG = """# Codex
model = "gpt-5" # which

# the repository
[mcp_servers.git]
command = "mcp-server-git"
args = ["-r", # where
  "."]
[mcp_servers.git.env]
NOTE = '''
[mcp_servers.not_a_table]
'''

# how it looks
[tui]
theme = "dark"

[mcp_servers."two words"] # mine
command = "two"

[history]
persistence = "none"
"""
tables = st.lists(
    st.sampled_from([
        '[mcp_servers.git]\ncommand = "git"\n', '[mcp_servers.git.env]\nA = "1"\n\n', '[mcp_servers."a b"]\nurl = "http://h" # x\n',
        "# a comment\n\n", '[tui]\ntheme = """\n[mcp_servers.x]\n"""\n', "[[hooks]]\na = [\n1, # ]\n]\n", "[history]\n\n# end\n",
        '[mcp_servers.time]\ncommand = "time"\nargs = [ "a" ]\n',
    ]),
    max_size=8, unique=True,
)  # fmt: skip
tops = st.sampled_from([
    "", "# top\n", 'model = "x"\n', 'mcp_servers.top.command = "t" # top\na = {b = "]"}\n', 'mcp_servers = {one = {command = "1"}}\n',
])  # fmt: skip


@few
@given(tops, tables, st.sampled_from(["\n", "\r\n"]), st.booleans())
def test_toml_keeps_its_bytes_too(top: str, parts: list[str], newline: str, cut: bool) -> None:
    text = f"{top}{''.join(parts)}".replace("\n", newline)
    text = text.rstrip() if cut else text
    try:
        servers = TOML.servers(text)
    except ConfigError:
        return  # a table twice: no TOML
    new = TOML.replace(text, list(servers), "hooksdk", GATEWAY)
    assert TOML.servers(new) == {"hooksdk": GATEWAY}
    assert TOML.put_back(new, text, Hunk.between(text, new), list(servers), "hooksdk") == text
    edited = f"{new}{newline if new[-1:] != chr(10) else ''}[mine]{newline}a = 1{newline}"
    back = TOML.put_back(edited, text, Hunk.between(text, new), list(servers), "hooksdk")
    assert TOML.read(back) == {**TOML.read(text), "mine": {"a": 1}}


def test_only_the_tables_of_servers_leave_codexs_settings() -> None:
    new = TOML.replace(CONFIG, ["git", "two words"], "hooksdk", GATEWAY)
    assert (
        new
        == """# Codex
model = "gpt-5" # which

# the repository
[mcp_servers.hooksdk]
command = "/opt/venv/bin/python"
args = ["-m", "hooksdk", "gateway"]

# how it looks
[tui]
theme = "dark"


[history]
persistence = "none"
"""
    )


def test_tables_come_back_around_an_edit_between_them() -> None:
    new = TOML.replace(CONFIG, ["git", "two words"], "hooksdk", GATEWAY)
    edited = new.replace('theme = "dark"', 'theme = "light" # mine').replace("/opt/venv", "/opt/other")
    back = TOML.put_back(edited, CONFIG, Hunk.between(CONFIG, new), ["git", "two words"], "hooksdk")
    assert TOML.servers(back) == TOML.servers(CONFIG)
    assert all(
        line in back
        for line in ('theme = "light" # mine', "# how it looks", 'args = ["-r", # where', "# the repository")
    )


@pytest.mark.parametrize(
    "text",
    [
        '[mcp_servers]\ngit = {command = "git"}\ntime.command = "t"\n\n[tui]\na = 1\n',
        '[mcp_servers]\n# all\n[mcp_servers.git]\ncommand = "git"\n',
        'mcp_servers.git.command = "git"\nmodel = "x"\n[tui]\na = 1\n',
    ],
)
def test_servers_come_back_however_toml_writes_them(text: str) -> None:
    taken = list(TOML.servers(text))
    new = TOML.replace(text, taken, "hooksdk", GATEWAY)
    edited = new.replace("-m", "-x").replace("a = 1", "a = 2")
    back = TOML.put_back(edited, text, Hunk.between(text, new), taken, "hooksdk")
    assert TOML.read(back) == TOML.read(text.replace("a = 1", "a = 2"))


def test_servers_in_one_value_of_which_some_stay_are_refused() -> None:
    text = 'mcp_servers = {a = {command = "a"}, b = {command = "b"}}\n'
    with pytest.raises(ConfigError, match=r"written as one value; write a table \[mcp_servers.NAME\] for each"):
        TOML.replace(text, ["a"], "hooksdk", GATEWAY)
