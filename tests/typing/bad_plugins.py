"""Mistakes that a type checker catches: exactly the marked lines are errors."""

from hooksdk import Tool, ToolCall, hooks
from hooksdk.hooks import AfterToolCall, AgentEnd, AgentStart, BeforeToolCall, Block, Rewrite, Withhold


@hooks.before_toolcall  # error
def misspelt(event: BeforeToolCall) -> Block | None: ...


@hooks.before_tool_call  # error
def wrong_event(event: AgentStart) -> Block | None:
    return None


@hooks.before_tool_call  # error
async def wrong_event_async(event: AfterToolCall) -> Block | None:
    return None


@hooks.before_tool_call  # error
def wrong_answer(event: BeforeToolCall) -> Withhold | None:
    return None


@hooks.before_tool_call  # error
async def wrong_answer_async(event: BeforeToolCall) -> bool:
    return True


@hooks.after_tool_call  # error
def observer_that_answers(event: AfterToolCall) -> Block | None:
    return Block("too late")


@hooks.before_tool_call(timeout="3")  # error
def wrong_option(event: BeforeToolCall) -> Block | None:
    return None


@hooks.before_tool_call(timout=3)  # error
def misspelt_option(event: BeforeToolCall) -> Block | None:
    return None


@hooks.before_tool_call.frist  # error
def misspelt_order(event: BeforeToolCall) -> Block | None:
    return None


class Plugin:
    @hooks.agent_end  # error
    async def wrong_event_of_a_method(self, event: AgentStart) -> None: ...

    @hooks.before_tool_call  # error
    def wrong_answer_of_a_method(self, event: BeforeToolCall) -> str:
        return "block"

    @hooks.before_tool_call
    def writes(self, event: BeforeToolCall) -> Block | None:
        event.tool = Tool(name="other")  # error
        event.call = ToolCall("c", "other")  # error
        event.tool.annotations.destructive = False  # error
        return None

    @hooks.before_tool_call
    def edits_too_early(self, event: BeforeToolCall) -> Block | None:
        print(event.transcript)  # error
        return None

    @hooks.agent_end
    def reads_too_late(self, event: AgentEnd) -> None:
        print(event.arguments)  # error


def verdicts() -> None:
    Block()  # error
    Rewrite("{}")  # error
    Block("no").reason = "yes"  # error
