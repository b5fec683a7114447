"""A tool call, what comes back from it, and how a past result is described."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import KW_ONLY, dataclass, field
from typing import Any, Literal, final

from hooksdk import schema
from hooksdk._origins.labels import TRUSTED, UNTRUSTED, Labels, join_labels, read_labels, shown_labels
from hooksdk._schema.fresh import Fresh, put_fresh
from hooksdk.errors import WrongArgument, check, check_list
from hooksdk.values import readable

__all__ = [
    "TRUSTED",
    "UNTRUSTED",
    "CallInDoubt",
    "CallOrigin",
    "Labels",
    "ResultInfo",
    "ToolCall",
    "ToolResult",
    "TrimReceipt",
    "join_labels",
    "shown_labels",
]

CallOrigin = Literal["model", "bridge", "code", "tool"]
"""Where a call comes from: the model itself, a bridge call unwrapped, a script in code mode, or another tool."""


class _Arguments(Fresh[Any]):
    """The field for a call's arguments: copied when they come in, since their maker may go on changing them."""

    def __set__(self, instance: object, value: object) -> None:
        super().__set__(instance, value if value is self else readable(value))


@final
@dataclass(frozen=True)
class ToolCall:
    """One request to use a tool. Immutable.

    ```python
    from hooksdk import ToolCall

    call = ToolCall("call_1", "read_file", {"path": "notes.md"})
    assert call == ToolCall("call_1", "read_file", {"path": "notes.md"})
    assert call.arguments is not call.arguments
    ```

    Attributes:
        id: The provider's id of the call; ids repeat in real sessions, so it is no address by itself.
        name: The tool's name as the caller wrote it.
        arguments: The arguments as they were written: an object, the JSON text that a model wrote (read when the call
            runs), or None. A fresh copy at each access. For arguments that cannot be copied (nested too deep, not JSON)
            stands a text that says so; the model reads it as the refusal of the call.
        parent_id: The id of the call that this one was made by; None for the model's own.
    """

    id: str
    name: str
    arguments: _Arguments = field(default=_Arguments(None), hash=False, repr=False)
    _: KW_ONLY
    origin: CallOrigin = "model"
    parent_id: str | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        for name in ("id", "name"):
            if type(value := getattr(self, name)) is not str:
                check(f"ToolCall({name}=...)", value, str, "text")


def _copied(where: str, value: Any) -> Any:
    try:
        return schema.clone(value)
    except schema.Uncloneable as error:
        raise WrongArgument(where, str(error), "Give a JSON value") from None


