"""A model and a person that follow a script."""

from __future__ import annotations

import inspect
import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, final

from hooksdk import schema
from hooksdk.agent import ModelReply
from hooksdk.approvals import Approval, ApprovalRequest, Later
from hooksdk.calls import ToolCall
from hooksdk.formats import HasDeferral, Message, MessageFormat, get_format
from hooksdk.formats.kit import replies_in, with_call_ids
from hooksdk.values import as_list


@dataclass(frozen=True)
class Call:
    """One tool call of a scripted reply. `arguments` may also be the text that a model wrote.

    ```python
    from hooksdk.testing import Call, call

    assert call("read_file", path="a") == Call("read_file", {"path": "a"})
    broken = Call("read_file", '{"path": ')
    ```

    Attributes:
        id: By default `c1`, `c2` and so on, counted by the model.
    """

    tool: str
    arguments: object = None
    id: str | None = None


@dataclass(frozen=True)
class Reply:
    """One scripted reply: prose, calls, or both.

    ```python
    from hooksdk.testing import Reply, call, say

    assert say("One moment.", call("now")) == Reply("One moment.", (call("now"),))
    cut_off = Reply("It is", stop_reason="length")
    ```

    Attributes:
        usage: By default `input_tokens` and `output_tokens`, estimated.
    """

    text: str = ""
    calls: Sequence[Call] = ()
    usage: Mapping[str, Any] | None = None
    stop_reason: str | None = None


def say(text: str, *calls: Call) -> Reply:
    """A reply of prose, and of calls if some are given."""
    return Reply(text, calls)


def call(tool: str, /, **arguments: Any) -> Call:
    """A call of the tool with these arguments: `call("read_file", path="a")`. Several go into a list."""
    return Call(tool, arguments)


@dataclass(frozen=True, kw_only=True)
class SeenResult:
    """One tool result as the model reads it.

    ```python
    from hooksdk.testing import SeenResult

    result = SeenResult(call_id="c1", tool="count", text='{"files": 3}', is_error=False)
    assert result.json() == {"files": 3}
    ```

    Attributes:
        tool: The name that the model called.
    """

    call_id: str
    tool: str
    text: str
    is_error: bool

    def json(self) -> Any:
        """The text read as JSON."""
        return json.loads(self.text)


@dataclass(frozen=True, kw_only=True)
class Turn:
    """The request to the model, in a form that a script can work with, the same for every message format.

    ```python
    from hooksdk.testing import Turn, call

    def script(turn: Turn):
        if turn.number == 1:
            assert "now" in turn.offered
            return call("now")
        return f"It is {turn.result.text}."
    ```

    Attributes:
        number: How often this model was asked so far, from 1.
        tools: The definitions as sent, in the provider's JSON.
        prompt: The newest prose of the person.
        results: The results of the calls of the reply before.
        definitions: By tool name: `name`, `description` and `parameters` (the JSON Schema).
    """

    number: int
    messages: Sequence[Message]
    tools: Sequence[Mapping[str, Any]]
    prompt: str
    results: Sequence[SeenResult]
    definitions: Mapping[str, Mapping[str, Any]] = field(repr=False)

    @property
    def offered(self) -> list[str]:
        """The names of the tools that the model is shown."""
        return list(self.definitions)

    @property
    def result(self) -> SeenResult:
        """The one result of the reply before; an `AssertionError` when there are none or several."""
        assert len(self.results) == 1, f"turn {self.number} has {len(self.results)} results, not one: {self.results}"
        return self.results[0]

    def result_of(self, tool: str) -> SeenResult:
        """The first result of that tool in the reply before; an `AssertionError` when there is none."""
        result = next((one for one in self.results if one.tool == tool), None)
        assert result is not None, f"turn {self.number} has no result of {tool!r}: {self.results}"
        return result


Answer = Reply | str | Call | Sequence[Call]
# The script of a model: a function of the turn, plain or async, or the replies one after another. Each is an `Answer`;
# of a list of several kinds mypy only knows that it holds objects, so the list says no more here.
Script = Callable[[Turn], Answer | Awaitable[Answer]] | Sequence[Any]


