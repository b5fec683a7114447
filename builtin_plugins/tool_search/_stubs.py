"""Typed stubs of the tools that a script names, and what the type checker's findings mean to the script's author.

Every call whose name is written out is checked as a call of a function of its own, which has that tool's parameters. Only
findings that are certain are told: those that the call itself would be refused for, and missing awaits.
"""

from __future__ import annotations

import ast
import builtins
import keyword
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast, final

from builtin_plugins.tool_search._bridge_call import ARGUMENT_KEYS
from builtin_plugins.tool_search._crossing import QUOTED
from builtin_plugins.tool_search._sandbox import Diagnostic
from builtin_plugins.tool_search._signatures import clip, signature
from hooksdk import Catalog, Tool

__all__ = ["Stubs"]

MAX_TOOLS = 30
"""Tools of one script that are checked."""
MAX_PROPERTIES = 100
MAX_VALUES = 50
MAX_DEPTH = 4
MAX_STEPS = 500
"""Parts of one schema that are read: references can make a small one large."""
MAX_TOLD = 5

_HEAD = """
from typing import Any, Literal, Mapping, Required, Sequence, TypedDict
Text = str | datetime.date | datetime.time
async def search(query: str | Sequence[str], limit: Any = ...) -> list[dict[str, Any]]: ...
async def describe(name: Any) -> dict[str, Any]: ...
async def call(*name: Any, **arguments: Any) -> Any: ...
"""
_CALL = re.compile(
    r"""\bcall(?P<gap>\s*\(\s*)(?P<name>(["'])(?P<text>[^"'\\\n]{1,200})\3)(?P<rest>\s*(?:\)|,\s*\)|,\s*[\w*]*\s*=?=?))"""
)
_QUOTED = re.compile(QUOTED)
_NOT_CALLED = re.compile(r"\bcall\b(?!\s*\()|\bdef\s+call\b")
_DYNAMIC = re.compile(r"\b(?:eval|exec|globals|locals|vars|except)\b")
"""Where one of these stands, a name that is not defined may be meant."""
_FUNCTION = re.compile(r"function `checked_(\d+)(?:_named)?`")
_OBJECT = re.compile(r"TypedDict `_Checked_(\d+)_(\d+)`")
_BRIDGES = {
    "tool_search": 'await search("...")',
    "tool_describe": 'await describe("TOOL")',
    "tool_call": 'await call("TOOL", {...})',
}
"""Bridge tools of the other mode, which models know from elsewhere, and what stands for them in a script."""
_MISSING_AWAIT = {"unused-awaitable", "not-subscriptable", "not-iterable", "unresolved-attribute"}
_PROMISE = re.compile(r"(?:O|Cannot subscript o)bject of type `CoroutineType\[")


@final
class Stubs:
    """The stubs for one script, and the script as the checker reads it (`code`), line for line the same."""

    def __init__(self, code: str, catalog: Catalog) -> None:
        self._catalog = catalog
        self._tools: list[_Checked] = []
        self._dynamic = _DYNAMIC.search(code) is not None
        self.code = code if _NOT_CALLED.search(_QUOTED.sub("''", code)) else _CALL.sub(self._rename, code)
        """The script, each call of a known tool renamed to a function of its own."""
        self._lines = self.code.split("\n")

    @property
    def text(self) -> str:
        """The stub file."""
        return _HEAD + "".join(line for tool in self._tools for line in tool.lines)

    def told(self, diagnostics: Sequence[Diagnostic]) -> str | None:
        """Why the script would fail, for its author; None where that is not certain."""
        found: dict[str, None] = {}
        concerned: dict[str, None] = {}
        for diagnostic in diagnostics:
            told, tool = self._read(diagnostic)
            if told:
                found[f"line {diagnostic.start[0]}: {told}"] = None
                if tool:
                    concerned[signature(tool.name, tool.parameters)] = None
        if not found:
            return None
        lines = [*list(found)[:MAX_TOLD], *(f"The tool is {call}" for call in list(concerned)[:MAX_TOLD])]
        return "Nothing was run: " + "\n".join(lines)

    def _rename(self, match: re.Match[str]) -> str:
        tool = self._catalog.get(match["text"])
        if tool is None:
            return match[0]
        index = next((place for place, known in enumerate(self._tools) if known.tool is tool), len(self._tools))
        rest = match["rest"].replace(" ", "").lstrip(",")
        wrapped = rest.endswith("=") and rest[:-1] in ARGUMENT_KEYS
        own = wrapped and rest[:-1] in tool.parameter_names
        if (
            own
            or (wrapped and rest != "arguments=")
            or "*" in rest
            or (index == len(self._tools) and index >= MAX_TOOLS)
        ):
            return match[0]
        named = rest.endswith("=") and not rest.endswith("==") and rest != "arguments="
        if index == len(self._tools):
            self._tools.append(_Checked(tool, index))
        return f"checked_{index}{'_named' if named else ''}{match['gap']}{match['name']}{match['rest']}"

    def _read(self, found: Diagnostic) -> tuple[str | None, Tool | None]:
        message = found.message
        if found.rule in _MISSING_AWAIT and _PROMISE.match(message):
            return "this is called but not awaited: write await before it", None
        if found.rule == "unresolved-reference":
            return self._unknown_name(message), None
        if (match := _OBJECT.search(message)) and (checked := self._checked(match)):
            place = int(match[2])
            return checked.about_object(found, place, self._is_plain(found, whole=place == 0)), checked.tool
        if (match := _FUNCTION.search(message)) and (checked := self._checked(match)):
            return checked.about_call(found, self._written(found)[1]), checked.tool
        return None, None

    def _checked(self, match: re.Match[str]) -> _Checked | None:
        """The tool that is meant; a script may write any number into a text that the checker quotes."""
        return self._tools[int(match[1])] if int(match[1]) < len(self._tools) else None

    def _unknown_name(self, message: str) -> str | None:
        name = message.split("`")[1] if "`" in message else ""
        if name in _BRIDGES:
            return f"there is no {name} in a script: write {_BRIDGES[name]}"
        tool = self._catalog.get(name)
        if tool is not None:
            return f'{name} is a tool: write await call("{tool.name}", {{...}})'
        # The checker knows fewer built-ins than there are.
        if not name or self._dynamic or hasattr(builtins, name):
            return None
        return f"name '{name}' is not defined"

    def _is_plain(self, found: Diagnostic, *, whole: bool) -> bool:
        """Whether the place is an object written out that is the argument itself, and no part of an expression; for
        the whole arguments, that none are named beside it."""
        before, written, after = self._written(found)
        alone = re.match(r",?\s*\)", after) if whole else after[:1] in set("),]}")
        return before[-1:] in set("(,:[=") and bool(alone) and "**" not in written

    def _written(self, found: Diagnostic) -> tuple[str, str, str]:
        """What stands before the place, there, and after it."""
        (line, column), (last, end) = found.start, found.end
        lines = self._lines[line - 1 : last]
        before = "".join([*self._lines[max(0, line - 4) : line - 1], lines[0][: column - 1]])
        after = "".join([lines[-1][end - 1 :], *self._lines[last : last + 3]])
        lines[-1] = lines[-1][: end - 1]
        lines[0] = lines[0][column - 1 :]
        return before.rstrip(), "\n".join(lines), after.lstrip()


