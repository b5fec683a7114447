"""The parts of the conformance suite: drivers of adapters, programs for them, and cases by name."""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, TypedDict, final

from hooksdk import hooks
from hooksdk.approvals import ApprovalRequest, Approver, Later
from hooksdk.config import Config, load_config
from hooksdk.formats import Message
from hooksdk.hooks import HOOKS, Block, Event
from hooksdk.stores import MemoryStore
from hooksdk.testing._events import Recorder, recorder
from hooksdk.testing._model import Script, ScriptedModel, call
from hooksdk.tools import Tool
from hooksdk.transcript import Store

CITY = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
WEATHER = call("get_weather", city="Rome")
DELETE = call("delete_city", city="Rome")
SEEN = ("after_tools_resolved", "after_model_call", "after_tool_call", "agent_end", "before_compaction")


class HostOptions(TypedDict):
    """The arguments of `Host(...)`, and of its plain twin."""

    plugins: Sequence[Any]
    store: Store
    config: Config
    approver: Approver | None
    folder: str


@final
@dataclass(frozen=True, kw_only=True)
class Program:
    """One start of a program whose agent the driver plays.

    `Host(**program.host)` is its host. `tools` are to be the framework's own, each with the name, description and
    schema that stands there, and its `execute` as the function; one without it runs elsewhere. `model` answers in the
    place of a provider's API: `await program.model.reply(messages, tools)`, both as OpenAI's chat completions have
    them.

    ```python
    from collections.abc import AsyncGenerator
    from contextlib import asynccontextmanager

    from hooksdk import Host
    from hooksdk.testing import Program

    @asynccontextmanager
    async def start(program: Program) -> AsyncGenerator[Host]:
        async with Host(**program.host) as host:
            yield host
    ```
    """

    host: HostOptions
    tools: Sequence[Tool]
    model: ScriptedModel


@final
@dataclass(frozen=True, kw_only=True)
class Answer:
    """The answer of the framework.

    ```python
    from hooksdk.testing import Answer

    paused = Answer(waiting=["c1"])
    assert not paused.text
    ```

    Attributes:
        waiting: The ids of the calls that wait for a person's answer.
    """

    text: str = ""
    waiting: Sequence[str] = ()


class Driver(Protocol):
    """Plays conversations over one adapter. One driver is one program that may be started again: what the framework
    stores by itself, it keeps from start to start.

    ```python
    from collections.abc import Callable

    from hooksdk.testing import Driver, conformance_cases

    async def hold(make: Callable[[], Driver]) -> None:
        for case in conformance_cases():
            driver = make()
            if case.name not in driver.cannot:
                await case(driver)
    ```

    Attributes:
        cannot: Cases, by name, that the framework cannot hold, each with the reason.
    """

    cannot: Mapping[str, str]

    def start(self, program: Program) -> AbstractAsyncContextManager[object]:
        """The program runs: the host is open, the agent is made."""
        ...

    async def ask(self, prompt: str, conversation: str = "c") -> Answer:
        """The next turn of a conversation. What the framework raises is raised."""
        ...

    async def answer(self, granted: Mapping[str, bool], conversation: str = "c") -> Answer:
        """Go on where calls wait, with a person's answer for each, given in the framework's own way."""
        ...

    async def stream(self, prompt: str, conversation: str = "c") -> Answer:
        """`ask`, by the framework's streaming entry."""
        ...

    def ask_plainly(self, prompt: str, conversation: str = "c") -> Answer:
        """`ask`, by the framework's entry for plain code; called in a thread without an event loop."""
        ...

    async def stored(self, conversation: str = "c") -> Sequence[str]:
        """The texts of the conversation's tool results, as the framework's own store has them."""
        ...

    async def adopt(self, messages: Sequence[Message], conversation: str = "c") -> None:
        """Put a history, as OpenAI's chat completions have it, into the framework's store."""
        ...

    async def cut(self, turns: int, conversation: str = "c") -> None:
        """Go back: of the conversation, keep its first turns."""
        ...

    async def forget(self, turns: int, conversation: str = "c") -> None:
        """Leave the conversation's first turns out of what is sent from now on."""
        ...


def handling(hook: str, handle: Callable[[Any], object], *, name: str = "handles", **options: Any) -> type:
    """A plugin with one handler: `handling("before_model_call", lambda event: seen.append(event.model))`."""

    class Handles:
        plugin_id = name

        @HOOKS[hook](**options)
        def handler(self, event: Event) -> Any:
            return handle(event)

    return Handles


def answering(hook: str, answer: object, **options: Any) -> type:
    """A plugin that always answers a hook alike: `answering("before_tool_call", Block("no"), tools="delete_*")`."""
    return handling(hook, lambda _event: answer, name=f"answers_{type(answer).__name__.lower()}", **options)


