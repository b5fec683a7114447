"""What the package promises of itself: hooks and their reference, exports, docstrings, errors."""

from __future__ import annotations

import ast
import dataclasses
import functools
import importlib
import inspect
import math
import pickle
import re
import types
from pathlib import Path
from typing import Any

import pytest

from hooksdk import errors
from hooksdk.formats import HasArguments, HasDeferral, HasRules, MessageFormat
from hooksdk.hooks import HOOKS
from hooksdk.transcript import SessionLog, Store

ROOT = Path(__file__).parents[1]
REFERENCE = ROOT / "docs" / "reference" / "hooks.md"


def blank_of(kind: Any) -> Any:
    """An instance whose fields are not set."""
    return object.__new__(kind)


# Hooks


@pytest.mark.parametrize("name", HOOKS)
def test_an_event_is_named_after_its_hook_and_is_frozen_and_keyword_only(name: str) -> None:
    event = HOOKS[name].event
    assert event.__name__ == "".join(word.title() for word in name.split("_"))
    assert all(field.kw_only for field in dataclasses.fields(event))
    blank = blank_of(event)
    for field in dataclasses.fields(event):
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(blank, field.name, None)


@pytest.mark.parametrize("name", HOOKS)
def test_every_answer_is_frozen(name: str) -> None:
    for answer in HOOKS[name].answers:
        blank = blank_of(answer)
        with pytest.raises(AttributeError):
            blank.reason = ""


@pytest.mark.parametrize("name", HOOKS)
def test_every_hook_says_what_it_is_for(name: str) -> None:
    text = inspect.getdoc(HOOKS[name]) or ""
    assert len(text) > 20
    assert text.endswith(".")


@functools.cache
def sections() -> dict[str, dict[str, str]]:
    """The reference, by hook: each labelled line of its section."""
    parts = re.split(r"^## (\w+)\n", REFERENCE.read_text(encoding="utf-8"), flags=re.MULTILINE)
    found = dict(zip(parts[1::2], parts[2::2], strict=True))
    return {name: dict(re.findall(r"^- \*\*([^*]+):\*\* (.+)$", text, re.MULTILINE)) for name, text in found.items()}


def quoted(text: str) -> list[str]:
    """The words in backticks."""
    return re.findall(r"`([^`]+)`", text)


def limit_of(seconds: float) -> str:
    """A time limit as the reference writes it."""
    return "none" if seconds == math.inf else f"{seconds:g} s"


def test_the_reference_has_every_hook_in_firing_order() -> None:
    assert [name for name in sections() if name != "Answers"] == list(HOOKS)


@pytest.mark.parametrize("name", HOOKS)
def test_the_reference_agrees_with_the_hook(name: str) -> None:
    hook, section = HOOKS[name], sections()[name]
    fields = [field.name for field in dataclasses.fields(hook.event) if field.name != "info"]
    fields += [own for own, value in vars(hook.event).items() if isinstance(value, property)]
    answers = [answer.__name__ for answer in hook.answers]
    assert quoted(section["Event"]) == [hook.event.__name__, *fields]
    assert quoted(section["Answers"]) == answers
    assert section["Limit"] == limit_of(hook.timeout)
    by_answer = [f"`{word}` for `{answer.__name__}`" for answer, word in hook.answer_grants.items()]
    assert section["Grant"] == "; ".join([hook.grant or "none", *by_answer])
    assert quoted(section.get("Options", "")) == sorted(hook.allowed_options - {"timeout", "thread"})
    assert section["When"].endswith(".")
    assert section["A handler that fails"].endswith(".")
    assert [name, hook.kind, hook.event.__name__, ", ".join(answers) or "-"] in table()


@functools.cache
def table() -> list[list[str]]:
    """The rows of the reference's table, without marks."""
    text = re.sub(r"\[`(\w+)`\]\(api/[^)]+\)", r"`\1`", REFERENCE.read_text(encoding="utf-8"))
    rows = re.findall(r"^\| \[(\w+)\]\(#\1\) (.+) \|$", text, re.MULTILINE)
    return [[name, *(cell.strip().replace("`", "") for cell in rest.strip("| ").split("|"))] for name, rest in rows]


def test_the_reference_explains_every_answer() -> None:
    text = REFERENCE.read_text(encoding="utf-8").partition("## Answers")[2]
    for hook in HOOKS.values():
        for answer in hook.answers:
            assert f"- `{answer.__name__}(" in text


@pytest.mark.parametrize("name", HOOKS)
def test_every_hook_is_used_by_a_test(name: str) -> None:
    use = re.compile(rf"@hooks\.{name}\b")
    tests = [path for path in (ROOT / "tests").rglob("test_*.py") if path != Path(__file__)]
    assert any(use.search(path.read_text(encoding="utf-8")) for path in tests)


# Exports and docstrings


def public_modules() -> list[str]:
    """Every module that a user may import."""
    found: list[str] = []
    for package in ("hooksdk", "builtin_plugins"):
        for path in sorted((ROOT / package).rglob("*.py")):
            parts = path.relative_to(ROOT).with_suffix("").parts
            name = ".".join(parts).removesuffix(".__init__")
            if not any(part.startswith("_") for part in name.split(".")):
                found.append(name)
    return found


