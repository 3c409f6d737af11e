"""An OpenTelemetry collector takes our metrics, keeps them in a topic of ours, and reads them."""

from __future__ import annotations

import json
import subprocess
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from moldau.runtime.node_processes import free_ports
from tests.broker.main.processes import broker_process
from tests.conformance.built import go_program
from tests.peers.eventually import eventually

pytestmark = [pytest.mark.real, pytest.mark.deep]
PATIENCE_S = 120


@contextmanager
def collector(program: str, folder: Path, otlp: int, page: int, broker: str) -> Iterator[Path]:
    """A collector that has OTLP in a topic, and shows on a page what it reads back from there."""
    kafka = {"brokers": [broker], "metrics": {"topic": "otlp_metrics"}}
    config = {
        "receivers": {
            "otlp": {"protocols": {"http": {"endpoint": f"127.0.0.1:{otlp}"}}},
            "kafka": {
                "brokers": [broker],
                "group_id": "collector",
                "initial_offset": "earliest",
                "metrics": {"topics": ["otlp_metrics"]},
            },
        },
        "exporters": {
            "kafka": kafka,
            "prometheus": {"endpoint": f"127.0.0.1:{page}"},
        },
        "service": {
            "telemetry": {"metrics": {"level": "none"}},
            "pipelines": {
                "metrics/in": {"receivers": ["otlp"], "exporters": ["kafka"]},
                "metrics/out": {"receivers": ["kafka"], "exporters": ["prometheus"]},
            },
        },
    }
    path, log = folder / "collector.json", folder / "collector.log"
    path.write_text(json.dumps(config), encoding="utf-8")
    with log.open("wb") as written:
        running = subprocess.Popen(  # noqa: S603 - our own program
            [program, "--config", f"file:{path}"], stdout=written, stderr=written
        )
        try:
            yield log
        finally:
            running.kill()
            running.wait(timeout=60)


def test_a_collector_takes_metrics_and_has_them_in_our_topic(tmp_path: Path) -> None:
    program = go_program("collector")
    otlp, page = free_ports(2)
    environment = {
        "OTEL_EXPORTER_OTLP_ENDPOINT": f"http://127.0.0.1:{otlp}",
        "OTEL_METRIC_EXPORT_INTERVAL": "500",
        "OTEL_EXPORTER_OTLP_COMPRESSION": "gzip",
    }
    with (
        broker_process(tmp_path, "--metrics", "127.0.0.1:0", **environment) as broker,
        collector(program, tmp_path, otlp, page, f"127.0.0.1:{broker.port}") as log,
    ):
        address = broker.text.split("metrics at ")[1].split("\n")[0]

        def shown(where: str) -> set[str]:
            try:
                with urllib.request.urlopen(where) as answer:  # noqa: S310 - loopback
                    lines = answer.read().decode().splitlines()
            except OSError:
                return set()
            return {line.split("{")[0].split(" ")[0] for line in lines if not line.startswith("#")}

        def missing() -> set[str]:
            """Our series that it does not show; a group of its own, say, brings new ones."""
            ours = {name for name in shown(address) if name.startswith(("kafka_", "moldau_"))}
            assert len(ours) > 100
            return ours - shown(f"http://127.0.0.1:{page}/metrics")

        eventually(lambda: not missing(), within_s=PATIENCE_S)
        assert "rejected" not in log.read_text(errors="replace")
