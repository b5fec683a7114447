"""Explanations of wrong arguments, in words that help a model to send better ones."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, cast

from hooksdk._schema.parts import Problem
from hooksdk.errors import nearest
from hooksdk.values import clip, clone, kind_of

MAX_PROBLEMS = 10
MAX_MESSAGE = 300
MAX_EXPECTED = 400
MAX_RENDERED = 2_000


def explain(errors: list[Any], root: str, *, quote_values: bool) -> list[Problem]:
    """Turn jsonschema's errors into problems: names before types before the rest, the outer before the inner."""
    causes = [cause for error in errors for cause in _causes(error, 0)]
    causes.sort(key=lambda cause: (_RANKS.get(cause.validator, 2), len(cause.absolute_path)))
    problems: list[Problem] = []
    for cause in causes:
        if len(problems) == MAX_PROBLEMS:
            break
        problem = _problem(cause, root, quote_values=quote_values)
        if problem not in problems:
            problems.append(problem)
    return problems


_RANKS = {"additionalProperties": 0, "unevaluatedProperties": 0, "required": 0, "type": 1, "anyOf": 3, "oneOf": 3}


def _causes(error: Any, depth: int) -> list[Any]:
    """Look into `anyOf` and `oneOf`: where one branch was clearly meant, what is wrong with that branch."""
    if error.validator not in {"anyOf", "oneOf"} or not error.context or depth > 5:
        return [error]
    branches: dict[int, list[Any]] = {}
    for cause in error.context:
        branches.setdefault(cause.relative_schema_path[0], []).append(cause)
    near = [branch for branch in branches.values() if not any(_rules_out(cause) for cause in branch)]
    if len(near) > 1:
        fewest = min(map(len, near))
        near = [branch for branch in near if len(branch) == fewest]
    if len(near) != 1:
        return [error]
    return [deeper for cause in near[0][:MAX_PROBLEMS] for deeper in _causes(cause, depth + 1)]


def _rules_out(cause: Any) -> bool:
    """Whether a branch is of another kind altogether: another type, or another value of what tells the branches
    apart."""
    depth = len(cause.relative_path)
    return (depth == 0 and cause.validator == "type") or (depth <= 1 and cause.validator in {"const", "enum"})


def _path(root: str, parts: Sequence[Any]) -> str:
    text = root
    for part in parts:
        if isinstance(part, int):
            text += f"[{part}]"
        elif re.fullmatch(r"[A-Za-z_$][\w$-]{0,79}", part):
            text += f".{part}"
        else:
            text += f"[{json.dumps(clip(part, 80), ensure_ascii=False)}]"
    return clip(text, MAX_MESSAGE)


def _show(value: object, *, quote: bool) -> str:
    kind = kind_of(value)
    if isinstance(value, Mapping):
        return f"an {kind} with {len(cast('Mapping[str, Any]', value))} properties"
    if isinstance(value, (list, tuple)):
        return f"an {kind} of {len(cast('list[Any]', value))}"
    article = "an" if kind == "integer" else "a"
    if value is None:
        return "null"
    if not quote:
        return f"{article} {kind}"
    return (
        f"{kind} {json.dumps(clip(value, 60), ensure_ascii=False) if isinstance(value, str) else clip(str(value), 40)}"
    )


def _short(value: object, limit: int = 120) -> str:
    return clip(json.dumps(value, ensure_ascii=False, default=str), limit)


def _nearest(word: str, known: Iterable[str]) -> str | None:
    """Difflib is slow on long words and long lists, and strangers write both."""
    near = [each for each in islice(known, 2_000) if abs(len(each) - len(word)) <= 6 and len(each) <= 40]
    if len(near) > 60:
        near = [each for each in near if each[:1] == word[:1]][:60]
    matches = nearest(word, near, 1) if len(word) <= 40 else []
    return matches[0] if matches else None


def _problem(error: Any, root: str, *, quote_values: bool) -> Problem:
    constraint: str = error.validator or "false"
    parts = list(error.absolute_path)
    value, rule = error.instance, error.validator_value
    suggestion = None
    if constraint in {"required", "additionalProperties", "unevaluatedProperties"} and isinstance(value, dict):
        # Our own keywords give the name of the property as the message.
        name: str = error.message
        parts.append(name)
        message, rule, suggestion = _about_name(constraint, name, cast("dict[str, Any]", value), error.schema)
    else:
        got = _show(value, quote=quote_values)
        message = "".join(_describe(constraint, rule, value, got, error))
        if constraint == "enum" and isinstance(value, str) and quote_values:
            suggestion = _nearest(value, (each for each in rule if isinstance(each, str)))
    if "propertyNames" in error.absolute_schema_path:
        message = f"the name of a property: {message}"
    text = _short(rule, MAX_EXPECTED + 1)
    expected = clone(rule) if len(text) <= MAX_EXPECTED else clip(text, MAX_EXPECTED)
    return Problem(_path(root, parts), constraint, clip(message, MAX_MESSAGE), expected, suggestion)