NO_DELETES = answering("before_tool_call", Block("nothing is deleted here"), tools="delete_*")


@final
class Stage:
    """Where one case is played: a town of tools, a store that outlives the program, and what the plugins saw.

    Attributes:
        ran: The calls that ran, such as `get_weather of Rome`.
    """

    def __init__(self, driver: Driver) -> None:
        self.driver = driver
        self.store: Store = MemoryStore()
        self.seen: type[Recorder] = recorder(*SEEN)
        self.model = ScriptedModel([])
        self.asked: list[ApprovalRequest] = []
        self.ran: list[str] = []
        self.tools = [self.tool("get_weather", "Tell the weather."), self.tool("delete_city", "Delete a city.")]

    def tool(self, name: str, description: str, *, owner: str = "") -> Tool:
        """A tool that notes what it was called with; with an `owner` it is a server's, and may be deferred."""

        async def execute(arguments: dict[str, Any]) -> str:
            self.ran.append(f"{name} of {', '.join(map(str, arguments.values()))}")
            return f"{name} of {arguments['city']}"

        return Tool(
            name=name,
            description=description,
            parameters=CITY,
            execute=execute,
            source="mcp" if owner else "host",
            owner=owner,
            core=not owner,
        )

    def many_tools(self, count: int) -> list[Tool]:
        """Tools that fill a small context window."""
        return [
            self.tool(f"archive_report_{at}", f"Archive report number {at}.", owner="archive") for at in range(count)
        ]

    @asynccontextmanager
    async def open(
        self,
        *plugins: Any,
        script: Script,
        tools: Sequence[Tool] | None = None,
        config: Mapping[str, Any] | None = None,
        approver: Approver | None = None,
        allow: Sequence[str] = (),
    ) -> AsyncGenerator[Driver]:
        """The program with these plugins, with the installed ones that are named in `allow`, and with this script."""
        self.seen, self.model = recorder(*SEEN), ScriptedModel(script)

        async def ask(request: ApprovalRequest) -> Any:
            self.asked.append(request)
            return Later() if approver is None else await approver(request)

        settings = load_config(
            {**(config or {}), "allow": list(allow)},
            folder=Path(os.devnull),
            environment={"XDG_CONFIG_HOME": os.devnull},
        )
        host = HostOptions(
            plugins=[self.seen, *plugins], store=self.store, config=settings, approver=ask, folder=os.devnull
        )
        program = Program(host=host, tools=self.tools if tools is None else tools, model=self.model)
        async with self.driver.start(program):
            yield self.driver

    async def play(self, *plugins: Any, script: Script, prompts: Sequence[str] = ("go",), **options: Any) -> Answer:
        """The program is opened, and asked one prompt after the other; the last answer."""
        answer = Answer()
        async with self.open(*plugins, script=script, **options) as driver:
            for prompt in prompts:
                answer = await driver.ask(prompt)
        return answer

    @property
    def calls(self) -> list[hooks.AfterToolCall]:
        """The calls as observers saw them, in the order in which they ended."""
        return self.seen.of(hooks.AfterToolCall)

    @property
    def statuses(self) -> dict[str, str]:
        """The status of each call, by the tool's name; each name once."""
        names = [one.call.name for one in self.calls]
        assert len(names) == len(set(names)), f"observers saw calls twice: {names}"
        return {one.call.name: one.status for one in self.calls}

    @property
    def ends(self) -> list[str]:
        """How the runs ended."""
        return [one.reason for one in self.seen.of(hooks.AgentEnd)]

    def shown(self, turn: int = -1) -> list[str]:
        """The texts of the results that the model reads in one of its turns, by default its newest, old ones too."""
        messages = self.model.turns[turn].messages
        return [str(message.get("content")) for message in messages if message.get("role") == "tool"]


@final
@dataclass(frozen=True)
class ConformanceCase:
    """One thing that plugins rely on in every framework. `await case(driver)` plays it with a fresh driver, and raises
    `AssertionError`.

    ```python
    from hooksdk.testing import conformance_cases

    assert "a_denied_call_does_not_run" in map(str, conformance_cases())
    ```

    Attributes:
        number: Its number in the table of adapters.
    """

    number: str
    name: str
    check: Callable[[Stage], Awaitable[None]] = field(repr=False)

    def __str__(self) -> str:
        """The name."""
        return self.name

    async def __call__(self, driver: Driver) -> None:
        """Play it."""
        await self.check(Stage(driver))


def case(number: str) -> Callable[[Callable[[Stage], Awaitable[None]]], ConformanceCase]:
    """A decorator: this function is the case of this number, and its name is the promise."""
    return lambda check: ConformanceCase(number, check.__name__, check)
