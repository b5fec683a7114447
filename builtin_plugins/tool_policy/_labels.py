"""What the text of tools' results is worth, as the operator says it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, cast

from pydantic import AfterValidator

from builtin_plugins.tool_policy._strict import Strict, Texts
from builtin_plugins.tool_policy._tables import words_in
from hooksdk import Tool
from hooksdk.calls import read_labels
from hooksdk.errors import did_you_mean
from hooksdk.hooks import LabelResult
from hooksdk.patterns import ToolPattern, check_patterns

TRUSTED = "trusted"
_KNOWN = (TRUSTED, "untrusted")
# Words in the names of tools that answer what others may have named or written.
_NAMED_BY_OTHERS = words_in("""
    calendar channel chat comment commit contact email event file inbox issue mail message note page post pull
    review search thread ticket transaction web webpage
""")


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


def doubtful_trust(entries: Sequence[ResultLabels], tools: Sequence[Tool]) -> Iterator[str]:
    """What is called trusted though others may have a word in it, with what to do."""
    for number, entry in enumerate(entries, 1):
        if TRUSTED not in entry.label:
            continue
        where = f"results {number} ({', '.join(entry.tools)} trusted)"
        for text in entry.tools:
            if ":" not in text:
                yield f"{where}: any server may call a tool {text!r}; write whose it is, such as 'mcp:SERVER:{text}'"
        for tool in tools:
            if entry.fits(tool) and (why := _why_doubtful(tool)):
                yield (
                    f"{where}: {tool.id} {why}, so an outsider may put a name or an address there, and one tool too many undoes "
                    "all rules about values; take it out unless you know that nobody can"
                )


def _why_doubtful(tool: Tool) -> str:
    words = tool.own_name.lower().replace("-", "_").split("_")
    named = next((word for word in words if {word, word.removesuffix("s")} & _NAMED_BY_OTHERS), "")
    if named:
        return f"answers {named!r}, which others may have named or written"
    return "says of itself that it reaches the outside" if tool.annotations.open_world else ""


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
