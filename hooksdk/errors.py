"""Every error that hooksdk raises. They carry their facts as fields and rebuild under pickle.

```
HookSDKError
├── PluginError          a plugin's author can fix it
│   ├── HookUseError     a hook decorator is used wrongly (also a TypeError)
│   ├── UnknownHook      a handler for a hook that does not exist (also a LookupError)
│   ├── DuplicatePlugin  two plugins with one id
│   ├── BadAnswer        a handler answered with the wrong type
│   ├── ToolSchemaError  a function cannot become a tool
│   ├── PluginRefused    a plugin cannot be loaded: manifest, contract, constructor
│   ├── ReadOnlyArguments  a handler changes the arguments of its event (also a TypeError)
│   └── ToolError        a tool, or a bridge, says why it does nothing: the model reads exactly this text
├── HostError            the person who runs the host can fix it
│   ├── ConfigError, MissingGrant
│   ├── WrongArgument    a call was given what it does not take (also a TypeError and a ValueError)
│   ├── SessionClosed, SessionBusy, RunAlreadyOpen, RunClosed, CallSettled
│   ├── WouldBlock       a call of `hooksdk.sync` that would wait for itself
│   ├── ApprovalPending  a call waits for a person's answer
│   ├── FenceClosed      an edit of the transcript while a run is open
│   ├── TranscriptChanged  somebody else changed the stored transcript, or a list does not match it
│   ├── UnknownResult    no tool result has this handle or call id
│   └── StoreError       the store cannot read or write
└── PolicyError          a policy decided, or failed to
    ├── HookTimeout, PolicyFailed
    └── RunBlocked       a plugin blocked the run
```

Beside them the checks of arguments that raise `WrongArgument`, for whoever writes a store, a model or a format.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from hooksdk._errors.base import (
    AsyncOnly,
    HookSDKError,
    HostError,
    PlainOnly,
    WrongArgument,
    check,
    check_function,
    check_list,
    check_mapping,
    check_number,
    check_path,
    check_text,
    did_you_mean,
    nearest,
    problem_text,
    refuse,
    sentence,
    table_problems,
    unknown_key,
)

__all__ = [
    "ApprovalPending", "AsyncOnly", "BadAnswer", "CallSettled", "ConfigError", "DuplicatePlugin", "FenceClosed",
    "HookSDKError", "HookTimeout", "HookUseError", "HostError", "MissingGrant", "PlainOnly", "PluginError",
    "PluginRefused", "PolicyError", "PolicyFailed", "ReadOnlyArguments", "RunAlreadyOpen", "RunBlocked", "RunClosed",
    "SessionBusy", "SessionClosed", "StoreError", "ToolError", "ToolSchemaError", "TranscriptChanged", "UnknownHook",
    "UnknownResult", "WouldBlock", "WrongArgument", "check", "check_function", "check_list", "check_mapping",
    "check_number", "check_path", "check_text", "did_you_mean", "nearest", "problem_text", "refuse", "table_problems",
    "unknown_key",
]  # fmt: skip


HookSDKError.__module__ = HostError.__module__ = WrongArgument.__module__ = __name__  # as tracebacks name them


class PluginError(HookSDKError):
    """Something that a plugin's author can fix."""


@dataclass(eq=False)
class HookUseError(PluginError, TypeError):
    """A hook decorator is used wrongly; raised when the plugin's module is imported. `hook`: the hook's name. `where`:
    the handler, as `module.function (file:line)`."""

    hook: str
    where: str
    problem: str
    advice: str

    def __str__(self) -> str:
        return f"@hooks.{self.hook} on {self.where}: {sentence(self.problem)} {self.advice}"


@dataclass(eq=False)
class UnknownHook(PluginError, LookupError):
    """A handler is marked for a hook that does not exist; nothing of its plugin stays registered."""

    hook: str
    plugin: str
    where: str
    suggestion: str = ""

    def __str__(self) -> str:
        return (
            f"plugin '{self.plugin}': {self.where} is marked as a handler of '{self.hook}', which is not a hook."
            f"{self.suggestion or ' See hooksdk.hooks for the list.'}"
        )


