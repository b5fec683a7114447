"""Pages for signing in that are open, for clients that can show one."""

from __future__ import annotations

import logging
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, final

import anyio

from hooksdk.mcp.sign_in._settings import Target
from hooksdk.mcp.sign_in._store import SignIns, canonical
from hooksdk.tasks import describe

logger = logging.getLogger("hooksdk")

# Seconds for which a page is good.
WAIT = 600.0


@dataclass(eq=False)
class SignInPage:
    """A page on which a person signs in to a server. The browser comes back to a listener on this machine.

    Attributes:
        server: What the server is called.
        over: Set once nobody waits for it any more.
    """

    server: str
    url: str = field(repr=False)
    id: str = field(default_factory=lambda: uuid.uuid4().hex)
    over: anyio.Event = field(default_factory=anyio.Event)
    signed_in: bool = False


@final
class Pages:
    """The pages that are open, one for each server and holder."""

    def __init__(self, sign_ins: SignIns, start_soon: Callable[..., Any]) -> None:
        self._sign_ins = sign_ins
        self._start_soon = start_soon
        self._open: dict[tuple[str, str], SignInPage] = {}
        # Those that are asked for.
        self._coming: dict[tuple[str, str], anyio.Event] = {}

    async def open(self, target: Target) -> SignInPage | None:
        """The page of a server, which is open already or is asked for now; None where there is none to be had, as the log says."""
        key = canonical(target.server), target.holder
        if key not in self._open:
            if key not in self._coming:
                self._coming[key] = anyio.Event()
                self._start_soon(self._keep, key, target)
            await self._coming[key].wait()
        return self._open.get(key)

    async def _keep(self, key: tuple[str, str], target: Target) -> None:
        from hooksdk.mcp.sign_in._flow import sign_in

        page: SignInPage | None = None

        async def show(url: str) -> None:
            nonlocal page
            page = self._open[key] = SignInPage(target.name, url)
            self._coming.pop(key).set()

        try:
            await sign_in(target, self._sign_ins, show=show, wait=WAIT)
            if page is not None:
                page.signed_in = True
        except Exception as problem:  # the servers go on
            logger.warning("nobody has signed in to the MCP server '%s': %s", target.name, describe(problem))
        finally:
            if page is None:
                self._coming.pop(key).set()
            else:
                del self._open[key]
                page.over.set()
