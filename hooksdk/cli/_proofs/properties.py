"""The properties that are to be proved, from `[policy.properties]` of a configuration or from a file of their own."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pydantic
import typer
from pydantic import BaseModel, ConfigDict, Field, StrictBool, model_validator

from hooksdk.errors import table_problems
from hooksdk.rules import CLAIMS, Claim


class Property(BaseModel):
    """One property: what is claimed of a class of calls, which is written as a rule is, without its action.

    Attributes:
        untrusted_project: It must hold whatever a project says that nobody trusts.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)
    never: dict[str, Any] | None = None
    only_asked: dict[str, Any] | None = None
    always_asked: dict[str, Any] | None = None
    untrusted_project: StrictBool = False

    @model_validator(mode="after")
    def _check(self) -> Property:
        if sum(getattr(self, claim) is not None for claim in CLAIMS) != 1:
            raise ValueError(
                f"say one of {', '.join(CLAIMS)}, such as never = {{ tools = 'delete_*', triggers = 'schedule' }}"
            )
        return self

    @property
    def claim(self) -> Claim:
        """The claim: `never`, `only_asked` or `always_asked`."""
        return next(claim for claim in CLAIMS if getattr(self, claim) is not None)

    @property
    def calls(self) -> dict[str, Any]:
        """The class of calls, as a rule writes it."""
        return getattr(self, self.claim)


class PolicyConfig(BaseModel):
    """`[policy]` of a configuration.

    Attributes:
        properties: By name.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)
    properties: dict[str, Property] = Field(default_factory=dict[str, Property])


def policy_problems(table: object) -> list[str]:
    """The problems of a `[policy]` table, for `read_config(tables=...)`. The classes of calls in it are checked when
    they are proved."""
    try:
        PolicyConfig.model_validate(table)
    except pydantic.ValidationError as error:
        return table_problems(error, "policy", _settings_at)
    return []


def _settings_at(path: Sequence[str]) -> list[str]:
    return ["policy.properties"] if len(path) < 3 else [".".join([*path[:3], name]) for name in Property.model_fields]


def read_properties(path: Path) -> Mapping[str, Property]:
    """The properties in a TOML file with `[policy.properties]`. Raises `typer.BadParameter` with everything that is wrong."""
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        problem = error.strerror if isinstance(error, OSError) else f"it is no TOML: {error}"
        raise typer.BadParameter(f"{path}: {problem}", param_hint="FILE") from None
    table = document.get("policy", {})
    problems = policy_problems(table) or ([] if table else ["it has no [policy.properties.NAME]"])
    if problems:
        raise typer.BadParameter(f"{path}: {'; '.join(problems)}", param_hint="FILE")
    return PolicyConfig.model_validate(table).properties
