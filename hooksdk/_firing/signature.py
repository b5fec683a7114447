"""A function's signature as a JSON Schema, and the executor that calls it with a model's arguments."""

from __future__ import annotations

import contextlib
import inspect
import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from types import CodeType, FunctionType, UnionType
from typing import Annotated, Any, ForwardRef, Union, get_args, get_origin, get_type_hints
from weakref import WeakKeyDictionary

import pydantic
from pydantic.fields import FieldInfo
from pydantic.json_schema import GenerateJsonSchema

from hooksdk._tasks.limits import is_async
from hooksdk.calls import ToolResult
from hooksdk.errors import ToolError, ToolSchemaError, problem_text

# `(arguments) -> str | ToolResult`, or with a second parameter annotated `ToolContext`; plain or async. A plain one
# runs in a worker thread.
Executor = Callable[..., Any]


@dataclass(frozen=True, slots=True)
class Signature:
    """What a function tells of itself."""

    name: str
    description: str
    parameters: dict[str, Any]
    executor: Executor


@dataclass(frozen=True, slots=True)
class _Definition:
    description: str
    parameters: dict[str, Any]
    model: type[pydantic.BaseModel]
    names: list[str]
    # The parameter that takes the context.
    context: str | None


# By function: a class has its tools read once, and bound anew for each of its instances.
_definitions: WeakKeyDictionary[Any, _Definition] = WeakKeyDictionary()
# By code: all tools of an MCP server share one executor's code, and reading a signature takes longer than all else of a
# tool.
_context_takers: WeakKeyDictionary[CodeType, bool] = WeakKeyDictionary()


def locate(function: Any) -> str:
    """`module.function (file:line)`, for messages."""
    plain = inspect.unwrap(getattr(function, "__func__", function))
    code = getattr(plain, "__code__", None)
    name = f"{getattr(plain, '__module__', '?')}.{getattr(plain, '__qualname__', repr(plain))}"
    return f"{name} ({code.co_filename}:{code.co_firstlineno})" if code else name


def to_result(value: object) -> ToolResult:
    """What a tool returned, as a result: text as it is, None as no text, anything else as JSON, with its structured
    form."""
    if isinstance(value, ToolResult):
        return own_result(value)
    if value is None or isinstance(value, str):
        return ToolResult(value or "")
    plain = pydantic.TypeAdapter(Any).dump_python(value, mode="json", fallback=str)
    return ToolResult(json.dumps(plain, ensure_ascii=False), structured=plain)


def own_result(result: ToolResult) -> ToolResult:
    """A result of our own class: a plugin's subclass may have fields that are missing, that raise, or that change from
    one reading to the next. Raises whatever reading it raises, and `TypeError` for a text that is none."""
    if type(result) is ToolResult and type(vars(result).get("text")) is str:
        return result
    if not isinstance(result.text, str):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise TypeError(f"ToolResult(text=...) must be str, got {type(result.text).__name__}")
    blocks = () if result.plain else result.blocks
    text = str.__str__(result.text)
    names = ("structured", "meta", "references", "labels", "handle")
    others: dict[str, Any] = {name: getattr(result, name) for name in names}
    return ToolResult(text, is_error=bool(result.is_error), blocks=blocks, **others)


def read_signature(function: Callable[..., Any], *, late: bool = False) -> Signature | None:
    """Name, description, JSON Schema and executor of a function or bound method.

    With `late=True` a type that cannot be looked up yet (a class defined further down) gives None instead of an error.
    Raises `ToolSchemaError`.
    """
    name = getattr(function, "__name__", "") or type(function).__name__
    method = getattr(function, "__func__", None)
    definition = _definitions.get(method) if method is not None else None
    if definition is None:
        definition = _read(function, name, late=late)
        if definition is None:
            return None
        if method is not None:
            _definitions[method] = definition
    return Signature(name, definition.description, definition.parameters, _executor(function, definition))


