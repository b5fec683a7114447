"""Which endpoints and models take deferred tools, which are declared to them and not shown to the model. The table is
made from their documentation; an endpoint or model that it does not have gets none."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final, NamedTuple
from urllib.parse import urlsplit

from hooksdk.tools import Deferral

# Values of `anthropic-beta` under which a message may add a tool.
ADDITIONS_BETAS: Final = ("mid-conversation-tool-changes-2026-07-01", "inline-tools-2026-09-15")
# Words of a provider's error when it refuses deferred tools.
WORDS_OF_REFUSALS: Final = re.compile(
    "defer_loading|deferred tool|tool_reference|tool_addition|tool_search|additional_tools|namespace"
)


class Known(NamedTuple):
    """What models of an endpoint take.

    Attributes:
        host: A pattern of the whole host.
        models: A pattern of the beginning of a model's name.
        betas: Values of `anthropic-beta`: the request must have one of them.
    """

    host: str
    models: str
    deferral: Deferral
    betas: tuple[str, ...] = ()


TABLE: Final = (
    # https://platform.claude.com/docs/en/build-with-claude/mid-conversation-system-messages
    Known(
        r"api\.anthropic\.com",
        "claude-(fable-5|haiku-5-5|mythos-5|opus-4-8|opus-5|sonnet-5-5)",
        "additions",
        ADDITIONS_BETAS,
    ),
    # pydantic-ai 2.68.0, which tried them
    Known(
        r"api\.anthropic\.com",
        "claude-(fable-5|haiku-4-5|haiku-5-5|mythos-5|opus-4-[5-8]|opus-5|sonnet-4-[56]|sonnet-5)",
        "search",
    ),
    # https://developers.openai.com/api/docs/guides/tools-tool-search
    # https://learn.microsoft.com/azure/foundry/openai/how-to/tool-search
    # gpt-5.4-nano: pydantic-ai 2.68.0, which was refused
    Known(r"api\.openai\.com|.*\.openai\.azure\.com", r"(?!.*5\.4-nano)gpt-(5\.[456]|6)", "additions"),
)

# Endpoints and models that refused deferred tools since this process began.
_refused: set[tuple[str, str]] = set()


def known_deferral(base_url: str, model: str, headers: Mapping[str, str]) -> Deferral | None:
    """What this model of this endpoint is known to take; None if it is not in the table."""
    host = urlsplit(base_url).hostname or ""
    given = next((value for name, value in headers.items() if name.lower() == "anthropic-beta"), "")
    betas = given.replace(" ", "").split(",")
    for row in TABLE:
        is_known = re.fullmatch(row.host, host) and re.match(row.models, model)
        if is_known and (not row.betas or not set(betas).isdisjoint(row.betas)):
            return row.deferral
    return None


def remember_refusal(base_url: str, model: str) -> None:
    """Ask this model for no deferred tools again in this process."""
    _refused.add((base_url, model))


def has_refused(base_url: str, model: str) -> bool:
    """True if the provider has refused deferred tools for this model."""
    return (base_url, model) in _refused
