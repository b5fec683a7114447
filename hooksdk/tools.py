"""Tools: what the model may use, made by hand or from a function with `@tool`."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, Literal, TypeVar, cast, final, overload

from hooksdk import schema
from hooksdk._firing.signature import Executor, locate, read_signature
from hooksdk.calls import ToolCall, ToolResult
from hooksdk.errors import ToolSchemaError

__all__ = ["BRIDGE_NAMES", "Annotations", "Source", "Tool", "ToolCall", "ToolResult", "marked_tools", "tool"]

BRIDGE_NAMES = frozenset({"tool_search", "tool_describe", "tool_call", "tool_search_code"})
"""Names kept for bridge tools; a plugin that registers one of them is refused."""

DEFAULT_TIMEOUT = 120.0
"""Seconds that a tool may take unless it says otherwise."""

Source = Literal["host", "mcp", "plugin", "client"]
"""Who brings a tool: the host itself, an MCP server, a plugin, or the program behind the conversation."""

_MARK = "__hooksdk_tool__"


@dataclass(frozen=True, slots=True, kw_only=True)
class Annotations:
    """What a tool says of itself, in MCP's terms. None: it does not say. Hints, not guarantees."""

    read_only: bool | None = None
    destructive: bool | None = None
    idempotent: bool | None = None
    open_world: bool | None = None

    @classmethod
    def from_mcp(cls, hints: Mapping[str, Any]) -> Annotations:
        """Read MCP's `readOnlyHint`, `destructiveHint`, `idempotentHint` and `openWorldHint`."""
        names = {"read_only": "readOnlyHint", "destructive": "destructiveHint"}
        names |= {"idempotent": "idempotentHint", "open_world": "openWorldHint"}
        return cls(**{field: value for field, hint in names.items() if isinstance(value := hints.get(hint), bool)})

    def matches(self, wanted: Mapping[str, bool]) -> bool:
        """True when every wanted annotation has the wanted value; one that is not said matches nothing."""
        return all(getattr(self, name) is value for name, value in wanted.items())

    @classmethod
    def names(cls) -> list[str]:
        """The names of the annotations."""
        return [field.name for field in fields(cls)]


