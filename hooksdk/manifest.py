"""`hooksdk.plugin.json`: what a plugin says of itself, read without importing its code.

The field names are those of OpenClaw's `openclaw.plugin.json`, which loads unchanged; `contracts.hooks` and
`permissions` are ours.
"""

from __future__ import annotations

import importlib.machinery
import importlib.util
import json
import zipfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pydantic
from pydantic import BaseModel, ConfigDict, Field

from hooksdk import schema
from hooksdk._firing.hook import Grant
from hooksdk.errors import ConfigError, PluginRefused, did_you_mean, nearest, problem_text, unknown_key
from hooksdk.hooks import GRANTS, HOOKS

__all__ = [
    "ASKED_FOR",
    "ENTRY_POINTS",
    "FILE_NAMES",
    "SUFFIX",
    "Activation",
    "Contracts",
    "Manifest",
    "file_names",
    "find_manifest",
    "folders_of",
    "missing_part",
    "needed_grants",
    "read_manifest",
]

ENTRY_POINTS = "hooksdk.plugins"
"""The group of entry points in which a distribution names its plugins."""
SUFFIX = ".plugin.json"
"""What every manifest's file name ends with."""
FILE_NAMES = ("hooksdk.plugin.json", "openclaw.plugin.json")
"""The manifest's file name, and its ancestor's, in a folder that holds one plugin."""
ASKED_FOR = {
    "conversation": "tool results through its tools",
    "answer": "Answer in before_tool_call",
    "search": "Search in assemble_tools",
}
"""The grants that no hook or tool shows, so that a manifest's permissions have to name them, with what each is for."""


class Activation(BaseModel):
    """When a plugin is loaded."""

    model_config = ConfigDict(extra="allow", populate_by_name=True)
    on_startup: bool = Field(default=True, alias="onStartup")


class Contracts(BaseModel):
    """What a plugin may register. A list that is present is exhaustive; an absent one restricts nothing.

    Attributes:
        files: The settings that name a file which the plugin reads, such as `words` or `tokens.*.path`.
        code: The settings that name code as `package.module:name`.
    """

    model_config = ConfigDict(extra="allow")
    tools: list[str] | None = None
    hooks: list[str] | None = None
    files: list[str] | None = None
    code: list[str] | None = None


class Manifest(BaseModel):
    """A plugin's manifest. Unknown keys are kept and named in `notices`.

    Attributes:
        permissions: Grants that the plugin asks for: words of `hooksdk.hooks.GRANTS`. Others are named in `notices`.
    """

    model_config = ConfigDict(extra="allow", populate_by_name=True)
    id: str = Field(min_length=1)
    name: str = ""
    description: str = ""
    version: str = ""
    activation: Activation = Field(default_factory=Activation)
    contracts: Contracts = Field(default_factory=Contracts)
    config_schema: dict[str, Any] | None = Field(default=None, alias="configSchema")
    permissions: list[str] = Field(default_factory=list)
    enabled_by_default: bool | None = Field(default=None, alias="enabledByDefault")

    @property
    def notices(self) -> list[str]:
        """Keys and permissions that hooksdk does not know, one line each."""
        return [*self._unknown_keys(), *self._unknown_permissions()]

    @property
    def slips(self) -> list[str]:
        """Those of `notices` that look like a mistake: the others may be meant for another program."""
        return [*self._unknown_keys(misspelt=True), *self._unknown_permissions()]

    def _unknown_keys(self, *, misspelt: bool = False) -> list[str]:
        """A line for each, with what was most likely meant; with `misspelt` only for those of which that is known."""
        keys = [(key, _meant(key)) for key in self.model_extra or {}]
        inner = self.contracts.model_extra or {}
        keys += [(f"contracts.{key}", did_you_mean(key, Contracts.model_fields)) for key in inner]
        told = [(key, hint) for key, hint in keys if hint or not misspelt]
        return [f"'{key}' is not a key that hooksdk knows; it is ignored.{hint}" for key, hint in told]

    def _unknown_permissions(self) -> list[str]:
        words = (word for word in self.permissions if word not in GRANTS)
        return [f"permissions: {unknown_key(word, GRANTS, 'a permission')} It is ignored" for word in words]

    def check_config(self, config: Mapping[str, Any], where: str) -> dict[str, Any]:
        """The configuration with the schema's defaults filled in. Raises `ConfigError` naming every wrong entry."""
        filled: dict[str, Any] = schema.clone(dict(config))
        if self.config_schema is None:
            return filled
        if problem := schema.check_schema(self.config_schema):
            raise PluginRefused(self.id, f"its configSchema is not a JSON Schema: {problem}", "Correct the manifest")
        _fill_defaults(self.config_schema, filled)
        problems = schema.check(self.config_schema, filled, root="config")
        if problems:
            texts = (f"{one.path}: {one.message}{f' {one.suggestion}' if one.suggestion else ''}" for one in problems)
            raise ConfigError(where, tuple(texts))
        return filled


