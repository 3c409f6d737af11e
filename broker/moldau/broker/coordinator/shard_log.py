"""The log of one shard for its decision runtime: a partition that this node leads.

Invariant: an append in another leader epoch than the partition's is rejected. Its decision may be
based on records that were truncated since.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from moldau.broker.coordinator.batches import encode_batch
from moldau.errors.codes import ErrorCode, KafkaError
from moldau.protocol.failures import UnencodableMessage

if TYPE_CHECKING:
    from moldau.broker.coordinator.outcome import LogRecord
    from moldau.broker.coordinator.running_shard import ShardSettings
    from moldau.broker.decision.log import Append
    from moldau.broker.replication.partition import Partition
    from moldau.logging import Logger
    from moldau.protocol.schemas.coordinator_log import CoordinatorLog


class Encoding(NamedTuple):
    """How records are encoded as batches."""

    schema: CoordinatorLog
    terms: Callable[[], ShardSettings]
    wall_ms: Callable[[], int]
    log: Logger


class ShardLog:
    """The log of one shard. Satisfies `decision.log.DecisionLog`."""

    __slots__ = ("_encoding", "_leader_id", "_partition")

    def __init__(self, partition: Partition, encoding: Encoding) -> None:
        self._partition = partition
        self._leader_id = partition.leader_id if partition.is_leader else None
        """The id of this node, if it leads."""
        self._encoding = encoding

    @property
    def leader_epoch(self) -> int | None:
        partition = self._partition
        return partition.leader_epoch if partition.leader_id == self._leader_id else None

    @property
    def end_offset(self) -> int:
        return self._partition.offsets.log_end_offset

    @property
    def high_watermark(self) -> int:
        return self._partition.offsets.high_watermark

    def is_level(self, leader_epoch: int) -> bool:
        partition = self._partition
        log = partition.offsets
        return (
            log.high_watermark >= log.log_end_offset
            and partition.leader_epoch == leader_epoch
            and partition.leader_id == self._leader_id
        )

    def append(self, append: Append[LogRecord]) -> int:
        partition, encoding = self._partition, self._encoding
        records, leader_epoch, producer, _ = append
        if leader_epoch != partition.leader_epoch:
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        wall_ms = encoding.wall_ms()
        limit, codec = partition.log_config.max_message_bytes, encoding.terms().codec
        try:
            batch = encode_batch(encoding.schema, records, wall_ms, codec, limit, producer)
        except UnencodableMessage as error:  # a bug; only the callers of this batch get the error
            facts = {"topic": partition.topic, "partition": partition.index}
            encoding.log.failure("a record does not fit its schema", error, **facts)
            raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR) from error
        return partition.append_own(batch, wall_ms).first_offset
