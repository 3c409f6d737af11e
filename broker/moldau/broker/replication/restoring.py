"""Appends of a restore: batches that have their offsets and their leader epochs already.

Invariants:
- Only a topic that the controller made for a restore (`LogConfig.is_restoring`) takes them, and it
  takes nothing else: no batches of clients, no markers of coordinators. So a log with other records
  is never changed here.
- A batch is appended where the restore expects the log to end, so a repeated or late request
  changes nothing.
- Each batch is of an epoch below the partition's own. What clients write later is of a higher epoch
  than all that was restored, as in a log that never left its cluster.

Followers need nothing: they copy batches with their offsets, and begin where their leader's log
begins.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from moldau.errors.codes import ErrorCode, KafkaError
from moldau.records import walk

if TYPE_CHECKING:
    from moldau.broker.replication.partition import Partition
    from moldau.records import Buffer

_ALL_IN_SYNC: Final = -1


def begin_restored(partition: Partition, start_offset: int) -> None:
    """Let an empty log that is being restored begin at this offset. Durable on return. Raise
    KafkaError if the partition cannot take a restore here."""
    leader, log = partition.leadership, partition.log
    if not log.config.is_restoring:
        raise KafkaError(
            ErrorCode.POLICY_VIOLATION,
            "the topic is not being restored, and its records are left as they are",
            topic=partition.topic,
        )
    if log.log_start_offset == log.log_end_offset < start_offset:
        log.truncate_fully_and_start_at(start_offset)
        partition.on_appended(leader)
        partition.on_moved()


def append_restored(
    partition: Partition, records: Buffer, log_end_offset: int, now_ms: int
) -> None:
    """Append batches to a log that has begun and ends at `log_end_offset`. Raise KafkaError if it
    does not, or if one of them cannot stand there; then nothing is changed."""
    leader, log = partition.leadership, partition.log
    leader.check_acks(_ALL_IN_SYNC, leader.min_isr)
    if log.log_end_offset != log_end_offset:
        raise KafkaError(
            ErrorCode.OFFSET_OUT_OF_RANGE,
            "the log ends elsewhere",
            log_end_offset=log.log_end_offset,
            expected=log_end_offset,
        )
    room = log.state.owner.room
    if room.is_short:
        room.check()
    for batch in walk(records):
        if batch.header.partition_leader_epoch >= partition.leader_epoch:
            raise KafkaError(
                ErrorCode.INVALID_RECORD,
                "a batch is of a later leader epoch than the partition",
                epoch=batch.header.partition_leader_epoch,
                leader_epoch=partition.leader_epoch,
            )
    log.append_as_follower(records, now_ms)
    partition.on_appended(leader)


def is_restored(partition: Partition, end_offset: int) -> bool:
    """Whether the replicas in sync have all below this offset. Raise KafkaError if this one does
    not lead any more."""
    return partition.is_acknowledged(end_offset - 1, _ALL_IN_SYNC)


def raise_restored_start(partition: Partition, log_start_offset: int) -> bool:
    """Delete the records below this offset, if consumers could read those before it: the log began
    within a batch. Return whether the log start moved; `Replicas.log_starts_durable` makes that
    durable."""
    log = partition.log
    if not log.log_start_offset < log_start_offset <= log.high_watermark:
        return False
    log.increment_log_start_offset(log_start_offset)
    partition.on_moved()
    return True
