"""The example package `examples/padded_cell`, installed by pip and enabled as an operator would."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

from hooksdk.manifest import read_manifest

pytestmark = pytest.mark.heavy

EXAMPLE = Path(__file__).parents[1] / "examples" / "padded_cell"
MANIFEST = (
    '{"id": "padded-cell", "name": "PaddedCell", "description": "...", "activation": {"onStartup": true}, '
    '"contracts": {"tools": ["pcexec", "proxy-pcexec", "safe_restart", "trim-tool-result", "list-tool-results"]}, '
    '"configSchema": {"type": "object", "properties": {"enabled": {"type": "boolean", "default": true}, '
    '"secretMgrPath": {"type": "string", "default": ""}, "openclawProfilePath": {"type": "string", "default": ""}, '
    '"proxyAllowlist": {"type": "array", "items": {"type": "string"}, "default": []}}}}'
)
"""As its authors wrote it."""
GRANTS = ["offer", "secrets"]
"""What the operator grants it."""
SCRIPT = """
    import json, sys
    import anyio
    from hooksdk import Host
    from hooksdk.agent import run_agent
    from hooksdk.testing import ScriptedModel, call

    async def main(config, workspace):
        script = [
            call("pcexec", command=["sh", "-c", 'echo "it is $TOKEN"; seq 500'], env={"TOKEN": "{{secret:TOKEN}}"}),
            call("proxy-pcexec", command='echo "$https_proxy"', shell=True),
            [call("list-tool-results"), call("trim-tool-result", id="r1", replacement="500 lines")],
            call("safe_restart", command=["touch", workspace + "/restarted"], reason="done"),
            "All done.",
        ]
        model = ScriptedModel(script)
        async with Host(config=config, folder=workspace) as host, host.session("a") as session:
            outcome = await run_agent(session, model, "Go on.", workspace_dir=workspace)
            (plugin,) = [one for one in host.plugins if one.id == "padded-cell"]
            results = [session.results.read(info.handle) for info in session.results.list()]
            trimmed = [info.handle for info in session.results.list() if info.trimmed]
        print(json.dumps({
            "origin": plugin.origin, "version": plugin.version, "tools": plugin.tools, "hooks": plugin.hooks,
            "file": sys.modules["padded_cell"].__file__, "text": outcome.text, "results": results, "trimmed": trimmed,
            "messages": session_text(model), "offered": [tool["function"]["name"] for tool in model.turns[0].tools],
        }))

    def session_text(model):
        return json.dumps([turn.messages for turn in model.turns])

    anyio.run(main, json.loads(sys.argv[1]), sys.argv[2])
"""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder into which pip has installed the package, without reaching for an index."""
    folder = tmp_path_factory.mktemp("site")
    command = [
        sys.executable,
        "-m",
        "pip",
        "install",
        "--quiet",
        "--disable-pip-version-check",
        "--no-index",
        "--no-deps",
    ]
    command += ["--no-build-isolation", "--target", str(folder), str(EXAMPLE)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return folder


@pytest.fixture(scope="module")
def report(site: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What a process of its own saw of the installed plugin: a run in which a model uses each of its tools."""
    workspace = tmp_path_factory.mktemp("workspace")
    manager = workspace / "pass_mgr"
    manager.write_text('#!/bin/sh\n[ "$*" = "get TOKEN" ] && echo swordfish-4711\n')
    manager.chmod(0o755)
    settings = {"secretMgrPath": str(manager), "proxyAllowlist": ["proxy.test:3128"]}
    config = {
        "allow": ["padded-cell", "tool_results"],
        "plugins": {"padded-cell": {"grants": GRANTS, "config": settings}, "tool_results": {}},
    }
    environment = {**os.environ, "PYTHONPATH": str(site), "XDG_RUNTIME_DIR": str(workspace)}
    command = [sys.executable, "-c", textwrap.dedent(SCRIPT), json.dumps(config), str(workspace)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment, cwd=workspace)
    assert done.returncode == 0, done.stderr
    return {**json.loads(done.stdout), "restarted": (workspace / "restarted").exists()}


def test_the_manifest_is_unchanged_and_lies_in_the_package(site: Path) -> None:
    name = "padded_cell/hooksdk.plugin.json"
    assert (EXAMPLE / "src" / name).read_text("utf-8") == MANIFEST
    assert (site / name).read_text("utf-8") == MANIFEST
    assert read_manifest(site / name).notices == []


def test_it_is_found_by_its_entry_point(site: Path, report: dict[str, Any]) -> None:
    assert (report["origin"], report["version"]) == ("installed", "1.0.0")
    assert Path(report["file"]).is_relative_to(site)


def test_the_model_is_offered_every_tool_that_the_manifest_lists(report: dict[str, Any]) -> None:
    listed = json.loads(MANIFEST)["contracts"]["tools"]
    assert set(listed) <= set(report["offered"])
    assert report["tools"] == ["pcexec", "proxy-pcexec", "safe_restart"]


def test_its_commands_run_with_secrets_and_behind_the_proxy(report: dict[str, Any]) -> None:
    command, behind_proxy = report["results"][:2]
    assert command.startswith("exit code 0 ")
    assert "it is {{secret:TOKEN}}\n1\n2\n" in command
    assert "http://proxy.test:3128" in behind_proxy
    assert "swordfish" not in report["messages"]


def test_results_are_listed_and_trimmed_by_the_built_in_plugin(report: dict[str, Any]) -> None:
    assert '"handle":"r1"' in report["results"][2]
    assert report["trimmed"] == ["r1"]


def test_it_restarts_after_the_run(report: dict[str, Any]) -> None:
    assert '"waits_for": [\n  "a"\n ]' in report["results"][4]
    assert (report["text"], report["restarted"]) == ("All done.", True)


def test_it_needs_no_grant_but_those_of_its_readme(report: dict[str, Any]) -> None:
    assert report["hooks"] == ["agent_start", "narrow_tools", "before_tool_call", "resolve_secrets"]


@pytest.mark.parametrize("path", sorted((EXAMPLE / "src").rglob("*.py")), ids=lambda path: path.name)
def test_it_uses_the_public_interface_alone(path: Path) -> None:
    imports = [
        node for node in ast.walk(ast.parse(path.read_text("utf-8"))) if isinstance(node, ast.Import | ast.ImportFrom)
    ]
    modules = [node.module or "" if isinstance(node, ast.ImportFrom) else node.names[0].name for node in imports]
    private = [name for name in modules if name.startswith("hooksdk") and "._" in name]
    assert private == []
