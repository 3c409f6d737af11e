"""A test against Apache Kafka and then against moldau's own broker.

from tests.peers.either_broker import broker as broker
from tests.peers.kafka_broker import kafka_broker as kafka_broker

Tests that want other ones name their fixtures: `broker = either("quick_kafka", "quick_moldau")`.
"""

from __future__ import annotations

from typing import Any, Protocol

import pytest


class Broker(Protocol):
    """Any broker that runs."""

    @property
    def bootstrap_servers(self) -> str: ...


def either(kafka: str, moldau: str, *others: str) -> Any:
    """A fixture that is each of these fixtures in turn."""

    @pytest.fixture(params=[kafka, moldau, *others], ids=["apache-kafka", "moldau", *others])
    def broker(request: pytest.FixtureRequest) -> Broker:
        found: Broker = request.getfixturevalue(request.param)
        return found

    return broker


broker = either("kafka_broker", "moldau_broker")
