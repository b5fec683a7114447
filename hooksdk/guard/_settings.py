"""`[guard]`: the user's own settings of the guard."""

from __future__ import annotations

import pydantic
from pydantic import BaseModel, ConfigDict, NonNegativeInt, PositiveInt

from hooksdk.config import Config
from hooksdk.errors import table_problems


class GuardConfig(BaseModel):
    """`[guard]` in the user's own `config.toml`. A project has no say in it.

    Attributes:
        keep: Days after their last hook for which the sessions of agents are kept.
        continues: How often plugins may send an agent's model on for one prompt, instead of letting its turn end.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)
    keep: PositiveInt = 30
    continues: NonNegativeInt = 3

    @classmethod
    def of(cls, config: Config) -> GuardConfig:
        """The table of a configuration that `guard_problems` has looked at."""
        return cls.model_validate(config.guard)


def guard_problems(table: object) -> list[str]:
    """What is wrong with a `[guard]` table, for `read_config(tables=...)`; empty where nothing is."""
    try:
        GuardConfig.model_validate(table)
    except pydantic.ValidationError as error:
        return table_problems(error, "guard", lambda _path: [f"guard.{name}" for name in GuardConfig.model_fields])
    return []
