"""What plugins rely on in every framework, held by what hooksdk runs itself."""

from __future__ import annotations

import pytest

from hooksdk.testing import ConformanceCase, Driver, conformance_cases
from tests.hooksdk.gateway_driver import GatewayDriver
from tests.hooksdk.loop_drivers import JudgeDriver, RunAgentDriver, SyncDriver

pytestmark = [pytest.mark.heavy, pytest.mark.anyio]
CASES = conformance_cases()
in_ci_a_few = pytest.mark.in_ci(
    case=[
        "a_denied_call_does_not_run",
        "a_policy_that_hangs_blocks",
        "rewritten_arguments_are_judged_and_run",
        "a_deferred_tool_is_found_and_called",
        "a_trim_shows_from_the_next_run_on",
        "repeated_call_ids_are_told_apart",
        "an_approval_outlives_the_program",
        "two_calls_wait_at_once",
        "a_cancelled_tool_is_seen_before_the_runs_end",
        "streaming_passes_the_same_hooks",
        "a_secret_is_never_shown_to_model_or_plugins",
        "an_answer_that_a_plugin_replaces_is_the_answer",
        "a_sub_agents_own_policies_hold",
        "a_malformed_call_ends_no_conversation",
    ]
)
"""One case of each thing that a framework can get wrong by itself. `run_agent` and the loop that judges hold all of them in CI."""


async def hold(case: ConformanceCase, driver: Driver, request: pytest.FixtureRequest) -> None:
    """A case that cannot be held is expected to fail, with its reason: should it pass one day, the reason is to go.
    One that would wait for ever is not played."""
    if case.name in getattr(driver, "never_end", ()):
        pytest.xfail(driver.cannot[case.name])
    if reason := driver.cannot.get(case.name):
        request.applymarker(pytest.mark.xfail(reason=reason, strict=True))
    await case(driver)


@pytest.mark.in_ci(every=1)
@pytest.mark.parametrize("case", CASES, ids=str)
async def test_run_agent(case: ConformanceCase, request: pytest.FixtureRequest):
    await hold(case, RunAgentDriver(), request)


@pytest.mark.in_ci(every=1)
@pytest.mark.parametrize("case", CASES, ids=str)
async def test_a_loop_that_judges_and_executes(case: ConformanceCase, request: pytest.FixtureRequest):
    await hold(case, JudgeDriver(), request)


@in_ci_a_few
@pytest.mark.parametrize("case", CASES, ids=str)
async def test_plain_code(case: ConformanceCase, request: pytest.FixtureRequest):
    await hold(case, SyncDriver(), request)


@in_ci_a_few
@pytest.mark.parametrize("case", CASES, ids=str)
@pytest.mark.parametrize("anyio_backend", ["asyncio"], indirect=True)
async def test_the_gateway(case: ConformanceCase, request: pytest.FixtureRequest):
    await hold(case, GatewayDriver(), request)


@pytest.mark.parametrize("driver", [RunAgentDriver, JudgeDriver, SyncDriver, GatewayDriver])
async def test_every_reason_is_of_a_case(driver: type[Driver]):
    assert set(driver.cannot) <= set(map(str, CASES))
