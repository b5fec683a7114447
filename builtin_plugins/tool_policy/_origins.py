"""What the text of tools' results is worth, as the operator says it, and rules that go by it: by what the agent has read,
and by where the values of a call come from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal, cast

from pydantic import AfterValidator, BeforeValidator, PlainSerializer

from builtin_plugins.tool_policy._conditions import leaves_of, with_outer
from builtin_plugins.tool_policy._strict import Strict, Texts, as_list
from hooksdk import Tool
from hooksdk.calls import read_labels
from hooksdk.errors import did_you_mean
from hooksdk.hooks import BeforeToolCall, LabelResult, Origin
from hooksdk.patterns import ToolPattern, check_patterns

TRUSTED = "trusted"
_KNOWN = (TRUSTED, "untrusted")


def check_labels(labels: list[str]) -> list[str]:
    """Labels of one's own are welcome, but for those that are nearly one of the two that mean something here."""
    read_labels("the label", labels)
    for label in labels:
        if label not in _KNOWN and (hint := did_you_mean(label, _KNOWN)):
            raise ValueError(f"there is no label {label!r}.{hint}")
    if set(_KNOWN) <= set(labels):
        raise ValueError("a text is trusted or untrusted, not both")
    return labels


Labels = Annotated[Texts, AfterValidator(check_labels)]


class ResultLabels(Strict):
    """What the text of some tools' results is worth.

    Attributes:
        tools: Patterns. Where the label is `trusted` they count as they are written, else by their words.
        label: `trusted`, `untrusted`, or words of your own.
    """

    tools: Annotated[Texts, AfterValidator(check_patterns)]
    label: Labels

    def fits(self, tool: Tool) -> bool:
        """True for tools that the entry is about."""
        means = ToolPattern.matches if TRUSTED in self.label else ToolPattern.may_mean
        return any(means(ToolPattern(text), tool) for text in self.tools)


def labels_of(entries: Sequence[ResultLabels], event: LabelResult) -> list[str]:
    """All that the entries say of a result. What somebody else answers in the tool's place is not trusted for its
    sake."""
    tool = event.tool
    every = [label for entry in entries if tool is not None and entry.fits(tool) for label in entry.label]
    return [label for label in every if label != TRUSTED or event.status == "ok"]


def without_trust(entries: object) -> tuple[object, int]:
    """The entries that trust nothing, and how many do."""
    if not isinstance(entries, list):
        return entries, 0
    every = cast("list[Any]", entries)
    strict = [entry for entry in every if not _says_trusted(entry)]
    return strict, len(every) - len(strict)


def _says_trusted(entry: object) -> bool:
    label = cast("Mapping[str, Any]", entry).get("label") if isinstance(entry, Mapping) else None
    return label == TRUSTED or (isinstance(label, list) and TRUSTED in label)


# What clears a value: that the user wrote it or a person agreed to it, or that it stands in a trusted result.
Source = Literal["prompt", "trusted"]
_BOTH = ["prompt", "trusted"]
ADDRESSES = "**addresses"


def _by_path(value: object) -> object:
    """Paths, each with what clears a value there; in a list of paths both do."""
    if isinstance(value, Mapping):
        table = cast("Mapping[str, object]", value)
    else:
        paths = as_list(value)
        table = dict.fromkeys(map(str, cast("list[object]", paths)), _BOTH) if isinstance(paths, list) else {}
    if not table:
        raise ValueError(f"write paths of arguments, such as ['to', '{ADDRESSES}']")
    for path in table:
        if path.startswith("**") and path != ADDRESSES:
            raise ValueError(f"there is no path {path!r}; write '{ADDRESSES}', or the name of an argument")
    return {path: as_list(sources) for path, sources in table.items()}


def _as_written(table: Mapping[str, list[Source]]) -> object:
    """The shorter form, where both sources clear the values."""
    return list(table) if all(sources == _BOTH for sources in table.values()) else table


def _check_read(labels: list[str]) -> list[str]:
    if TRUSTED in check_labels(labels):
        raise ValueError("nothing is the worse for trusted text; write 'untrusted', or a label of your own")
    return labels


ReadLabels = Annotated[Texts, AfterValidator(_check_read)]
ByPath = Annotated[dict[str, list[Source]], BeforeValidator(_by_path), PlainSerializer(_as_written)]


class Reading:
    """The conditions of one rule on what was read and on where values come from. All of them raise `LookupError` where
    that is not known."""

    def __init__(self, labels: Sequence[str] | None, surely: ByPath | None, elsewhere: ByPath | None) -> None:
        self._labels = frozenset(labels or ())
        self._surely = surely or {}
        self._elsewhere = elsewhere or {}

    def __bool__(self) -> bool:
        return bool(self._labels or self._surely or self._elsewhere)

    @property
    def paths(self) -> dict[str, list[Source] | None]:
        """Those that the conditions are about, each with what clears a value there; None where a value must stand at
        each."""
        return {**self._elsewhere, **dict.fromkeys(self._surely)}

    def as_written(self) -> dict[str, Any]:
        """The conditions by the keys of a rule."""
        return {
            **({"after_reading": sorted(self._labels)} if self._labels else {}),
            **({"values_from": _as_written(self._surely)} if self._surely else {}),
            **({"values_from_elsewhere": _as_written(self._elsewhere)} if self._elsewhere else {}),
        }

    def strange(self, event: BeforeToolCall) -> list[Origin]:
        """The values that come from elsewhere, each once."""
        origins = [
            origin
            for path, sources in {**self._surely, **self._elsewhere}.items()
            for origin in event.origins(path)
            if not _is_from(origin, sources)
        ]
        return list({(origin.path, origin.value, origin.digest): origin for origin in origins}.values())

    def why_not(self, event: BeforeToolCall) -> str:
        """Why they do not hold; empty where they do."""
        if self._labels and not self._labels & event.labels:
            return f"nothing was read that is {' or '.join(sorted(self._labels))}"
        strange = self.strange(event)
        if self._elsewhere and not strange:
            return "every value stands where it may come from"
        if self._surely and strange:
            return f"values_from does not hold: {strange[0]}"
        # A call without any address has none from elsewhere; an argument that is not there is nobody's word.
        empty = next((path for path in self._surely if path != ADDRESSES and not _stands_at(event, path)), None)
        return f"values_from does not hold: nothing stands at {empty!r}" if empty else ""

    def why(self, event: BeforeToolCall) -> str:
        """What they go by; empty where there are none."""
        read = sorted(self._labels & event.labels)
        return "; ".join([*([f"{' and '.join(read)} text was read"] if read else []), *map(str, self.strange(event))])


def _is_from(origin: Origin, sources: Sequence[Source]) -> bool:
    return origin.cleared and ("trusted" if origin.kind == "result" else "prompt") in sources


def _stands_at(event: BeforeToolCall, path: str) -> bool:
    """True where a value stands under this very name: what has another spelling only some tools would take for it."""
    found = {origin.value for origin in event.origins(path)}
    return any(
        leaf.value in found if leaf.is_key else _says(leaf.value)
        for leaf in leaves_of(event.arguments)
        if path in with_outer(leaf.name)
    )


def _says(value: object) -> bool:
    return isinstance(value, (str, int, float)) and not isinstance(value, bool) and bool(str(value).strip())
