"""Secrets: who is asked, who gets them, and where they read as their placeholder again."""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from play_cell import pcexec, settings, shell, stdout, use

from hooksdk import Tool, hooks
from hooksdk.hooks import AfterToolCall, ResolveSecrets, Secrets
from hooksdk.testing import call, open_session, play
from padded_cell import PaddedCell
from padded_cell._process import SHOWN, Output

pytestmark = pytest.mark.anyio
TOKEN = "swordfish-4711-azure"
ODD = 'it\'s a "secret"; rm -rf $HOME  # two  blanks'


@pytest.fixture
def config(manager: Path) -> dict[str, str]:
    return {"secretMgrPath": str(manager)}


def requests_to(manager: Path) -> Sequence[str]:
    log = Path(f"{manager}.log")
    return log.read_text().splitlines() if log.exists() else []


@pytest.mark.parametrize(("name", "value"), [("TOKEN", TOKEN), ("ODD", ODD), ("KEY", "first line\nsecond line")])
async def test_a_secret_reaches_the_command_by_argument_environment_and_input(
    name: str, value: str, config: Any, tmp_path: Path
) -> None:
    place = f"{{{{secret:{name}}}}}"
    script = 'printf %s "$1" > argument; printf %s "$SECRET" > variable; cat > input'
    command = ["sh", "-c", script, "sh", place]
    event = await use("pcexec", command=command, env={"SECRET": place}, input=place, workspace=tmp_path, config=config)
    assert event.status == "ok"
    assert [(tmp_path / file).read_text() for file in ("argument", "variable", "input")] == [value] * 3


@pytest.mark.parametrize(
    "command",
    [
        'printf %s "$S"; printf %s "$S" >&2',
        'echo "before $S after"',
        'printf %s "$S" | base64 -w0',
        'echo "https://x.test/?key=$S"',
        'echo "$S$S$S"',
        'exec /nowhere/"$S"',
        'printf "%s" "$S" | sed "s/^/> /"',
    ],
)
async def test_a_secret_in_the_output_reads_as_its_placeholder(command: str, config: Any) -> None:
    event = await shell(command, env={"S": "{{secret:TOKEN}}"}, config=config)
    whole = event.result.text + json.dumps(event.result.structured)
    assert "{{secret:TOKEN}}" in whole
    for form in (TOKEN, base64.b64encode(TOKEN.encode()).decode(), quote(TOKEN)):
        assert form not in whole


async def test_a_secret_of_several_lines_is_recognised_whole(config: Any) -> None:
    event = await shell('echo "[$S]"', env={"S": "{{secret:KEY}}"}, config=config)
    assert stdout(event) == "[{{secret:KEY}}]\n"


async def test_the_name_of_a_missing_program_shows_no_secret(config: Any) -> None:
    event = await pcexec("{{secret:TOKEN}}", config=config)
    assert event.result.text == "Nothing was run: there is no program '{{secret:TOKEN}}'."


@pytest.mark.parametrize("length", [2 * SHOWN, 800_000])
def test_no_cut_through_a_long_output_shows_a_part_of_a_secret(length: int) -> None:
    def mask(text: str) -> str:
        return text.replace(TOKEN, "#")

    for position in range(SHOWN // 2 - len(TOKEN), SHOWN // 2 + 1):
        beginning, end = b"." * position + TOKEN.encode(), TOKEN.encode() + b"." * position
        output = Output()
        output.add(beginning + b"." * (length - len(beginning) - len(end)) + end)
        head, _, tail = output.text(mask).partition("\n[... the middle of ")
        assert set(head) | set(tail.partition("]\n")[2]) <= {".", "#"}


def test_an_output_full_of_secrets_is_cut_between_them() -> None:
    output = Output()
    for _ in range(40_000):
        output.add(TOKEN.encode())
    text = output.text(lambda text: text.replace(TOKEN, "#"))
    head, _, rest = text.partition("\n[")
    assert set(head) == {"#"}
    assert set(rest.rpartition("]\n")[2]) == {"#"}


# What is refused


@pytest.mark.parametrize("command", ["curl -u {{secret:TOKEN}} x.test", "echo {{ secret:TOKEN }}"])
@pytest.mark.parametrize("tool", ["pcexec", "proxy-pcexec"])
@pytest.mark.parametrize("is_shell", [True, False])
async def test_a_secret_in_a_string_is_refused_with_the_way_to_do_it(
    tool: str, command: str, is_shell: bool, config: Any, manager: Path
) -> None:
    event = await use(tool, command=command, shell=is_shell, config=config)
    assert event.status == "blocked"
    assert "Give `command` as a list, or put the placeholder into `env`" in event.result.text
    assert requests_to(manager) == []


@pytest.mark.parametrize("name", ["UNKNOWN", "EMPTY"])
async def test_a_secret_that_the_manager_does_not_have_keeps_the_command_from_running(name: str, config: Any) -> None:
    event = await pcexec("echo", "{{secret:TOKEN}}", f"{{{{secret:{name}}}}}", config=config)
    assert (event.status, event.result.text) == ("blocked", f"Blocked: no plugin gives a value for {name}")


async def test_a_name_that_reads_like_an_option_is_never_asked_for(config: Any, manager: Path) -> None:
    event = await pcexec("echo", "{{secret:--help}}", "{{secret:TOKEN}}", config=config)
    assert event.result.text == "Blocked: no plugin gives a value for --help"
    assert requests_to(manager) == ["get TOKEN"]


@pytest.mark.parametrize("name", ["SLOW", "LONG", "BYTES"])
async def test_a_manager_that_misbehaves_blocks_the_call_and_quotes_nothing(
    name: str, config: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("padded_cell.SECRET_SECONDS", 0.3 if name == "SLOW" else 10.0)
    event = await pcexec("echo", f"{{{{secret:{name}}}}}", config=config)
    assert event.status == "blocked"
    assert event.result.text.startswith("Blocked: plugin 'padded-cell' failed")
    assert "the secret manager" in caplog.text
    assert "xxxx" not in event.result.text + caplog.text


async def test_a_manager_that_is_gone_blocks_the_call(config: Any, manager: Path) -> None:
    async with open_session(PaddedCell, config=settings(**config)) as session:
        manager.unlink()
        played = await play(session, [call("pcexec", command=["echo", "{{secret:TOKEN}}"]), "Oh."])
    assert played.call("pcexec").status == "blocked"


async def test_no_other_tool_gets_a_secret_from_this_manager(config: Any, manager: Path) -> None:
    async def post(arguments: dict[str, Any]) -> str:
        raise AssertionError

    text = {"type": "object", "properties": {"text": {"type": "string"}}}
    tools = [Tool(name="post-pcexec", source="host", owner="test", parameters=text, execute=post)]
    event = await use("post-pcexec", text="{{secret:TOKEN}}", tools=tools, config=config)
    assert event.status == "blocked"
    assert requests_to(manager) == []


class Vault:
    """Another plugin with secrets."""

    @hooks.resolve_secrets
    def give(self, event: ResolveSecrets) -> Secrets:
        return Secrets(dict.fromkeys(event.names, "from the vault"))


@pytest.mark.parametrize(("name", "with_manager"), [("TOKEN", False), ("UNKNOWN", True)])
async def test_what_this_manager_does_not_know_another_plugin_may_give(
    name: str, with_manager: bool, config: Any
) -> None:
    event: AfterToolCall = await use(
        "pcexec", Vault, command=["sh", "-c", 'test "$1" = "from the vault"', "sh", f"{{{{secret:{name}}}}}"],
        config=config if with_manager else {},
    )  # fmt: skip
    assert event.status == "ok"
