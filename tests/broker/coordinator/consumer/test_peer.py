"""The scripts, played to Apache Kafka: it must give the answers that stand in them."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.broker.coordinator.classic.wire import prepare
from tests.broker.coordinator.consumer.script import SCRIPTS, play
from tests.broker.coordinator.consumer.wire import Wire
from tests.broker.coordinator.consumer.world import SETTINGS
from tests.peers.apache_kafka import fetch_or_skip
from tests.peers.kafka_broker import BrokerOptions, KafkaBroker

FILES = sorted(SCRIPTS.glob("*.txt"))
AT_ONCE = 8

pytestmark = [pytest.mark.real, pytest.mark.slow]


@pytest.fixture(scope="module")
def plays(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[Path, Future[str]]]:
    """Each script with the answers of Apache Kafka."""
    properties = {name: str(value) for name, value in SETTINGS.items()}
    options = BrokerOptions(properties={**properties, "offsets.topic.num.partitions": "1"})
    folder = tmp_path_factory.mktemp("kafka-with-consumer-groups")
    with (
        KafkaBroker.started(fetch_or_skip(), folder, options) as broker,
        ThreadPoolExecutor(AT_ONCE) as pool,
    ):
        prepare(broker.port, "ready")
        yield {path: pool.submit(_played, broker.port, path) for path in FILES}


def _played(port: int, path: Path) -> str:
    return play(path.read_text(encoding="ascii"), Wire(port, path.stem.replace("_", "-")))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_kafka_answers_so(plays: dict[Path, Future[str]], path: Path) -> None:
    assert plays[path].result(timeout=180) == path.read_text(encoding="ascii")
