"""Pages for signing in to servers. A client is given a page, opens it for its person, and makes its call again."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, final

import anyio
import mcp_types as types
from mcp.shared.exceptions import MCPError, UrlElicitationRequiredError
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from hooksdk.calls import ToolResult
from hooksdk.gateway._client import CallingClient, Request
from hooksdk.gateway._results import error, without_answers
from hooksdk.gateway._sources import Sources
from hooksdk.mcp import SignInPage, current_client
from hooksdk.tools import Tool

# The beginning of the state of a call whose client was given a page.
PREFIX = "page-"
INPUT = "sign-in"
# The name of the tool that opens a page.
NAME = "sign-in"
# Pages of one session that are kept; of more, the newest.
MOST = 20


@final
@dataclass(eq=False)
class SessionPages:
    """The pages of one session."""

    _sources: Sources
    _start_soon: Callable[..., Any]
    # Seconds for which a call is held whose client says that the page is open.
    _wait: float
    # The pages by the state of the calls that were given them.
    _pages: dict[str, SignInPage] = field(default_factory=dict[str, SignInPage], init=False)
    # The pages that the tool has shown, by server, until it is called again: the server may be signed in before that.
    _shown: dict[str, SignInPage] = field(default_factory=dict[str, SignInPage], init=False)

    def servers(self) -> list[str]:
        """The servers that the tool opens pages of."""
        shown = [name for name, page in self._shown.items() if page.signed_in or not page.over.is_set()]
        return list(dict.fromkeys([*self._sources.signed_out(), *shown]))

    def tools(self, context: Request | None) -> Sequence[Tool]:
        """The tool that opens pages, where there is a page and the client can show it."""
        names = self.servers()
        if not names or not CallingClient.can_show_pages(context):
            return ()
        return (
            Tool(
                name=NAME,
                source="host",
                owner="gateway",
                execute=self._sign_in,
                description=f"Let the user sign in to a server, whose tools are there afterwards: {', '.join(names)}.",
                parameters={
                    "type": "object",
                    "required": ["server"],
                    "additionalProperties": False,
                    "properties": {"server": {"type": "string", "enum": list(names)}},
                },
            ),
        )

    def missing(self, missing: Mapping[str, str], tools: Sequence[Tool]) -> dict[str, str]:
        """The owners whose tools are missing, each with the reason, which names the tool as a second cure."""
        names = self._sources.signed_out() if tools else ()
        return {name: f"{why}, or call {NAME}" if name in names else why for name, why in missing.items()}

    async def go_on(self, params: types.CallToolRequestParams) -> types.CallToolRequestParams | types.CallToolResult:
        """The call that a request makes. Where its client was given a page, this waits for a while until the person is
        done with it; a person who does not sign in gets a refusal instead."""
        page = self._pages.get(params.request_state or "")
        if page is None:
            return params
        answer = (params.input_responses or {}).get(INPUT)
        if isinstance(answer, types.ElicitResult) and answer.action != "accept":
            self._shown.pop(page.server, None)
            return error(
                f"'{params.name}' was not run: the person at the client does not sign in to '{page.server}' now."
            )
        with anyio.move_on_after(self._wait):
            await page.over.wait()
        return without_answers(params)

    def answer(self, page: SignInPage, context: Request) -> types.InputRequiredResult:
        """The page, in the place of the call's result. Raises `UrlElicitationRequiredError` where the protocol has an
        error for it."""
        message = f"Sign in to the MCP server '{page.server}'."
        if context.protocol_version in MODERN_PROTOCOL_VERSIONS:
            state = PREFIX + page.id
            self._pages[state] = page
            if len(self._pages) > MOST:
                del self._pages[next(iter(self._pages))]
            shown = types.ElicitRequestURLParams(message=message, url=page.url)
            return types.InputRequiredResult(
                input_requests={INPUT: types.ElicitRequest(params=shown)}, request_state=state
            )
        self._start_soon(_tell_sign_in, page, context)
        raise UrlElicitationRequiredError(
            [types.ElicitRequestURLParams(message=message, url=page.url, elicitation_id=page.id)]
        )

    async def _sign_in(self, arguments: dict[str, Any]) -> ToolResult:
        server = str(arguments["server"])
        page = await self._sources.open_page(server)
        client = current_client.get()
        if page is None or client is None:
            self._shown.pop(server, None)
            status = self._sources.signed_out().get(server)
            if status is not None:
                return ToolResult.error(f"There is no page for '{server}' to be had: {status}.")
            return ToolResult(f"You are signed in to '{server}': its tools are there now.")
        self._shown[server] = page
        await client.show_page(page)
        return ToolResult(f"The page for '{server}' was shown to the user.")


async def _tell_sign_in(page: SignInPage, context: Request) -> None:
    await page.over.wait()
    if page.signed_in:
        with contextlib.suppress(MCPError, anyio.BrokenResourceError, anyio.ClosedResourceError):  # it is gone
            await context.session.send_elicit_complete(page.id)
