"""One tool call on its way through the run: its stage, what was decided about it, and what the ledger knows of its
effect."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from enum import Enum
from functools import cached_property
from typing import Any, final

import anyio

from hooksdk import schema
from hooksdk._approvals.request import ApprovalRequest, Question, digest_of
from hooksdk._masking.mask import SecretMask
from hooksdk._schema.fresh import peek
from hooksdk._tasks.limits import Attempt
from hooksdk.calls import Labels, ToolCall, ToolResult
from hooksdk.catalog import Catalog
from hooksdk.records import CallStatus
from hooksdk.tools import Tool


class Stage(Enum):
    """How far a call has come in this run. `CallInProgress.move` is the one place that changes it."""

    WRITTEN = "written"  # the model wrote it, and the policies have not finished judging it
    JUDGED = "judged"  # the policies let it go on; a person may still have to say yes
    ENTERED = "entered"  # its tool may have done something, here or wherever its executor runs
    LEFT = "left"  # the tool returned or was given up; a thread of it may still run
    PAUSED = "paused"  # the tool asked for an approval and did nothing: the call waits to be judged again
    ENDED = "ended"  # it has its result


_NEXT: Mapping[Stage, frozenset[Stage]] = {
    Stage.WRITTEN: frozenset({Stage.JUDGED, Stage.ENDED}),
    Stage.JUDGED: frozenset({Stage.JUDGED, Stage.ENTERED, Stage.ENDED}),
    Stage.ENTERED: frozenset({Stage.ENTERED, Stage.LEFT, Stage.ENDED}),
    Stage.LEFT: frozenset({Stage.PAUSED, Stage.ENDED}),
    Stage.PAUSED: frozenset({Stage.JUDGED, Stage.ENDED}),
    Stage.ENDED: frozenset(),
}


@dataclass(frozen=True, slots=True)
class CallEnd:
    """What became of a call.

    Attributes:
        answerer: The plugin whose answer is the result; empty where no plugin answered in the tool's place.
    """

    status: CallStatus
    result: ToolResult
    answerer: str = ""

    @classmethod
    def refused(cls, status: CallStatus, text: str) -> CallEnd:
        """The end of a call whose tool has not run, with the reason for the model."""
        return cls(status, ToolResult.error(text))


@dataclass(frozen=True, slots=True)
class CallOptions:
    """What the host said when it handed the call over.

    Attributes:
        tool: A tool for this call alone, which the catalog does not have.
        only: Answers why the real tool may not be called on this way, or None.
        at_once: The call is executed as soon as it is judged, so an approval need not be stored until then.
        made: The call was judged and handed out in an earlier run, and its executor has run it since: it cannot be
            stopped.
    """

    tool: Tool | None = None
    only: Callable[[Tool], str | None] | None = None
    at_once: bool = False
    made: bool = False


@dataclass(slots=True)
class ToolInput:
    """What the tool gets: its own copy of the arguments, taken before the first policy sees the call.

    Attributes:
        short_secrets: Values of secrets among them that are too short to be masked in the whole session.
    """

    arguments: dict[str, Any] = field(default_factory=dict[str, Any])
    short_secrets: SecretMask | None = None


@dataclass(slots=True)
class Verdict:
    """What policies and people have decided about a call. It is stored while the call waits, for a later run to go on
    with.

    Attributes:
        questions: Asked, and not answered yet.
        granted: Asked and approved, in this run or an earlier one.
        answered_by: Who approved last; None while nobody has.
        pending: The request that a person is still to answer.
        rewriters: The plugins that were asked to rewrite the call; None: all of them.
        resumed: The call was judged before, in this run or an earlier one, and has waited since.
        recorded: The decision of this judgement is written down, as far as a plugin writes it (`record_decision`).
        let_through: Once it was let through to its tool: plugins that count calls (`tool_call_start`) are not asked a
            second time.
    """

    questions: tuple[Question, ...] = ()
    granted: tuple[Question, ...] = ()
    answered_by: str | None = None
    pending: ApprovalRequest | None = None
    rewriters: tuple[str, ...] | None = ()
    resumed: bool = False
    recorded: bool = False
    let_through: bool = False

    def forget_answers(self) -> None:
        """The arguments have changed: what was approved was another call."""
        self.questions, self.granted, self.answered_by, self.resumed = (), (), None, False


class EffectState(Enum):
    """What the ledger knows of the effect of a call. Its page: `docs/explanation/ledger.md`."""

    NOT_BEGUN = "not begun"  # nothing is written: after a crash, the call did not run
    BEGUN = "begun"  # it is written that the call begins: a crash from here on leaves it in doubt
    IN_DOUBT = "in doubt"  # nobody will know its end: an equal call asks a person first


@dataclass(slots=True)
class Effect:
    """The effect of a call, as far as the ledger follows it. Calls of tools that only read have none.

    Attributes:
        id: The effect's id; empty until it is first needed.
        repeats: The call is made in the place of an equal one in doubt, whose doubt ends with this one's result.
        confirms: Its caller says by `confirm()` when the result has arrived; before that, a crash leaves the call in
            doubt.
        nested: How often its tool made an equal call, by the digest of that call.
    """

    id: str = ""
    state: EffectState = EffectState.NOT_BEGUN
    repeats: bool = False
    confirms: bool = False
    nested: dict[str, int] = field(default_factory=dict[str, int])

    @property
    def begun(self) -> bool:
        """True once it is written that the call begins."""
        return self.state is not EffectState.NOT_BEGUN

    @property
    def in_doubt(self) -> bool:
        """True where the end of the call is not known."""
        return self.state is EffectState.IN_DOUBT

    @property
    def ends(self) -> str:
        """The id of the effect whose end the call's result tells; empty where there is none, or it stays in doubt."""
        return self.id if self.state is EffectState.BEGUN else ""

    def doubt(self) -> bool:
        """Nobody will know the end of a call that has begun; answers whether it had."""
        if self.begun:
            self.state = EffectState.IN_DOUBT
        return self.begun


