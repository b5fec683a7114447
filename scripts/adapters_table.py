"""Write docs/reference/adapters.md: which of the conformance cases each adapter holds, with the versions that are installed.

    .venv/bin/python scripts/adapters_table.py

What it says is held by tests: a case without a reason passes, and one with a reason fails.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Mapping
from importlib.metadata import distributions
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "reference" / "adapters.md"
sys.path.insert(0, str(ROOT))

from hooksdk.testing import conformance_cases  # noqa: E402 - the path comes first
from tests.hooksdk.dbos_driver import DBOSDriver  # noqa: E402 - the path comes first
from tests.hooksdk.fastmcp_driver import FastMCPDriver  # noqa: E402 - the path comes first
from tests.hooksdk.gateway_driver import GatewayDriver  # noqa: E402 - the path comes first
from tests.hooksdk.langchain_driver import LangChainDriver  # noqa: E402 - the path comes first
from tests.hooksdk.loop_drivers import JudgeDriver, RunAgentDriver, SyncDriver  # noqa: E402 - the path comes first
from tests.hooksdk.openai_agents_driver import OpenAIAgentsDriver  # noqa: E402 - the path comes first
from tests.hooksdk.pydantic_ai_driver import PydanticAIDriver  # noqa: E402 - the path comes first


def cannot_of(module: str) -> Mapping[str, str]:
    """What a driver cannot hold whose framework is not installed here (scripts/frameworks)."""
    source = ROOT / "tests" / "hooksdk" / f"{module}_driver.py"
    reasons: dict[str, ast.expr] = {}
    for node in ast.walk(ast.parse(source.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Assign):
            reasons.update((ast.unparse(target), node.value) for target in node.targets)
        if (
            isinstance(node, ast.AnnAssign)
            and ast.unparse(node.target) == "cannot"
            and isinstance(node.value, ast.Dict)
        ):
            values = [reasons.get(ast.unparse(value), value) for value in node.value.values]
            return ast.literal_eval(ast.Dict(node.value.keys, values))
    raise LookupError(f"{source} says nowhere what its framework cannot hold")


OWN: dict[str, Mapping[str, str]] = {
    "[`run_agent`](agent.md)": RunAgentDriver.cannot,
    "[a loop of your own](../how-to/embed-a-host.md)": JudgeDriver.cannot,
    "[`hooksdk.sync`](../how-to/sync-and-notebooks.md)": SyncDriver.cannot,
    "[the gateway](../how-to/gateway.md)": GatewayDriver.cannot,
}
FRAMEWORKS: dict[str, tuple[str, Mapping[str, str]]] = {
    "[LangChain](../how-to/langchain.md)": ("langchain", LangChainDriver.cannot),
    "[OpenAI Agents](../how-to/openai-agents.md)": ("openai-agents", OpenAIAgentsDriver.cannot),
    "[pydantic-ai](../how-to/pydantic-ai.md)": ("pydantic-ai-slim", PydanticAIDriver.cannot),
    "[Google ADK](../how-to/google-adk.md)": ("google-adk", cannot_of("google_adk")),
    "[Strands](../how-to/strands.md)": ("strands-agents", cannot_of("strands")),
    "[FastMCP](../how-to/fastmcp.md)": ("fastmcp", FastMCPDriver.cannot),
    "[DBOS](../how-to/many-workers.md#on-dbos)": ("dbos", DBOSDriver.cannot),
    "[Claude Agent SDK](../how-to/claude-sdk.md)": ("claude-agent-sdk", cannot_of("claude_sdk")),
}
LINK = re.compile(r"\[(.+?)\]\([^)]+\)")
BEGIN = """# Adapters

## What they all do

In LangChain, OpenAI Agents, pydantic-ai, Google ADK and Strands one `HookSDK` puts the [configuration](configuration.md) of the folder
and its plugins before every call:

