"""What people install: the wheel that is built of these sources, in an environment that has nothing else."""

from __future__ import annotations

import email.message
import email.parser
import re
import shutil
import subprocess
import sys
import tarfile
import venv
import zipfile
from pathlib import Path

import pytest

import hooksdk
from hooksdk._version import RELEASE

pytestmark = pytest.mark.heavy

ROOT = Path(__file__).parents[1]
PLUGIN = """
import anyio

from hooksdk import hooks
from hooksdk.hooks import BeforeToolCall, Block
from hooksdk.testing import call, open_session, play


class NoDeletes:
    @hooks.before_tool_call(tools="delete_*")
    def judge(self, event: BeforeToolCall) -> Block:
        return Block("nothing is deleted here")


def delete_file(path: str) -> str:
    "Delete a file."
    return "gone"


async def main() -> None:
    async with open_session(NoDeletes, tools=[delete_file]) as session:
        print((await play(session, [call("delete_file", path="a"), "Done."])).calls[0].result.text)


anyio.run(main)
"""
UNREACHED = ("NewConnectionError", "ConnectTimeoutError", "Temporary failure in name resolution", "ProxyError")


def run(*command: object, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(list(map(str, command)), cwd=cwd, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the sdist of these sources and the wheel that is made of it."""
    folder = tmp_path_factory.mktemp("dist")
    done = run(sys.executable, "-m", "build", "--no-isolation", "--outdir", folder, ROOT, cwd=folder)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


def wheel(built: Path) -> Path:
    (found,) = built.glob("*.whl")
    return found


def metadata(built: Path) -> email.message.Message:
    with zipfile.ZipFile(wheel(built)) as archive:
        (name,) = [one for one in archive.namelist() if one.endswith(".dist-info/METADATA")]
        return email.parser.Parser().parsestr(archive.read(name).decode())


def test_the_wheel_holds_the_packages_and_nothing_else(built: Path) -> None:
    with zipfile.ZipFile(wheel(built)) as archive:
        names = archive.namelist()
    tops = {name.partition("/")[0] for name in names}
    assert {top for top in tops if not top.endswith(".dist-info")} == {
        "hooksdk",
        "builtin_plugins",
        "pytest_hooksdk.py",
    }
    assert "hooksdk/py.typed" in names


def test_no_link_of_the_readme_in_the_wheel_is_relative(built: Path) -> None:
    text = str(metadata(built).get_payload())
    targets = re.findall(r"\]\(([^)\s]+)", text) + re.findall(r'(?:src|srcset|href)="([^"\s]+)', text)
    assert len(targets) > 5
    assert [target for target in targets if not target.startswith(("https://", "#"))] == []


def test_a_link_of_the_readme_in_the_wheel_leads_to_a_page_of_the_documentation(built: Path) -> None:
    pages = set(
        re.findall(r"https://hooksdk\.readthedocs\.io/en/latest/([^)#\"\s]*)", str(metadata(built).get_payload()))
    )
    assert pages
    for page in filter(None, pages):
        at = ROOT / "docs" / page
        assert at.is_file() or at.with_name(f"{at.name}.md").is_file(), page


def test_an_index_would_take_wheel_and_sdist(built: Path) -> None:
    done = run(sys.executable, "-m", "twine", "check", "--strict", *built.iterdir(), cwd=built)
    assert (done.returncode, done.stdout.count("PASSED")) == (0, 2), done.stdout + done.stderr


def test_the_wheel_of_a_clone_has_the_version_of_its_commit(built: Path) -> None:
    assert metadata(built)["Version"] == hooksdk.__version__
    if (ROOT / ".git").exists():
        commit = run("git", "rev-parse", "HEAD", cwd=ROOT).stdout
        told = re.fullmatch(r"[\d.]+\.dev\d+\+g([0-9a-f]{7,})(?:\.dirty)?", hooksdk.__version__)
        assert told is not None or run("git", "tag", "--points-at", "HEAD", cwd=ROOT).stdout
        assert told is None or commit.startswith(told[1])


def test_a_wheel_of_sources_without_git_has_the_release(built: Path, tmp_path: Path) -> None:
    with tarfile.open(next(built.glob("*.tar.gz"))) as archive:
        archive.extractall(tmp_path, filter="data")
    (sources,) = tmp_path.iterdir()
    (sources / "PKG-INFO").unlink()  # as a tarball of the repository
    done = run(sys.executable, "-m", "build", "--no-isolation", "--wheel", "--outdir", tmp_path, sources, cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert metadata(tmp_path)["Version"] == RELEASE


# Of pyenv, or of the system.
PYTHONS = ("3.11", "3.12", "3.13", "3.14")


def python_of(version: str) -> str | None:
    """A Python that runs, of this version."""
    named = [Path.home() / ".pyenv" / "versions", Path("/usr/bin"), Path("/usr/local/bin")]
    found = [one for folder in named for one in [*folder.glob(f"{version}.*/bin/python"), folder / f"python{version}"]]
    return next((str(one) for one in found if one.is_file()), None)


@pytest.mark.slow
@pytest.mark.parametrize("version", PYTHONS)
@pytest.mark.parametrize("kind", ["*.whl", "*.tar.gz"])
def test_hooksdk_installs_by_name_from_a_folder(built: Path, tmp_path: Path, version: str, kind: str) -> None:
    if (base := python_of(version)) is None:
        pytest.skip(f"there is no Python {version}")
    python = tmp_path / "env" / "bin" / "python"
    assert run(base, "-m", "venv", "--without-pip", tmp_path / "env", cwd=tmp_path).returncode == 0
    pip = [sys.executable, "-m", "pip", "--python", python]
    folder = tmp_path / "wheels"
    got = run(*pip, "wheel", "--quiet", "--retries", "0", "-w", folder, f"{wheel(built)}[cli]", "hatchling>=1.27",
              "hatch-fancy-pypi-readme>=25", cwd=tmp_path)  # fmt: skip
    if got.returncode and any(word in got.stderr for word in UNREACHED):
        pytest.skip("the package index cannot be reached, and the wheel needs packages of it")
    assert got.returncode == 0, got.stderr
    for one in folder.glob("hooksdk-*"):
        one.unlink()
    shutil.copy(next(built.glob(kind)), folder)

    done = run(*pip, "install", "--quiet", "--no-index", "--find-links", folder, "hooksdk[cli]", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    asked = "import hooksdk; print(hooksdk.__version__)"
    assert run(python, "-I", "-c", asked, cwd=tmp_path).stdout == f"{metadata(built)['Version']}\n"
    (tmp_path / "plugin.py").write_text(PLUGIN)
    played = run(python, "plugin.py", cwd=tmp_path)
    assert (played.stdout, played.stderr) == ("Blocked by no_deletes: nothing is deleted here\n", "")

    # So does a package that `plugins new` makes, which names hooksdk in its metadata.
    made = run(python.with_name("hooksdk"), "plugins", "new", "hooksdk-no-weekend", cwd=tmp_path)
    assert made.returncode == 0, made.stderr
    author = run(*pip, "install", "--quiet", "--no-index", "--find-links", folder, tmp_path / "hooksdk-no-weekend",
                 cwd=tmp_path)  # fmt: skip
    assert author.returncode == 0, author.stderr
    listed = run(python.with_name("hooksdk"), "plugins", "list", cwd=tmp_path)
    assert (listed.returncode, "no_weekend" in listed.stdout) == (0, True), listed.stderr


@pytest.mark.in_ci(False)
def test_the_wheel_works_in_an_environment_that_has_nothing_else(built: Path, tmp_path: Path) -> None:
    home = tmp_path / "env"
    venv.create(home, with_pip=False)
    python = home / "bin" / "python"
    done = run(
        *[sys.executable, "-m", "pip", "--python", python, "install", "--quiet", "--retries", "0"],
        f"{wheel(built)}[cli]",
        cwd=tmp_path,
    )
    if done.returncode and any(word in done.stderr for word in UNREACHED):
        pytest.skip("the package index cannot be reached, and the wheel needs packages of it")
    assert done.returncode == 0, done.stderr

    command = home / "bin" / "hooksdk"
    version = metadata(built)["Version"]
    assert run(command, "--version", cwd=tmp_path).stdout == f"hooksdk {version}\n"
    shown = run(command, "demo", "--help", cwd=tmp_path)
    assert (shown.returncode, "Usage" in shown.stdout) == (0, True), shown.stderr
    (tmp_path / "plugin.py").write_text(PLUGIN)
    played = run(python, "plugin.py", cwd=tmp_path)
    assert (played.stdout, played.stderr) == ("Blocked by no_deletes: nothing is deleted here\n", "")
    shutil.rmtree(home)
