"""A call that a proof has found, made in a real run past the project's plugins: does it break the property there,
too?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import asdict, dataclass, replace
from itertools import islice, product
from typing import Any, Literal, cast

from hooksdk import Annotations, Host, Run, Tool, ToolCall
from hooksdk.cli._policy_calls import SeenCall, judge_call, schema_of_call
from hooksdk.cli._project import ThrowawayStore
from hooksdk.hooks import BeforeToolCall
from hooksdk.rules import CallClass, CallFact, Claim, RunFact, ToolFact
from hooksdk.rules.proofs import Example
from hooksdk.rules.samples import sample
from hooksdk.testing import ScriptedApprover
from hooksdk.values import as_object

# How many calls are tried for one example: combinations of the few texts that meet each condition.
_MOST = 200
# Of an example in tools that there are: those beyond are mostly like those before.
_MOST_HERE = 100

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
        name: The tool's name, as the model sees it.
        facts: What the example asks of the call, as far as it is so of this one, in words.
        is_here: Whether the tool is one of those here; None where none are known.
    """

    outcome: Outcome
    reason: str
    tool: Tool
    name: str
    arguments: Mapping[str, Any]
    facts: Sequence[str] = ()
    is_here: bool | None = None

    @property
    def call(self) -> dict[str, Any]:
        """The call as a document."""
        said = {name: hint for name, hint in asdict(self.tool.annotations).items() if hint is not None}
        call = {"tool": self.tool.id, "name": self.name, "annotations": said}
        return {**call, "arguments": dict(self.arguments), "facts": list(self.facts)}

    def breaks(self, claim: Claim) -> bool:
        """True where the claim does not hold for it."""
        return self.outcome in _BREAKS[claim]


class Stage:
    """A host of the project, with a person who says yes. Nothing of what runs there is a project's tool.

    Attributes:
        tools: Those here, as far as they are known.
    """

    def __init__(self, host: Host, person: ScriptedApprover, tools: Sequence[Tool] = ()) -> None:
        self.tools = tools
        self._host = host
        self._person = person

    async def play(
        self, example: Example, calls: CallClass, claim: Claim, tools: Sequence[Tool] | None = None
    ) -> Reality | None:
        """The first call of the example's kind for which the claim does not hold, of one of these tools or else of a tool
        that is made up; None where none comes of it."""
        wanted = [fact for fact, holds in example.facts.items() if holds]
        made = _calls_made_up(example, wanted) if tools is None else _calls_of(tools, wanted)
        for tool, arguments in islice(made, _MOST if tools is None else _MOST_HERE):
            reality, event = await self._run(example, tool, arguments)
            if reality.breaks(claim) and _holds(calls, event):
                facts = sorted(fact.in_words() for fact in wanted if fact.holds(event))
                return replace(reality, facts=facts, is_here=tools is not None if self.tools else None)
        return None

    async def _run(self, example: Example, tool: Tool, arguments: Mapping[str, Any]) -> tuple[Reality, BeforeToolCall]:
        ran: list[Mapping[str, Any]] = []

        def execute(arguments: dict[str, Any]) -> str:
            ran.append(arguments)
            return "it ran"

        tool = tool.copy(execute=execute)
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
        return Reality(outcome, withheld or reason, tool, granted.name, arguments), event

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


def _calls_made_up(example: Example, wanted: Sequence[CallFact]) -> Iterator[tuple[Tool, dict[str, Any]]]:
    """Calls of the tool that the proof has made up, which takes whatever the call has."""
    for arguments in _arguments(wanted):
        tool = Tool(
            name=example.name,
            own_name=example.own_name,
            source=cast("Any", example.source),
            owner=example.owner,
            annotations=Annotations(**example.annotations),
            parameters=schema_of_call(arguments),
        )
        yield tool, arguments


def _calls_of(tools: Sequence[Tool], wanted: Sequence[CallFact]) -> Iterator[tuple[Tool, dict[str, Any]]]:
    """Calls that fit the schemas of these tools: first with the arguments as the conditions name them, then with the
    same values in those with names like them, such as `cmd` and `file_path`."""
    for renames in (False, True):
        for tool in tools:
            needed = as_object(sample({"type": "object", **(tool.parameters or {})}, only_required=True))
            for arguments in islice(_arguments(wanted), 8):
                names = [*arguments] if tool.parameters is None else tool.parameter_names  # a trace has no schemas
                if renames is all(name in names for name in arguments):
                    continue
                alike = [[one for one in names if _is_like(one, name)] if renames else [name] for name in arguments]
                for places in islice(product(*alike), 8):
                    call = {**needed, **dict(zip(places, arguments.values(), strict=True))}
                    if not tool.check(call):
                        yield tool, call


def _is_like(name: str, other: str) -> bool:
    """True for `file_path` and `path`, or for `cmd` and `command`."""
    letters = iter(other)
    return other in name.lower() or all(letter in letters for letter in name.lower())


def _arguments(facts: Sequence[CallFact]) -> Iterator[dict[str, Any]]:
    """Arguments for which these facts may hold: one example of each, put together in every way."""
    examples = [list(islice(fact.examples(), 8)) or [{}] for fact in facts]
    for some in product(*examples):
        arguments: dict[str, Any] = {}
        for one in some:
            arguments |= one
        yield arguments