@dataclass(frozen=True, slots=True)
class _Object:
    """One object type of a tool's schema."""

    required: Sequence[str]
    known: Sequence[str]
    is_open: bool


@final
class _Checked:
    """One tool as the checker reads it: `checked_N(name, arguments)` and `checked_N_named(name, *, ...)`."""

    def __init__(self, tool: Tool, index: int) -> None:
        self.tool = tool
        self.lines: list[str] = []
        self._index = index
        self._objects: list[_Object] = []
        self._root: Mapping[str, Any] = tool.parameters or {}
        self._steps = MAX_STEPS
        arguments = self._object_type(self._root, 0)
        top = self._objects[0]
        optional = "" if top.required else " = ..."
        self.lines.append(f"async def checked_{index}(tool: Any, arguments: {arguments} | str{optional}) -> Any: ...\n")
        self.lines.append(f"async def checked_{index}_named(tool: Any, /, *, {self._named(top)}) -> Any: ...\n")

    def about_object(self, found: Diagnostic, place: int, plain: bool) -> str | None:
        """What is certainly wrong with an object that is written out."""
        shape = self._objects[min(place, len(self._objects) - 1)]
        if found.rule == "missing-typed-dict-key" and plain and (key := _quoted(found.message, "'")):
            return f"'{key}' is missing"
        if found.rule == "invalid-key" and not shape.is_open and (key := _quoted(found.message, '"')):
            return self._unknown(key, shape)
        key = _quoted(found.message, '"')
        if found.rule == "invalid-argument-type" and key and (kind := _certain(found.message, "value of type")):
            return f"'{key}' cannot be {kind}"
        return None

    def about_call(self, found: Diagnostic, written: str) -> str | None:
        """What is certainly wrong with a call whose arguments are named, or that has too many or none."""
        top = self._objects[0]
        names = re.findall(r"`([^`]*)`", found.message)[:-1]
        if found.rule == "missing-argument":
            missing = list(top.required) if names == ["arguments"] else names
            return f"{', '.join(repr(name) for name in missing)} {'is' if len(missing) == 1 else 'are'} missing"
        # Beside an object with the arguments others may be named.
        if found.rule == "unknown-argument" and names and "_named`" in found.message:
            return self._unknown(names[0], top)
        argument = re.match(r"(\w+)\s*=(?!=)", written)
        if found.rule == "invalid-argument-type" and argument and (kind := _certain(found.message, "found")):
            return f"'{argument[1]}' cannot be {kind}"
        if found.rule == "too-many-positional-arguments":
            return "call takes a name and one object with the arguments"
        return None

    def _unknown(self, key: str, shape: _Object) -> str:
        near = [name for name in shape.known if _folded(name) == _folded(key)]
        return f"there is no '{clip(key, 100)}'" + (f", but '{near[0]}'" if near else "")

    def _named(self, top: _Object) -> str:
        properties = _mapping(self._root, "properties")
        given = [
            f"{name}: {self._value_type(properties[name], 1, optional=name not in top.required)}"
            + ("" if name in top.required else " = ...")
            for name in top.known
            if name.isidentifier() and not keyword.iskeyword(name)
        ]
        return ", ".join([*given, "**rest: Any"] if top.is_open or not given else given)

    def _object_type(self, schema: Mapping[str, Any], depth: int) -> str:
        properties = _mapping(schema, "properties")
        known = list(properties)[:MAX_PROPERTIES]
        given: object = schema.get("required")
        required = [name for name in cast("list[object]", given) if name in known] if isinstance(given, list) else []
        is_open = schema.get("additionalProperties") is not False or "patternProperties" in schema
        is_open = is_open or len(known) < len(properties)
        place = len(self._objects)
        name = f"_Checked_{self._index}_{place}"
        self._objects.append(_Object(cast("list[str]", required), known, is_open))
        entries: list[str] = []
        for key in known:
            kind = self._value_type(properties[key], depth + 1, optional=key not in required)
            entries.append(f"{key!r}: {f'Required[{kind}]' if key in required else kind}")
        self.lines.append(f'{name} = TypedDict("{name}", {{{", ".join(entries)}}}, total=False)\n')
        return name

    def _value_type(self, schema: object, depth: int, *, optional: bool) -> str:
        """What may be given: also texts that the run reads as numbers, lists and objects, and nothing at all where a
        value is optional, which the run leaves out."""
        kinds = self._kinds(schema, depth)
        if kinds is None:
            return "Any"
        return " | ".join(dict.fromkeys([*kinds, 'Literal[""]', "None"] if optional else kinds))

    def _kinds(self, given: object, depth: int) -> list[str] | None:
        """The types that a schema allows; None where they cannot be told."""
        self._steps -= 1
        if not isinstance(given, Mapping) or depth > MAX_DEPTH or self._steps < 0:
            return None
        schema = cast("Mapping[str, Any]", given)
        if any(key in schema for key in ("$ref", "allOf", "not", "if", "const")):
            return None
        if isinstance(values := schema.get("enum"), list):
            return _literal(cast("list[object]", values))
        for key in ("anyOf", "oneOf"):
            if isinstance(forms := schema.get(key), list):
                return self._union([self._kinds(form, depth + 1) for form in cast("list[object]", forms)])
        kind: object = schema.get("type")
        if isinstance(kind, list):
            each = [self._kinds({**schema, "type": one}, depth + 1) for one in cast("list[object]", kind)]
            return self._union(each)
        return self._kind(kind, schema, depth)

    def _kind(self, kind: object, schema: Mapping[str, Any], depth: int) -> list[str] | None:
        if kind == "string":
            return ["Text"]
        if kind in {"integer", "number"}:
            return ["float", "str"]
        if kind == "boolean":
            return ["bool", "str"]
        if kind == "null":
            return ["None", "str"]
        if kind == "array":
            items = self._kinds(schema.get("items"), depth + 1)
            return [f"Sequence[{'Any' if items is None else ' | '.join(items)}]", "str"]
        if kind == "object":
            whole = self._object_type(schema, depth) if _mapping(schema, "properties") else "Mapping[Any, Any]"
            return [whole, "str"]
        return None

    def _union(self, each: Iterable[list[str] | None]) -> list[str] | None:
        kinds: list[str] = []
        for one in each:
            if one is None:
                return None
            kinds.extend(one)
        return kinds or None


