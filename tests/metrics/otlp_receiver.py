"""An OTLP receiver: an HTTP server that decodes with OpenTelemetry's own classes."""

from __future__ import annotations

import gzip
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

pytest.importorskip("opentelemetry.proto.collector.metrics.v1", reason="opentelemetry-proto")

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
    ExportMetricsServiceResponse,
)
from opentelemetry.proto.metrics.v1.metrics_pb2 import Metric, ResourceMetrics

from tests.metrics.otlp_spans import Arrived, spans_of

Request = ExportMetricsServiceRequest
Sent = Metric
PATIENCE_S = 120


class Receiver:
    """What has arrived."""

    def __init__(self) -> None:
        self._changed = threading.Condition(threading.RLock())
        self._arrived: list[ResourceMetrics] = []
        self.spans: list[Arrived] = []
        self.headers: dict[str, str] = {}
        self.paths: set[str] = set()
        self.status = 200
        self.refused = 0
        self.rejected = 0
        self.address = ""

    def take(self, path: str, headers: dict[str, str], body: bytes) -> tuple[int, bytes]:
        """The answer to one request."""
        with self._changed:
            self._changed.notify_all()
            self.headers = headers
            self.paths.add(path)
            if self.status != 200:
                self.refused += 1
                return self.status, b""
            if headers.get("content-encoding") == "gzip":
                body = gzip.decompress(body)
            if path.endswith("/v1/traces"):
                self.spans += spans_of(body)
                return 200, b""
            request = ExportMetricsServiceRequest()
            request.ParseFromString(body)
            self._arrived.extend(request.resource_metrics)
        answer = ExportMetricsServiceResponse()
        if self.rejected:
            answer.partial_success.rejected_data_points = self.rejected
            answer.partial_success.error_message = "too old"
        return 200, answer.SerializeToString()

    def metrics(self, **resource: str) -> dict[str, Metric]:
        """The newest form of each metric of those resources, by name."""
        with self._changed:
            arrived = list(self._arrived)
        wanted = {name.replace("__", "."): value for name, value in resource.items()}
        found: dict[str, Metric] = {}
        for each in arrived:
            has = {pair.key: pair.value.string_value for pair in each.resource.attributes}
            if wanted.items() <= has.items():
                for scope in each.scope_metrics:
                    found.update({metric.name: metric for metric in scope.metrics})
        return found

    def wait(self, name: str, **resource: str) -> Metric:
        """The metric of that name, as soon as it has arrived."""
        with self._changed:
            assert self._changed.wait_for(lambda: name in self.metrics(**resource), PATIENCE_S), (
                sorted(self.metrics())
            )
        return self.metrics(**resource)[name]

    def instances(self, service: str) -> set[str]:
        """The instances of a service that have pushed."""
        with self._changed:
            arrived = list(self._arrived)
        found = [
            {pair.key: pair.value.string_value for pair in each.resource.attributes}
            for each in arrived
        ]
        return {
            each["service.instance.id"] for each in found if each.get("service.name") == service
        }

    def wait_for(self, is_so: Callable[[], bool], what: str) -> None:
        """Return when what has arrived makes it so."""
        with self._changed:
            assert self._changed.wait_for(is_so, PATIENCE_S), what

    def wait_spans(self, is_enough: Callable[[list[Arrived]], object]) -> list[Arrived]:
        """The spans, as soon as they are enough."""
        with self._changed:
            found = self._changed.wait_for(lambda: is_enough(self.spans), PATIENCE_S)
            assert found, sorted(f"{each.service}: {each.name}" for each in self.spans)
            return list(self.spans)

    def wait_refused(self) -> None:
        """Return when a request was refused."""
        with self._changed:
            assert self._changed.wait_for(lambda: self.refused > 0, PATIENCE_S)

    def forget(self) -> None:
        """Forget what has arrived."""
        with self._changed:
            self._arrived.clear()


@contextmanager
def receiver() -> Iterator[Receiver]:
    """A receiver on a free port of the loopback."""
    found = Receiver()

    class Answers(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            headers = {name.lower(): value for name, value in self.headers.items()}
            status, answer = found.take(self.path, headers, body)
            self.send_response(status)
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Answers)
    found.address = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield found
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
