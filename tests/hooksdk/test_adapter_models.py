"""Which model a framework asks is known to plugins: its name, its price and its window, also where it changes within a run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import pytest

pytestmark = [pytest.mark.heavy, pytest.mark.anyio]

from hooksdk import Config, Host, Tool, hooks
from hooksdk.errors import RunBlocked
from hooksdk.hooks import AfterModelCall, AssembleTools, BeforeModelCall
from hooksdk.testing import Script, ScriptedModel, call

DOLLARS = {"action": "deny", "limit": {"dollars": 2.5}}
PRICES = {"acme:small": {"input": 1.0, "output": 4.0}, "acme:large": {"input": 2.0, "output": 8.0}}


class Sees:
    """What plugins are told of the model, at each request and reply."""

    def __init__(self) -> None:
        asked, replied, windows = self.asked, self.replied, self.windows = [], [], []

        class Sees:
            @hooks.assemble_tools
            def assemble(self, event: AssembleTools) -> None:
                windows.append(event.context_window)

            @hooks.before_model_call
            def ask(self, event: BeforeModelCall) -> None:
                asked.append((event.provider, event.model))

            @hooks.after_model_call
            def reply(self, event: AfterModelCall) -> None:
                replied.append((event.provider, event.model))

        self.plugin = Sees

    asked: list[Any]
    replied: list[Any]
    windows: list[Any]


def host(*plugins: Any) -> Host:
    settings = {"rules": [DOLLARS]}
    given = {"allow": ["tool_policy"], "prices": PRICES, "plugins": {"tool_policy": {"config": settings}}}
    return Host(plugins, config=Config.model_validate(given), folder="/nowhere")


# LangChain


class _Chat:
    @staticmethod
    def made(
        script: Script, provider: str | None, name: str | None, *, replies: str | None = None, window: int = 0
    ) -> Any:
        from tests.hooksdk.langchain_driver import Scripted

        class Chat(Scripted):
            async def _agenerate(self, messages: Any, *args: Any, **options: Any) -> Any:
                result = await super()._agenerate(messages, *args, **options)
                result.generations[0].message.response_metadata = {"model_name": replies} if replies else {}
                return result

            def bind_tools(self, tools: Sequence[Any], **options: Any) -> Any:
                bound = super().bind_tools(tools, **options)
                return Chat(scripted=bound.scripted, tools=bound.tools)

            def _get_ls_params(self, *_args: Any, **_options: Any) -> Any:
                return {"ls_provider": provider, "ls_model_name": name}

        return Chat(scripted=ScriptedModel(script), profile={"max_input_tokens": window} if window else None)


@pytest.mark.parametrize(
    ("provider", "name", "replies", "expected"),
    [
        ("openai", "gpt-4o", None, ("openai", "gpt-4o")),
        ("openai", "gpt-4o", "gpt-4o-2024-08-06", ("openai", "gpt-4o-2024-08-06")),
        ("azure", "gpt-4o", "gpt-4o-2024-08-06", ("azure", "gpt-4o-2024-08-06")),
        ("amazon_bedrock", "us.anthropic.claude-sonnet-4-5-20250929-v1:0", None, None),
        ("google_genai", "gemini-2.5-flash", None, None),
        ("acme", "small", "unknown-to-all", ("acme", "small")),
        ("acme", "small", "large", ("acme", "large")),
    ],
)
async def test_a_model_of_langchains_is_known_by_its_name_and_its_reply(
    provider: str, name: str, replies: str | None, expected: Any
):
    pytest.importorskip("genai_prices")
    from hooksdk.adapters.langchain import HookSDK
    from tests.hooksdk.langchain_driver import create_agent

    sees = Sees()
    async with host(sees.plugin) as open_host:
        agent = create_agent(_Chat.made(["done"], provider, name, replies=replies), [], middleware=[HookSDK(open_host)])
        await agent.ainvoke({"messages": "go"})
    assert sees.asked == [(provider, name)]
    assert sees.replied == [expected or (provider, name)]


async def test_a_middleware_that_asks_another_model_is_followed_and_so_is_its_window():
    from langchain.agents.middleware import wrap_model_call

    from hooksdk.adapters.langchain import HookSDK
    from tests.hooksdk.langchain_driver import create_agent, native_tool

    def look(_arguments: dict[str, Any]) -> str:
        return "seen"

    sees, tools = Sees(), [native_tool(Tool(name="look", execute=look))]
    models = [
        _Chat.made([call("look")], "acme", "small", window=1000),
        _Chat.made(["done"], "acme", "large", window=9000),
    ]

    @wrap_model_call
    async def switch(request: Any, handler: Any) -> Any:
        return await handler(request.override(model=models[len(sees.asked)]))

    async with host(sees.plugin) as open_host:
        agent = create_agent(models[0], tools, middleware=[switch, HookSDK(open_host)])
        await agent.ainvoke({"messages": "go"})
    assert sees.asked == [("acme", "small"), ("acme", "large")]
    assert sees.windows == [1000, 9000]


@pytest.mark.parametrize(
    ("name", "words"),
    [
        (None, ["the model is not known", "HookSDK(host, model="]),
        ("my-deployment", ["my-deployment", "[prices]", "HookSDK(host, model="]),
    ],
)
async def test_a_limit_of_dollars_without_a_price_says_what_to_write(name: str | None, words: list[str]):
    from hooksdk.adapters.langchain import HookSDK
    from tests.hooksdk.langchain_driver import create_agent

    async with host() as open_host:
        model = _Chat.made(["done"], "azure", name)
        with pytest.raises(RunBlocked) as blocked:
            await create_agent(model, [], middleware=[HookSDK(open_host)]).ainvoke({"messages": "go"})
        assert [one for one in words if one not in str(blocked.value)] == []
        hooked = HookSDK(open_host, model="acme:small")
        state = await create_agent(model, [], middleware=[hooked]).ainvoke({"messages": "go"})
    assert state["messages"][-1].text == "done"


@pytest.mark.parametrize(
    ("provider", "name", "said", "expected"),
    [
        ("acme", "models/small", {}, ("acme", "small")),
        ("google_genai", "models/gemini-2.5-flash", {}, ("google_genai", "gemini-2.5-flash")),
        ("proxy", "small", {"provider": "acme"}, ("acme", "small")),
        ("proxy", "its-deployment", {"provider": "acme", "model": "large"}, ("acme", "large")),
    ],
)
async def test_a_prefix_is_no_part_of_the_name_and_what_the_user_says_counts(
    provider: str, name: str, said: dict[str, str], expected: Any
):
    pytest.importorskip("genai_prices")
    from hooksdk.adapters.langchain import HookSDK
    from tests.hooksdk.langchain_driver import create_agent

    sees = Sees()
    async with host(sees.plugin) as open_host:
        agent = create_agent(
            _Chat.made(["done"], provider, name), [], middleware=[HookSDK(open_host, **cast("Any", said))]
        )
        await agent.ainvoke({"messages": "go"})
    assert sees.asked == [expected]


# pydantic-ai


def _function_model(provider: str, name: str, script: Script) -> Any:
    from pydantic_ai.exceptions import ModelHTTPError
    from pydantic_ai.models.function import FunctionModel

    from tests.hooksdk.pydantic_ai_driver import model_of

    class Named(FunctionModel):
        @property
        def system(self) -> str:
            return provider

    def down(*_args: Any) -> Any:
        raise ModelHTTPError(503, name)

    answers: Any = model_of(ScriptedModel(script)).function if script else down
    return Named(answers, model_name=name)


async def test_the_model_of_pydantic_ai_that_answers_in_the_place_of_another_is_known():
    from pydantic_ai import Agent
    from pydantic_ai.models.fallback import FallbackModel

    from hooksdk.adapters.pydantic_ai import HookSDK

    sees = Sees()
    model = FallbackModel(_function_model("acme", "small", []), _function_model("acme", "large", ["done"]))
    async with host(sees.plugin) as open_host:
        result = await Agent(model, capabilities=[HookSDK(open_host)]).run("go")
    assert (result.output, sees.asked, sees.replied) == ("done", [("acme", "small")], [("acme", "large")])


async def test_a_run_of_pydantic_ai_with_a_model_of_its_own_is_known():
    from pydantic_ai import Agent

    from hooksdk.adapters.pydantic_ai import HookSDK

    sees = Sees()
    async with host(sees.plugin) as open_host:
        agent = Agent(_function_model("acme", "small", ["done"]), capabilities=[HookSDK(open_host)])
        await agent.run("go", model=_function_model("openai", "gpt-4o-2024-08-06", ["done"]))
    assert (sees.asked, sees.windows) == ([("openai", "gpt-4o-2024-08-06")], [128_000])


# The OpenAI Agents SDK


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("gpt-4o", (None, "gpt-4o")),
        ("gpt-4o-2024-08-06", (None, "gpt-4o-2024-08-06")),
        ("openai/gpt-4o", ("openai", "gpt-4o")),
        ("litellm/anthropic/claude-sonnet-4-5", ("anthropic", "claude-sonnet-4-5")),
        (
            "litellm/together_ai/meta-llama/Llama-3.3-70B-Instruct-Turbo",
            ("together_ai", "meta-llama/Llama-3.3-70B-Instruct-Turbo"),
        ),
        ("litellm/acme/small", ("acme", "small")),
    ],
)
async def test_a_model_of_openai_agents_is_known_by_its_string(given: str, expected: Any):
    pytest.importorskip("genai_prices")
    from agents import Agent, ModelProvider, RunConfig

    from hooksdk.adapters.openai_agents import HookSDK
    from tests.hooksdk.openai_agents_driver import Scripted

    class Provider(ModelProvider):
        def get_model(self, model_name: str | None) -> Any:
            return Scripted(ScriptedModel(["done"], name=str(model_name)))

    sees = Sees()
    async with host(sees.plugin) as open_host:
        config = RunConfig(tracing_disabled=True, model_provider=Provider())
        await HookSDK(open_host).run(Agent(name="one", model=given), "go", run_config=config)
    assert sees.asked == [expected]


async def test_a_handoff_to_an_agent_with_another_model_is_followed():
    from agents import Agent, RunConfig, handoff

    from hooksdk.adapters.openai_agents import HookSDK
    from tests.hooksdk.openai_agents_driver import Scripted

    sees = Sees()
    second = Agent[Any](name="second", model=Scripted(ScriptedModel(["done"], name="large")))
    script = [call("transfer_to_second")]
    first = Agent[Any](name="first", model=Scripted(ScriptedModel(script, name="small")), handoffs=[handoff(second)])
    async with host(sees.plugin) as open_host:
        await HookSDK(open_host).run(first, "go", run_config=RunConfig(tracing_disabled=True))
    assert sees.asked == [(None, "small"), (None, "large")]
