"""A peer in the same place: catraca, whose gate judges a call by where its arguments' texts were seen.

Needs `pip install catraca` (0.2.0). Of its two modes the one for an agent that decides as it goes, its context registry: the prompt
is trusted, all that tools answer is not, and the arguments that `_dojo_policies.py` names must come from the prompt. It has its own
way to find addresses in other arguments, its egress rules, which here allow any host and look at provenance only, and stand at the
tools for which ours name `**addresses`. What it would not let pass, a person is asked.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from _dojo_policies import DESTINATIONS, reads_only
from catraca import Caller, ChannelConfig, ContextRegistry, DeclarativePolicy, Egress, Gate, Verdict
from pydantic import BaseModel

from hooksdk import hooks
from hooksdk.hooks import AgentStart, Ask, BeforeToolCall, TransformToolResult

CHANNELS = ChannelConfig.from_dict({
    "version": 1,
    "channels": {
        "prompt": {"integrity": "TRUSTED", "confidentiality": "*"},
        "results": {"integrity": "UNTRUSTED", "confidentiality": "*"},
    },
})  # fmt: skip
CALLER = Caller(tenant="one", user="one")
ADDRESSES = "**addresses"
ANYWHERE = {
    "hosts": ["*"], "emails": ["*"], "schemes": ["http", "https"], "ip_literals": True, "private_networks": True,
}  # fmt: skip


class Catraca:
    """Asks about each call that catraca's gate does not allow; tools that only read are not brought before it."""

    class Config(BaseModel):
        """Settings."""

        parameters: dict[str, list[str]]
        """The names of the parameters of each tool that acts: catraca denies what its policy does not declare."""

    def __init__(self, config: Config) -> None:
        self._registry = ContextRegistry(CHANNELS)
        self._gate = Gate(
            self._registry, DeclarativePolicy.from_dict(policy_of(config.parameters)),
            egress=Egress.from_dict(egress_of(config.parameters)), evidence=None,
        )  # fmt: skip

    @hooks.agent_start
    def add_prompt(self, event: AgentStart) -> None:
        """The user's words."""
        self._registry.annotate(str(event.input), "prompt")

    @hooks.transform_tool_result(required=True)
    def add_result(self, event: TransformToolResult) -> None:
        """What a tool has written; a refusal is not its text."""
        if event.status in {"ok", "error"}:
            self._registry.annotate(event.result.text, "results", origin=event.call.name)

    @hooks.before_tool_call
    def judge(self, event: BeforeToolCall) -> Ask | None:
        """Ask where catraca says no."""
        if reads_only(event.tool.name):
            return None
        decision = self._gate.decide(event.tool.name, event.call.arguments, caller=CALLER)
        return None if decision.verdict is Verdict.ALLOW else Ask(f"catraca: {decision.reason.name}")


def policy_of(parameters: dict[str, list[str]]) -> dict[str, Any]:
    """catraca's policy: what says where something goes is strict, everything else may come from anywhere."""
    return {
        "version": 1,
        "tools": {
            tool: {
                "callers": {"tenants": "*", "users": "*"},
                "args": {name: {} if name in DESTINATIONS[tool] else {"integrity": "ANY"} for name in names},
            }
            for tool, names in parameters.items()
        },
    }


def egress_of(parameters: dict[str, list[str]]) -> dict[str, Any]:
    """catraca's egress rules: addresses in all arguments, or in none."""

    def skipped(tool: str, names: Sequence[str]) -> Sequence[str]:
        return [] if ADDRESSES in DESTINATIONS[tool] else names

    return {
        "version": 1,
        "tools": {tool: {**ANYWHERE, "skip_args": skipped(tool, names)} for tool, names in parameters.items()},
    }
