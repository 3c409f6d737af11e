"""The REST API answers as Java's worker does: the same conversation with each."""

from __future__ import annotations

from pathlib import Path

import pytest

from moldau.testing.threaded import SyncEmbeddedBroker
from tests.connect.transcripts.conversation import held
from tests.connect.transcripts.java_worker import JSON, java_worker
from tests.connect.transcripts.kept import OTHER_STATUS, OTHER_WORDS, differences, kept
from tests.connect.worker.test_end_to_end import Scene
from tests.peers.apache_kafka import fetch_or_skip

pytestmark = pytest.mark.real

CONVERTERS = {"key.converter": JSON, "value.converter": JSON}


def test_the_answers_are_those_of_java(
    moldau_broker: SyncEmbeddedBroker, moldau_topic: str, tmp_path: Path
) -> None:
    scene = Scene(moldau_broker, f"{moldau_topic}-cluster", {})
    with scene.worker(**CONVERTERS, task_isolation="thread") as worker:
        ours = held(worker, tmp_path, moldau_topic)

    assert differences(kept(), ours) == {}
    for name in (*OTHER_STATUS, *OTHER_WORDS):
        assert kept()[name] != ours[name], f"{name} no longer differs"


@pytest.mark.deep
def test_the_kept_answers_are_those_of_java(
    moldau_broker: SyncEmbeddedBroker, moldau_topic: str, tmp_path: Path
) -> None:
    cluster = f"{moldau_topic}-cluster"
    with java_worker(fetch_or_skip(), moldau_broker.bootstrap_servers, tmp_path, cluster) as worker:
        java = held(worker, tmp_path, moldau_topic)

    assert differences(kept(), java) == {}
