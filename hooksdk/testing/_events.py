"""Events for unit tests of one handler, and a plugin that keeps every event."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, ClassVar, TypeVar

from hooksdk import hooks
from hooksdk.calls import ToolCall, ToolResult
from hooksdk.catalog import Catalog, build_catalog
from hooksdk.errors import did_you_mean
from hooksdk.formats import Message, get_format
from hooksdk.hooks import HOOKS, Event, RunInfo
from hooksdk.records import RunStarted
from hooksdk.tools import Tool
from hooksdk.transcript import Entry, Ledger, Results, Transcript, TranscriptEditor

E = TypeVar("E", bound=Event)
_INFO = {one.name for one in dataclasses.fields(RunInfo)}


def event(
    kind: type[E],
    /,
    *,
    messages: Sequence[Message] = (),
    format: str = "openai-chat",  # noqa: A002 - the field's own word
    **fields: Any,
) -> E:
    """An event as a run would make it, to call a handler with.

    Give what the test is about: `event(BeforeToolCall, tool="read_file", arguments={"path": "a"})`. The rest has
    defaults. `tool` may be a name and `result` a text; `tools`, `deferrable`, `offered` and `catalog` may list tools or
    names; `session_id`, `agent_id`, `requester`, `trigger` and the like are taken too. `messages`, in `format`, make
    the transcript behind an event's `results` or editor: a real one, in memory, that can be trimmed.
    """
    known = {one.name for one in dataclasses.fields(kind)}
    place = {name: fields.pop(name) for name in _INFO & fields.keys()}
    if messages and not known & {"messages", "results", "transcript"}:
        raise TypeError(f"{kind.__name__} has neither messages nor results")
    for name in fields.keys() - known:
        raise TypeError(f"{kind.__name__} has no field '{name}'.{did_you_mean(name, known | _INFO)}")
    fields = {name: _CONVERTERS[name](value) if name in _CONVERTERS else value for name, value in fields.items()}
    if kind is not hooks.UnwrapToolCall:
        fields.setdefault("tool", _tool("some_tool"))
    defaults: dict[str, Callable[[], Any]] = {
        "tools": tuple,
        "deferrable": tuple,
        "names": tuple,
        "arguments": dict,
        "result": lambda: ToolResult(""),
        "record": lambda: RunStarted(trigger="user"),
        "stats": dict,
        "message": lambda: get_format(format).reply("All is done."),
        "text": lambda: "All is done.",
        "call": lambda: ToolCall("call_1", _name_of(fields.get("tool")), fields["arguments"]),
        "catalog": lambda: build_catalog(fields.get("offered", ())),
        "offered": lambda: tuple(fields["catalog"]),
        "messages": lambda: [dict(message) for message in messages],
        "results": lambda: Results(_transcript(messages, format), "test"),
        "transcript": lambda: TranscriptEditor(_transcript(messages, format), "agent_end"),
    }
    for name, make in defaults.items():
        if name in known and name not in fields:
            fields[name] = make()
    where: dict[str, Any] = {"session_id": "test", "run_id": "run-test", "attempt": 1, **place}
    return kind(info=RunInfo(**where), **{name: value for name, value in fields.items() if name in known})


def _tool(value: Tool | str | None) -> Tool | None:
    return Tool(name=value, source="host", owner="test") if isinstance(value, str) else value


def _tools(values: Iterable[Tool | str]) -> tuple[Tool, ...]:
    return tuple(tool for tool in map(_tool, values) if tool is not None)


def _catalog(values: Iterable[Tool | str]) -> Catalog:
    return values if isinstance(values, Catalog) else build_catalog(_tools(values))


def _result(value: ToolResult | str) -> ToolResult:
    return ToolResult(value) if isinstance(value, str) else value


def _name_of(tool: Tool | None) -> str:
    return tool.name if tool else "some_tool"


_CONVERTERS: Mapping[str, Callable[[Any], Any]] = {
    "tool": _tool,
    "tools": _tools,
    "deferrable": _tools,
    "offered": _tools,
    "catalog": _catalog,
    "result": _result,
}


class _NoLog:
    """Keeps nothing: the transcript of one event lives as long as the event."""

    existed = False
    token = 1

    async def read(self) -> tuple[list[Message], list[Entry]]:
        return [], []

    async def append_messages(self, messages: Sequence[Message]) -> None: ...

    async def append_journal(self, entries: Sequence[Entry], *, verify: bool = False) -> None: ...

    async def verify(self) -> None: ...

    async def close(self) -> None: ...


def _transcript(messages: Sequence[Message], format_name: str) -> Transcript:
    transcript = Transcript(_NoLog(), "test")
    journal = [{"kind": "format", "name": format_name, "m": 0}]
    # Opening one is async, and a unit test of a plain `def` is not.
    transcript._ledger = Ledger.replay(list(messages), journal, get_format(format_name))  # noqa: SLF001 # pyright: ignore[reportPrivateUsage]
    return transcript


class Recorder:
    """A plugin that keeps the events of all sessions of its host. Made by `recorder()`.

    ```python
    import anyio

    from hooksdk.hooks import AfterModelCall
    from hooksdk.testing import open_session, play, recorder

    async def main() -> None:
        recorded = recorder("after_model_call")
        async with open_session(recorded) as session:
            await play(session, ["Hello."])
        assert [event.message["content"] for event in recorded.of(AfterModelCall)] == ["Hello."]

    anyio.run(main)
    ```

    Attributes:
        events: All events. Those of observers come in the background: complete when the run's block is left.
    """

    plugin_id = "recorder"
    events: ClassVar[list[Event]]

    @classmethod
    def of(cls, kind: type[E]) -> list[E]:
        """The events of this type, in order."""
        return [one for one in cls.events if isinstance(one, kind)]

    @classmethod
    def fired(cls) -> list[str]:
        """The names of the hooks that were fired, in order."""
        names = {hook.event: name for name, hook in HOOKS.items()}
        return [names[type(one)] for one in cls.events]


def recorder(*hook_names: str) -> type[Recorder]:
    """A new plugin that keeps every event, before any handler that is not `.first` too; its answer is always None.

    It takes part in the named hooks, by default in all but two: `trace`, which would drown the others, and
    `resolve_secrets`, where a handler means that placeholders in arguments are secrets.
    """
    names = hook_names or [name for name in HOOKS if name not in {"trace", "resolve_secrets"}]
    for name in names:
        if name not in HOOKS:
            raise LookupError(f"'{name}' is not a hook.{did_you_mean(name, HOOKS)}")
    members: dict[str, Any] = {name: _keeper(name) for name in names}
    return type("Recorder", (Recorder,), {"events": [], "__module__": __name__, **members})


def _keeper(hook_name: str) -> Any:
    async def keep(self: Recorder, event: Event) -> None:
        self.events.append(event)

    keep.__name__, keep.__qualname__ = hook_name, f"Recorder.{hook_name}"
    return HOOKS[hook_name].first(keep)
