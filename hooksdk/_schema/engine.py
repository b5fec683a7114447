"""JSON Schema validation whose cost has a limit: what `hooksdk.schema` checks with, loaded at its first check.

jsonschema does the validation. Its validator classes get keywords here that cannot explode (`pattern`, `enum`, `uniqueItems`,
`unevaluated*`), and every step into a subschema is counted. jsonschema-rs, where installed, answers for calls that are fine.
"""

from __future__ import annotations

import importlib
import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import islice
from typing import Any, cast

from jsonschema import exceptions, validators
from jsonschema_specifications import REGISTRY  # pyright: ignore[reportMissingTypeStubs] - it is typed inline
from referencing.exceptions import Unresolvable
from referencing.jsonschema import lookup_recursive_ref, specification_with

from hooksdk._schema.limits import NOT_KEPT, Kept, Survey, TooMuchWork, budget, pattern_matcher, survey
from hooksdk._schema.weight import Weight, schema_fault, schema_weight

__all__ = ["Compiled", "compile_schema"]

MAX_SCHEMA_VALUES = 20_000
"""The largest schema seen among real tools has 5,000."""
MAX_FAST_WEIGHT = 5_000


def _fail(message: str) -> exceptions.ValidationError:
    return exceptions.ValidationError(message)


def _search(pattern: str, text: str) -> bool:
    budget.step()
    return pattern_matcher(pattern)(text)


def _pattern(validator: Any, pattern: str, instance: Any, _schema: Any) -> Iterator[Any]:
    if validator.is_type(instance, "string") and not _search(pattern, instance):
        yield _fail("pattern")


def _pattern_properties(validator: Any, patterns: dict[str, Any], instance: Any, _schema: Any) -> Iterator[Any]:
    if validator.is_type(instance, "object"):
        for pattern, subschema in patterns.items():
            for key, value in instance.items():
                if _search(pattern, key):
                    yield from validator.descend(value, subschema, path=key, schema_path=pattern)


def _unknown_keys(instance: dict[str, Any], schema: dict[str, Any]) -> list[str]:
    known, patterns = schema.get("properties", {}), list(schema.get("patternProperties", {}))
    return [key for key in instance if key not in known and not any(_search(pattern, key) for pattern in patterns)]


def _extra_keys(validator: Any, subschema: Any, instance: dict[str, Any], keys: list[str]) -> Iterator[Any]:
    for key in keys:
        if subschema is False:
            yield _fail(key)
        else:
            yield from validator.descend(instance[key], subschema, path=key)


def _additional_properties(validator: Any, subschema: Any, instance: Any, schema: Any) -> Iterator[Any]:
    if subschema is not True and validator.is_type(instance, "object"):
        yield from _extra_keys(validator, subschema, instance, _unknown_keys(instance, schema))


def _type(validator: Any, types: Any, instance: Any, _schema: Any) -> Iterator[Any]:
    if not any(validator.is_type(instance, name) for name in ([types] if isinstance(types, str) else types)):
        yield _fail("type")


_stock_any_of: Any = validators.Draft202012Validator.VALIDATORS["anyOf"]


def _any_of(validator: Any, forms: list[Any], instance: Any, schema: Any) -> Iterator[Any]:
    kind = type(instance)  # pyright: ignore[reportUnknownVariableType] - the class of anything
    if not any(kind in validator.child(form)[1] for form in forms):  # as in `int | None`: no errors need to be built
        yield from _stock_any_of(validator, forms, instance, schema)


def _ref(validator: Any, reference: str, instance: Any, _schema: Any) -> Iterator[Any]:
    resolver = validator._resolver  # noqa: SLF001 - as jsonschema's own keywords do
    key = (id(resolver), reference)
    _, child, _ = budget.kept.get(key, NOT_KEPT)
    if child is None:
        found = resolver.lookup(reference)
        child, _ = budget.keep(key, resolver, validator.evolve(schema=found.contents, _resolver=found.resolver))
    budget.step()
    yield from child.iter_errors(instance)


