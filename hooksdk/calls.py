"""A tool call, what comes back from it, and how a past result is described."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, final

from hooksdk import schema

__all__ = ["Origin", "ResultInfo", "ToolCall", "ToolResult", "TrimReceipt"]

Origin = Literal["model", "bridge", "code", "tool"]
"""Where a call comes from: the model itself, a bridge call unwrapped, a script in code mode, or another tool."""


@final
class ToolCall:
    """One request to use a tool. Immutable: `arguments` hands out a fresh copy at each access.

    `arguments` may be the object itself or the JSON text that a model wrote; text is read when the call runs.
    """

    __slots__ = ("_arguments", "id", "name", "origin", "parent_id")

    id: str
    """The provider's id of the call; ids repeat in real sessions, so it is no address by itself."""
    name: str
    """The tool's name as the caller wrote it."""
    origin: Origin
    parent_id: str | None
    """The id of the call that this one was made by; None for the model's own."""

    def __init__(
        self,
        id: str,  # noqa: A002 - the field's own word
        name: str,
        arguments: object = None,
        *,
        origin: Origin = "model",
        parent_id: str | None = None,
    ) -> None:
        for field, value in (("id", id), ("name", name), ("origin", origin), ("parent_id", parent_id)):
            object.__setattr__(self, field, value)
        object.__setattr__(self, "_arguments", _copy(arguments))

    @property
    def arguments(self) -> Any:
        """The arguments as they were written: an object, JSON text, or None. A fresh copy at each access."""
        return _copy(self._arguments)  # type: ignore[attr-defined]

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"a ToolCall is immutable; make a new one instead of setting {name!r}")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"a ToolCall is immutable; cannot delete {name!r}")

    def __repr__(self) -> str:
        return f"ToolCall(id={self.id!r}, name={self.name!r}, origin={self.origin!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ToolCall) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash((self.id, self.name, self.origin, self.parent_id))

    def __reduce__(self) -> tuple[Any, ...]:
        return _restore_call, self._key()

    def _key(self) -> tuple[Any, ...]:
        return self.id, self.name, self.arguments, self.origin, self.parent_id


def _restore_call(call_id: str, name: str, arguments: object, origin: Origin, parent_id: str | None) -> ToolCall:
    return ToolCall(call_id, name, arguments, origin=origin, parent_id=parent_id)


@final
class ToolResult:
    """What came back from a call. Immutable.

    `text` is what the model reads. `blocks` keeps other content in MCP's shape (`{"type": "image", ...}`, text
    blocks among them); without it the text is the only content. `structured` is the machine-readable form that a
    tool with an output schema gives.
    """

    __slots__ = ("_blocks", "_structured", "is_error", "text")

    text: str
    is_error: bool

    def __init__(
        self,
        text: str | None = None,
        *,
        is_error: bool = False,
        blocks: Iterable[Mapping[str, Any]] = (),
        structured: object = None,
    ) -> None:
        kept = tuple(schema.clone(dict(block)) for block in blocks)
        if text is None:
            text = "\n".join(str(block.get("text", "")) for block in kept if block.get("type") == "text")
        object.__setattr__(self, "text", text)
        object.__setattr__(self, "is_error", is_error)
        object.__setattr__(self, "_blocks", kept)
        object.__setattr__(self, "_structured", _copy(structured))

    @classmethod
    def error(cls, text: str) -> ToolResult:
        """A result that tells the model what went wrong."""
        return cls(text, is_error=True)

    @property
    def blocks(self) -> list[dict[str, Any]]:
        """The content as MCP blocks, fresh copies; a result of plain text is one text block."""
        if not self._blocks:  # type: ignore[attr-defined]
            return [{"type": "text", "text": self.text}]
        return [schema.clone(block) for block in self._blocks]  # type: ignore[attr-defined]

    @property
    def plain(self) -> bool:
        """True when the text is all there is."""
        return not self._blocks  # type: ignore[attr-defined]

    @property
    def structured(self) -> Any:
        """The structured form, a fresh copy, or None."""
        return _copy(self._structured)  # type: ignore[attr-defined]

    def with_text(self, text: str, *, structured: object = None) -> ToolResult:
        """The same result with other text: text blocks are replaced by one, other content is kept. The structured form
        is left out unless it is given, since it may say what the text is to say no longer."""
        others = [] if self.plain else [block for block in self.blocks if block.get("type") != "text"]
        blocks = [] if self.plain else [{"type": "text", "text": text}, *others]
        return ToolResult(text, is_error=self.is_error, blocks=blocks, structured=structured)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"a ToolResult is immutable; make a new one instead of setting {name!r}")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"a ToolResult is immutable; cannot delete {name!r}")

    def __repr__(self) -> str:
        shown = self.text if len(self.text) <= 60 else self.text[:57] + "..."
        return f"ToolResult({shown!r}, is_error={self.is_error})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ToolResult) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash((self.text, self.is_error))

    def __reduce__(self) -> tuple[Any, ...]:
        return _restore_result, self._key()

    def _key(self) -> tuple[Any, ...]:
        blocks = None if self.plain else self.blocks
        return self.text, self.is_error, blocks, self.structured


def _restore_result(text: str, is_error: bool, blocks: list[dict[str, Any]] | None, structured: object) -> ToolResult:
    return ToolResult(text, is_error=is_error, blocks=blocks or (), structured=structured)


def _copy(value: object) -> Any:
    return value if value is None or isinstance(value, (str, int, float)) else schema.clone(value)


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultInfo:
    """One tool result of the session's transcript, described without its body."""

    handle: str
    """Short, stable and never reused in the session: `r17`."""
    call_id: str
    tool: str
    """The tool that ran, whatever bridge the call came by; empty when the call is not in the transcript."""
    position: int
    """Which message of the transcript holds it, from 0."""
    characters: int
    tokens: int
    """An estimate: characters / 4."""
    turns_ago: int
    """How many model turns came after it; 0 for the newest."""
    arguments: str
    """A short summary of the call's arguments."""
    is_error: bool
    disposable: bool
    """Made by a tool whose results may go first (search hits, schemas)."""
    trimmed: bool
    """A trim of it is applied: the model sees the short form."""
    queued: bool
    """A trim of it waits for the fence to open."""
    why_not: str | None
    """Why it cannot be trimmed, or None."""

    @property
    def trimmable(self) -> bool:
        """True when a trim of it would be accepted."""
        return self.why_not is None


@dataclass(frozen=True, slots=True, kw_only=True)
class TrimReceipt:
    """What became of a request to trim or restore one result."""

    handle: str
    status: Literal["queued", "already_queued", "already_trimmed", "not_trimmed"]
    characters_before: int
    characters_after: int
    text: str
    """The text that will stand (or stands) in the result's place."""
