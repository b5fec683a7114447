"""Three gateways over one PostgreSQL, of which one is killed in the middle of calls and questions: nothing is lost, and nothing
happens twice that nobody has agreed to."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest
from mcp import Client, types
from mcp.shared.exceptions import MCPError

from tests.hooksdk.gateways import text_of
from tests.hooksdk.mcp_servers import until
from tests.hooksdk.replicas import TOKENS, Process, can_answer, client
from tests.postgres import Postgres

pytestmark = [pytest.mark.heavy, pytest.mark.anyio]
KINDS = ("send_slowly", "delete_note", "ask_note", "send_note", "read_note")
NOT_DONE = ("the answer to its approval does not count", "began at another gateway", "was not run: SessionBusy")
"""What a gateway says where another one died that had the call, or it was taken for dead itself: the client makes it again."""
WORKERS = 6
LEASE = 2.0


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@dataclass
class Tally:
    """What became of the calls of one test, and what the person at its clients answers."""

    file: Path
    calls: int = 0
    cut_off: int = 0
    questions: int = 0
    doubts: int = 0
    again: Counter[str] = field(default_factory=Counter[str])
    done: list[str] = field(default_factory=list[str])
    problems: list[str] = field(default_factory=list[str])

    def lines(self) -> Counter[str]:
        return Counter(self.file.read_text().splitlines()) if self.file.exists() else Counter()

    def answer(self, path: str, message: str) -> types.ElicitResult:
        """What a person answers: no where the call is made again and they see that it took effect."""
        self.questions += 1
        if message == "Who are you?":
            return types.ElicitResult(action="accept", content={"name": "ann"})
        in_doubt = "It may have taken effect" in message
        self.doubts += in_doubt
        refuse = in_doubt and self.lines()[path] > 0
        return types.ElicitResult(action="accept", content={"decision": "deny" if refuse else "allow"})


async def make(connected: Client, name: str, path: str, tally: Tally) -> None:
    """One call, until its client knows what came of it: one that is cut off is made again."""
    tally.calls += 1
    state: str | None = None
    answers: dict[str, Any] | None = None
    for _ in range(20):
        try:
            with anyio.fail_after(30):
                result: Any = await connected.session.call_tool(
                    name, {"path": path}, request_state=state, input_responses=answers, allow_input_required=True
                )
        except (MCPError, httpx2.HTTPError, TimeoutError):
            tally.cut_off += 1
            continue
        if isinstance(result, types.InputRequiredResult):
            ((key, request),) = (result.input_requests or {}).items()
            assert isinstance(request, types.ElicitRequest)
            state, answers = result.request_state, {key: tally.answer(path, request.params.message)}
            continue
        said = text_of(result)
        if any(words in said for words in NOT_DONE):
            tally.again.update([next(words for words in NOT_DONE if words in said)])
            state = answers = None
            continue
        if " done" in said or "was read" in said or ("was not approved" in said and tally.lines()[path]):
            tally.done.append(path)
        else:
            tally.problems.append(f"{name} {path}: {said}")
        return
    tally.problems.append(f"{name} {path}: no end")


async def one_round(number: int, each: int, urls: Sequence[str], victim: Process, tally: Tally) -> None:
    async def work(worker: int) -> None:
        token = sorted(TOKENS)[worker % 2]
        async with client(*urls, token=token, elicitation_callback=can_answer) as here:
            for step in range(each):
                name = KINDS[(worker + step) % len(KINDS)]
                await make(here, name, f"{name}-{number}-{worker}-{step}", tally)

    async with anyio.create_task_group() as group:
        for worker in range(WORKERS):
            group.start_soon(work, worker)
        half = tally.calls + WORKERS * each // 2
        await until(lambda: tally.calls >= half and victim.runs_a_call())
        await anyio.to_thread.run_sync(victim.kill)


async def rounds(url: str, folder: Path, count: int, each: int) -> Tally:
    """So many rounds: the workers make calls, and one of the gateways is killed, and started anew."""
    tally, numbers = Tally(folder / "effects"), itertools.count()
    replicas = [Process(url, tally.file, LEASE, next(numbers)) for _ in range(3)]
    try:
        urls = [await one.url() for one in replicas]
        for number in range(count):
            victim = number % 3
            await one_round(number, each, urls, replicas[victim], tally)
            if number + 1 < count:
                replicas[victim] = Process(url, tally.file, LEASE, next(numbers))
                urls[victim] = await replicas[victim].url()
    finally:
        for one in replicas:
            one.kill()
    return tally


def check(tally: Tally) -> None:
    """No call without its end, none that took effect twice, none that took no effect."""
    assert tally.problems == []
    assert len(tally.done) == tally.calls
    effects = tally.lines()
    assert {path: times for path, times in effects.items() if times > 1} == {}
    assert set(effects) == {path for path in tally.done if not path.startswith("read_note")}


@pytest.mark.in_ci(False)
@pytest.mark.parametrize(
    ("count", "each"),
    [(1, 6), pytest.param(10, 12, marks=[pytest.mark.slow, pytest.mark.timeout(1800)])],
    ids=["once", "many times"],
)
async def test_a_gateway_that_is_killed_loses_no_call_no_question_and_no_answer(
    count: int, each: int, postgres: Postgres, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, token in TOKENS.items():
        monkeypatch.setenv(f"{name.upper()}_TOKEN", token)
    tally = await rounds(postgres.url(), tmp_path, count, each)
    print(
        f"{count} rounds: {tally.calls} calls, {tally.questions} questions, {tally.cut_off} cut off, {tally.doubts} in doubt"
    )
    check(tally)
    assert tally.cut_off, "one was killed in the middle of calls"
