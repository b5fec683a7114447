"""Who asked for a run, as a rule says it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from pydantic import model_validator

from builtin_plugins.tool_policy._strict import Strict, Texts


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

    def fits(self, requester: Mapping[str, Any]) -> bool:
        """True when everything that is said here holds for the run's requester."""
        if self.is_owner is not None and (requester.get("is_owner") is True) is not self.is_owner:
            return False
        own_id: object = requester.get("id")
        if self.id is not None and (own_id is None or str(own_id) not in self.id):
            return False
        own_roles: object = requester.get("roles")
        roles = {own_roles} if isinstance(own_roles, str) else set(map(str, cast("list[object]", own_roles or ())))
        return self.roles is None or not roles.isdisjoint(self.roles)
