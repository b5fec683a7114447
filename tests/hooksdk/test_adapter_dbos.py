"""hooksdk on DBOS: runs of the agent that another worker goes on with."""

from __future__ import annotations

import pytest

pytest.importorskip("dbos", reason="hooksdk[dbos] is not installed")
pytestmark = [pytest.mark.heavy, pytest.mark.anyio]

import asyncio
from collections.abc import AsyncGenerator, Generator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from dbos import DBOS, DBOSClient, error

from hooksdk import Approval, Host, MemoryStore, hooks, tool
from hooksdk.adapters.dbos import DurableAgent, DurableOutcome, RunMovedOn, Worker
from hooksdk.agent import Limits
from hooksdk.desk import ApprovalDesk, ApprovalRecords
from hooksdk.errors import ConfigError, WrongArgument
from hooksdk.hooks import AgentEnd, Ask, BeforeModelCall, BeforeToolCall, Block
from hooksdk.stores import SqlStore
from hooksdk.testing import ConformanceCase, ScriptedModel, conformance_cases
from hooksdk.testing import call as calls
from tests.hooksdk.dbos_driver import DBOSDriver
from tests.hooksdk.test_conformance import hold


@pytest.fixture(autouse=True)
def registry() -> Generator[None]:
    """DBOS keeps its workflows for the whole process."""
    yield
    DBOS.destroy(destroy_registry=True)


@tool
async def pay(to: str) -> str:
    """Pay."""
    return f"paid {to}"


def agent_of(*script: Any, **options: Any) -> DurableAgent:
    tools = options.pop("tools", [pay])
    return DurableAgent("till", ScriptedModel(list(script)), tools=tools, polling=0.05, **options)


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'one.db'}"


def config_of(url: str) -> Any:
    return {
        "name": "shop",
        "system_database_url": url,
        "log_level": "CRITICAL",
        "notification_listener_polling_interval_sec": 0.05,
    }


@asynccontextmanager
async def working(
    url: str, agent: DurableAgent, *, plugins: Sequence[Any] = (), approver: Any = None
) -> AsyncGenerator[Host]:
    """A worker with this agent; its sessions and DBOS's records are in one file."""
    store = SqlStore(url)
    async with (
        Host(store=store, plugins=plugins, approver=approver) as host,
        Worker(host, [agent], config_of(url), look=0.05, drain=1),
    ):
        yield host
    await store.aclose()


async def run(agent: DurableAgent, session: str, prompt: str | None, **options: Any) -> DurableOutcome:
    handle = await agent.start(session, prompt, **options)
    return await handle.get_result(polling_interval_sec=0.05)


async def until_free(session: str, host: Host) -> None:
    """Wait until nobody has the session."""
    assert isinstance(host.store, SqlStore)
    while session in await host.store.list_held():
        await asyncio.sleep(0.02)


async def question(records: ApprovalRecords) -> int:
    """The number of the one that waits, once one does."""
    while not (waiting := await records.list(waiting=True)):
        await asyncio.sleep(0.02)
    return waiting[0].number


@pytest.mark.in_ci(
    case=["a_denied_call_does_not_run", "two_calls_wait_at_once", "a_cancelled_tool_is_seen_before_the_runs_end"]
)  # the loop is that of `run_agent`: these are what the engine could change
@pytest.mark.parametrize("case", conformance_cases(), ids=str)
async def test_conformance(case: ConformanceCase, request: pytest.FixtureRequest):
    await hold(case, DBOSDriver(), request)


async def test_the_steps_of_a_run_are_its_model_calls_and_its_tool_calls(url: str):
    agent = agent_of([calls("pay", to="ann"), calls("pay", to="bob")], "Both are paid.", system="You pay.")
    async with working(url, agent) as host:
        outcome = await run(agent, "s", "Pay Ann and Bob.", workflow_id="w")
        assert outcome == {"text": "Both are paid.", "reason": "completed", "turns": 2, "blocked": ""}
        steps = await DBOS.list_workflow_steps_async("w")
        names = [step["function_name"] for step in steps]
        assert names == ["begin", "model", "tool pay", "tool pay", "model", "end"]
        messages, _ = await host.store.read_session("s")
        assert [message["role"] for message in messages] == ["system", "user", "assistant", "tool", "tool", "assistant"]


async def test_a_run_that_is_queued_twice_under_one_id_runs_once(url: str):
    agent = agent_of("Hello.", "Hello again.")
    async with working(url, agent) as host:
        outcomes = [await run(agent, "s", "Hi", workflow_id="w") for _ in range(2)]
        assert [one["text"] for one in outcomes] == ["Hello.", "Hello."]
        assert len((await host.store.read_session("s"))[0]) == 2
        assert (await run(agent, "s", "Hi", workflow_id="v"))["text"] == "Hello again."


async def test_a_process_without_a_worker_queues_runs_by_dbos_own_client(url: str):
    agent = agent_of("Hello.")
    async with working(url, agent):
        client = DBOSClient(system_database_url=url)
        queued: Any = {"workflow_name": "till", "queue_name": "till", "queue_partition_key": "s"}
        handle: Any = await client.enqueue_async(queued, "s", "Hi", {"requester": {"id": "ann"}})
        assert (await handle.get_result())["text"] == "Hello."
        client.destroy()


