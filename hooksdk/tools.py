"""Tools: what the model may use, made by hand or from a function with `@tool`."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property
from types import ModuleType
from typing import Any, Literal, TypedDict, TypeVar, Unpack, cast, final, overload

from hooksdk import schema
from hooksdk._firing.marks import TOOL_MARK, is_own, note_marked
from hooksdk._firing.signature import Executor, locate, read_signature, takes_context
from hooksdk._origins.labels import LabelsField
from hooksdk._schema.definitions import definitions_in, read_definition
from hooksdk._schema.fresh import Fresh, peek
from hooksdk.calls import ToolCall, ToolResult
from hooksdk.errors import ToolSchemaError, WrongArgument, check, check_function, check_number, did_you_mean, refuse
from hooksdk.patterns import SOURCES, Source
from hooksdk.values import SdkObject

__all__ = [
    "Annotations", "Deferral", "Expose", "Source", "Tool", "ToolCall", "ToolResult", "definitions_in", "is_marked",
    "marked_tools", "tool",
]  # fmt: skip

Expose = Literal["auto", "bridge", "direct", "hybrid"]
"""How the client of a gateway is shown the tools."""
Deferral = Literal["off", "search", "additions"]
"""How a run's requests declare tools that are not shown: not at all, as references of a search, or as later additions."""
DEFAULT_TIMEOUT = 120.0
"""Seconds that a tool may take unless it says otherwise."""
_BARE = "_without_executor"


@dataclass(frozen=True, slots=True, kw_only=True)
class Annotations:
    """What a tool says of itself, in MCP's terms. None: it does not say. Hints, not guarantees.

    ```python
    from hooksdk import Annotations, Tool

    cleaner = Tool(name="clean", source="host", annotations=Annotations(destructive=True))
    assert cleaner.annotations.matches({"destructive": True})
    assert not cleaner.annotations.matches({"read_only": False})  # it does not say
    ```
    """

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


class _Schema(Fresh[dict[str, Any] | None]):
    """A field for somebody else's JSON Schema: copied when it comes in, and None where that is impossible."""

    def __set__(self, instance: object, value: Mapping[str, Any] | None) -> None:
        state = vars(instance)
        notes = [note for note in state.get("diagnostics", ()) if not note.startswith(f"its {self._name} ")]
        own = None
        check(f"Tool({self._name}=...)", value, (Mapping, type(None)), "a JSON Schema (a dict)", _SCHEMA_ADVICE)
        try:
            own = None if value is None else schema.clone(dict(value))
        except Exception as error:
            notes.append(f"its {self._name} cannot be copied and is left out: {error}")
        state["diagnostics"] = tuple(notes)
        super().__set__(instance, own)


_SCHEMA_ADVICE = "Of a pydantic model it is Model.model_json_schema()"
_NOTHING = {"description": "", "label": "", "annotations": Annotations()}


class _MarkOptions(TypedDict, total=False):
    """What `@tool` can say of a function beside its name and description."""

    label: str
    core: bool | None
    annotations: Annotations
    timeout: float
    disposable: bool
    keeps_secrets: bool
    labels: str | Iterable[str] | None


class _CopyOptions(_MarkOptions, total=False):
    name: str
    description: str
    parameters: Mapping[str, Any] | None
    source: Source
    owner: str
    output_schema: Mapping[str, Any] | None
    meta: Mapping[str, Any] | None
    execute: Executor | None


