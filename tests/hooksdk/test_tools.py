"""`Tool` and `@tool`: schemas from signatures, copies, and what is refused where it is written."""

from __future__ import annotations

import copy
import dataclasses
import functools
import json
import pickle
from collections.abc import Callable
from enum import Enum
from typing import Annotated, Any, Literal, Optional

import pytest
from pydantic import BaseModel, Field
from typing_extensions import TypedDict

from hooksdk import Annotations, Tool, ToolContext, hooks, tool
from hooksdk import ToolContext as Renamed
from hooksdk._run.tools import as_offered
from hooksdk.errors import ToolSchemaError
from hooksdk.hooks import BeforeToolCall, Block
from hooksdk.tools import marked_tools
from tests.stage import make, playing

pytestmark = pytest.mark.anyio


class Label(BaseModel):
    name: str
    color: str = "red"


@dataclasses.dataclass
class Point:
    x: int
    y: int = 0


class Options(TypedDict):
    deep: bool


class Size(Enum):
    SMALL = "s"
    LARGE = "l"


def schema_of(function: Callable[..., Any]) -> dict[str, Any]:
    """The schema that a function's signature makes."""
    parameters = Tool.from_function(function).parameters
    assert parameters is not None
    return parameters


# Schemas from signatures


def test_a_signature_becomes_a_schema_without_titles() -> None:
    def search(query: str, limit: int = 5, *, kind: Literal["a", "b"] | None = None) -> str:
        """Search.

        Everywhere.
        """
        return f"{query}{limit}{kind}"

    made = Tool.from_function(search)
    assert (made.name, made.description) == ("search", "Search.\n\nEverywhere.")
    assert made.parameters == {
        "type": "object",
        "properties": {
            "query": {"type": "string"},
            "limit": {"type": "integer", "default": 5},
            "kind": {"anyOf": [{"enum": ["a", "b"], "type": "string"}, {"type": "null"}], "default": None},
        },
        "required": ["query"],
        "additionalProperties": False,
    }


def test_a_function_without_parameters_has_an_empty_object() -> None:
    def ping() -> str:
        return "pong"

    assert schema_of(ping) == {"type": "object", "properties": {}, "additionalProperties": False}


def google(path: str, deep: bool = False) -> str:
    """Read.

    Args:
        path: where the file is,
            in the workspace
        deep (bool): whether to go on

    Returns:
        path: nothing of this
    """
    return f"{path}{deep}"


def numpy(path: str, deep: bool = False) -> str:
    """Read.

    Parameters
    ----------
    path : str
        where the file is,
        in the workspace
    deep : bool
        whether to go on

    Returns
    -------
    str
        nothing of this
    """
    return f"{path}{deep}"


def sphinx(path: str, deep: bool = False) -> str:
    """Read.

    :param path: where the file is,
        in the workspace
    :param bool deep: whether to go on
    :returns: nothing of this
    """
    return f"{path}{deep}"


def annotated(
    path: Annotated[str, Field(description="where the file is, in the workspace")],
    deep: Annotated[bool, Field(description="whether to go on")] = False,
) -> str:
    """Read.

    Args:
        path: the annotation goes before this
    """
    return f"{path}{deep}"


@pytest.mark.parametrize("function", [google, numpy, sphinx, annotated])
def test_parameters_are_described_by_the_docstring_or_the_annotation(function: Callable[..., Any]) -> None:
    made = Tool.from_function(function)
    assert made.description == "Read."
    properties = schema_of(function)["properties"]
    assert properties["path"]["description"] == "where the file is, in the workspace"
    assert properties["deep"]["description"] == "whether to go on"


class Workshop:
    """Tools of every kind."""

    def __init__(self) -> None:
        self.seen: list[Any] = []

    @tool
    def build(self, label: Label, points: list[Point], options: Options, size: Size, schema: int = 1) -> str:
        """Build something."""
        self.seen.append((label, points, options, size, schema))
        return "built"

    @tool(
        name="rename_it", description="Other words.", label="Rename", core=True, timeout=3, disposable=True,
        annotations=Annotations(read_only=True),
    )  # fmt: skip
    async def rename(self, context: ToolContext, to: str = "x") -> str:
        """Never shown."""
        return f"{to} in {context.session_id}"

    @property
    def broken(self) -> str:
        raise AssertionError("a property is not run when tools are looked for")


