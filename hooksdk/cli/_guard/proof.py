"""`hooksdk guard status --prove`: the real agent, started once where it works, makes a call that must be refused."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import anyio

from hooksdk.cli._guard.program import PROGRAMS, SECONDS, find_program
from hooksdk.guard import PROOF, PROOF_REASON
from hooksdk.testing import Call, Turn
from hooksdk.testing.server import ScriptedServer


@dataclass(frozen=True)
class Proof:
    """What became of the call."""

    agent: str
    program: str | None
    """None where it is not in the path."""
    refused: bool
    """True where the judge's own words came back."""
    ran: bool
    seen: str
    """What the model read, or what the program said without making the call."""

    def __str__(self) -> str:
        if self.program is None:
            return f"{self.agent}: its program `{PROGRAMS[self.agent].name}` is not in your PATH, so nothing is proven"
        if self.refused:
            return f"{self.agent}: {self.program} made a call in this folder, and the guard refused it"
        what = "made a call in this folder, and it ran" if self.ran else "made no call here that the guard refused"
        return f"{self.agent}: {self.program} {what}: {self.seen or 'it said nothing'}"


def prove(agent: str, folder: Path) -> Proof:
    """Start the agent's own program in this folder, with the settings that count there, before a scripted model on loopback."""
    path = find_program(agent)
    return anyio.run(_prove, agent, path, folder) if path else Proof(agent, None, refused=False, ran=False, seen="")


async def _prove(agent: str, path: str, folder: Path) -> Proof:
    program, read = PROGRAMS[agent], list[str]()
    with tempfile.TemporaryDirectory(prefix="guard-", ignore_cleanup_errors=True) as own:
        result = Path(own) / PROOF
        line, calls = f"touch {shlex.quote(str(result))}", 0

        def script(turn: Turn) -> Call | str:
            nonlocal calls
            if program.tool not in turn.offered:  # it asks for a title, or the like
                return "Fine."
            read.extend(one.text for one in turn.results)
            calls += 1
            return Call(program.tool, program.arguments_of(line)) if calls == 1 else "The end."

        async with ScriptedServer(script) as server:
            variables = program.variables(server)
            arguments, more = _MODELS[agent](server, variables)
            quiet = {"NO_PROXY": "127.0.0.1", "no_proxy": "127.0.0.1"}
            said = b""
            with anyio.move_on_after(SECONDS):
                done = await anyio.run_process(
                    [path, *arguments, "Do what is to be done."], cwd=folder, env={**os.environ, **quiet, **variables, **more},
                    check=False, stdin=subprocess.DEVNULL, start_new_session=True,
                )  # fmt: skip
                said = done.stderr or done.stdout
        ran = result.exists()
    seen = " ".join("\n".join(read).split() or said.decode(errors="replace").split())[:300]
    return Proof(agent, path, refused=not ran and any(PROOF_REASON in text for text in read), ran=ran, seen=seen)


_Model = tuple[Sequence[str], dict[str, str]]
"""Arguments before the prompt, and variables."""


def _claudes(_server: ScriptedServer, variables: dict[str, str]) -> _Model:
    settings = {"env": {**variables, "CLAUDE_CODE_USE_BEDROCK": "", "CLAUDE_CODE_USE_VERTEX": ""}}
    return ("--settings", json.dumps(settings), "--allowedTools", "Bash", "-p"), {}


def _codex(server: ScriptedServer, _variables: dict[str, str]) -> _Model:
    # Without --dangerously-bypass-hook-trust: a hook that nobody has reviewed does not run.
    provider = f'{{name="scripted",base_url="{server.openai_url}",wire_api="responses",env_key="SCRIPTED_KEY"}}'
    settings = ('model="scripted"', 'model_provider="scripted"', f"model_providers.scripted={provider}")
    options = [word for setting in settings for word in ("-c", setting)]
    return ("exec", *options, "--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox"), {}


def _gemini(_server: ScriptedServer, variables: dict[str, str]) -> _Model:
    # Settings alone say how it is signed in. One that would ask Google is led here too, and makes no call.
    return ("--yolo", "-p"), {"CODE_ASSIST_ENDPOINT": variables["GOOGLE_GEMINI_BASE_URL"]}


def _qwen(server: ScriptedServer, _variables: dict[str, str]) -> _Model:
    model = ("--auth-type", "openai", "--openai-api-key", "none", "--openai-base-url", server.openai_url)
    return ("--yolo", *model, "--model", "scripted", "-p"), {}


_MODELS: dict[str, Callable[[ScriptedServer, dict[str, str]], _Model]] = {
    "claude-code": _claudes, "codex": _codex, "gemini": _gemini, "qwen": _qwen,
}  # fmt: skip
"""How each is led to the scripted model without other settings of the user's being left out."""
