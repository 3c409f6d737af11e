"""What tests look at in the logs of a broker with tiered storage, and in its store."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Final

from moldau.broker.server import Broker
from moldau.broker.tiered.metadata_records import decode
from moldau.broker.tiered.metadata_topic import PartitionKey, key_of
from moldau.broker.tiered.remote_partition import RemotePartition
from moldau.broker.tiered.remote_segment import SegmentState
from moldau.broker.tiered.segment_objects import parse_object_name
from moldau.errors.codes import ErrorCode
from moldau.ids import Uuid
from moldau.protocol.messages.delete_topics import (
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from moldau.records import iter_records
from moldau.runtime.timeouts import timeout
from tests.broker.network.virtual_pause import after
from tests.broker.server.wire import Wire

PATIENCE_S: Final = 60.0
LOOK_S: Final = 0.02
METADATA: Final = "__remote_log_metadata"
VALUE: Final = b"x" * 200


async def until(is_so: Callable[[], bool], seconds: float = PATIENCE_S) -> None:
    """Wait until something is so."""
    async with timeout(seconds):
        while not is_so():
            await after(LOOK_S)


def local_start(broker: Broker, topic: str) -> int:
    return broker.node.replicas.partition(topic, 0).log.local_log_start_offset


def first_file(broker: Broker, topic: str) -> int:
    """The offset at which the oldest log file of a topic on the disk begins."""
    directory = Path(broker.node.replicas.partition(topic, 0).log.directory)
    return min(int(each.stem) for each in directory.glob("*.log"))


def last_base(broker: Broker, topic: str) -> int:
    return broker.node.replicas.partition(topic, 0).log.segments.active.base_offset


def is_cut(broker: Broker, topic: str, least: int = 1) -> bool:
    """Whether all but the active segment is gone from the local disk, and that is something."""
    base = last_base(broker, topic)
    return base >= least and local_start(broker, topic) == first_file(broker, topic) == base


def objects(store: Path) -> set[str]:
    """The objects of segments in a folder."""
    names = (str(each.relative_to(store)) for each in store.rglob("*") if each.is_file())
    return {name for name in names if parse_object_name(name) is not None}


def remote_of(broker: Broker, topic_id: Uuid, index: int = 0) -> RemotePartition:
    """A partition of a topic, as the metadata topic on the disk has it."""
    remote = RemotePartition()
    for partition in broker.node.replicas.hosted.values():
        if partition.topic == METADATA:
            data = partition.read_own(partition.log_start_offset, 1 << 30).read()
            for record in iter_records(data):
                event = decode(record.value or b"")
                if key_of(event) == PartitionKey(topic_id, index):
                    remote.replay(event)
    return remote


def metadata_files(broker: Broker) -> list[Path]:
    """The log files of the metadata topic."""
    logs = (each.log for each in broker.node.replicas if each.topic == METADATA)
    return [Path(segment.log_path) for log in logs for segment in log.segments]


def finished_ranges(remote: RemotePartition) -> list[tuple[int, int]]:
    return [
        (each.start_offset, each.end_offset)
        for each in remote.segments()
        if each.state is SegmentState.COPY_FINISHED
    ]


def are_gapless(ranges: list[tuple[int, int]], end: int) -> bool:
    """Whether the ranges cover everything from 0 to `end`."""
    at = 0
    for start, stop in sorted(ranges):
        if start > at:
            return False
        at = max(at, stop)
    return at >= end


async def read_whole(wire: Wire, topic: str) -> list[bytes]:
    """Read from the start, as a client does that tries again while segments are not known."""
    values: list[bytes] = []
    async with timeout(PATIENCE_S):
        while True:
            answer = await wire.fetch_answer(topic, len(values))
            if answer.error_code == ErrorCode.REPLICA_NOT_AVAILABLE:
                await after(LOOK_S)
                continue
            assert answer.error_code == ErrorCode.NONE
            values += [bytes(each.value or b"") for each in iter_records(answer.records or b"")]
            if len(values) >= answer.high_watermark:
                return values


async def delete_topic(wire: Wire, name: str) -> None:
    topic = DeleteTopicState(name=name, topic_id=bytes(16))
    request = DeleteTopicsRequest(topics=[topic], timeout_ms=30_000)
    answer = await wire.ask(request, DeleteTopicsResponse)
    assert answer.responses[0].error_code == ErrorCode.NONE