def takes_context(executor: Executor, tool: str) -> bool:
    """Whether the executor's second parameter is for the context. Raises `ToolSchemaError` where it has one that looks
    so and is not annotated."""
    plain = isinstance(executor, FunctionType) and not vars(executor)  # without `__wrapped__`
    code = executor.__code__ if plain else None
    answer = _context_takers.get(code) if code is not None else None
    if answer is None:
        answer = _read_context(executor, tool)
        if code is not None:
            _context_takers[code] = answer
    return answer


def _read_context(executor: Executor, tool: str) -> bool:
    for index, parameter in enumerate(_evaluated_parameters(executor)):
        positional = parameter.kind in {parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD}
        if index == 1 and positional and _is_context(parameter.annotation):
            return True
        required = index == 1 and positional and parameter.default is parameter.empty
        if required or parameter.name == "context" or _is_context(parameter.annotation):
            advice = "Write the context as the second parameter, with its type: `(arguments, context: ToolContext)`"
            raise ToolSchemaError(
                tool, locate(executor), f"its parameter '{parameter}' would get no context when it runs", advice
            )
    return False


def _evaluated_parameters(executor: Executor) -> list[inspect.Parameter]:
    """With their annotations evaluated, or as they are written where that fails; none where there is no signature."""
    for evaluate in (True, False):
        with contextlib.suppress(Exception):
            return list(inspect.signature(executor, eval_str=evaluate).parameters.values())
    return []


def _read(function: Callable[..., Any], name: str, *, late: bool) -> _Definition | None:
    try:
        hints = get_type_hints(getattr(function, "__func__", function), include_extras=True)
    except NameError as error:
        if late:
            return None
        advice = "Import it at run time, not only under TYPE_CHECKING"
        raise ToolSchemaError(name, locate(function), f"a type cannot be looked up: {error}", advice) from None
    except TypeError:  # a partial, an object with `__call__`, some built-in functions
        raise ToolSchemaError(name, locate(function), "its types cannot be read", "Write a `def` around it") from None
    prose, descriptions = _read_docstring(inspect.getdoc(function) or "")
    fields: dict[str, Any] = {}
    context: str | None = None
    try:
        parameters_of = _parameters(function, late)
    except ValueError:
        raise ToolSchemaError(name, locate(function), "it has no signature", "Write a `def` around it") from None
    for parameter in parameters_of:
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
    return _Definition(prose, parameters, model, list(fields), context)


def _parameters(function: Callable[..., Any], unbound: bool) -> list[inspect.Parameter]:
    parameters = list(inspect.signature(function).parameters.values())
    return parameters[1:] if unbound and parameters and parameters[0].name == "self" else parameters


def _field(
    function: Callable[..., Any], name: str, parameter: inspect.Parameter, annotation: Any, descriptions: dict[str, str]
) -> tuple[Any, Any]:
    if parameter.kind in {parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD, parameter.POSITIONAL_ONLY}:
        advice = "Name each parameter, so that the model can fill it"
        raise ToolSchemaError(name, locate(function), f"parameter '{parameter}' has no name of its own", advice)
    if annotation is parameter.empty:
        kind = "ToolContext" if parameter.name == "context" else "str"
        advice = f"Write its type, such as `{parameter.name}: {kind}`"
        raise ToolSchemaError(name, locate(function), f"parameter '{parameter.name}' has no type", advice)
    default: Any = ... if parameter.default is parameter.empty else parameter.default
    own = (
        FieldInfo.from_annotation(annotation)
        if default is ...
        else FieldInfo.from_annotated_attribute(annotation, default)
    )
    alias = parameter.name  # all three, so that one of the annotation's own does not count
    info: Any = {"alias": alias, "validation_alias": alias, "serialization_alias": alias}
    if own.description is None and parameter.name in descriptions:
        info["description"] = descriptions[parameter.name]
    return Annotated[annotation, pydantic.Field(**info)], default


