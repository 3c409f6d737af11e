"""What fails in the remote work of a partition is tried again, and no failure ends the work."""

from __future__ import annotations

import errno
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, Final, cast

from moldau.broker.log.leader_epochs import LeaderEpochs
from moldau.broker.tiered.copying import LocalLog
from moldau.broker.tiered.deleted_partitions import DeletedPartitions, KnownTopics
from moldau.broker.tiered.metadata_records import encode
from moldau.broker.tiered.metadata_topic import MetadataTopic
from moldau.broker.tiered.partition_tier import PartitionTier
from moldau.broker.tiered.remote_log import TierSettings
from moldau.broker.tiered.remote_partition import RemotePartition
from moldau.broker.tiered.remote_segment import RemoteSegment, SegmentId, SegmentState
from moldau.broker.tiered.remote_traffic import RemoteTraffic
from moldau.broker.tiered.remote_work import RemoteWork
from moldau.broker.tiered.segment_upload import SegmentFiles, SegmentUpload
from moldau.broker.tiered.served_partition import ServedPartition
from moldau.errors import CorruptLog, CorruptRecord
from moldau.errors.codes import ErrorCode, KafkaError
from moldau.logging import Loggers
from moldau.objects.object_store import StoredObject
from moldau.runtime import Runtime
from moldau.runtime.timeouts import timeout
from tests.broker.network.virtual_pause import after
from tests.broker.one_node import simulate
from tests.broker.tiered.memory_topic import MemoryTopic
from tests.broker.tiered.segments import TOPIC, TOPIC_ID, changed, finished, local_log, segment

FILES: Final = SegmentFiles("log", {}, b"")
FIRST: Final = segment(1, range(10))
SECOND: Final = segment(2, range(10, 20))


class FailingUpload:
    """Stores nothing, and fails as it is told."""

    def __init__(self) -> None:
        self.store = self
        self.put_failures: list[Exception] = []
        self.delete_failures: list[Exception] = []
        self.removed: list[SegmentId] = []

    async def upload(self, segment: RemoteSegment, files: SegmentFiles) -> bytes:
        if self.put_failures:
            raise self.put_failures.pop()
        return b"1"

    async def remove(self, segment: RemoteSegment) -> None:
        if self.delete_failures:
            raise self.delete_failures.pop()
        self.removed.append(segment.id)

    async def list(self, folder: str) -> AsyncIterator[StoredObject]:
        for each in list[StoredObject]():
            yield each


class Replica:
    """A leader's log of two sealed segments. Satisfies `HostedPartition`."""

    topic, index, topic_id, leader_epoch, is_leader = TOPIC, 0, TOPIC_ID, 3, True

    def __init__(self, log: LocalLog, *, has_epochs: bool = True) -> None:
        self.log = log
        self.failures: list[Exception] = []
        """How the next looks at the log fail."""
        self.lessons = 0
        """How often the log was given epochs."""
        self._epochs = LeaderEpochs([(0, 0)] if has_epochs else [])

    @property
    def is_in_service(self) -> bool:
        return self.are_epochs_known

    @property
    def are_epochs_known(self) -> bool:
        earliest = self._epochs.earliest
        return earliest is not None and earliest.start_offset <= self.log.log_start_offset

    def learn_epochs(self, earlier: LeaderEpochs) -> None:
        self.lessons += 1
        assert self.lessons < 1000, "it is done again without a pause"
        self._epochs = earlier

    def local_log(self) -> LocalLog:
        if self.failures:
            raise self.failures.pop()
        return self.log

    def end_active_segment(self, now_ms: int) -> None:
        raise AssertionError("no test asks for it")

    def segment_files(self, segment: RemoteSegment) -> SegmentFiles | None:
        return FILES

    def low_watermark(self) -> int:
        return self.log.log_start_offset

    def raise_log_start(self, offset: int) -> bool:
        self.log = replace(self.log, log_start_offset=offset)
        return True

    def raise_local_start(self, offset: int) -> bool:
        return False


class Storage:
    """The remote work of a node."""

    def __init__(self, runtime: Runtime, lines: list[str]) -> None:
        self.access = MemoryTopic()
        self.access.create()
        self.upload = FailingUpload()
        traffic = RemoteTraffic()
        log = Loggers(runtime.clock, lines.append).get("test")
        self.work = RemoteWork(
            runtime,
            MetadataTopic(runtime, self.access, log),
            cast(SegmentUpload, self.upload),
            log,
            lambda _: traffic,
        )
        self.work.is_topic_safe = self.work.is_store_open = True


