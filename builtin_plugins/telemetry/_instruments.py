"""The tracer, the histograms, and the words of OpenTelemetry's conventions for generative AI."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.metadata import version
from typing import Any, Final, final

from opentelemetry import metrics, trace

from hooksdk.formats.usage import usage_of

# The version of the semantic conventions that are followed.
CONVENTIONS: Final = "1.41.1"
_SCHEMA = f"https://opentelemetry.io/schemas/{CONVENTIONS}"
_TOKEN_BOUNDS = [4**power for power in range(14)]
_SECOND_BOUNDS = [0.01 * 2**power for power in range(14)]
_MCP_BOUNDS = [0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60, 120, 300]
# The conventions' words for providers that most people call otherwise.
_PROVIDERS = {
    "gemini": "gcp.gemini",
    "google": "gcp.gen_ai",
    "vertex": "gcp.vertex_ai",
    "bedrock": "aws.bedrock",
    "azure": "azure.ai.openai",
    "mistral": "mistral_ai",
    "xai": "x_ai",
}


@final
class Instruments:
    """The tracer and the meters of a host. They do nothing without OpenTelemetry's SDK, and before a provider is
    set."""

    def __init__(self) -> None:
        own = version("hooksdk")
        self.tracer = trace.get_tracer("hooksdk", own, schema_url=_SCHEMA)
        meter = metrics.get_meter("hooksdk", own, schema_url=_SCHEMA)

        def histogram(name: str, unit: str, description: str, bounds: Sequence[float]) -> metrics.Histogram:
            return meter.create_histogram(name, unit, description, explicit_bucket_boundaries_advisory=bounds)

        tokens, duration = "gen_ai.client.token.usage", "gen_ai.client.operation.duration"
        self._tokens = histogram(tokens, "{token}", "Number of input and output tokens used.", _TOKEN_BOUNDS)
        self._duration = histogram(duration, "s", "GenAI operation duration.", _SECOND_BOUNDS)
        about = "The duration of the MCP request as observed by its sender."
        self._mcp_duration = histogram("mcp.client.operation.duration", "s", about, _MCP_BOUNDS)
        self._decisions = meter.create_counter("hooksdk.decisions", "{decision}", "Decisions of plugins.")

    def count_tokens(self, usage: Mapping[str, int], about: Mapping[str, Any]) -> None:
        """The tokens of one model call."""
        for kind in ("input", "output"):
            if (tokens := usage.get(f"gen_ai.usage.{kind}_tokens")) is not None:
                self._tokens.record(tokens, {**about, "gen_ai.token.type": kind})

    def time(self, seconds: float, about: Mapping[str, Any], *, mcp: bool = False) -> None:
        """How long an operation took; for a call of an MCP server's tool under MCP's name, too."""
        self._duration.record(seconds, about)
        if mcp:
            self._mcp_duration.record(seconds, {**about, "mcp.method.name": "tools/call"})

    def count_decision(self, about: Mapping[str, Any]) -> None:
        """A plugin decided."""
        self._decisions.add(1, about)


def provider_name(provider: str | None) -> str:
    """The conventions' word for a provider."""
    return _PROVIDERS.get(provider or "", provider or "unknown")


def usage_attributes(usage: Mapping[str, Any] | None) -> dict[str, int]:
    """The tokens of one model call under the conventions' names, from any provider's counts. Input tokens include those
    of the provider's cache, which Anthropic counts apart."""
    used = usage_of(usage)
    if used is None:
        return {}
    found = {
        "input_tokens": used.prompt,
        "output_tokens": used.output,
        "cache_read.input_tokens": used.read,
        "cache_creation.input_tokens": used.written,
    }
    return {f"gen_ai.usage.{name}": count for name, count in found.items() if count}
