"""Values for the tools that may have them, and results without text that looks like a secret."""

from __future__ import annotations

import base64
import hashlib
import json
import logging
import os
import sys
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest

from hooksdk import Tool, ToolResult
from hooksdk.errors import ConfigError
from hooksdk.stores import SqlStore
from hooksdk.testing import open_host
from tests.hooksdk.tables import text_in
from tests.stage import Stage, make, playing

pytestmark = pytest.mark.anyio

ROOT = Path(__file__).parents[2]
VALUE = "hunter2-password"


@pytest.fixture(autouse=True)
def _rule_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    """Compiling Kingfisher's rules takes seconds; it keeps them where every run of the tests finds them."""
    monkeypatch.setenv("KF_RULE_CACHE_DIR", str(ROOT / ".pytest_cache" / "kingfisher"))


@pytest.fixture(autouse=True)
def _in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def settings(redact: bool = False, **config: Any) -> dict[str, Any]:
    return {"plugins": {"secrets": {"config": {"redact": redact, **config}}}}


def secret(**source: Any) -> dict[str, Any]:
    """The configuration with one secret, KEY, for all tools unless others are given."""
    return settings(secrets={"KEY": {"tools": "*", **source}})


def echo(arguments: dict[str, Any]) -> str:
    got.append(arguments["key"])
    return f"used {arguments['key']}"


got: list[str] = []


@pytest.fixture(autouse=True)
def _nothing_yet() -> None:
    got.clear()


ECHO = make("echo", echo, properties={})
POST = make("http_post", echo, properties={})


async def ask(config: dict[str, Any], name: str = "KEY", tool: str = "echo") -> str:
    """What the model reads when it calls a tool with the placeholder."""
    async with playing("secrets", tools=[ECHO, POST], config=config) as stage:
        return (await stage.call(tool, {"key": f"{{{{secret:{name}}}}}"})).text


# Who may have a value


