"""What a newcomer reads first works as it is printed: every block of a page, in its order, in one shell.

A block of Python or TOML is saved under the name that the text before it gives; a block of text is what the commands before it
print.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

pytestmark = pytest.mark.heavy

ROOT = Path(__file__).parents[1]
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
FILE_NAME = re.compile(r"[Ss]ave this as `([^`]+)`")
COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)
END = "this was the block's end:"
UNREACHED = ("NewConnectionError", "ConnectTimeoutError", "Temporary failure in name resolution", "ProxyError")


class Shell:
    """One bash for all blocks of a page, which stops at the first command that fails."""

    def __init__(self, folder: Path, home: Path, *, path: str = "") -> None:
        environment = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("HOOKSDK_", "PYTEST_", "COV_")) and name not in ("VIRTUAL_ENV", "PYTHONPATH")
        }
        environment |= {"HOME": str(home), "PIP_QUIET": "1", "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
        environment["PATH"] = f"{path}{os.pathsep}{os.environ['PATH']}" if path else os.environ["PATH"]
        self._process = subprocess.Popen(
            ["bash", "--norc"], cwd=folder, env=environment, text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip

    def run(self, commands: str) -> tuple[int, str]:
        """The exit code of the first of these lines that fails, or 0, and what all of them printed."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        steps = " && ".join(f"{{ {line}\n}}{may_say_no(line)}" for line in commands.splitlines() if line.strip())
        self._process.stdin.write(f"{{ {steps}\n}} </dev/null; code=$?; echo; echo {END!r} $code\n")
        self._process.stdin.flush()
        printed: list[str] = []
        for line in self._process.stdout:
            if line.startswith(END):
                return int(line.removeprefix(END)), "".join(printed).removesuffix("\n")
            printed.append(line)
        raise AssertionError("the shell has ended:\n" + "".join(printed))

    def close(self) -> None:
        """End it."""
        self._process.communicate(timeout=60)


def may_say_no(line: str) -> str:
    """`policy check` answers a call that does not simply run with 1, so that scripts can go by it."""
    return " || [ $? = 1 ]" if line.startswith("hooksdk policy check") else ""


def play(page: Path, folder: Path, shell: Shell) -> int:
    """Do what the page says, block by block; answers how many blocks there were."""
    text = COMMENT.sub("", page.read_text("utf-8"))
    printed, before, count = "", 0, 0
    for block in BLOCK.finditer(text):
        language, content, lead = block[1], block[2], text[before : block.start()]
        before, where = block.end(), f"{page.name}, line {text.count(chr(10), 0, block.start()) + 1}"
        if language in ("python", "toml"):
            names = FILE_NAME.findall(lead)
            assert len(names) == 1, f"{where}: say under which name this block is saved"
            (folder / names[0]).write_text(content, "utf-8")
        elif language == "sh":
            code, printed = shell.run(content)
            if code and any(word in printed for word in UNREACHED):
                pytest.skip("no package index can be reached from here")
            assert code == 0, f"{where}:\n{printed}"
        elif language == "text":
            assert printed.endswith(content), f"{where}: the commands above print\n{printed}"
        else:
            assert language == "mermaid", f"{where}: no reader knows what to do with a block of {language}"
        count += 1
    return count


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """The files of this repository as they are now, in a folder of their own."""
    folder = tmp_path / "hooksdk"
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        check=True,
    )
    for name in filter(None, listed.stdout.decode().split("\0")):
        if (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(ROOT / name, folder / name)
    return folder


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / "home").mkdir()
    return tmp_path / "home"


@pytest.mark.in_ci(False)
def test_what_begins_with_an_installation_works_in_a_clone(clone: Path, home: Path) -> None:
    with closing(Shell(clone, home)) as shell:
        assert play(ROOT / "README.md", clone, shell) >= 6
        assert play(ROOT / "docs" / "index.md", clone, shell) >= 4


def test_the_tutorial_works_in_an_empty_folder(tmp_path: Path, home: Path) -> None:
    folder = tmp_path / "empty"
    folder.mkdir()
    with closing(Shell(folder, home, path=str(Path(sys.executable).parent))) as shell:
        assert play(ROOT / "docs" / "tutorial.md", folder, shell) >= 7


def test_the_readme_is_short_and_shows_python_early() -> None:
    text = (ROOT / "README.md").read_text("utf-8")
    assert len(text.splitlines()) <= 90
    assert len(text.split("```python")[0].split()) <= 60
