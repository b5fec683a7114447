"""The gateways that are measured: how each is installed, started, and asked for a tool."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
DENIED = "delete_everything"
"""The tool that each gateway denies in its own way, where it has one."""
SERVERS = ("mcp-server-git==2026.10.19", "mcp-server-time==2026.10.19", "excel-mcp-server==2.2.2")
Entries = Mapping[str, Mapping[str, Any]]
Call = tuple[str, dict[str, Any]]


class NotMeasured(Exception):
    """It did not install, or did not start."""


def progress(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


@dataclass(frozen=True, kw_only=True)
class Started:
    """What starts a gateway in front of some servers."""

    command: list[str]
    env: dict[str, str]


@dataclass(frozen=True, kw_only=True)
class Gateway:
    name: str
    package: str
    """As pip takes it; empty for what is installed here."""
    start: Callable[[Path, Path, Entries], Started]
    """Takes the folder of its programs, one for its files, and the servers."""
    bridge: Callable[[str, str, dict[str, Any]], Call]
    """The call that runs a tool of a server."""
    way: Callable[[str, str, str], Sequence[Call]]
    """What is asked before a cold tool is called: its server, its name, and the words that a model would search with."""
    python: str = ""
    """The interpreter that it needs, where this one will not do."""

    @property
    def title(self) -> str:
        return self.package.replace("==", " ") or self.name


def programs_of(name: str, packages: Sequence[str], python: str, folder: Path) -> Path:
    """The folder of programs of an environment that has these packages; it is made when it is not there."""
    interpreter = shutil.which(python) if python else sys.executable
    if interpreter is None:
        raise NotMeasured(f"needs {python} on the PATH")
    home = folder / f"{name}-{'-'.join(one.partition('==')[2] for one in packages)}"
    programs = home / ("Scripts" if os.name == "nt" else "bin")
    if not (home / "complete").exists():
        progress(f"installing {', '.join(packages)}")
        folder.mkdir(parents=True, exist_ok=True)
        if uv := shutil.which("uv"):
            _run(uv, "venv", "--clear", "--python", interpreter, str(home))
            _run(uv, "pip", "install", "--python", str(programs / "python"), *packages)
        else:
            _run(interpreter, "-m", "venv", "--clear", str(home))
            _run(str(programs / "python"), "-m", "pip", "install", "--disable-pip-version-check", *packages)
        (home / "complete").touch()
    return programs


def _run(*command: str) -> None:
    try:
        subprocess.run(command, check=True, capture_output=True, text=True, timeout=900)
    except subprocess.CalledProcessError as error:
        raise NotMeasured(f"does not install: {(error.stderr.strip() or 'no reason told').splitlines()[-1]}") from None
    except subprocess.TimeoutExpired:
        raise NotMeasured("does not install within 15 minutes") from None


def _mcp_json(folder: Path, servers: Entries) -> Path:
    file = folder / "mcp.json"
    file.write_text(json.dumps({"mcpServers": servers}), "utf-8")
    return file


# hooksdk


def _start_hooksdk(programs: Path, folder: Path, servers: Entries) -> Started:
    file = _mcp_json(folder, servers)
    env = {"HOME": str(folder), "XDG_STATE_HOME": str(folder / "state"), "XDG_CONFIG_HOME": str(folder / "config")}
    (folder / "hooksdk.toml").write_text(
        f'[gateway]\nprofile = "bench"\nexpose = "bridge"\n[gateway.profiles.bench]\ndeny = ["{DENIED}"]\n', "utf-8"
    )
    hooksdk = [sys.executable, "-m", "hooksdk"]
    subprocess.run([*hooksdk, "trust", "--yes", str(folder)], check=True, capture_output=True, env=os.environ | env)
    return Started(command=[*hooksdk, "gateway", "--config", str(file), "--project", str(folder)], env=env)


# fastmcp


def _start_fastmcp(programs: Path, folder: Path, servers: Entries) -> Started:
    file = _mcp_json(folder, servers)
    return Started(command=[str(programs / "python"), str(HERE / "fastmcp_proxy.py"), str(file), DENIED], env={})


# agent-mcp-gateway


def _start_agent_gateway(programs: Path, folder: Path, servers: Entries) -> Started:
    file = _mcp_json(folder, servers)
    agent = {"allow": {"servers": ["*"]}, "deny": {"tools": {"faulty": [DENIED]}}}
    rules = folder / "rules.json"
    rules.write_text(json.dumps({"agents": {"bench": agent}, "defaults": {"deny_on_missing_agent": False}}), "utf-8")
    return Started(
        command=[str(programs / "agent-mcp-gateway")],
        env={
            "GATEWAY_MCP_CONFIG": str(file), "GATEWAY_RULES": str(rules), "GATEWAY_DEFAULT_AGENT": "bench",
            "GATEWAY_AUDIT_LOG": str(folder / "audit.jsonl"),
        },
    )  # fmt: skip


# lazy-mcp


def _start_lazy(programs: Path, folder: Path, servers: Entries) -> Started:
    listed = [
        {"name": name, "description": f"The server {name}", "command": [one["command"], *one.get("args", ())]}
        for name, one in servers.items()
    ]
    file = folder / "servers.json"
    rules = [{"server": "faulty", "pattern": DENIED, "action": "deny"}]
    file.write_text(json.dumps({"servers": listed, "permissions": {"rules": rules}}), "utf-8")
    return Started(command=[str(programs / "lazy-mcp"), "--config", str(file)], env={"XDG_CONFIG_HOME": str(folder)})


# mcp-compressor


def _start_compressor(programs: Path, folder: Path, servers: Entries) -> Started:
    file = _mcp_json(folder, servers)
    return Started(command=[str(programs / "mcp-compressor"), "--config", str(file), "--exclude-tools", DENIED], env={})


GATEWAYS = (
    Gateway(
        name="hooksdk", package="", start=_start_hooksdk,
        bridge=lambda _server, tool, given: ("tool_call", {"name": tool, "arguments": given}),
        way=lambda _server, _tool, words: [("tool_search", {"queries": [words]})],
    ),
    Gateway(
        name="fastmcp", package="fastmcp==4.1.2", start=_start_fastmcp,
        bridge=lambda server, tool, given: ("call_tool", {"name": f"{server}_{tool}", "arguments": given}),
        way=lambda _server, _tool, words: [("search_tools", {"query": words})],
    ),
    Gateway(
        name="agent-mcp-gateway", package="agent-mcp-gateway==0.2.5", python="python3.12", start=_start_agent_gateway,
        bridge=lambda server, tool, given: ("execute_tool", {"server": server, "tool": tool, "args": given}),
        way=lambda server, _tool, _words: [("list_servers", {}), ("get_server_tools", {"server": server})],
    ),
    Gateway(
        name="lazy-mcp", package="lazy-mcp==2.7.2", start=_start_lazy,
        bridge=lambda server, tool, given: (
            "invoke_command", {"server": server, "command_name": tool, "parameters": given},
        ),
        way=lambda server, tool, _words: [
            ("list_servers", {}), ("list_commands", {"server": server}),
            ("describe_commands", {"server": server, "command_names": [tool]}),
        ],
    ),
    Gateway(
        name="mcp-compressor", package="mcp-compressor==0.38.2", start=_start_compressor,
        bridge=lambda server, tool, given: (f"{server}_invoke_tool", {"tool_name": tool, "tool_input": given}),
        way=lambda server, tool, _words: [(f"{server}_get_tool_schema", {"tool_name": tool})],
    ),
)  # fmt: skip
