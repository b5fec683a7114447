"""The classes of plain code, each the mirror of an async one. Type checkers and editors read their members in
`_twins.pyi`, which `python scripts/sync_twins.py` writes from the async classes; it updates their docstrings here, too."""

from __future__ import annotations

from typing import Any

from hooksdk import agent, catalog, host, run, session, transcript
from hooksdk.config import Config
from hooksdk.sync._host import OpenedHost
from hooksdk.sync._mirror import Opened, Twin, as_model, like, plain_options


class Results(Twin[transcript.Results], of=transcript.Results):
    """The tool results of a session, to read and to trim. A result goes by its handle (`r17`) or, while that is
    unambiguous, by its call id. Unknown or ambiguous references raise `UnknownResult` with the nearest handles.
    """


class Storage(Twin[catalog.Storage], of=catalog.Storage):
    """A plugin's own durable key-value space in the host's store, shared by all sessions. Values are JSON."""

    def get(self, key: str, default: Any = None) -> Any:
        return self.portal.call(self.twin.get, key, default)


class JudgedCall(Twin[run.JudgedCall], of=run.JudgedCall):
    """A call that went through unwrapping, scope, repair, rewriting, validation, the policies and their approvals.

    It ends once: it is settled already, or by `execute()`, `supply()` or `refuse()`. One that nobody ends is `not_run`
    when its run ends, and stays open when the run is paused. One whose approval comes later is `pending`: after
    `approve()`, or once it is judged again and the approver says yes, it can be executed.
    """


class Compaction(Twin[run.Compaction], of=run.Compaction):
    """An open compaction."""


class Run(Opened[run.Run], of=run.Run):
    """One agent run: from a user's message to the final answer, a pause or an error. `Session.run` opens it.

    ```python
    from hooksdk import Tool
    from hooksdk.sync import Host

    def greet(arguments: dict[str, str]) -> str:
        return f"Hello {arguments['name']}"

    with Host() as host, host.session("s1") as session, session.run("Greet Ada.") as run:
        run.resolve_tools([Tool(name="greet", source="host", execute=greet)])
        run.record({"role": "user", "content": "Greet Ada."})
        call = {"id": "c1", "type": "function", "function": {"name": "greet", "arguments": '{"name": "Ada"}'}}
        run.record({"role": "assistant", "content": None, "tool_calls": [call]})
        results = [run.call_tool(call) for call in run.pending]
    assert [result.text for result in results] == ["Hello Ada"]
    ```
    """


class Session(Opened[session.Session], of=session.Session):
    """One conversation. Use it as `with host.session("id") as session`; it takes one run at a time.

    ```python
    from hooksdk.sync import Host

    with Host() as host, host.session("ann") as session:
        with session.run() as run:
            run.record({"role": "user", "content": "Hello"})
        assert session.messages == [{"role": "user", "content": "Hello"}]
    ```
    """

    @property
    def id(self) -> str:
        """Its id."""
        return self.portal.do(getattr, self.twin, "id")

    @property
    def resumed(self) -> bool:
        """True when the session existed before."""
        return self.portal.do(getattr, self.twin, "resumed")


class Host(OpenedHost, of=host.Host):
    """Plugins, configuration, stores and background workers of one process.

    - `plugins`: modules and classes, in the order in which their handlers run; installed plugins come after them.
    - `store`: where transcripts and plugins' values live: a store such as `SqlStore(Path("sessions"))`, the `Path` of its
      folder, or text as in the configuration (`"memory"`, `"jsonl:sessions"`, `"sqlite:///sessions.db"`). Without it,
      and without one in the configuration, they are in memory. The host closes a store that it opened.
    - `config`: a mapping laid over the configuration files and the environment, or a whole `Config` instead of them.
    - `approver`: how a person is asked, `def (request) -> Approval`; without one every `Ask` is refused.
    - `folder`: whose configuration counts; by default the nearest one with a `hooksdk.toml`, in the same repository.
    - `restart`: how the program is restarted, `def (reason)`; without one no plugin can ask for it.
    - `record_first`: no tool runs, not even a reading one, before a plugin such as `audit`, which handles
      `record_decision`, has durably written that it may; by default as the configuration says.
    - `watch`: a session that begins has the rules that the files say then; one that is open keeps its own.

    Raises `ConfigError`, `PluginError` or `MissingGrant` at once for what cannot be loaded, and `WrongArgument`.

    ```python
    from hooksdk.sync import Host

    with Host() as host, host.session("ann") as session:
        assert host.sessions == (session,)
    ```
    """

    @property
    def config(self) -> Config:
        """The merged configuration."""
        return self.portal.do(getattr, self.twin, "config")


@like(agent.run_agent)
def run_agent(session: Any, model: Any, prompt: Any, **options: Any) -> agent.Outcome:
    return session.portal.call(agent.run_agent, session.twin, as_model(model), prompt, **plain_options(options))
