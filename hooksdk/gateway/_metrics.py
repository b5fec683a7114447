"""Counters of a gateway: for OpenTelemetry, for `/metrics` in Prometheus' format, and for its status file."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from importlib.metadata import version
from typing import Any, final

import anyio
from opentelemetry import metrics
from opentelemetry.metrics import MeterProvider
from starlette.responses import Response

from hooksdk.approvals import Approval, ApprovalRequest, Approver, Later
from hooksdk.errors import ConfigError
from hooksdk.hooks import Trace
from hooksdk.records import CallFinished
from hooksdk.run import Run

# The bounds that the semantic conventions have for MCP.
_SECOND_BOUNDS = [0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60, 120, 300]


@final
class Metrics:
    """The gateway's instruments. Without a provider, and without OpenTelemetry's SDK, they do nothing."""

    def __init__(self, provider: MeterProvider | None = None) -> None:
        meter = metrics.get_meter("hooksdk.gateway", version("hooksdk"), meter_provider=provider)
        self._calls = meter.create_counter("hooksdk.gateway.calls", "{call}", "Calls of tools, by what became of them.")
        self._seconds = meter.create_histogram(
            "hooksdk.gateway.call.duration",
            "s",
            "From a call's arrival to its result.",
            explicit_bucket_boundaries_advisory=_SECOND_BOUNDS,
        )
        self._sessions = meter.create_up_down_counter(
            "hooksdk.gateway.sessions", "{session}", "Sessions that are open."
        )
        self._refused = meter.create_counter(
            "hooksdk.gateway.refused", "{request}", "Requests and connections that were not let in."
        )

    def take(self, event: Trace) -> None:
        """Count a record of a session's trace. The name of an unknown tool is left out, since a model may make up
        any."""
        record = event.record
        if isinstance(record, CallFinished):
            source, _, rest = (record.tool or "").partition(":")
            server, _, tool = rest.partition(":")
            tool = "resources/read" if source == "resource" else tool  # addresses are without number
            about = {"hooksdk.server": server, "hooksdk.verdict": record.status}
            self._calls.add(1, {**about, "gen_ai.tool.name": tool})
            self._seconds.record(record.seconds, about)

    def count_session(self, more: int) -> None:
        """Count a session that was opened (1) or closed (-1)."""
        self._sessions.add(more)

    def refuse(self, reason: str) -> None:
        """Count a request that was refused for a reason: `token`, `profile`, `rate`, `stopping`, `connections` or
        `request_time`."""
        self._refused.add(1, {"hooksdk.reason": reason})


# The clients whose last list is kept.
_CLIENTS = 20


@final
@dataclass(eq=False)
class Counts:
    """Counters over all sessions of a gateway's life.

    Attributes:
        client: The name that the last client gave itself.
        metrics: The instruments for OpenTelemetry.
    """

    client: str = ""
    metrics: Metrics = field(default_factory=Metrics)
    _asked: int = 0
    _withheld: int = 0
    _tokens_direct: int = 0
    _tokens_listed: int = 0
    _shown: dict[str, str] = field(default_factory=dict[str, str])
    _runs: dict[str, Run] = field(default_factory=dict[str, Run])
    _ended: Counter[str] = field(default_factory=Counter[str])
    _news: anyio.Event = field(default_factory=anyio.Event)

    def opened(self, run: Run, client: str) -> None:
        """Count a session that begins."""
        self._runs[run.info.run_id] = run
        self.client = client or self.client
        self.metrics.count_session(1)
        self.touch()

    def closed(self, run: Run) -> None:
        """Count a session that has ended."""
        self._runs.pop(run.info.run_id, None)
        self._ended.update(run.stats["tool_calls"])
        self.metrics.count_session(-1)
        self.touch()

    def listed(self, direct: int, listed: int, client: str, shown: str) -> None:
        """Count a list of tools: the estimated tokens of all schemas, and of those in the list. What the last clients
        were shown is kept for the status."""
        self._shown.pop(client, None)
        self._shown[client] = shown
        if len(self._shown) > _CLIENTS:
            del self._shown[next(iter(self._shown))]
        self._tokens_direct += direct
        self._tokens_listed += listed

    def withheld(self) -> None:
        """Count a call that was refused before its run saw it: the client may not use the tool and was not told of
        it, or a plugin blocks all of the client's requests."""
        self._withheld += 1

    def counted(self, approver: Approver | None) -> Approver | None:
        """The approver, with its questions counted."""
        if approver is None:
            return None

        async def ask(request: ApprovalRequest) -> Approval | Later:
            self._asked += 1
            return await approver(request)

        return ask

    def touch(self) -> None:
        """Wake those that wait for news."""
        self._news.set()

    async def news(self) -> None:
        """Wait until something has changed since this was last awaited."""
        await self._news.wait()
        self._news = anyio.Event()

    def as_dict(self) -> dict[str, Any]:
        """The counters by the names that the status file has for them."""
        calls = Counter(self._ended)
        for run in self._runs.values():
            calls.update(run.stats["tool_calls"])
        return {
            "client": self.client,
            "sessions": len(self._runs),
            "tokens_direct": self._tokens_direct,
            "tokens_listed": self._tokens_listed,
            "shown": dict(self._shown),
            "calls": calls.total(),
            "blocked": calls["blocked"] + self._withheld,
            "asked": self._asked,
            "failed": calls["error"],
        }


def read_into_prometheus() -> None:
    """Export this process's metrics to Prometheus' own registry, unless the program has set an exporter. Raises
    `ConfigError` where the packages for it are missing."""
    try:
        from opentelemetry.exporter.prometheus import PrometheusMetricReader
        from opentelemetry.sdk.metrics import MeterProvider as SdkProvider
    except ModuleNotFoundError as missing:
        cure = "pip install 'hooksdk[prometheus]'"
        raise ConfigError("gateway.metrics", (f"/metrics needs the package {missing.name}: {cure}",)) from None
    if not isinstance(metrics.get_meter_provider(), SdkProvider):
        metrics.set_meter_provider(SdkProvider(metric_readers=[PrometheusMetricReader()]))


def prometheus_page(accept: str) -> Response:
    """The page of Prometheus' registry, in a format that the reader accepts."""
    from prometheus_client import REGISTRY
    from prometheus_client.exposition import choose_encoder

    encode, content_type = choose_encoder(accept)
    return Response(encode(REGISTRY), headers={"Content-Type": content_type})