def _about_name(constraint: str, name: str, value: dict[str, Any], schema: Any) -> tuple[str, Any, str | None]:
    known: dict[str, Any] = schema.get("properties") or {}
    if constraint == "required":
        close = _nearest(name, (key for key in value if key not in known))
        came = "and missing" if close is None else f"; {json.dumps(close, ensure_ascii=False)} came instead"
        return f"is required {came}".replace(" ;", ";"), known.get(name, {}), None if close is None else name
    names = f"known are {', '.join(islice(known, 30))}" if known else "none is allowed"
    return (
        f"there is no such property; {names}",
        list(islice(known, 200)),
        _nearest(name, (key for key in known if key not in value)),
    )


_OF_NUMBERS = {"minimum": ">= {}", "maximum": "<= {}", "exclusiveMinimum": "> {}", "exclusiveMaximum": "< {}"}
_OF_TEXTS = {"minLength": "at least {} characters long", "maxLength": "at most {} characters long"}
_OF_ARRAYS = {"minItems": "of at least {} items", "maxItems": "of at most {} items"}
_OF_OBJECTS = {"minProperties": "of at least {} properties", "maxProperties": "of at most {} properties"}
_BOUNDS = _OF_NUMBERS | {"multipleOf": "a multiple of {}"} | _OF_TEXTS | _OF_ARRAYS | _OF_OBJECTS


def _describe(constraint: str, rule: Any, value: Any, got: str, error: Any) -> Iterator[str]:
    if constraint in _BOUNDS:
        size = f" of {len(value)} characters" if isinstance(value, str) else ""
        yield f"must be {_BOUNDS[constraint].format(_short(rule))}; got {got}{size}"
    elif constraint == "type":
        yield f"must be {rule if isinstance(rule, str) else ' or '.join(rule)}; got {got}"
    elif constraint == "enum":
        yield f"must be one of {_short(rule, 180)[1:-1]}; got {got}"
    elif constraint == "const":
        yield f"must be {_short(rule)}; got {got}"
    elif constraint == "pattern":
        yield f"must match the regular expression {clip(rule, 120)}; got {got}"
    elif constraint == "uniqueItems":
        yield "must not hold the same item twice"
    elif constraint in {"anyOf", "oneOf"} and error.context:
        yield f"must be one of: {'; '.join(_outline(each) for each in rule[:8])}; got {got}"
    elif constraint == "oneOf":
        yield f"fits more than one of {len(rule)} forms; exactly one is allowed"
    elif constraint == "not":
        yield f"must not fit {_short(rule)}; got {got}"
    elif constraint == "false":
        yield "nothing is allowed here"
    else:
        yield f"does not meet {constraint} {_short(rule)}; got {got}"


def _outline(schema: Any) -> str:
    """One of several subschemas, in a few words."""
    if not isinstance(schema, dict):
        return "nothing" if schema is False else "anything"
    schema = cast("dict[str, Any]", schema)
    kind: Any = schema.get("type", "value")
    text = kind if isinstance(kind, str) else " or ".join(map(str, kind))
    for key in ("const", "enum", "$ref", "pattern"):
        if key in schema:
            return f"{text} {_short(schema[key], 60)}"
    names: list[str] = schema.get("required") or list(schema.get("properties") or ())
    return f"{text} with {', '.join(map(str, names[:5]))}" if names else text


def render(problems: Sequence[Problem], tool_name: str, schema: Mapping[str, Any] | None) -> str:
    """As `hooksdk.schema.render` describes it."""
    lines = [f"The tool {clip(tool_name, 100)} was not invoked: its arguments do not fit its schema."]
    room = MAX_RENDERED - 300
    for index, problem in enumerate(problems):
        line = f"- {clip(problem.path, 200)} ({clip(problem.constraint, 40)}): {problem.message}."
        if problem.suggestion is not None:
            line += f" Did you mean {json.dumps(clip(problem.suggestion, 100), ensure_ascii=False)}?"
        if problem.expected is not None:
            text = clip(problem.expected, 200) if isinstance(problem.expected, str) else _short(problem.expected, 200)
            # Said already: "must be >= 0. Expected: 0" would be read as the value to send.
            if problem.constraint != "type" and text.replace('"', "").strip("[]") not in problem.message.replace(
                '"', ""
            ):
                line += f" Expected: {text}"
        if sum(map(len, lines)) + len(lines) + len(line) > room:
            lines.append(f"- and {len(problems) - index} more.")
            break
        lines.append(line)
    required: Any = schema.get("required") if schema else None
    if isinstance(required, list) and required:
        lines.append(clip(f"Required: {', '.join(map(str, cast('list[Any]', required)))}.", 160))
    lines.append("Send the call again with these corrected.")
    return clip("\n".join(lines), MAX_RENDERED)
