"""Sending the chain's head to a place where the owner of the key cannot change it."""

from __future__ import annotations

import ipaddress
import json
import logging
import time
from functools import partial
from typing import Any, final
from urllib.parse import urlsplit

import anyio

from builtin_plugins.audit._stored import StoreChain
from builtin_plugins.audit._writer import FileChain
from hooksdk.audit import Head
from hooksdk.tasks import describe, in_abandonable_thread

logger = logging.getLogger("hooksdk")

# Seconds that sending a head may take.
TIMEOUT = 10.0


def check_url(url: str) -> str:
    """The URL, if heads may go there. Raises `ValueError`: over plain HTTP anybody could replace a head on its way."""
    parts = urlsplit(url)
    if parts.scheme != "https" and not (parts.scheme == "http" and _is_this_machine(parts.hostname)):
        raise ValueError(f"{url!r:.200} must begin with https://; http:// is for this machine alone")
    return url


def _is_this_machine(host: str | None) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host or "").is_loopback
    except ValueError:
        return False


@final
class HeadSender:
    """POSTs the head as JSON at intervals and at the end, if it has changed. A failure is logged, and the next head is
    sent."""

    def __init__(self, url: str, minutes: float, chain: FileChain | StoreChain, key: str) -> None:
        self._url = url
        self._pause = minutes * 60
        self._chain = chain
        self._key = key
        self._sent: Head | None = None
        self._thread = anyio.CapacityLimiter(1)

    async def run(self) -> None:
        """Send until it is cancelled."""
        while True:
            await self.send()
            await anyio.sleep(self._pause)

    async def send(self) -> None:
        """Send the current head, unless it was sent."""
        head = self._chain.head
        if head is None or head == self._sent:
            return
        document = {"type": "audit.head", "head": str(head), "time": round(time.time(), 6), "key": self._key}
        try:
            with anyio.fail_after(TIMEOUT):
                await in_abandonable_thread(partial(self._post, document), limiter=self._thread)
            self._sent = head
        except (OSError, TimeoutError) as error:
            logger.warning("audit: the head could not be sent to %s: %s", urlsplit(self._url).hostname, describe(error))

    def _post(self, document: dict[str, Any]) -> None:
        from urllib.request import HTTPRedirectHandler, Request, build_opener

        class NoRedirects(HTTPRedirectHandler):
            def redirect_request(self, *args: Any, **named: Any) -> None:
                """No redirect: a head goes to the given address alone."""

        headers = {"content-type": "application/json", "user-agent": "hooksdk"}
        request = Request(self._url, json.dumps(document).encode(), headers, method="POST")  # noqa: S310 - the scheme was checked
        with build_opener(NoRedirects()).open(request, timeout=TIMEOUT):
            pass
