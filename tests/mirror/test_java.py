"""From Apache Kafka to moldau, and what Java's MirrorMaker and its client read there."""

from __future__ import annotations

from pathlib import Path

import pytest

from moldau.client import TopicPartition
from moldau.client.sync import Admin
from moldau.mirror.formats import Checkpoint
from moldau.testing import SyncEmbeddedBroker
from tests.connect.committed import read
from tests.connect.processes import wait_until
from tests.mirror.quick_mirror import QUICK, read_topic
from tests.mirror.running import copied, create, fill, mirroring, read_some
from tests.peers.apache_kafka import WITH_CONNECTORS, fetch_or_skip
from tests.peers.kafka_broker import KafkaBroker
from tests.peers.kafka_broker import kafka_broker as kafka_broker

pytestmark = [pytest.mark.real, pytest.mark.deep]


def checkpoints(target: str) -> dict[TopicPartition, int]:
    """Where the group continues by its newest checkpoints. They are written a moment after its
    offsets are set."""
    records = read(target, "A.checkpoints.internal")
    found = [Checkpoint.read(bytes(each.key), bytes(each.value)) for each in records]
    return {each.where: each.downstream for each in found}


def test_javas_client_translates_the_offsets_of_a_group_and_its_connector_would_continue(
    kafka_broker: KafkaBroker, tmp_path: Path
) -> None:
    source = kafka_broker.bootstrap_servers
    create(source, "mirrored", 2, retention_ms="-1")
    fill(source, "mirrored", range(200))
    create(source, "heartbeats", 1)  # as a mirror to the source makes it
    read_some(source, "mirrored", "mirror-readers", 200)
    with SyncEmbeddedBroker() as broker:
        target = broker.bootstrap_servers
        words = ["--from", source, "--to", target, "--from-alias", "A", "--to-alias", "B",
                 "--topics", "mirrored", "--groups", "mirror-readers"]  # fmt: skip

        with (
            mirroring(tmp_path, *words, *QUICK) as process,
            Admin(bootstrap_servers=target) as admin,
        ):
            wait_until(lambda: bool(read_topic(admin, "heartbeats")), "there are heartbeats")
            wait_until(lambda: bool(read(target, "heartbeats")), "there is a heartbeat")
            wait_until(
                lambda: (
                    sum(at.offset for at in admin.group_offsets("mirror-readers").values()) == 200
                ),
                "the group's offsets are set",
            )
            wait_until(lambda: sum(checkpoints(target).values()) == 200, "Java can translate them")
            process.terminate()
            assert process.wait(60) == 0

        there = read(source, "mirrored")
        assert sorted(map(copied, there), key=repr) == sorted(
            map(copied, read(target, "A.mirrored")), key=repr
        )
        (answer,) = fetch_or_skip(WITH_CONNECTORS).run_source(
            Path(__file__).parent / "ReadMirror.java", [f"{target} A mirror-readers mirrored"]
        )
        with Admin(bootstrap_servers=target) as admin:
            offsets = admin.group_offsets("mirror-readers")
        ours = {str(where): at.offset for where, at in sorted(offsets.items())}
        shown = ", ".join(f"{where}={at}" for where, at in ours.items())
        copied_to = [max(each.offset for each in there if each.partition == n) for n in (0, 1)]
        assert answer == f"{{{shown}}} [A] [A.heartbeats, heartbeats] {copied_to}"
