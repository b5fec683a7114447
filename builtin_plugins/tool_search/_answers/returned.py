"""What the tools of a session have returned: keys and types of results, and none of their values."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, cast, final

import anyio.to_thread

from builtin_plugins.tool_search._answers.signatures import returns
from hooksdk import PluginState, Tool, ToolResult

MAX_TOOLS = 100
"""Tools whose results are remembered in a session, those that were seen last."""
MAX_READ = 1_000_000
"""Characters of a result that is read."""
THREAD_FROM = 20_000
"""Characters from which on it is read in a thread."""
MAX_ITEMS = 20
"""Items of a list, the first ones, that tell what it holds."""
MAX_KEYS = 40
"""Keys of an object; one with more is a table, whose keys are values themselves."""
MAX_DEPTH = 4
_KEY = re.compile(r"[A-Za-z_$@][\w$-]{0,39}", re.ASCII)
"""What a programmer calls a field. An address, a path or an id is a value, wherever it stands."""
_UNKNOWN = re.compile(r"\b(?:any|null)\b")
"""In the form of a result: what another one may tell better, such as the items of an empty list."""


@final
class Returned:
    """What is known of the results of a session's tools, by their names; kept with the session."""

    def __init__(self, state: PluginState) -> None:
        self._state = state
        self._forms: dict[str, str] = dict(state.get("returned", dict[str, str]()))

    def of(self, tool: Tool) -> str:
        """What the tool returns, by its output schema, else by an earlier result; empty where neither says so."""
        return returns(tool.output_schema) or self._forms.get(tool.name, "")

    def wants(self, tool: Tool) -> bool:
        """Whether a result of the tool would tell something new."""
        form = self._forms.get(tool.name)
        return (form is None or bool(_UNKNOWN.search(form))) and not returns(tool.output_schema)

    def note(self, tool: Tool, form: str) -> None:
        """A result of the tool had this form. One that says less than what is known changes nothing."""
        known = self._forms.get(tool.name, "")
        if not form or form == known or (known and _UNKNOWN.search(form)):
            return
        self._forms.pop(tool.name, None)
        self._forms[tool.name] = form
        while len(self._forms) > MAX_TOOLS:
            self._forms.pop(next(iter(self._forms)))
        self._state["returned"] = {**self._forms}


async def form_of(result: ToolResult) -> str:
    """Keys and types of a result that is JSON, in the words of a signature; empty for any other."""
    if len(result.text) > MAX_READ:
        return ""
    return _form_of(result) if len(result.text) < THREAD_FROM else await anyio.to_thread.run_sync(_form_of, result)


def _form_of(result: ToolResult) -> str:
    value = result.structured
    if value is None and result.text.lstrip()[:1] in {"{", "["}:
        try:
            value = json.loads(result.text)
        except (ValueError, RecursionError):
            return ""
    return returns(_schema_of([cast("object", value)], 0)) if isinstance(value, (dict, list)) else ""


def _schema_of(values: Sequence[object], depth: int) -> dict[str, Any]:
    """What all of these are: objects and lists are taken together, of anything else each type is told once."""
    objects = [cast("Mapping[Any, object]", value) for value in values if isinstance(value, Mapping)]
    lists = [cast("list[object]", value) for value in values if isinstance(value, list)]
    kinds: list[dict[str, Any]] = [_object_of(objects, depth)] if objects else []
    if lists:
        items = [item for value in lists for item in value[:MAX_ITEMS]]
        kinds.append({"type": "array", "items": _schema_of(items[:MAX_ITEMS], depth + 1)})
    types = dict.fromkeys(_type_of(value) for value in values if not isinstance(value, (Mapping, list)))
    kinds += [{"type": kind} for kind in types if not (kind == "integer" and "number" in types)]
    return kinds[0] if len(kinds) == 1 else {"anyOf": kinds} if kinds else {}


def _type_of(value: object) -> str:
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, (int, float)):
        return "integer" if isinstance(value, int) else "number"
    return "null" if value is None else "string"


def _object_of(objects: Sequence[Mapping[Any, object]], depth: int) -> dict[str, Any]:
    """One object for all of these: a key that some of them have not is optional."""
    keys = dict.fromkeys(key for one in objects for key in one)
    if depth >= MAX_DEPTH or len(keys) > MAX_KEYS or not all(map(_is_field, keys)):
        return {"type": "object"}
    properties = {key: _schema_of([one[key] for one in objects if key in one], depth + 1) for key in keys}
    required = [key for key in keys if all(key in one for one in objects)]
    return {"type": "object", "properties": properties, "required": required}


def _is_field(key: object) -> bool:
    return isinstance(key, str) and _KEY.fullmatch(key) is not None
