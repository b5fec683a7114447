"""A type checker accepts right plugins, and finds every mistake on its line."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.heavy

HERE = Path(__file__).parent
FILES = sorted(path for path in HERE.glob("*_*.py") if path.name.startswith(("good_", "bad_")))


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, set[int]]:
    """The lines of each file on which pyright reports an error, in strict mode."""
    pytest.importorskip("pyright", reason="pyright is not installed")
    folder = tmp_path_factory.mktemp("plugins")
    for path in FILES:
        shutil.copy(path, folder)
    settings = {"typeCheckingMode": "strict", "pythonVersion": "3.11", "extraPaths": [str(HERE.parents[1])]}
    (folder / "pyrightconfig.json").write_text(json.dumps(settings))
    command = [sys.executable, "-m", "pyright", "--outputjson", "--pythonpath", sys.executable, "-p", str(folder)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)
        report = json.loads(done.stdout)
    except (subprocess.TimeoutExpired, json.JSONDecodeError) as error:
        pytest.skip(f"pyright does not run here (it needs node, or to download it once): {error}")
    assert report["summary"]["filesAnalyzed"] == len(FILES)
    errors: dict[str, set[int]] = {path.name: set() for path in FILES}
    for entry in report["generalDiagnostics"]:
        if entry["severity"] == "error":
            errors[Path(entry["file"]).name].add(entry["range"]["start"]["line"] + 1)
    return errors


@pytest.mark.in_ci(every=1)
@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_pyright_reports_errors_on_exactly_the_marked_lines(path: Path, found: dict[str, set[int]]) -> None:
    marked = {number for number, line in enumerate(path.read_text().splitlines(), 1) if "# error" in line}
    assert path.name.startswith("good_") == (not marked)
    assert found[path.name] == marked


@pytest.mark.in_ci(False)
def test_mypy_in_strict_mode_accepts_a_plain_program(tmp_path: Path) -> None:
    pytest.importorskip("mypy", reason="mypy is not installed")
    command = [sys.executable, "-m", "mypy", "--strict", "--cache-dir", str(tmp_path), str(HERE / "good_sync.py")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False, cwd=HERE.parents[1])
    assert done.returncode == 0, done.stdout
