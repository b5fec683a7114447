"""What the parts of `hooksdk.schema` share: a problem with a value, and where a reference within a schema leads."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

from hooksdk.values import is_list, is_object


@dataclass(frozen=True, slots=True)
class Problem:
    """One way in which a value does not fit its schema.

    Attributes:
        path: Where: `arguments.options.count`, `arguments.rows[3]`, or `arguments` for the whole.
        constraint: The keyword of the schema; `schema` where the schema itself is broken, `limit` where checking would
            cost too much, `json` where the value is no JSON.
        message: What came and what is expected, at most 300 characters.
        expected: The part of the schema that is not met; as text, shortened, where it is long.
        suggestion: The name or value that was probably meant.
    """

    path: str
    constraint: str
    message: str
    expected: Any = None
    suggestion: str | None = None


def local_target(root: Any, reference: object) -> Any:
    """What `#/$defs/x` points to inside the schema `root`. Raises `LookupError` where it points elsewhere or
    nowhere."""
    if not isinstance(reference, str) or reference.partition("/")[0] != "#":
        raise LookupError(reference)
    node = root
    for part in reference.split("/")[1:]:
        name = unquote(part).replace("~1", "/").replace("~0", "~")
        if is_list(node):
            node = node[int(name) if name.isdecimal() else len(node)]
        elif is_object(node):
            node = node[name]
        else:
            raise LookupError(reference)
    return node
