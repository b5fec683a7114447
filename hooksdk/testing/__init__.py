"""The plugin authors' kit: a scripted model, sessions without configuration files, events for unit tests.

```python
async with open_session(NoDeletes, tools=[delete_file]) as session:
    played = await play(session, [call("delete_file", path="a"), say("It was refused.")])
assert played.call("delete_file").status == "blocked"
```
"""

from __future__ import annotations

from hooksdk.testing._approver import ScriptedApprover
from hooksdk.testing._events import Recorder, event, recorder
from hooksdk.testing._model import Call, Reply, Script, ScriptedModel, SeenResult, Turn, call, say
from hooksdk.testing._session import Played, open_host, open_session, play

__all__ = [
    "Call",
    "Played",
    "Recorder",
    "Reply",
    "Script",
    "ScriptedApprover",
    "ScriptedModel",
    "SeenResult",
    "Turn",
    "call",
    "event",
    "open_host",
    "open_session",
    "play",
    "recorder",
    "say",
]
