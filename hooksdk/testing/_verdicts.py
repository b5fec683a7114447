"""The outcomes of the calls of a recorded session under the plugins of now, and the file in which a test keeps them."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, final

from hooksdk.approvals import digest_of
from hooksdk.errors import ConfigError
from hooksdk.values import as_list, as_object, is_list, is_object

SCHEMA = 1
_DIGEST_CHARS = 12
# Characters that a value has at least, for a reason to be searched for it.
_SHORTEST = 3
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


def snapshot_of(replay: Replay, *, values: bool = False) -> dict[str, Any]:
    """The decisions as JSON. Without `values` no argument is in it: a digest stands for them, and where a reason quotes
    one, its name."""
    return {"schema": SCHEMA, "values": values, "calls": [_entry(one, values=values) for one in replay.calls]}


def _entry(verdict: CallVerdict, *, values: bool) -> dict[str, Any]:
    arguments, becomes = dict(verdict.arguments), verdict.becomes
    entry: dict[str, Any] = {"call": verdict.number, "tool": verdict.tool}
    entry["arguments"] = arguments if values else digest_of(arguments)[:_DIGEST_CHARS]
    entry["decision"] = verdict.outcome
    if verdict.by:
        entry["by"] = verdict.by
    if verdict.reason:
        entry["reason"] = verdict.reason if values else without_values(verdict.reason, arguments)
    if becomes is not None:
        entry["changed"] = verdict.changed
        entry["becomes"] = dict(becomes) if values else digest_of(dict(becomes))[:_DIGEST_CHARS]
    return entry


def without_values(text: str, arguments: Mapping[str, Any]) -> str:
    """The text with the names of arguments in the place of their values: `{path} is outside the workspace`."""
    for value, name in sorted(_leaves(arguments, ""), key=lambda leaf: -len(leaf[0])):
        text = text.replace(value, f"{{{name}}}")
    return text


def _leaves(value: object, name: str) -> list[tuple[str, str]]:
    dot = f"{name}." if name else ""
    if is_object(value):
        return [leaf for key, each in value.items() for leaf in _leaves(each, f"{dot}{key}")]
    if is_list(value):
        return [leaf for at, each in enumerate(value) for leaf in _leaves(each, f"{dot}{at}")]
    text = "" if value is None or isinstance(value, bool) else str(value)
    return [(text, name)] if len(text) >= _SHORTEST else []


def write_snapshot(path: Path, document: Mapping[str, Any]) -> None:
    """Write it, one call a line, so that a change of one decision is a change of one line. Raises `ConfigError`."""
    lines = ",\n".join(f"    {json.dumps(entry, ensure_ascii=False)}" for entry in document["calls"])
    head = f'{{\n  "schema": {document["schema"]},\n  "values": {json.dumps(document["values"])},\n  "calls": ['
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{head}\n{lines}\n  ]\n}}\n" if lines else f"{head}]\n}}\n", encoding="utf-8")
    except OSError as error:
        raise ConfigError(str(path), (f"it cannot be written: {error.strerror}",)) from None


def read_json_file(path: Path, advice: str = "") -> Any:
    """The JSON document in a file. Raises `ConfigError`, which ends with the advice where the file cannot be read."""
    try:
        return json.loads(path.read_text("utf-8"))
    except OSError as error:
        raise ConfigError(str(path), (f"it cannot be read: {error.strerror}{advice}",)) from None
    except (ValueError, RecursionError) as error:
        raise ConfigError(str(path), (f"it is no JSON: {error}",)) from None


def read_snapshot(path: Path) -> dict[str, Any]:
    """A snapshot file. Raises `ConfigError`."""
    document: Any = read_json_file(path, ". --write makes one")
    calls = as_object(document).get("calls")
    if not is_list(calls) or not all(is_object(one) for one in calls):
        problem = "it is no snapshot of decisions: expected an object with 'calls', as --write makes it"
        raise ConfigError(str(path), (problem,))
    if document.get("schema") != SCHEMA:
        problem = f"its schema is {document.get('schema')!r}, and this version reads {SCHEMA}: write it anew"
        raise ConfigError(str(path), (problem,))
    return document


def differences(stored: Mapping[str, Any], replay: Replay) -> list[str]:
    """The decisions that differ from those of a snapshot, one line each; none where they agree."""
    before = [as_object(one) for one in as_list(stored["calls"])]
    after: list[dict[str, Any]] = snapshot_of(replay, values=stored.get("values") is True)["calls"]
    lines = [_difference(old, new) for old, new in zip(before, after, strict=False) if old != new]
    if len(before) != len(after):
        lines.append(f"the snapshot has {len(before)} calls, and the session has {len(after)}")
    return lines


def decision_changes(before: Replay, after: Replay) -> list[str]:
    """The decisions that differ in the second replay of the same calls, one line each."""
    return differences(snapshot_of(before, values=True), after)


def _difference(old: Mapping[str, Any], new: Mapping[str, Any]) -> str:
    head = f"call {new['call']}, {new['tool']}: "
    if (old.get("tool"), old.get("arguments")) != (new["tool"], new["arguments"]):
        return f"{head}the snapshot is of another call ({old.get('tool')})"
    return f"{head}was {in_words(old)}, now {in_words(new)}"


def in_words(entry: Mapping[str, Any]) -> str:
    """A decision in one line."""
    by = f" by {entry['by']}" if entry.get("by") else ""
    changed = f" ({', '.join(map(str, entry['changed']))})" if entry.get("changed") else ""
    reason = f": {' '.join(str(entry['reason']).split())}" if entry.get("reason") else ""
    return f"{entry.get('decision')}{changed}{by}{reason}"


@final
class DecisionSnapshot:
    """The decisions that a test expects of a replay: `assert replay(...) == decision_snapshot`. It equals a replay that
    decides as its file says. With `update`, it writes the file where that says otherwise, or is not there.

    ```python
    from pathlib import Path

    from hooksdk.testing import DecisionSnapshot, replay

    decisions = replay([{"role": "user", "content": "Hello"}, {"role": "assistant", "content": "Good day."}], [])
    assert decisions == DecisionSnapshot(Path("nothing.decisions.json"), update=True)
    assert decisions == DecisionSnapshot(Path("nothing.decisions.json"))
    ```
    """

    def __init__(self, path: Path, *, update: bool = False, values: bool = False) -> None:
        """`values` writes arguments as they are, not their digests."""
        self.path = path
        self._update = update
        self._values = values

    @classmethod
    def of_test(cls, test: Path, name: str, *, update: bool = False) -> DecisionSnapshot:
        """That of the test with this name, in a file beside the test's own."""
        return cls(test.with_name(f"{test.stem}.{_file_word(name)}.decisions.json"), update=update)

    def __call__(self, name: str) -> DecisionSnapshot:
        """Another snapshot of the same test, with this in its file's name."""
        path = self.path.with_name(self.path.name.replace(".decisions.json", f".{_file_word(name)}.decisions.json"))
        return DecisionSnapshot(path, update=self._update, values=self._values)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Replay):
            return NotImplemented
        problems = self.explain(other)
        if problems and self._update:
            self.write(other)
            return True
        return not problems

    __hash__ = None  # pyright: ignore[reportAssignmentType] - what it equals changes with its file

    def explain(self, replay: Replay) -> list[str]:
        """The differences, one line each; none where they are equal."""
        if not self.path.exists():
            return [f"there is no {self.path.name} yet: pytest --hooksdk-update writes it"]
        problems = self.differences(replay)
        advice = f"as {self.path.name} says; where the change is meant: pytest --hooksdk-update"
        return [*problems, advice] if problems else []

    def differences(self, replay: Replay) -> list[str]:
        """The decisions that differ from those of the file, one line each. Raises `ConfigError` for one that cannot
        be read."""
        return differences(read_snapshot(self.path), replay)

    def write(self, replay: Replay) -> None:
        """Write the file, whatever it says now. Raises `ConfigError`."""
        write_snapshot(self.path, snapshot_of(replay, values=self._values))

    def __repr__(self) -> str:
        return f"DecisionSnapshot({self.path.name})"


def _file_word(name: str) -> str:
    """A name as part of a file's name."""
    return re.sub(r"[^\w.-]+", "-", name).strip("-")
