"""A tool's parameters and what it returns in one line, so that a search hit can be called without its schema."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, cast, final

import anyio.to_thread

from hooksdk import PluginState, Tool, ToolResult
from hooksdk.schema import local_target
from hooksdk.values import as_list, as_object, clip, is_list, is_mapping, kind_of

MAX_SIGNATURE = 400
# A call without its required parameters cannot work, so they are named beyond `MAX_SIGNATURE`; there is a bound all the
# same.
MAX_REQUIRED = 2_000
# Characters of a tool's first sentence in a list.
SENTENCE = 80
MAX_VALUES = 8
MAX_DEPTH = 2
# Characters of what a tool returns: of a form that is longer the inner parts are left out.
MAX_RETURNS = 200
# Levels of unions, arrays and references that are followed: a schema may refer to itself.
MAX_NESTING = 6
_SENTENCE_END = re.compile(r"(?<!^\d)(?<!\be\.g)(?<!\bi\.e)\. ")


def signature(
    name: str, parameters: Mapping[str, Any] | None, *, limit: int = MAX_SIGNATURE, most: int = MAX_REQUIRED
) -> str:
    """`create_issue(title: string, labels?: string[], state?: "open" | "closed")`: required first, then optional."""
    root = parameters or {}
    properties, required = as_object(root.get("properties")), dict.fromkeys(_required(root))
    names = [key for key in required if key in properties] + [key for key in properties if key not in required]
    parts: list[str] = []
    length = len(name)
    for index, key in enumerate(names):
        part = f"{key}{'' if key in required else '?'}: {_type(properties[key], 0, 0, root)}"
        length += len(part) + 2
        if length > (most if key in required else limit):
            parts.append(f"... {len(names) - index} more{'' if key in required else ' optional'}")
            break
        parts.append(part)
    return f"{name}({', '.join(parts)})"


def returns(output_schema: Mapping[str, Any] | None) -> str:
    """`{total: integer, issues: {id: integer, title?: string}[]}`: what such a schema says of a result; empty where it
    says nothing."""
    if not output_schema:
        return ""
    text = _type(output_schema, 0, 0, output_schema)
    if len(text) > MAX_RETURNS:
        text = _type(output_schema, 1, 0, output_schema)
    return "" if text in ("any", "object") else clip(text, MAX_RETURNS)


def row(tool: Tool) -> str:
    """A tool in one line of a list, whatever its owner wrote: its signature, and what it does."""
    line = f"- {signature(tool.name, tool.parameters)}: {summary(tool.description, SENTENCE)}".rstrip(": ")
    return " ".join(line.split())


def summary(description: str, limit: int = 160) -> str:
    """The description's first sentence in one line, clipped."""
    text = " ".join(description.split())
    end = _SENTENCE_END.search(text)
    return clip(text[: end.start() + 1] if end else text, limit)


def _type(part: object, depth: int, level: int, root: Mapping[str, Any]) -> str:
    if not is_mapping(part) or level > MAX_NESTING:
        return "any"
    if "$ref" in part:
        return _type(_target(part["$ref"], root), depth, level + 1, root)
    if "const" in part:
        return _literal(part["const"])
    if values := as_list(part.get("enum")):
        return " | ".join([*map(_literal, values[:MAX_VALUES]), *(["..."] if len(values) > MAX_VALUES else [])])
    for key in ("anyOf", "oneOf", "allOf"):
        options = as_list(part.get(key))
        if options and (key != "allOf" or len(options) == 1):
            kinds = dict.fromkeys(_type(option, depth, level + 1, root) for option in options[:MAX_VALUES])
            return " | ".join(kind for kind in kinds if kind != "null") or "null"
    kind: object = part.get("type")
    if is_list(kind):
        return " | ".join(str(one) for one in kind if one != "null") or "null"
    if kind == "array":
        inner = _type(part.get("items"), depth, level + 1, root)
        return f"({inner})[]" if " | " in inner else f"{inner}[]"
    if kind == "object" or "properties" in part:
        return _object(part, depth, level, root)
    return kind if isinstance(kind, str) else "any"