def _required(validator: Any, required: list[str], instance: Any, _schema: Any) -> Iterator[Any]:
    if validator.is_type(instance, "object"):
        yield from (_fail(key) for key in required if key not in instance)


def _identity(value: Any) -> Any:
    """A hashable that is equal for equal JSON values: 1 is 1.0 but not true. Text is hashed with a secret, numbers are not."""
    kind = type(value)  # pyright: ignore[reportUnknownVariableType] - the class of anything
    if kind is str or value is None:
        return value
    if kind is bool:
        return ("?", value)
    if kind is dict:
        return ("{", frozenset([(key, _identity(each)) for key, each in value.items()]))
    if kind is list:
        return ("[", *map(_identity, value))
    if abs(value) >= 2**53 and value == int(value):
        return ("#", hex(int(value)))
    return value


def _enum(_validator: Any, values: list[Any], instance: Any, _schema: Any) -> Iterator[Any]:
    if isinstance(instance, str):
        found = instance in values
    else:
        wanted = _identity(instance)
        found = any(type(each) is not str and _identity(each) == wanted for each in values)
    if not found:
        yield _fail("enum")


def _const(validator: Any, value: Any, instance: Any, schema: Any) -> Iterator[Any]:
    return _enum(validator, [value], instance, schema)


def _unique_items(validator: Any, wanted: bool, instance: Any, _schema: Any) -> Iterator[Any]:
    if wanted and validator.is_type(instance, "array") and len({_identity(each) for each in instance}) < len(instance):
        yield _fail("uniqueItems")


def _multiple_of(validator: Any, divisor: float, instance: Any, _schema: Any) -> Iterator[Any]:
    if validator.is_type(instance, "number"):
        try:
            failed = (instance / divisor) % 1 if isinstance(divisor, float) else instance % divisor
        except OverflowError:
            failed = math.nan
        if failed != failed:  # noqa: PLR0124 - NaN: beyond what floats can tell
            failed = (Fraction(instance) / Fraction(divisor)).denominator != 1
        if failed:
            yield _fail("multipleOf")


def _holds(validator: Any, instance: Any, schema: Any) -> bool:
    return validator.evolve(schema=schema).is_valid(instance)


def _evaluated(validator: Any, instance: Any, schema: Any, *, own: bool = True) -> set[Any]:
    """The keys or indexes that `schema` looks at, for `unevaluatedProperties` and `unevaluatedItems`."""
    budget.step()
    if not isinstance(schema, dict):
        return set()
    schema = cast("dict[str, Any]", schema)
    everything = set[Any](cast("Any", instance) if isinstance(instance, dict) else range(len(instance)))
    legacy = "$dynamicRef" not in validator.VALIDATORS
    seen: set[Any] = set()
    if isinstance(instance, dict):
        if "additionalProperties" in schema or (not own and "unevaluatedProperties" in schema):
            return everything
        seen.update(key for key in schema.get("properties", {}) if key in instance)
        for pattern in schema.get("patternProperties", {}):
            seen.update(key for key in cast("dict[str, Any]", instance) if _search(pattern, key))
    else:
        items = schema.get("items", schema)
        if not own and "unevaluatedItems" in schema:
            return everything
        if items is not schema and (not (legacy and isinstance(items, list)) or "additionalItems" in schema):
            return everything
        seen.update(range(len(cast("list[Any]", items if isinstance(items, list) else schema.get("prefixItems", ())))))
        if "contains" in schema and not legacy:
            seen.update(index for index, each in enumerate(instance) if _holds(validator, each, schema["contains"]))
    for keyword in ("$ref", "$dynamicRef", "$recursiveRef"):
        if keyword in schema and keyword in validator.VALIDATORS:
            resolver = validator._resolver  # noqa: SLF001 - as jsonschema's own keywords do
            found = lookup_recursive_ref(resolver) if keyword == "$recursiveRef" else resolver.lookup(schema[keyword])
            target = validator.evolve(schema=found.contents, _resolver=found.resolver)
            seen |= _evaluated(target, instance, found.contents, own=False)
    inner: list[Any] = [each for keyword in ("allOf", "oneOf", "anyOf") for each in schema.get(keyword, ())]
    inner = [each for each in inner if _holds(validator, instance, each)]
    inner += [each for key, each in schema.get("dependentSchemas", {}).items() if key in everything]
    if "if" in schema:
        holds = _holds(validator, instance, schema["if"])
        inner += [schema["if"], schema.get("then")] if holds else [schema.get("else")]
    return seen.union(*(_evaluated(validator, instance, each, own=False) for each in inner))


