"""Approvals beside secrets: what is kept of questions, answers and calls that wait holds no value that a call was given."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from hooksdk import Approval, ApprovalRequest, ToolCall, hooks
from hooksdk.approvals import Later, Remembered
from hooksdk.errors import ApprovalPending
from hooksdk.hooks import Ask, BeforeToolCall, ResolveSecrets, Secrets
from hooksdk.stores import SqlStore
from tests.hooksdk.tables import text_in
from tests.stage import Stage, make, playing

pytestmark = pytest.mark.anyio
VALUE = "hunter2-password"


class Gives:
    @hooks.resolve_secrets
    def give(self, event: ResolveSecrets) -> Secrets:
        return Secrets(dict.fromkeys(event.names, VALUE))


class Quotes:
    """Asks about calls with a text, in words that hold a secret's value."""

    @hooks.before_tool_call
    def ask(self, event: BeforeToolCall) -> Ask | None:
        return Ask(f"Send {VALUE}?", f"it says {VALUE}") if "text" in event.arguments else None


def files(folder: Path) -> str:
    return text_in(folder)


async def make_known(stage: Stage) -> None:
    await stage.call("act", {"key": "{{secret:KEY}}"})


@pytest.mark.parametrize("arguments", [None, {}, {"text": f"it is {VALUE}"}])
async def test_what_is_remembered_of_an_answer_holds_no_value(arguments: dict[str, Any] | None, tmp_path: Path) -> None:
    async def always(request: ApprovalRequest) -> Approval:
        return Approval(True, f"because of {VALUE}", "always", by=f"ann ({VALUE})", arguments=arguments)

    store, tools = SqlStore(tmp_path), [make("act", properties={})]
    async with playing(Gives, Quotes, tools=tools, store=store, approver=always) as stage:
        await make_known(stage)
        assert not (await stage.call("act", {"text": f"it is {VALUE}"})).is_error
    assert VALUE not in files(tmp_path)
    titles = [one.title for one in await Remembered(store).list()]
    assert titles == ([] if arguments else ["Send {{secret:KEY}}?"]), "a pattern that is a value is not remembered"


async def test_a_call_that_waits_is_kept_without_values_and_runs_with_them(tmp_path: Path) -> None:
    answers: list[Approval | Later] = [Later(), Approval(True)]

    async def approver(request: ApprovalRequest) -> Approval | Later:
        return answers.pop(0)

    tools = [make("act", properties={})]
    async with playing(Gives, Quotes, tools=tools, store=SqlStore(tmp_path), approver=approver) as stage:
        await make_known(stage)
        (written,) = await stage.reply(("act", {"text": f"it is {VALUE}"}))
        with pytest.raises(ApprovalPending):
            await stage.run.call_tool(written)
        assert VALUE not in files(tmp_path)
        assert (await stage.run.call_tool(written)).text == 'ran with {"text": "it is {{secret:KEY}}"}'


class OddPause(ApprovalPending):
    request = property(lambda self: 1 / 0)  # pyright: ignore[reportAssignmentType]

    def __init__(self) -> None: ...


@pytest.mark.parametrize("odd", [False, True])
async def test_a_tool_that_pauses_tells_nothing_of_what_it_was_given(odd: bool) -> None:
    def pause(arguments: dict[str, Any]) -> str:
        raise OddPause if odd else ApprovalPending({"title": arguments["key"]}, ToolCall("x", "y", dict(arguments)))

    async with playing(Gives, tools=[make("act", pause, properties={})]) as stage:
        with pytest.raises(ApprovalPending) as caught:
            await make_known(stage)
        assert caught.value.request == (None if odd else {"title": "{{secret:KEY}}"})
        assert caught.value.call.arguments == {"key": "{{secret:KEY}}"}
        assert caught.value.__context__ is None
        stage.run.pause("waits")
