"""The files of a new plugin package, as `hooksdk plugins new` writes them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from string import Template

EXAMPLE = "Blocks tool calls whose arguments hold a forbidden text."
"""What the plugin does that a new package begins with."""


@dataclass(frozen=True, kw_only=True)
class NewPlugin:
    """One plugin of the new package."""

    plugin_id: str
    module: str
    """Its module's full name: the package itself, where it is the only plugin."""

    @property
    def file(self) -> str:
        """Its module's path in the project's folder."""
        path = self.module.replace(".", "/")
        return f"src/{path}.py" if "." in self.module else f"src/{path}/__init__.py"

    @property
    def class_name(self) -> str:
        """`CallBudget` for `call_budget`."""
        return "".join(part.capitalize() for part in self.plugin_id.split("_"))

    @property
    def words(self) -> Mapping[str, str]:
        """What the templates put in."""
        title = self.plugin_id.replace("_", " ").capitalize()
        names = {"id": self.plugin_id, "module": self.module, "file": self.file, "cls": self.class_name}
        return {**names, "example": EXAMPLE, "title": title}


def files_of(distribution: str, package: str, version: str, plugins: Sequence[NewPlugin]) -> dict[str, str]:
    """Every file by its path in the project's folder, but the manifests, which are made of the code."""
    words = {"distribution": distribution, "package": package, "version": version}
    words["entries"] = "\n".join(f'{one.plugin_id} = "{one.module}:{one.class_name}"' for one in plugins)
    words["settings"] = "".join(_fill(SETTINGS, one.words) for one in plugins)
    words["enable"] = "\n".join(f"hooksdk plugins enable {one.plugin_id}" for one in plugins)
    files = {name: _fill(text, words) for name, text in PROJECT.items()}
    files[f"src/{package}/py.typed"] = ""
    if len(plugins) > 1:
        files[f"src/{package}/__init__.py"] = f'"""{distribution}: plugins for hooksdk."""\n'
    for one in plugins:
        files[one.file] = _fill(PLUGIN, one.words)
        files[f"tests/test_{one.plugin_id}.py"] = _fill(TESTS, one.words)
    return files


def _fill(text: str, words: Mapping[str, str]) -> str:
    return Template(text).substitute(words).lstrip("\n")


PLUGIN = '''
"""$title, a plugin for hooksdk."""

from hooksdk import PluginState, hooks, tool
from hooksdk.hooks import BeforeToolCall, Block
from pydantic import BaseModel


class $cls:
    """$example"""

    class Config(BaseModel):
        """Settings, under [plugins.$id.config]."""

        forbidden: list[str] = [".env"]

    def __init__(self, config: Config, state: PluginState) -> None:
        self.config = config
        self.state = state

    @hooks.before_tool_call
    def judge(self, event: BeforeToolCall) -> Block | None:
        """Block the call, or have no opinion: None."""
        arguments = " ".join(map(str, event.arguments.values()))
        for text in self.config.forbidden:
            if text in arguments:
                self.state["blocked"] = self.state.get("blocked", 0) + 1
                return Block(f"{text!r} is off limits here; go on without it, or ask the user")
        return None

    @tool
    def ${id}_blocked(self) -> int:
        """How many tool calls of this session were blocked."""
        return self.state.get("blocked", 0)
'''

TESTS = '''
"""A script stands in for the model: no key, no network."""

from hooksdk.hooks import BeforeToolCall
from hooksdk.testing import OpenHookSession, assert_blocked, assert_ran, call, event

from $module import $cls


def read_file(path: str) -> str:
    """Read a file."""
    return f"content of {path}"


def test_a_call_with_a_forbidden_text_is_blocked(hook_session: OpenHookSession) -> None:
    session = hook_session($cls, tools=[read_file])
    played = session.play([call("read_file", path=".env"), call("read_file", path="README"), "Done."])
    assert_blocked(played.calls[0], by="$id", reason="off limits")
    assert_ran(played.calls[1], text="content of README")


def test_the_tool_counts_what_was_blocked(hook_session: OpenHookSession) -> None:
    session = hook_session($cls, tools=[read_file])
    played = session.play([call("read_file", path=".env"), call("${id}_blocked"), "Done."])
    assert_ran(played, tool="${id}_blocked", text="1")


def test_the_configuration_says_what_is_forbidden(hook_session: OpenHookSession) -> None:
    config = {"plugins": {"$id": {"config": {"forbidden": ["README"]}}}}
    plugin = hook_session($cls, config=config).plugin("$id")
    assert isinstance(plugin, $cls)
    assert plugin.judge(event(BeforeToolCall, tool="read_file", arguments={"path": ".env"})) is None
    assert plugin.judge(event(BeforeToolCall, tool="read_file", arguments={"path": "README"})) is not None
'''

SETTINGS = "- [`$id`]($file): its docstring says what it does, and its `Config` which settings it has.\n"

PROJECT = {
    "pyproject.toml": """
[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"

[project]
name = "$distribution"
version = "0.1.0"
description = "Plugins for hooksdk."
readme = "README.md"
requires-python = ">=3.11"
dependencies = ["hooksdk>=$version", "pydantic>=2.11"]

[project.optional-dependencies]
dev = ["hooksdk[cli]", "pyright", "pytest", "ruff"]

# The name on the left is the plugin's id, here, in its manifest and in configurations.
[project.entry-points."hooksdk.plugins"]
$entries

[tool.hatch.build.targets.wheel]
packages = ["src/$package"]

[tool.pytest.ini_options]
testpaths = ["tests"]
pythonpath = ["src"]

[tool.ruff]
line-length = 120

[tool.ruff.lint]
select = ["B", "E", "F", "I", "RUF", "UP"]
ignore = ["RUF012"] # pydantic copies the defaults of a model

[tool.ruff.lint.isort]
known-third-party = ["hooksdk"]

[tool.pyright]
include = ["src", "tests"]
extraPaths = ["src"]
typeCheckingMode = "strict"
""",
    "README.md": """
# $distribution

Plugins for [hooksdk](https://hooksdk.readthedocs.io).

## Use

```sh
pip install $distribution
$enable
```

`enable` is typed in the folder of a project. It shows what the plugin asks for, and writes it into `hooksdk.toml`. Settings
go under `[plugins.ID.config]` there.

$settings
## Work on it

```sh
pip install -e '.[dev]'
pytest
hooksdk plugins manifest --write    # after a change of hooks, tools or settings
hooksdk plugins validate
```
""",
    ".gitignore": """
__pycache__/
*.egg-info/
.venv/
dist/
""",
    ".github/workflows/tests.yml": """
name: tests
on: [push, pull_request]

jobs:
  tests:
    runs-on: ubuntu-latest
    strategy:
      matrix:
        python: ["3.11", "3.13"]
    steps:
      - uses: actions/checkout@v4
      - uses: actions/setup-python@v5
        with:
          python-version: $${{ matrix.python }}
      - run: pip install -e '.[dev]'
      - run: ruff check . && ruff format --check .
      - run: pyright
      - run: pytest
      - run: hooksdk plugins manifest # the manifests say what the code does
      - run: hooksdk plugins validate
""",
}
