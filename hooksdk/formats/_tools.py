"""What hosts have at hand where hooksdk takes tools: functions, the JSON of a provider, objects of the SDKs, `Tool`."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from hooksdk._firing.marks import TOOL_MARK
from hooksdk._schema.definitions import definitions_in
from hooksdk._schema.plain import SdkObject, is_sdk_object
from hooksdk.errors import WrongArgument, check_list, refuse
from hooksdk.tools import Tool
from hooksdk.values import is_mapping

GivenTool = Tool | Callable[..., Any] | Mapping[str, Any] | SdkObject
"""A tool, a function that becomes one, or a definition in a provider's JSON, as a dict or as the SDK's object."""
GivenTools = Iterable[GivenTool]


def as_tools(given: GivenTools | Callable[[], GivenTools], where: str, *, owner: str = "") -> list[Tool]:
    """The host's tools. Raises `WrongArgument` for what is none, and `ToolSchemaError` for a function that cannot become
    one."""
    if callable(given):
        given = _ask(given, where)
    if is_sdk_object(given):  # pydantic's objects can be iterated over
        refuse(where, given, "a list of tools", "Write tools=[...]")
    advice = "Give its `tools`" if hasattr(given, "tools") else "Write such as tools=[add, remove]"
    tools: list[Tool] = []
    for at, one in enumerate(check_list(where, given, "tools", advice)):
        tools += _read(one, f"{where}, item {at}", owner)
    return tools


def _ask(given: Callable[[], GivenTools], where: str) -> GivenTools:
    """What a function answers that is asked for the tools. A function that is a tool itself was meant to be in a list."""
    name = getattr(given, "__name__", "it")
    if isinstance(given, type) or hasattr(given, TOOL_MARK) or _needs_arguments(given):
        refuse(
            where, given, "a list of tools, or a function without parameters that answers one", f"Write tools=[{name}]"
        )
    answer = given()
    if not isinstance(answer, Iterable):  # pyright: ignore[reportUnnecessaryIsInstance]
        refuse(f"{where}, {name}()", answer, "a list of tools")
    return answer


def _needs_arguments(function: Callable[..., Any]) -> bool:
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return False
    fills_itself = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    return any(one.default is one.empty and one.kind not in fills_itself for one in parameters)


def _read(one: Any, where: str, owner: str) -> list[Tool]:
    if isinstance(one, Tool):
        return [one]
    if is_mapping(one) or is_sdk_object(one):
        try:
            return [Tool.from_json(part, owner=owner) for part in definitions_in(one)]
        except WrongArgument as error:
            raise WrongArgument(where, error.problem, error.advice) from None
    if callable(one) and not isinstance(one, type):
        return [Tool.from_function(one, source="host", owner=owner)]
    return refuse(where, one, "a tool, a function, or a tool's definition in a provider's JSON")
