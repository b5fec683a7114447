"""Model clients over the providers' own SDKs, which are imported when a model is made."""

from __future__ import annotations

import importlib
from typing import Any

from hooksdk._door.checks import check
from hooksdk.errors import WrongArgument, did_you_mean

__all__ = ["get_model"]

_MODELS = {"openai": "OpenAIModel", "anthropic": "AnthropicModel"}
_EXAMPLES = "openai:gpt-5 or anthropic:claude-sonnet-5-5"


def get_model(name: str, **options: Any) -> Any:
    """A model by `PROVIDER:NAME`, such as `openai:gpt-5`: an `OpenAIModel` or an `AnthropicModel`, made with these options.

    Raises `WrongArgument` for another provider, and `ConfigError` where its SDK is not installed.
    """
    check("get_model(name)", name, str, "PROVIDER:NAME", f"Write such as {_EXAMPLES}")
    provider, colon, model = name.partition(":")
    if not colon or not model.strip():
        raise WrongArgument(f"model {name!r:.60}", "expected PROVIDER:NAME", f"Write such as {_EXAMPLES}")
    if provider not in _MODELS:
        hint = did_you_mean(provider, _MODELS).strip() or f"Write such as {_EXAMPLES}, or give a model of your own"
        raise WrongArgument(f"model {name!r:.60}", f"there is no provider '{provider}'", hint)
    return getattr(importlib.import_module(f"hooksdk.models.{provider}"), _MODELS[provider])(model.strip(), **options)
