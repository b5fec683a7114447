"""hooksdk for plain, synchronous code: the same classes and names, without `async` and `await`.

    with Host(plugins=[MyPolicy]) as host, host.session("ann") as session, session.run("Hello") as run:
        run.resolve_tools([my_tool])

A host has an event loop in a thread of its own. So it works in scripts, in threads (which may share a host), and where
an event loop runs already, such as a notebook; the calling thread waits. Plugins and tools are the same, plain or
async.

Status: stable.
"""

from __future__ import annotations

from hooksdk.sync._lazy import LazyHost
from hooksdk.sync._mirror import Approver, PlainModel, Restart
from hooksdk.sync._twins import Compaction, Host, JudgedCall, Results, Run, Session, Storage, run_agent

__all__ = [
    "Approver",
    "Compaction",
    "Host",
    "JudgedCall",
    "LazyHost",
    "PlainModel",
    "Restart",
    "Results",
    "Run",
    "Session",
    "Storage",
    "run_agent",
]
