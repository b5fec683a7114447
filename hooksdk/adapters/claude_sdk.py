"""hooksdk in the Claude Agent SDK: hooks beside your own.

    hooked = HookSDK(LazyHost())
    async with hooked.client(ClaudeAgentOptions(...)) as client: ...

Claude's own program runs the tools. It calls hooks before and after each tool call, which judge as the guard does. The
session is Claude's `session_id`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, final, get_args

from claude_agent_sdk import ClaudeAgentOptions, ClaudeSDKClient, HookMatcher, Message, ResultMessage
from claude_agent_sdk.types import HookEvent as HookName

from hooksdk.adapters._conversation import Conversation, Conversations, SomeHost, inside
from hooksdk.errors import HookSDKError, RunBlocked
from hooksdk.guard import AGENTS, AgentCalls, HookEvent, Verdict, read_event
from hooksdk.run import Run
from hooksdk.tasks import describe, run_shielded

__all__ = ["HookSDK"]

logger = logging.getLogger("hooksdk")

CLAUDE = AGENTS["claude-code"]
HOOKS = [
    name for one in get_args(HookName) for name in get_args(one) if name in CLAUDE.events or name == "SubagentStop"
]
INTERRUPTED = "it was interrupted, and nobody knows how far it came"


@final
class HookSDK:
    """Every policy and observer of a host, in agents of the Claude Agent SDK.

    - `host`: a `hooksdk.Host` that is open, or a `hooksdk.sync.LazyHost`.
    - `timeout`: how many seconds Claude waits for a hook before it blocks the call; an approver may take that long.
    - other keywords are those of `Session.run`, such as `requester={...}`.

    `options` adds the hooks to the options of any client or `query(...)`. `client` makes a client that also tells of
    what no hook of Claude's does: an interruption, an error of the model, and the client's own end.
    """

    def __init__(self, host: SomeHost, *, timeout: float = 600.0, **options: Any) -> None:
        self._host, self._timeout, self._options = host, timeout, options
        self._judge = _Judge(host, options)

    def options(self, options: ClaudeAgentOptions | None = None) -> ClaudeAgentOptions:
        """These options with the hooks added; they are not changed, and hooks of your own stay."""
        return self._added(options, self._judge)

    def client(self, options: ClaudeAgentOptions | None = None) -> ClaudeSDKClient:
        """A client with these options and the hooks. Its runs end as `cancelled` when it is interrupted or closed, and
        as `error` when Claude's result is an error."""
        judge = _Judge(self._host, self._options)
        return _Client(self._added(options, judge), judge)

    def _added(self, options: ClaudeAgentOptions | None, judge: _Judge) -> ClaudeAgentOptions:
        options = options or ClaudeAgentOptions()
        # A hook that fails or is late blocks the call. The SDK refuses a version of Claude's program that does not know
        # `on_failure`.
        matcher = HookMatcher(hooks=[judge.answer], timeout=self._timeout, on_failure="block")
        hooks: dict[Any, list[HookMatcher]] = {**(options.hooks or {})}
        return replace(options, hooks=hooks | {name: [matcher, *hooks.get(name, [])] for name in HOOKS})


@final
@dataclass(eq=False)
class _Agent:
    """A run of Claude itself or of one of its sub-agents."""

    conversation: Conversation
    calls: AgentCalls = field(default_factory=lambda: AgentCalls(CLAUDE.name))

    async def end(self, error: BaseException | None) -> None:
        try:
            await self.calls.leave(problem=INTERRUPTED if error else "")
        finally:
            await self.conversation.end(error)


