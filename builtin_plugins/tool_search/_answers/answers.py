"""The answers of a search and of a description, for the bridge tools and for scripts alike."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import zip_longest
from typing import Any, cast

from builtin_plugins.tool_search._answers.listing import available, not_available
from builtin_plugins.tool_search._answers.scope import Refusal, Scope, reason_of
from builtin_plugins.tool_search._answers.signatures import signature, summary
from builtin_plugins.tool_search.rankers import Ranked, Ranker
from hooksdk import Tool, schema
from hooksdk.values import as_list, as_object, clip, compact, is_list, is_mapping

MAX_QUERIES = 10
MAX_DESCRIBED = 10
# Tools that one search shows natively: a provider that compacts a conversation keeps a bounded number of references.
MOST_REFERENCES = 5
# Characters up to which the best hit comes with its schema, where that says more than the call signature.
MAX_HIT_SCHEMA = 800
# Keywords of a property that the call signature says in full.
_IN_SIGNATURE = {"type", "title", "enum", "const"}

# Characters of one schema that are shown; of a larger one its outline is, and parts can be asked for.
MAX_SCHEMA = 8_000
_SHOWN = MAX_SCHEMA // 3
_INDEX = re.compile(r"\[(\d{1,6})\]")
_MOST_STEPS = 40


def search(queries: Sequence[str], limit: int, *, scope: Scope, ranker: Ranker) -> dict[str, Any]:
    """The answer to these queries: the hits of each, and what exists where one finds too little."""
    catalog, deferred = scope.catalog, scope.deferred
    direct = len(catalog) - len(deferred)
    queries = list(dict.fromkeys(queries))
    groups: list[dict[str, Any]] = []
    for query in queries[:MAX_QUERIES]:
        ranked = [hit for hit in ranker.search(query, limit + direct) if hit.id in catalog]
        groups.append(_group(query, ranked, limit, scope))
    answer: dict[str, Any] = {"total_available": len(deferred), "results": groups}
    if len(queries) > MAX_QUERIES:
        answer["note"] = f"Only the first {MAX_QUERIES} queries were searched."
    if catalog.missing:
        answer["not_available"] = not_available(catalog.missing)
    if any("weak" in group or not (group["hits"] or "already_offered" in group) for group in groups):
        answer["available_from"] = available(tool for tool in catalog if tool.name in deferred)
        answer["hint"] = "Try other words, or one capability at a time. What is not found may not exist."
    return answer


def references(groups: Sequence[Mapping[str, Any]]) -> list[str]:
    """The best hits of all queries in turns; those that fit badly only where no other is."""
    hits = [hit for rank in zip_longest(*(group["hits"] for group in groups)) for hit in rank if hit]
    fitting = [hit["name"] for hit in hits if "weak" not in hit]
    return list(dict.fromkeys(fitting or (hit["name"] for hit in hits)))[:MOST_REFERENCES]


def _group(query: str, ranked: Sequence[Ranked], limit: int, scope: Scope) -> dict[str, Any]:
    deferred = scope.deferred
    best = [(hit, tool) for hit in ranked if hit.id in deferred and (tool := scope.catalog.get(hit.id))][:limit]
    hits = [_hit(tool, scope, weak=hit.weak) for hit, tool in best]
    if best and not best[0][0].weak and _deserves_schema(parameters := best[0][1].parameters or {}):
        # Which dialect it is helps nobody to call it.
        hits[0]["parameters"] = {key: part for key, part in parameters.items() if key != "$schema"}
    group: dict[str, Any] = {"query": clip(query, 200), "hits": hits}
    if ranked and ranked[0].id not in deferred and not ranked[0].weak:
        directly = "by its own name" if scope.way == "native" else f"without {scope.names.call}"
        group["already_offered"] = f"{ranked[0].id} is offered to you directly: call it {directly}"
    if hits and all(hit.weak for hit, _ in best):
        group["weak"] = "None of these fits well; the capability may not exist here."
    return group


def _hit(tool: Tool, scope: Scope, *, weak: bool) -> dict[str, Any]:
    answers = scope.returns(tool)
    call = signature(tool.name, tool.parameters) + (f" -> {answers}" if answers else "")
    hit = {"call": call, "name": tool.name, "description": summary(tool.description), "from": clip(tool.owner, 60)}
    return {**hit, "weak": True} if weak else hit


def _deserves_schema(parameters: Mapping[str, Any]) -> bool:
    """Whether a schema is small, and says more than the call signature does."""
    parts = as_object(parameters.get("properties")).values()
    return any(map(_says_more, parts)) and len(compact(parameters)) <= MAX_HIT_SCHEMA


def _says_more(part: object) -> bool:
    """Whether a property is more than the call signature says; that it is null unless given is no more."""
    if not is_mapping(part):
        return True
    return any(key not in _IN_SIGNATURE and (key, value) != ("default", None) for key, value in part.items())


def describe(names: Sequence[str], part: object, *, scope: Scope) -> dict[str, Any]:
    """The schemas of these tools, and for each name without a schema the reason."""
    tools: dict[str, Any] = {}
    problems: dict[str, str] = {}
    for name in names[:MAX_DESCRIBED]:
        tool = scope.catalog.meant(name)
        if (tool is not None and tool.name not in scope.deferred) or (tool is None and scope.names.bridge(name)):
            problems[name] = "It is offered to you directly, with its whole schema."
            continue
        try:
            granted = scope.granted(name)
        except Refusal as error:
            problems[clip(name, 200)] = reason_of(error)
        else:
            tools[granted.name] = described(granted, part)
            if not part and (answers := scope.returns(granted)):
                tools[granted.name]["returns"] = answers
    answer: dict[str, Any] = {"tools": tools}
    if problems:
        answer["problems"] = problems
    if len(names) > MAX_DESCRIBED:
        answer["note"] = f"Only the first {MAX_DESCRIBED} names were looked up."
    return answer


def described(tool: Tool, part: object = None) -> dict[str, Any]:
    """Description and schema of a tool, or the part of it at `properties.filter`, `anyOf.2`, `anyOf[2]`, `#/$defs/Node`
    or, for short, `filter`; of a very large one its outline."""
    whole = tool.parameters or {"type": "object", "properties": {}}
    parameters: object = whole
    path = part if isinstance(part, str) else ""
    answer: dict[str, Any] = {} if path else {"description": clip(tool.description, MAX_SCHEMA)}
    if path:
        steps = _steps(path)
        parameters, place, last = _walk(whole, steps)
        if parameters is None:
            parameters, *_ = _walk(whole.get("properties"), steps)
        if parameters is None:
            names = [*last] if is_mapping(last) else [str(index) for index in range(len(as_list(last)))]
            at = {"at": clip(place, 200)} if place else {}
            problem = f"its schema has no part '{clip(path, 200)}'"
            return {"problem": problem, **at, **_names(names, "parts", "more_parts")}
    if len(compact(parameters)) <= MAX_SCHEMA:
        return {**answer, "parameters": parameters}
    return {**answer, **_shortened(parameters, path)}


def texts_of(value: object) -> list[str]:
    """The texts that a model meant: a list, one text, or JSON text of a list."""
    if isinstance(value, str):
        text = value.strip()
        if text.startswith("["):
            try:
                return texts_of(schema.parse_arguments(f'{{"list": {text}}}')["list"])
            except ValueError:
                return [text]
        return [text] if text else []
    return [one.strip() for one in as_list(value) if isinstance(one, str) and one.strip()]


def number_of(value: object, default: int) -> int:
    """The number that a model meant, or the default."""
    try:
        return int(cast("Any", value))
    except (TypeError, ValueError, OverflowError):
        return default


def _shortened(part: object, path: str) -> dict[str, Any]:
    """A part that is too large to show, within the same size: names and types of its first levels, and how to go on.
    `path` is what it was asked for by."""
    before = clip(f"{path}.", 200) if path else ""
    if is_mapping(part):
        outline = _names(list(part), "keys", "more_keys")
        example = "properties.NAME" if "properties" in part else "NAME"
        if "properties" in part:
            outline["outline"] = signature("", part, limit=MAX_SCHEMA // 2, most=MAX_SCHEMA // 2)
        return {"parameters": outline, "note": f"Shortened: ask for one part, such as part='{before}{example}'."}
    if (schemas := as_list(part)) and all(map(is_mapping, schemas)):
        outline = _names([_line(one) for one in schemas], "outline", "more")
        return {"parameters": outline, "note": f"Shortened: ask for one by its number, such as part='{before}0'."}
    # A list of values, a long text or the like has no parts to ask for.
    return {"parameters": clip(compact(part), MAX_SCHEMA), "note": "Cut off: it is too long."}


def _line(schema: Mapping[str, Any]) -> str:
    return signature(clip(str(schema.get("title") or schema.get("$ref") or ""), 80), schema, limit=200, most=400)


def _names(names: Sequence[str], key: str, more: str) -> dict[str, Any]:
    """As many as there is room for, and how many are left out."""
    first: list[str] = []
    room = _SHOWN
    for name in names:
        room -= len(name) + 3
        if room < 0:
            break
        first.append(name)
    return {key: first, more: len(names) - len(first)} if len(first) < len(names) else {key: first}


def _steps(part: str) -> list[str]:
    path = part.strip()
    separator = "/" if path.startswith(("#", "/")) or ("/" in path and "." not in path) else "."
    return _INDEX.sub(rf"{separator}\1", path.lstrip("#/")).split(separator)[:_MOST_STEPS]


def _walk(here: object, steps: Sequence[str]) -> tuple[object, str, object]:
    """Follow the steps: the value at their end or None, the path that could be followed, and the value at the end of
    that path. A key may hold dots."""
    path: list[str] = []
    while steps:
        count, inner = _inner(here, steps)
        if not count:
            return None, ".".join(path), here
        path += steps[:count]
        here, steps = inner, steps[count:]
    return here, ".".join(path), here


def _inner(here: object, steps: Sequence[str]) -> tuple[int, object]:
    """How many steps lead on from here, and where to."""
    if is_mapping(here):
        for count in range(len(steps), 0, -1):
            if (key := ".".join(steps[:count])) in here:
                return count, here[key]
    if is_list(here) and steps[0].isdecimal() and int(steps[0]) < len(here):
        return 1, here[int(steps[0])]
    return 0, None
