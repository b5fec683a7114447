"""The corpus of attacks: data that anybody can add to, filled with what somebody allows and denies."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from builtin_plugins.tool_policy import ToolPolicy
from hooksdk import Tool
from hooksdk.errors import ConfigError, WrongArgument
from hooksdk.hooks import BeforeToolCall
from hooksdk.testing import attacks, event, make_workspace

FILE = """
origin = "a stranger"

[[attacks]]
kind = "command"
reaches = "denied"
about = "a trap"
values = ["trap '<denied> x' EXIT", ["<allowed>", "<denied|1:>"], { "<denied>" = "<denied|upper>" }, 5, "<b>"]
"""


def written(folder: Path, text: str) -> Path:
    file = folder / "cases.toml"
    file.write_text(text)
    return file


def test_placeholders_are_filled_in_texts_lists_and_objects_and_all_else_stays(tmp_path: Path):
    own = attacks("command", allowed="git", denied="curl")
    all_of_them = attacks("command", allowed="git", denied="curl", files=[written(tmp_path, FILE)])
    strangers = all_of_them[len(own) :]
    assert [one.value for one in strangers] == ["trap 'curl x' EXIT", ["git", "url"], {"curl": "CURL"}, "<b>"]
    assert all_of_them[: len(own)] == own, "5 is an attack of hooksdk's own already"
    assert {one.origin for one in strangers} == {"a stranger"}
    assert {one.origin for one in own} == {"hooksdk"}


@pytest.mark.parametrize(
    ("form", "text", "filled"),
    [
        ("upper", "rm", "RM"),
        ("1:2", "/etc", "e"),
        (":-1", "rm", "r"),
        ("1:2|percent", "/etc", "%65"),
        ("quoted", "/etc/x", "%2Fetc%2Fx"),
        ("folder", "/etc/passwd", "/etc"),
        ("folder", "/etc", "/"),
        ("name", "/etc/passwd", "passwd"),
        ("backslashes", "/etc/x", "\\etc\\x"),
        ("wide", "e", "\uff45"),
        ("cyrillic", "paypal", "\u0440\u0430\u0443\u0440\u0430l"),
        ("ideographic", "a.b", "a\u3002b"),
        ("hyphens", "read_file", "read-file"),
        ("camel", "read_file", "readFile"),
        ("word", "git push x", "git"),
        ("rest", "git push x", " push x"),
        ("rest", "git", ""),
        ("commas", "git push x", "git,push,x"),
        ("decimal", "127.0.0.1", "2130706433"),
        ("hex", "127.0.0.1", "0x7f000001"),
        ("octal", "127.0.0.1", "017700000001"),
        ("octal-first", "127.0.0.1", "0177.0.0.1"),
        ("hex-first", "127.0.0.1", "0x7f.1"),
        ("short", "127.0.0.1", "127.1"),
        ("groups", "127.0.0.1", "7f00:1"),
        ("wide-digits", "1.2", "\uff11.\uff12"),
    ],
)
def test_a_form_of_a_placeholder_bends_what_is_filled_in(form: str, text: str, filled: str, tmp_path: Path):
    file = written(tmp_path, FILE.replace("trap '<denied> x' EXIT", f"it is <denied|{form}>"))
    assert f"it is {filled}" in [one.value for one in attacks("command", denied=text, files=[file])]


@pytest.mark.parametrize("denied", ["rm", "x", "a b", "git push", "kubectl delete", "docker compose down"])
def test_no_line_gets_past_a_rule_that_denies_one_word_or_several(denied: str):
    rules = [{"action": "deny", "tools": "bash", "command": denied}]
    policy = ToolPolicy(ToolPolicy.Config.model_validate({"rules": rules}))
    bash = Tool(
        name="bash", source="host", parameters={"type": "object", "properties": {"command": {"type": "string"}}}
    )
    for attack in attacks("command", allowed="ls", denied=denied):
        if attack.reaches == "denied" and isinstance(attack.value, str):
            call = event(BeforeToolCall, tool=bash, arguments={"command": attack.value})
            assert policy.judge(call) is not None, attack.value


def test_spellings_of_numbers_are_left_out_where_a_name_is_denied():
    spellings = {one.about for one in attacks("host", allowed="a.example", denied="127.0.0.1")}
    by_name = attacks("host", allowed="a.example", denied="b.example")
    assert "an IPv4 address in another spelling" in spellings
    assert len(by_name) < len(attacks("host", allowed="a.example", denied="127.0.0.1"))


def test_links_are_attacked_only_in_a_folder_that_has_them(tmp_path: Path):
    workspace = make_workspace(tmp_path / "w", "/etc/passwd")
    with_links = attacks("path", allowed=str(workspace), denied="/etc/passwd", links=True)
    without = attacks("path", allowed=str(workspace), denied="/etc/passwd")
    leading_out = [one.value for one in with_links if one not in without]
    assert f"{workspace}/away/passwd" in leading_out
    assert Path(f"{workspace}/away/passwd").resolve() == Path("/etc/passwd").resolve()


def test_every_attack_of_the_project_says_what_it_tries_and_reaches():
    kinds: list[Any] = ["command", "path", "host", "call", "name", "description"]
    for kind in kinds:
        own = attacks(kind, allowed="a.example", denied="127.0.0.1", server="files", links=True)
        assert len(own) >= 8
        assert all(one.about and one.origin == "hooksdk" and one.reaches in {"denied", "elsewhere"} for one in own)


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ('kind = "command"', 'kind = "comand"', "kind"),
        ('origin = "a stranger"', "", "origin"),
        ("about =", "abuot =", "abuot"),
        ("<denied> x", "<denid> x", "Did you mean 'denied'?"),
        ("<denied|upper>", "<denied|uper>", "Did you mean 'upper'?"),
        ("<denied|1:>", "<denied|a:>", "It is a slice such as 1:, or one of upper"),
        ("values = [", "values = ", "it is no TOML"),
    ],
)
def test_a_wrong_file_is_named_with_what_is_wrong(old: str, new: str, problem: str, tmp_path: Path):
    file = written(tmp_path, FILE.replace(old, new))
    with pytest.raises(ConfigError) as caught:
        attacks("command", files=[file])
    assert str(file) in str(caught.value)
    assert problem in str(caught.value)


def test_a_file_that_is_not_there_is_named(tmp_path: Path):
    with pytest.raises(ConfigError, match=r"none\.toml: No such file"):
        attacks("command", files=[tmp_path / "none.toml"])


def test_a_kind_that_there_is_not_is_refused():
    with pytest.raises(WrongArgument, match="command, path, host"):
        attacks("shell")  # pyright: ignore[reportArgumentType]