@final
@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Tool:
    """Something that the model may use. Immutable; a tool equals only itself.

    ```python
    from hooksdk import Tool

    def greet(arguments: dict[str, str]) -> str:
        return f"Hello {arguments['name']}"

    schema = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
    tool = Tool(name="greet", source="host", owner="hall", parameters=schema, execute=greet)
    assert tool.id == "host:hall:greet"
    ```

    Raises `ToolSchemaError` for an executor with a second parameter that is not annotated `ToolContext`.

    Attributes:
        name: The name that the model sees; unique in a catalog.
        parameters: The JSON Schema of the arguments, or None; a fresh copy at each access, so that whoever changes one
            changes nothing else. One that cannot be copied (a circle, an object that is not JSON) becomes None, as
            `diagnostics` say.
        owner: The MCP server, plugin or part of the host that brings it.
        label: A title for people; may be empty.
        core: Whether it is always offered, never hidden by tool search. None: so are a host's own tools, and no others.
        meta: What an MCP server says of it for clients (`_meta`, `icons` and the like); a fresh copy, or None.
        output_schema: The JSON Schema of the structured result, or None; a fresh copy at each access, as `parameters`.
        execute: `(arguments) -> str | ToolResult`, plain or async; a second parameter annotated `ToolContext` gets the
            context. A plain one runs in a worker thread. None: it cannot be run here. In all tools that a run hands
            out, to plugins and to the host, it is None: only `call_tool` runs them, past the policies.
        timeout: Seconds that one call may take.
        disposable: Its results go first when the context window must be freed.
        keeps_secrets: False where others read its arguments, such as the tracing of a framework: a call with a
            placeholder of a secret is refused then.
        labels: What the texts of its results are worth, such as `trusted`, in the word of whoever makes the tool: a
            frozenset, or None, which counts as `untrusted`. One result may say otherwise (`ToolResult.labels`).
        own_name: The name that the owner gave it; `name` is another one where two owners chose the same.
        bridge: True for a tool that a plugin offers to find and call the others, without an executor or in a `Search`.
            It opens nothing by itself, so a default of policy is not meant for it.
        search: True for a bridge of a `Search`, whose plugin the operator trusts with it (the grant `search`).
        takes_context: `execute` has a second parameter, for the context.
        diagnostics: What was left out, one line each.
    """

    name: str
    description: str = ""
    parameters: _Schema = _Schema(None)
    source: Source = "plugin"
    owner: str = ""
    label: str = ""
    core: bool | None = None
    annotations: Annotations = Annotations()
    meta: Fresh[dict[str, Any] | None] = field(default=Fresh(None))
    output_schema: _Schema = _Schema(None)
    execute: Executor | None = None
    timeout: float = DEFAULT_TIMEOUT
    disposable: bool = False
    keeps_secrets: bool = True
    labels: LabelsField = LabelsField()
    own_name: str = ""
    bridge: bool = field(init=False, default=False)
    search: bool = field(init=False, default=False)
    takes_context: bool = field(init=False)
    diagnostics: tuple[str, ...] = field(init=False)

    def __post_init__(self) -> None:
        state = vars(self)
        for name, nothing in _NOTHING.items():  # foreign tools come with None for these
            state[name] = state[name] or nothing
        self._check()
        state["own_name"] = self.own_name or self.name
        state["core"] = self.source == "host" if self.core is None else bool(self.core)
        state["takes_context"] = self.execute is not None and takes_context(self.execute, self.name)

    def _check(self) -> None:
        if type(self.name) is not str:
            check("Tool(name=...)", self.name, str, "text")
        if self.source not in SOURCES:
            near = did_you_mean(str(self.source), SOURCES)
            refuse("Tool(source=...)", self.source, f"one of {', '.join(SOURCES)}", near.strip())
        for name in ("description", "owner", "label", "own_name"):
            if type(value := getattr(self, name)) is not str:
                check(f"Tool({name}=...)", value, str, "text")
        example = "Annotations(destructive=True), or Annotations.from_mcp({...})"
        check("Tool(annotations=...)", self.annotations, Annotations, example)
        check("Tool(meta=...)", peek(self, "meta"), (Mapping, type(None)), "a mapping")
        check_function("Tool(execute=...)", self.execute, "(arguments) -> str | ToolResult")
        check_number("Tool(timeout=...)", self.timeout, "timeout=30")

    @classmethod
    def from_function(
        cls,
        function: Callable[..., Any],
        *,
        name: str | None = None,
        description: str | None = None,
        source: Source = "plugin",
        owner: str = "",
        **options: Unpack[_MarkOptions],
    ) -> Tool:
        """A tool made from a function or a bound method: the schema from its signature, the description from its
        docstring. Options are those of `@tool`, which may also be on the function itself. Raises `ToolSchemaError` when
        a parameter has no type that JSON Schema can tell."""
        marked: dict[str, Any] = {**getattr(function, TOOL_MARK, {}), **options}
        given_name, given_description = marked.pop("name", None), marked.pop("description", None)
        if isinstance(function, type) or not callable(function):
            raise ToolSchemaError(
                str(name or ""), repr(function), "it is not a function", "Give a `def` or a bound method"
            )
        signature = read_signature(function)
        assert signature is not None
        description = given_description if description is None else description
        return cls(
            name=name or given_name or signature.name,
            description=signature.description if description is None else description,
            parameters=signature.parameters,
            source=source,
            owner=owner,
            execute=signature.executor,
            **marked,
        )

    @classmethod
    def from_json(
        cls,
        definition: Mapping[str, Any] | SdkObject,
        *,
        execute: Executor | None = None,
        source: Source = "host",
        owner: str = "",
        **options: Unpack[_MarkOptions],
    ) -> Tool:
        """A tool made from its definition as a provider's request has it: OpenAI's (`{"type": "function", "function":
        {...}}`, or flat as in Responses), Anthropic's (`input_schema`), Gemini's declaration, MCP's. `execute` gets the
        arguments as one dict; without it the tool cannot be run here, and a call of it says so.

        Name, description and schema are read, and MCP's annotations. What else a request may say of a tool, such as
        `strict`, is not kept. Raises `WrongArgument` for what is no definition, such as a tool that the provider runs
        itself.
        """
        read = read_definition(definition, "Tool.from_json(...)")
        options.setdefault("annotations", Annotations.from_mcp(read["annotations"]))
        named = {name: read[name] for name in ("name", "description", "parameters")}
        return cls(**named, execute=execute, source=source, owner=owner, **options)

    @property
    def id(self) -> str:
        """`source:owner:name`, with the name that the owner gave it."""
        return f"{self.source}:{self.owner}:{self.own_name}"

    @property
    def parameter_names(self) -> list[str]:
        """The names of the top-level parameters, without copying the schema."""
        parameters: dict[str, Any] = peek(self, "parameters") or {}
        properties = parameters.get("properties")
        return list(cast("dict[str, Any]", properties)) if isinstance(properties, dict) else []

    @cached_property
    def fingerprint(self) -> str:
        """A hash of name, description and schema: equal for an unchanged definition, in every process."""
        return schema.fingerprint([self.name, self.description, peek(self, "parameters")])

    @cached_property
    def tokens(self) -> int:
        """What its definition costs in the context window: characters / 4 of name, description and schema."""
        parameters = peek(self, "parameters")
        return schema.estimate_tokens({"name": self.name, "description": self.description, "parameters": parameters})

    def check(self, arguments: object, *, quote_values: bool = True) -> list[schema.Problem]:
        """What is wrong with these arguments by the tool's schema; empty when nothing is."""
        return schema.check(peek(self, "parameters"), arguments, quote_values=quote_values)

    def refusal(self, problems: Sequence[schema.Problem]) -> str:
        """The words that tell a model what is wrong with the arguments and what the schema asks for."""
        return schema.render(problems, self.name, peek(self, "parameters"))

    def fit(self, arguments: dict[str, Any]) -> tuple[dict[str, Any], list[schema.Problem]]:
        """The arguments in the shape that the schema asks for, where the meaning is certain, and what is wrong with
        them still. They are not changed: the same object comes back where nothing is to repair."""
        return schema.fit(peek(self, "parameters"), arguments)

    def copy(self, **changes: Unpack[_CopyOptions]) -> Tool:
        """The same tool with some of the constructor's fields changed. With another `name` its `own_name` and its id
        stay; with another `owner` or `source` the id is another one. Raises `WrongArgument` for any
        other field.
        """
        known = _CopyOptions.__annotations__
        if unknown := changes.keys() - known.keys():
            name = min(unknown)
            raise WrongArgument("Tool.copy(...)", f"it takes no field {name!r}.{did_you_mean(name, known)}")
        twin = object.__new__(Tool)
        vars(twin).update(vars(self))
        # The run marks bridges, the form without an executor is the original's, and hash and size are of one definition.
        lost = {"bridge", "search", _BARE}
        if not changes.keys().isdisjoint(("name", "description", "parameters")):
            lost |= {"fingerprint", "tokens"}
        for name in lost:
            vars(twin).pop(name, None)
        if changes.get("source", self.source) != self.source and not self.core:
            changes.setdefault("core", None)
        for name, value in changes.items():
            object.__setattr__(twin, name, value)
        twin.__post_init__()
        return twin

    def without_executor(self) -> Tool:
        """The tool as a run hands it out: all but its executor, so that nobody runs it past the policies. The same one
        each time, and never the tool itself: what somebody sets on it changes nothing that runs."""
        bare: Tool | None = vars(self).get(_BARE)
        if bare is None:
            bare = object.__new__(Tool)
            vars(bare).update(vars(self), execute=None, takes_context=False)
            vars(self)[_BARE] = bare
        return bare

    def __repr__(self) -> str:
        return f"Tool({self.id!r})" if self.name == self.own_name else f"Tool({self.id!r}, name={self.name!r})"


