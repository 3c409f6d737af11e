"""Brokers whose groups come to rest soon: nothing is waited for that a test can do without.

Members of KIP-848 ask every 300 ms instead of every 5 s, a rebalance is not held back for members
that may come, and whoever is silent for 6 s is taken for dead. One of ours and one of Apache
Kafka's a session, for whoever imports the fixture:

    from tests.conformance.quick_brokers import quick_kafka as quick_kafka
    from tests.conformance.quick_brokers import quick_moldau as quick_moldau
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import pytest

from tests.conformance.broker import MoldauBroker
from tests.peers.apache_kafka import fetch_or_skip
from tests.peers.kafka_broker import BrokerOptions, KafkaBroker
from tests.peers.session_server import of_session

QUICK: Final[Mapping[str, str]] = {
    "group.initial.rebalance.delay.ms": "0",
    "group.consumer.assignment.interval.ms": "0",
    "group.consumer.heartbeat.interval.ms": "300",
    "group.consumer.min.heartbeat.interval.ms": "300",
    "group.consumer.session.timeout.ms": "6000",
    "group.consumer.min.session.timeout.ms": "6000",
}

_OURS = pytest.StashKey[MoldauBroker]()
_KAFKAS = pytest.StashKey[KafkaBroker]()


@pytest.fixture(scope="session")
def quick_moldau(request: pytest.FixtureRequest, tmp_path_factory: Any) -> MoldauBroker:
    """Ours."""
    settings = [word for each in QUICK.items() for word in ("--set", "=".join(each))]
    return of_session(
        request, _OURS, lambda: MoldauBroker(tmp_path_factory.mktemp("quick-moldau"), *settings)
    )


@pytest.fixture(scope="session")
def quick_kafka(request: pytest.FixtureRequest, tmp_path_factory: Any) -> KafkaBroker:
    """Apache Kafka's; the test is skipped with the reason where it cannot be had."""
    options = BrokerOptions(properties=QUICK)
    return of_session(
        request,
        _KAFKAS,
        lambda: KafkaBroker(fetch_or_skip(), tmp_path_factory.mktemp("quick-kafka"), options),
    )
