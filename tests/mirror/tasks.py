"""A source task of a mirror without a worker, with what it has read."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from moldau.connect.api import SourceParts
from moldau.mirror.settings import ASSIGNED, PACKAGE
from moldau.mirror.source_task import MirrorSourceTask
from tests.connectors.contexts import Offsets, SourceContext


def settings(source: str, **more: str) -> dict[str, str]:
    """The config of a source connector that needs no target."""
    return {
        "name": "mirror",
        "connector.class": f"{PACKAGE}.MirrorSourceConnector",
        "source.cluster.alias": "A",
        "target.cluster.alias": "B",
        "source.cluster.bootstrap.servers": source,
        "target.cluster.bootstrap.servers": source,
        "emit.offset-syncs.enabled": "false",
        "refresh.topics.interval.seconds": "1",
        "consumer.poll.timeout.ms": "100",
        **more,
    }


@contextmanager
def reading(
    source: str, partitions: str, offsets: Offsets | None = None, **more: str
) -> Iterator[MirrorSourceTask]:
    """A started task of these partitions."""
    task = MirrorSourceTask()
    task.initialize(SourceContext(offsets or Offsets()))
    try:
        task.start({**settings(source, **more), ASSIGNED: partitions})
        yield task
    finally:
        task.stop()


def values(task: MirrorSourceTask, count: int) -> list[bytes | None]:
    """The values of the next records, at least so many; kept as the worker keeps their offsets."""
    found: list[Any] = []
    while len(found) < count:
        parts = task.poll()
        if parts is not None:
            assert isinstance(parts, SourceParts)
            found += parts.records()
    offsets = task.context.offset_storage_reader
    assert isinstance(offsets, Offsets)
    offsets.keep(found)
    return [each.value for each in found]
