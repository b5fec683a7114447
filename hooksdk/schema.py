"""JSON Schema, and the JSON values that tools take: copy, compare, read, check, explain, repair.

Whatever comes in was written by somebody else: a schema by a foreign server, arguments by a model. So nothing here
fetches, and nothing hangs or raises for what it is given; a check that would cost too much ends in a `Problem`.
"""

from __future__ import annotations

import json
import marshal
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, cast

from hooksdk._schema.parts import Problem, local_target
from hooksdk._schema.work import TooMuchWork, survey
from hooksdk.values import (
    BadArguments,
    JsonObject,
    Uncloneable,
    canonical,
    clip,
    clone,
    compact,
    estimate_tokens,
    fingerprint,
    is_object,
    parse_arguments,
)

if TYPE_CHECKING:
    from hooksdk._schema.engine import Compiled

__all__ = [
    "BadArguments",
    "JsonObject",
    "Problem",
    "Uncloneable",
    "canonical",
    "check",
    "check_schema",
    "clone",
    "estimate_tokens",
    "fingerprint",
    "fit",
    "local_target",
    "parse_arguments",
    "provider_schema",
    "render",
    "repair",
]


# The schema of tools that do not say what they take. A check by it needs no engine, whose import takes long.
_ANY_OBJECT = {"type": "object", "additionalProperties": True}


@lru_cache(maxsize=512)
def _by_content(text: str) -> Compiled:
    from hooksdk._schema.engine import compile_schema

    return compile_schema(json.loads(text))


@lru_cache(maxsize=512)
def _by_bytes(content: bytes) -> Compiled:
    return _by_content(compact(clone(marshal.loads(content))))  # noqa: S302 - these bytes are our own


def _compiled(schema: Any) -> Compiled | str:
    """The validator kept for a schema of this content, or what is wrong with the schema. marshal is the cheapest way to
    tell that a schema has not changed."""
    try:
        try:
            compiled = _by_bytes(marshal.dumps(schema))
        except ValueError:  # a subclass somewhere, or nested too deep
            compiled = _by_content(compact(clone(schema)))
    except (ValueError, TypeError, RecursionError) as error:
        return clip(str(error), 300)
    return compiled if compiled.fault is None else compiled.fault


def check_schema(schema: object) -> str | None:
    """Why this is no usable JSON Schema, or None. References are followed when a value is checked, never to another
    document."""
    compiled = _compiled(schema)
    return compiled if isinstance(compiled, str) else None


def check(
    schema: Mapping[str, Any] | None, instance: object, *, root: str = "arguments", quote_values: bool = True
) -> list[Problem]:
    """What is wrong with a value, best first, at most ten; empty where it fits. Never raises.

    The draft is the one that `$schema` names, else 2020-12. Without `quote_values` no text repeats the value's own
    values.
    """
    if schema is None:
        return []
    compiled = None if schema == _ANY_OBJECT and is_object(instance) else _compiled(schema)
    if isinstance(compiled, str):
        return [Problem(root, "schema", clip(f"nothing can be checked, because the schema is broken: {compiled}", 300))]
    size = survey(instance)
    if not size.plain:
        try:
            instance = json.loads(compact(clone(instance)))
        except (Uncloneable, RecursionError) as error:
            return [Problem(root, "json", clip(str(error), 300))]
        size = survey(instance)
    if size.fault:
        return [Problem(root, "limit", f"this cannot be checked: {size.fault}")]
    if compiled is None:
        return []
    try:
        if not (errors := compiled.errors(instance, size)):
            return []
        from hooksdk._schema import explain

        return explain.explain(errors, root, quote_values=quote_values)
    except TooMuchWork:
        return [
            Problem(
                root, "limit", "checking this against the schema would take too long; send smaller or simpler values"
            )
        ]
    except Exception as error:
        reason = clip(str(error) if isinstance(error, LookupError) else type(error).__name__, 200)
        return [Problem(root, "schema", f"the schema cannot be followed: {reason}")]


def render(problems: Sequence[Problem], tool_name: str, schema: Mapping[str, Any] | None) -> str:
    """Tell the model that its call was not made, and why: at most 2,000 characters."""
    from hooksdk._schema import explain

    return explain.render(problems, tool_name, schema)


def fit(schema: Mapping[str, Any] | None, arguments: JsonObject) -> tuple[JsonObject, list[Problem]]:
    """Arguments as a weak model meant them, where the schema leaves no doubt, and what is wrong with them still. They
    are not changed: what is answered is the same object where nothing was repaired, else another one.

    Text becomes the number, boolean, object or array that is asked for; an empty optional value goes; a wrapper such as
    `{"arguments": {...}}` is taken off; `"options.count"` becomes `options: {count}`; an unknown key that is a missing
    required one but for case and separators takes its place. Valid arguments are left alone, except unknown keys under
    a schema that does not say whether there may be others: most do not, and an argument under a key that the tool does
    not know would be lost.
    """
    problems = check(schema, arguments)
    if not isinstance(schema, Mapping) or (problems and problems[0].constraint in {"schema", "limit", "json"}):
        return arguments, problems
    if not problems and not _has_unforeseen(schema, arguments):
        return arguments, problems
    from hooksdk._schema.repair import repair_arguments

    try:
        repaired = repair_arguments(clone(dict(schema)), clone(arguments))
    except RecursionError:  # hundreds of references in a row
        return arguments, problems
    if repaired == arguments:
        return arguments, problems
    remaining = check(schema, repaired)
    return (repaired, remaining) if len(remaining) <= len(problems) else (arguments, problems)


def repair(schema: Mapping[str, Any] | None, arguments: Mapping[str, Any]) -> JsonObject:
    """Arguments as `fit` repairs them: a copy. Raises `Uncloneable`."""
    return fit(schema, clone(dict(arguments)))[0]


def provider_schema(root: JsonObject) -> JsonObject:
    """A tool's schema in a shape that all providers accept: one bad schema makes them refuse the whole request.

    The top level becomes a plain object, since they refuse `anyOf`, `oneOf`, `allOf`, `enum` and `not` there: the
    properties that these name are kept, and where that loses something the description quotes the original. Calls are
    still checked against the tool's own schema. Further down only spelling changes.
    """
    from hooksdk._schema import provider

    return provider.provider_schema(root)


def _has_unforeseen(schema: Mapping[str, Any], arguments: JsonObject) -> bool:
    """Whether there are arguments of which the schema says nothing, not even that there may be others."""
    known = schema.get("properties")
    silent = "additionalProperties" not in schema and "patternProperties" not in schema
    return silent and isinstance(known, Mapping) and not arguments.keys() <= cast("Mapping[str, Any]", known).keys()