@final
class ScriptedModel:
    """A `Model` whose replies come from a script.

    The script is a function of the `Turn` that answers a text, a `Call`, a list of them, or a `Reply`; or a list of
    such answers, one for each turn. `turns` holds everything that the model was sent.

    ```python
    import anyio

    from hooksdk.testing import ScriptedModel, open_session, play

    async def main() -> None:
        model = ScriptedModel(["Hello."], format="anthropic")
        async with open_session() as session:
            await play(session, model, "Say hello.")
        assert model.turns[0].prompt == "Say hello."

    anyio.run(main)
    ```
    """

    def __init__(
        self,
        script: Script,
        *,
        format: str | MessageFormat = "openai-chat",  # noqa: A002 - the protocol's own word
        name: str = "scripted",
        context_window: int | None = 200_000,
    ) -> None:
        self.name = name
        self.format = format
        self.context_window = context_window
        self.turns: list[Turn] = []
        self._script = script
        self._message_format = get_format(format)
        self._calls = 0

    async def reply(self, messages: Sequence[Message], tools: Sequence[dict[str, Any]]) -> ModelReply:
        """The script's reply to these messages."""
        turn = read_turn(self._message_format, len(self.turns) + 1, messages, tools)
        self.turns.append(turn)
        answer = as_reply(await self._ask(turn))
        calls = [ToolCall(one.id or self._next_id(), one.tool, one.arguments) for one in answer.calls]
        message, *more = self._message_format.reply_messages(answer.text, calls)
        estimate = {
            "input_tokens": schema.estimate_tokens([list(messages), list(tools)]),
            "output_tokens": schema.estimate_tokens([message, *more] if more else message),
        }
        stop_reason = answer.stop_reason or ("tool_calls" if calls else "stop")
        return ModelReply(message=message, more=more, usage=answer.usage or estimate, stop_reason=stop_reason)

    async def _ask(self, turn: Turn) -> Answer:
        if not callable(self._script):
            problem = f"the script has {len(self._script)} replies, and the model was asked for number {turn.number}"
            assert turn.number <= len(self._script), problem
            return self._script[turn.number - 1]
        answer = self._script(turn)
        return await answer if inspect.isawaitable(answer) else answer

    def _next_id(self) -> str:
        self._calls += 1
        return f"c{self._calls}"


def read_turn(
    message_format: MessageFormat, number: int, messages: Sequence[Message], tools: Sequence[Mapping[str, Any]]
) -> Turn:
    """A request to a model, read by its message format."""
    last_reply = max((at for at, message in enumerate(messages) if message_format.is_reply(message)), default=-1)
    calls = [
        call
        for message in replies_in(messages, message_format)[-1:]
        for each in message
        for call in message_format.calls(each)
    ]
    names = {one.id: one.name for one in calls}
    results = [
        SeenResult(call_id=one.call_id, tool=names.get(one.call_id, ""), text=one.text, is_error=one.is_error)
        for message in messages[last_reply + 1 :]
        for one in with_call_ids(message_format.results(message), calls)
    ]
    prompts = (message_format.text(message) for message in reversed(messages) if message.get("role") == "user")
    seen = message_format.references(messages) if isinstance(message_format, HasDeferral) else ()
    shown = [tool for tool in tools if not tool.get("defer_loading") or tool.get("name") in seen]
    declared = [tool for message in messages for tool in as_list(message.get("tools"))]
    definitions = [_definition(one) for tool in [*shown, *declared] for one in _functions(tool)]
    return Turn(
        number=number,
        messages=list(messages),
        tools=list(tools),
        prompt=next((text for text in prompts if text), ""),
        results=results,
        definitions={one["name"]: one for one in definitions if one["name"]},
    )


def _functions(tool: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    """The functions in one entry of a request's tools; those of a namespace go by `NAMESPACE.NAME`, a search that the
    client executes by `tool_search`."""
    if tool.get("type") == "tool_search":
        return [{"name": "tool_search", **tool}]
    if tool.get("type") == "namespace":
        return [{**one, "name": f"{tool['name']}.{one['name']}"} for one in tool.get("tools", ())]
    return tool.get("functionDeclarations", [tool])


def _definition(tool: Mapping[str, Any]) -> dict[str, Any]:
    definition = tool.get("function", tool)
    keys = ("parameters", "input_schema", "parametersJsonSchema")
    parameters = next((definition[key] for key in keys if key in definition), None)
    name, description = definition.get("name", ""), definition.get("description", "")
    return {"name": name, "description": description, "parameters": parameters}


def as_reply(answer: Answer) -> Reply:
    """The answer of a script as a reply."""
    if isinstance(answer, Reply):
        return answer
    if isinstance(answer, str):
        return Reply(answer)
    return Reply(calls=[answer] if isinstance(answer, Call) else answer)


@final
class ScriptedApprover:
    """An approver that gives these answers in order, the last one for all further questions; without any it grants all.

    True grants, False refuses, a text refuses with that reason, `Later()` lets the call wait. `requests` holds what was
    asked.

    ```python
    import anyio

    from hooksdk import hooks
    from hooksdk.hooks import Ask, BeforeToolCall
    from hooksdk.testing import ScriptedApprover, call, open_session, play

    class AskAlways:
        @hooks.before_tool_call
        def ask(self, event: BeforeToolCall) -> Ask:
            return Ask(f"Run {event.tool.name}?")

    def now() -> str:
        "Tell the time."
        return "noon"

    async def main() -> None:
        approver = ScriptedApprover("it is late")
        async with open_session(AskAlways, tools=[now], approver=approver) as session:
            played = await play(session, [call("now"), "I may not."])
        assert played.call("now").status == "blocked"
        assert [request.title for request in approver.requests] == ["Run now?"]

    anyio.run(main)
    ```
    """

    def __init__(self, *answers: bool | str | Approval | Later) -> None:
        self._answers = [_approval(answer) for answer in answers or (True,)]
        self.requests: list[ApprovalRequest] = []

    async def __call__(self, request: ApprovalRequest) -> Approval | Later:
        """Answer one request."""
        self.requests.append(request)
        return self._answers[min(len(self.requests), len(self._answers)) - 1]


def _approval(answer: bool | str | Approval | Later) -> Approval | Later:
    if isinstance(answer, Approval | Later):
        return answer
    return Approval(False, answer) if isinstance(answer, str) else Approval(answer)
