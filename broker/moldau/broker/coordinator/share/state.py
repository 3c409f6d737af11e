"""What is stored of one share partition, and its records.

A snapshot has all of it. An update has what one write brings. A state is its last snapshot with the
updates after it. Two epochs fence late writers: the leader epoch of the partition, and the state
epoch, which grows when the state is set anew.

Invariant: a value of `ShareState` never changes; each record replaces it by another.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Final, NamedTuple, Protocol

from moldau.broker.coordinator.outcome import LogRecord
from moldau.broker.coordinator.share.combining import NO_OFFSET, Run, Runs, combined
from moldau.deferred import dataclass
from moldau.ids import Uuid, format_uuid, parse_uuid
from moldau.protocol.schemas.share_log import (
    ShareSnapshotKey,
    ShareSnapshotValue,
    ShareUpdateKey,
    ShareUpdateValue,
    StateBatch,
)

NO_EPOCH: Final = -1
UNKNOWN_COUNT: Final = -1
VERSION: Final = 0


class SharePartitionKey(NamedTuple):
    """A partition as one share group reads it."""

    group_id: str
    topic_id: Uuid
    partition: int

    def __str__(self) -> str:
        """The key in FindCoordinator."""
        return f"{self.group_id}:{format_uuid(self.topic_id)}:{self.partition}"

    @classmethod
    def parse(cls, text: str) -> SharePartitionKey:
        """Return the key that a client wrote. Raise ValueError if it is none."""
        group_id, topic_id, partition = text.rsplit(":", 2)
        if not group_id.strip():
            raise ValueError("the group id of a share partition's key is empty")
        return cls(group_id, parse_uuid(topic_id), int(partition))


class BatchLike(Protocol):
    """A run of offsets in any request, response or record."""

    first_offset: int
    last_offset: int
    delivery_state: int
    delivery_count: int
    not_before_ms: int


def runs_of(batches: Iterable[BatchLike]) -> Runs:
    """Return the runs of a message."""
    return tuple(
        Run(
            each.first_offset,
            each.last_offset,
            each.delivery_state,
            each.delivery_count,
            each.not_before_ms,
        )
        for each in batches
    )


@dataclass(frozen=True, slots=True)
class ShareState:
    """The state of one share partition."""

    snapshot_epoch: int
    state_epoch: int
    leader_epoch: int
    start_offset: int
    """Everything before it is done. -1: the partition's leader chooses where the group begins."""
    complete_count: int
    """How many records from the start offset on are done (KIP-1226); -1 is unknown."""
    created_ms: int
    written_ms: int
    runs: Runs = ()

    @classmethod
    def of_value(cls, value: ShareSnapshotValue) -> ShareState:
        """Return the state in a snapshot."""
        return cls(
            value.snapshot_epoch,
            value.state_epoch,
            value.leader_epoch,
            value.start_offset,
            value.delivery_complete_count,
            value.create_timestamp,
            value.write_timestamp,
            runs_of(value.state_batches),
        )

    def updated(self, value: ShareUpdateValue) -> ShareState:
        """Return the state after an update."""
        is_unknown = value.leader_epoch == NO_EPOCH
        start = self.start_offset if value.start_offset == NO_OFFSET else value.start_offset
        return replace(
            self,
            leader_epoch=self.leader_epoch if is_unknown else value.leader_epoch,
            start_offset=start,
            complete_count=value.delivery_complete_count,
            runs=combined(self.runs, runs_of(value.state_batches), start),
        )

    def snapshot(self, key: SharePartitionKey) -> LogRecord:
        """Return the record that holds this state."""
        value = ShareSnapshotValue(
            snapshot_epoch=self.snapshot_epoch,
            state_epoch=self.state_epoch,
            leader_epoch=self.leader_epoch,
            start_offset=self.start_offset,
            delivery_complete_count=self.complete_count,
            create_timestamp=self.created_ms,
            write_timestamp=self.written_ms,
            state_batches=_batches(self.runs),
        )
        return LogRecord(_snapshot_key(key), value, VERSION)


class Epochs(NamedTuple):
    """The highest epochs that the records of a share partition have had. They never fall, even if
    the state begins anew; a tombstone forgets them."""

    state: int = NO_EPOCH
    leader: int = NO_EPOCH

    def with_those_of(self, state: ShareState) -> Epochs:
        """Return the epochs after a record that made this state."""
        return Epochs(max(self.state, state.state_epoch), max(self.leader, state.leader_epoch))


@dataclass(frozen=True, slots=True)
class Write:
    """One change of a state."""

    leader_epoch: int
    start_offset: int
    complete_count: int
    runs: Runs = ()

    def update(self, key: SharePartitionKey, snapshot_epoch: int) -> LogRecord:
        """Return the record of this change."""
        value = ShareUpdateValue(
            snapshot_epoch=snapshot_epoch,
            leader_epoch=self.leader_epoch,
            start_offset=self.start_offset,
            delivery_complete_count=self.complete_count,
            state_batches=_batches(combined((), self.runs, self.start_offset)),
        )
        return LogRecord(
            ShareUpdateKey(group_id=key.group_id, topic_id=key.topic_id, partition=key.partition),
            value,
            VERSION,
        )


def deleted(key: SharePartitionKey) -> LogRecord:
    """Return the tombstone of a state."""
    return LogRecord(_snapshot_key(key))


def _snapshot_key(key: SharePartitionKey) -> ShareSnapshotKey:
    return ShareSnapshotKey(group_id=key.group_id, topic_id=key.topic_id, partition=key.partition)


def _batches(runs: Runs) -> list[StateBatch]:
    return [
        StateBatch(
            first_offset=run.first,
            last_offset=run.last,
            delivery_state=run.state,
            delivery_count=run.deliveries,
            not_before_ms=run.not_before_ms,
        )
        for run in runs
    ]
