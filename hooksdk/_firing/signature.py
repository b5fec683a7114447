"""A function's signature as a JSON Schema, and the executor that calls it with a model's arguments."""

from __future__ import annotations

import functools
import inspect
import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, cast, get_type_hints
from weakref import WeakKeyDictionary

import pydantic
from pydantic.fields import FieldInfo
from pydantic.json_schema import GenerateJsonSchema

from hooksdk.calls import ToolResult
from hooksdk.errors import ToolError, ToolSchemaError, problem_text

__all__ = ["Executor", "Signature", "is_async", "locate", "read_signature", "to_result"]

Executor = Callable[..., Any]
"""`(arguments) -> str | ToolResult`, or with a second parameter `context`; plain or async. A plain one runs in a
worker thread."""


@dataclass(frozen=True, slots=True)
class Signature:
    """What a function tells of itself."""

    name: str
    description: str
    parameters: dict[str, Any]
    executor: Executor


@dataclass(frozen=True, slots=True)
class _Read:
    description: str
    parameters: dict[str, Any]
    model: type[pydantic.BaseModel]
    names: list[str]
    context: str | None


_read_already: WeakKeyDictionary[Any, _Read] = WeakKeyDictionary()
"""By function: a class has its tools read once, and bound anew for each of its instances."""


def locate(function: Any) -> str:
    """`module.function (file:line)`, for messages."""
    plain = inspect.unwrap(getattr(function, "__func__", function))
    code = getattr(plain, "__code__", None)
    name = f"{getattr(plain, '__module__', '?')}.{getattr(plain, '__qualname__', repr(plain))}"
    return f"{name} ({code.co_filename}:{code.co_firstlineno})" if code else name


def is_async(function: Any) -> bool:
    """True when calling it gives something to await, through partials and callable objects."""
    while isinstance(function, functools.partial):
        function = cast("Any", function).func
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(getattr(function, "__call__", None))  # noqa: B004


def to_result(value: object) -> ToolResult:
    """What a tool returned, as a result: text as it is, None as no text, anything else as JSON, with its structured form."""
    if isinstance(value, ToolResult):
        return value
    if value is None or isinstance(value, str):
        return ToolResult(value or "")
    plain = pydantic.TypeAdapter(Any).dump_python(value, mode="json", fallback=str)
    return ToolResult(json.dumps(plain, ensure_ascii=False), structured=plain)


def read_signature(function: Callable[..., Any], *, late: bool = False) -> Signature | None:
    """Name, description, JSON Schema and executor of a function or bound method.

    With `late=True` a type that cannot be looked up yet (a class defined further down) gives None instead of an error.
    Raises `ToolSchemaError`.
    """
    name = getattr(function, "__name__", "") or type(function).__name__
    method = getattr(function, "__func__", None)
    read = _read_already.get(method) if method is not None else None
    if read is None:
        read = _read(function, name, late=late)
        if read is None:
            return None
        if method is not None:
            _read_already[method] = read
    return Signature(name, read.description, read.parameters, _executor(function, read))


def _read(function: Callable[..., Any], name: str, *, late: bool) -> _Read | None:
    try:
        hints = get_type_hints(getattr(function, "__func__", function), include_extras=True)
    except NameError as error:
        if late:
            return None
        advice = "Import it at run time, not only under TYPE_CHECKING"
        raise ToolSchemaError(name, locate(function), f"a type cannot be looked up: {error}", advice) from None
    documented, descriptions = _read_docstring(inspect.getdoc(function) or "")
    fields: dict[str, Any] = {}
    context: str | None = None
    for parameter in _parameters(function, late):
        annotation = hints.get(parameter.name, parameter.empty)
        if _is_context(annotation):
            context = parameter.name
            continue
        fields[parameter.name] = _field(function, name, parameter, annotation, descriptions)
    model = _model(function, name, fields)
    try:
        parameters = model.model_json_schema(schema_generator=_Untitled)
    except pydantic.errors.PydanticUserError as error:
        raise _no_schema(function, name, error) from None
    for key in ("title", "description"):
        parameters.pop(key, None)
    parameters.setdefault("properties", {})
    return _Read(documented, parameters, model, list(fields), context)


def _parameters(function: Callable[..., Any], unbound: bool) -> list[inspect.Parameter]:
    found = list(inspect.signature(function).parameters.values())
    if unbound and found and found[0].name == "self":
        found = found[1:]
    return found


