"""How values leave a script: as JSON text alone, written by code that runs in the sandbox with the script's own time
and memory.

The host must not read a value of a script in any other way. What shares its parts is small in the sandbox and may be
endless once it is copied, written out or only hashed as a key, and the host could not stop in the middle of that.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, cast

# The file in which places of the code are that a session runs first.
PRELUDE_FILE = "<python-input-0>"
# The beginning of what reads the value. As an f-string it is certainly text.
READING = 'f"{__json__'
# The beginning of what reads variables.
READING_VARIABLES = 'f"{__variables__'
MAX_DEPTH = 100
MAX_VALUES = 100_000
# Characters of the texts, keys and numbers of one value; shared ones count each time.
MAX_CHARACTERS = 1_000_000
# Characters of JSON that the host reads.
MAX_TEXT = MAX_CHARACTERS + 200_000
# A longer whole number costs too much to write out.
MAX_BITS = 10_000
MAX_NAMES = 200
_ATTRIBUTE = re.compile(r"\.\s*([^\W\d]\w{0,100})|(?:^[ \t]+|[:;][ \t]*)([^\W\d]\w{0,100})\s*[:=](?!=)", re.MULTILINE)

# What runs in the sandbox. Built-in names are bound as parameters, because a script may assign to those names.
_SOURCE = """
def __make__(
    str=str, int=int, bool=bool, float=float, list=list, tuple=tuple, dict=dict, set=set, frozenset=frozenset, bytes=bytes,
    len=len, type=type, isinstance=isinstance, getattr=getattr, sorted=sorted, reversed=reversed, bin=bin,
    zip=zip, enumerate=enumerate,
    BaseException=BaseException, Exception=Exception, TypeError=TypeError, NameError=NameError,
):
    import dataclasses, datetime, json, math
    MAX_DEPTH, MAX_VALUES, MAX_CHARACTERS, MAX_BITS = LIMITS
    dumps, isfinite, is_dataclass = json.dumps, math.isfinite, dataclasses.is_dataclass
    date, time = datetime.date, datetime.time
    LARGE = 1 << MAX_BITS
    HOLDS = ["what holds other values"]
    VIEWS = ("dict_keys", "dict_values", "dict_items", "deque")

    def json_of(sources, roots, strict, names, most=MAX_CHARACTERS, same=False):
        # JSON of these values. Strict raises for what JSON has not; otherwise that is described in words. Same raises
        # also for what would come back as something else.
        values, room = MAX_VALUES, most if same else most + 1000  # for names and marks

        def too_long():
            if same:
                raise TypeError(f"{roots[0]} has more than {most:,} characters")
            raise TypeError(f"the arguments have too many characters: {most:,} are the most")

        def refuse(path, what, instead):
            if strict:
                place = ""
                while path is not None:
                    path, step = path
                    step = f"[{step}]" if type(step) is int else step if path is None else f".{step[:100]}"
                    place = f"{step}{place}"[:400]
                if len(place) > 200:
                    place = place[:199] + "…"
                raise TypeError(f"{place} is no JSON: it is {what}")
            return instead

        def text(value):
            nonlocal room
            before = room
            room -= len(value)
            if room >= 0:
                return value
            if strict:
                too_long()
            return value[:before] + "(cut)" if before > 0 else "(cut)"

        def number(value, path):
            if -LARGE < value < LARGE:
                if -1000000 < value < 1000000:
                    return value
                if room >= 0:
                    text(str(value))
                return value if room >= 0 else "(cut)"
            bits = len(bin(value)) - (3 if value < 0 else 2)
            return refuse(path, f"a number of {bits:,} bits", f"({bits:,} bits)")

        def name(value, path):
            # A key of an object, or what is in a set.
            if isinstance(value, int) and not isinstance(value, bool):
                return str(number(value, path))
            if value is None or isinstance(value, (str, float, bool)):
                return text(str(value))
            if isinstance(value, (date, time)):
                return text(value.isoformat())
            if isinstance(value, tuple) and len(value) <= 10:
                for part in value:
                    if part is not None and not isinstance(part, (str, float, bool)):
                        if not isinstance(part, int) or not -LARGE < part < LARGE:
                            return "(a tuple)"
                return text(str(value))
            return f"(a {type(value).__name__[:100]})"

        def plain(value, path, step):
            # What holds nothing else, as JSON; HOLDS for what does.
            nonlocal values, room
            values -= 1
            room -= 2
            kind = type(value)
            if values < 0:
                return refuse((path, step), f"more than {MAX_VALUES:,} values", "(too many values)")
            if kind is str:
                return text(value)
            if value is None or kind is bool:
                return value
            if kind is int:
                return number(value, (path, step))
            if kind is float:
                return value if isfinite(value) else refuse((path, step), f"{value}, which JSON has not", str(value))
            if isinstance(value, (list, tuple, dict)) or kind.__name__ == "deque":
                return HOLDS
            if isinstance(value, (date, time)):
                if same:
                    refuse((path, step), f"a {kind.__name__}: take its isoformat()", None)
                return text(value.isoformat())
            return other(value, kind, (path, step))

        def other(value, kind, path):
            if room < 0 and not strict:
                return "(cut)"
            if isinstance(value, BaseException):
                return refuse(path, "an exception", text(f"{kind.__name__}: {str(value)[:2000]}"))
            if isinstance(value, (set, frozenset)):
                refuse(path, "a set: make it a list", None)
                return HOLDS
            if isinstance(value, bytes):
                return refuse(path, "bytes: decode them", f"({len(value)} bytes)")
            type_name = kind.__name__
            if type_name in VIEWS:
                refuse(path, "a view of a dict: make it a list", None)
                return HOLDS
            if type_name == "coroutine":
                return refuse(path, "a call that was not awaited: write await before it", "(not awaited: write await before it)")
            refuse(path, f"a {type_name[:100]}", None)
            if is_dataclass(value) and kind is not type:
                return HOLDS
            as_text = str(value)
            if as_text.startswith(f"<{type_name} object at "):
                return HOLDS
            return text(as_text if len(as_text) <= 200 else f"{as_text[:200]}(cut)")

        def attributes(value):
            values = {}
            for name in names:
                try:
                    attribute = getattr(value, name, HOLDS)
                except Exception:
                    continue
                if attribute is not HOLDS and type(attribute).__name__ != "function":
                    values[name] = attribute
            return values

        def parts(value, path, depth, todo):
            # A list or an object, the lists and objects in it put off.
            nonlocal values
            if depth > MAX_DEPTH:
                return refuse(path, f"nested more than {MAX_DEPTH} deep", "(nested too deep)")
            inner = []
            if isinstance(value, dict):
                copy = {}
                for key, item in value.items():
                    if strict and (same or not isinstance(key, (str, int))) and type(key) is not str:
                        cure = ": make its keys text" if same else ""
                        refuse(path, f"an object with a key of type {type(key).__name__}{cure}", None)
                    key = name(key, path)
                    if key in copy and not strict:
                        key = f"{key} ({len(copy) + 1})"
                    copy[key] = plain(item, path, key)
                    if copy[key] is HOLDS:
                        inner.append((copy, key, item, (path, key), depth + 1))
                    if values < 0:
                        break
                todo.extend(reversed(inner))
                return copy
            if isinstance(value, (set, frozenset)):
                copy = []
                for item in value:
                    copy.append(name(item, path)[:200])
                    if room < 0 or len(copy) > values:
                        break
                values -= len(copy)
                return sorted(copy)
            if not isinstance(value, (list, tuple)) and type(value).__name__ not in VIEWS:
                copy = {type(value).__name__: HOLDS}
                todo.append((copy, type(value).__name__, attributes(value), path, depth + 1))
                return copy
            copy = []
            for item in value:
                step = len(copy)
                copy.append(plain(item, path, step))
                if copy[step] is HOLDS:
                    inner.append((copy, step, item, (path, step), depth + 1))
                if values < 0:
                    break
            todo.extend(reversed(inner))
            return copy

        top = [plain(value, None, root) for value, root in zip(sources, roots)]
        todo = [
            (top, place, value, (None, roots[place]), 0) for place, value in enumerate(sources) if top[place] is HOLDS
        ]
        while todo:
            into, place, value, path, depth = todo.pop()
            into[place] = parts(value, path, depth, todo)
        copy = dumps(top, ensure_ascii=False, separators=(",", ":"))
        if strict and len(copy) > (most if same else most + 1000):
            too_long()
        return copy

    def json_of_value(value, names):
        return json_of([value], ["value"], False, names)

    def json_of_call(positional, named):
        few = positional[:3]
        return json_of([named, *few], ["arguments", "the first argument", "arguments", "arguments"], True, ())

    def json_of_variables(names, reads, most, room):
        # Of each variable that there is its name and a list with its value, or why it has no JSON. They have as many
        # characters as there is room for.
        parts = []
        for name, read in zip(names, reads):
            try:
                value = read()
            except NameError:
                continue
            try:
                copy = json_of([value], [name], True, (), most if most < room else room, True)
                room -= len(copy)
            except TypeError as error:
                copy = dumps(str(error), ensure_ascii=False)
            parts.append(f'[{dumps(name, ensure_ascii=False)},{copy}]')
        return f'[{",".join(parts)}]'

