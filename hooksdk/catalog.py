"""The catalog granted to one run, and what a running tool is given."""

from __future__ import annotations

import html
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Protocol, TypeVar, final, overload

from hooksdk import schema
from hooksdk._catalog.names import (
    FITS,
    fitting_name,
    full_names,
    keeps_its_name,
    look_of,
    only_fitting,
    readings,
    with_distinct_ids,
)
from hooksdk._firing.event import RunInfo
from hooksdk.calls import CallOrigin, ToolCall, ToolResult
from hooksdk.errors import nearest
from hooksdk.tools import Tool
from hooksdk.transcript import Results

__all__ = ["Catalog", "Storage", "ToolContext", "build_catalog", "full_names", "readings"]

T = TypeVar("T")


@final
class Catalog(Sequence[Tool]):
    """The tools granted to one run, after policy. Nothing outside it can be found, described or called. Immutable.

    ```python
    from hooksdk import Catalog, Tool

    catalog = Catalog([Tool(name="read_file", source="host", owner="core")], withheld={"rm": "nothing is removed here"})
    assert [tool.name for tool in catalog] == ["read_file"]
    assert catalog.get("host:core:read_file") is catalog.get("read_file")
    assert catalog.get("rm") is None
    ```

    Attributes:
        withheld: Tools handed to this run and taken away by policy: name to reason.
        removed_names: Names and ids that an earlier attempt of this run had, and that no tool has now; none of an owner
            that is `missing`.
        missing: Owners whose tools cannot be called now, such as MCP servers that cannot be reached: name to reason.
        diagnostics: What is missing, what was left out, renamed or copied without its schema, one line each.
    """

    __slots__ = (
        "_by_name",
        "_fingerprint",
        "_shared_names",
        "_tools",
        "diagnostics",
        "missing",
        "removed_names",
        "withheld",
    )

    withheld: Mapping[str, str]
    removed_names: frozenset[str]
    missing: Mapping[str, str]
    diagnostics: tuple[str, ...]

    def __init__(
        self,
        tools: Iterable[Tool] = (),
        *,
        withheld: Mapping[str, str] | None = None,
        shared_names: Mapping[str, Sequence[str]] | None = None,
        removed_names: Iterable[str] = (),
        missing: Mapping[str, str] | None = None,
        diagnostics: Iterable[str] = (),
    ) -> None:
        self._tools = tuple(tools)
        self._by_name = {tool.name: tool for tool in self._tools}
        self._shared_names = dict(shared_names or {})
        self._fingerprint: str | None = None
        self.withheld = MappingProxyType(dict(withheld or {}))
        self.removed_names = frozenset(removed_names)
        self.missing = MappingProxyType({str(owner): str(reason) for owner, reason in (missing or {}).items()})
        self.diagnostics = tuple(diagnostics)

    def get(self, name: str) -> Tool | None:
        """The tool that goes by this name or this id, or None."""
        tool = self._by_name.get(name)
        if tool is None and name.count(":") >= 2:
            tool = next((each for each in self._tools if each.id == name), None)
        if tool is None and len(names := self._shared_names.get(name, ())) == 1:
            tool = self._by_name.get(names[0])
        return tool

    def meant(self, name: str, arguments: Mapping[str, Any] | None = None) -> Tool | None:
        """The one granted tool that a model means by this name, or None where none or several could be meant.

        Beside names and ids it reads `owner.tool` and `owner__tool`, `functions.tool`, and a whole signature such as
        `tool(path: string)`. Of several owners' tools of one name it is the one that these arguments fit, if that is
        certain: the keys that it requires are all there, no other key is, and each other tool requires one that is
        missing. A name that is withheld stands for no other tool.
        """
        for text in readings(name):
            if text in self.withheld:
                return None
            if (tool := self.get(text)) is not None:
                return tool
        for text in (text for text in readings(name) if "." in text or "__" in text):
            owned = [tool for tool in self if text in full_names(tool)]
            if owned:
                return owned[0] if len(owned) == 1 else None
        for text in readings(name):
            if (names := self._shared_names.get(text)) and arguments is not None:
                sharing = [self._by_name[full] for full in names if full in self._by_name]
                # One that is withheld may be the one that was meant.
                return only_fitting(sharing, arguments.keys()) if len(sharing) == len(names) else None
        return None

    def sharing(self, name: str) -> Sequence[str]:
        """The granted names that stand for `name`, where several owners chose it; empty otherwise."""
        return [full for full in self._shared_names.get(name, ()) if full in self._by_name]

    def suggest(self, name: str) -> list[str]:
        """The up to three granted names nearest to `name`."""
        return nearest(name, self._by_name)

    def without(self, names: Mapping[str, str]) -> Catalog:
        """This catalog with the tools of these names withheld, each for its reason. A name is the model's, the owner's
        own, or the id."""
        reasons: dict[str, str] = {}
        for tool in self:
            name = next((name for name in (tool.name, tool.own_name, tool.id) if name in names), None)
            if name is not None:
                reasons[tool.name] = names[name]
        return self._narrowed((tool for tool in self if tool.name not in reasons), reasons) if reasons else self

    def also_withholding(self, reasons: Mapping[str, str]) -> Catalog:
        """This catalog, which also knows why these tools beside it are withheld: name to reason."""
        return self._narrowed(self._tools, reasons) if reasons else self

    def _narrowed(self, tools: Iterable[Tool], reasons: Mapping[str, str]) -> Catalog:
        return Catalog(
            tools,
            withheld={**self.withheld, **reasons},
            shared_names=self._shared_names,
            removed_names=self.removed_names,
            missing=self.missing,
            diagnostics=self.diagnostics,
        )

    @property
    def fingerprint(self) -> str:
        """A hash of all names, descriptions and schemas, the same for an unchanged catalog in any order."""
        if self._fingerprint is None:
            self._fingerprint = schema.fingerprint(sorted(tool.fingerprint for tool in self._tools))
        return self._fingerprint

    @property
    def tokens(self) -> int:
        """What all definitions together cost in the context window."""
        return sum(tool.tokens for tool in self._tools)

    @overload
    def __getitem__(self, index: int) -> Tool: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Tool, ...]: ...
    def __getitem__(self, index: int | slice) -> Tool | tuple[Tool, ...]:
        return self._tools[index]

    def __len__(self) -> int:
        return len(self._tools)

    def __iter__(self) -> Iterator[Tool]:
        return iter(self._tools)

    def __contains__(self, item: object) -> bool:
        return item in self._by_name if isinstance(item, str) else item in self._tools

    def __repr__(self) -> str:
        names = [*map(repr, [tool.name for tool in self._tools[:3]]), *(["..."] if len(self) > 3 else [])]
        return f"Catalog({len(self)} tools, {len(self.withheld)} withheld: {', '.join(names)})"

    def _repr_html_(self) -> str:
        """A table for notebooks. What servers wrote is shown as text."""
        lines = [(tool.name, tool.description.strip().partition("\n")[0][:100], tool.tokens) for tool in self._tools]
        cells = "".join(
            f"<tr><td>{html.escape(name)}</td><td>{html.escape(text)}</td><td>{tokens}</td></tr>"
            for name, text, tokens in lines
        )
        return f"<table><tr><th>tool</th><th>description</th><th>tokens</th></tr>{cells}</table>"


