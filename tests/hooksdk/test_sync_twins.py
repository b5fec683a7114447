"""The plain classes are the async ones: nothing is missing, and nothing has another signature."""

from __future__ import annotations

import importlib.util
import inspect
from collections.abc import Callable
from pathlib import Path
from types import FunctionType
from typing import Any

import anyio
import pytest

import hooksdk
from hooksdk import agent, catalog, run, session, sync, transcript
from hooksdk.sync._mirror import in_plain_words

SCRIPT = Path(__file__).parents[2] / "scripts" / "sync_twins.py"
PAIRS: list[tuple[type, type]] = [
    (hooksdk.Host, sync.Host), (session.Session, sync.Session), (run.Run, sync.Run), (run.JudgedCall, sync.JudgedCall),
    (run.Compaction, sync.Compaction), (transcript.Results, sync.Results), (catalog.Storage, sync.Storage),
]  # fmt: skip
ONLY_PLAIN = {"Host": {"call"}}
"""What the plain classes have besides."""


def public(kind: type) -> dict[str, Any]:
    """Its public members, with those of its bases in this library."""
    bases = [base for base in reversed(kind.__mro__) if base.__module__.startswith("hooksdk")]
    return {name: value for base in bases for name, value in vars(base).items() if not name.startswith("_")}


def shape(function: Callable[..., Any]) -> list[tuple[str, Any, Any]]:
    """Names, kinds and defaults of the parameters."""
    return [(each.name, each.kind, each.default) for each in inspect.signature(function).parameters.values()]


@pytest.mark.parametrize(("asynchronous", "plain"), PAIRS, ids=lambda kind: f"{kind.__module__}.{kind.__name__}")
def test_every_public_member_has_a_plain_twin_with_the_same_parameters(asynchronous: type, plain: type):
    theirs, ours = public(asynchronous), public(plain)
    attributes = {name for name, value in ours.items() if isinstance(value, property)} - theirs.keys()
    assert ours.keys() - attributes - ONLY_PLAIN.get(plain.__name__, set()) == theirs.keys()
    for name, value in theirs.items():
        assert isinstance(ours[name], property) is isinstance(value, property), name
        if isinstance(value, FunctionType) and value.__module__ != "typing":  # overloads have no shape of their own
            assert shape(ours[name]) == shape(value), name
            assert not inspect.iscoroutinefunction(ours[name]), name


def test_what_constructors_take_and_set_is_the_same():
    assert shape(sync.Host) == shape(hooksdk.Host)
    assert shape(sync.run_agent) == shape(agent.run_agent)

    async def main() -> None:
        async with hooksdk.Host() as host, host.session() as one, one.run() as run:
            for each, plain in ((host, sync.Host), (one, sync.Session), (run, sync.Run)):
                own = {name for name in vars(each) if not name.startswith("_")}
                assert own <= public(plain).keys()

    anyio.run(main)


@pytest.mark.parametrize(("asynchronous", "plain"), PAIRS, ids=lambda kind: f"{kind.__module__}.{kind.__name__}")
def test_what_a_plain_member_says_is_what_the_async_one_says(asynchronous: type, plain: type):
    for name, value in public(asynchronous).items():
        if getattr(value, "__module__", "") != "typing":
            assert inspect.getdoc(public(plain)[name]) == in_plain_words(inspect.getdoc(value) or ""), name


@pytest.mark.heavy
def test_the_stub_and_the_classes_docstrings_are_what_the_script_writes_from_the_async_classes():
    spec = importlib.util.spec_from_file_location("sync_twins", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    for path, text in script.written().items():
        assert path.read_text("utf-8") == text, f"{path.name} has drifted: run python scripts/sync_twins.py"
