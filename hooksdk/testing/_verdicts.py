"""The outcomes of the calls of a recorded session under the plugins of now."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

# The outcome of a call now. `rewrite`: it runs with other arguments; `answer`: a plugin answers in the tool's place;
# `withhold`: its tool is not granted; `invalid`: its arguments do not fit the tool.
CallOutcome = Literal["allow", "rewrite", "ask", "answer", "block", "withhold", "invalid"]
# The outcome in the record: the tool ran, well or not; it was not run; or no result is known.
Recorded = Literal["ok", "error", "blocked", "none"]


@dataclass(frozen=True, kw_only=True)
class CallVerdict:
    """One recorded call, and the decision of the plugins about it now.

    ```python
    from hooksdk.testing import CallVerdict

    verdict = CallVerdict(
        number=1, run=1, tool="delete_file", arguments={"path": "a"}, recorded="ok",
        outcome="block", by="no_deletes", reason="nothing is deleted here",
    )
    assert verdict.differs
    ```

    Attributes:
        number: Its place in the session, from 1.
        run: The run that it belongs to, from 1: each message of the person begins one.
        tool: The real tool, also of a call that came through tool search's bridge.
        arguments: As they were recorded; empty where they cannot be read.
        by: The plugin that decided; several with commas, nobody where it is allowed.
        reason: The reason of a block, the title of a question, the text of an answer.
        becomes: The arguments after the plugins' rewriting, where they differ.
        call_id: The call's own id in the session.
    """

    number: int
    run: int
    tool: str
    arguments: Mapping[str, Any] = field(repr=False)
    recorded: Recorded
    outcome: CallOutcome
    by: str = ""
    reason: str = ""
    becomes: Mapping[str, Any] | None = field(default=None, repr=False)
    call_id: str = field(default="", repr=False)

    @property
    def changed(self) -> list[str]:
        """The arguments that are not the recorded ones after the plugins' rewriting."""
        before, after, missing = self.arguments, self.arguments if self.becomes is None else self.becomes, object()
        return [name for name in {**before, **after} if before.get(name, missing) != after.get(name, missing)]

    @property
    def differs(self) -> bool:
        """True where it would go otherwise than it went."""
        if self.outcome == "allow":
            return self.recorded == "blocked"
        return self.outcome not in {"block", "withhold", "invalid"} or self.recorded != "blocked"


@dataclass(frozen=True, kw_only=True)
class Replay:
    """The decisions of plugins about a recorded session. It equals a `decision_snapshot` that says the same.

    ```python
    from hooksdk import hooks
    from hooksdk.hooks import BeforeToolCall, Block
    from hooksdk.testing import replay

    class NoDeletes:
        @hooks.before_tool_call(tools="delete_*")
        def keep(self, event: BeforeToolCall) -> Block:
            return Block("nothing is deleted here")

    call = {"id": "c1", "type": "function", "function": {"name": "delete_file", "arguments": '{"path": "a"}'}}
    session = [
        {"role": "user", "content": "Tidy up."},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c1", "content": "gone"},
    ]
    (verdict,) = replay(session, [NoDeletes]).calls
    assert (verdict.recorded, verdict.outcome, verdict.by) == ("ok", "block", "no_deletes")
    ```

    Attributes:
        notes: Notes about it: how the history was read, and which tools are known by their calls alone.
    """

    calls: Sequence[CallVerdict]
    notes: Sequence[str] = ()

    def call(self, tool: str) -> CallVerdict:
        """The only call of the tool; an `AssertionError` when there is none, or more than one."""
        found = [one for one in self.calls if one.tool == tool]
        names = sorted({one.tool for one in self.calls})
        assert len(found) == 1, f"{tool!r} was called {len(found)} times, not once; the tools called are {names}"
        return found[0]

    @property
    def counts(self) -> dict[CallOutcome, int]:
        """How many calls have each outcome."""
        return dict(Counter(one.outcome for one in self.calls))
