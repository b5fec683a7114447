"""The page of adapters says what the tests hold."""

from __future__ import annotations

import importlib.util

import pytest

pytest.importorskip("dbos", reason="hooksdk[dbos] is not installed")
pytest.importorskip("fastmcp", reason="hooksdk[fastmcp] is not installed")
pytest.importorskip("langchain", reason="hooksdk[langchain] is not installed")
pytest.importorskip("agents", reason="hooksdk[openai-agents] is not installed")
pytest.importorskip("pydantic_ai", reason="hooksdk[pydantic-ai] is not installed")
pytestmark = pytest.mark.heavy

from pathlib import Path

SCRIPT = Path(__file__).parents[2] / "scripts" / "adapters_table.py"


def test_the_table_is_that_of_the_drivers():
    spec = importlib.util.spec_from_file_location("adapters_table", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    page = module.PAGE.read_text(encoding="utf-8")
    assert "\n".join(module.table()) in page, "write it anew: .venv/bin/python scripts/adapters_table.py"
