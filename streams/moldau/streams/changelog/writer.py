"""Write changelogs, and the offsets of groups, in one transaction."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from moldau.client import GroupMetadata
from moldau.client.sync import Producer
from moldau.executors.transactions import fencing_producer
from moldau.streams.changelog.group import Offsets
from moldau.streams.engine.batches import Outputs
from moldau.streams.state.changes import ChangelogRecords
from moldau.streams.worker.settings import AppSettings


def abandoning_writer(app: str, settings: AppSettings) -> Producer[Any, Any]:
    """Return what writes the changelogs. Starting it aborts what a move that was cut short has left
    open there, so that they can be read."""
    return fencing_producer(settings.of("producer"), f"{app}-move")


def logged(topic: str, partition: int, changes: ChangelogRecords) -> Outputs:
    """Return records for a partition of a changelog."""
    where: list[int | None] = [partition] * len(changes)
    return Outputs(topic, [*changes.keys], changes.values, changes.timestamps, partitions=where)


def write_whole(
    producer: Producer[Any, Any],
    records: list[Outputs],
    offsets: Mapping[str, Offsets],
) -> None:
    """Write changelogs, and the offsets of groups, in one transaction."""
    with producer.transaction():
        for each in records:
            if len(each):
                producer.send_many(
                    each.topic,
                    each.values,
                    keys=each.keys,
                    headers=each.headers or None,
                    timestamps_ms=each.timestamps,
                    partition=each.partitions,
                )
        for group, committed in offsets.items():
            producer.send_offsets(committed, GroupMetadata(group, -1, "", None))
