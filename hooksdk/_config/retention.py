"""`[sessions]` of the configuration: how long sessions are kept, and whether they are encrypted."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any, Final, final

import pydantic
from pydantic import BaseModel, ConfigDict

from hooksdk.errors import table_problems
from hooksdk.values import as_object

SECONDS: Final = {"h": 3600, "d": 86_400, "w": 7 * 86_400}
BYTES: Final = {"MB": 10**6, "GB": 10**9, "TB": 10**12}


def _number_of(units: Mapping[str, int], example: str) -> Any:
    def number_of(value: object) -> int:
        found = re.fullmatch(rf"([1-9]\d{{0,8}})\s*({'|'.join(units)})", value) if isinstance(value, str) else None
        if found is None:
            raise ValueError(f"expected a whole number above 0 and one of {', '.join(units)}, such as {example!r}")
        return int(found[1]) * units[found[2]]

    return pydantic.BeforeValidator(number_of)


@final
class Retention(BaseModel):
    """`[sessions]`.

    Attributes:
        keep: Seconds after its last write for which a session is kept, written as "30d" (h, d, w); None: for good.
        keep_size: Bytes of the database above which the sessions go that were written last the longest ago, written as
            "2GB" (MB, GB, TB).
        key: Where the keys are by which sessions are encrypted: `env:NAME` or `keyring:NAME`.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)
    keep: Annotated[int | None, _number_of(SECONDS, "30d")] = None
    keep_size: Annotated[int | None, _number_of(BYTES, "2GB")] = None
    key: str | None = None

    @property
    def words(self) -> str:
        """The rule in words; empty where sessions are kept for good."""
        rules = [f"not written for {self.keep / 86_400:g} days"] if self.keep else []
        rules += [f"the oldest above {self.keep_size / 10**9:g} GB"] if self.keep_size else []
        return " and ".join(rules)


def check_retention(table: object) -> None:
    """Raises `ValueError` for a table that is wrong, which shows no key."""
    key = as_object(table).get("key")
    if key is not None and not (isinstance(key, str) and re.fullmatch(r"(env|keyring):\S+", key)):
        raise ValueError("'sessions.key': expected where the key is, not the key itself: 'env:NAME' or 'keyring:NAME'")
    try:
        Retention.model_validate(table)
    except pydantic.ValidationError as error:
        fields = [f"sessions.{name}" for name in Retention.model_fields]
        raise ValueError(". ".join(table_problems(error, "sessions", lambda _path: fields))) from None