def finished_count(remote: RemotePartition) -> int:
    return sum(each.state is SegmentState.COPY_FINISHED for each in remote.segments())


async def until(is_so: Callable[[], bool]) -> None:
    async with timeout(300):
        while not is_so():
            await after(0.1)


def worked(prepare: Callable[[Storage, Replica], object]) -> list[str]:
    """Let both sealed segments be copied; return the lines of the log."""
    lines: list[str] = []

    async def main(runtime: Runtime) -> bool:
        storage, replica = Storage(runtime, lines), Replica(local_log(0, 10, 20, 25))
        prepare(storage, replica)
        tier = PartitionTier(storage.work, replica, 1, TierSettings())
        await tier.begin()
        await until(lambda: finished_count(tier.remote) == len(tier.remote) == 2)
        await tier.aclose()
        return True

    assert simulate(main)
    return lines


def test_a_disk_that_cannot_be_read_for_a_while_ends_no_work() -> None:
    def prepare(storage: Storage, replica: Replica) -> None:
        replica.failures = [
            *(OSError(errno.EMFILE, "too many open files") for _ in range(3)),
            CorruptLog("torn"),
            ValueError("a bug"),
        ]

    lines = worked(prepare)

    assert len([each for each in lines if "too many open files" in each or "torn" in each]) == 1
    assert any("a bug" in each for each in lines)


def test_a_copy_or_deletion_may_fail_in_any_way_and_is_made_again() -> None:
    def prepare(storage: Storage, replica: Replica) -> None:
        storage.upload.put_failures = [
            AssertionError("a bug"),
            KafkaError(ErrorCode.KAFKA_STORAGE_ERROR),
            CorruptRecord("torn"),
        ]
        storage.upload.delete_failures = [AssertionError("a bug"), CorruptRecord("torn")]

    lines = worked(prepare)

    assert any("a bug" in each for each in lines)


def test_a_record_may_fail_to_be_written_in_any_way_and_is_written_again() -> None:
    def prepare(storage: Storage, replica: Replica) -> None:
        storage.access.append_failures = [AssertionError("a bug"), OSError("EIO")]

    assert any("a bug" in each for each in worked(prepare))


class Served:
    """Remote segments with epochs that begin at offset 10."""

    is_ready = True

    def __init__(self, remote: RemotePartition) -> None:
        self.remote = remote
        self.reader = self

    async def section(self, segment: RemoteSegment, kind: object) -> bytes:
        return b"0\n1\n0 10\n"


def test_a_log_gets_the_start_of_its_remote_records_only_if_none_lies_before_it() -> None:
    """Until then it is tried with pauses, and one line has the command that decides."""
    lines: list[str] = []

    async def main(runtime: Runtime) -> bool:
        storage = Storage(runtime, lines)
        storage.access.values = [encode(each) for each in finished(FIRST, SECOND)]
        replica = Replica(local_log(20, 30, 35), has_epochs=False)
        tier = PartitionTier(storage.work, replica, 1, TierSettings())
        await tier.begin()
        tier.serve(cast(ServedPartition, Served(tier.remote)))
        await after(60)
        assert 5 < replica.lessons < 50
        assert replica.log.log_start_offset == 0
        assert len([each for each in lines if "moldau topic trim orders" in each]) == 1
        for state in (SegmentState.DELETE_STARTED, SegmentState.DELETE_FINISHED):
            await storage.work.topic.append(changed(1, state))
        await until(lambda: replica.are_epochs_known)
        assert replica.log.log_start_offset == 10
        await tier.aclose()
        return True

    assert simulate(main)


def test_a_topic_that_is_there_again_is_not_deleted_on() -> None:
    """The store fails while its deletion is begun. When it is gone again, it is."""

    async def main(runtime: Runtime) -> bool:
        storage = Storage(runtime, [])
        storage.work.is_store_open = False
        storage.access.values = [encode(each) for each in finished(FIRST, SECOND)]
        known = SimpleNamespace(topics=set[Any]())
        topics = KnownTopics(lambda each: each in known.topics, lambda _: True, 0)
        deleted = DeletedPartitions(storage.work, 0, 1, topics)
        deleted.begin()
        await after(300)
        known.topics.add(TOPIC_ID)
        storage.work.is_store_open = True
        await after(300)
        assert len(storage.access.values) == 4
        assert not storage.upload.removed
        known.topics.clear()
        await until(lambda: len(storage.upload.removed) == 2)
        await deleted.aclose()
        return True

    assert simulate(main)