def defined_in(module: types.ModuleType) -> list[ast.stmt]:
    """The statements of a module's file."""
    assert module.__file__ is not None
    return ast.parse(Path(module.__file__).read_text(encoding="utf-8")).body


def imported(name: str) -> types.ModuleType:
    """The module; skips for the adapter of a framework that is not installed here (scripts/frameworks)."""
    if name.startswith("hooksdk.adapters."):
        return pytest.importorskip(name, reason=f"the framework of {name} is not installed", exc_type=ImportError)
    return importlib.import_module(name)


EACH_MODULE = [
    pytest.param(
        name, marks=[pytest.mark.heavy] if name.startswith("hooksdk.adapters.") else []
    )  # it imports a framework
    for name in public_modules()
]


@pytest.mark.parametrize("name", EACH_MODULE)
def test_all_names_exactly_what_a_module_offers(name: str) -> None:
    module = imported(name)
    offered: list[str] = list(getattr(module, "__all__", []))
    assert len(offered) == len(set(offered))
    assert [one for one in offered if not hasattr(module, one)] == []
    own = {
        node.name
        for node in defined_in(module)
        if isinstance(node, (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)) and not node.name.startswith("_")
    }
    assert own - set(offered) == set()
    assert [one for one in offered if one.startswith("_")] == []


@pytest.mark.parametrize("name", EACH_MODULE)
def test_every_public_name_has_a_docstring(name: str) -> None:
    module = imported(name)
    missing: list[str] = [] if module.__doc__ else [name]
    offered = set(getattr(module, "__all__", []))
    body = defined_in(module)
    for node, after in zip(body, [*body[1:], ast.Pass()], strict=False):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and node.name in offered:
            overload = any("overload" in ast.unparse(mark) for mark in node.decorator_list)
            missing += [] if overload or ast.get_docstring(node) else [node.name]
        elif isinstance(node, ast.ClassDef) and node.name in offered:
            missing += undocumented(node)
        else:
            told = isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant)
            missing += [] if told else [one for one in assigned(node) if one in offered]
    assert missing == []


def assigned(node: ast.stmt) -> list[str]:
    """The names that an assignment sets."""
    targets = node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
    return [target.id for target in targets if isinstance(target, ast.Name)]


@functools.cache
def promised() -> frozenset[str]:
    """Methods that a protocol documents, for whoever implements them."""
    protocols = (MessageFormat, HasArguments, HasDeferral, HasRules, Store, SessionLog)
    return frozenset(name for one in protocols for name, value in vars(one).items() if inspect.getdoc(value))


def undocumented(node: ast.ClassDef) -> list[str]:
    """What is public in a class and has no docstring."""
    found = [] if ast.get_docstring(node) else [node.name]
    for inner in node.body:
        if isinstance(inner, (ast.FunctionDef, ast.AsyncFunctionDef)) and not inner.name.startswith("_"):
            repeated = any(mark in ast.unparse(one) for one in inner.decorator_list for mark in ("overload", ".setter"))
            if not repeated and not ast.get_docstring(inner) and inner.name not in promised():
                found.append(f"{node.name}.{inner.name}")
    return found


# Errors


def samples() -> list[Exception]:
    """One of each error, every field filled in."""
    made: list[Exception] = []
    for name in errors.__all__:
        kind: Any = getattr(errors, name)
        if hasattr(kind, "__dataclass_fields__"):
            fields = dataclasses.fields(kind)
            made.append(kind(*[sample(str(field.type), field.name) for field in fields]))
    return made


def sample(kind: str, name: str) -> Any:
    values: dict[str, Any] = {
        "str": f"the {name}",
        "int": 7,
        "float": 2.5,
        "bool": True,
        "tuple[str, ...]": ("one", "two"),
    }
    values["Mapping[str, tuple[str, ...]]"] = {"conversation": ("one", "two")}
    values["Any"] = f"any {name}"
    return values[kind]


@pytest.mark.parametrize("error", samples(), ids=lambda error: type(error).__name__)
@pytest.mark.parametrize("protocol", range(2, pickle.HIGHEST_PROTOCOL + 1))
def test_an_error_is_whole_again_after_pickling(error: Exception, protocol: int) -> None:
    again = pickle.loads(pickle.dumps(error, protocol))
    assert type(again) is type(error)
    assert vars(again) == vars(error)
    assert str(again) == str(error)


@pytest.mark.parametrize("error", samples(), ids=lambda error: type(error).__name__)
def test_an_error_tells_its_fields_and_belongs_to_the_tree(error: Exception) -> None:
    assert isinstance(error, (errors.PluginError, errors.HostError, errors.PolicyError))
    told = str(error)
    assert not told.endswith(" ")
    texts = [value for value in vars(error).values() if isinstance(value, str)]
    assert any(text in told for text in texts) or not vars(error)


def test_every_error_is_exported() -> None:
    own = {
        name for name, value in vars(errors).items() if isinstance(value, type) and value.__module__ == errors.__name__
    }
    assert own <= set(errors.__all__)
