"""For classes that are opened with `async with`: a plain `with` says what to write."""

from __future__ import annotations

from typing import TYPE_CHECKING


class AsyncOnly:
    """Its subclasses are async context managers. Type checkers do not see this, so a plain `with` is their error as well."""

    if not TYPE_CHECKING:

        def __enter__(self) -> None:
            name = type(self).__name__
            raise TypeError(
                f"a {name} is opened with `async with`. In plain code take the same {name} of hooksdk.sync: "
                "`from hooksdk.sync import Host`, then `with Host() as host`"
            )

        def __exit__(self, *_details: object) -> None:
            """Never reached."""