def build_catalog(
    tools: Iterable[Tool],
    earlier: Iterable[str] = (),
    reserved: Collection[str] = frozenset(),
    runnable: dict[str, Tool] | None = None,
    missing: Mapping[str, str] | None = None,
) -> Catalog:
    """Give every tool a name of its own. Where two owners chose one name, both become `owner__name`; the host's own
    tool keeps it, where only one of them is the host's. A tool with a name that is `reserved` for a bridge of this run
    becomes `owner__name`, too. A tool without a name is left out, and so is a second one of the same owner and name.
    `diagnostics` says all that. Of the `earlier` names and ids, those that no tool has now are `removed_names`. With
    `runnable` the catalog's tools have no executors; those that have are put in there, by name."""
    notes = [f"'{owner}' is not available: {reason}" for owner, reason in (missing or {}).items()]
    by_look: dict[str, list[Tool]] = {}
    entries = list(with_distinct_ids(tools, notes))
    for entry in entries:
        by_look.setdefault(look_of(entry.name), []).append(entry)
    keepers = {id(keeper): keeper for group in by_look.values() if (keeper := keeps_its_name(group)) is not None}
    taken = {keeper.name for keeper in keepers.values()} | {*reserved}
    new_names: dict[int, str] = {}  # two ids may read the same: owners may hold colons
    shared: dict[str, list[str]] = {}
    for group in by_look.values():
        for entry in group:
            name = f"{entry.owner or entry.source}__{entry.name}"
            if entry.name in reserved:
                reason = "its name is reserved for a bridge tool"
            elif id(entry) in keepers and FITS.fullmatch(entry.name):
                if (
                    len(group) > 1
                ):  # its bare name stands for the others as well, and so for none of them once it is gone
                    shared.setdefault(entry.name, []).append(entry.name)
                continue
            elif id(entry) not in keepers:
                reason = "another tool has its name"
            else:
                reason, name = "providers refuse its name", entry.name
            name = fitting_name(name, entry, taken)
            taken.add(name)
            new_names[id(entry)] = name
            if entry.name not in reserved:
                shared.setdefault(entry.name, []).append(name)
            notes.append(f"{entry.id}: offered as {name}, since {reason}")
    catalog = [entry.copy(name=new_names[id(entry)]) if id(entry) in new_names else entry for entry in entries]
    if runnable is not None:
        runnable.update((entry.name, entry) for entry in catalog)
        catalog = [entry.without_executor() for entry in catalog]
    present = {name for entry in catalog for name in (entry.name, entry.id)}
    removed = {*earlier} - present - shared.keys()
    return Catalog(catalog, shared_names=shared, removed_names=removed, missing=missing, diagnostics=notes)


