"""`View` by its old place."""

from hooksdk.cli._console import View

__all__ = ["View"]
