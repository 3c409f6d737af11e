"""The scripts, played to our own broker over its sockets: nothing is lost on the way to a group."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pytest

from moldau.testing.threaded import SyncEmbeddedBroker
from tests.broker.coordinator.classic.wire import prepare
from tests.broker.coordinator.consumer.script import SCRIPTS, play
from tests.broker.coordinator.consumer.wire import Wire
from tests.broker.coordinator.consumer.world import SETTINGS

FILES = sorted(SCRIPTS.rglob("*.txt"))
AT_ONCE = 8

pytestmark = [pytest.mark.real, pytest.mark.slow]


@pytest.fixture(scope="module")
def plays() -> Iterator[dict[Path, Future[str]]]:
    """Each script with the answers of our broker."""
    named = {name: str(value) for name, value in SETTINGS.items()}
    with (
        SyncEmbeddedBroker({**named, "offsets.topic.num.partitions": "1"}) as broker,
        ThreadPoolExecutor(AT_ONCE) as pool,
    ):
        port = int(broker.bootstrap_servers.rpartition(":")[2])
        prepare(port, "ready")
        yield {path: pool.submit(_played, port, path) for path in FILES}


def _played(port: int, path: Path) -> str:
    return play(path.read_text(encoding="ascii"), Wire(port, path.stem.replace("_", "-")))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_our_broker_answers_so(plays: dict[Path, Future[str]], path: Path) -> None:
    assert plays[path].result(timeout=180) == path.read_text(encoding="ascii")