def _meant(key: str) -> str:
    if key in Contracts.model_fields:
        return f" Did you mean 'contracts.{key}'?"
    known = [info.alias or name for name, info in Manifest.model_fields.items() if name != "id"]  # that one is required
    return did_you_mean(key, known)


def _fill_defaults(config_schema: Mapping[str, Any], values: dict[str, Any]) -> None:
    properties: Any = config_schema.get("properties")
    for name, part in properties.items() if isinstance(properties, dict) else ():  # pyright: ignore[reportUnknownVariableType]
        if not isinstance(part, dict):
            continue
        if name not in values and "default" in part:
            values[name] = schema.clone(part["default"])  # pyright: ignore[reportUnknownArgumentType]
        if isinstance(values.get(name), dict):  # pyright: ignore[reportUnknownArgumentType]
            _fill_defaults(part, values[name])  # pyright: ignore[reportUnknownArgumentType]


def read_manifest(path: Path | zipfile.Path, plugin_id: str = "") -> Manifest:
    """Read one manifest, in a folder or in a wheel. Raises `PluginRefused` with every wrong entry, under the plugin's
    id where that is known."""
    who = plugin_id or Path(str(path)).parent.name
    try:
        data = json.loads(path.read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise PluginRefused(who, f"its manifest {path} cannot be read: {error.strerror}") from None
    except (ValueError, RecursionError) as error:
        raise PluginRefused(who, f"its manifest {path} is not JSON: {error}") from None
    try:
        return Manifest.model_validate(data)
    except pydantic.ValidationError as error:
        problems = "; ".join(map(problem_text, error.errors()))
        raise PluginRefused(who, f"its manifest {path} is wrong: {problems}") from None


def file_names(plugin_id: str) -> Sequence[str]:
    """What a plugin's manifest may be called, the first that is there counts: `ID.plugin.json`, where several plugins
    lie in one folder, or `hooksdk.plugin.json`."""
    spellings = dict.fromkeys((plugin_id, plugin_id.replace("-", "_"), plugin_id.replace("_", "-")))
    own = [f"{name}{SUFFIX}" for name in spellings if name and Path(name).name == name]
    return [*own, *FILE_NAMES]


def find_manifest(module: str, plugin_id: str = "") -> Path | None:
    """The manifest of a plugin beside its module, found without running any of its code (nor its parent packages)."""
    candidates = (Path(folder) / name for folder in folders_of(module) for name in file_names(plugin_id))
    return next((path for path in candidates if path.is_file()), None)


def folders_of(module: str) -> list[str]:
    """Where a module lies, found without running any of its code: its package's folders, or a plain module's. None of a
    module that is not there."""
    return _locate(module)[0]


def missing_part(module: str) -> str:
    """What of a module's name leads nowhere, with the nearest that does: `'pkg.nrom'. Did you mean 'pkg.norm'?`. Empty
    when the module is there."""
    folders, found = _locate(module)
    if found == module:
        return ""
    parts = module.split(".")
    known = found.split(".") if found else []
    missing = ".".join(parts[: len(known) + 1])
    files = [path for folder in folders if known for path in Path(folder).iterdir()]
    names = {path.stem for path in files if path.suffix == ".py" or (path / "__init__.py").is_file()} - {"__init__"}
    near = nearest(parts[len(known)], sorted(names), 1)
    return f"'{missing}'." + (f" Did you mean '{found}.{near[0]}'?" if near else "")


def _locate(module: str) -> tuple[list[str], str]:
    """The folders of a module, and as much of its name as leads to something."""
    top, *rest = module.split(".")
    try:
        spec = importlib.util.find_spec(top)
    except (ImportError, ValueError):
        return [], ""
    if spec is None:
        return [], ""
    found = top
    folders: list[str] = list(spec.submodule_search_locations or ())
    if not folders:
        return [str(Path(spec.origin).parent)] if spec.origin else [], found
    for part in rest:
        inner = importlib.machinery.PathFinder.find_spec(part, folders)
        if inner is None:
            break
        found = f"{found}.{part}"
        if inner.submodule_search_locations is None:
            break  # a plain module: its manifest lies beside it
        folders = list(inner.submodule_search_locations)
    return folders, found


def needed_grants(
    hooks: Sequence[str], tools: Sequence[str], permissions: Iterable[str]
) -> dict[Grant, tuple[str, ...]]:
    """Each grant that an installed plugin with these hooks, tools and permissions needs, with what needs it. Words and
    hooks that nobody knows need none."""
    asked = set(permissions)
    needs: dict[Grant, tuple[str, ...]] = {}
    for grant in GRANTS:
        users = [name for name in hooks if name in HOOKS and HOOKS[name].grant == grant]
        if grant == "offer" and tools:
            users.append(f"its tools ({', '.join(tools)})")
        if grant in asked and not users:
            users.append(ASKED_FOR.get(grant, "what its manifest asks for"))
        if users:
            needs[grant] = tuple(users)
    return needs
