"""Scripts in which the broker is stopped and started: Apache Kafka and ours, on their own files."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

from moldau.testing import SyncEmbeddedBroker
from tests.broker.coordinator.classic.broker_properties import PROPERTIES
from tests.broker.coordinator.classic.script import SCRIPTS, TOPICS, play
from tests.broker.coordinator.classic.wire import WirePeer, prepare
from tests.peers.apache_kafka import fetch_or_skip
from tests.peers.kafka_broker import BrokerOptions, KafkaBroker

FILES: Final = sorted((SCRIPTS / "restarts").glob("*.txt"))

pytestmark = [pytest.mark.real, pytest.mark.slow]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_our_broker_goes_on(path: Path) -> None:
    with SyncEmbeddedBroker(dict(PROPERTIES)) as broker:
        prepare(broker.port, TOPICS)
        peer = WirePeer(broker.port, path.stem, broker.restart)
        text = path.read_text(encoding="ascii")
        assert play(text, peer).text == text
        peer.close()


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_kafka_goes_on_so(path: Path, tmp_path: Path) -> None:
    options = BrokerOptions(properties=PROPERTIES)
    with KafkaBroker.started(fetch_or_skip(), tmp_path, options) as broker:
        prepare(broker.port, TOPICS)

        def restart() -> None:
            broker.stop()
            broker.start()

        peer = WirePeer(broker.port, path.stem, restart)
        text = path.read_text(encoding="ascii")
        assert play(text, peer).text == text
        peer.close()