async def test_arguments_reach_the_function_in_its_own_types() -> None:
    async with playing(Workshop, tools=[]) as played:
        workshop = played.session.plugin("workshop")
        arguments = {"label": {"name": "n"}, "points": [{"x": "1"}], "options": {"deep": True}, "size": "l"}
        assert (await played.call("build", arguments)).text == "built"
        assert workshop.seen == [(Label(name="n"), [Point(1, 0)], {"deep": True}, Size.LARGE, 1)]
        assert (await played.call("build", {**arguments, "size": "huge"})).is_error
        assert (await played.call("rename_it")).text == "x in s"


async def test_the_context_is_left_out_of_the_schema_and_options_are_taken() -> None:
    build, rename = marked_tools(Workshop(), "workshop")
    assert [build.id, rename.id] == ["plugin:workshop:build", "plugin:workshop:rename_it"]
    assert rename.parameters is not None
    assert list(rename.parameters["properties"]) == ["to"]
    assert (rename.description, rename.label, rename.core, rename.timeout) == ("Other words.", "Rename", True, 3)
    assert (rename.disposable, rename.annotations.read_only, rename.annotations.destructive) == (True, True, None)
    assert (build.core, build.disposable) == (False, False)


async def test_a_check_of_pydantics_own_is_told_to_the_model() -> None:
    class Strict(BaseModel):
        name: str = Field(max_length=3)

    def greet(who: Annotated[str, Field(pattern="^[a-z]+$")]) -> str:
        """Greet."""
        return who

    assert Strict(name="abc")
    async with playing(tools=[Tool.from_function(greet, source="host")]) as played:
        assert (await played.call("greet", {"who": "ada"})).text == "ada"
        refused = await played.call("greet", {"who": "ADA!"})
        assert refused.is_error
        assert "who" in refused.text


def test_a_bound_method_can_be_offered_when_its_plugin_wants() -> None:
    class Later:
        def work(self, hours: int) -> str:
            """Work."""
            return str(hours)

    made = Tool.from_function(Later().work, owner="later")
    assert (made.id, made.parameter_names) == ("plugin:later:work", ["hours"])


# What is refused where it is written


def _positional(path: str, /) -> None: ...


def _rest(*paths: str) -> None: ...


def _keywords(**paths: str) -> None: ...


def _untyped(path) -> None: ...  # type: ignore[no-untyped-def]  # pyright: ignore


def _no_schema(path: threading_lock) -> None: ...  # type: ignore[name-defined]  # noqa: F821  # pyright: ignore


def _odd(path: Tool) -> None: ...


def _called(path: Callable[[], str]) -> None: ...


REFUSED: list[Any] = [_positional, _rest, _keywords, _untyped, _odd, _called]


@pytest.mark.parametrize("function", REFUSED)
def test_a_parameter_that_json_schema_cannot_tell_is_refused_at_once(function: Callable[..., Any]) -> None:
    with pytest.raises(ToolSchemaError, match=rf"tool '{function.__name__}' \(.*test_tools\.py:\d+\)"):
        tool(function)


def test_a_type_that_is_not_known_yet_is_looked_up_when_the_tool_is_made() -> None:
    tool(_no_schema)  # pyright: ignore[reportUnknownArgumentType]
    with pytest.raises(ToolSchemaError, match="cannot be looked up: name 'threading_lock' is not defined"):
        Tool.from_function(_no_schema)  # pyright: ignore[reportUnknownArgumentType]


@pytest.mark.parametrize("thing", [5, "text", Label(name="n")])
def test_something_that_is_no_function_is_refused(thing: Any) -> None:
    with pytest.raises(ToolSchemaError, match=r"is for functions and methods|takes its options by name"):
        tool(thing)


# Tools are immutable