@final
class Tool:
    """Something that the model may use. Immutable; `parameters` and `output_schema` are fresh copies at each access,
    so whoever changes one changes nothing else.

    A schema that cannot be copied (a cycle, an object that is not JSON) becomes None, and `diagnostics` says so.
    """

    __slots__ = (
        "_bridge", "_core", "_fingerprint", "_output_schema", "_own_name", "_parameters", "_tokens", "annotations", "description",
        "diagnostics", "disposable", "execute", "label", "name", "owner", "source", "timeout",
    )  # fmt: skip

    name: str
    """The name that the model sees; unique in a catalog."""
    source: Source
    owner: str
    """The MCP server, plugin or part of the host that brings it."""
    label: str
    """A title for people; may be empty."""
    description: str
    annotations: Annotations
    execute: Executor | None
    timeout: float
    """Seconds that one call may take."""
    disposable: bool
    """Its results may go first when the context window must be freed."""
    diagnostics: tuple[str, ...]

    def __init__(
        self,
        *,
        name: str,
        description: str = "",
        parameters: Mapping[str, Any] | None = None,
        source: Source = "plugin",
        owner: str = "",
        label: str = "",
        core: bool = False,
        annotations: Annotations | None = None,
        output_schema: Mapping[str, Any] | None = None,
        execute: Executor | None = None,
        timeout: float = DEFAULT_TIMEOUT,
        disposable: bool = False,
    ) -> None:
        notes: list[str] = []
        put = object.__setattr__
        put(self, "name", name)
        put(self, "_own_name", name)
        put(self, "description", description or "")
        put(self, "source", source)
        put(self, "owner", owner)
        put(self, "label", label or "")
        put(self, "_core", core)
        put(self, "_bridge", False)
        put(self, "annotations", annotations or Annotations())
        put(self, "execute", execute)
        put(self, "timeout", timeout)
        put(self, "disposable", disposable)
        put(self, "_parameters", _keep(parameters, "parameters", notes))
        put(self, "_output_schema", _keep(output_schema, "output schema", notes))
        put(self, "diagnostics", tuple(notes))
        put(self, "_fingerprint", None)
        put(self, "_tokens", None)

    @classmethod
    def from_function(
        cls,
        function: Callable[..., Any],
        *,
        name: str | None = None,
        description: str | None = None,
        source: Source = "plugin",
        owner: str = "",
        label: str = "",
        core: bool = False,
        annotations: Annotations | None = None,
        timeout: float = DEFAULT_TIMEOUT,
        disposable: bool = False,
    ) -> Tool:
        """A tool made from a function or a bound method: the schema from its signature, the description from its
        docstring. Raises `ToolSchemaError` when a parameter has no type that JSON Schema can tell."""
        read = read_signature(function)
        assert read is not None
        return cls(
            name=name or read.name,
            description=read.description if description is None else description,
            parameters=read.parameters,
            source=source,
            owner=owner,
            label=label,
            core=core,
            annotations=annotations,
            execute=read.executor,
            timeout=timeout,
            disposable=disposable,
        )

    @property
    def id(self) -> str:
        """`source:owner:name`, with the name that the owner gave it."""
        return f"{self.source}:{self.owner}:{self._own_name}"  # type: ignore[attr-defined]

    @property
    def own_name(self) -> str:
        """The name that the owner gave it; `name` differs from it where two owners chose the same."""
        return self._own_name  # type: ignore[attr-defined]

    @property
    def parameters(self) -> dict[str, Any] | None:
        """The JSON Schema of the arguments, a fresh copy, or None."""
        return _fresh(self._parameters)  # type: ignore[attr-defined]

    @property
    def parameter_names(self) -> list[str]:
        """The names of the top-level parameters, without copying the schema."""
        kept = self._parameters  # type: ignore[attr-defined]
        properties = cast("object", kept.get("properties") if kept else None)
        return list(cast("dict[str, Any]", properties)) if isinstance(properties, dict) else []

    @property
    def output_schema(self) -> dict[str, Any] | None:
        """The JSON Schema of the structured result, a fresh copy, or None."""
        return _fresh(self._output_schema)  # type: ignore[attr-defined]

    @property
    def core(self) -> bool:
        """True for a tool that is always offered and never deferred."""
        return self.source == "host" or self._core  # type: ignore[attr-defined]

    @property
    def fingerprint(self) -> str:
        """A hash of name, description and schema: equal for an unchanged definition, in every process."""
        if self._fingerprint is None:  # type: ignore[attr-defined]
            value = schema.fingerprint([self.name, self.description, self._parameters])  # type: ignore[attr-defined]
            object.__setattr__(self, "_fingerprint", value)
        return self._fingerprint  # type: ignore[attr-defined]

    @property
    def tokens(self) -> int:
        """What its definition costs in the context window: characters / 4 of name, description and schema."""
        if self._tokens is None:  # type: ignore[attr-defined]
            shown = {"name": self.name, "description": self.description, "parameters": self._parameters}  # type: ignore[attr-defined]
            object.__setattr__(self, "_tokens", schema.estimate_tokens(shown))
        return self._tokens  # type: ignore[attr-defined]

    def check(self, arguments: object, *, quote_values: bool = True) -> list[schema.Problem]:
        """What is wrong with these arguments by the tool's schema; empty when nothing is."""
        return schema.check(self._parameters, arguments, quote_values=quote_values)  # type: ignore[attr-defined]

    def refusal(self, problems: Sequence[schema.Problem]) -> str:
        """The words that tell a model what is wrong with the arguments and what the schema asks for."""
        return schema.render(problems, self.name, self._parameters)  # type: ignore[attr-defined]

    @property
    def bridge(self) -> bool:
        """True for a tool that a plugin offers beside the catalog."""
        return self._bridge  # type: ignore[attr-defined]

    @property
    def takes_context(self) -> bool:
        """True when its executor takes a `ToolContext`."""
        try:
            return "context" in inspect.signature(self.execute).parameters  # type: ignore[arg-type]
        except (TypeError, ValueError):
            return False

    def fit(self, arguments: dict[str, Any]) -> tuple[dict[str, Any], list[schema.Problem]]:
        """The arguments in the shape that the schema asks for, and what is still wrong with them."""
        return schema.fit(self._parameters, arguments)  # type: ignore[attr-defined]

    def repair(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """The arguments in the shape that the schema asks for, where the meaning is certain; else as they are."""
        return schema.repair(self._parameters, arguments)  # type: ignore[attr-defined]

    def copy(self, **changes: Any) -> Tool:
        """The same tool with some fields changed; its id stays. `name`, `owner`, `core`, `description` and so on."""
        fresh = object.__new__(Tool)
        for slot in Tool.__slots__:
            object.__setattr__(fresh, slot, getattr(self, slot))
        for field, value in changes.items():
            slot = f"_{field}" if field in {"core", "parameters", "output_schema"} else field
            object.__setattr__(fresh, slot, value)
        object.__setattr__(fresh, "_fingerprint", None)
        object.__setattr__(fresh, "_tokens", None)
        return fresh

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"a Tool is immutable; use tool.copy({name}=...)")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"a Tool is immutable; cannot delete {name!r}")

    def __repr__(self) -> str:
        return f"Tool({self.id!r})" if self.name == self.own_name else f"Tool({self.id!r}, name={self.name!r})"


