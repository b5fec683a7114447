"""The definition of a tool in the shapes of the providers' APIs and of MCP, read into its parts."""

from __future__ import annotations

from typing import Any

from hooksdk.errors import refuse
from hooksdk.values import JsonObject, as_list, as_object, is_list, is_object, plain

# Where the schema of the arguments stands: OpenAI's, Anthropic's, MCP's, Gemini's.
_SCHEMAS = ("parameters", "input_schema", "inputSchema", "parametersJsonSchema", "parameters_json_schema")
_LISTS = ("functionDeclarations", "function_declarations")
_EXAMPLE = 'a tool\'s definition such as {"type": "function", "function": {"name": "add", "parameters": {...}}}'
_OWN_TOOL = "The provider runs that one itself: put it into the request beside what `tools(...)` of the format gives"


def definitions_in(given: object) -> list[JsonObject]:
    """The definitions in what was given as one: several only in Gemini's list of declarations."""
    body = plain(given)
    lists = [as_list(as_object(body).get(key)) for key in _LISTS if is_list(as_object(body).get(key))]
    return lists[0] if lists else [body]


def read_definition(given: object, where: str) -> JsonObject:
    """`name`, `description`, `parameters` and `annotations` of one definition. Raises `WrongArgument` for anything
    else."""
    body = plain(given)
    if not is_object(body):
        refuse(where, given, _EXAMPLE)
    kind = body.get("type")
    inner: JsonObject = body["function"] if is_object(body.get("function")) else body
    if kind not in (None, "function", "custom") or "custom" in body:
        refuse(where, str(kind), "the definition of a function that the host runs", _OWN_TOOL)
    name, schema = inner.get("name"), next((inner[key] for key in _SCHEMAS if inner.get(key) is not None), None)
    if not isinstance(name, str) or not name.strip():
        advice = "Give several as a list to resolve_tools(...)" if any(key in body for key in _LISTS) else ""
        refuse(where, given, f"{_EXAMPLE} with a 'name'", advice)
    if schema is not None and not is_object(schema):
        refuse(f"{where}, tool '{name}'", schema, "a JSON Schema (a dict) for its arguments")
    description = inner.get("description")
    return {
        "name": name,
        "description": description if isinstance(description, str) else "",
        "parameters": _in_small_letters(schema),
        "annotations": as_object(body.get("annotations")),
    }


def _in_small_letters(schema: Any) -> Any:
    """Gemini's own schemas say `OBJECT` where JSON Schema says `object`."""
    if is_list(schema):
        return [_in_small_letters(each) for each in schema]
    if not is_object(schema):
        return schema
    is_type = isinstance(schema.get("type"), str) and schema["type"].isupper()
    small = {key: _in_small_letters(each) for key, each in schema.items()}
    return {**small, "type": schema["type"].lower()} if is_type else small