def test_nothing_of_a_tool_can_be_changed() -> None:
    one = make(output_schema={"type": "string"})
    for name in ("name", "description", "execute", "core", "other"):
        with pytest.raises(AttributeError):
            setattr(one, name, "changed")
    with pytest.raises(AttributeError):
        del one.name  # pyright: ignore[reportAttributeAccessIssue]
    assert one.parameters is not None
    one.parameters.clear()
    assert one.parameters == make().parameters
    assert one.output_schema is not one.output_schema


def _cycle() -> dict[str, Any]:
    loop: dict[str, Any] = {"type": "object"}
    loop["properties"] = {"self": loop}
    return loop


@pytest.mark.parametrize("field", ["parameters", "output_schema"])
def test_a_schema_is_the_tools_own_however_it_came(field: str) -> None:
    for of in (Tool, Tool(name="other").copy):
        schema: dict[str, Any] = {"type": "object", "properties": {"a": {"type": "string"}}}
        fields: Any = {"name": "one", field: schema}
        one = of(**fields)
        schema["properties"]["a"]["type"] = "integer"
        assert getattr(one, field) == {"type": "object", "properties": {"a": {"type": "string"}}}


def test_a_schema_that_cannot_be_copied_is_left_out_until_another_one_takes_its_place() -> None:
    odd = Tool(name="odd", parameters=_cycle(), output_schema=_cycle())
    assert (odd.parameters, odd.output_schema, len(odd.diagnostics)) == (None, None, 2)
    assert odd.copy(name="other").diagnostics == odd.diagnostics
    better = odd.copy(parameters={"type": "object"})
    assert better.parameters == {"type": "object"}
    assert [note.split(" cannot")[0] for note in better.diagnostics] == ["its output_schema"]
    assert len(better.copy(parameters=_cycle()).diagnostics) == 2


def test_a_copy_keeps_its_id_and_tells_its_new_definition() -> None:
    one = make("search", owner="web", source="mcp")
    other = one.copy(name="web__search", description="other")
    assert other.id == one.id == "mcp:web:search"
    assert (other.name, other.own_name, one.name) == ("web__search", "search", "search")
    assert other.fingerprint != one.fingerprint
    assert other.tokens > one.tokens
    assert repr(other) == "Tool('mcp:web:search', name='web__search')"


def test_a_tool_may_be_made_with_both_of_its_names() -> None:
    one = Tool(name="mcp__web__search", own_name="search", owner="web", source="mcp")
    assert one.id == "mcp:web:search"
    assert one.copy(description="other").own_name == "search"
    with pytest.raises(TypeError, match=r"Tool\(own_name=\.\.\.\)"):
        Tool(name="search", own_name=7)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


@pytest.mark.anyio
async def test_it_is_called_by_either_name_and_rules_know_its_own() -> None:
    class Rule:
        @hooks.before_tool_call(tools="mcp:web:delete_*")
        def deny(self, event: BeforeToolCall) -> Block:
            return Block("no")

    tools = [
        Tool(name=f"mcp__web__{name}", own_name=name, owner="web", source="mcp", execute=json.dumps)
        for name in ("search", "delete_page")
    ]
    async with playing(Rule, tools=tools) as stage:
        assert (await stage.call("mcp__web__search")).text == "{}"
        assert (await stage.call("mcp:web:search")).text == "{}"
        assert (await stage.call("mcp__web__delete_page")).is_error


def test_a_hosts_own_tool_is_core_unless_it_says_otherwise_and_others_are_not() -> None:
    assert make("one", source="host").core is True
    assert make("one", source="host", core=False).core is False
    assert make("one", source="mcp").core is False
    assert make("one", source="mcp", core=True).core is True
    assert make("one", source="host", core=False).copy(description="other").core is False
    assert make("one", source="host").copy(core=False).core is False


def test_a_copy_with_the_same_definition_has_the_same_hash_and_size() -> None:
    one = make("search", source="host")
    other = one.copy(core=False)
    assert (other.fingerprint, other.tokens) == (one.fingerprint, one.tokens)


