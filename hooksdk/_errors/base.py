"""The class that all errors of hooksdk have in common, and what a wrong argument raises."""

from __future__ import annotations

import copyreg
from dataclasses import dataclass
from typing import Any, cast

from hooksdk._errors.words import sentence


class HookSDKError(Exception):
    """The base of every error that hooksdk raises.

    ```python
    from hooksdk import HookSDKError, Host

    try:
        Host(config={"alow": []})
    except HookSDKError as error:
        assert "Did you mean 'allow'?" in str(error)
    ```
    """

    def __reduce__(self) -> tuple[Any, ...]:
        return cast("Any", copyreg).__newobj__, (type(self), *self.args), dict(self.__dict__)


class HostError(HookSDKError):
    """Something that the person who runs the host can fix."""


@dataclass(eq=False)
class WrongArgument(HostError, TypeError, ValueError):
    """A call of the library, such as `Host(store=...)`, was given what it does not take."""

    where: str
    problem: str
    advice: str = ""

    def __str__(self) -> str:
        advice = f" {sentence(self.advice)}" if self.advice else ""
        return f"{self.where}: {sentence(self.problem)}{advice}"