def _literal(values: Sequence[object]) -> list[str] | None:
    if not values or len(values) > MAX_VALUES or not all(isinstance(value, str) for value in values):
        return None
    return [f"Literal[{', '.join(map(repr, values))}]"]


def _certain(message: str, before: str) -> str | None:
    """The type that was found, where no run could make it fit; None where it may fit after all."""
    found = message.partition(f"{before} `")[2].rpartition("`")[0]
    declared = "".join(re.findall(r"(?:declared type|Expected) `(.*?)`(?: on |,)", message))
    if not found or any(word in found for word in ("Any", "Unknown", "Divergent", "CoroutineType", " | ", " & ")):
        return None
    container = re.match(r"(?:list|tuple|dict|set|Sequence|Mapping)\b", found)
    if container and any(word in declared for word in ("Sequence[", "Mapping[", "_Checked_")):
        return None
    if found.startswith("Literal["):
        return _one_literal(found[8:-1])
    known = {"int": "a whole number", "float": "a number", "bool": "True or False", "None": "None", "bytes": "bytes"}
    if found in known:
        return known[found]
    return f"a {container[0]}" if container else None


def _one_literal(text: str) -> str | None:
    try:
        value: object = ast.literal_eval(text)
    except (ValueError, SyntaxError, RecursionError, MemoryError):
        return None
    return None if isinstance(value, tuple) else clip(text, 60)


def _quoted(message: str, mark: str) -> str | None:
    parts = message.split(mark)
    return parts[1] if len(parts) > 2 else None


def _folded(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.casefold())


def _mapping(schema: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    value: object = schema.get(key)
    return cast("Mapping[str, Any]", value) if isinstance(value, Mapping) else {}
