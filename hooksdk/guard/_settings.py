"""`[guard]`: the user's own settings of the guard."""

from __future__ import annotations

import pydantic
from pydantic import BaseModel, ConfigDict, PositiveInt

from hooksdk.config import Config
from hooksdk.errors import problem_text, unknown_key


class GuardConfig(BaseModel):
    """`[guard]` in the user's own `config.toml`. A project has no say in it."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    keep: PositiveInt = 30
    """Days after their last hook for which the sessions of agents are kept."""

    @classmethod
    def of(cls, config: Config) -> GuardConfig:
        """The table of a configuration that `guard_problems` has looked at."""
        return cls.model_validate(config.guard)


def guard_problems(table: object) -> list[str]:
    """What is wrong with a `[guard]` table, for `read_config(tables=...)`; empty where nothing is."""
    try:
        GuardConfig.model_validate(table)
    except pydantic.ValidationError as error:
        problems = error.errors()
    else:
        return []
    for problem in problems:
        problem["loc"] = ("guard", *problem["loc"])
    return [
        unknown_key(".".join(map(str, problem["loc"])), [f"guard.{name}" for name in GuardConfig.model_fields])
        if problem["type"] == "extra_forbidden"
        else problem_text(problem, quote_value=True)
        for problem in problems
    ]
