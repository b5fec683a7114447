"""What a host says of a run, checked before it begins."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from typing import Any, get_args

from hooksdk import schema
from hooksdk.errors import (
    ConfigError,
    WrongArgument,
    check,
    check_mapping,
    check_path,
    check_text,
    did_you_mean,
    refuse,
)
from hooksdk.hooks import RunInfo
from hooksdk.tools import Deferral, Expose
from hooksdk.values import plain

# What may begin a run.
TRIGGERS = ("user", "schedule", "subagent", "other")
EXPOSE, DEFERRALS = get_args(Expose), get_args(Deferral)


def make_info(
    session_id: str,
    *,
    parent: str,
    above: RunInfo | None,
    family: str | None,
    left_open: str,
    agent_id: str,
    workspace_dir: Any,
    requester: Mapping[str, Any] | None,
    trigger: str | None,
    metadata: Mapping[str, Any] | None,
    provider: str | None,
    model: str | None,
    transcript: bool,
    fences: Mapping[str, int],
) -> RunInfo:
    """Where the run comes from. In a sub-agent's session much of it is the parent's: `above` is that run. `fences` are
    the session's own. `family` is the one that the host names, `left_open` the one that an earlier run of the session
    has left open, if any."""
    if trigger is None:
        trigger = "subagent" if parent else "user"
    if trigger not in TRIGGERS:  # a rule about a trigger would hold for no run with a misspelt one
        raise ConfigError("trigger", (f"{trigger!r:.60} is not one of {', '.join(TRIGGERS)}",))
    check("session.run(agent_id=...)", agent_id, str, "text")
    check_path("session.run(workspace_dir=...)", workspace_dir)
    check_mapping("session.run(requester=...)", requester, '{"id": "ann", "is_owner": True}')
    check_mapping("session.run(metadata=...)", metadata, '{"ticket": 7}')
    check_text("session.run(provider=...)", provider)
    check_text(
        "session.run(model=...)", model, "It is the model's name; run_agent(session, model, ...) takes the model itself"
    )
    check("session.run(transcript=...)", transcript, bool, "True or False")
    check_text("session.run(family=...)", family, "It is the `run.info.family` of the run that this one works for")
    around = RunInfo() if above is None else above
    requester = around.requester if requester is None else requester
    workspace_dir = around.workspace_dir if workspace_dir is None else workspace_dir
    extra = {"parent_session": parent} if parent else {}
    run_id = f"run-{uuid.uuid4().hex[:12]}"
    return RunInfo(
        session_id=session_id,
        run_id=run_id,
        family=around.family or family or left_open or run_id,
        attempt=1,
        agent_id=agent_id,
        workspace_dir=None if workspace_dir is None else str(workspace_dir),
        provider=provider,
        model=model,
        requester=None if requester is None else json_value("session.run(requester=...)", dict(requester)),
        trigger=trigger,
        triggers=(*above.triggers, trigger) if above else (trigger,),
        agents=(*above.agents, agent_id) if above else (agent_id,),
        transcript=transcript,
        fences={**around.fences, **fences},
        metadata=json_value("session.run(metadata=...)", {**extra, **(metadata or {})}),
    )


def check_deferral(deferral: object) -> None:
    """What a host says of the requests of a run."""
    check_choice("session.run(deferral=...)", deferral, DEFERRALS)


def check_choice(where: str, value: object, known: Sequence[str]) -> None:
    """One of several words, or None."""
    if value not in (None, *known):
        refuse(where, value, f"one of {', '.join(known)}", did_you_mean(str(value), known).strip())


def json_value(where: str, value: Any) -> Any:
    """A copy of a JSON value; an object of a provider's SDK in it becomes one."""
    try:
        return schema.clone(plain(value))
    except schema.Uncloneable as error:
        raise WrongArgument(where, str(error), "Give JSON values, or text") from None