@final
@dataclass(frozen=True, init=False, repr=False)
class ToolResult:
    """What came back from a call. Immutable.

    ```python
    from hooksdk import ToolResult

    result = ToolResult("done", structured={"lines": 3})
    assert (result.text, result.is_error, result.structured) == ("done", False, {"lines": 3})
    assert result.blocks == [{"type": "text", "text": "done"}]
    ```

    Attributes:
        text: What the model reads; where it is not passed, the text blocks joined by line breaks.
        plain: True when the text is all there is.
        blocks: The content in MCP's shape (`{"type": "image", ...}`, text blocks among them), fresh copies. A result of
            plain text is one text block.
        structured: The machine-readable form that a tool with an output schema answers, a fresh copy, or None.
        meta: What an MCP server says beside the result under `_meta`, for clients and not for models; a fresh copy, or
            None.
        references: Names of tools that a search has met, of those that the request declares without showing them
            (`run.definitions`): where the provider takes them, they stand in the text's place, and the model sees the
            tools from there on.
        labels: What the text is worth: with `trusted` it is as good as what the user says, with `untrusted` an outsider
            may have written it, with none of both it is neither, as hooksdk's own words are. None: nobody has said,
            which counts as `untrusted`; a result that a run hands out has its labels.
        handle: Of the earlier result whose text this is once more; empty for a new one.
    """

    text: str
    is_error: bool
    plain: bool
    blocks: Fresh[list[dict[str, Any]]] = field(default=Fresh(), hash=False)
    structured: Fresh[Any] = field(default=Fresh(), hash=False)
    meta: Fresh[dict[str, Any] | None] = field(default=Fresh(), hash=False)
    references: tuple[str, ...] = ()
    labels: Labels | None = field(default=None, compare=False)
    handle: str = field(default="", compare=False)

    def __init__(
        self,
        text: str | None = None,
        *,
        is_error: bool = False,
        blocks: Iterable[Mapping[str, Any]] = (),
        structured: object = None,
        meta: Mapping[str, Any] | None = None,
        references: Iterable[str] = (),
        labels: str | Iterable[str] | None = None,
        handle: str = "",
    ) -> None:
        if text is not None and type(text) is not str:
            check("ToolResult(text=...)", text, str, "text", "A value that is not text goes into structured=...")
        content: list[dict[str, Any]] = []
        for at, block in enumerate(check_list("ToolResult(blocks=...)", blocks, "blocks") if blocks != () else ()):
            where = f"ToolResult(blocks=...), item {at}"
            check(where, block, Mapping, 'a block such as {"type": "text", "text": ...}')
            content.append(_copied(where, dict(block)))
        if structured is not None:
            structured = _copied("ToolResult(structured=...)", structured)
        if meta is not None:
            check("ToolResult(meta=...)", meta, Mapping, 'a mapping such as {"example.org/pages": 3}')
            meta = _copied("ToolResult(meta=...)", dict(meta))
        if text is None:
            text = "\n".join(str(block.get("text", "")) for block in content if block.get("type") == "text")
        if type(handle) is not str:
            check("ToolResult(handle=...)", handle, str, "text", "It is the handle of an earlier result, such as r17")
        state = vars(self)  # the instance is frozen
        state["text"], state["is_error"], state["plain"], state["handle"] = text, is_error, not content, handle
        names = check_list("ToolResult(references=...)", references, "names") if references else ()
        state["references"] = tuple(names)
        state["labels"] = None if labels is None else read_labels("ToolResult(labels=...)", labels)
        put_fresh(self, blocks=content or [{"type": "text", "text": text}], structured=structured, meta=meta)

    @classmethod
    def error(cls, text: str) -> ToolResult:
        """A result that tells the model what went wrong."""
        return cls(text, is_error=True)

    def with_text(self, text: str, *, structured: object = None) -> ToolResult:
        """The same result with other text: text blocks are replaced by one, other content stays. The structured form
        is left out unless it is passed, and `meta` is: they may say what the text is to say no longer. Its labels
        stay."""
        others = [block for block in self.blocks if block.get("type") != "text"]
        blocks = [] if self.plain else [{"type": "text", "text": text}, *others]
        same: dict[str, Any] = {"is_error": self.is_error, "references": self.references, "handle": self.handle}
        return ToolResult(text, blocks=blocks, structured=structured, labels=self.labels, **same)

    def with_labels(self, labels: str | Iterable[str] | None) -> ToolResult:
        """The same result with these labels."""
        twin = object.__new__(ToolResult)
        vars(twin).update(vars(self), labels=read_labels("ToolResult.with_labels(...)", labels))
        return twin

    def __repr__(self) -> str:
        start = self.text if len(self.text) <= 60 else self.text[:57] + "..."
        return f"ToolResult({start!r}, is_error={self.is_error})"


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultInfo:
    """One tool result of the session's transcript, described without its body.

    ```python
    import anyio

    from hooksdk.testing import call, open_session, play

    def now() -> str:
        "Tell the time."
        return "noon"

    async def main() -> None:
        async with open_session(tools=[now]) as session:
            await play(session, [call("now"), "It is noon."])
            (info,) = session.results.list()
        assert (info.handle, info.tool, info.characters, info.trimmable) == ("r1", "now", 4, False)

    anyio.run(main)
    ```

    Attributes:
        handle: Short, stable and never reused in the session: `r17`.
        tool: The tool that ran, whatever bridge the call came by; empty when the call is not in the transcript.
        position: Which message of the transcript holds it, from 0.
        tokens: An estimate: characters / 4.
        turns_ago: How many model turns came after it; 0 for the newest.
        arguments: A short summary of the call's arguments.
        disposable: Made by a tool whose results may go first (search hits, schemas).
        trimmed: A trim of it is applied: the model sees the short form.
        queued: A trim of it waits for the fence to open.
        why_not: Why it cannot be trimmed, or None.
        missed_trim: Why its last trim changed nothing when the fence opened, if so: what is stored is not what the trim
            was made for, or it was compacted away meanwhile.
        small: True when it is not `trimmable` only because a trim would save little: `trim(..., small=True)` shortens
            it all the same, for a request that would be too long else.
        labels: What its text is worth: see `ToolResult.labels`.
        argument: The argument of the call that this describes instead of its result, in `results.list(arguments=True)`:
            its handle is `r17.content`, its `position` that of the call.
    """

    handle: str
    call_id: str
    tool: str
    position: int
    characters: int
    tokens: int
    turns_ago: int
    arguments: str
    is_error: bool
    disposable: bool
    trimmed: bool
    queued: bool
    why_not: str | None
    missed_trim: Literal["stale", "gone"] | None = None
    small: bool = False
    labels: Labels = frozenset((UNTRUSTED,))
    argument: str = ""

    @property
    def trimmable(self) -> bool:
        """True when a trim of it would be accepted."""
        return self.why_not is None


@dataclass(frozen=True, slots=True, kw_only=True)
class CallInDoubt:
    """A call that began, and of which nobody knows how it ended: its process died, its run was cancelled, its time was
    up. It may have taken effect. `session.settle` ends the doubt.

    ```python
    from hooksdk.calls import CallInDoubt

    def line(call: CallInDoubt) -> str:
        return f"{call.name} {call.arguments}: look for {call.effect_id}"
    ```

    Attributes:
        name: The tool's name in its run.
        tool: The tool's id.
        arguments: Those with which it ran, as JSON, without the values of secrets; what is long is cut off.
        digest: Stands for all of them: an equal call has the same.
        effect_id: As the tool was told it (`ToolContext.effect_id`): by it a service may know whether the effect took
            place.
        parent_id: The id of the call that made this one; None for the model's own.
        began: When, in seconds since 1970.
        lost: It ran to its end, and the conversation has lost the reply that made it: only its effect is left.
    """

    call_id: str
    name: str
    tool: str
    arguments: str
    digest: str
    effect_id: str
    parent_id: str | None
    began: float
    lost: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class TrimReceipt:
    """What became of a request to trim or restore one result.

    ```python
    import anyio

    from hooksdk.testing import call, open_session, play

    def poem() -> str:
        "Recite a poem."
        return "Shall I compare thee to a summer's day? " * 50

    async def main() -> None:
        async with open_session(tools=[poem]) as session:
            await play(session, [call("poem"), "Beautiful."])
            receipt = await session.results.trim("r1", "a sonnet")
        assert (receipt.handle, receipt.status, receipt.characters_before) == ("r1", "applied", 2000)

    anyio.run(main)
    ```

    Attributes:
        status: `applied` only where no run is open; else the fence opens at the run's end.
        text: The text that will stand (or stands) in the result's place.
    """

    handle: str
    status: Literal["queued", "applied", "already_queued", "already_trimmed", "not_trimmed"]
    characters_before: int
    characters_after: int
    text: str
