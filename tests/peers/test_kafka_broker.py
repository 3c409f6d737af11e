"""The peer's broker comes up, takes settings, keeps its data, and goes down by its own id."""

from __future__ import annotations

import asyncio
import subprocess
from pathlib import Path

import pytest

from moldau.client import Admin, NewTopic
from moldau.errors.codes import KafkaError
from moldau.runtime.node_processes import free_ports
from tests.peers.apache_kafka import ApacheKafka, fetch_or_skip
from tests.peers.kafka_broker import (
    BrokerFailed,
    BrokerOptions,
    KafkaBroker,
    ask_metadata,
)
from tests.peers.kafka_broker import kafka_broker as kafka_broker
from tests.peers.known_topics import known


def _java_that(tmp_path: Path, script: str) -> ApacheKafka:
    java = tmp_path / "java"
    java.write_text(f"#!/bin/sh\n{script}", encoding="ascii")
    java.chmod(0o755)
    return ApacheKafka("9.9", tmp_path, str(java))


def test_a_broker_that_dies_is_told_with_its_last_words(tmp_path: Path) -> None:
    kafka = _java_that(tmp_path, 'case "$*" in *StorageTool*) exit 0;; esac; echo no disk; exit 3')
    broker = KafkaBroker(kafka, tmp_path / "node", BrokerOptions())
    with pytest.raises(BrokerFailed, match="ended with 3: no disk"):
        broker.start()
    broker.stop()


def test_a_broker_that_never_answers_is_given_up_and_killed(tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    kafka = _java_that(
        tmp_path, f'case "$*" in *StorageTool*) exit 0;; esac; echo $$ >{pids}; exec sleep 600'
    )
    broker = KafkaBroker(kafka, tmp_path / "node", BrokerOptions(start_timeout_s=0.5))
    with pytest.raises(BrokerFailed, match="not ready in"):
        broker.start()
    alive = subprocess.run(["/bin/kill", "-0", pids.read_text().strip()], capture_output=True)  # noqa: S603
    assert alive.returncode != 0


def test_a_tool_that_fails_is_an_error_with_its_complaint(tmp_path: Path) -> None:
    kafka = _java_that(tmp_path, "echo bad format >&2; exit 1")
    with pytest.raises(RuntimeError, match="bad format"):
        KafkaBroker(kafka, tmp_path / "node", BrokerOptions()).start()


def test_ports_are_different() -> None:
    assert len(set(free_ports(20))) == 20


@pytest.mark.real
def test_the_sessions_broker_answers_and_its_tools_work(kafka_broker: KafkaBroker) -> None:
    cluster = ask_metadata(kafka_broker.port)
    assert cluster.cluster_id == kafka_broker.cluster_id
    assert (cluster.brokers[0].host, cluster.brokers[0].port) == ("127.0.0.1", kafka_broker.port)
    tool = "org.apache.kafka.tools.TopicCommand"
    kafka_broker.tool(tool, "--create", "--topic", "peer-tools", "--partitions", "3")
    assert "PartitionCount: 3" in kafka_broker.tool(tool, "--describe", "--topic", "peer-tools")


@pytest.mark.real
def test_a_broker_keeps_its_data_over_a_restart_and_takes_settings(tmp_path: Path) -> None:
    options = BrokerOptions(properties={"num.partitions": "7"})
    with KafkaBroker.started(fetch_or_skip(), tmp_path, options) as broker:
        first = (broker.pid, broker.cluster_id)
        tool = "org.apache.kafka.tools.TopicCommand"
        broker.tool(tool, "--create", "--topic", "kept")
        broker.stop()
        broker.start()
        assert broker.pid != first[0]
        assert ask_metadata(broker.port).cluster_id == first[1]
        assert "PartitionCount: 7" in broker.tool(tool, "--describe", "--topic", "kept")


@pytest.mark.real
def test_a_broker_that_is_held_back_learns_late_of_topics(tmp_path: Path) -> None:
    async def main(bootstrap_servers: str) -> None:
        async with Admin(bootstrap_servers=bootstrap_servers) as admin:
            for name in "abcdefgh":
                await admin.create_topic(NewTopic(name, 2, 1))
            assert isinstance((await admin.describe_topics(["h"]))["h"], KafkaError)
            assert await known(admin, "h") == 2

    with KafkaBroker.started(fetch_or_skip(), tmp_path, BrokerOptions(behind_ms=200)) as broker:
        asyncio.run(main(broker.bootstrap_servers))
