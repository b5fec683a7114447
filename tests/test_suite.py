"""How the suite runs (conftest.py): what is left out and when, by how many processes, and that no light test starts one."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.heavy

ROOT = Path(__file__).parents[1]
SDKS = {
    "anthropic", "google.genai", "mcp", "mcp_types", "nbclient", "openai", "opentelemetry", "psycopg", "pydantic_monty",
    "sqlalchemy", "starlette", "uvicorn", "websockets",
}  # fmt: skip
"""What takes long to import, together longer than all tests files."""

SETTINGS = """
[tool.pytest.ini_options]
addopts = ["-m", "not heavy", "-n", "auto", "-p", "no:hooksdk", "-p", "no:cacheprovider", "-rA"]
markers = ["both_loops: both", "heavy: starts a process", "in_ci(*values): some", "light(every): some", "left_out_of_ci: others", "slow: long loops"]
"""
TESTS = """
import os, subprocess, sys
import pytest

def test_light():
    assert ("PYTEST_XDIST_WORKER" in os.environ) == {in_worker}

@pytest.mark.heavy
def test_heavy():
    subprocess.run([sys.executable, "-c", ""], check=True)

@pytest.mark.slow
def test_slow():
    pass
"""
MANY = """
import pytest

pytestmark = pytest.mark.in_ci(era=["new"])

@pytest.mark.parametrize("era", ["old", "new"])
def test_of_the_file(era):
    pass

@pytest.mark.in_ci(era=["old"], size=[2])
@pytest.mark.parametrize("size", [1, 2])
@pytest.mark.parametrize("era", ["old", "new"])
def test_of_its_own(era, size):
    pass

def test_without_the_parameter():
    pass

@pytest.mark.in_ci(False)
def test_never():
    pass

@pytest.mark.heavy
@pytest.mark.both_loops
@pytest.mark.parametrize("anyio_backend", ["asyncio", "trio"])
def test_heavy_on(anyio_backend):
    pass

@pytest.mark.both_loops
@pytest.mark.parametrize("anyio_backend", ["asyncio", "trio"])
def test_light_on(anyio_backend):
    pass
"""
TABLES = """
import pytest

@pytest.mark.heavy
@pytest.mark.parametrize("row", range(5))
def test_heavy_row(row):
    pass

@pytest.mark.heavy
@pytest.mark.in_ci(every=4)
@pytest.mark.parametrize("row", range(5))
def test_fourth_row(row):
    pass

@pytest.mark.both_loops
@pytest.mark.light(every=2)
@pytest.mark.parametrize("anyio_backend", ["asyncio", "trio"])
@pytest.mark.parametrize("row", range(3))
def test_second_row(row, anyio_backend):
    pass

@pytest.mark.parametrize("row", range(6))
def test_row(row):
    pass

@pytest.mark.light(every=1)
@pytest.mark.parametrize("row", range(6))
def test_whole(row):
    pass

@pytest.mark.parametrize("row", range(5))
def test_short(row):
    pass
"""
SNEAKY = """
import socket, subprocess, sys, threading

def test_it_starts_a_process():
    try:
        subprocess.run([sys.executable, "-c", ""], check=True)
    except Exception:
        pass

def test_it_starts_one_in_a_thread():
    thread = threading.Thread(target=subprocess.run, args=[[sys.executable, "-c", ""]])
    thread.start()
    thread.join()

def test_it_starts_a_server():
    with socket.create_server(("127.0.0.1", 0)):
        pass

def test_it_starts_nothing():
    pass
"""


def run(folder: Path, *options: str, **files: str) -> str:
    """What pytest prints in a folder of this project's kind with these test files."""
    (folder / "conftest.py").write_text((ROOT / "conftest.py").read_text("utf-8"))
    (folder / "pyproject.toml").write_text(SETTINGS)
    for name, code in files.items():
        (folder / f"{name}.py").write_text(code)
    names = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST")}
    command = [sys.executable, "-m", "pytest", *options]
    return subprocess.run(command, cwd=folder, env=names, capture_output=True, text=True, check=False).stdout