FUNCTIONS
    return json_of_value, json_of_variables, FUNCTION_NAMES

__json__, __variables__, FUNCTION_NAMES = __make__()
__make__ = None
__value__ = None
"""

# An f-string is certainly text, whatever a script has done to the names in it.
_ASK = '__ask__(f"{json_of_call(positional, named)}")'
_FUNCTION = """
    def NAME(*positional, **named):
        return ASK
""".replace("ASK", _ASK)


@lru_cache
def prelude(functions: Sequence[str]) -> tuple[str, dict[tuple[int, int], str]]:
    """The code that defines these functions in the sandbox, and which function calls the host at which place of it.

    Only calls from these places are read, and their one argument is text. A call from anywhere else was copy by the
    script itself, which may have shadowed the function.
    """
    source = _SOURCE.replace("FUNCTION_NAMES", ", ".join(functions))
    source = source.replace("FUNCTIONS", "".join(_FUNCTION.replace("NAME", name) for name in functions))
    source = source.replace("LIMITS", str((MAX_DEPTH, MAX_VALUES, MAX_CHARACTERS, MAX_BITS)))
    ends = [match.end() for match in re.finditer(re.escape(_ASK.encode()), source.encode())]
    return source, {(end - len(_ASK), end): name for end, name in zip(ends, functions, strict=True)}


def read_json(text: str) -> list[Any]:
    """Decode the JSON text that the sandbox wrote. No more than `MAX_TEXT` and one more character of it need be
    given."""
    try:
        value: object = json.loads(text, parse_constant=_refuse) if len(text) <= MAX_TEXT else None
        if isinstance(value, list) and _is_flat(cast("object", value)):
            return cast("list[Any]", value)
    except (ValueError, RecursionError):
        pass
    # Too long as JSON (control characters take six), or the script has replaced the writer.
    return [f"{text[:MAX_CHARACTERS]}(cut)"]


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is not in JSON")


def _is_flat(value: object) -> bool:
    """Whether it is no deeper than the writer makes it, so that it can be written again."""
    level = [value]
    for _ in range(MAX_DEPTH + 5):
        inner: list[object] = []
        for one in level:
            if isinstance(one, dict):
                inner += cast("dict[str, object]", one).values()
            elif isinstance(one, list):
                inner += cast("list[object]", one)
        if not inner:
            return True
        level = inner
    return False


def reading_value(code: str) -> str:
    """The code that writes `__value__` as a JSON list of one. An instance shows the attributes that the script
    mentions, since the sandbox cannot list them."""
    names = {match[1] or match[2] for match in _ATTRIBUTE.finditer(code)}
    return f'{READING}(__value__, {sorted(names)[:MAX_NAMES]})}}"'


def reading_variables(names: Sequence[str], most: int, room: int) -> str:
    """The code that writes these global variables as a JSON list, each as its name and a list of its value, or a text
    that says why it has no JSON that comes back as the same. One of them may have `most` characters, all together
    `room`."""
    reads = ", ".join(f"lambda: {name}" for name in names)
    return f'{READING_VARIABLES}({[*names]}, [{reads}], {most}, {room})}}"'
