"""`Tool` and `@tool`: schemas from signatures, copies, and what is refused where it is written."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from enum import Enum
from typing import Annotated, Any, Literal

import pytest
from playing import make, playing
from pydantic import BaseModel, Field
from typing_extensions import TypedDict

from hooksdk import Annotations, Tool, ToolContext, tool
from hooksdk.errors import ToolSchemaError
from hooksdk.tools import marked_tools

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
    with pytest.raises(ToolSchemaError, match="is for functions and methods"):
        tool(thing)


# Tools are immutable


def test_nothing_of_a_tool_can_be_changed() -> None:
    one = make(output_schema={"type": "string"})
    for name in ("name", "description", "execute", "core", "other"):
        with pytest.raises(AttributeError):
            setattr(one, name, "changed")
    with pytest.raises(AttributeError):
        del one.name
    assert one.parameters is not None
    one.parameters.clear()
    assert one.parameters == make().parameters
    assert one.output_schema is not one.output_schema


def test_a_schema_is_copied_when_it_is_given() -> None:
    given: dict[str, Any] = {"type": "object", "properties": {"a": {"type": "string"}}}
    one = Tool(name="one", parameters=given)
    given["properties"]["a"]["type"] = "integer"
    assert one.parameters == {"type": "object", "properties": {"a": {"type": "string"}}}


def test_a_copy_keeps_its_id_and_tells_its_new_definition() -> None:
    one = make("search", owner="web", source="mcp")
    other = one.copy(name="web__search", description="other")
    assert other.id == one.id == "mcp:web:search"
    assert (other.name, other.own_name, one.name) == ("web__search", "search", "search")
    assert other.fingerprint != one.fingerprint
    assert other.tokens > one.tokens
    assert repr(other) == "Tool('mcp:web:search', name='web__search')"


def test_annotations_are_read_in_mcps_words() -> None:
    hints = Annotations.from_mcp({"readOnlyHint": True, "destructiveHint": "yes", "openWorldHint": False})
    assert hints == Annotations(read_only=True, open_world=False)
    assert hints.matches({"read_only": True, "open_world": False})
    assert not hints.matches({"destructive": False})
    assert Annotations.names() == ["read_only", "destructive", "idempotent", "open_world"]
