"""The section of one plugin in the configuration, and all of them by the plugins' ids."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, Literal

import pydantic
from pydantic import BaseModel, ConfigDict, Field

from hooksdk._config.sources import fold
from hooksdk._firing.hook import Grant
from hooksdk.errors import did_you_mean
from hooksdk.hooks import HOOKS

if TYPE_CHECKING:
    from hooksdk._config.retention import Retention

Seconds = Annotated[float, Field(gt=0)]


class Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)


def _known_hooks(value: dict[str, float]) -> dict[str, float]:
    for name in value:
        if name not in HOOKS:
            raise ValueError(f"'{name}' is not a hook.{did_you_mean(name, HOOKS)}")
    return value


Timeouts = Annotated[dict[str, Seconds], pydantic.AfterValidator(_known_hooks)]


def _check_sessions(table: dict[str, Any]) -> dict[str, Any]:
    if table:
        from hooksdk._config.retention import check_retention

        check_retention(table)
    return table


SessionsTable = Annotated[dict[str, Any], pydantic.AfterValidator(_check_sessions)]


def retention_of(table: Mapping[str, Any]) -> Retention:
    """What `[sessions]` of a configuration says."""
    from hooksdk._config.retention import Retention

    return Retention.model_validate(table)


class PluginConfig(Strict):
    """`[plugins.ID]`. A section that is there switches its plugin on, unless it says `enabled = false`.

    Attributes:
        grants: What an installed plugin may do: the words of `hooksdk.hooks.GRANTS`.
        mode: `shadow`: its policies are called, and their answers have no effect but are recorded.
        timeouts: Seconds by hook; beats what the plugin's author wrote.
        config: The plugin's own configuration.
    """

    enabled: pydantic.StrictBool = True
    grants: list[Grant] = Field(default_factory=list[Grant])
    mode: Literal["enforce", "shadow"] = "enforce"
    timeouts: Timeouts = Field(default_factory=dict)
    config: dict[str, Any] = Field(default_factory=dict)

    @property
    def is_required(self) -> bool:
        """True where `enabled = true` is written: a host without the plugin does not start."""
        return self.enabled and "enabled" in self.model_fields_set


class Sections(dict[str, PluginConfig]):
    """The sections of plugins, each found by any spelling of its id: a host of a thousand plugins asks for each several
    times."""

    # Their names, by folded id.
    _names: Mapping[str, str] = {}
    _size = 0

    def find(self, plugin_id: str) -> PluginConfig | None:
        """The section of one plugin; of two spellings the first."""
        if self._size != len(self):
            self._names, self._size = {fold(name): name for name in reversed(self)}, len(self)
        return self.get(self._names.get(fold(plugin_id), ""))