def _model(function: Callable[..., Any], name: str, fields: dict[str, Any]) -> type[pydantic.BaseModel]:
    # Names such as `schema` or `_x` are fine as parameters but not as fields, so fields are numbered and aliased.
    numbered = {f"field_{index}": field for index, field in enumerate(fields.values())}
    config = pydantic.ConfigDict(extra="forbid", arbitrary_types_allowed=False)
    try:
        return pydantic.create_model(name, __config__=config, **numbered)
    except pydantic.errors.PydanticUserError as error:
        raise _no_schema(function, name, error) from None


def _no_schema(function: Callable[..., Any], name: str, error: Exception) -> ToolSchemaError:
    advice = "Use JSON types, pydantic models, dataclasses or TypedDicts"
    return ToolSchemaError(name, locate(function), str(error).splitlines()[0].rstrip("."), advice)


def _executor(function: Callable[..., Any], definition: _Definition) -> Executor:
    def fill(arguments: dict[str, Any], context: object) -> dict[str, Any]:
        try:
            valid = definition.model.model_validate(arguments)
        except pydantic.ValidationError as error:
            problems = "; ".join(map(problem_text, error.errors()))
            raise ToolError(f"not run, the arguments are wrong: {problems}") from None
        values = {name: getattr(valid, f"field_{index}") for index, name in enumerate(definition.names)}
        return values if definition.context is None else {**values, definition.context: context}

    async def run_async(arguments: dict[str, Any], context: object) -> ToolResult:
        return to_result(await function(**fill(arguments, context)))

    def run(arguments: dict[str, Any], context: object) -> ToolResult:
        return to_result(function(**fill(arguments, context)))

    executor = run_async if is_async(function) else run
    vars(executor)["function"] = function  # for messages; as `__wrapped__` its parameters would count as the executor's
    executor.__annotations__["context"] = "ToolContext"  # which lives on a floor above this one
    return executor


class _Untitled(GenerateJsonSchema):
    """Without the titles that repeat each field's name: they cost tokens and tell nothing."""

    def field_title_should_be_set(self, schema: Any) -> bool:  # noqa: ARG002
        return False


def _is_context(annotation: object) -> bool:
    """True for `ToolContext`, alone or beside None, also where it is written as text."""
    if get_origin(annotation) in {Union, UnionType}:
        return any(_is_context(part) for part in get_args(annotation))
    if isinstance(annotation, ForwardRef):
        annotation = annotation.__forward_arg__
    if isinstance(annotation, str):
        return _CONTEXT.fullmatch(annotation) is not None
    return getattr(annotation, "__name__", "") == "ToolContext"


_CONTEXT = re.compile(r"(?:None *\| *|(?:\w+\.)?Optional\[)?(?:\w+\.)*ToolContext(?:\]| *\| *None)?")


_SECTION = re.compile(
    r"^(args|arguments|parameters|params|returns|raises|yields|examples?|notes?)\s*:?\s*$", re.IGNORECASE
)
_SPHINX = re.compile(r"^:param(?:\s+[^:]+?)?\s+(\w+)\s*:\s*(.*)$")
_GOOGLE = re.compile(r"^(\w+)\s*(?:\([^)]*\))?\s*:\s*(.*)$")


def _read_docstring(text: str) -> tuple[str, dict[str, str]]:
    """The prose before the first section, and each parameter's description (Google, NumPy or Sphinx style)."""
    prose: list[str] = []
    descriptions: dict[str, str] = {}
    section = current = ""
    for line in text.splitlines():
        stripped = line.strip()
        if sphinx := _SPHINX.match(stripped):
            section, current = "sphinx", sphinx[1]
            descriptions[current] = sphinx[2]
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
                descriptions[current] = "" if numpy else entry[2]
            elif current:
                descriptions[current] = f"{descriptions[current]} {stripped}".strip()
    return "\n".join(prose).strip(), {name: text for name, text in descriptions.items() if text}
