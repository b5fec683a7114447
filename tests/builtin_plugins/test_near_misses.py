"""What the plugins that come with hooksdk tell the doctor of patterns that count as they are written."""

from __future__ import annotations

from typing import Any

import pytest

from builtin_plugins.catalog_audit import CatalogAudit
from builtin_plugins.no_repeats import NoRepeats
from builtin_plugins.secrets import SecretValues
from builtin_plugins.tool_search import ToolSearch
from hooksdk import Tool
from hooksdk.config import Notice

TOOLS = [Tool(name=name, source="mcp", owner="github") for name in ("create_issue", "createLabel", "issue_create")]
NEAR = "'create_*' counts as it is written here, and does not mean 'mcp:github:createLabel'"


@pytest.mark.parametrize(
    ("plugin", "settings", "where"),
    [
        (NoRepeats, {"except": ["create_*"]}, "except"),
        (CatalogAudit, {"exclude": ["create_*"]}, "exclude"),
        (ToolSearch, {"pinned": ["create_*"]}, "pinned"),
        (
            SecretValues,
            {"redact": False, "secrets": {"KEY": {"from": "env", "tools": "create_*"}}},
            "secrets.KEY.tools",
        ),
    ],
)
def test_a_tool_that_only_case_or_joining_tells_apart_is_a_notice(
    plugin: Any, settings: dict[str, Any], where: str
) -> None:
    config = plugin.Config.model_validate(settings)
    (line,) = plugin.diagnose(config, TOOLS)
    assert isinstance(line, Notice)
    assert line == f"{where}: {NEAR}"
    assert [*plugin.diagnose(config, TOOLS[:1]), *plugin.diagnose(config, None)] == []
