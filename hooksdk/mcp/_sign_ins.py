"""The sign-ins to the servers of one `McpServers`, and the pages for signing in that are open, for clients that can
show one."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, final

import anyio

from hooksdk.errors import did_you_mean
from hooksdk.mcp._files import Wanted
from hooksdk.mcp._scope import LOCAL
from hooksdk.mcp.sign_in._store import SignInPage, SignInProblem, SignIns, Target, canonical
from hooksdk.tasks import describe

logger = logging.getLogger("hooksdk")

# Seconds for which a page is good.
WAIT = 600.0


@final
class ServerSignIns:
    """Signs people in to these servers, and out. The servers need not be started; those that run notice it by
    themselves, in whichever process of this user.

    `holder` is whose sign-in it is: the name of a token of the gateway, by default that of whoever comes without one.
    """

    def __init__(self, wanted: Callable[[], Wanted], sign_ins: SignIns) -> None:
        self._wanted = wanted
        self._sign_ins = sign_ins

    async def sign_in(
        self,
        name: str,
        show: Callable[[str], Awaitable[None]],
        *,
        holder: str = LOCAL,
        paste: Callable[[], Awaitable[str]] | None = None,
        client_secret: str = "",
    ) -> None:
        """Sign a person in to a server on the web, within five minutes.

        `show` is given the address of the page for the person's browser, which comes back to a listener on this
        machine. With `paste` nothing listens: it answers the address that the browser was sent to, of a person
        elsewhere. `client_secret` belongs to the `clientId` of the entry. Raises `SignInProblem`.
        """
        from hooksdk.mcp.sign_in._flow import sign_in

        await sign_in(self.target(name, holder), self._sign_ins, show=show, paste=paste, client_secret=client_secret)

    async def sign_out(self, name: str, *, holder: str = LOCAL) -> str | None:
        """End a sign-in, at the server and here. None where there was none; else why the server could not be told,
        empty where it was. Raises `SignInProblem` for a server that nobody can sign in to."""
        from hooksdk.mcp.sign_in._flow import sign_out

        return await sign_out(self.target(name, holder), self._sign_ins)

    async def is_needed(self, name: str, *, holder: str = LOCAL) -> bool:
        """True where the server answers nobody who is not signed in, and nobody is. It is asked, and nothing else
        happens. Raises `SignInProblem` where it cannot be asked."""
        from hooksdk.mcp.sign_in._flow import asks_for_sign_in

        target = self.target(name, holder)
        known = await self._sign_ins.read(target.server, holder)
        return (known is None or known.access_token is None) and await asks_for_sign_in(target)

    def possible(self) -> Mapping[str, str]:
        """The servers that somebody could sign in to, by name, each with its address, without what that may hold in
        secret."""
        specs = self._wanted().specs
        return {name: spec.place for name, spec in specs.items() if spec.may_sign_in and not spec.disabled}

    def target(self, name: str, holder: str) -> Target:
        """What is signed in to. Raises `SignInProblem`."""
        wanted = self._wanted()
        if (refused := wanted.refused.get(name)) is not None:
            raise SignInProblem(f"'{name}': {refused.problem}")
        if (spec := wanted.specs.get(name)) is None:
            raise SignInProblem(f"there is no server '{name}'.{did_you_mean(name, wanted.specs)}")
        if not spec.url:
            raise SignInProblem(f"'{name}' is a program on this machine: there is nothing to sign in to")
        if spec.disabled:
            raise SignInProblem(f"'{name}' is disabled in its file")
        if not spec.may_sign_in:
            raise SignInProblem(
                f"the entry of '{name}' has an 'Authorization' header, which is sent instead: take it out"
            )
        return Target(name=name, server=spec.url, settings=spec.oauth, headers=spec.headers, holder=holder)


@final
@dataclass(eq=False)
class Pages:
    """The pages that are open, one for each server and holder."""

    _sign_ins: SignIns
    _start_soon: Callable[..., Any]
    _open: dict[tuple[str, str], SignInPage] = field(default_factory=dict[tuple[str, str], SignInPage], init=False)
    # Those that are asked for.
    _coming: dict[tuple[str, str], anyio.Event] = field(default_factory=dict[tuple[str, str], anyio.Event], init=False)

    async def open(self, target: Target) -> SignInPage | None:
        """The page of a server, which is open already or is asked for now; None where none can be had, as the log
        says."""
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
