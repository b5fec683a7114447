"""What the agent loop asks of a model, and clients over the providers' own SDKs, which are imported when a model is made."""

from __future__ import annotations

from typing import Any

from hooksdk.errors import WrongArgument, check, did_you_mean
from hooksdk.models._protocol import (
    DeferralRefused,
    Model,
    ModelReply,
    ModelUnavailable,
    OnText,
    StreamingModel,
    current_session,
)

__all__ = [
    "DeferralRefused",
    "Model",
    "ModelReply",
    "ModelUnavailable",
    "OnText",
    "StreamingModel",
    "current_session",
    "get_model",
]

_PROVIDERS = ("openai", "openai-responses", "anthropic")
_EXAMPLES = "openai:gpt-5, openai-responses:gpt-5 or anthropic:claude-sonnet-5-5"


def get_model(name: str, **options: Any) -> Any:
    """A model by `PROVIDER:NAME`, made with these options: an `OpenAIModel` for `openai:gpt-5`, an `OpenAIResponsesModel` for
    `openai-responses:gpt-5`, an `AnthropicModel` for `anthropic:claude-sonnet-5-5`.

    Raises `WrongArgument` for another provider, and `ConfigError` where its SDK is not installed.
    """
    check("get_model(name)", name, str, "PROVIDER:NAME", f"Write such as {_EXAMPLES}")
    provider, colon, model = name.partition(":")
    if not colon or not model.strip():
        raise WrongArgument(f"model {name!r:.60}", "expected PROVIDER:NAME", f"Write such as {_EXAMPLES}")
    if provider not in _PROVIDERS:
        hint = did_you_mean(provider, _PROVIDERS).strip() or f"Write such as {_EXAMPLES}, or give a model of your own"
        raise WrongArgument(f"model {name!r:.60}", f"there is no provider '{provider}'", hint)
    if provider == "openai":
        from hooksdk.models.openai import OpenAIModel

        return OpenAIModel(model.strip(), **options)
    if provider == "openai-responses":
        from hooksdk.models.openai_responses import OpenAIResponsesModel

        return OpenAIResponsesModel(model.strip(), **options)
    from hooksdk.models.anthropic import AnthropicModel

    return AnthropicModel(model.strip(), **options)