@dataclass(eq=False)
class DuplicatePlugin(PluginError):
    """Two plugins were given the same id."""

    plugin: str
    first: str
    second: str

    def __str__(self) -> str:
        advice = "Rename one (a `plugin_id` attribute on the class or module), or list only one of them."
        return f"two plugins are called '{self.plugin}': {self.first} and {self.second}. {advice}"


@dataclass(eq=False)
class BadAnswer(PluginError):
    """A handler answered with a value that its hook does not take."""

    _text = "{who} answered {got} to {hook}; expected {expected}"
    hook: str
    who: str
    got: str
    expected: str


@dataclass(eq=False)
class ToolSchemaError(PluginError):
    """A function cannot become a tool: JSON Schema has no form for a parameter, or the context has no annotation."""

    tool: str
    where: str
    problem: str
    advice: str

    def __str__(self) -> str:
        return f"tool '{self.tool}' ({self.where}): {sentence(self.problem)} {self.advice}"


@dataclass(eq=False)
class PluginRefused(PluginError):
    """A plugin cannot be loaded: its manifest, its contract, its configuration or its constructor failed."""

    plugin: str
    problem: str
    advice: str = ""

    def __str__(self) -> str:
        refusal = f"plugin '{self.plugin}' refused: {self.problem}"
        return f"{sentence(refusal)} {self.advice}" if self.advice else refusal


@dataclass(eq=False)
class ToolError(PluginError):
    """A tool's own refusal: raise it in a tool or in `unwrap_tool_call`, and the model reads exactly this text. With
    `in_doubt` the call may have taken effect, as a request without an answer: an equal call is asked about.

    ```python
    from hooksdk import ToolError, tool

    @tool
    def divide(one: float, other: float) -> float:
        "Divide one number by another."
        if other == 0:
            raise ToolError("there is no result for zero; pass another number")
        return one / other
    ```
    """

    _text = "{text}"
    text: str
    in_doubt: bool = False


@dataclass(eq=False)
class ReadOnlyArguments(PluginError, TypeError):
    """A handler changes the arguments of its event: that would change nothing, so it is refused there and then."""

    change: str

    def __str__(self) -> str:
        advice = "Answer hooks.Rewrite({...}) from rewrite_tool_call; copy.deepcopy(event.arguments) may be changed"
        return f"event.arguments cannot be changed ({self.change}): the call would not follow. {advice}"


@dataclass(eq=False)
class ConfigError(HostError):
    """The configuration is wrong; `problems` names every wrong entry with its place."""

    where: str
    problems: tuple[str, ...]

    def __str__(self) -> str:
        lines = "\n".join(f"  - {problem}" for problem in self.problems)
        return f"{self.where}: {self.problems[0]}" if len(self.problems) == 1 else f"{self.where}:\n{lines}"


@dataclass(eq=False)
class MissingGrant(HostError):
    """An installed plugin needs grants that the operator has not given. `grants`: each missing grant, with what needs
    it: hooks, answers, tools. `advice`: how to give it; empty: on the command line."""

    plugin: str
    grants: Mapping[str, tuple[str, ...]]
    advice: str = ""

    def __str__(self) -> str:
        needs = " and ".join(f"no '{grant}' grant for {', '.join(users)}" for grant, users in self.grants.items())
        options = " ".join(f"--grant {grant}" for grant in self.grants)
        advice = self.advice or f"Give it with: hooksdk plugins enable {self.plugin} {options}"
        return f"plugin '{self.plugin}' has {needs}. {advice}"


@dataclass(eq=False)
class SessionClosed(HostError):
    """The host or session is closed, or not open yet. `block`: how it is opened: `with` in `hooksdk.sync`."""

    _text = "{what} is not open. Use it inside `{block}`"
    what: str
    block: str = "async with"