@final
@dataclass(eq=False)
class CallInProgress:
    """One call on its way through the run.

    Attributes:
        written: The call as the model wrote it: the transcript keeps this one.
        parent: The call whose tool makes this one.
        options: What the host said when it handed the call over.
        native: An object of the host's, which the executor finds in `ToolContext.native`.
        call: The call that is judged and runs: under the real name, with the final arguments. Like `catalog` it is
        there
            once the call is taken up.
        catalog: The tools of the run when the call was taken up.
        tool: The real tool, without its executor; None for a name that nobody granted.
        arguments: Final once they are validated. Events hand out copies, and nobody changes these.
        problems: What is wrong with the arguments by the tool's schema.
        input: The tool's own copy of them.
        verdict: What policies and people have decided about it.
        stage: How far it has come; changed by `move` alone.
        claimed: Somebody executes it, supplies its result, or answers for it: nobody else may meanwhile.
        attempt: The tool's time limit, while it runs.
        effect: What the ledger knows of it.
        read: The labels of what its tool has read by calls of its own, and by sub-agents.
        replaced_by: The same call, made once more: a `JudgedCall` of this one goes on with that one.
        at_rest: Set when no task works on the call any more; made by the first who waits for that.
        end: Its result, once it has one.
        started: The monotonic time at which the call was taken up, in seconds.

    """

    written: ToolCall
    parent: CallInProgress | None = None
    options: CallOptions = CallOptions()
    native: object = None
    call: ToolCall = field(init=False)
    catalog: Catalog = field(init=False)
    tool: Tool | None = None
    arguments: dict[str, Any] = field(default_factory=dict[str, Any])
    problems: Sequence[schema.Problem] = ()
    input: ToolInput = field(default_factory=ToolInput)
    verdict: Verdict = field(default_factory=Verdict)
    stage: Stage = Stage.WRITTEN
    claimed: bool = False
    attempt: Attempt | None = None
    effect: Effect = field(default_factory=Effect)
    read: list[Labels] = field(default_factory=list[Labels])
    replaced_by: CallInProgress | None = None
    at_rest: anyio.Event | None = None
    end: CallEnd | None = None
    started: float = field(default_factory=time.monotonic)

    def move(self, stage: Stage) -> None:
        """The call comes to this stage. Raises `RuntimeError` where it cannot from where it is."""
        if stage not in _NEXT[self.stage]:
            raise RuntimeError(f"call '{self.written.id}' cannot be {stage.value}: it is {self.stage.value}")
        self.stage = stage

    def finish(self, end: CallEnd) -> None:
        """The call has its result."""
        self.move(Stage.ENDED)
        self.end = end

    @property
    def judged(self) -> bool:
        """True once the policies are through with it, for the first time in this run."""
        return self.stage is not Stage.WRITTEN

    @property
    def entered(self) -> bool:
        """True where its tool may have done something, and the call has no result yet."""
        return self.stage is Stage.ENTERED or self.stage is Stage.LEFT

    @property
    def depth(self) -> int:
        """How many tools have called tools down to this call."""
        return 0 if self.parent is None else self.parent.depth + 1

    @cached_property
    def digest(self) -> str:
        """Stands for what the model wrote: name and arguments. A host may hand the arguments over as an object, or as
        the model's text."""
        arguments = peek(self.written, "arguments")
        with suppress(schema.BadArguments):
            arguments = schema.parse_arguments(arguments)
        return digest_of([self.written.name, arguments])

    @property
    def real_tool(self) -> Tool:
        """The tool, of a call that has one."""
        assert self.tool is not None
        return self.tool

    @property
    def tool_name(self) -> str:
        """The name of its tool; empty where there is none."""
        return "" if self.tool is None else self.tool.name

    @property
    def newest(self) -> CallInProgress:
        """The one that stands for this call now."""
        work = self
        while work.replaced_by is not None:
            work = work.replaced_by
        return work

    @contextmanager
    def clock_stopped(self) -> Generator[None, None, None]:
        """While a person is asked, the time limits of the tools around this call stand still."""
        with ExitStack() as stack:
            outer = self.parent
            while outer is not None:
                if outer.attempt is not None:
                    stack.enter_context(outer.attempt.paused())
                outer = outer.parent
            yield