def _object(schema: Mapping[str, Any], depth: int, level: int, root: Mapping[str, Any]) -> str:
    properties = as_object(schema.get("properties"))
    if not properties or depth >= MAX_DEPTH:
        return "object"
    required = _required(schema)
    parts = [
        f"{key}{'' if key in required else '?'}: {_type(properties[key], depth + 1, level + 1, root)}"
        for key in list(properties)[:MAX_VALUES]
    ]
    return "{" + ", ".join([*parts, *(["..."] if len(properties) > MAX_VALUES else [])]) + "}"


def _target(reference: object, root: Mapping[str, Any]) -> object:
    """What a reference within the same schema stands for; None where it leads nowhere."""
    try:
        return local_target(root, str(reference))
    except LookupError:
        return None


def _literal(value: object) -> str:
    return clip(json.dumps(value, ensure_ascii=False, default=str), 40)


def _required(schema: Mapping[str, Any]) -> list[str]:
    return [str(one) for one in as_list(schema.get("required"))]


# Tools whose results are remembered in a session, those that were seen last.
MAX_TOOLS = 100
# Characters of a result that is read.
MAX_READ = 1_000_000
# Characters from which on it is read in a thread.
THREAD_FROM = 20_000
# Items of a list, the first ones, that tell what it holds.
MAX_ITEMS = 20
# Keys of an object; one with more is a table, whose keys are values themselves.
MAX_KEYS = 40
MAX_FORM_DEPTH = 4
# A name of a field. An address, a path or an id is a value, wherever it stands.
_KEY = re.compile(r"[A-Za-z_$@][\w$-]{0,39}", re.ASCII)
# In the form of a result: what another one may tell better, such as the items of an empty list.
_UNKNOWN = re.compile(r"\b(?:any|null)\b")


@final
class ResultForms:
    """The forms of the results of a session's tools, by the tools' names; kept with the session."""

    def __init__(self, state: PluginState) -> None:
        self._state = state
        self._forms: dict[str, str] = dict(state.get("returned", dict[str, str]()))

    def of(self, tool: Tool) -> str:
        """The form of the tool's result, by its output schema, else by an earlier result; empty where neither tells."""
        return returns(tool.output_schema) or self._forms.get(tool.name, "")

    def wants(self, tool: Tool) -> bool:
        """Whether a result of the tool would tell something new."""
        form = self._forms.get(tool.name)
        return (form is None or bool(_UNKNOWN.search(form))) and not returns(tool.output_schema)

    def note(self, tool: Tool, form: str) -> None:
        """Keep the form of a new result. One that says less than the known form changes nothing."""
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
    """One schema for all these values: objects and lists are merged, of other values each type is named once."""
    objects = [value for value in values if is_mapping(value)]
    lists = [value for value in values if is_list(value)]
    kinds: list[dict[str, Any]] = [_object_of(objects, depth)] if objects else []
    if lists:
        items = [item for value in lists for item in value[:MAX_ITEMS]]
        kinds.append({"type": "array", "items": _schema_of(items[:MAX_ITEMS], depth + 1)})
    types = dict.fromkeys(kind_of(value) for value in values if not isinstance(value, (Mapping, list)))
    kinds += [{"type": kind} for kind in types if not (kind == "integer" and "number" in types)]
    return kinds[0] if len(kinds) == 1 else {"anyOf": kinds} if kinds else {}


def _object_of(objects: Sequence[Mapping[Any, object]], depth: int) -> dict[str, Any]:
    """One object for all of these: a key that some of them have not is optional."""
    keys = dict.fromkeys(key for one in objects for key in one)
    if depth >= MAX_FORM_DEPTH or len(keys) > MAX_KEYS or not all(_KEY.fullmatch(str(key)) for key in keys):
        return {"type": "object"}
    properties = {key: _schema_of([one[key] for one in objects if key in one], depth + 1) for key in keys}
    required = [key for key in keys if all(key in one for one in objects)]
    return {"type": "object", "properties": properties, "required": required}
