"""mypy accepts, in strict mode, what users copy: the examples, the tutorial's files, loops over the SDKs."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.heavy

HERE = Path(__file__).parent
ROOT = HERE.parents[1]


def tutorial_files(folder: Path) -> list[Path]:
    """The files that the tutorial has saved."""
    text = (ROOT / "docs" / "tutorial.md").read_text("utf-8")
    files: list[Path] = []
    for name, code in re.findall(r"`(\w+\.py)`[^`]*?```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL):
        files.append(folder / name)
        files[-1].write_text(code)
    return files


@pytest.mark.in_ci(False)
def test_mypy_is_content_with_examples_tutorial_and_loops(tmp_path: Path) -> None:
    pytest.importorskip("mypy", reason="mypy is not installed")
    tutorial = tutorial_files(tmp_path)
    assert {"call_budget.py", "try_it.py"} <= {path.name for path in tutorial}
    shutil.copy(HERE / "good_loops.py", tmp_path)
    files = [*sorted((ROOT / "examples").glob("*.py")), *tutorial, tmp_path / "good_loops.py"]
    command = [
        sys.executable,
        "-m",
        "mypy",
        "--strict",
        "--no-error-summary",
        "--cache-dir",
        str(tmp_path / "cache"),
        *map(str, files),
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=280, check=False, cwd=tmp_path)
    assert (done.stdout + done.stderr, done.returncode) == ("", 0)