def _unevaluated_properties(validator: Any, subschema: Any, instance: Any, schema: Any) -> Iterator[Any]:
    if validator.is_type(instance, "object"):
        seen = _evaluated(validator, instance, schema)
        yield from _extra_keys(validator, subschema, instance, [key for key in instance if key not in seen])


def _unevaluated_items(validator: Any, subschema: Any, instance: Any, schema: Any) -> Iterator[Any]:
    if validator.is_type(instance, "array"):
        seen = _evaluated(validator, instance, schema)
        for index, each in enumerate(instance):
            if index not in seen:
                yield from validator.descend(each, subschema, path=index)


_KEYWORDS: dict[str, Any] = {
    "$ref": _ref,
    "anyOf": _any_of,
    "additionalProperties": _additional_properties,
    "const": _const,
    "enum": _enum,
    "multipleOf": _multiple_of,
    "pattern": _pattern,
    "patternProperties": _pattern_properties,
    "required": _required,
    "type": _type,
    "unevaluatedItems": _unevaluated_items,
    "unevaluatedProperties": _unevaluated_properties,
    "uniqueItems": _unique_items,
}


def _dialect(stock: Any) -> Any:
    """A jsonschema validator class with the keywords above, which counts its steps and never leaves this family."""
    dialect_id = stock.ID_OF(stock.META_SCHEMA)
    specification = specification_with(dialect_id)
    id_key = "id" if "draft-04" in dialect_id else "$id"
    kept = {name: keyword for name, keyword in _KEYWORDS.items() if name in stock.VALIDATORS}
    family: Any = cast("Any", validators).extend(stock, kept)

    def evolve(self: Any, **changes: Any) -> Any:
        budget.step()
        schema = changes.get("schema", self.schema)
        kind = cast("Any", type(self))
        if isinstance(schema, dict) and "$schema" in schema:
            kind = _dialect_of(cast("dict[str, Any]", schema), kind)
        return kind(schema, _resolver=changes.get("_resolver", self._resolver))

    def child(self: Any, schema: Any, resolver: Any = None) -> tuple[Any, frozenset[type]]:
        if resolver is None:
            resolver = self._resolver
            if isinstance(schema, dict) and id_key in schema:
                resolver = resolver.in_subresource(specification.create_resource(cast("Any", schema)))
        budget.step()
        key = (id(cast("object", schema)), id(resolver))
        _, kept, quick = budget.kept.get(key, NOT_KEPT)
        return (kept, quick) if kept else budget.keep(key, schema, self.evolve(schema=schema, _resolver=resolver))

    def descend(
        self: Any, instance: Any, schema: Any, path: Any = None, schema_path: Any = None, resolver: Any = None
    ) -> Iterator[Any]:
        if schema is True:
            return
        kept, quick = self.child(schema, resolver)
        if type(instance) in quick:
            return
        for error in kept.iter_errors(instance):
            if path is not None:
                error.path.appendleft(path)
            if schema_path is not None:
                error.schema_path.appendleft(schema_path)
            yield error

    family.child, family.evolve, family.descend, family.specification, family.dialect_id = (
        child,
        evolve,
        descend,
        specification,
        dialect_id,
    )
    return family


