"""Who asked for a run, as a rule says it."""

from __future__ import annotations

from pydantic import model_validator

from builtin_plugins.tool_policy._strict import Strict, Texts
from hooksdk.rules import Requested


class Requester(Strict):
    """Who asked, as the host said it with `session.run(requester=...)`."""

    is_owner: bool | None = None
    """`true`: known to be the owner. `false`: everybody else, and whoever is not known."""
    roles: Texts | None = None
    """Has at least one of these."""
    id: Texts | None = None
    """Is one of these."""

    @model_validator(mode="after")
    def _check(self) -> Requester:
        if self.is_owner is None and self.roles is None and self.id is None:
            raise ValueError("it is empty; write is_owner, roles or id")
        return self

    @property
    def fact(self) -> Requested:
        """The same as a fact."""
        roles, ids = (None if one is None else tuple(one) for one in (self.roles, self.id))
        return Requested(self.is_owner, roles, ids)
