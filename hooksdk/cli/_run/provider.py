"""Which model `--model PROVIDER:NAME` means, and its errors as one clear line each."""

from __future__ import annotations

import os
import re
from collections.abc import Awaitable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import typer
from rich.console import Console

from hooksdk.agent import ModelReply, ModelUnavailable, OnText
from hooksdk.cli._console import CommandProblem, printable, safe
from hooksdk.cli._run.timeline import Prose
from hooksdk.cli._sessions.look import find_session, with_store
from hooksdk.errors import ConfigError, did_you_mean
from hooksdk.formats import Message
from hooksdk.models.anthropic import AnthropicModel
from hooksdk.models.openai import OpenAIModel
from hooksdk.models.openai_responses import OpenAIResponsesModel
from hooksdk.stores import SessionSummary, Store, list_summaries
from hooksdk.values import as_object

# How often a run is begun in all when the model is unavailable.
ATTEMPTS = 3
_EXAMPLES = "openai:gpt-5, openai-responses:gpt-5 or anthropic:claude-sonnet-4-5"


@dataclass(frozen=True)
class _Provider:
    model: type[OpenAIModel | OpenAIResponsesModel | AnthropicModel]
    # The variable that holds the key, where nothing else does.
    key: str
    # The variable that holds the address.
    url: str


_PROVIDERS = {
    "openai": _Provider(OpenAIModel, "OPENAI_API_KEY", "OPENAI_BASE_URL"),
    "openai-responses": _Provider(OpenAIResponsesModel, "OPENAI_API_KEY", "OPENAI_BASE_URL"),
    "anthropic": _Provider(AnthropicModel, "ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL"),
}


def check_model(text: str | None) -> str | None:
    """`PROVIDER:NAME` as it is, if it was typed. Raises a usage error that says how to write it."""
    if text is None:
        return None
    provider, colon, name = text.partition(":")
    if not colon or not name.strip():
        raise typer.BadParameter(f"'{text}' is not PROVIDER:NAME, such as {_EXAMPLES}")
    if provider not in _PROVIDERS:
        hint = did_you_mean(provider, _PROVIDERS) or f" Known: {', '.join(_PROVIDERS)}, as in {_EXAMPLES}"
        raise typer.BadParameter(f"there is no provider '{provider}'.{hint}")
    return text


def model_of_session(project: Path, store: str | None, session: str | None) -> str:
    """The `PROVIDER:NAME` with which a session began. Raises a usage error where none goes on or it does not say, and
    `CommandProblem` where there is no such session."""

    async def summary(opened: Store, typed: str) -> SessionSummary:
        meant = await find_session(opened, typed, project)
        return next(one for one in await list_summaries(opened) if one.session_id == meant)

    found = with_store(project, store, lambda opened: summary(opened, session)) if session else None
    provider = next((name for name, each in _PROVIDERS.items() if found and each.model.format == found.format), None)
    if not found or not found.model or not provider:
        raise typer.BadParameter(f"give one, such as {_EXAMPLES}", param_hint="--model")
    return f"{provider}:{found.model}"


class CommandModel:
    """The model of the command line, as an async context manager. Every error that it raises is one line."""

    def __init__(
        self,
        model: str,
        console: Console,
        prose: Prose,
        *,
        base_url: str | None,
        context_window: int,
        max_tokens: int | None,
    ) -> None:
        named, _, self.name = model.partition(":")
        self.context_window = context_window
        self._console = console
        self._prose = prose
        self._failures = 0
        provider = self._provider = _PROVIDERS[named]
        self.format = provider.model.format
        url = base_url or os.environ.get(provider.url) or None
        self._place = f" at {re.sub(r'//[^/@]*@', '//', url)}" if url else ""
        more: dict[str, Any] = {} if max_tokens is None else {"max_tokens": max_tokens}
        if named == "anthropic":
            more["stream"] = True  # its SDK refuses long replies that are not streamed
        elif url and not os.environ.get(provider.key):
            more["api_key"] = "none"  # servers of one's own want no key, but the SDK does
        try:
            self._model = provider.model(self.name, base_url=url, context_window=context_window, **more)
        except ConfigError as error:
            raise CommandProblem(f"--model {model}: {error.problems[0]}") from error
        self.provider = self._model.provider

    async def __aenter__(self) -> Self:
        try:
            await self._model.__aenter__()
        except Exception as error:
            raise self._problem(error) from error
        return self

    async def __aexit__(self, *_error: object) -> None:
        await self._model.aclose()

    async def reply(self, messages: Sequence[Message], tools: Sequence[dict[str, Any]]) -> ModelReply:
        """The model's answer. Raises `ModelUnavailable` and `CommandProblem`."""
        return await self._reply(self._model.reply(messages, tools))

    async def stream_reply(
        self, messages: Sequence[Message], tools: Sequence[dict[str, Any]], on_text: OnText
    ) -> ModelReply:
        """The same, with its prose as it comes."""
        return await self._reply(self._model.stream_reply(messages, tools, on_text))

    async def _reply(self, asking: Awaitable[ModelReply]) -> ModelReply:
        self._prose.begin_reply()
        try:
            return await asking
        except ModelUnavailable as error:
            self._prose.end_line()
            self._failures += 1
            if self._failures < ATTEMPTS:
                notice = f"{error} (asked again in {error.seconds:g} s)"
                self._console.print(f"[yellow]model[/]       {safe(notice)}", soft_wrap=True)
            place = f" ({self._place.strip()})" if self._place else ""
            raise ModelUnavailable(printable(f"{error.problem}{place}"), error.seconds) from error
        except Exception as error:
            raise self._problem(error) from error
        finally:
            self._prose.end_line()

    def _problem(self, error: Exception) -> CommandProblem:
        if isinstance(error, ConfigError):  # no key
            return CommandProblem(str(error))
        status: int | None = getattr(error, "status_code", None)
        key = self._provider.key
        if status in (401, 403):
            problem = f"refuses the key ({status}); check {key}"
        elif status == 404:
            problem = f"knows no model '{self.name}' (404)"
        else:
            problem = f"answered {status}" if status else f"failed with {type(error).__name__}"
        return CommandProblem(f"{self.provider}{self._place} {problem}: {_message_of(error)}")


def _message_of(error: Exception) -> str:
    """The provider's words in one line: the message of the body where there is one."""
    body = as_object(getattr(error, "body", None))
    message = (as_object(body.get("error")) or body).get("message")
    return printable(" ".join(str(message or error).split()))[:500]
