"""A test against Apache Kafka and then against moldau's own broker.

from tests.peers.either_broker import broker as broker
from tests.peers.kafka_broker import kafka_broker as kafka_broker
"""

from __future__ import annotations

from typing import Protocol

import pytest


class Broker(Protocol):
    """Any broker that runs."""

    @property
    def bootstrap_servers(self) -> str: ...


@pytest.fixture(params=["apache-kafka", "moldau"])
def broker(request: pytest.FixtureRequest) -> Broker:
    """Apache Kafka, and then moldau's own."""
    name = "kafka_broker" if request.param == "apache-kafka" else "moldau_broker"
    found: Broker = request.getfixturevalue(name)
    return found
