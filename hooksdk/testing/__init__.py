"""The plugin authors' kit: a scripted model, sessions without configuration files, events for unit tests.

```python
import anyio

from hooksdk import hooks
from hooksdk.hooks import BeforeToolCall, Block
from hooksdk.testing import call, open_session, play, say

class NoDeletes:
    @hooks.before_tool_call(tools="delete_*")
    def keep(self, event: BeforeToolCall) -> Block:
        return Block("nothing is deleted here")

def delete_file(path: str) -> None:
    "Delete a file."

async def main() -> None:
    async with open_session(NoDeletes, tools=[delete_file]) as session:
        played = await play(session, [call("delete_file", path="a"), say("I may not delete it.")])
    assert played.call("delete_file").status == "blocked"

anyio.run(main)
```

Status: stable.
"""

from __future__ import annotations

from hooksdk.testing._asserts import assert_answered, assert_asked, assert_blocked, assert_ran
from hooksdk.testing._attacks import Attack, attacks, make_workspace
from hooksdk.testing._conformance import Answer, ConformanceCase, Driver, Program
from hooksdk.testing._conformance_cases import conformance_cases
from hooksdk.testing._events import Recorder, event, recorder
from hooksdk.testing._exchanges import without_prose
from hooksdk.testing._hook_session import HookSession, OpenHookSession
from hooksdk.testing._model import Call, Reply, Script, ScriptedApprover, ScriptedModel, SeenResult, Turn, call, say
from hooksdk.testing._replay import read_catalog, replay, replay_async
from hooksdk.testing._session import Played, open_host, open_session, play
from hooksdk.testing._store_cases import MakeStore, StoreCase, store_cases
from hooksdk.testing._store_faults import Fault, check_fault
from hooksdk.testing._tool_server import ToolServer
from hooksdk.testing._verdicts import CallVerdict, DecisionSnapshot, Replay, decision_changes

__all__ = [
    "Answer",
    "Attack",
    "Call",
    "CallVerdict",
    "ConformanceCase",
    "DecisionSnapshot",
    "Driver",
    "Fault",
    "HookSession",
    "MakeStore",
    "OpenHookSession",
    "Played",
    "Program",
    "Recorder",
    "Replay",
    "Reply",
    "Script",
    "ScriptedApprover",
    "ScriptedModel",
    "SeenResult",
    "StoreCase",
    "ToolServer",
    "Turn",
    "assert_answered",
    "assert_asked",
    "assert_blocked",
    "assert_ran",
    "attacks",
    "call",
    "check_fault",
    "conformance_cases",
    "decision_changes",
    "event",
    "make_workspace",
    "open_host",
    "open_session",
    "play",
    "read_catalog",
    "recorder",
    "replay",
    "replay_async",
    "say",
    "store_cases",
    "without_prose",
]
