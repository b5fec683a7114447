"""What the tests of the models over the official SDKs share: a scripted provider, and a model that talks to it."""

from __future__ import annotations

import importlib
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import Any

from hooksdk import Session, Tool
from hooksdk.models.anthropic import AnthropicModel
from hooksdk.models.openai import OpenAIModel
from hooksdk.models.openai_responses import OpenAIResponsesModel
from hooksdk.testing import Turn
from hooksdk.testing.server import ScriptedServer, SeenRequest, ServerScript
from tests.hooksdk.provider_rules import tool_violations, violations

Json = dict[str, Any]
Model = OpenAIModel | OpenAIResponsesModel | AnthropicModel
USER: list[Json] = [{"role": "user", "content": "hi"}]
FORMATS = ["openai-chat", "openai-responses", "anthropic"]


def sdk_of(form: str) -> Any:
    """The SDK that its models use."""
    return importlib.import_module("anthropic" if form == "anthropic" else "openai")


def model_of(server: ScriptedServer, form: str, **options: Any) -> Model:
    """A model of the format that talks to the server."""
    if form == "anthropic":
        return AnthropicModel("any", base_url=server.anthropic_url, api_key="none", **options)
    kind = OpenAIResponsesModel if form == "openai-responses" else OpenAIModel
    return kind("any", base_url=server.openai_url, api_key="none", **options)


def sent(request: SeenRequest) -> list[Json]:
    """The messages of a request."""
    return messages_of(request.body)


def messages_of(body: Json) -> list[Json]:
    """The messages in the body of a request."""
    return body["input" if "input" in body else "messages"]


class Setting:
    """A server, a model of one format that talks to it, and what went over the line."""

    def __init__(self, server: ScriptedServer, form: str, stream: bool) -> None:
        self.server, self.form, self.stream = server, form, stream

    def model(self, **options: Any) -> Model:
        return model_of(self.server, self.form, **{"stream": self.stream, "timeout": 30, **options})

    def check(self) -> None:
        """Everything that was sent is what the provider would take."""
        for request in self.server.requests:
            assert violations(self.form, sent(request)) == []
            assert tool_violations(self.form, request.body.get("tools", [])) == []
            assert request.body.get("stream", False) is self.stream


Serve = Callable[[ServerScript], Setting]


@asynccontextmanager
async def serving(form: str, stream: bool) -> AsyncGenerator[Serve, None]:
    """A server that is given its script late, so that a test reads from top to bottom."""
    scripts: list[ServerScript] = []

    def script(turn: Turn) -> Any:
        now = scripts[-1]
        return now(turn) if callable(now) else now[turn.number - 1]

    def begin(given: ServerScript) -> Setting:
        scripts.append(given)
        return setting

    async with ScriptedServer(script) as server:
        setting = Setting(server, form, stream)
        yield begin
        setting.check()


def read_file(path: str) -> str:
    """Read a file."""
    return f"content of {path}"


TOOLS = [Tool.from_function(read_file, source="host", owner="test")]


def replies(session: Session) -> list[Json]:
    return [message for message in session.messages if message["role"] == "assistant"]
