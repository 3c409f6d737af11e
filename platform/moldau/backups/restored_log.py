"""Fills one partition from its chunks.

The leader says where its log ends, and the next batches go there: after a kill, a lost answer or a
change of the leader nothing is twice and nothing is left out. A batch is sent with its offset, and
the leader refuses it where it does not stand. A log that ends where no batch of the backup ends has
something else in it, and is given up.

The transactions that are open at the end of a whole log are aborted by markers behind it. They go
the same way, since a log that is being restored takes nothing else. So what stands behind the end
of the backup are such markers, of a run that was killed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from moldau.backups.log_reader import LogReader
from moldau.backups.manifest import BackupFailed, Chunk
from moldau.errors.codes import ErrorCode, error_from
from moldau.link.metadata import TopicPartition
from moldau.protocol.messages.restore_records import (
    RestoreRecordsRequest,
    RestoreRecordsResponse,
)
from moldau.protocol.schemas.control_records import EndTxnMarker
from moldau.protocol.schemas.versioned import encode_versioned
from moldau.records import ControlType, Producer, encode_control_batch, walk

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from moldau.backups.backup_store import BackupStore
    from moldau.client.admin.cluster import ActiveProducer
    from moldau.link.cluster import Cluster
    from moldau.records import Buffer

_RUN_BYTES: Final = 1 << 20
_TIMEOUT_MS: Final = 10_000
_STUCK_MAX: Final = 20
"""The requests in a row that may append nothing."""
_MARKER_VERSION: Final = 0


class LogPlan(NamedTuple):
    """What one partition is to be."""

    topic_id: bytes
    where: TopicPartition
    start_offset: int
    end_offset: int
    leader_epoch: int
    """The last leader epoch of the log."""
    chunks: Sequence[Chunk]

    @property
    def first_offset(self) -> int:
        """Where the log begins before its records below `start_offset` are deleted: the first batch
        may begin before it."""
        first = self.chunks[0].base_offset if self.chunks else self.start_offset
        return min(first, self.start_offset, self.end_offset)


class _Run(NamedTuple):
    """Consecutive batches in the bytes of a chunk."""

    base_offset: int
    next_offset: int
    begin: int
    end: int


class RestoredLog:
    """One partition on its way."""

    def __init__(self, cluster: Cluster, store: BackupStore, plan: LogPlan) -> None:
        self._cluster = cluster
        self._store = store
        self._plan = plan
        self._chunk: Chunk | None = None
        self._pieces: AsyncIterator[Buffer] | None = None
        """What is still to be read of the chunk."""
        self._data: Buffer = b""
        self._batches: list[_Run] = []
        self._before = -1
        """The end of what comes before those batches."""
        self._stuck = 0
        self.sent_bytes = 0

    @property
    def where(self) -> TopicPartition:
        return self._plan.where

    async def fill(self) -> None:
        """Fill the partition. Return when all replicas in sync have its records."""
        plan = self._plan
        position = await self._send(None, -1)
        while position < plan.end_offset:
            data, next_offset = await self._next_run(position)
            reached = await self._sent(data, position)
            if reached == next_offset:
                self.sent_bytes += len(data)
            position = reached
            if position >= plan.end_offset:
                position = await self._send(None, -1)
        await self._check_markers(position)

    async def abort(self, opened: Sequence[ActiveProducer], wall_ms: int) -> int:
        """Abort transactions that are open in the whole log, and return how many. Those that are
        still open then must be given again."""
        plan = self._plan
        position = await self._send(None, -1)
        if position < plan.end_offset:
            raise BackupFailed(f"{plan.where} has lost records again: run the same command again")
        markers = bytearray()
        for offset, each in enumerate(opened, position):
            markers += _abort_marker(each, wall_ms, offset, plan.leader_epoch)
        return max(0, await self._sent(markers, position) - position)

    async def _check_markers(self, end_offset: int) -> None:
        """Raise BackupFailed if something else than markers stands behind the end of the backup."""
        plan = self._plan
        reader = LogReader(self._cluster, self._store, plan.topic_id, plan.where)
        position = plan.end_offset
        while position < end_offset:
            batches = list(walk(await reader.fetch(position)))
            if not batches or not all(each.header.is_control for each in batches):
                raise BackupFailed(
                    f"{plan.where} ends at {end_offset}, beyond {plan.end_offset}, where this "
                    "backup ends: delete the topic to restore it from another backup, or as of "
                    "another time"
                )
            position = batches[-1].header.next_offset

    async def _sent(self, records: Buffer, position: int) -> int:
        """Send batches, and return where the log ends now. Pause if it has not grown; raise
        BackupFailed if it does not grow at all."""
        reached = await self._send(records, position)
        if reached > position:
            self._stuck = 0
            return reached
        self._stuck += 1
        if self._stuck > _STUCK_MAX:
            raise BackupFailed(
                f"the leader of {self.where} takes no batch at offset {position}: run the same "
                "command again; if that does not help, delete the topic before"
            )
        await self._cluster.pause(self._stuck)
        return reached

    async def _next_run(self, position: int) -> tuple[Buffer, int]:
        plan = self._plan
        number = next(
            (at for at, each in enumerate(plan.chunks) if each.next_offset > position), None
        )
        if number is None:
            raise BackupFailed(f"the backup has nothing of {plan.where} from {position} on")
        await self._read(number, position)
        if position != self._before and all(position != each.next_offset for each in self._batches):
            raise BackupFailed(
                f"{plan.where} ends at {position}, where no batch of the backup ends, so something "
                "else is in it: delete the topic, and run the same command again"
            )
        left = [each for each in self._batches if each.next_offset > position]
        end = next_offset = 0
        for batch in left:
            if end and batch.end - left[0].begin > _RUN_BYTES:
                break
            end, next_offset = batch.end, batch.next_offset
        return memoryview(self._data)[left[0].begin : end], next_offset

    async def _read(self, number: int, position: int) -> None:
        """Read a chunk up to the batches that reach behind the position. What was read stays."""
        plan = self._plan
        chunk, before = plan.chunks[number], plan.first_offset
        if number:
            before = plan.chunks[number - 1].next_offset
        if chunk is not self._chunk or position < self._before:
            self._pieces = self._store.read_chunk(plan.topic_id, plan.where.partition, chunk)
            self._chunk, self._batches, self._before = chunk, [], before
        assert self._pieces is not None
        while not self._batches or self._batches[-1].next_offset <= position:
            data = await anext(self._pieces, None)
            if data is None:
                raise BackupFailed(f"the backup has nothing of {plan.where} from {position} on")
            if self._batches:
                self._before = self._batches[-1].next_offset
            self._data = data
            self._batches = [
                _Run(each.header.base_offset, each.header.next_offset, each.position, each.end)
                for each in walk(data)
                if each.header.base_offset < plan.end_offset
            ]

    async def _send(self, records: Buffer | None, log_end_offset: int) -> int:
        """Send batches for a log that ends there, or ask; return where the log ends now."""
        plan = self._plan
        request = RestoreRecordsRequest(
            name=plan.where.topic,
            topic_id=plan.topic_id,
            partition_index=plan.where.partition,
            log_end_offset=log_end_offset,
            start_offset=plan.first_offset,
            log_start_offset=min(plan.start_offset, plan.end_offset),
            records=records,
            timeout_ms=_TIMEOUT_MS,
        )

        async def attempt() -> int:
            leader = await self._cluster.leader(plan.where)
            answer = await self._cluster.call(
                request, RestoreRecordsResponse, node_id=leader, timeout_s=_TIMEOUT_MS / 500
            )
            code = answer.error_code
            if code == ErrorCode.OFFSET_OUT_OF_RANGE:
                return answer.log_end_offset
            if code:
                error = error_from(
                    "RestoreRecords", code, answer.error_message or "", **plan.where._asdict()
                )
                self._cluster.note(error)
                raise error
            return answer.log_end_offset

        return await self._cluster.retry(attempt)


def _abort_marker(
    opened: ActiveProducer, wall_ms: int, offset: int, leader_epoch: int
) -> bytearray:
    """Return the batch that aborts a transaction."""
    value = EndTxnMarker(coordinator_epoch=max(0, opened.coordinator_epoch))
    return encode_control_batch(
        [(ControlType.ABORT, encode_versioned(value, _MARKER_VERSION))],
        wall_ms,
        offset,
        leader_epoch=leader_epoch,
        producer=Producer(opened.producer_id, opened.epoch, -1, is_transactional=True),
    )
