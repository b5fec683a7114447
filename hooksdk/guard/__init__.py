"""The guard: the rules of a project judge what a coding agent does itself, its own Bash, Edit and WebFetch among it.

An agent's hooks start `hooksdk.guard.client`, which asks a judge over a Unix socket; one judge runs for each user.
`Judge` judges in this process, without a socket.

Status: stable.
"""

from __future__ import annotations

from hooksdk.guard._agents import AGENTS, Agent, HookEvent, UnreadableHook, Verdict, read_event, tool_of
from hooksdk.guard._calls import AgentCalls
from hooksdk.guard._judge import PROOF, PROOF_REASON, Judge, JudgeStatus, judge_status, serve
from hooksdk.guard._project import last_seen
from hooksdk.guard._rules import known_projects, let_count, to_let_count, waiting
from hooksdk.guard._settings import GuardConfig, guard_problems
from hooksdk.guard._starter import starter_policy

__all__ = [
    "AGENTS",
    "PROOF",
    "PROOF_REASON",
    "Agent",
    "AgentCalls",
    "GuardConfig",
    "HookEvent",
    "Judge",
    "JudgeStatus",
    "UnreadableHook",
    "Verdict",
    "guard_problems",
    "judge_status",
    "known_projects",
    "last_seen",
    "let_count",
    "read_event",
    "serve",
    "starter_policy",
    "to_let_count",
    "tool_of",
    "waiting",
]
