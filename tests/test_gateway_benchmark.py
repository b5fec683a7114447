"""The figures of hooksdk's gateway in docs/benchmarks.md that are no times: what its benchmark computes today, without the
gateway's process and without the other gateways."""

from __future__ import annotations

import importlib.metadata
import io
import json
import os
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

import anyio
import pytest
from pages import table

pytest.importorskip("mcp", reason="needs the extra `mcp`")

from mcp import Client
from rich.console import Console

from hooksdk.cli._gateway.serve import GatewayProject, ServeOptions
from hooksdk.gateway import Gateway

sys.path.append(str(Path(__file__).parents[1] / "benchmarks"))
bench = import_module("gateway")
(OURS,) = (one for one in bench.GATEWAYS if one.name == "hooksdk")

pytestmark = [pytest.mark.heavy, pytest.mark.anyio]


def cell(row: str) -> str:
    """What the page says of hooksdk."""
    return next(cells[1] for cells in table("benchmarks.md", "", "hooksdk", "fastmcp 4.1.2") if cells[0] == row)


@asynccontextmanager
async def standing(folder: Path, servers: Any) -> AsyncGenerator[Client]:
    """A client of the gateway as the benchmark configures it, once all servers have answered."""
    OURS.start(folder, folder, servers)  # writes its files; the process is not needed
    options = ServeOptions(config=(folder / "mcp.json",), project=folder)
    project = GatewayProject(options, Console(file=io.StringIO()))
    project.gateway = Gateway(project.host, project, folder=folder)
    async with anyio.create_task_group() as group:
        await project.start(group)
        async with project.servers, project.gateway:
            await project.servers.ready()
            async with Client(project.gateway.server(), mode="legacy") as client:
                yield client
        group.cancel_scope.cancel()


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name, folder in (("HOME", "."), ("XDG_STATE_HOME", "state"), ("XDG_CONFIG_HOME", "config")):
        monkeypatch.setenv(name, str(tmp_path / folder))
    monkeypatch.delenv("HOOKSDK_HOME", raising=False)
    return tmp_path


@pytest.fixture
def programs() -> Path:
    """Where the servers' programs are, in the versions that the page was measured with."""
    for requirement in bench.SERVERS:
        name, _, version = requirement.partition("==")
        try:
            installed = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            installed = "not there"
        if installed != version:
            pytest.skip(f"needs {requirement}, which is {installed}")
    return Path(sys.executable).parent


async def test_the_page_says_what_is_listed_and_read_of_four_servers(home: Path, programs: Path) -> None:
    async with standing(home, bench.entries(programs, "git", "time", "excel", "faulty")) as client:
        assert bench.sizes(await bench.listed(client)) == cell("tools and bytes listed, 65 tools")
        way = await bench.way_to(client, OURS, "excel", "read_range", "read cells of a worksheet")
    assert bench.cold(way) == cell("calls to a cold tool, and bytes read before it")


async def test_the_page_says_what_is_listed_and_read_of_1860_tools(home: Path, programs: Path) -> None:
    catalog = home / "catalog.json"
    catalog.write_text(json.dumps(bench.many_tools(bench.CATALOGS)), "utf-8")
    many: dict[str, Any] = {
        "command": sys.executable,
        "args": [os.fspath(bench.HERE / "catalog_server.py"), str(catalog)],
    }
    async with standing(home, {"catalog": many, **bench.entries(programs, "time")}) as client:
        assert bench.sizes(await bench.listed(client)) == cell("the same, 1,860 tools")
        way = await bench.way_to(client, OURS, "catalog", "bing_search", "search the web with bing")
    assert bench.cold(way) == cell("the same among 1,860")
