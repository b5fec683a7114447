"""What every rival is asked: one policy that goes wrong in one way, one call of a tool that records whether it ran.

A rival's file says how its documentation has a policy written, and makes the call through it. Run as a program it prints one
line of JSON for each case; `policy_failures.py` reads them. The standard library alone, as each rival has an environment of
its own.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import sys
import time
import traceback
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from importlib.metadata import version
from threading import Event
from typing import Any

CASES = {
    "allows": "allows the call",
    "blocks": "blocks the call",
    "raises": "raises an error",
    "exits": "raises `SystemExit`",
    "cancelled": "raises `CancelledError`",
    "hangs": "never answers",
    "late": "catches the cancellation at its limit, then allows",
    "def": "is a plain `def`, and blocks",
    "slow def": "is a plain `def`, and allows after its limit",
    "stuck def": "is a plain `def`, and never returns",
    "none": "answers `None`",
    "text": 'answers the text `"block"`',
    "false": "answers `False`",
    "method": "misspells its method",
    "hook": "misspells its hook",
    "class": "is misspelt in the configuration",
}
"""Each case by its short name, as the row of the table says it after "A policy that"."""
MISSPELT = ("method", "hook", "class")
TIMED = ("hangs", "late", "slow def", "stuck def")
"""Those about the time limit."""


class DoesNotExist(Exception):
    """The rival has no such name to misspell."""


@dataclass
class Scene:
    """One case: the policy's behaviour, and what was seen."""

    case: str
    variant: str = ""
    """The name of a stricter setting; empty for the rival as it comes."""
    limit: float = 1
    """Seconds of the policy's time limit, where the rival has one."""
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    release: Event = field(default_factory=Event)
    """Lets a plain `def` go that never returns."""
    arguments: dict[str, str] = field(default_factory=lambda: {"path": "a.txt"})
    ran: bool = False
    asked: bool = False
    loaded: bool = False
    limited: bool = True
    """Does the rival, as it is set here, give a policy a time limit?"""
    silent: bool = False
    """Does its documentation say that `None` is no opinion?"""
    warned: bool = False
    """Did Python warn of it?"""
    answered: bool = True
    """Is there a result of the call for the model?"""

    async def act(self, path: str) -> str:
        """Delete a file."""
        self.ran = True
        return f"{path} is gone"

    @property
    def plain(self) -> bool:
        """Is the policy a plain `def`?"""
        return self.case in {"def", "slow def", "stuck def"}

    @contextmanager
    def calling(self) -> Iterator[None]:
        """All before it is loading: an error there comes before any call."""
        self.loaded = True
        yield

    def only(self, *cases: str) -> None:
        """These names exist in the rival; another one cannot be misspelt."""
        if self.case in MISSPELT and self.case not in cases:
            raise DoesNotExist

    async def judge(self, allow: Callable[[], Any], block: Callable[[], Any]) -> Any:
        """The policy. `allow` and `block` give the rival's own answers; what they give is awaited if it has to be."""
        self.asked = True
        match self.case:
            case "allows":
                answer = allow()
            case "late":
                with suppress(BaseException):  # as a policy does that asks elsewhere, and allows when nobody is there
                    await self.sleep(2.5 * self.limit)
                answer = allow()
            case _:
                answer = await self._fail(block)
        return await answer if isinstance(answer, Awaitable) else answer

    async def _fail(self, block: Callable[[], Any]) -> Any:
        match self.case:
            case "raises":
                raise ValueError("the policy's own mistake")
            case "exits":
                raise SystemExit(0)
            case "cancelled":
                raise asyncio.CancelledError
            case "hangs":
                await self.sleep(3600)
        return {"none": None, "text": "block", "false": False}[self.case] if self.case in NONSENSE else block()

    def judge_plainly(self, allow: Callable[[], Any], block: Callable[[], Any]) -> Any:
        """The policy as a plain `def`."""
        self.asked = True
        if self.case == "slow def":
            time.sleep(2.5 * self.limit)
            return allow()
        if self.case == "stuck def":
            self.release.wait()
        return block()

    def outcome(self, error: BaseException | None) -> str:
        if isinstance(error, DoesNotExist):
            return "-"
        if self.ran and not self.asked:
            return "not loaded, ran"
        if self.ran and self.case == "none" and self.silent:
            return "no opinion, ran"
        if self.ran and self.case in TIMED and not self.limited:
            return "no limit, ran"
        if self.ran and error is None:
            return "ran, and warned" if self.warned else "ran"
        if self.ran:
            return "ran, then an error"
        if error is None:
            return "blocked" if self.answered else "not run, no result"
        return "raised" if self.loaded else "refused at load"


NONSENSE = ("none", "text", "false")
Attempt = Callable[[Scene], Awaitable[None]]


def tried(attempt: Attempt, scene: Scene) -> tuple[str, str]:
    """The outcome, and the error if one came out."""
    try:
        asyncio.run(attempt(scene))
    except BaseException as error:
        if "--trace" in sys.argv:
            traceback.print_exc()
        return scene.outcome(error), f"{type(error).__name__}: {error}".splitlines()[0][:300]
    return scene.outcome(None), ""


def main(package: str, attempt: Attempt) -> None:
    """`python FILE VARIANT CASE...`, one line for the package's version and one for each case."""
    if "--trace" not in sys.argv:
        logging.disable(logging.CRITICAL)
    variant, *cases = (word for word in sys.argv[1:] if not word.startswith("--"))
    tell({"version": version(package), "python": sys.version.split()[0]})
    for case in cases:
        tell({"begins": case})
        outcome, error = tried(attempt, Scene(case, variant))
        tell({"case": case, "outcome": outcome, "error": error})
    os._exit(0)  # a thread in which a policy still sleeps must not keep the program


def tell(record: dict[str, str]) -> None:
    print("@" + json.dumps(record), flush=True)
