"""Offsets of groups on a target that refuses some of them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from unittest.mock import patch

import pytest

from moldau.client import ErrorCode, KafkaError, TopicPartition
from moldau.client.sync import Admin, Producer
from moldau.connect.api import RetriableError
from moldau.mirror.checkpoint import MirrorCheckpointTask
from moldau.mirror.formats import Checkpoint, OffsetSync
from moldau.mirror.group_offsets import GroupOffsets
from moldau.mirror.settings import ASSIGNED_GROUPS, CheckpointConfig
from moldau.testing import SyncEmbeddedBroker
from tests.mirror.running import create
from tests.mirror.tasks import settings

COPY, GONE = TopicPartition("A.orders", 0), TopicPartition("A.gone", 0)
SYNCS, CHECKPOINTS = "mm2-offset-syncs.B.internal", "A.checkpoints.internal"


@pytest.fixture
def cluster() -> Iterator[str]:
    """A cluster that is source and target of a mirror."""
    with SyncEmbeddedBroker() as broker:
        for topic in (SYNCS, CHECKPOINTS, "orders", COPY.topic):
            create(broker.bootstrap_servers, topic, 1)
        yield broker.bootstrap_servers


def write(cluster: str, topic: str, *records: Checkpoint | OffsetSync) -> None:
    with Producer(bootstrap_servers=cluster) as producer:
        for each in records:
            producer.send(topic, each.value, key=each.key)


def test_a_checkpoint_of_a_deleted_copy_does_not_stop_the_others(
    cluster: str, caplog: pytest.LogCaptureFixture
) -> None:
    known = [Checkpoint("billing", GONE, 9, 5), Checkpoint("billing", COPY, 9, 0),
             Checkpoint("shipping", COPY, 9, 0)]  # fmt: skip
    write(cluster, CHECKPOINTS, *known)
    props = settings(cluster)

    with (
        closing(GroupOffsets(CheckpointConfig.of(props), props)) as offsets,
        Admin(bootstrap_servers=cluster) as admin,
    ):
        assert offsets.set_offsets(["billing", "shipping"]) == 2
        assert offsets.set_offsets(["billing", "shipping"]) == 0
        for group in ("billing", "shipping"):
            assert list(admin.group_offsets(group)) == [COPY]

    assert caplog.text.count("the offset of billing in") == 1


def test_checkpoints_that_were_found_before_an_error_are_written_with_the_next_poll(
    cluster: str,
) -> None:
    write(cluster, SYNCS, OffsetSync(TopicPartition("orders", 0), 0, 0))
    task = MirrorCheckpointTask()
    groups = {ASSIGNED_GROUPS: "billing", "sync.group.offsets.enabled": "true",
              "emit.checkpoints.interval.seconds": "1",
              "sync.group.offsets.interval.seconds": "1"}  # fmt: skip
    with Admin(bootstrap_servers=cluster) as admin:
        admin.alter_group_offsets("billing", {TopicPartition("orders", 0): 0})
    task.start({**settings(cluster), **groups})
    try:
        assert task._offsets is not None
        busy = KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        with (
            patch.object(task._offsets.target, "list_groups", side_effect=busy),
            pytest.raises(RetriableError),
        ):
            task.poll()
        found = None
        while not found:
            found = task.poll()
    finally:
        task.stop()

    assert [each.key for each in found] == [Checkpoint("billing", COPY, 0, 0).key]


def test_a_topic_of_syncs_that_is_made_later_is_read_then(cluster: str) -> None:
    props = {**settings(cluster), "target.cluster.alias": "C"}
    where = TopicPartition("orders", 0)
    with (
        closing(GroupOffsets(CheckpointConfig.of(props), props)) as offsets,
        Admin(bootstrap_servers=cluster) as admin,
    ):
        admin.alter_group_offsets("billing", {where: 0})
        assert list(offsets.new_checkpoints(["billing"])) == []
        later = "mm2-offset-syncs.C.internal"
        assert later not in {each.name for each in admin.list_topics()}
        create(cluster, later, 1)
        write(cluster, later, OffsetSync(where, 0, 0))
        assert list(offsets.new_checkpoints(["billing"])) == [Checkpoint("billing", COPY, 0, 0)]