@final
class _Judge:
    """Answers the hooks of one client, or of all sessions that have no client."""

    def __init__(self, host: SomeHost, options: Mapping[str, Any]) -> None:
        self._conversations = Conversations(host, (), options)
        # The agents with an open run, by session id and sub-agent id.
        self._agents: dict[tuple[str, str], _Agent] = {}

    async def answer(self, payload: Any, _tool_use_id: str | None, _context: Any) -> Any:
        """The answer for Claude's program. An error becomes a denial: the program would block the call without a reason
        for the model."""
        event = read_event(CLAUDE.name, payload)
        try:
            verdict = await self._verdict(event)
        except Exception as error:
            logger.exception("the hook %s of Claude's session '%s' failed", event.name, event.session)
            reason = str(error) if isinstance(error, HookSDKError) else describe(error)
            verdict = AgentCalls.withhold(event, reason) if event.kind == "after_call" else Verdict(deny=reason)
        return CLAUDE.answer(event, verdict)

    async def _verdict(self, event: HookEvent) -> Verdict:
        if event.kind == "prompt":
            before = self._agents.get((event.session, ""))
            left = before is not None and before.calls.open  # a prompt may be typed while Claude works
            await self.end(event.session, error=asyncio.CancelledError() if left else None)
            await self._begin(event)
        elif event.kind == "stop":
            return await self._finish(event)
        elif event.name == "SubagentStop":
            await self.end(event.session, event.helper)
        elif event.kind == "after_call":
            agent, run = await self._ready(event)
            return await agent.calls.take_result(run, event)
        elif event.kind == "before_call":
            agent, run = await self._ready(event)
            judged = await agent.calls.judge(run, event)
            verdict = agent.calls.let_run(event, judged)
            return replace(verdict, allow=judged.approval.by or "the approver") if judged.approval else verdict
        return Verdict()

    async def _finish(self, event: HookEvent) -> Verdict:
        """Let the plugins judge the end of Claude's turn."""
        agent, error = self._agents.get((event.session, "")), None
        if agent is None:
            return Verdict()
        try:
            verdict = await agent.calls.finish(await agent.conversation.begin(), event)
        except RunBlocked as blocked:
            verdict, error = Verdict(note=f"{blocked}. Claude has shown the answer all the same"), blocked
        if not verdict.go_on:
            await self.end(event.session, error=error)
        return verdict

    async def _ready(self, event: HookEvent) -> tuple[_Agent, Run]:
        """The agent that makes this call, and its run, in which the tool is granted. So it is in the run of the main
        agent."""
        whole = (await self._ready(replace(event, helper="", helper_type="")))[0] if event.helper else None
        agent = await self._begin(event, whole)
        agent.calls.know(event)
        return agent, await agent.conversation.resolve(agent.calls.tools, lambda tool: tool)

    async def _begin(self, event: HookEvent, whole: _Agent | None = None) -> _Agent:
        key = (event.session, event.helper)
        if key not in self._agents:
            token = inside.set((whole.conversation, event.helper)) if whole else None
            self._agents[key] = _Agent(self._conversations.get(event.session))
            if token is not None:
                inside.reset(token)
        agent, options = self._agents[key], {"workspace_dir": str(event.folder), **self._conversations.options}
        if event.helper:
            options |= {"agent_id": event.helper_type or event.helper, "trigger": None}
        more: dict[str, Any] = {"agent_id": CLAUDE.name, "trigger": "user", **options, "transcript": False}
        try:
            await agent.conversation.begin([event.prompt] if event.prompt else [], earlier=(), **more)
        except BaseException:
            await self.end(*key)
            raise
        return agent

    async def end(self, session: str, helper: str = "", *, error: BaseException | None = None) -> None:
        """End the agent's run, if it has one."""
        if (agent := self._agents.pop((session, helper), None)) is not None:
            await run_shielded(agent.end, error)

    async def end_all(self, error: BaseException, *, unless_at_work: bool = False) -> None:
        """End all runs, those of sub-agents first. Errors are logged."""
        for key, agent in sorted(self._agents.items(), key=lambda item: not item[0][1]):
            if not (unless_at_work and agent.calls.open):
                try:
                    await self.end(*key, error=error)
                except Exception:
                    logger.exception("a run of Claude's session '%s' could not be ended", key[0])


@final
class _Client(ClaudeSDKClient):
    def __init__(self, options: ClaudeAgentOptions, judge: _Judge) -> None:
        super().__init__(options)
        self._hooksdk = judge

    async def receive_messages(self) -> AsyncIterator[Message]:
        async for message in super().receive_messages():
            if isinstance(message, ResultMessage) and message.is_error:
                # A run with calls at work belongs to a later prompt than this result, which is read late.
                error = RuntimeError(message.result or message.subtype)
                await self._hooksdk.end_all(error, unless_at_work=True)
            yield message

    async def interrupt(self) -> None:
        await super().interrupt()
        await self._hooksdk.end_all(asyncio.CancelledError())

    async def disconnect(self) -> None:
        try:
            await super().disconnect()
        finally:
            await self._hooksdk.end_all(asyncio.CancelledError())