class AskFirst:
    @hooks.before_tool_call
    def judge(self, event: BeforeToolCall) -> Ask:
        return Ask("Pay?")


async def test_a_call_that_waits_holds_no_session_and_goes_on_with_the_answer_that_somebody_gives_elsewhere(url: str):
    agent = agent_of(calls("pay", to="ann"), "Done.")
    async with working(url, agent, plugins=[AskFirst], approver=ApprovalDesk(wait=0)) as host:
        handle = await agent.start("s", "Pay Ann.", workflow_id="w")
        other_store = SqlStore(url)
        elsewhere = ApprovalRecords(other_store)
        number = await question(elsewhere)
        await until_free("s", host)
        await elsewhere.answer(number, Approval(True, by="ann"))
        assert (await handle.get_result(polling_interval_sec=0.05))["text"] == "Done."
        names = [step["function_name"] for step in await DBOS.list_workflow_steps_async("w")]
        assert names == [
            "begin",
            "model",
            "tool pay",
            "DBOS.recv",
            "DBOS.sleep",
            "tool pay",
            "model",
            "end",
        ]
        messages, _ = await host.store.read_session("s")
        assert messages[2]["content"] == "paid ann"
        await other_store.aclose()


async def test_a_call_that_waits_goes_on_in_the_worker_after_the_one_that_asked(url: str):
    agent = agent_of(calls("pay", to="ann"), "Done.")
    policy: Any = {"plugins": [AskFirst], "approver": ApprovalDesk(wait=0)}
    async with working(url, agent, **policy) as host:
        await agent.start("s", "Pay Ann.", workflow_id="w")
        await question(ApprovalRecords(host.store))
        await until_free("s", host)
    async with working(url, agent, **policy) as host:
        await ApprovalRecords(host.store).answer(1, Approval(True))
        handle: Any = await DBOS.retrieve_workflow_async("w")
        assert (await handle.get_result(polling_interval_sec=0.05))["text"] == "Done."


async def test_the_run_that_has_the_session_goes_first_also_where_the_next_one_has_its_place_in_the_queue(url: str):
    agent = agent_of(calls("pay", to="ann"), "First.", "Second.")
    policy: Any = {"plugins": [AskFirst], "approver": ApprovalDesk(wait=0)}
    async with working(url, agent, **policy) as host:
        await agent.start("s", "Pay Ann.", workflow_id="w", priority=5)
        await question(ApprovalRecords(host.store))
        second = await agent.start("s", "Hi", workflow_id="v", priority=1)
        assert (await second.get_status()).status == "ENQUEUED"
    async with working(url, agent, **policy) as host:
        await ApprovalRecords(host.store).answer(1, Approval(True))
        outcomes: list[Any] = [await (await DBOS.retrieve_workflow_async(one)).get_result() for one in ("w", "v")]
        assert [one["text"] for one in outcomes] == ["First.", "Second."]
        messages, _ = await host.store.read_session("s")
        assert [message["role"] for message in messages] == [
            "user",
            "assistant",
            "tool",
            "assistant",
            "user",
            "assistant",
        ]


async def test_cancelling_the_workflow_cancels_the_run_and_its_call_is_in_doubt(url: str):
    entered = asyncio.Event()
    ends: list[str] = []

    @tool
    async def pay(to: str) -> str:
        """Pay."""
        entered.set()
        await asyncio.sleep(60)
        return f"paid {to}"

    class Ends:
        @hooks.agent_end
        def end(self, event: AgentEnd) -> None:
            ends.append(event.reason)

    agent = agent_of(calls("pay", to="ann"), "It was cut off.", tools=[pay])
    async with working(url, agent, plugins=[Ends]) as host:
        handle = await agent.start("s", "Pay Ann.", workflow_id="w")
        await entered.wait()
        await DBOS.cancel_workflow_async("w")
        with pytest.raises(error.DBOSAwaitedWorkflowCancelledError):
            await handle.get_result(polling_interval_sec=0.05)
        await until_free("s", host)
        assert ends == ["cancelled"]
        assert [one.name for one in (await host.in_doubt("s"))["s"] or ()] == ["pay"]
        resumed = await DBOS.resume_workflow_async("w")
        assert (await resumed.get_result(polling_interval_sec=0.05))["text"] == "It was cut off."


async def test_a_waiting_run_that_is_cancelled_ends(url: str):
    agent = agent_of(calls("pay", to="ann"), "Done.")
    async with working(url, agent, plugins=[AskFirst], approver=ApprovalDesk(wait=0)) as host:
        handle = await agent.start("s", "Pay Ann.", workflow_id="w")
        await question(ApprovalRecords(host.store))
        await DBOS.cancel_workflow_async("w")
        with pytest.raises(error.DBOSAwaitedWorkflowCancelledError):
            await handle.get_result(polling_interval_sec=0.05)
        next_one = await agent.start("s", "Are you there?")
        assert (await next_one.get_result(polling_interval_sec=0.05))["text"] == "Done."