@dataclass(eq=False)
class SessionBusy(HostError):
    """Somebody else holds the session, and did not let it go within the time to wait. `holder`: who holds it, as far as
    the store knows: `process 4711`."""

    session_id: str
    seconds: float
    holder: str = ""

    def __str__(self) -> str:
        return (
            f"session '{self.session_id}' is held by {self.holder or 'another worker'}; waited {self.seconds:g} s. "
            "Close it there first, or use another session id."
        )


@dataclass(eq=False)
class RunAlreadyOpen(HostError):
    """A session takes one run at a time."""

    _text = (
        "session '{session_id}' already has run '{run_id}' open. "
        "Leave that one first, or open another session (session.child() for a sub-agent)."
    )
    session_id: str
    run_id: str


@dataclass(eq=False)
class RunClosed(HostError):
    """The run is over (or has not begun), or the call that this context belonged to has returned."""

    _text = "{what}"
    what: str


@dataclass(eq=False)
class WouldBlock(HostError):
    """A call of `hooksdk.sync` in the host's own event loop: it would wait for itself."""

    _text = (
        "hooksdk.sync was called in the host's own event loop, by an async tool or by a plugin's handler, where it would "
        "wait for itself. Make the tool a plain `def`, which runs in a thread; a handler uses what its event holds"
    )


@dataclass(eq=False)
class CallSettled(HostError):
    """A judged call takes one result, and this one has it already."""

    _text = "call '{call_id}' of '{tool}' has its result already ({status}): read judged.result"
    call_id: str
    tool: str
    status: str


@dataclass(eq=False)
class ApprovalPending(HostError):
    """A call waits for an approval and has no result yet: call it again when the answer has come, in this run or in a
    later one of the session. A tool may raise it, too, when its own framework has paused.

    ```python
    from hooksdk.errors import ApprovalPending

    def transfer(arguments: dict[str, int]) -> str:
        raise ApprovalPending  # the bank asks its customer first
    ```

    Attributes:
        request: The `ApprovalRequest` that waits for its answer; None, or what the tool gave, when a tool raised it.
        call: The `ToolCall`.
    """

    request: Any = None
    call: Any = None

    def __str__(self) -> str:
        who = "the call" if self.call is None else repr(self.call)
        return f"{who} waits for an approval, so it has no result yet: run.pause(...) keeps it open for the next run"


@dataclass(eq=False)
class FenceClosed(HostError):
    """The transcript may be edited only while `agent_end` runs."""

    _text = (
        "the transcript of session '{session_id}' is fenced: use the editor inside an agent_end handler only. "
        "To shorten a result at any time, queue a trim."
    )
    session_id: str


@dataclass(eq=False)
class TranscriptChanged(HostError):
    """The stored transcript is not the one this run knows, or a message list does not match it."""

    _text = "session '{session_id}', message {position}: {problem}"
    session_id: str
    position: int
    problem: str


@dataclass(eq=False)
class UnknownResult(HostError, LookupError):
    """No tool result goes by this handle or call id, or several do."""

    _text = "'{reference}': {problem}"
    reference: str
    problem: str


@dataclass(eq=False)
class StoreError(HostError):
    """The store could not read or write; what was stored before is whole."""

    _text = "{where}: {problem}"
    where: str
    problem: str


class PolicyError(HookSDKError):
    """A policy decided against something, or failed to decide."""


@dataclass(eq=False)
class HookTimeout(PolicyError):
    """A handler did not answer within its time limit. `who`: plugin, function and file:line."""

    _text = "{who} did not answer {hook} within {seconds:g} s"
    hook: str
    who: str
    seconds: float


@dataclass(eq=False)
class PolicyFailed(PolicyError):
    """A policy raised, hung or answered nonsense where the run cannot go on without it."""

    _text = "{hook}: {who} failed, so the run cannot go on: {problem}"
    hook: str
    who: str
    problem: str


@dataclass(eq=False)
class RunBlocked(PolicyError):
    """A plugin blocked the run: before it began (nothing was recorded), or before a request or its answer."""

    _text = "run blocked by {who}: {reason}"
    who: str
    reason: str