| what | how |
|---|---|
| policies | each call is judged before the framework's tool runs, over a bridge of tool search too; a blocked one is a result that says why |
| arguments | are checked against the tool's schema where the call is judged |
| approvals | a call that a policy asks about pauses the agent in the framework's own way; a host with an approver asks that one first. The call is judged again when the run goes on, and its person is not asked twice. For a restart in between, keep the framework's session and a [store](formats-and-stores.md#stores) that outlasts the process |
| tool search | hides the agent's tools where they take too much of the model's window: `HookSDK(host, context_window=200_000)` where the framework does not know it; `core=["read_file"]` names those that are always shown |
| plugins' tools | are offered beside the agent's |
| sub-agents | an agent that a tool runs has a session of its own, never with more tools than its parent's run; with another host than its caller's it has the policies of both |
| the model | its name is the framework's own: [limits in dollars](../how-to/limit-what-an-agent-may-use.md#in-a-framework) need it. `HookSDK(host, model="openai:gpt-4o")` says another |
| a crash | a call that may have taken effect, or whose reply the framework has lost, is [asked about](../how-to/a-call-in-doubt.md) before an equal one runs, if the store outlives the process |
| history | what the agent had before, a fork, and a list that was filtered are taken as they are |
| results | reach the agent as they are, unless a plugin changed them. A tool that raises is a result; a cancellation ends the run as `cancelled`, an error of the model as `error` |
| options | the other keywords of `HookSDK` are those of `session.run`, such as `requester={"id": "ann"}`; `owner_of=lambda tool: ("mcp", "github")` says where a tool comes from, for rules that name it |
| the host | a [`LazyHost`](../how-to/sync-and-notebooks.md#an-agent-that-a-server-loads) works everywhere; a `Host` that you open with `async with` is for async runs in its own event loop |

None can judge tools that the model's provider runs itself, or show plugins images in the agent's messages. A call that asks for a
[secret](secrets.md) is refused, since whoever traces the agent reads its arguments. A conversation has one run at a time: a second one
raises `RunAlreadyOpen`.

## Case by case

Each is one of `hooksdk.testing.conformance_cases()`, played by a real agent over a scripted model.
[Hold an adapter of your own against them](testing.md#conformance-of-adapters).

"""


def table() -> list[str]:
    """The cases that every column holds, the table of the others, and the reasons below it."""
    linked = {**OWN, **{name: cannot for name, (_, cannot) in FRAMEWORKS.items()}}
    columns = {LINK.sub(r"\1", name): cannot for name, cannot in linked.items()}
    reasons: list[str] = []
    held: list[str] = []
    rows: dict[str, list[str]] = {}
    for case in conformance_cases():
        lacking: dict[str, list[str]] = {}
        for column, cannot in columns.items():
            if (reason := cannot.get(case.name)) is not None:
                lacking.setdefault(reason, []).append(column)
        reasons += [reason for reason in lacking if reason not in reasons]
        named = "; ".join(f"{', '.join(who)} ({reasons.index(reason) + 1})" for reason, who in lacking.items())
        title = f"{case.number} {case.name.replace('_', ' ')}"
        if named:
            rows.setdefault(named, []).append(title)
        else:
            held.append(f"- {title}")
    lines = ["| case | not held by |", "|---|---|"]
    lines += [f"| {'<br>'.join(titles)} | {named} |" for named, titles in rows.items()]
    everywhere = [
        f"All of {', '.join(linked)} hold:",
        "",
        *held,
        "",
        "And these, but for those that are named, with the number of the reason:",
        "",
    ]
    return [*everywhere, *lines, "", *(f"{number}. {reason}" for number, reason in enumerate(reasons, 1))]


def versions() -> str:
    """What was installed when the page was written."""
    places = [*sys.path, *map(str, ROOT.glob(".venv-*/lib/python*/site-packages"))]
    installed = {one.name: one.version for one in distributions(path=places)}
    return ", ".join(f"{package} {installed[package]}" for package, _ in FRAMEWORKS.values())


if __name__ == "__main__":
    PAGE.write_text(BEGIN + "\n".join(table()) + f"\n\nPlayed with {versions()}.\n", encoding="utf-8")
