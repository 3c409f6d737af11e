"""The states of the share partitions of one partition of `__share_group_state`: a shard of the
share coordinator.

Invariants:
- The table is what the log says. An update without a snapshot before it is ignored: the snapshot
  was pruned together with a later tombstone.
- After `share.coordinator.snapshot.update.records.per.snapshot` updates the next write is a
  snapshot, so a state is never spread over more records than that.
- The log before the oldest of the last snapshots is not needed, and is pruned from time to time. A
  state without writes is written again, if others were written since: otherwise it would keep
  their whole log.
- The states of a deleted topic are deleted: when the topic is deleted, or when the shard is loaded.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from moldau.broker.coordinator.outcome import NOTHING, LogRecord, Outcome, Ticket
from moldau.broker.coordinator.share.effects import Prune
from moldau.broker.coordinator.share.state import (
    Epochs,
    SharePartitionKey,
    ShareState,
    Write,
    deleted,
)
from moldau.broker.settings import share as settings
from moldau.protocol.schemas.share_log import (
    ShareSnapshotKey,
    ShareSnapshotValue,
    ShareUpdateKey,
    ShareUpdateValue,
)

if TYPE_CHECKING:
    from moldau.broker.coordinator.share.services import ShareStateServices
    from moldau.errors.codes import KafkaError
    from moldau.ids import Uuid
    from moldau.protocol.declare import LogKey, LogValue

AT_ONCE: Final = 500
"""The most snapshots or tombstones of one tick."""


class _Stored:
    """A state with what the log has of it."""

    __slots__ = ("epochs", "snapshot_at", "state", "updates")

    def __init__(self, state: ShareState, epochs: Epochs, snapshot_at: int) -> None:
        self.state = state
        self.epochs = epochs
        self.snapshot_at = snapshot_at
        """The offset of its last snapshot."""
        self.updates = 0
        """The number of updates since then."""


class ShareStates:
    """A shard of the share coordinator; satisfies `coordinator.shard.Shard`."""

    def __init__(self, services: ShareStateServices) -> None:
        self.services = services
        self._known: dict[SharePartitionKey, _Stored] = {}
        self._end_offset = 0
        """The offset after the last record."""
        self._pruned = 0
        self._written_again_at = 0
        """The end of the log after the states without writes were last written again."""
        self._prune_ms: int | None = None
        """When to prune next. None before the shard is loaded."""
        self._again_ms = 0
        self._orphans: list[SharePartitionKey] = []
        """States of deleted topics."""

    # Lookup.

    def get(self, key: SharePartitionKey) -> ShareState | None:
        """Return the state of this key, or None."""
        known = self._known.get(key)
        return None if known is None else known.state

    def epochs(self, key: SharePartitionKey) -> Epochs:
        """Return the epochs that fence late requests."""
        known = self._known.get(key)
        return Epochs() if known is None else known.epochs

    def __len__(self) -> int:
        return len(self._known)

    def __iter__(self) -> Iterator[SharePartitionKey]:
        return iter(self._known)

    def exists(self, topic_id: Uuid, partition: int) -> bool:
        """Whether the cluster has this partition."""
        return 0 <= partition < self.services.partition_count(topic_id)

    # For decisions.

    def written(self, key: SharePartitionKey, write: Write, now_ms: int) -> LogRecord:
        """Return the record of a write to a known state."""
        known = self._known[key]
        state = known.state
        limit = self.services.settings[
            settings.share_coordinator_snapshot_update_records_per_snapshot
        ]
        update = write.update(key, state.snapshot_epoch)
        if known.updates < limit:
            return update
        assert isinstance(update.value, ShareUpdateValue)
        return self._next_snapshot(key, state.updated(update.value), now_ms)

    def _next_snapshot(
        self, key: SharePartitionKey, state: ShareState, now_ms: int, *, is_new: bool = True
    ) -> LogRecord:
        wall_ms = self.services.wall_ms(now_ms)
        return replace(
            state,
            snapshot_epoch=state.snapshot_epoch + 1,
            created_ms=wall_ms if is_new else state.created_ms,
            written_ms=wall_ms,
        ).snapshot(key)

    # Replay.

    def replay(
        self, offset: int, producer_id: int, key: LogKey, value: LogValue | None, now_ms: int
    ) -> None:
        """Apply one record of the log."""
        self._end_offset = offset + 1
        assert isinstance(key, ShareSnapshotKey | ShareUpdateKey)
        place = SharePartitionKey(key.group_id, key.topic_id, key.partition)
        if isinstance(value, ShareUpdateValue):
            known = self._known.get(place)
            if known is not None:
                known.state = known.state.updated(value)
                known.epochs = known.epochs.with_those_of(known.state)
                known.updates += 1
        elif value is None:
            if isinstance(key, ShareSnapshotKey):
                self._known.pop(place, None)
        else:
            assert isinstance(value, ShareSnapshotValue)
            self._replay_snapshot(place, ShareState.of_value(value), offset)

    def _replay_snapshot(self, key: SharePartitionKey, state: ShareState, offset: int) -> None:
        known = self._known.get(key)
        epochs = Epochs() if known is None else known.epochs
        self._known[key] = _Stored(state, epochs.with_those_of(state), offset)

    def replay_end(self, producer_id: int, *, is_commit: bool) -> None:
        """Do nothing: no transaction writes to this log."""

    # After each step.

    @property
    def is_settled(self) -> bool:
        return self._prune_ms is not None and not self._orphans

    def settle(self, now_ms: int) -> Outcome | None:
        """After loading, begin to tidy up. Return the tombstones of orphans, part by part."""
        if self._prune_ms is None:
            self._prune_ms = now_ms + self._prune_interval_ms()
            self._again_ms = now_ms + self._again_interval_ms()
            self._written_again_at = self._end_offset
            if self.services.knows_topics:
                self._find_orphans()
        if not self._orphans:
            return None
        gone = self._orphans[-AT_ONCE:]
        del self._orphans[-AT_ONCE:]
        # A rejected deletion is found again when the shard is loaded.
        return Outcome(tuple(deleted(key) for key in gone if key in self._known))

    def _find_orphans(self) -> None:
        exists = self.services.partition_count
        self._orphans = [key for key in self._known if not exists(key.topic_id)]

    def on_topics_changed(
        self, changed: Collection[str], deleted: Collection[str], now_ms: int
    ) -> Iterable[Outcome]:
        """Delete the states of deleted topics, in the `settle` that follows."""
        if deleted:
            self._find_orphans()
        return ()

    def on_unloaded(self) -> tuple[Ticket, ...]:
        """Return no tickets: no request is parked in the core."""
        return ()

    # Time.

    def _prune_interval_ms(self) -> int:
        return self.services.settings[settings.share_coordinator_state_topic_prune_interval_ms]

    def _again_interval_ms(self) -> int:
        return self.services.settings[
            settings.share_coordinator_cold_partition_snapshot_interval_ms
        ]

    def next_deadline_ms(self) -> int | None:
        """Return the time to prune, or to write states again."""
        return None if self._prune_ms is None else min(self._prune_ms, self._again_ms)

    def on_tick(self, now_ms: int) -> Outcome:
        """Write states again that had no writes for long, or prune the log."""
        if now_ms >= self._again_ms:
            return self._write_again(now_ms)
        if self._prune_ms is not None and now_ms >= self._prune_ms:
            self._prune_ms = now_ms + self._prune_interval_ms()
            needed = self.needed_from
            if needed > self._pruned:
                self._pruned = needed
                return Outcome((), (), (Prune(needed),))
        return NOTHING

    @property
    def needed_from(self) -> int:
        """The offset of the first record that a state needs."""
        return min((each.snapshot_at for each in self._known.values()), default=self._end_offset)

    def _write_again(self, now_ms: int) -> Outcome:
        self._again_ms = now_ms + self._again_interval_ms()
        if self._end_offset == self._written_again_at:
            return NOTHING
        old_ms = self.services.wall_ms(now_ms) - self._again_interval_ms()
        old = [key for key, each in self._known.items() if each.state.written_ms <= old_ms]
        if len(old) > AT_ONCE:
            self._again_ms = now_ms  # the next tick goes on
        else:
            self._written_again_at = self._end_offset + len(old)
        records = tuple(
            self._next_snapshot(key, self._known[key].state, now_ms, is_new=False)
            for key in old[:AT_ONCE]
        )

        def later(error: KafkaError, failed_ms: int) -> Outcome:
            self._again_ms = failed_ms + self._again_interval_ms()
            return NOTHING

        return Outcome(records, on_failure=later) if records else NOTHING
