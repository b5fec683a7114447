"""Hosts and sessions for tests, and whole runs in one line."""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, Generator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from hooksdk import hooks
from hooksdk.agent import DEFAULT_LIMITS, Limits, Outcome, OutcomeReason, run_agent
from hooksdk.approvals import Approval, ApprovalRequest, Approver, Later, ask_approver
from hooksdk.config import Config, fold, load_config
from hooksdk.errors import MissingGrant, PluginRefused, check_list, check_mapping, did_you_mean, refuse
from hooksdk.formats import GivenMessage, GivenTools, Message, MessageFormat
from hooksdk.formats.intake import as_tools
from hooksdk.hooks import GRANTS
from hooksdk.host import Host, installed_plugins
from hooksdk.session import Session
from hooksdk.stores import MemoryStore
from hooksdk.testing._model import Script, ScriptedModel, Turn
from hooksdk.tools import Tool
from hooksdk.transcript import Store

KIT = "testing_kit"


@asynccontextmanager
async def open_host(
    *plugins: Any,
    tools: GivenTools = (),
    config: Mapping[str, Any] | None = None,
    store: Store | None = None,
    approver: Approver | None = None,
    grants: Iterable[str] | None = None,
) -> AsyncGenerator[Host, None]:
    """A host for tests: no configuration file and no variable of the environment is read, nothing is written to disk.

    `plugins` are modules and classes, or the ids of installed plugins, such as `"tool_search"`; no other installed
    plugin is loaded. `tools` are what `play` hands to each run. `config` is the host's configuration as a mapping.
    `grants` are what the installed plugins named here may do, such as `["conversation"]`; by default what their
    manifests ask for, unless `config` says it. Modules and classes need none.
    """
    check_mapping("open_session(config=...)", config, '{"on_missing_grant": "skip"}')
    if grants is not None:
        grants = check_list("open_session(grants=...)", grants, "grants", 'Write such as grants=["conversation"]')
    ids = [plugin for plugin in plugins if isinstance(plugin, str)]
    holders = [plugin for plugin in plugins if not isinstance(plugin, str)]
    overrides: dict[str, Any] = {**(config or {}), "allow": [*ids, *(config or {}).get("allow", ())]}
    overrides["plugins"] = _sections_with_grants(overrides.get("plugins", {}), ids, grants)
    settings = load_config(overrides, folder=Path(os.devnull), environment={"XDG_CONFIG_HOME": os.devnull})
    kit = _make_kit(tools)

    async def answer(request: ApprovalRequest) -> Approval | Later:
        kit.questions.append(request)
        return await ask_approver(None, request) if approver is None else await approver(request)

    with _told_for_tests(settings):
        host = Host(
            plugins=[kit, *holders],
            store=MemoryStore() if store is None else store,
            config=settings,
            approver=answer,
            folder=os.devnull,
        )
    check_installed(host, ids)
    async with host:
        yield host


def check_installed(host: Host, ids: Iterable[str]) -> None:
    """Raise `PluginRefused` for an id that no loaded plugin has."""
    loaded = {fold(plugin.id) for plugin in host.plugins if plugin.loaded}
    for name in ids:
        if fold(name) not in loaded:
            others = [plugin.id for plugin in host.plugins if plugin.origin != "code"]
            raise PluginRefused(name, "no installed plugin has this id." + did_you_mean(name, others))


def _sections_with_grants(
    sections: Mapping[str, Any], ids: Sequence[str], grants: Iterable[str] | None
) -> dict[str, Any]:
    """The plugins' sections with these grants; without any, with those that each manifest asks for, unless its section
    has some."""
    filled = dict(sections)
    asked = _grants_asked_for(ids) if grants is None and ids else {}
    given = None if grants is None else list(grants)
    for plugin_id in ids:
        name = next((one for one in filled if fold(one) == fold(plugin_id)), plugin_id)
        section: Mapping[str, Any] = filled.get(name, {})
        words = given or ([] if "grants" in section else asked.get(fold(plugin_id), []))
        if words:
            filled[name] = {**section, "grants": words}
    return filled


def _grants_asked_for(ids: Iterable[str]) -> dict[str, list[str]]:
    """The grants that the manifests of these installed plugins ask for, by folded id; built-in ones need none."""
    strangers = (plugin for plugin in installed_plugins(Config(allow=list(ids))) if plugin.origin == "installed")
    return {
        fold(plugin.id): [word for word in plugin.manifest.permissions if word in GRANTS]
        for plugin in strangers
        if plugin.manifest
    }


@contextmanager
def _told_for_tests(settings: Config) -> Generator[None]:
    """A grant that is missing is given in the test, or asked for in the manifest; not on the command line."""
    try:
        yield
    except MissingGrant as missing:
        section = settings.plugin(missing.plugin)
        words = [word for word in GRANTS if word in missing.grants or (section and word in section.grants)]
        advice = f"In a test: grants={words}; for everybody: list it under permissions in its manifest"
        raise MissingGrant(missing.plugin, missing.grants, advice) from None


