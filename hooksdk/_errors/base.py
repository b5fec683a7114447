"""The class that all errors of hooksdk have in common."""

from __future__ import annotations

import copyreg
from typing import Any, cast


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
