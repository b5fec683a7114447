"""The engine of `hooksdk.schema`, loaded at its first check: jsonschema, with a limit on its work.

Its validator classes get keywords here that cannot explode (`pattern`, `enum`, `uniqueItems`, `unevaluated*`) or that
name what they refuse, and every visit of a subschema is counted.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any, NamedTuple, cast

from jsonschema import exceptions, validators
from jsonschema_specifications import REGISTRY  # pyright: ignore[reportMissingTypeStubs] - it is typed inline
from referencing.exceptions import Unresolvable
from referencing.jsonschema import specification_with

from hooksdk._schema.keywords import prepare
from hooksdk._schema.patterns import Pattern
from hooksdk._schema.work import Size, TooMuchWork, survey, work
from hooksdk.values import as_object, is_list, is_object

# The largest schema seen among real tools has 5,000.
MAX_SCHEMA_VALUES = 20_000
# Of which the ten best become problems.
MAX_ERRORS = 50


class _DoesNotFit(Exception):
    """Ends a check where only yes or no matters: making an error object is slow."""


def _fail(message: str) -> exceptions.ValidationError:
    if work.silent:
        raise _DoesNotFit
    return exceptions.ValidationError(message)


def _fits(pattern: str, text: str) -> bool:
    if isinstance(pattern, Pattern):
        return pattern.fits(text)
    raise LookupError(f"the pattern {pattern[:80]!r} stands where no schema is expected")


def _pattern(_validator: Any, pattern: str, instance: Any, _schema: Any) -> Iterator[Any]:
    if isinstance(instance, str) and not _fits(pattern, instance):
        yield _fail("pattern")


def _pattern_properties(validator: Any, patterns: dict[str, Any], instance: Any, _schema: Any) -> Iterator[Any]:
    if is_object(instance):
        for pattern, subschema in patterns.items():
            for key in [key for key in instance if _fits(pattern, key)]:
                yield from validator.descend(instance[key], subschema, path=key, schema_path=pattern)


def _check_keys(validator: Any, subschema: Any, instance: dict[str, Any], keys: list[str]) -> Iterator[Any]:
    for key in keys:
        if subschema is False:
            yield _fail(key)
        else:
            yield from validator.descend(instance[key], subschema, path=key)


def _additional_properties(validator: Any, subschema: Any, instance: Any, schema: Any) -> Iterator[Any]:
    if subschema is not True and is_object(instance):
        known, patterns = schema.get("properties", ()), schema.get("patternProperties", ())
        keys = [key for key in instance if key not in known]
        if patterns:
            keys = [key for key in keys if not any(_fits(pattern, key) for pattern in patterns)]
        yield from _check_keys(validator, subschema, instance, keys)


def _type(validator: Any, types: Any, instance: Any, _schema: Any) -> Iterator[Any]:
    if not any(validator.is_type(instance, name) for name in ([types] if isinstance(types, str) else types)):
        yield _fail("type")


def _required(_validator: Any, required: list[str], instance: Any, _schema: Any) -> Iterator[Any]:
    if isinstance(instance, dict):
        yield from (_fail(key) for key in required if key not in instance)


def _identity(value: Any) -> Any:
    """A hashable that is equal for equal JSON values: 1 is 1.0 but not true."""
    kind = type(value)  # pyright: ignore[reportUnknownVariableType] - the class of anything
    if kind is bool:
        return ("?", value)
    if kind is dict:
        work.spend(len(value))
        return ("{", frozenset([(key, _identity(each)) for key, each in value.items()]))
    if kind is list:
        work.spend(len(value))
        return ("[", *map(_identity, value))
    if kind in {int, float} and abs(value) >= 2**53:
        return ("#", hex(int(value)))  # as text: the hash of a text is salted, large numbers can be chosen to collide
    return value


def _enum(_validator: Any, values: list[Any], instance: Any, _schema: Any) -> Iterator[Any]:
    if isinstance(instance, str):
        work.spend(len(values) * len(instance) // 10_000)
        fits = instance in values
    else:
        work.spend(len(values))
        identity = _identity(instance)
        fits = any(type(each) is not str and _identity(each) == identity for each in values)
    if not fits:
        yield _fail("enum")


def _const(validator: Any, value: Any, instance: Any, schema: Any) -> Iterator[Any]:
    return _enum(validator, [value], instance, schema)


def _unique_items(_validator: Any, must_be_unique: bool, instance: Any, _schema: Any) -> Iterator[Any]:
    if must_be_unique and is_list(instance):
        work.spend(len(instance))
        if len({_identity(each) for each in instance}) < len(instance):
            yield _fail("uniqueItems")


def _holds(validator: Any, instance: Any, schema: Any) -> bool:
    return validator.evolve(schema=schema).is_valid(instance)


def _evaluated(validator: Any, instance: Any, schema: Any, *, own: bool = True) -> set[Any]:
    """The keys or indexes that `schema` looks at, for `unevaluatedProperties` and `unevaluatedItems`."""
    work.spend(1 + len(instance) // 16)
    if not is_object(schema):
        return set()
    if is_object(instance):
        everything, unevaluated, rest = set[Any](instance), "unevaluatedProperties", "additionalProperties"
        known, patterns = schema.get("properties", ()), schema.get("patternProperties", ())
        evaluated = {key for key in instance if key in known or any(_fits(pattern, key) for pattern in patterns)}
    else:
        everything, unevaluated = set[Any](range(len(instance))), "unevaluatedItems"
        first, rest = ("items", "additionalItems") if is_list(schema.get("items")) else ("prefixItems", "items")
        evaluated = everything.intersection(range(len(schema.get(first, ()))))
        if "contains" in schema and "$dynamicRef" in validator.VALIDATORS:  # not in 2019-09
            evaluated |= {index for index, each in enumerate(instance) if _holds(validator, each, schema["contains"])}
    if rest in schema or (not own and unevaluated in schema):
        return everything
    for keyword in ("$ref", "$dynamicRef"):
        if keyword in schema:
            target = validator._resolver.lookup(schema[keyword])  # noqa: SLF001 - as jsonschema's own keywords do
            child = validator.evolve(schema=target.contents, _resolver=target.resolver)
            evaluated |= _evaluated(child, instance, target.contents, own=False)
    inner = [each for name in ("allOf", "oneOf", "anyOf") for each in schema.get(name, ())]
    inner = [each for each in inner if _holds(validator, instance, each)]
    inner += [each for key, each in schema.get("dependentSchemas", {}).items() if key in everything]
    if "if" in schema:
        holds = _holds(validator, instance, schema["if"])
        inner += [schema["if"], schema.get("then")] if holds else [schema.get("else")]
    return evaluated.union(*(_evaluated(validator, instance, each, own=False) for each in inner))


def _unevaluated_properties(validator: Any, subschema: Any, instance: Any, schema: Any) -> Iterator[Any]:
    if is_object(instance):
        evaluated = _evaluated(validator, instance, schema)
        yield from _check_keys(validator, subschema, instance, [key for key in instance if key not in evaluated])


def _unevaluated_items(validator: Any, subschema: Any, instance: Any, schema: Any) -> Iterator[Any]:
    if is_list(instance):
        evaluated = _evaluated(validator, instance, schema)
        for index, each in enumerate(instance):
            if index not in evaluated:
                yield from validator.descend(each, subschema, path=index)


def _ref(validator: Any, reference: str, instance: Any, _schema: Any) -> Iterator[Any]:
    nodes = work.nodes
    node = None if nodes is None else nodes.get(reference)
    if node is None:
        target = validator._resolver.lookup(reference)  # noqa: SLF001 - as jsonschema's own keywords do
        node = _node(validator, target.contents, target.resolver)
        if nodes is not None:
            nodes[reference] = node
    work.visit(node.cost, instance)
    yield from node.validator.iter_errors(instance)


def _choice(stock: Any, most: int) -> Any:
    """`anyOf` and `oneOf`, which write the errors of all branches only where the value fits none of them, or too
    many."""

    def choose(validator: Any, branches: list[Any], instance: Any, schema: Any) -> Iterator[Any]:
        work.spend(len(branches) // 4)
        fitting = (branch for branch in branches if _node(validator, branch).fits(instance))
        if len(list(islice(fitting, most))) != 1:
            yield from (
                [_fail("fits none, or too many")] if work.silent else stock(validator, branches, instance, schema)
            )

    return choose


_KEYWORDS: dict[str, Any] = {
    "$ref": _ref,
    "anyOf": _choice(validators.Draft202012Validator.VALIDATORS["anyOf"], 1),
    "additionalProperties": _additional_properties,
    "const": _const,
    "enum": _enum,
    "oneOf": _choice(validators.Draft202012Validator.VALIDATORS["oneOf"], 2),
    "pattern": _pattern,
    "patternProperties": _pattern_properties,
    "required": _required,
    "type": _type,
    "unevaluatedItems": _unevaluated_items,
    "unevaluatedProperties": _unevaluated_properties,
    "uniqueItems": _unique_items,
}


class _Node(NamedTuple):
    """The validator of a subschema.

    Attributes:
        possible: The types of values that may fit.
        sure: The types of values that do: where the schema says nothing but a type.
    """

    validator: Any
    cost: int
    possible: set[type]
    sure: set[type]

    def fits(self, value: Any) -> bool:
        kind = type(value)  # pyright: ignore[reportUnknownVariableType] - the class of anything
        return kind in self.sure or (kind in self.possible and self.validator.is_valid(value))


_TYPES = {
    "array": {list},
    "boolean": {bool},
    "integer": {int, float},
    "null": {type(None)},
    "number": {int, float},
    "object": {dict},
    "string": {str},
}
_ANY = set[type]().union(*_TYPES.values())


def _node(validator: Any, schema: Any, resolver: Any = None) -> _Node:
    nodes = work.nodes
    if nodes is not None and (node := nodes.get(id(schema))):
        return node
    if resolver is None:
        resolver = validator._resolver  # noqa: SLF001 - as jsonschema's own `descend` does
        if nodes is None:
            resolver = resolver.in_subresource(validator.specification.create_resource(schema))
    cost, possible, sure = 1, _ANY, set[type]()
    if is_object(schema):
        cost += sum(len(cast("Any", value)) for value in schema.values() if isinstance(value, (dict, list))) // 16
        name = schema.get("type")
        if isinstance(name, str) and "$ref" not in schema:
            possible = _TYPES[name]
            if schema.keys() & validator.VALIDATORS == {"type"}:
                sure = {int} if name == "integer" else possible
    node = _Node(type(validator)(schema, _resolver=resolver), cost, possible, sure)
    if nodes is None:
        work.spend(10)  # references are followed anew at each visit
    else:
        nodes[id(schema)] = node
    return node


def _evolve(validator: Any, *, schema: Any, _resolver: Any = None) -> Any:
    return _node(validator, schema, _resolver).validator


def _descend(
    validator: Any, instance: Any, schema: Any, path: Any = None, schema_path: Any = None, resolver: Any = None
) -> Iterator[Any]:
    if schema is True:
        return
    node = _node(validator, schema, resolver)
    work.visit(node.cost, instance)
    if type(instance) in node.sure:
        return
    for error in node.validator.iter_errors(instance):
        # Making an error is slow, above all because jsonschema writes the whole value into its message.
        work.spend(5 + len(error.message) // 1_000 if len(error.relative_schema_path) < 2 else 1)
        if path is not None:
            error.path.appendleft(path)
        if schema_path is not None:
            error.schema_path.appendleft(schema_path)
        yield error


def _is_valid(validator: Any, instance: Any) -> bool:
    silent, work.silent = work.silent, True
    try:
        resolver = validator._resolver  # noqa: SLF001 - it is the right one for this schema already
        return next(_descend(validator, instance, validator.schema, resolver=resolver), None) is None
    except _DoesNotFit:
        return False
    finally:
        work.silent = silent


def _dialect(stock: Any) -> Any:
    """A jsonschema validator class with the keywords above, which counts its visits and never leaves this family."""
    keywords = {name: keyword for name, keyword in _KEYWORDS.items() if name in stock.VALIDATORS}
    family: Any = cast("Any", validators).extend(stock, keywords)
    family.evolve, family.descend, family.is_valid = _evolve, _descend, _is_valid
    family.dialect_id = stock.ID_OF(stock.META_SCHEMA)
    family.specification = specification_with(family.dialect_id)
    return family


_STOCK = cast("Any", validators)
_DIALECTS: dict[str, Any] = {
    stock.ID_OF(stock.META_SCHEMA).rstrip("#"): _dialect(stock)
    for stock in (getattr(_STOCK, f"Draft{name}Validator") for name in ("4", "6", "7", "201909", "202012"))
}
_NEWEST = _DIALECTS["https://json-schema.org/draft/2020-12/schema"]


@dataclass(frozen=True, slots=True)
class Compiled:
    """A schema ready to check with, or the reason why it cannot be.

    Attributes:
        nodes: The validators of its subschemas and references, made at first use. None where a subschema means
            different things in different places, so that none can be kept.
    """

    fault: str | None
    validator: Any = None
    nodes: dict[Any, Any] | None = None

    def errors(self, instance: object, size: Size) -> list[Any]:
        """The first errors of jsonschema. Raises `TooMuchWork`, or whatever a broken schema makes jsonschema raise."""
        work.begin(size, self.nodes)
        try:
            return list(islice(self.validator.iter_errors(instance), MAX_ERRORS))
        except RecursionError:
            raise TooMuchWork from None
        except Unresolvable as error:
            raise LookupError(f"{error.ref!r} is not in it, and no other document is ever fetched") from None
        except BaseException as error:
            if type(error).__name__ == "PanicException":  # how rpds says that the stack ended while it was at work
                raise TooMuchWork from None
            raise


def compile_schema(schema: Any) -> Compiled:
    """Prepare a schema, which is changed. Never raises: what is wrong with it is in `fault`."""
    size = survey(schema, MAX_SCHEMA_VALUES)
    if size.fault:
        return Compiled(size.fault)
    dialect = _DIALECTS.get(str(as_object(schema).get("$schema")).rstrip("#"), _NEWEST)
    try:
        fault, is_simple = prepare(schema, dialect.dialect_id)
        if fault:
            return Compiled(fault)
        resource = dialect.specification.create_resource(schema)
        uri = resource.id() or ""
        resolver = REGISTRY.with_resource(uri, resource).crawl().resolver(uri)
        return Compiled(None, dialect(schema, _resolver=resolver), {} if is_simple else None)
    except Exception as error:
        return Compiled(f"{type(error).__name__}: {str(error)[:200]}")