def test_collection_imports_no_sdk() -> None:
    code = """
import sys, pytest
class Look:
    def pytest_collection_finish(self):
        self.names = sorted(sys.modules)
look = Look()
assert pytest.main(["--collect-only", "-q", "-n0", "-p", "no:cacheprovider"], plugins=[look]) == 0
sys.stderr.write("\\n".join(look.names))
"""
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    loaded = set(done.stderr.split("\n"))
    assert "hooksdk" in loaded
    assert not loaded & SDKS, "the file that imports it does so inside a function, or is `heavy` as a whole"


def test_heavy_and_slow_tests_are_left_out_and_the_end_says_how_to_run_them(tmp_path: Path) -> None:
    out = run(tmp_path, "-n2", test_a=TESTS.format(in_worker=True))
    assert "PASSED test_a.py::test_light" in out
    assert "1 passed" in out
    assert "pytest -m heavy" in out


@pytest.mark.parametrize(
    ("choice", "chosen"),
    [("heavy", {"heavy"}), ("", {"heavy", "light"}), ("slow", {"slow"})],
    ids=["heavy", "all", "slow"],
)
def test_a_choice_is_run_as_it_is_and_slow_tests_by_their_name_alone(
    choice: str, chosen: set[str], tmp_path: Path
) -> None:
    out = run(tmp_path, "-n0", "-m", choice, test_a=TESTS.format(in_worker=False))
    assert {line.rpartition("_")[2] for line in out.split("\n") if line.startswith("PASSED ")} == chosen
    assert "pytest -m heavy" not in out


def test_ci_runs_the_cases_that_are_named_and_the_others_are_slow(tmp_path: Path) -> None:
    cases = {
        choice: {line.rpartition("::test_")[2] for line in out.split("\n") if line.startswith("PASSED ")}
        for choice in ("", "slow", "left_out_of_ci or not slow")
        if (out := run(tmp_path, "-n0", "-m", choice, test_a=MANY))
    }
    assert cases[""] == {
        "of_the_file[new]", "of_its_own[old-2]", "without_the_parameter", "heavy_on[asyncio]", "light_on[asyncio]", "light_on[trio]",
    }  # fmt: skip
    assert len(cases["slow"]) == 6
    assert cases["left_out_of_ci or not slow"] == cases[""] | cases["slow"]


def test_of_a_table_ci_runs_each_third_case_if_it_is_heavy_and_the_default_each_third_if_it_is_light(
    tmp_path: Path,
) -> None:
    passed = {
        choice: {line.rpartition("::test_")[2] for line in out.split("\n") if line.startswith("PASSED ")}
        for choice in ("not heavy", "")
        if (out := run(tmp_path, "-n0", "-m", choice, test_a=TABLES))
    }
    short = {f"short[{row}]" for row in range(5)} | {f"whole[{row}]" for row in range(6)}
    second = {f"second_row[{row}-{loop}]" for row in (0, 2) for loop in ("asyncio", "trio")}
    assert passed["not heavy"] == short | second | {"row[0]", "row[3]"}
    second |= {"second_row[1-asyncio]", "second_row[1-trio]"}
    heavy = {"heavy_row[0]", "heavy_row[3]", "fourth_row[0]", "fourth_row[4]"}
    assert passed[""] == short | second | heavy | {f"row[{row}]" for row in range(6)}


def test_a_file_that_is_named_runs_whole_and_in_one_process(tmp_path: Path) -> None:
    out = run(tmp_path, "test_a.py", test_a=TESTS.format(in_worker=False))
    assert "2 passed, 1 deselected" in out


def test_a_file_that_is_heavy_as_a_whole_is_not_even_imported(tmp_path: Path) -> None:
    broken = "import pytest\npytestmark = [pytest.mark.heavy, pytest.mark.anyio]\nimport there_is_no_such_module\n"
    assert "1 passed" in run(tmp_path, "-n0", test_a=TESTS.format(in_worker=False), test_b=broken)
    assert "there_is_no_such_module" in run(tmp_path, "-n0", "-m", "heavy", test_b=broken)


def test_a_light_test_that_starts_a_process_or_a_server_fails(tmp_path: Path) -> None:
    out = run(tmp_path, "-n0", test_sneaky=SNEAKY)
    assert "4 passed, 3 errors" in out
    assert "marked `heavy`; this one started subprocess.Popen" in out
    assert "this one started a server at ('127.0.0.1', 0)" in out
