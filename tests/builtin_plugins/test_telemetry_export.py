"""`telemetry` over the wire: a program with the SDK's OTLP exporter, and a receiver that reads its protobuf."""

from __future__ import annotations

import gzip
import os
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

pytestmark = pytest.mark.heavy

ROOT = Path(__file__).parents[2]
PROGRAM = """
from opentelemetry import metrics, trace
from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor

from hooksdk import Tool
from hooksdk.sync import Host, run_agent
from hooksdk.testing import ScriptedModel, call

traces = TracerProvider()
traces.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
trace.set_tracer_provider(traces)
meters = MeterProvider([PeriodicExportingMetricReader(OTLPMetricExporter())])
metrics.set_meter_provider(meters)

def greet(name: str) -> str:
    "Greet somebody."
    return f"Hello {name}"

with Host(config={"plugins": {"telemetry": {"config": {"content": True}}}}) as host, host.session("ann") as session:
    tools = [Tool.from_function(greet, source="host")]
    run_agent(session, ScriptedModel([call("greet", name="Ada"), "Greeted."]), "Greet Ada.", tools=tools)
traces.shutdown()
meters.shutdown()
"""


class Receiver(ThreadingHTTPServer):
    """Keeps what it is sent, as a collector's OTLP receiver reads it."""

    def __init__(self) -> None:
        self.spans: list[Any] = []
        self.metrics: list[Any] = []
        super().__init__(("127.0.0.1", 0), _Take)


class _Take(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if self.headers.get("Content-Encoding") == "gzip":
            body = gzip.decompress(body)
        server: Any = self.server
        if self.path == "/v1/traces":
            request = ExportTraceServiceRequest.FromString(body)
            server.spans += [(scope.scope, span) for resource in request.resource_spans for scope in resource.scope_spans
                             for span in scope.spans]  # fmt: skip
        else:
            sent = ExportMetricsServiceRequest.FromString(body)
            server.metrics += [one for resource in sent.resource_metrics for scope in resource.scope_metrics
                               for one in scope.metrics]  # fmt: skip
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_request(self, code: object = "-", size: object = "-") -> None:
        """Say nothing."""


def test_a_receiver_reads_the_spans_and_metrics_of_a_program(tmp_path: Path) -> None:
    with Receiver() as receiver:
        threading.Thread(target=receiver.serve_forever, daemon=True).start()
        address = f"http://127.0.0.1:{receiver.server_port}"
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM], cwd=tmp_path, capture_output=True, text=True, timeout=200, check=False,
            env={**os.environ, "OTEL_EXPORTER_OTLP_ENDPOINT": address, "PYTHONPATH": str(ROOT), "no_proxy": "*"},
        )  # fmt: skip
        receiver.shutdown()
    assert done.returncode == 0, done.stderr
    by_name = {span.name: span for _, span in receiver.spans}
    assert sorted(by_name) == ["chat scripted", "execute_tool greet", "invoke_agent main"]
    assert {scope.name for scope, _ in receiver.spans} == {"hooksdk"}
    tool, run = by_name["execute_tool greet"], by_name["invoke_agent main"]
    assert tool.parent_span_id == run.span_id
    assert tool.trace_id == run.trace_id
    told = {pair.key: pair.value.string_value for pair in tool.attributes}
    assert told["gen_ai.operation.name"] == "execute_tool"
    assert told["gen_ai.tool.call.result"] == "Hello Ada"
    assert {metric.name for metric in receiver.metrics} >= {
        "gen_ai.client.token.usage",
        "gen_ai.client.operation.duration",
    }
