"""Which endpoints and models take tools that are declared to them and not shown to the model. No provider was asked: what is not
known to take them gets none."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

from hooksdk.tools import Deferral

ANTHROPIC, OPENAI, AZURE = "api.anthropic.com", "api.openai.com", ".openai.azure.com"
ADDITIONS_BETAS: Final = ("mid-conversation-tool-changes-2026-07-01", "inline-tools-2026-09-15")
"""Values of `anthropic-beta` under which a message may add a tool."""
WORDS_OF_REFUSALS: Final = (
    "defer_loading",
    "deferred tool",
    "tool_reference",
    "tool_addition",
    "tool_search",
    "additional_tools",
    "namespace",
)
"""One of them stands in the provider's error where it refuses what has to do with declared tools."""


@dataclass(frozen=True, kw_only=True)
class Known:
    """What models of one endpoint take."""

    host: str
    """The host, or with a dot before it what the host ends with."""
    models: tuple[str, ...]
    """What their names begin with."""
    deferral: Deferral
    without: tuple[str, ...] = ()
    """What their names may not have in them."""
    betas: tuple[str, ...] = ()
    """Of which the request has to have one."""


TABLE: Final = (
    # https://platform.claude.com/docs/en/build-with-claude/mid-conversation-system-messages
    Known(
        host=ANTHROPIC,
        deferral="additions",
        betas=ADDITIONS_BETAS,
        models=(
            "claude-fable-5",
            "claude-haiku-5-5",
            "claude-mythos-5",
            "claude-opus-4-8",
            "claude-opus-5",
            "claude-sonnet-5-5",
        ),
    ),
    # pydantic-ai 2.68.0, which tried them
    Known(
        host=ANTHROPIC,
        deferral="search",
        models=(
            "claude-fable-5",
            "claude-haiku-4-5",
            "claude-haiku-5-5",
            "claude-mythos-5",
            "claude-opus-4-5",
            "claude-opus-4-6",
            "claude-opus-4-7",
            "claude-opus-4-8",
            "claude-opus-5",
            "claude-sonnet-4-5",
            "claude-sonnet-4-6",
            "claude-sonnet-5",
        ),
    ),
    # https://developers.openai.com/api/docs/guides/tools-tool-search; gpt-5.4-nano: pydantic-ai 2.68.0, which was refused
    Known(host=OPENAI, deferral="additions", models=("gpt-5.4", "gpt-5.5", "gpt-5.6", "gpt-6"), without=("5.4-nano",)),
    # https://learn.microsoft.com/azure/foundry/openai/how-to/tool-search
    Known(host=AZURE, deferral="additions", models=("gpt-5.4", "gpt-5.5", "gpt-5.6", "gpt-6"), without=("5.4-nano",)),
)

_refused: set[tuple[str, str]] = set()
"""Endpoint and model that refused it since this process began."""


def known_deferral(base_url: str, model: str, headers: Mapping[str, str]) -> Deferral | None:
    """What this model of this endpoint is known to take; None where the table does not have it."""
    host = urlsplit(base_url).hostname or ""
    betas = (
        next((value for name, value in headers.items() if name.lower() == "anthropic-beta"), "")
        .replace(" ", "")
        .split(",")
    )
    for row in TABLE:
        is_host = host.endswith(row.host) if row.host.startswith(".") else host == row.host
        is_model = model.startswith(row.models) and not any(part in model for part in row.without)
        if is_host and is_model and (not row.betas or not set(betas).isdisjoint(row.betas)):
            return row.deferral
    return None


def remember_refusal(base_url: str, model: str) -> None:
    """It is not asked of this model again while this process lives."""
    _refused.add((base_url, model))


def has_refused(base_url: str, model: str) -> bool:
    """True where it was asked of this model and refused."""
    return (base_url, model) in _refused