def _keep(value: Mapping[str, Any] | None, what: str, notes: list[str]) -> dict[str, Any] | None:
    if value is None:
        return None
    try:
        return schema.clone(dict(value))
    except Exception as error:
        notes.append(f"its {what} cannot be copied and is left out: {error}")
        return None


def _fresh(kept: dict[str, Any] | None) -> dict[str, Any] | None:
    return None if kept is None else schema.clone(kept)


_F = TypeVar("_F", bound=Callable[..., Any])


@overload
def tool(function: _F, /) -> _F: ...
@overload
def tool(
    *,
    name: str | None = None,
    description: str | None = None,
    label: str = "",
    core: bool = False,
    annotations: Annotations | None = None,
    timeout: float = DEFAULT_TIMEOUT,
    disposable: bool = False,
) -> Callable[[_F], _F]: ...
def tool(function: Any = None, /, **options: Any) -> Any:
    """Make a tool of a plugin's function or method: bare, or with options (`name`, `description`, `label`, `core`,
    `annotations`, `timeout` in seconds, `disposable`).

    The schema comes from the signature; parameter descriptions from the docstring or `Annotated[..., Field(...)]`; a
    parameter of type `ToolContext` is filled in by the run. The function itself stays as it is. Raises
    `ToolSchemaError` for a parameter that JSON Schema cannot tell, and for the name of a bridge tool.
    """

    def mark(function: Any) -> Any:
        name = options.get("name") or getattr(function, "__name__", "")
        if not callable(function) or not name:
            raise ToolSchemaError(str(name), repr(function), "@tool is for functions and methods", "Decorate a `def`")
        if name in BRIDGE_NAMES:
            advice = f"Choose another name; {', '.join(sorted(BRIDGE_NAMES))} are taken"
            raise ToolSchemaError(name, locate(function), "the name belongs to a bridge tool", advice)
        read_signature(function, late=True)
        setattr(function, _MARK, options)
        return function

    return mark if function is None else mark(function)


def marked_tools(holder: object, owner: str) -> list[Tool]:
    """The tools that `@tool` marks on a plugin's instance, or defined in its module, in source order."""
    module = getattr(holder, "__name__", None) if isinstance(holder, type(schema)) else None
    members = (
        vars(holder)
        if module
        else {name: getattr(holder, name) for name in dir(type(holder)) if _is_marked(holder, name)}
    )
    found = [
        function
        for function in members.values()
        if hasattr(function, _MARK) and (module is None or getattr(function, "__module__", None) == module)
    ]
    found.sort(key=lambda function: function.__code__.co_firstlineno)
    for function in found:
        _check_self(function)
    return [
        Tool.from_function(function, source="plugin", owner=owner, **getattr(function, _MARK)) for function in found
    ]


def _check_self(function: Any) -> None:
    """Without `self` the first parameter would be the instance, and the model could not fill it."""
    plain = getattr(function, "__func__", None)
    if plain is None:
        return
    first = next(iter(inspect.signature(plain).parameters.values()), None)
    if first is None or (first.kind is not first.VAR_POSITIONAL and first.annotation is not first.empty):
        shown = str(inspect.signature(plain)).partition(" ->")[0]
        names = ", ".join(("self", *inspect.signature(plain).parameters))
        advice = f"Write def {plain.__name__}({names})"
        raise ToolSchemaError(plain.__name__, locate(plain), f"its parameters are {shown}", advice)


def _is_marked(holder: object, name: str) -> bool:
    """Looked up on the class, so that no property of the instance is run."""
    return hasattr(getattr(type(holder), name, None), _MARK)