async def test_the_next_run_of_a_session_waits_until_the_one_before_is_over(url: str):
    asked, released = asyncio.Event(), asyncio.Event()

    async def wait(turn: Any) -> str:
        asked.set()
        await released.wait()
        return turn.prompt

    agent = DurableAgent("till", ScriptedModel(wait))
    async with working(url, agent) as host:
        first = await DBOS.start_workflow_async(agent.workflow, "s", "first")
        await asked.wait()
        second = await DBOS.start_workflow_async(agent.workflow, "s", "second")
        await asyncio.sleep(0.1)
        released.set()
        assert [(await one.get_result(polling_interval_sec=0.05))["text"] for one in (first, second)] == [
            "first",
            "second",
        ]
        assert [message["content"] for message in (await host.store.read_session("s"))[0]] == [
            "first",
            "first",
            "second",
            "second",
        ]


class NoSecondRequest:
    def __init__(self) -> None:
        self.requests = 0

    @hooks.before_model_call
    def judge(self, event: BeforeModelCall) -> Block | None:
        self.requests += 1
        return Block("one is enough") if self.requests > 1 else None


async def test_a_run_ends_by_a_limit_by_a_plugin_and_by_an_error_as_run_agent_does(url: str):
    def reply(turn: Any) -> Any:
        if turn.prompt == "fail":
            raise ValueError("the model is broken")
        return calls("pay", to="ann")

    agent = DurableAgent("till", ScriptedModel(reply), tools=[pay], limits=Limits(turns=2), polling=0.05)
    async with working(url, agent):
        assert (await run(agent, "a", "go"))["reason"] == "turn_limit"
        with pytest.raises(ValueError, match="the model is broken"):
            await run(agent, "b", "fail")
    async with working(url, agent, plugins=[NoSecondRequest]):
        blocked = await run(agent, "c", "go")
        assert (blocked["reason"], blocked["turns"]) == ("blocked", 1)
        assert "one is enough" in blocked["blocked"]


async def test_a_run_without_a_prompt_makes_the_calls_that_the_session_has_open(url: str):
    agent = agent_of("Ann has it.")
    async with working(url, agent) as host:
        async with host.session("s") as session, session.run() as run_:
            await run_.resolve_tools([pay])
            call = {"id": "c1", "type": "function", "function": {"name": "pay", "arguments": '{"to": "ann"}'}}
            await run_.record(
                [{"role": "user", "content": "Pay"}, {"role": "assistant", "content": None, "tool_calls": [call]}]
            )
            run_.pause("later")
        assert (await run(agent, "s", None))["text"] == "Ann has it."
        assert (await host.store.read_session("s"))[0][2]["content"] == "paid ann"


async def test_a_workflow_of_yours_has_a_run_as_its_child(url: str):
    agent = agent_of("Hello.")

    @DBOS.workflow(name="greeting")
    async def greeting(name: str) -> str:
        outcome = await agent.workflow(name, f"Greet {name}.", {"trigger": "schedule"})
        return outcome["text"]

    async with working(url, agent):
        assert await greeting("ann") == "Hello."


async def test_a_worker_makes_dbos_itself(url: str):
    DBOS(config=config_of(url))
    store = SqlStore(url)
    async with Host(store=store) as host:
        with pytest.raises(ConfigError, match="DBOS was made before it"):
            async with Worker(host, [], config_of(url)):
                raise AssertionError
    await store.aclose()


async def test_a_fork_goes_on_in_no_session_that_has_gone_on_and_one_at_step_1_is_a_run_like_any_other(url: str):
    agent = agent_of("Hello.", "Hello again.")
    async with working(url, agent) as host:
        await run(agent, "s", "Hi", workflow_id="w")
        with pytest.raises(RunMovedOn, match="Start a run of its own, or fork it at step 1"):
            await (await DBOS.fork_workflow_async("w", 2)).get_result(polling_interval_sec=0.05)
        again = await (await DBOS.fork_workflow_async("w", 1)).get_result(polling_interval_sec=0.05)
        assert again["text"] == "Hello again."
        assert [message["content"] for message in (await host.store.read_session("s"))[0]] == [
            "Hi",
            "Hello.",
            "Hi",
            "Hello again.",
        ]


async def test_workers_need_a_store_with_leases_and_runs_take_no_seconds(url: str):
    async with Host(store=MemoryStore()) as host:
        with pytest.raises(ConfigError, match="Take Host\\(store=SqlStore"):
            Worker(host, [], config_of(url))
    with pytest.raises(WrongArgument, match="workflow_timeout"):
        agent_of(limits=Limits(seconds=3))
    agent = agent_of("Hello.")
    async with working(url, agent):
        with pytest.raises(WrongArgument, match="not colour"):
            await (await DBOS.start_workflow_async(agent.workflow, "s", "Hi", {"colour": "red"})).get_result(
                polling_interval_sec=0.05
            )
