"""`does`: what a call does, by the tool's name and by the commands of the lines in its arguments."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast

from builtin_plugins.tool_policy._conditions import Condition, Words, folder_in
from builtin_plugins.tool_policy._effects import Part, parts_of_line, parts_of_patch, surely_reads
from builtin_plugins.tool_policy._vocabulary import EVERYTHING, Kind, Use, Vocabulary
from hooksdk import Tool


class Does:
    """What one rule says of it, with its conditions on paths and addresses, which must fit what does it."""

    def __init__(self, wanted: Sequence[Kind], conditions: Sequence[Condition], vocabulary: Vocabulary) -> None:
        self._wanted = frozenset(wanted)
        self._said = ", ".join(wanted)
        self._conditions = conditions
        self._in_words = [one for one in conditions if one.key != "command"]
        self._vocabulary = vocabulary

    def knows(self, tool: Tool) -> bool:
        """True where it is said what the tool does."""
        return self._vocabulary.use_of(tool) is not None

    @property
    def allowed(self) -> frozenset[Kind]:
        """All that a call may do which an allow fits. Who may write may read what is changed."""
        return self._wanted | (frozenset[Kind]({"read"}) if "write" in self._wanted else frozenset[Kind]())

    def may_settled_by(self, tool: Tool) -> bool | None:
        """What `why` says of all calls of the tool: True where there is always one, False where never."""
        use = self._vocabulary.use_of(tool)
        if use is None or (use.does & self._wanted and not use.patches):
            return None if self._conditions else True
        return None if use.lines or use.patches else False

    def surely_settled_by(self, tool: Tool) -> bool | None:
        """What `why_not_surely` says of all calls of the tool: True where there is never one, False where always."""
        use = self._vocabulary.use_of(tool)
        return None if use is not None and use.lines else not self.why_not_surely({}, tool)

    def why_not_surely(self, arguments: Mapping[str, Any], tool: Tool) -> str:
        """Why an allow does not fit the call: it may do more."""
        kinds = self._surely(arguments, self._vocabulary.use_of(tool))
        if kinds <= self.allowed and kinds & self._wanted:
            return ""
        return f"it may do more than {self._said}, or something else" if kinds else "it does nothing of that"

    def _surely(self, arguments: Mapping[str, Any], use: Use | None) -> frozenset[Kind]:
        if use is None or any(parts is None for _, parts in self._parts(arguments, use) if use.patches):
            return EVERYTHING
        if not use.lines:
            return use.does
        lines = [line for _, line in _lines(arguments, use)]
        return frozenset({"read"}) if lines and all(map(surely_reads, lines)) else EVERYTHING

    def why(self, arguments: Mapping[str, Any], tool: Tool, workspace: str | None) -> str:
        """Why a deny or an ask fits the call: what may be done in it. Empty when it surely does something else."""
        use = self._vocabulary.use_of(tool)
        whole = {} if use is None else {name: one for name, one in arguments.items() if name not in use.texts}
        if use is None:
            return self._whole(arguments, workspace, "it counts as everything")
        if use.does & self._wanted and not use.patches and (why := self._whole(whole, workspace, "")):
            return why
        for name, parts in self._parts(arguments, use):
            if parts is None:
                return f"the argument {name!r} cannot be read for sure, so that it may {self._said}"
            for part in parts:
                if why := self._part(name, part, arguments, workspace):
                    return why
        return ""

    def _parts(self, arguments: Mapping[str, Any], use: Use) -> Iterator[tuple[str, list[Part] | None]]:
        folder = folder_in(arguments)
        for name, line in _lines(arguments, use):
            yield name, parts_of_line(line, folder)
        patches = [(name, arguments[name]) for name in use.patches if isinstance(arguments.get(name), str)]
        for name, patch in patches:
            yield name, parts_of_patch(patch)
        if use.patches and not patches:
            yield use.patches[0], None

    def _whole(self, arguments: Mapping[str, Any], workspace: str | None, doubt: str) -> str:
        whys = [one.why(arguments, workspace) for one in self._conditions]
        return "; ".join(filter(None, (f"it may {self._said}", doubt, *whys))) if all(whys) else ""

    def _part(self, name: str, part: Part, arguments: Mapping[str, Any], workspace: str | None) -> str:
        if not part.does & self._wanted:
            return ""
        if not all(one.fits_words(name, Words(part.words, part.starts), workspace) for one in self._in_words):
            return ""
        if not all(one.why(arguments, workspace) for one in self._conditions if one.key == "command"):
            return ""
        keys = " and ".join(one.key for one in self._in_words)
        return f"a command in {name!r} may {self._said}" + (f", with a word that fits {keys}, or may" if keys else "")


def _lines(arguments: Mapping[str, Any], use: Use) -> Iterator[tuple[str, str]]:
    """The lines in a call; a list of words as a line."""
    for name in use.lines:
        value = arguments.get(name, "")
        if isinstance(value, str):
            yield name, value
        elif isinstance(value, list) and all(isinstance(word, str) for word in cast("list[object]", value)):
            yield name, shlex.join(cast("list[str]", value))
        else:
            yield name, "'"  # no line, and nothing that could be read as one