def _field(
    function: Callable[..., Any], name: str, parameter: inspect.Parameter, annotation: Any, descriptions: dict[str, str]
) -> tuple[Any, Any]:
    if parameter.kind in {parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD, parameter.POSITIONAL_ONLY}:
        advice = "Name each parameter, so that the model can fill it"
        raise ToolSchemaError(name, locate(function), f"parameter '{parameter}' has no name of its own", advice)
    if annotation is parameter.empty:
        advice = f"Write its type, such as `{parameter.name}: str`"
        raise ToolSchemaError(name, locate(function), f"parameter '{parameter.name}' has no type", advice)
    default: Any = ... if parameter.default is parameter.empty else parameter.default
    info = (
        FieldInfo.from_annotated_attribute(annotation, default)
        if default is not ...
        else FieldInfo.from_annotation(annotation)
    )
    if info.description is None and parameter.name in descriptions:
        info.description = descriptions[parameter.name]
    return annotation, info


def _model(function: Callable[..., Any], name: str, fields: dict[str, Any]) -> type[pydantic.BaseModel]:
    # Names such as `schema` or `_x` are fine as parameters but not as fields, so fields are numbered and aliased.
    numbered: dict[str, Any] = {}
    for index, (parameter, (annotation, info)) in enumerate(fields.items()):
        info.alias = info.validation_alias = info.serialization_alias = parameter
        numbered[f"field_{index}"] = (annotation, info)
    config = pydantic.ConfigDict(extra="forbid", arbitrary_types_allowed=False)
    try:
        return pydantic.create_model(name, __config__=config, **numbered)
    except pydantic.errors.PydanticUserError as error:
        raise _no_schema(function, name, error) from None


def _no_schema(function: Callable[..., Any], name: str, error: Exception) -> ToolSchemaError:
    advice = "Use JSON types, pydantic models, dataclasses or TypedDicts"
    return ToolSchemaError(name, locate(function), str(error).splitlines()[0].rstrip("."), advice)


def _executor(function: Callable[..., Any], read: _Read) -> Executor:
    def fill(arguments: dict[str, Any], given: object) -> dict[str, Any]:
        try:
            valid = read.model.model_validate(arguments)
        except pydantic.ValidationError as error:
            problems = "; ".join(map(problem_text, error.errors()))
            raise ToolError(f"not run, the arguments are wrong: {problems}") from None
        filled = {name: getattr(valid, f"field_{index}") for index, name in enumerate(read.names)}
        if read.context is not None:
            filled[read.context] = given
        return filled

    if is_async(function):

        async def run_async(arguments: dict[str, Any], context: object) -> ToolResult:
            return to_result(await function(**fill(arguments, context)))

        return run_async

    def run(arguments: dict[str, Any], context: object) -> ToolResult:
        return to_result(function(**fill(arguments, context)))

    return run


class _Untitled(GenerateJsonSchema):
    """Without the titles that repeat each field's name: they cost tokens and tell nothing."""

    def field_title_should_be_set(self, schema: Any) -> bool:  # noqa: ARG002
        return False


def _is_context(annotation: object) -> bool:
    name = annotation if isinstance(annotation, str) else getattr(annotation, "__name__", "")
    return str(name).rpartition(".")[2] == "ToolContext"


_SECTION = re.compile(
    r"^(args|arguments|parameters|params|returns|raises|yields|examples?|notes?)\s*:?\s*$", re.IGNORECASE
)
_SPHINX = re.compile(r"^:param(?:\s+[^:]+?)?\s+(\w+)\s*:\s*(.*)$")
_GOOGLE = re.compile(r"^(\w+)\s*(?:\([^)]*\))?\s*:\s*(.*)$")


def _read_docstring(text: str) -> tuple[str, dict[str, str]]:
    """The prose before the first section, and each parameter's description (Google, NumPy or Sphinx style)."""
    prose: list[str] = []
    found: dict[str, str] = {}
    section = current = ""
    for line in text.splitlines():
        stripped = line.strip()
        if sphinx := _SPHINX.match(stripped):
            section, current = "sphinx", sphinx[1]
            found[current] = sphinx[2]
        elif stripped.startswith((":return", ":raise", ":rtype", ":type")):
            section, current = "other", ""
        elif heading := _SECTION.match(stripped):
            section, current = heading[1].lower(), ""
        elif not section:
            prose.append(line)
        elif section in {"args", "arguments", "parameters", "params", "sphinx"} and stripped and set(stripped) != {"-"}:
            numpy = (
                re.match(r"^(\w+)\s*(?::.*)?$", line) if section == "parameters" and not line.startswith(" ") else None
            )
            entry = numpy or (_GOOGLE.match(stripped) if section != "sphinx" else None)
            if entry:
                current = entry[1]
                found[current] = "" if numpy else entry[2]
            elif current:
                found[current] = f"{found[current]} {stripped}".strip()
    return "\n".join(prose).strip(), {name: description for name, description in found.items() if description}
