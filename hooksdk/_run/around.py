"""What plugins hold open around a run, and around a tool while it runs."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, Literal, final

from hooksdk import hooks
from hooksdk._firing.calling import Failure
from hooksdk._firing.hook import Handler
from hooksdk._run.state import RunState
from hooksdk._tasks.limits import is_uncatchable
from hooksdk.tools import Tool


@final
class AroundStack:
    """Context managers that were entered, to be left by the same task in reverse order. What fails is logged."""

    def __init__(self) -> None:
        self._entered: list[tuple[Handler, AbstractContextManager[Any]]] = []

    async def enter(
        self,
        state: RunState,
        hook: Literal["around_run", "around_tool_call"],
        event: Callable[[], hooks.Event],
        tool: Tool | None = None,
    ) -> None:
        """Enter what the handlers answer."""
        if not state.hooks.has(hook):
            return

        def open_manager(answer: hooks.Around) -> AbstractContextManager[Any]:
            answer.manager.__enter__()
            return answer.manager

        async for outcome in state.hooks.fire(hook, event, tool):
            manager = await outcome.use(open_manager)
            outcome.log(", so it is left out")
            if manager is not None:
                self._entered.append((outcome.handler, manager))

    def leave(self) -> None:
        """Nothing is waited for, so that a cancelled task leaves them as well."""
        while self._entered:
            handler, manager = self._entered.pop()
            try:
                manager.__exit__(None, None, None)
            except BaseException as error:
                if is_uncatchable(error):
                    raise
                Failure(handler, error).log(" at its end")