_F = TypeVar("_F", bound=Callable[..., Any])


@overload
def tool(function: _F, /) -> _F: ...
@overload
def tool(
    *, name: str | None = None, description: str | None = None, **options: Unpack[_MarkOptions]
) -> Callable[[_F], _F]: ...
def tool(function: Any = None, /, **options: Any) -> Any:
    """Make a tool of a plugin's function or method: bare, or with options (`name`, `description`, `label`, `core`,
    `annotations`, `timeout` in seconds, `disposable`, `keeps_secrets`, `labels`).

    The schema comes from the signature; parameter descriptions from the docstring or `Annotated[..., Field(...)]`; a
    parameter annotated `ToolContext` is filled in by the run. The function itself stays as it is. Raises
    `ToolSchemaError` for a parameter that JSON Schema cannot tell.
    """

    def mark(function: Any) -> Any:
        if isinstance(function, str):
            advice = f"Write @tool(name={function!r})"
            raise ToolSchemaError(function, repr(function), "@tool takes its options by name", advice)
        name = options.get("name") or getattr(function, "__name__", "")
        if not callable(function) or not name:
            raise ToolSchemaError(str(name), repr(function), "@tool is for functions and methods", "Decorate a `def`")
        read_signature(function, late=True)
        setattr(function, TOOL_MARK, options)
        note_marked(function)
        return function

    return mark if function is None else mark(function)