def test_a_copy_for_another_owner_has_another_id() -> None:
    one = make("search", owner="web", source="mcp")
    assert one.copy(owner="mail").id == "mcp:mail:search"
    assert one.copy(source="plugin").id == "plugin:web:search"
    assert one.copy(source="host").core


@pytest.mark.parametrize("field", ["descriptoin", "bridge", "own_name", "fingerprint"])
def test_a_copy_refuses_a_field_that_cannot_be_changed(field: str) -> None:
    changes: Any = {field: "x"}
    with pytest.raises(TypeError, match=rf"Tool\.copy\(\.\.\.\): it takes no field '{field}'"):
        make().copy(**changes)
    with pytest.raises(TypeError, match="Did you mean 'description'"):
        make().copy(descriptoin="x")  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]


def test_a_foreign_tools_missing_texts_are_empty() -> None:
    nothing: Any = None
    one = Tool(name="one", description=nothing, label=nothing, annotations=nothing)
    assert (one.description, one.label, one.annotations) == ("", "", Annotations())


def test_a_tool_equals_only_itself_and_can_be_stored_and_copied() -> None:
    one = Tool(name="one", parameters={"type": "object"}, annotations=Annotations(read_only=True), execute=len)
    for other in (pickle.loads(pickle.dumps(one)), copy.deepcopy(one)):
        assert other != one
        assert (other.id, other.parameters, other.annotations) == (one.id, one.parameters, one.annotations)
        assert other.fingerprint == one.fingerprint
    assert len({one, one.copy()}) == 2


def test_arguments_that_fit_come_back_as_they_are_and_others_repaired_with_what_is_wrong_still() -> None:
    one = make(properties={"path": {"type": "string"}, "lines": {"type": "integer"}}, required=["path"])
    right: dict[str, Any] = {"path": "a"}
    fitting, problems = one.fit(right)
    assert fitting is right
    assert problems == []
    wrong: dict[str, Any] = {"lines": "3"}
    repaired, problems = one.fit(wrong)
    assert (repaired, wrong) == ({"lines": 3}, {"lines": "3"})
    assert len(problems) == 1


# Bridges


def test_only_the_run_can_mark_a_tool_as_a_bridge() -> None:
    one = make()
    assert not one.bridge
    bridge = as_offered(one, "searches", search=True)
    assert (bridge.bridge, one.bridge, bridge.id) == (True, False, f"plugin:searches:{one.name}")
    assert (bridge.search, one.search) == (True, False)
    assert not bridge.copy(name="other").bridge
    assert not bridge.copy(name="other").search
    bare = as_offered(one.copy(execute=None), "searches", search=False)
    assert (bare.bridge, bare.search) == (True, False)
    with pytest.raises(TypeError):
        Tool(name="one", bridge=True)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]


# The context


async def _alone(arguments: dict[str, Any]) -> str:
    return "alone"


async def _with_context(arguments: dict[str, Any], context: ToolContext) -> str:
    return context.session_id


async def _by_another_name(arguments: dict[str, Any], ctx: ToolContext, /) -> str:
    return ctx.session_id


async def _may_be_none(arguments: dict[str, Any], context: ToolContext | None = None) -> str:
    return context.session_id if context else "none"


async def _optional(arguments: dict[str, Any], context: Optional[ToolContext] = None) -> str:  # noqa: UP045
    return context.session_id if context else "none"


async def _renamed_type(arguments: dict[str, Any], context: Renamed) -> str:
    return context.session_id


async def _unknown_types(arguments: Unknown, context: hooksdk.ToolContext) -> str:  # type: ignore  # noqa: F821  # pyright: ignore
    return context.session_id  # pyright: ignore


async def _unknown_or_none(arguments: Unknown, context: ToolContext | None = None) -> str:  # type: ignore  # noqa: F821  # pyright: ignore
    return context.session_id if context else "none"


async def _with_a_default(arguments: dict[str, Any], retries: int = 3) -> str:
    return str(retries)


@functools.wraps(_with_context)
async def _wrapped(*args: Any) -> str:
    return await _with_context(*args)