@asynccontextmanager
async def open_session(
    *plugins: Any,
    tools: GivenTools = (),
    config: Mapping[str, Any] | None = None,
    store: Store | None = None,
    approver: Approver | None = None,
    grants: Iterable[str] | None = None,
    session_id: str = "test",
) -> AsyncGenerator[Session, None]:
    """One session of a host for tests; the parameters are those of `open_host`. With the same `store` and `session_id`
    a second one goes on where the first has ended."""
    async with (
        open_host(*plugins, tools=tools, config=config, store=store, approver=approver, grants=grants) as host,
        host.session(session_id) as session,
    ):
        yield session


@dataclass(frozen=True, kw_only=True)
class Played:
    """A run that was played, with its requests, calls and messages.

    ```python
    import anyio

    from hooksdk.testing import call, open_session, play

    def now() -> str:
        "Tell the time."
        return "noon"

    async def main() -> None:
        async with open_session(tools=[now]) as session:
            played = await play(session, [call("now"), "It is noon."])
        assert played.call("now").status == "ok"
        assert played.text == "It is noon."

    anyio.run(main)
    ```

    Attributes:
        turns: The requests to the model, turn by turn.
        calls: Every call with its result and status, as observers see them, in the order in which they ended.
        messages: The stored transcript after the run.
        questions: The questions to a person, asked also where there is none; answers that were remembered are not among
            them.
    """

    outcome: Outcome
    turns: Sequence[Turn]
    calls: Sequence[hooks.AfterToolCall]
    messages: Sequence[Message]
    questions: Sequence[ApprovalRequest] = ()

    @property
    def text(self) -> str:
        """The last reply's prose."""
        return self.outcome.text

    @property
    def reason(self) -> OutcomeReason:
        """Why the agent stopped."""
        return self.outcome.reason

    def call(self, tool: str) -> hooks.AfterToolCall:
        """The only call of the tool; an `AssertionError` when there is none, or more than one."""
        calls = [one for one in self.calls if one.call.name == tool]
        names = [one.call.name for one in self.calls]
        assert len(calls) == 1, f"{tool!r} was called {len(calls)} times, not once; the calls were {names}"
        return calls[0]


async def play(
    session: Session,
    script: Script | ScriptedModel,
    prompt: str | GivenMessage | None = "Go on.",
    *,
    tools: GivenTools | None = None,
    format: str | MessageFormat = "openai-chat",  # noqa: A002 - the field's own word
    context_window: int | None = 200_000,
    limits: Limits = DEFAULT_LIMITS,
    system: str | None = None,
    agent_id: str = "main",
    workspace_dir: str | None = None,
    requester: Mapping[str, Any] | None = None,
    trigger: str | None = None,
    metadata: Mapping[str, Any] | None = None,
) -> Played:
    """Play one whole run with a scripted model. `session` comes from `open_session` or `open_host`; its tools are used
    unless others are given. `format` and `context_window` are the scripted model's."""
    kit = _kit_of(session)
    model = script
    if not isinstance(model, ScriptedModel):
        model = ScriptedModel(model, format=format, context_window=context_window)
    calls, turns, questions = len(kit.calls), len(model.turns), len(kit.questions)
    outcome = await run_agent(
        session,
        model,
        prompt,
        tools=kit.tools if tools is None else as_tools(tools, "tools", owner="test"),
        limits=limits,
        system=system,
        agent_id=agent_id,
        workspace_dir=workspace_dir,
        requester=requester,
        trigger=trigger,
        metadata=metadata,
    )
    return Played(
        outcome=outcome,
        turns=model.turns[turns:],
        calls=kit.calls[calls:],
        messages=session.messages,
        questions=kit.questions[questions:],
    )


class _Kit:
    """The plugin by which `play` sees a session's calls and knows its tools.

    Attributes:
        questions: Of all sessions of the host, since they share its approver.
    """

    plugin_id = KIT
    tools: Sequence[Tool] = ()
    questions: ClassVar[list[ApprovalRequest]]

    def __init__(self) -> None:
        self.calls: list[hooks.AfterToolCall] = []

    @hooks.after_tool_call
    async def keep(self, event: hooks.AfterToolCall) -> None:
        self.calls.append(event)


def _make_kit(tools: GivenTools) -> type[_Kit]:
    class Kit(_Kit):
        pass

    Kit.tools, Kit.questions = as_tools(tools, "tools", owner="test"), []
    return Kit


def _kit_of(session: Session) -> _Kit:
    try:
        kit = session.plugin(KIT) if isinstance(session, Session) else None  # pyright: ignore[reportUnnecessaryIsInstance]
    except KeyError:
        kit = None
    if kit is None:
        refuse(
            "play(session, ...)", session, "a session of open_session() or open_host()", "For others use run_agent()"
        )
    assert isinstance(kit, _Kit)
    return kit