def is_marked(function: object) -> bool:
    """True for a function that `@tool` has made a tool."""
    return hasattr(function, TOOL_MARK)


def marked_tools(holder: object, owner: str, *, others: Container[str] = ()) -> list[Tool]:
    """The tools that `@tool` marks on a plugin's instance, or in its module, in source order. A module has those
    that are defined in it or imported from its own package, but not from the plugin modules in `others`."""
    if isinstance(holder, ModuleType):
        members = filter(inspect.isfunction, vars(holder).values())
        members = [member for member in members if hasattr(member, TOOL_MARK) and is_own(holder, member, others)]
    else:
        # Looked up on the class first, so that no property of the instance is run.
        names = [name for name in dir(type(holder)) if hasattr(getattr(type(holder), name, None), TOOL_MARK)]
        members = [getattr(holder, name) for name in names]
    functions = [member for member in members if hasattr(member, TOOL_MARK)]
    functions.sort(key=lambda function: function.__code__.co_firstlineno)
    for function in functions:
        _check_self(function)
    return [Tool.from_function(function, owner=owner) for function in functions]


def _check_self(function: Any) -> None:
    """Without `self` the first parameter would be the instance, and the model could not fill it."""
    plain = getattr(function, "__func__", None)
    if plain is None:
        return
    parameters = inspect.signature(plain).parameters
    first = next(iter(parameters.values()), None)
    if first is None or (first.kind is not first.VAR_POSITIONAL and first.annotation is not first.empty):
        written = str(inspect.signature(plain)).partition(" ->")[0]
        advice = f"Write def {plain.__name__}({', '.join(('self', *parameters))})"
        raise ToolSchemaError(plain.__name__, locate(plain), f"its parameters are {written}", advice)
