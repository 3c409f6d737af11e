"""The REST API answers as Java's worker does: the same conversation with each."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from moldau.testing.threaded import SyncEmbeddedBroker
from tests.connect.transcripts.conversation import held
from tests.connect.transcripts.java_worker import JSON, java_worker
from tests.connect.transcripts.kept import OTHER_STATUS, OTHER_WORDS, differences, kept
from tests.connect.worker.scene import Scene
from tests.peers.apache_kafka import WITH_CONNECTORS, fetch_or_skip

pytestmark = pytest.mark.real

CONVERTERS = {"key.converter": JSON, "value.converter": JSON}
TOPIC = "transcript"


@pytest.fixture
def broker() -> Iterator[SyncEmbeddedBroker]:
    """One for each worker: the sinks of both have the group of the same name."""
    with SyncEmbeddedBroker() as broker:
        yield broker


def test_the_answers_are_those_of_java(broker: SyncEmbeddedBroker, tmp_path: Path) -> None:
    scene = Scene(broker, f"{TOPIC}-cluster", {})
    with scene.worker(**CONVERTERS, task_isolation="thread") as worker:
        ours = held(worker, tmp_path, TOPIC)

    assert differences(kept(), ours) == {}
    for name in (*OTHER_STATUS, *OTHER_WORDS):
        assert kept()[name] != ours[name], f"{name} no longer differs"


@pytest.mark.deep
def test_the_kept_answers_are_those_of_java(broker: SyncEmbeddedBroker, tmp_path: Path) -> None:
    cluster = f"{TOPIC}-cluster"
    with java_worker(
        fetch_or_skip(WITH_CONNECTORS), broker.bootstrap_servers, tmp_path, cluster
    ) as worker:
        java = held(worker, tmp_path, TOPIC)

    assert differences(kept(), java) == {}
