"""A call that a proof has found, made in a real run past the project's plugins: does it break the property there,
too?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from itertools import islice, product
from typing import Any, Literal, cast

from hooksdk import Annotations, Host, Run, Tool, ToolCall
from hooksdk.cli._policy_calls import SeenCall, judge_call, schema_of_call
from hooksdk.cli._project import ThrowawayStore
from hooksdk.hooks import BeforeToolCall
from hooksdk.rules import CallClass, CallFact, Claim, RunFact, ToolFact
from hooksdk.rules.proofs import Example
from hooksdk.testing import ScriptedApprover

# How many calls are tried for one example: combinations of the few texts that meet each condition.
_MOST = 200

Outcome = Literal["ran", "ran after a yes", "refused", "withheld"]
_BREAKS: Mapping[Claim, Sequence[Outcome]] = {
    "never": ("ran", "ran after a yes"),
    "only_asked": ("ran",),
    "always_asked": ("ran", "refused", "withheld"),
}


@dataclass(frozen=True)
class Reality:
    """The outcome of a real call.

    Attributes:
        reason: What the model would read of a call that did not run.
        tool: The tool's id.
        name: The tool's name, as the model sees it.
    """

    outcome: Outcome
    reason: str
    tool: str
    name: str
    arguments: Mapping[str, Any]

    def breaks(self, claim: Claim) -> bool:
        """True where the claim does not hold for it."""
        return self.outcome in _BREAKS[claim]


class Stage:
    """A host of the project, with a person who says yes. Nothing of what runs there is a project's tool."""

    def __init__(self, host: Host, person: ScriptedApprover) -> None:
        self._host = host
        self._person = person

    async def play(self, example: Example, calls: CallClass, claim: Claim) -> Reality | None:
        """The first call of the example's kind for which the claim does not hold; None where none comes of it."""
        wanted = [fact for fact, holds in example.facts.items() if holds]
        for arguments in islice(_arguments(wanted), _MOST):
            reality, event = await self._run(example, arguments)
            if reality.breaks(claim) and _holds(calls, event):
                return reality
        return None

    async def _run(self, example: Example, arguments: Mapping[str, Any]) -> tuple[Reality, BeforeToolCall]:
        ran: list[Mapping[str, Any]] = []

        def execute(arguments: dict[str, Any]) -> str:
            ran.append(arguments)
            return "it ran"

        tool = Tool(
            name=example.name,
            own_name=example.own_name,
            source=cast("Any", example.source),
            owner=example.owner,
            annotations=Annotations(**example.annotations),
            execute=execute,
            parameters=schema_of_call(arguments),
        )
        if isinstance(self._host.store, ThrowawayStore):
            self._host.store.forget()  # a limit that is full after the first call would stop all that follow
        self._person.requests.clear()
        async with AsyncExitStack() as stack:
            run, seen = await self._innermost_run(stack, example)
            await run.resolve_tools([tool])
            granted = next((one for one in (*run.tools, *run.offered) if one.id == tool.id), tool)
            call = ToolCall("prove", granted.name, dict(arguments))
            withheld = run.tools.withheld.get(granted.name)
            judged = await judge_call(run, call)
            if judged.result is None:
                await judged.execute()
            reason = judged.result.text if judged.result is not None and not ran else ""
        outcome: Outcome = "withheld" if withheld else "refused"
        if ran:
            outcome = "ran after a yes" if self._person.requests else "ran"
        # A call of a withheld tool is refused before any policy gets it.
        event = seen.event or BeforeToolCall(info=run.info, call=call, tool=granted, arguments=dict(arguments))
        return Reality(outcome, withheld or reason, tool.id, granted.name, arguments), event

    async def _innermost_run(self, stack: AsyncExitStack, example: Example) -> tuple[Run, SeenCall]:
        """A run in a chain of sub-agents."""
        session = await stack.enter_async_context(self._host.session())
        # A sub-agent is begun by another run, so what begins runs otherwise comes before.
        triggers = sorted(example.triggers, key=lambda trigger: trigger == "subagent")
        runs: list[Run] = []
        for at in range(max(len(example.agents), len(triggers))):
            session = session if at == 0 else await stack.enter_async_context(session.child())
            run = session.run(
                agent_id=example.agents[min(at, len(example.agents) - 1)],
                trigger=triggers[min(at, len(triggers) - 1)],
                workspace_dir=example.workspace_dir,
                requester=example.requester,
            )
            runs.append(await stack.enter_async_context(run))
        return runs[-1], session.plugin(SeenCall.plugin_id)


def _holds(calls: CallClass, event: BeforeToolCall) -> bool:
    """True where the call is one of the class."""
    for fact in calls.facts:
        if isinstance(fact, ToolFact):
            holds = fact.holds(event.tool)
        else:
            assert isinstance(fact, (RunFact, CallFact))
            holds = fact.holds(event)
        if not holds:
            return False
    return True


def _arguments(facts: Sequence[CallFact]) -> Iterator[dict[str, Any]]:
    """Arguments for which these facts may hold: one example of each, put together in every way."""
    examples = [list(islice(fact.examples(), 8)) or [{}] for fact in facts]
    for some in product(*examples):
        arguments: dict[str, Any] = {}
        for one in some:
            arguments |= one
        yield arguments