_NEWEST = _dialect(validators.Draft202012Validator)
_DIALECTS: dict[str, Any] = {
    "https://json-schema.org/draft/2020-12/schema": _NEWEST,
    "https://json-schema.org/draft/2019-09/schema": _dialect(validators.Draft201909Validator),
    "http://json-schema.org/draft-07/schema": _dialect(validators.Draft7Validator),
    "http://json-schema.org/draft-06/schema": _dialect(validators.Draft6Validator),
    "http://json-schema.org/draft-04/schema": _dialect(validators.Draft4Validator),
}


def _dialect_of(schema: dict[str, Any], default: Any) -> Any:
    name = schema.get("$schema")
    return _DIALECTS.get(name.rstrip("#"), default) if isinstance(name, str) else default


@dataclass(frozen=True, slots=True)
class Compiled:
    """A schema ready to check with, or the reason why it cannot be."""

    schema: Any
    fault: str | None
    validator: Any = None
    fast: Any = None
    """jsonschema-rs' validator, where it is installed and sure to give the same answers in little time."""
    weight: Weight = field(default_factory=Weight)
    kept: dict[Any, Kept] = field(default_factory=dict[Any, Kept])

    def is_fine(self, instance: object, size: Survey) -> bool:
        """A quick yes. False means only that the full check has to decide."""
        if self.fast is None or size.values * self.weight.steps > 1e6 or size.characters * self.weight.patterns > 5e6:
            return False
        try:
            return self.fast.is_valid(instance)
        except Exception:
            return False

    def errors(self, instance: object, size: Survey) -> list[Any]:
        """Up to a hundred jsonschema errors. Raises `TooMuchWork`, or whatever a broken schema makes jsonschema raise."""
        budget.allow(size.values, size.characters, self.kept)
        try:
            return list(islice(self.validator.iter_errors(instance), 100))
        except RecursionError:
            raise TooMuchWork from None
        except Unresolvable as error:
            raise LookupError(f"{error.ref!r} is not in it, and no other document is ever fetched") from None


def compile_schema(schema: Any) -> Compiled:
    """Prepare a schema. Never raises: what is wrong with it is in `fault`."""
    size = survey(schema, MAX_SCHEMA_VALUES)
    if size.fault:
        return Compiled(schema, size.fault)
    kind = _dialect_of(cast("dict[str, Any]", schema), _NEWEST) if isinstance(schema, dict) else _NEWEST
    try:
        fault = schema_fault(schema, kind.dialect_id)
        if fault:
            return Compiled(schema, fault)
        resource = kind.specification.create_resource(schema)
        uri = resource.id() or ""
        resolver = REGISTRY.with_resource(uri, resource).crawl().resolver(uri)
        validator = kind(schema, _resolver=resolver)
    except Exception as error:
        return Compiled(schema, f"{type(error).__name__}: {str(error)[:200]}")
    weight = schema_weight(schema)
    return Compiled(schema, None, validator, _fast_validator(schema, kind.dialect_id, weight), weight)


def _fast_validator(schema: Any, dialect_id: str, weight: Weight) -> Any:
    if weight.steps > MAX_FAST_WEIGHT or weight.patterns > MAX_FAST_WEIGHT:
        return None
    try:
        jsonschema_rs: Any = importlib.import_module("jsonschema_rs")
        version = dialect_id.split("/")[-2].replace("-", "").replace("draft0", "")
        make = getattr(jsonschema_rs, f"Draft{version.removeprefix('draft')}Validator")
        return make(schema, validate_formats=False, retriever=_refuse, pattern_options=jsonschema_rs.RegexOptions())
    except Exception:  # not installed, or it reads the schema differently: the Python engine decides
        return None


def _refuse(uri: str) -> Any:
    raise LookupError(f"{uri} is never fetched")
