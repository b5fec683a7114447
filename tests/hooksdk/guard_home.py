"""A user's home in which the commands of the guard are typed."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from commands import environment
from warm import Done, run


@dataclass(frozen=True)
class Home:
    """A user's home, with a project and without any agent in it."""

    folder: Path
    more: Mapping[str, str] = field(default_factory=dict[str, str])
    """Other variables of the user's."""

    @property
    def project(self) -> Path:
        return self.folder / "project"

    @property
    def variables(self) -> dict[str, str]:
        names = {"CLAUDE_CONFIG_DIR", "CODEX_HOME", "QWEN_HOME", "GEMINI_CLI_HOME", "CLAUDE_CODE_ENTRYPOINT"}
        return {name: value for name, value in environment(self.folder).items() if name not in names} | {**self.more}

    def hooksdk(self, *words: str) -> Done:
        return run(words, folder=self.project, environment=self.variables, stdin="")

    def guard(self, *words: str) -> Done:
        return self.hooksdk("guard", *words)


@contextmanager
def short_folder() -> Generator[Path]:
    """A folder with a project in it; not pytest's, since the path of a socket is short."""
    folder = Path(tempfile.mkdtemp(prefix="guard-"))
    (folder / "project").mkdir()
    yield folder
    shutil.rmtree(folder, ignore_errors=True)
