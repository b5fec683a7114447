"""`hooksdk config schema`: what a `hooksdk.toml` may say, as the JSON Schema that TOML editors read."""

from __future__ import annotations

import inspect
import json
import re
from pathlib import Path
from typing import Annotated, Any

import typer
from pydantic import BaseModel

from hooksdk.cli._config.trust import config_app
from hooksdk.cli._console import print_json
from hooksdk.cli._proofs.properties import PolicyConfig
from hooksdk.config import TRUST_TABLE, Config, PluginConfig, retention_of
from hooksdk.gateway import GatewayConfig
from hooksdk.guard import GuardConfig
from hooksdk.host import look_at, survey
from hooksdk.stores.files import replace_file
from hooksdk.values import as_object, is_list, is_object

_ENTRY = re.compile(r"^    (\w+): (.+(?:\n {8}.+)*)", re.MULTILINE)
_TEXT: dict[str, Any] = {"type": "string"}


@config_app.command("schema")
def print_schema(output: Annotated[Path | None, typer.Option("-o", "--output", metavar="FILE")] = None) -> None:
    """Print what a hooksdk.toml may say, as a JSON Schema for editors. With `#:schema FILE` as its first line, they
    complete and explain settings.

    Options:
        output: Write it into this file.
    """
    if output is None:
        print_json(config_schema())
    else:
        replace_file(output, (json.dumps(config_schema(), indent=2) + "\n").encode(), mode=0o644)


def config_schema() -> dict[str, Any]:
    """The schema of the settings, and of the built-in plugins' own. Where the loader says more, such as that two rules
    contradict each other, it takes more than the loader does."""
    schema = _schema_of(Config)
    tables = {"gateway": GatewayConfig, "guard": GuardConfig, "policy": PolicyConfig}
    schema["properties"] |= {name: _schema_of(model) for name, model in tables.items()}
    sessions = schema["properties"]["sessions"] = _schema_of(type(retention_of({})))
    for setting in sessions["properties"].values():  # numbers with a unit, such as "30d", are written as text
        setting.update(_TEXT)
        del setting["anyOf"], setting["default"]
    schema["properties"][TRUST_TABLE] = {"type": "object", "description": "What `hooksdk trust` has written."}
    plugins = {one.id: look_at(one, Config()).holder for one in survey(Config(), Path()) if one.origin == "built-in"}
    sections = {name: _section(getattr(holder, "Config", None)) for name, holder in plugins.items()}
    schema["properties"]["plugins"] |= {"properties": sections, "additionalProperties": _section(None)}
    return {"$schema": "http://json-schema.org/draft-07/schema#", "title": "hooksdk.toml", **schema}


def _section(model: Any) -> dict[str, Any]:
    section = _schema_of(PluginConfig)
    if isinstance(model, type) and issubclass(model, BaseModel):
        section["properties"]["config"] = _schema_of(model)
    return section


def _schema_of(model: type[BaseModel]) -> dict[str, Any]:
    """A model's schema without references, each setting with the words of its class."""
    schema = model.model_json_schema()
    own = ("hooksdk.", "builtin_plugins.")  # others in this process may have models of the same names
    models = {one.__name__: one for one in _known_models(BaseModel) if one.__module__.startswith(own)}
    parts = schema.pop("$defs", {})

    def whole(value: Any, name: str = "") -> Any:
        if is_list(value):
            return [whole(one) for one in value]
        if not is_object(value):
            return value
        if isinstance(value.get("$ref"), str):
            name = value["$ref"].rpartition("/")[2]
            return whole(parts[name], name) | {key: one for key, one in value.items() if key == "description"}
        found = {
            key: whole(one) for key, one in value.items() if key not in ("title", "discriminator") or is_object(one)
        }
        if is_object(value.get("properties")):
            found.setdefault("additionalProperties", False)
            docs = inspect.getdoc(models.get(name, model)) or ""
            for field, text in _ENTRY.findall(docs.partition("Attributes:\n")[2]):
                as_object(found["properties"].get(field)).setdefault("description", " ".join(text.split()))
            found["description"] = docs.partition("\n\n")[0]
        if found.get("type") == "array" and "items" in found:  # one stands for a list of one
            return {"anyOf": [found, found["items"]]}
        if is_object(listed := found.get("additionalProperties")) and "anyOf" in listed and "properties" not in found:
            return {"anyOf": [found, _TEXT, {"type": "array", "items": _TEXT}]}  # for every argument
        return found

    return whole(schema, model.__name__)


def _known_models(base: type[BaseModel]) -> list[type[BaseModel]]:
    return [one for direct in base.__subclasses__() for one in (direct, *_known_models(direct))]
