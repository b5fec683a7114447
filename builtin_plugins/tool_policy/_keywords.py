"""Keywords of JSON Schema: one that is misspelt holds for everything, so a rule may not have it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, cast

from builtin_plugins.tool_policy._tables import words_in
from hooksdk.errors import did_you_mean

# Keywords of JSON Schema that hold schemas by name.
_BY_NAME = words_in("properties patternProperties $defs definitions dependentSchemas")
# Those that hold a list of schemas.
_IN_LIST = words_in("allOf anyOf oneOf prefixItems")
# Those that hold one schema.
_INSIDE = words_in("""
    items additionalItems contains additionalProperties propertyNames not if then else unevaluatedItems
    unevaluatedProperties
""")
_KEYWORDS = (
    _BY_NAME
    | _IN_LIST
    | _INSIDE
    | words_in("""
    $schema $id $anchor $dynamicAnchor $ref $dynamicRef $recursiveRef $recursiveAnchor $vocabulary $comment
    dependentRequired dependencies type enum const multipleOf maximum exclusiveMaximum minimum exclusiveMinimum
    maxLength minLength pattern maxItems minItems uniqueItems maxContains minContains maxProperties minProperties
    required title description default deprecated readOnly writeOnly examples format contentEncoding
    contentMediaType contentSchema
""")
)


def check_keywords(part: object, path: str) -> None:
    """A misspelt keyword is no error in JSON Schema: it holds for everything, which no rule can mean."""
    if not isinstance(part, dict):
        return
    for name, inner in cast("dict[str, Any]", part).items():
        where = f"{path}.{name}".lstrip(".")
        if name not in _KEYWORDS and not name.startswith("x-"):
            near = did_you_mean(name, _KEYWORDS)
            hint = near or f' Arguments stand under properties: {{"properties": {{"{name}": ...}}}}.'
            raise ValueError(f"'{where}' is not a JSON Schema keyword.{hint}")
        below: Iterable[tuple[str, object]] = ()
        if name in _BY_NAME and isinstance(inner, dict):
            below = cast("dict[str, Any]", inner).items()
        elif name in _IN_LIST and isinstance(inner, list):
            below = ((str(at), each) for at, each in enumerate(cast("list[object]", inner)))
        elif name in _INSIDE:
            below = (("", inner),)
        for key, each in below:
            check_keywords(each, f"{where}.{key}".rstrip("."))
