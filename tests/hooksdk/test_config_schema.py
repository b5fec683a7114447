"""`hooksdk config schema`: editors accept what the loader accepts, and show what it refuses."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from hooksdk.cli._config.schema import config_schema

pytestmark = pytest.mark.heavy
ROOT = Path(__file__).parents[2]


def examples() -> dict[str, dict[str, Any]]:
    """Every configuration in docs and examples: TOML blocks with a table or setting of ours."""
    found: dict[str, dict[str, Any]] = {}
    for page in [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]:
        for number, text in enumerate(re.findall(r"^```toml\n(.*?)^```", page.read_text("utf-8"), re.M | re.S)):
            document = tomllib.loads(text)
            document = document.get("tool", {}).get("hooksdk", document)
            if "plugins" in document or "gateway" in document or "guard" in document or "sessions" in document:
                found[f"{page.relative_to(ROOT)}:{number}"] = document
    for path in (ROOT / "examples").rglob("hooksdk.toml"):
        found[str(path.relative_to(ROOT))] = tomllib.loads(path.read_text("utf-8"))
    return found


def problems(document: dict[str, Any], validator: Any = None) -> list[str]:
    validator = validator or jsonschema.Draft7Validator(config_schema())
    return [f"{'.'.join(map(str, one.path))}: {one.message[:200]}" for one in validator.iter_errors(document)]


def test_every_example_fits() -> None:
    validator = jsonschema.Draft7Validator(config_schema())
    assert len(examples()) > 20
    assert {name: found for name, one in examples().items() if (found := problems(one, validator))} == {}


@pytest.mark.parametrize(
    "text",
    [
        "dennny = []",
        "[gateway]\nexpse = 'auto'",
        "[gateway.tokens.ann]\nevn = 'X'",
        "[guard]\nkep = 3",
        "[sessions]\nkep = '30d'",
        "[plugins.audit]\nenabeld = true",
        "[plugins.tool_policy.config]\nrulles = []",
        "[[plugins.tool_policy.config.rules]]\naction = 'alow'",
        "[[plugins.tool_policy.config.rules]]\naction = 'deny'\ntool = 'x'",
        "[[plugins.tool_policy.config.rules]]\naction = 'deny'\nlimit = { cals = 3 }",
    ],
)
def test_a_slip_does_not_fit(text: str) -> None:
    assert problems(tomllib.loads(text))


def test_a_rules_settings_are_explained() -> None:
    rules = config_schema()["properties"]["plugins"]["properties"]["tool_policy"]["properties"]["config"]["properties"]
    rule = next(one for one in rules["rules"]["anyOf"] if one.get("type") == "object")
    assert "mcp:github:*" in str(rule["properties"]["tools"]["description"])