class Storage(Protocol):
    """A plugin's own durable key-value space in the host's store, shared by all sessions. Values are JSON.

    ```python
    from hooksdk import Storage, hooks

    class Visits:
        def __init__(self, storage: Storage) -> None:
            self.storage = storage

        @hooks.session_start
        async def count(self, event: hooks.SessionStart) -> None:
            await self.storage.update("visits", lambda visits: (visits or 0) + 1)
    ```
    """

    @overload  # the value kept under `key`, or `default`; to type checkers it is of the default's type
    async def get(self, key: str, default: None = None) -> Any: ...
    @overload
    async def get(self, key: str, default: T) -> T: ...

    async def set(self, key: str, value: Any) -> None:
        """Keep `value` under `key`; durable when this returns."""
        ...

    async def delete(self, key: str) -> None:
        """Forget `key`; no error when it is not there."""
        ...

    async def update(self, key: str, change: Callable[[Any], Any]) -> Any:
        """Keep what `change` makes of the value (None: there is none) in one step that nobody's write comes between;
        answers it. None removes it. `change` is called anew where somebody else was faster. Raises `StoreError`."""
        ...

    async def keys(self) -> Sequence[str]:
        """All keys, sorted."""
        ...

    async def now(self) -> float:
        """Seconds since 1970 by the store's clock: on a server of databases one clock for all workers."""
        ...


class ToolContext(Protocol):
    """What a running tool may use. A `@tool` parameter with this type is filled in by the run, and kept out of the
    tool's schema. It is good while the call runs; afterwards its `call_tool` is refused.

    ```python
    from hooksdk import Tool, ToolContext

    async def longest(context: ToolContext) -> str:
        "Name the longest tool result of this session."
        return max(context.results.list(), key=lambda info: info.characters).handle

    assert Tool.from_function(longest, source="host").parameters["properties"] == {}
    ```
    """

    @property
    def session_id(self) -> str:
        """The session of the call."""
        ...

    @property
    def run_id(self) -> str:
        """The run of the call."""
        ...

    @property
    def attempt(self) -> int:
        """Which attempt of the run, from 1."""
        ...

    @property
    def agent_id(self) -> str:
        """The agent whose run it is."""
        ...

    @property
    def info(self) -> RunInfo:
        """What events say of the run: its workspace, who asked, what began it, the model and so on."""
        ...

    @property
    def native(self) -> Any:
        """The object that the host gave with `judged.execute(native=...)`, also in calls that the tool makes; else
        None."""
        ...

    @property
    def call(self) -> ToolCall:
        """The call itself, under the tool's real name."""
        ...

    @property
    def effect_id(self) -> str:
        """The same whenever this call is made again, in a later run or process: by it a service knows a request that it
        has done."""
        ...

    @property
    def fence(self) -> int:
        """The number of this holder of the session: whoever takes the session over has a higher one."""
        ...

    @property
    def fences(self) -> Mapping[str, int]:
        """The fence by session: of the runs around this one, if it is a sub-agent's, and the own one last. Keys stand
        for ids. A service that keeps the highest of each, and refuses a call with a lower one, does nothing for a
        worker that has lost a session."""
        ...

    async def still_held(self) -> bool:
        """True while this worker holds the session, and those of the runs around it; False once it has let one go, or
        another worker has taken one over. Raises `StoreError` where the store cannot be asked, and `TranscriptChanged`
        where somebody else has changed what is stored. The worker may be stopped right after the answer, so that only a
        service that compares `fences` is safe."""
        ...

    @property
    def catalog(self) -> Catalog:
        """The tools granted to this run."""
        ...

    @property
    def results(self) -> Results:
        """The session's tool results, to read and to trim; trims carry the plugin's name."""
        ...

    @property
    def storage(self) -> Storage:
        """The plugin's own key-value space in the host's store."""
        ...

    @property
    def cancelled(self) -> bool:
        """True once the run is over or the call ran out of time: a tool in a thread should stop then."""
        ...

    def mask(self, text: str) -> str:
        """The text with the session's secrets as placeholders, for a tool that cuts it or writes it elsewhere. Its
        result is masked."""
        ...

    def count(self, counter: str, amount: int = 1) -> None:
        """Add to one of the run's counters, which `run.stats` and the `AgentEnd` event show under `counters`."""
        ...

    async def call_tool(self, name: str, arguments: Mapping[str, Any], *, origin: CallOrigin = "tool") -> ToolResult:
        """Call another granted tool; every policy, approval and observer sees it like any other call."""
        ...

    async def progress(self, text: str, share: float | None = None) -> None:
        """Tell the trace how far the call is; `share` runs from 0 to 1."""
        ...
