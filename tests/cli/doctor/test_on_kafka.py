"""Apache Kafka's brokers are examined like ours: addresses, features, the clock."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.doctor.examined import doctor
from tests.peers.kafka_broker import KafkaBroker
from tests.peers.kafka_broker import kafka_broker as kafka_broker

pytestmark = [pytest.mark.real, pytest.mark.deep]


def test_the_addresses_of_apache_kafka_are_tried(kafka_broker: KafkaBroker, tmp_path: Path) -> None:
    _, found = doctor("--data", str(tmp_path), "-b", kafka_broker.bootstrap_servers)
    checks = {each["check"]: each for each in found}

    (seen,) = [each for name, each in checks.items() if name.startswith("broker ")]
    assert seen["verdict"] == "ok", seen
    assert "metadata.version" in checks["features"]["found"]
    assert "ms from this machine's" in checks["cluster clock"]["found"]
    assert checks["cluster clock"]["verdict"] == "ok"
