"""What every event carries, and the answers that several hooks take."""

from __future__ import annotations

import functools
import math
import types
from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

from hooksdk._schema.fresh import Fresh, Frozen
from hooksdk.calls import ToolCall, ToolResult
from hooksdk.records import Content, Record

T = TypeVar("T")


class Checked:
    """A dataclass whose fields are checked when it is made, so that a wrong one is its author's failure, there and
    then: an answer that the run cannot use would otherwise come out far from the handler that gave it."""

    def __post_init__(self) -> None:
        for name, kinds in _field_types(type(self)).items():
            value = getattr(self, name)
            if not isinstance(value, kinds):
                expected = " or ".join(kind.__name__ for kind in kinds)
                raise TypeError(f"{type(self).__name__}({name}=...) must be {expected}, got {type(value).__name__}")
            if isinstance(value, float) and math.isnan(value):
                raise ValueError(f"{type(self).__name__}({name}=...) is not a number")


@dataclass(frozen=True)
class Block(Checked):
    """No: the call (or the run) does not happen. The model reads the reason."""

    reason: str


@dataclass(frozen=True)
class Answer(Checked):
    """The result of the call, without running the tool."""

    result: ToolResult | str


@dataclass(frozen=True)
class Around(Checked):
    """A plain context manager to hold open: entered at once, and left when what it is around has ended, however it
    ended. Its `__exit__` gets no error. One that fails is logged."""

    manager: AbstractContextManager[Any]


@functools.cache
def _field_types(kind: type) -> dict[str, tuple[type, ...]]:
    # Of our own classes only: the annotations of a plugin's subclass may exist for the type checker alone.
    own = next(base for base in kind.__mro__ if base.__module__.startswith("hooksdk."))
    types_of: dict[str, tuple[type, ...]] = {}
    for name, hint in get_type_hints(own).items():
        parts = get_args(hint) if get_origin(hint) in {Union, types.UnionType} else (hint,)
        kinds = [get_origin(part) or part for part in parts]
        if all(isinstance(one, type) for one in kinds):
            types_of[name] = (*kinds, int) if float in kinds else tuple(kinds)
    return types_of


@dataclass(frozen=True, kw_only=True)
class RunInfo:
    """Where an event comes from. Outside a run, `run_id` is empty and `attempt` 0.

    Attributes:
        requester: Who asked: id, is_owner, roles.
        trigger: user, schedule, subagent or other.
        triggers: What began the run and those around it, the outermost first: `("schedule", "subagent")` in a sub-agent
            of a scheduled run. The last is `trigger`.
        agents: The agents of the run and of those around it, the outermost first. The last is `agent_id`.
        family: The run's family, which is the same for a run and for all runs of sub-agents below it: the id of the
            outermost run. A run that goes on with what a pause or a crash has left keeps the id of before.
        transcript: False where the run keeps neither messages nor results.
        fences: A number for each session that the run needs, which rises with every holder of the session: those of the
            runs around it, the outermost first, and its own, the last. A service that keeps the highest of each knows
            by a lower one that another worker has taken over. A key stands for a session's id.
    """

    session_id: str = ""
    run_id: str = ""
    attempt: int = 0
    agent_id: str = "main"
    workspace_dir: str | None = None
    provider: str | None = None
    model: str | None = None
    requester: Fresh[Mapping[str, Any] | None] = Fresh(None)
    trigger: str = "user"
    triggers: tuple[str, ...] = ()
    agents: tuple[str, ...] = ()
    family: str = ""
    metadata: Fresh[Mapping[str, Any] | None] = Fresh(None)
    transcript: bool = True
    fences: Fresh[Mapping[str, int]] = field(default=Fresh({}))  # a field takes no mutable default by itself

    def __post_init__(self) -> None:
        for chain, own in (("triggers", self.trigger), ("agents", self.agent_id)):
            if not getattr(self, chain):
                object.__setattr__(self, chain, (own,))


def _nowhere() -> RunInfo:
    return RunInfo()


@dataclass(frozen=True, kw_only=True)
class Event:
    """What every event carries."""

    info: RunInfo = field(default_factory=_nowhere, repr=False)

    @property
    def session_id(self) -> str:
        """The session's id."""
        return self.info.session_id

    @property
    def run_id(self) -> str:
        """The run's id; empty outside a run."""
        return self.info.run_id

    @property
    def attempt(self) -> int:
        """Which attempt of the run, from 1; 0 outside a run."""
        return self.info.attempt

    @property
    def agent_id(self) -> str:
        """The agent whose run it is."""
        return self.info.agent_id

    @property
    def workspace_dir(self) -> str | None:
        """The folder that the agent works in, if it has one."""
        return self.info.workspace_dir

    @property
    def provider(self) -> str | None:
        """The model's provider."""
        return self.info.provider

    @property
    def model(self) -> str | None:
        """The model's name."""
        return self.info.model

    @property
    def requester(self) -> Mapping[str, Any] | None:
        """Who asked (id, is_owner, roles), a fresh copy."""
        return self.info.requester

    @property
    def trigger(self) -> str:
        """What began the run: user, schedule, subagent or other."""
        return self.info.trigger

    @property
    def triggers(self) -> tuple[str, ...]:
        """What began the run and those around it, the outermost first: ask `"schedule" in event.triggers`, so that it
        holds in a sub-agent of a scheduled run, too."""
        return self.info.triggers

    @property
    def agents(self) -> tuple[str, ...]:
        """The agents of the run and of those around it, the outermost first."""
        return self.info.agents

    @property
    def family(self) -> str:
        """The id that a run and all runs of sub-agents below it have in common; empty outside a run."""
        return self.info.family

    @property
    def metadata(self) -> Mapping[str, Any]:
        """What the host added, a fresh copy."""
        return self.info.metadata or {}


@dataclass(frozen=True, kw_only=True)
class AroundRun(Event):
    """A run was let through by `agent_start`."""


@dataclass(frozen=True, kw_only=True)
class CallEvent(Event):
    """What the events of a tool call carry.

    Attributes:
        call: The call: id, origin (model, bridge, code, tool) and parent id. Its arguments are those of the event;
            before they are checked, and where they are invalid, as the model wrote them.
        arguments: A copy at each access, which refuses every change: one would not reach the call. Answer `Rewrite`
            from `rewrite_tool_call` to change them.
    """

    call: ToolCall
    arguments: Frozen = Frozen()


@dataclass(frozen=True, kw_only=True)
class Trace(Event):
    """One record of what the SDK itself saw.

    Attributes:
        record: What it was: one of the classes in `hooksdk.records`.
        time: Seconds since the epoch.
        content: What the record is about, for those who listen with `session.on_event`; None in a plugin's handler.
    """

    record: Record
    time: float = 0.0
    content: Content | None = field(default=None, repr=False)

    @property
    def kind(self) -> str:
        """The kind of record: `hook`, `decision`, `call_started`, `call_finished`, `run_ended` and so on."""
        return self.record.kind
