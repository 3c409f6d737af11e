"""Fills one partition from its chunks.

The leader says where its log ends, and the next batches go there: after a kill, a lost answer or a
change of the leader nothing is twice and nothing is left out. A batch is sent with its offset, and
the leader refuses it where it does not stand.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from moldau.backups.manifest import BackupFailed, Chunk
from moldau.errors.codes import ErrorCode, error_from
from moldau.link.metadata import TopicPartition
from moldau.protocol.messages.restore_records import (
    RestoreRecordsRequest,
    RestoreRecordsResponse,
)
from moldau.records import walk

if TYPE_CHECKING:
    from collections.abc import Sequence

    from moldau.backups.backup_store import BackupStore
    from moldau.link.cluster import Cluster
    from moldau.records import Buffer

_RUN_BYTES: Final = 1 << 20
_TIMEOUT_MS: Final = 10_000


class LogPlan(NamedTuple):
    """What one partition is to be."""

    topic_id: bytes
    where: TopicPartition
    start_offset: int
    end_offset: int
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
        self._data: Buffer = b""
        self._batches: list[_Run] = []
        self.sent_bytes = 0

    async def fill(self) -> None:
        """Fill the partition. Return when all replicas in sync have its records."""
        plan = self._plan
        position = await self._send(None, -1)
        while position != plan.end_offset:
            if position > plan.end_offset:
                raise BackupFailed(
                    f"{plan.where} ends at {position}, beyond {plan.end_offset}, where this backup "
                    "ends: delete the topic to restore it from another backup, or as of another "
                    "time"
                )
            data, next_offset = await self._next_run(position)
            reached = await self._send(data, position)
            if reached == next_offset:
                self.sent_bytes += len(data)
            position = reached
            if position == plan.end_offset:
                position = await self._send(None, -1)

    async def _next_run(self, position: int) -> tuple[Buffer, int]:
        plan = self._plan
        chunk = next((each for each in plan.chunks if each.next_offset > position), None)
        if chunk is None:
            raise BackupFailed(f"the backup has nothing of {plan.where} from {position} on")
        if chunk is not self._chunk:
            self._data = await self._store.read_chunk(plan.topic_id, plan.where.partition, chunk)
            self._chunk = chunk
            self._batches = [
                _Run(each.header.base_offset, each.header.next_offset, each.position, each.end)
                for each in walk(self._data)
                if each.header.base_offset < plan.end_offset
            ]
        left = [each for each in self._batches if each.next_offset > position]
        end = next_offset = 0
        for batch in left:
            if end and batch.end - left[0].begin > _RUN_BYTES:
                break
            end, next_offset = batch.end, batch.next_offset
        return memoryview(self._data)[left[0].begin : end], next_offset

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
