"""`hooksdk.plugin.json`: what a plugin says of itself, read without importing its code.

The field names are those of OpenClaw's `openclaw.plugin.json`, which loads unchanged; `contracts.hooks` and `permissions`
are ours.
"""

from __future__ import annotations

import importlib.machinery
import importlib.util
import json
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pydantic
from pydantic import BaseModel, ConfigDict, Field

from hooksdk import schema
from hooksdk.errors import ConfigError, PluginRefused, problem_text, unknown_key
from hooksdk.hooks import GRANTS

__all__ = ["FILE_NAMES", "Activation", "Contracts", "Manifest", "find_manifest", "folders_of", "read_manifest"]

FILE_NAMES = ("hooksdk.plugin.json", "openclaw.plugin.json")
"""The manifest's file name, and its ancestor's."""


class Activation(BaseModel):
    """When a plugin is loaded."""

    model_config = ConfigDict(extra="allow", populate_by_name=True)
    on_startup: bool = Field(default=True, alias="onStartup")


class Contracts(BaseModel):
    """What a plugin may register. A list that is present is exhaustive; an absent one restricts nothing."""

    model_config = ConfigDict(extra="allow")
    tools: list[str] | None = None
    hooks: list[str] | None = None


class Manifest(BaseModel):
    """A plugin's manifest. Unknown keys are kept and named in `notices`."""

    model_config = ConfigDict(extra="allow", populate_by_name=True)
    id: str = Field(min_length=1)
    name: str = ""
    description: str = ""
    version: str = ""
    activation: Activation = Field(default_factory=Activation)
    contracts: Contracts = Field(default_factory=Contracts)
    config_schema: dict[str, Any] | None = Field(default=None, alias="configSchema")
    permissions: list[str] = Field(default_factory=list)
    """Grants that the plugin asks for: words of `hooksdk.hooks.GRANTS`. Others are named in `notices`."""
    enabled_by_default: bool | None = Field(default=None, alias="enabledByDefault")

    @property
    def notices(self) -> list[str]:
        """Keys and permissions that hooksdk does not know, one line each."""
        unknown = [*(self.model_extra or {}), *(f"contracts.{key}" for key in self.contracts.model_extra or {})]
        keys = [f"'{key}' is not a key that hooksdk knows; it is ignored" for key in unknown]
        words = (word for word in self.permissions if word not in GRANTS)
        return [*keys, *(f"{unknown_key(word, GRANTS, 'a permission')} It is ignored" for word in words)]

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


def _fill_defaults(config_schema: Mapping[str, Any], values: dict[str, Any]) -> None:
    properties: Any = config_schema.get("properties")
    for name, part in properties.items() if isinstance(properties, dict) else ():  # pyright: ignore[reportUnknownVariableType]
        if not isinstance(part, dict):
            continue
        if name not in values and "default" in part:
            values[name] = schema.clone(part["default"])  # pyright: ignore[reportUnknownArgumentType]
        if isinstance(values.get(name), dict):  # pyright: ignore[reportUnknownArgumentType]
            _fill_defaults(part, values[name])  # pyright: ignore[reportUnknownArgumentType]


def read_manifest(path: Path | zipfile.Path) -> Manifest:
    """Read one manifest, in a folder or in a wheel. Raises `PluginRefused` with every wrong entry."""
    who = Path(str(path)).parent.name
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


def find_manifest(module: str) -> Path | None:
    """The manifest beside a module, found without running any of its code (nor its parent packages')."""
    candidates = (Path(folder) / name for folder in folders_of(module) for name in FILE_NAMES)
    return next((path for path in candidates if path.is_file()), None)


def folders_of(module: str) -> list[str]:
    """Where a module lies, found without running any of its code: its package's folders, or a plain module's. None of a
    module that is not there."""
    top, *rest = module.split(".")
    try:
        spec = importlib.util.find_spec(top)
    except (ImportError, ValueError):
        return []
    folders: list[str] = list(spec.submodule_search_locations or ()) if spec else []
    if spec and not folders and spec.origin:
        folders = [str(Path(spec.origin).parent)]
    for part in rest:
        inner = importlib.machinery.PathFinder.find_spec(part, folders)
        if inner is None:
            break
        if inner.submodule_search_locations is None:
            break  # a plain module: its manifest lies beside it
        folders = list(inner.submodule_search_locations)
    return folders
