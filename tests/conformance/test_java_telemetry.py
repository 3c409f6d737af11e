"""Java's clients push their metrics to us, and kafka-client-metrics.sh says which (KIP-714)."""

from __future__ import annotations

import urllib.request
from pathlib import Path

import pytest

from tests.broker.main.processes import broker_process
from tests.peers.apache_kafka import fetch_or_skip
from tests.peers.kafka_broker import run_tool

pytestmark = [pytest.mark.real, pytest.mark.deep]
CLIENT_METRICS = "org.apache.kafka.tools.ClientMetricsCommand"
PRODUCER_PERF = "org.apache.kafka.tools.ProducerPerformance"


def test_a_java_producer_pushes_what_is_subscribed(tmp_path: Path) -> None:
    kafka = fetch_or_skip()
    with broker_process(tmp_path, "--metrics", "127.0.0.1:0") as broker:
        address = broker.text.split("metrics at ")[1].split("\n")[0]
        servers = f"127.0.0.1:{broker.port}"

        def tool(*words: str) -> str:
            return run_tool(kafka, CLIENT_METRICS, "--bootstrap-server", servers, *words)

        wanted = ("--metrics", "org.apache.kafka.producer.", "--interval", "200")
        match = ("--match", "client_software_name=apache-kafka-java,client_id=perf")
        tool("--alter", "--name", "ours", *wanted, *match)
        told = tool("--describe", "--name", "ours")
        assert "interval.ms=200" in told
        assert "client_software_name=apache-kafka-java" in told
        assert "ours" in tool("--list").split()
        sent = ("--num-records", "100", "--record-size", "10", "--throughput", "50")
        props = (f"bootstrap.servers={servers}", "client.id=perf")
        run_tool(kafka, PRODUCER_PERF, "--topic", "t", *sent, "--producer-props", *props)
        with urllib.request.urlopen(address) as answer:  # noqa: S310 - loopback
            lines = answer.read().decode().splitlines()
        series = [line for line in lines if line.startswith("kafka_client_producer_")]
        assert any('client_id="perf"' in line for line in series), lines[-20:]
        sent_total = [each for each in series if "_record_send_total{" in each]
        counted = [float(each.split()[-1]) for each in sent_total]
        assert counted, series
        assert (
            0 < max(counted) <= 100
        )  # the last push may be lost: a client that ends does not wait
        assert not [line for line in lines if line.startswith("kafka_client_consumer_")]
        tool("--delete", "--name", "ours")
        assert "ours" not in tool("--list").split()