async def test_a_tool_of_the_patterns_gets_the_value_and_its_result_the_placeholder(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("KEY", VALUE)
    assert await ask(secret(**{"from": "env", "tools": ["host:*:echo"]})) == "used {{secret:KEY}}"
    assert got == [VALUE]


async def test_another_tool_reads_the_same_as_of_a_name_that_nobody_knows(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("KEY", VALUE)
    config = secret(**{"from": "env", "tools": ["echo"]})
    refused = await ask(config, tool="http_post")
    assert refused == "Blocked: no plugin gives a value for KEY"
    assert await ask(config, name="OTHER") == refused.replace("KEY", "OTHER")
    assert "secrets: KEY is not for host:core:http_post, whose call asked for it" in caplog.text
    assert got == []


async def test_the_patterns_count_as_they_are_written(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KEY", VALUE)
    near = ["Echo", "host:Core:*", "HTTPPost", "http-post"]
    assert (await ask(secret(**{"from": "env", "tools": near}))).startswith("Blocked")
    assert (await ask(secret(**{"from": "env", "tools": near}), tool="http_post")).startswith("Blocked")
    assert got == []


async def test_a_call_that_asks_for_two_gets_none_unless_it_may_have_both(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("A", VALUE)
    monkeypatch.setenv("B", VALUE)
    sources = {"A": {"from": "env", "tools": ["*"]}, "B": {"from": "env", "tools": ["mcp:github:*"]}}
    assert await ask(settings(secrets=sources), name="A}} {{secret:B") == "Blocked: no plugin gives a value for B"
    assert got == []


async def test_patterns_are_required_and_checked_and_may_fit_nothing() -> None:
    with pytest.raises(ConfigError, match=r"secrets\.KEY\.env\.tools.*required"):
        await ask(settings(secrets={"KEY": {"from": "env"}}))
    with pytest.raises(ConfigError, match="looks like a regular expression"):
        await ask(secret(**{"from": "env", "tools": "a|b"}))
    with pytest.raises(ConfigError, match="'env', 'file', 'keyring', 'function'"):
        await ask(secret(**{"from": "vault"}))
    assert (await ask(secret(**{"from": "env", "tools": []}))).startswith("Blocked")


async def test_the_plugin_is_off_unless_it_is_configured() -> None:
    async with open_host() as host:
        (plugin,) = [plugin for plugin in host.plugins if plugin.id == "secrets"]
        assert not plugin.loaded


# Who asks


@pytest.mark.parametrize(
    ("who", "value"), [({"id": "ann"}, "of-ann"), ({"id": "bob"}, "of-bob"), ({"id": "eve"}, None), ({"id": 7}, None), (None, None)]
)  # fmt: skip
async def test_each_requester_has_the_value_that_is_named_for_them_and_nobody_else_has_one(
    who: dict[str, Any] | None, value: str | None, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    for name in ("ann", "bob", "all"):
        monkeypatch.setenv(f"KEY_OF_{name.upper()}", f"of-{name}")
    named = {"ann": "KEY_OF_ANN", "bob": "KEY_OF_BOB"}
    config = secret(**{"from": "env", "variable": "KEY_OF_ALL", "requesters": named})
    async with playing("secrets", tools=[ECHO], config=config, requester=who) as stage:
        said = (await stage.call("echo", {"key": "{{secret:KEY}}"})).text
    assert got == ([] if value is None else [value])
    assert ("no plugin gives a value for KEY" in said, "has none for" in caplog.text) == (value is None, value is None)


async def test_a_requester_has_an_entry_of_a_file_too(tmp_path: Path) -> None:
    (tmp_path / "keys.toml").write_text('[ann]\nkey = "of-ann"\n')
    config = secret(**{"from": "file", "path": "keys.toml", "requesters": {"ann": "ann.key"}})
    async with playing("secrets", tools=[ECHO], config=config, requester={"id": "ann"}) as stage:
        await stage.call("echo", {"key": "{{secret:KEY}}"})
    assert got == ["of-ann"]


# Where a value comes from


async def test_a_variable_is_read_when_it_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    config = secret(**{"from": "env", "variable": "MY_KEY"})
    async with playing("secrets", tools=[ECHO], config=config) as stage:
        for value in (VALUE, "rotated-since"):
            monkeypatch.setenv("MY_KEY", value)
            assert (await stage.call("echo", {"key": "{{secret:KEY}}"})).text == "used {{secret:KEY}}"
    assert got == [VALUE, "rotated-since"]


DOTENV = """\
# of the project
export KEY='hunter2-password'  # with a comment
OTHER="two\\nlines $KEY"
"""


@pytest.mark.parametrize(
    ("path", "content", "key", "value"),
    [
        (".env", DOTENV, None, VALUE),
        ("prod.env", DOTENV, "OTHER", "two\nlines $KEY"),
        ("keys.json", json.dumps({"KEY": VALUE}), None, VALUE),
        ("keys.json", json.dumps({"github": {"token": VALUE}}), "github.token", VALUE),
        ("keys.json", json.dumps({"github.token": VALUE}), "github.token", VALUE),
        ("keys.toml", f'[github]\ntoken = "{VALUE}"\n', "github.token", VALUE),
        ("keys.toml", f'\ufeffKEY = "{VALUE}"\n', None, VALUE),
    ],
)
async def test_a_file_in_the_folder_is_read_by_its_format(path: str, content: str, key: str | None, value: str) -> None:
    Path(path).write_text(content, encoding="utf-8")
    Path(path).chmod(0o600)
    await ask(secret(**{"from": "file", "path": path, **({"key": key} if key else {})}))
    assert got == [value]


async def test_a_path_counts_from_the_folder_in_which_the_host_was_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("keys.json").write_text(json.dumps({"KEY": VALUE}))
    (tmp_path / "below").mkdir()
    async with playing("secrets", tools=[ECHO], config=secret(**{"from": "file", "path": "keys.json"})) as stage:
        monkeypatch.chdir(tmp_path / "below")
        await stage.call("echo", {"key": "{{secret:KEY}}"})
    assert got == [VALUE]


@pytest.mark.parametrize(
    ("path", "content", "key", "problem"),
    [
        ("gone.json", None, "KEY", "gone.json cannot be read: No such file or directory"),
        ("bad.json", f'{{"KEY": "{VALUE}', "KEY", "bad.json is not valid JSON: JSONDecodeError"),
        ("bad.toml", f"KEY = {VALUE}", "KEY", "bad.toml is not valid TOML: TOMLDecodeError"),
        ("bad.json", b"\xff\xfe" + VALUE.encode(), "KEY", "bad.json is not valid JSON: UnicodeDecodeError"),
        ("deep.json", "[" * 100_000, "KEY", "deep.json is not valid JSON: RecursionError"),
        ("list.json", json.dumps([VALUE]), "KEY", "list.json is missing"),
        ("keys.json", json.dumps({"OTHER": VALUE}), "KEY", "'KEY' in "),
        ("keys.json", json.dumps({"a": {"b": [VALUE]}}), "a.b", "keys.json is no text: list"),
        ("keys.json", json.dumps({"a": VALUE}), "a.b.c", "keys.json is missing"),
        ("keys.json", json.dumps({"KEY": " \n"}), "KEY", "keys.json is empty"),
        (".env", "KEY\n", "KEY", ".env is missing"),
    ],
)
async def test_a_value_that_cannot_be_read_blocks_the_call_and_the_log_says_why_without_quoting(
    path: str, content: str | bytes | None, key: str, problem: str, caplog: pytest.LogCaptureFixture
) -> None:
    if content is not None:
        Path(path).write_bytes(content if isinstance(content, bytes) else content.encode())
    assert await ask(secret(**{"from": "file", "path": path, "key": key})) == "Blocked: no plugin gives a value for KEY"
    assert "secrets: there is no value for KEY: " in caplog.text
    assert problem in caplog.text
    assert "hunter2" not in caplog.text


@pytest.mark.skipif(sys.platform == "win32", reason="no such permissions there")
async def test_a_file_that_everybody_can_read_is_used_and_told_once(caplog: pytest.LogCaptureFixture) -> None:
    path = Path("keys.json")
    path.write_text(json.dumps({"KEY": VALUE}))
    path.chmod(0o644)
    async with playing("secrets", tools=[ECHO], config=secret(**{"from": "file", "path": "keys.json"})) as stage:
        for _ in range(2):
            await stage.call("echo", {"key": "{{secret:KEY}}"})
    assert got == [VALUE, VALUE]
    assert caplog.text.count(f"every user of this machine can read {path.absolute()}; type: chmod 600") == 1


async def test_a_missing_variable_says_its_name(caplog: pytest.LogCaptureFixture) -> None:
    assert (await ask(secret(**{"from": "env", "variable": "NO_SUCH"}))).startswith("Blocked")
    assert "there is no value for KEY: the environment variable NO_SUCH is missing" in caplog.text


@pytest.fixture
def entries() -> Iterator[dict[tuple[str, str], str]]:
    """The entries of a keyring that lives in memory."""
    import keyring
    from keyring.backend import KeyringBackend
    from keyring.errors import KeyringLocked

    kept: dict[tuple[str, str], str] = {}

    class InMemory(KeyringBackend):
        priority = 1  # pyright: ignore[reportAssignmentType, reportIncompatibleMethodOverride]

        def get_password(self, service: str, username: str) -> str | None:
            if service == "locked":
                raise KeyringLocked("the keyring is locked")
            return kept.get((service, username))

        def set_password(self, service: str, username: str, password: str) -> None:
            kept[service, username] = password

        def delete_password(self, service: str, username: str) -> None:
            del kept[service, username]

    before = keyring.get_keyring()
    keyring.set_keyring(InMemory())
    yield kept
    keyring.set_keyring(before)


@pytest.mark.heavy
async def test_the_keyring_is_asked_by_service_and_user(
    entries: dict[tuple[str, str], str], caplog: pytest.LogCaptureFixture
) -> None:
    entries["hooksdk", "KEY"], entries["github", "ann"] = VALUE, "another-value"
    await ask(secret(**{"from": "keyring"}))
    await ask(secret(**{"from": "keyring", "service": "github", "user": "ann"}))
    assert got == [VALUE, "another-value"]
    assert (await ask(secret(**{"from": "keyring", "user": "bob"}))).startswith("Blocked")
    assert "the keyring's entry of service 'hooksdk' and user 'bob' is missing" in caplog.text
    assert (await ask(secret(**{"from": "keyring", "service": "locked"}))).startswith("Blocked")
    assert "the keyring cannot be read: KeyringLocked: the keyring is locked" in caplog.text


@pytest.fixture
def vault(monkeypatch: pytest.MonkeyPatch) -> types.ModuleType:
    module: Any = types.ModuleType("my_vault")
    monkeypatch.setitem(sys.modules, "my_vault", module)
    return module


async def test_a_function_plain_or_async_is_called_with_the_name(vault: Any) -> None:
    async def later(name: str) -> str:
        await anyio.sleep(0)
        return f"{VALUE} of {name}"

    def plain(name: str) -> str:
        return f"{VALUE} of {name}"

    def wrapped(name: str) -> Any:
        return later(name)

    vault.plain, vault.later, vault.wrapped = plain, later, wrapped
    for function in ("plain", "later", "wrapped"):
        await ask(secret(**{"from": "function", "function": f"my_vault:{function}"}))
    assert got == [f"{VALUE} of KEY"] * 3


async def test_a_function_that_raises_or_answers_no_text_blocks_the_call_and_is_not_quoted(
    vault: Any, caplog: pytest.LogCaptureFixture
) -> None:
    def raises(name: str) -> str:
        raise ConnectionError(f"{VALUE} was refused")

    def wrong(_name: str) -> dict[str, str]:
        return {"KEY": VALUE}

    vault.raises, vault.wrong = raises, wrong
    for function in ("raises", "wrong"):
        answer = await ask(secret(**{"from": "function", "function": f"my_vault:{function}"}))
        assert answer == "Blocked: no plugin gives a value for KEY"
    assert "the answer of my_vault:raises for 'KEY' raised ConnectionError" in caplog.text
    assert "the answer of my_vault:wrong for 'KEY' is no text: dict" in caplog.text
    assert "hunter2" not in caplog.text


@pytest.mark.parametrize("function", ["no_such_module:f", "os:no_such_name", "os", ":", "os:path"])
async def test_a_function_that_cannot_be_loaded_is_a_configuration_error(function: str) -> None:
    with pytest.raises(ConfigError, match=r"cannot be loaded as package\.module:name|is no function"):
        await ask(secret(**{"from": "function", "function": function}))


@pytest.mark.parametrize(
    ("package", "config", "words"),
    [
        ("keyring", secret(**{"from": "keyring"}), "the package keyring, which is not installed"),
        ("dotenv", secret(**{"from": "file", "path": ".env"}), "the package python-dotenv, which is not installed"),
        ("kingfisher_sdk", settings(redact=True), "kingfisher-secret-scanner, which is not installed"),
    ],
)
async def test_a_package_that_is_missing_is_named_with_the_command_that_installs_it(
    package: str, config: dict[str, Any], words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, package, None)  # as Python itself marks what cannot be imported
    with pytest.raises(ConfigError) as caught:
        await ask(config)
    assert words in str(caught.value)
    assert "pip install 'hooksdk[secrets]'" in str(caught.value)


# Secret-shaped text in results


def token(number: int = 0) -> str:
    """Text of the shape of a service's token; it opens nothing."""
    letters = "abcdefghijkmnpqrstuvwxyzABCDEFGHJKLMNPQRSTUVWXYZ23456789"
    digest = hashlib.sha512(f"token {number}".encode()).digest()
    return "gl" + "pat-" + "".join(letters[byte % len(letters)] for byte in digest[:20])


PRIVATE_KEY = "\n".join([
    "-----BEGIN RSA " + "PRIVATE KEY-----",
    *[base64.b64encode(hashlib.sha384(bytes([n])).digest()).decode() for n in range(24)],
    "-----END RSA " + "PRIVATE KEY-----",
])  # fmt: skip


async def answering(result: Any, stage_config: dict[str, Any] | None = None, **options: Any) -> Stage:
    """A run in which a tool answered this, after it has ended."""

    def answer(_arguments: dict[str, Any]) -> Any:
        return result

    config = stage_config or settings(redact=True)
    async with playing("secrets", tools=[make("answer", answer, properties={})], config=config, **options) as stage:
        last.append(await stage.call("answer"))
        await stage.observed()
        return stage


last: list[ToolResult] = []


async def redacted(result: Any, **config: Any) -> ToolResult:
    await answering(result, settings(redact=True, **config))
    return last[-1]


PASSWORD = token(3)[6:]
IN_BASE64 = base64.b64encode(f"user:{token()}".encode()).decode()


@pytest.mark.parametrize(
    ("text", "secret_text", "rule"),
    [
        (f"the token is {token()}!", token(), "gitlab-pat"),
        (f"ключ 🔑 {token()} é", token(), "gitlab-pat"),
        (f"\ufeff{token()}", token(), "gitlab-pat"),
        (f"\ud800 {token()}", token(), "gitlab-pat"),
        (f"x\n{PRIVATE_KEY}\ny", PRIVATE_KEY, "private-key"),
        (f"Authorization: Basic {IN_BASE64} and so on", IN_BASE64, "gitlab-pat"),
        (f"postgres://admin:{PASSWORD}@db.internal:5432/app", PASSWORD, "generic-credential-uri"),
    ],
    ids=["prose", "unicode", "byte-order-mark", "surrogate", "private-key", "base64", "address"],
)
async def test_secret_shaped_text_is_replaced_and_the_rest_stays(text: str, secret_text: str, rule: str) -> None:
    assert (await redacted(text)).text == text.replace(secret_text, f"[redacted: {rule}]")


async def test_structured_form_and_blocks_keep_their_shape() -> None:
    image = {"type": "image", "data": "AAAA", "mimeType": "image/png"}
    result = await redacted(
        ToolResult(
            blocks=[
                {"type": "text", "text": f"it is {token()}"},
                image,
                {"type": "resource", "resource": {"uri": token(1)}},
            ],
            structured={"a": [{"token": token(), "n": 3, "none": None}], token(2): True},
            is_error=True,
        )
    )
    cut = "[redacted: gitlab-pat]"
    assert result.text == f"it is {cut}"
    assert result.blocks == [
        {"type": "text", "text": f"it is {cut}"}, image, {"type": "resource", "resource": {"uri": cut}}
    ]  # fmt: skip
    assert result.structured == {"a": [{"token": cut, "n": 3, "none": None}], cut: True}
    assert result.is_error


async def test_a_clean_result_is_the_very_same() -> None:
    text = "commit 1f3870be274f6c49b3e31a0c6728957f, sha256-47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=, key: value\n"
    stage = await answering(ToolResult(text, structured={"id": "3f2504e0-4f89-11d3-9a0c-0305e82c3301"}))
    assert (last[-1].text, last[-1].structured) == (text, {"id": "3f2504e0-4f89-11d3-9a0c-0305e82c3301"})
    assert stage.run.stats["counters"] == {}


async def test_neither_the_stored_files_nor_the_log_hold_what_was_redacted(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    stage = await answering(f"{token()} and {token(1)}", store=SqlStore(tmp_path / "s"))
    stored = text_in(tmp_path / "s")
    assert "[redacted: gitlab-pat] and [redacted: gitlab-pat]" in stored
    assert stage.run.stats["counters"] == {"secrets_redacted": 2}
    assert "secrets: redacted in a result of host:core:answer: 2 gitlab-pat" in caplog.text
    for each in (token(), token(1)):
        assert each not in stored + caplog.text


async def test_what_the_allow_list_names_stays() -> None:
    text = f"{token()} {token(1)} {token(2)}"
    digest = hashlib.sha256(token(1).encode()).hexdigest()
    result = await redacted(text, allow=[f"sha256:{digest}", f"{token(2)[:10]}.*"])
    assert result.text == f"[redacted: gitlab-pat] {token(1)} {token(2)}"


@pytest.mark.parametrize("entry", ["(", "sha256:abc", "sha256:" + "G" * 64])
async def test_an_allow_list_that_cannot_be_read_is_a_configuration_error(entry: str) -> None:
    with pytest.raises(ConfigError, match=r"is no regular expression|64 hex digits"):
        await redacted("", allow=[entry])


async def test_a_comment_in_the_text_switches_nothing_off() -> None:
    text = f'token = "{token()}"  # kingfisher:ignore gitleaks:allow pragma: allowlist secret'
    assert token() not in (await redacted(text)).text


@pytest.mark.both_loops
async def test_results_of_megabytes_are_searched_beside_the_event_loop() -> None:
    ticks = 0
    line = "2026-01-02T03:04:05Z INFO request served in 12 ms by worker 7, status 200\n"
    text = line * 40_000 + f"{token()}\n" + line * 10

    def answer(_arguments: dict[str, Any]) -> str:
        return text

    async def tick() -> None:
        nonlocal ticks
        while True:
            await anyio.sleep(0)
            ticks += 1

    tools: list[Tool] = [make("answer", answer, properties={})]
    async with (
        playing("secrets", tools=tools, config=settings(redact=True)) as stage,
        anyio.create_task_group() as group,
    ):
        group.start_soon(tick)
        last.append(await stage.call("answer"))
        group.cancel_scope.cancel()
    assert ticks > 1
    assert token() not in last[-1].text
    assert len(last[-1].text) == len(text) - len(token()) + len("[redacted: gitlab-pat]")


async def test_thousands_of_tokens_in_one_result_are_all_replaced() -> None:
    text = " ".join(token(n) for n in range(5000))
    assert (await redacted(text)).text == " ".join(["[redacted: gitlab-pat]"] * 5000)


@pytest.mark.both_loops
async def test_calls_side_by_side_are_searched_by_one_scanner() -> None:
    def answer(arguments: dict[str, Any]) -> str:
        return f"{arguments['n']} {token(arguments['n'])} " + "x" * 60_000

    tools = [make("answer", answer, properties={})]
    async with playing("secrets", tools=tools, config=settings(redact=True)) as stage:
        results = await stage.call_all([("answer", {"n": n}) for n in range(20)])
    assert [result.text for result in results] == [f"{n} [redacted: gitlab-pat] " + "x" * 60_000 for n in range(20)]


async def test_without_redact_results_stay_as_they_are() -> None:
    await answering(token(), settings())
    assert last[-1].text == token()


async def test_no_environment_is_read_for_names_that_nobody_configured() -> None:
    assert "PATH" in os.environ
    assert await ask(settings(), name="PATH") == "Blocked: no plugin gives a value for PATH"
