"""A package of `hooksdk plugins new`, installed by pip into an environment of its own beside this hooksdk, as its author
would: its tests, its checks and its plugins there."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

import pytest

pytestmark = pytest.mark.heavy

pytest.importorskip("hatchling", reason="the package is built with it")

ROOT = Path(__file__).parents[1]
OFFLINE = [
    "--no-index",
    "--no-deps",
    "--no-build-isolation",
    "--ignore-installed",
    "--quiet",
    "--disable-pip-version-check",
]


def finish(*command: str, folder: Path) -> str:
    """Run a command to its good end, and answer what it printed."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("HOOKSDK_", "PYTEST_"))}
    clean |= {"XDG_CONFIG_HOME": str(folder / "none"), "COLUMNS": "200"}
    done = subprocess.run(command, cwd=folder, env=clean, capture_output=True, text=True, check=False, timeout=280)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The Python of a fresh environment. Other packages are those of this one, since no index is asked."""
    folder = tmp_path_factory.mktemp("environment")
    venv.create(folder, with_pip=False)
    scheme = "nt" if os.name == "nt" else "posix_prefix"
    places = sysconfig.get_paths(scheme, vars={"base": str(folder), "platbase": str(folder)})
    (Path(places["purelib"]) / "others.pth").write_text(f"{sysconfig.get_paths()['purelib']}\n")
    return str(Path(places["scripts"]) / ("python.exe" if os.name == "nt" else "python"))


@pytest.fixture(scope="module")
def package(python: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The package of two plugins, installed together with hooksdk."""
    place = tmp_path_factory.mktemp("work")
    finish(
        sys.executable,
        "-m",
        "hooksdk",
        "plugins",
        "new",
        "handy-things",
        "--plugin",
        "notes",
        "--plugin",
        "names",
        folder=place,
    )
    folder = place / "handy-things"
    pip = [sys.executable, "-m", "pip", "--python", python, "install", *OFFLINE]
    finish(*pip, str(ROOT), str(folder), folder=place)
    return folder


@pytest.mark.in_ci(False)
def test_its_plugins_are_listed_and_one_is_on_when_it_is_enabled(package: Path, python: str) -> None:
    finish(python, "-m", "hooksdk", "plugins", "enable", "notes", "--yes", folder=package.parent)
    listed = json.loads(finish(python, "-m", "hooksdk", "plugins", "list", "--json", folder=package.parent))["plugins"]
    found = {
        one["id"]: (one["status"], one["distribution"], one["tools"]) for one in listed if one["origin"] == "installed"
    }
    assert found == {
        "names": ("not enabled", "handy-things", ["names_blocked"]),
        "notes": ("loaded", "handy-things", ["notes_blocked"]),
    }


def test_its_tests_pass(package: Path, python: str) -> None:
    told = finish(python, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", folder=package)
    assert "6 passed" in told


@pytest.mark.in_ci(False)
def test_its_tests_pass_before_anything_is_installed(package: Path) -> None:
    told = finish(sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", folder=package)
    assert "6 passed" in told


def test_an_installed_plugin_is_loaded_by_its_id_in_a_test_with_the_grants_it_asks_for(
    package: Path, python: str
) -> None:
    code = (
        "import anyio\nfrom hooksdk.testing import call, open_session, play\n"
        "async def main():\n"
        "    async with open_session('notes') as session:\n"
        "        print((await play(session, [call('notes_blocked'), 'Done.'])).calls[0].result.text)\n"
        "anyio.run(main)\n"
    )
    assert finish(python, "-c", code, folder=package.parent) == "0\n"


def test_ruff_finds_nothing(package: Path) -> None:
    pytest.importorskip("ruff", reason="ruff is not installed")
    finish(sys.executable, "-m", "ruff", "check", "--no-cache", ".", folder=package)
    finish(sys.executable, "-m", "ruff", "format", "--no-cache", "--check", ".", folder=package)


@pytest.mark.in_ci(False)
def test_pyright_finds_nothing_in_strict_mode(package: Path, python: str) -> None:
    pytest.importorskip("pyright", reason="pyright is not installed")
    finish(sys.executable, "-m", "pyright", "--pythonpath", python, folder=package)


def test_its_manifests_are_in_what_pip_installed_and_fine(package: Path, python: str) -> None:
    where = "import handy_things, pathlib; print(pathlib.Path(handy_things.__file__).parent)"
    installed = Path(finish(python, "-c", where, folder=package.parent).strip())
    assert sorted(path.name for path in installed.glob("*.plugin.json")) == ["names.plugin.json", "notes.plugin.json"]
    finish(python, "-m", "hooksdk", "plugins", "validate", str(package), folder=package.parent)
