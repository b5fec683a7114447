"""Settings that are wrong keep the host from starting, and say what to do."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from play_cell import settings

from hooksdk.errors import ConfigError
from hooksdk.testing import open_host, open_session
from padded_cell import PaddedCell

pytestmark = pytest.mark.anyio


async def problem(**config: Any) -> str:
    """What the host says of these settings."""
    with pytest.raises(ConfigError) as caught:
        async with open_host(PaddedCell, config=settings(**config)):
            raise AssertionError
    return str(caught.value)


async def test_a_secret_manager_must_be_there_and_be_executable(tmp_path: Path) -> None:
    plain = tmp_path / "a manager"
    plain.write_text("#!/bin/sh\n")
    assert f"there is no file {tmp_path / 'gone'}" in await problem(secretMgrPath=str(tmp_path / "gone"))
    assert f"there is no file {tmp_path}" in await problem(secretMgrPath=str(tmp_path))
    assert "is not an absolute path" in await problem(secretMgrPath="pass_mgr")
    assert f"is not executable. Try: chmod +x '{plain}'" in await problem(secretMgrPath=str(plain))


async def test_a_path_may_begin_with_the_home(manager: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(manager.parent))
    async with open_host(PaddedCell, config=settings(secretMgrPath="~/pass_mgr")):
        pass


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("ONE=1\nnot a line swordfish\n", "line 2 is not NAME=value"),
        ("1A=swordfish", "line 1 is not NAME=value"),
        ("A='swordfish", "line 1: a quote is not closed"),
    ],
)
async def test_a_profile_names_the_line_that_is_wrong_and_quotes_nothing(text: str, words: str, tmp_path: Path) -> None:
    profile = tmp_path / "profile"
    profile.write_text(text)
    message = await problem(openclawProfilePath=str(profile))
    assert f"{profile}, {words}" in message
    assert "swordfish" not in message


async def test_a_profile_must_be_there_and_be_text(tmp_path: Path) -> None:
    (tmp_path / "binary").write_bytes(b"\xff\xfe")
    assert "cannot be read: No such file" in await problem(openclawProfilePath=str(tmp_path / "gone"))
    assert "is not UTF-8 text" in await problem(openclawProfilePath=str(tmp_path / "binary"))


@pytest.mark.parametrize(
    ("entry", "words"),
    [
        ("ftp://proxy:21", "its scheme is not one of http, https"),
        ("http://proxy", "it names no port"),
        ("http://proxy:99999", "Port out of range"),
        ("http://proxy:80/path", "it is not written as scheme://host:port"),
        ("http://:80", "it is not written as scheme://host:port"),
        ("", "it is not written as scheme://host:port"),
        ("http://proxy.test\\@evil:80", "it is not written as scheme://host:port"),
    ],
)
async def test_an_entry_that_is_no_proxy_says_what_is_wrong(entry: str, words: str) -> None:
    message = await problem(proxyAllowlist=["proxy:3128", entry])
    assert "proxyAllowlist" in message
    assert words in message


async def test_a_login_in_the_list_is_refused_and_not_repeated() -> None:
    message = await problem(proxyAllowlist=["http://ann:swordfish@proxy:3128"])
    assert "http://{{secret:NAME}}@proxy:3128" in message
    assert "swordfish" not in message


async def test_an_unknown_setting_is_an_error() -> None:
    assert "secretMgrPath" in await problem(secretMgrPaht="/x")


@pytest.mark.parametrize(("enabled", "expected"), [(True, 3), (False, 0)])
async def test_enabled_false_withholds_the_tools(enabled: bool, expected: int) -> None:
    async with open_session(PaddedCell, config=settings(enabled=enabled)) as session, session.run() as run:
        assert len(await run.resolve_tools()) == expected
