"""For the API pages: what a reader gets to see of a class, in place of how it is made. Extensions of griffe, named in mkdocs.yml.

`arguments: Fresh[dict[str, Any]] = Fresh()` is shown as `arguments: dict[str, Any]`: that each access gives a fresh copy is
said in prose. Special methods without a docstring, such as `__post_init__`, are left out.
"""

from __future__ import annotations

import ast
import re
from typing import Any

import griffe

DESCRIPTORS = {"_Schema": "dict[str, Any] | None", "_Arguments": "Any", "Frozen": "dict[str, Any]"}
"""What the descriptors with a name of their own hand out."""


HOW = re.compile(r"^field\(|(?<![\w.])_[A-Za-z]")
"""A value that tells how something is made: a dataclass's `field(...)`, or one with a private name in it."""


class FieldTypes(griffe.Extension):
    """Rewrites fields while the sources are read, before the parameters of dataclasses are made of them."""

    def on_attribute_instance(self, *, attr: griffe.Attribute, **_kwargs: Any) -> None:
        """Show the type that an access gives, and no private name."""
        written = str(attr.annotation)
        if written in DESCRIPTORS:
            shown = DESCRIPTORS[written]
        elif isinstance(attr.annotation, griffe.ExprSubscript) and str(attr.annotation.left) == "Fresh":
            shown = str(attr.annotation.slice)
        elif "default_factory=_" in str(attr.value):
            attr.value = expression(f"{written}()", attr)
            return
        else:
            return
        attr.annotation = expression(shown, attr)
        default = default_of(str(attr.value))
        attr.value = expression(default, attr) if default else None

    def on_class_members(self, *, cls: griffe.Class, **_kwargs: Any) -> None:
        """Leave out what only Python calls."""
        for name, member in list(cls.members.items()):
            if name.startswith("__") and name != "__init__" and not member.is_alias and not member.has_docstring:
                cls.del_member(name)

    def on_package(self, *, pkg: griffe.Module, **_kwargs: Any) -> None:
        """Leave out values that say nothing to a reader, now that the parameters of dataclasses are made of them."""
        leave_out_values(pkg)


def default_of(value: str) -> str:
    """What the descriptor is given as the field's default; empty for a field that is required."""
    for node in ast.walk(ast.parse(value)):
        if isinstance(node, ast.Call) and node.args and ast.unparse(node.func) in {"Fresh", *DESCRIPTORS}:
            return ast.unparse(node.args[0])
    return ""


def leave_out_values(holder: griffe.Module | griffe.Class) -> None:
    """The values of a module or class and of those in it."""
    for member in holder.members.values():
        if isinstance(member, griffe.Module | griffe.Class):
            leave_out_values(member)
        elif isinstance(member, griffe.Attribute) and HOW.search(str(member.value or "")):
            member.value = None


def expression(code: str, attr: griffe.Attribute) -> griffe.Expr | str | None:
    """Code as griffe reads it where the attribute stands."""
    assert attr.parent is not None
    return griffe.safe_get_expression(ast.parse(code, mode="eval").body, parent=attr.parent)
