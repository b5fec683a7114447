"""Nothing is imported that the core's dependencies or the extras of its room do not bring."""

from __future__ import annotations

import ast
import importlib.util
import sys
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from importlib import metadata
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[1]
SPEC = importlib.util.spec_from_file_location("extras", ROOT / "scripts" / "extras.py")
assert SPEC is not None
assert SPEC.loader is not None
extras: Any = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(extras)
MODULES: dict[str, Path] = dict(extras.modules())

BRINGS = {
    "PyStemmer": "Stemmer",
    "claude-agent-sdk": "claude_agent_sdk",
    "fastmcp": "fastmcp mcp_types",
    "google-adk": "google",
    "jsonschema": "jsonschema jsonschema_specifications referencing",
    "kingfisher-secret-scanner": "kingfisher_sdk",
    "langchain": "langchain langchain_core langgraph",
    "mcp": "h11 httpx2 jwt mcp mcp_types starlette uvicorn",
    "openai": "httpx2 openai",
    "anthropic": "anthropic httpx2",
    "openai-agents": "agents openai",
    "opentelemetry-api": "opentelemetry",
    "opentelemetry-exporter-prometheus": "prometheus_client",
    "psycopg-pool": "psycopg_pool",
    "pydantic": "pydantic pydantic_core",
    "pydantic-ai-slim": "pydantic_ai pydantic_graph",
    "python-dotenv": "dotenv",
    "rank-bm25": "numpy rank_bm25",
    "strands-agents": "strands",
    "wordllama": "numpy",
    "z3-solver": "z3",
}
"""What is imported of a package that pyproject.toml names, where that is not its own name alone."""

LATER = {
    "builtin_plugins.secrets": "secrets",
    "builtin_plugins.tool_search": "code,embeddings,rank-bm25",
    "hooksdk._tasks": "testing",  # of trio, in a program that runs on it
    "hooksdk.audit": "audit",
    "hooksdk.cli._proofs.cedar": "cedar",
    "hooksdk.costs": "prices",
    "hooksdk.desk": "cli",
    "hooksdk.gateway._metrics": "prometheus",
    "hooksdk.mcp.sign_in": "secrets",
    "hooksdk.models": "anthropic,openai",
    "hooksdk.stores": "audit,postgres,secrets",
    "hooksdk.sync": "testing",
    "hooksdk.testing": "mcp",
}
"""Extras that a room's functions use besides, and say so where they are not installed."""


def imports_of(node: ast.AST, *, later: bool = False) -> Iterator[tuple[str, bool]]:
    """The full names of what is imported, and whether a function does it. What only a type checker reads is none."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Import):
            yield from ((alias.name, later) for alias in child.names)
        elif isinstance(child, ast.ImportFrom):
            yield from ((f"{child.module}.{alias.name}", later) for alias in child.names)
        elif isinstance(child, ast.If) and ast.unparse(child.test) == "TYPE_CHECKING":
            for branch in child.orelse:
                yield from imports_of(ast.Module([branch], []), later=later)
        else:
            if isinstance(child, ast.Call) and ast.unparse(child.func).endswith("import_module"):
                yield from ((str(ast.literal_eval(one)), later) for one in child.args if isinstance(one, ast.Constant))
            inside = isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
            yield from imports_of(child, later=later or inside)


@cache
def imports_in(module: str) -> list[tuple[str, bool]]:
    return list(imports_of(ast.parse(MODULES[module].read_text("utf-8"))))


def named_by(requirements: list[str]) -> set[str]:
    names = [Requirement(line).name for line in requirements]
    return {
        one for name in names for one in BRINGS.get(name, canonicalize_name(name).replace("-", "_")).split()
    }  # fmt: skip


@cache
def brought(extras_: frozenset[str]) -> set[str]:
    """What may be imported with these extras: of what is named for them and for the core."""
    return named_by([*extras.PROJECT["dependencies"], *(line for extra in extras_ for line in extras.EXTRAS[extra])])


def later_of(module: str) -> set[str]:
    return extras.needs(module) | {
        one for name, more in LATER.items() if f"{module}.".startswith(f"{name}.") for one in extras.whole(more)
    }  # fmt: skip


def own_modules(name: str) -> set[str]:
    """The modules of ours that the import of a name runs: the one that has it, and the packages around that."""
    parts = name.split(".")
    return {one for end in range(1, len(parts) + 1) if (one := ".".join(parts[:end])) in MODULES}


@pytest.mark.heavy
def test_a_module_imports_only_what_its_extras_bring() -> None:
    foreign: list[str] = []
    for module in MODULES:
        at_once, later = brought(frozenset(extras.needs(module))), brought(frozenset(later_of(module)))
        for name, in_function in imports_in(module):
            own, top = own_modules(name), name.partition(".")[0]
            is_foreign = (
                not own and top not in sys.stdlib_module_names and top not in (later if in_function else at_once)
            )
            needs_more = not in_function and any(not extras.needs(one) <= extras.needs(module) for one in own)
            if is_foreign or needs_more:
                foreign.append(f"{module} imports {name}")
    assert foreign == []


@pytest.mark.heavy
def test_a_package_brings_what_is_imported_of_it() -> None:
    """Its own names, and those of what it requires itself: what today's release no longer brings is none."""
    owners = metadata.packages_distributions()

    @cache
    def required(name: str, wanted: str = "") -> frozenset[str]:
        found = {canonicalize_name(name)}
        with suppress(metadata.PackageNotFoundError):
            for requirement in map(Requirement, metadata.requires(name) or ()):
                if requirement.marker is None or any(
                    requirement.marker.evaluate({"extra": extra}) for extra in ("", *wanted.split())
                ):
                    found |= required(requirement.name, " ".join(requirement.extras))
        return frozenset(found)

    for name, modules in BRINGS.items():
        for module in (
            modules.split() if canonicalize_name(name) in map(canonicalize_name, chain(*owners.values())) else ()
        ):
            assert required(name) & set(map(canonicalize_name, owners.get(module, ()))), f"{name} brings no {module}"


@pytest.mark.heavy
def test_no_row_is_of_something_that_is_no_more() -> None:
    imported = {name.partition(".")[0] for module in MODULES for name, _ in imports_in(module)}
    assert {one for modules in BRINGS.values() for one in modules.split()} - imported <= {"anthropic", "openai"}
    rows = [name.removesuffix(".*") for names in extras.NEEDS.values() for name in names.split()]
    assert [name for name in (*rows, *LATER) if name not in MODULES] == []
    assert set(extras.EXTRAS) >= {one for names in (*extras.NEEDS, *LATER.values()) for one in extras.whole(names)}