async def _wrapper(*args: Any) -> str:
    return str(len(args))


class _Callable:
    async def __call__(self, arguments: dict[str, Any], context: ToolContext) -> str:
        return context.session_id

    async def bound(self, arguments: dict[str, Any], context: ToolContext) -> str:
        return context.session_id


GETS_CONTEXT: list[Any] = [
    (_alone, "alone"),
    (_with_context, "s"),
    (_by_another_name, "s"),
    (_may_be_none, "s"),
    (_optional, "s"),
    (_renamed_type, "s"),
    (_unknown_types, "s"),
    (_unknown_or_none, "s"),
    (_with_a_default, "3"),
    (_wrapped, "s"),
    (_wrapper, "1"),
    (_Callable(), "s"),
    (_Callable().bound, "s"),
    (functools.partial(_with_context), "s"),
    (len, "0"),
]


@pytest.mark.parametrize(("execute", "text"), GETS_CONTEXT)
async def test_an_executors_second_parameter_annotated_toolcontext_gets_the_context(
    execute: Callable[..., Any], text: str
) -> None:
    async with playing(tools=[Tool(name="one", execute=execute)]) as played:
        assert (await played.call("one", {})).text == text


def _untyped_context(arguments, context): ...  # type: ignore[no-untyped-def]  # pyright: ignore


def _any_context(arguments: dict[str, Any], context: Any = None) -> None: ...


def _two(arguments: dict[str, Any], other: str) -> None: ...


def _named_only(arguments: dict[str, Any], *, context: ToolContext) -> None: ...


def _third(arguments: dict[str, Any], retries: int, context: ToolContext) -> None: ...


LOOKS_LIKE_IT: list[Any] = [_untyped_context, _any_context, _two, _named_only, _third]


@pytest.mark.parametrize("execute", LOOKS_LIKE_IT)
def test_a_parameter_that_only_looks_like_the_context_is_refused_where_the_tool_is_made(
    execute: Callable[..., Any],
) -> None:
    words = rf"tool 'one' \(.*{execute.__name__} \(.*test_tools\.py:\d+\)\): its parameter .* context: ToolContext"
    with pytest.raises(ToolSchemaError, match=words):
        Tool(name="one", execute=execute)
    with pytest.raises(ToolSchemaError, match=words):
        Tool(name="one").copy(execute=execute)


class Tellers:
    @tool
    async def maybe(self, context: ToolContext | None = None) -> str:
        """Tell the session."""
        return context.session_id if context else "none"

    @tool
    async def optional(self, to: str, context: Optional[ToolContext] = None) -> str:  # noqa: UP045
        """Tell the session."""
        return f"{to} {context.session_id}" if context else "none"

    @tool
    async def summarize(self, context: str) -> str:
        """A parameter of this name and another type is the model's."""
        return context


async def test_a_plugins_tool_gets_the_context_also_where_it_may_be_none() -> None:
    async with playing(Tellers, tools=[]) as played:
        assert (await played.call("maybe")).text == "s"
        assert (await played.call("optional", {"to": "x"})).text == "x s"
        assert (await played.call("summarize", {"context": "text"})).text == "text"
    maybe, optional, summarize = marked_tools(Tellers(), "tellers")
    assert [one.parameter_names for one in (maybe, optional, summarize)] == [[], ["to"], ["context"]]


def test_a_context_without_its_type_is_refused_with_the_type_to_write() -> None:
    def work(context) -> None: ...  # type: ignore[no-untyped-def]  # pyright: ignore

    with pytest.raises(ToolSchemaError, match=r"`context: ToolContext`"):
        tool(work)  # pyright: ignore[reportUnknownArgumentType]


def test_annotations_are_read_in_mcps_words() -> None:
    hints = Annotations.from_mcp({"readOnlyHint": True, "destructiveHint": "yes", "openWorldHint": False})
    assert hints == Annotations(read_only=True, open_world=False)
    assert hints.matches({"read_only": True, "open_world": False})
    assert not hints.matches({"destructive": False})
    assert Annotations.names() == ["read_only", "destructive", "idempotent", "open_world"]
