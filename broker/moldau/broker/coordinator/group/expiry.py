"""Delete offsets that are too old, and empty groups without offsets.

The group determines when the age of an offset begins (`offset_age_since_ms`): for a classic group
when it became empty; for a consumer group, and for a client that commits without joining a group,
at each commit (KIP-211). Offsets of topics that members read are kept, and those that an open
transaction may change.

A search goes over all groups of the shard at every `offsets.retention.check.interval.ms`, a few
groups at a time.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from moldau.broker.coordinator.group.offsets import NO_EXPIRY, tombstone
from moldau.broker.coordinator.outcome import NOTHING, LogRecord, Outcome
from moldau.broker.settings import offset as settings

if TYPE_CHECKING:
    from moldau.broker.coordinator.group.contract import Group
    from moldau.broker.coordinator.group.groups import Groups
    from moldau.broker.coordinator.group.offsets import PartitionCommit

GROUPS_AT_ONCE: Final = 100
TOMBSTONES_MAX: Final = 1000
_MINUTE_MS: Final = 60_000


class Expiry:
    """The search in one shard."""

    def __init__(self, groups: Groups) -> None:
        self.next_ms: int | None = None
        """The time at which `on_tick` is due; None before the shard is loaded."""
        self._groups = groups
        self._left: list[str] = []

    def begin(self, now_ms: int) -> None:
        """Schedule the first search one interval after loading. Later calls do nothing."""
        if self.next_ms is None:
            self.next_ms = now_ms + self._interval_ms()

    def on_tick(self, now_ms: int) -> Outcome:
        """Check some groups, up to the first one with something to delete."""
        if not self._left:
            self._left = [group.group_id for group in self._groups]
        for _ in range(min(GROUPS_AT_ONCE, len(self._left))):
            group_id = self._left[-1]
            records, is_done = self.expired(group_id, now_ms)
            if is_done:
                self._left.pop()
            if records:
                self._groups.touch(group_id)
                self._go_on(now_ms)
                return Outcome(records)
        self._go_on(now_ms)
        return NOTHING

    def _go_on(self, now_ms: int) -> None:
        if not self._left:
            self.next_ms = now_ms + self._interval_ms()

    def _interval_ms(self) -> int:
        return self._groups.services.settings[settings.offsets_retention_check_interval_ms]

    def expired(self, group_id: str, now_ms: int) -> tuple[tuple[LogRecord, ...], bool]:
        """Return the tombstones of the group's expired offsets, and of the group itself if nothing
        else is left. The flag is false if more offsets remain to be deleted."""
        group = self._groups.get(group_id)
        if group is None or not group.expires:
            return (), True
        offsets = self._groups.offsets
        wall_ms = self._groups.services.wall_ms(now_ms)
        records: list[LogRecord] = []
        is_all = True
        for topic, partitions in offsets.of_group(group_id).items():
            if group.is_subscribed_to(topic):
                is_all = False
                continue
            for partition, committed in partitions.items():
                if offsets.is_pending(group_id, topic, partition) or not self._is_expired(
                    group, topic, committed, wall_ms
                ):
                    is_all = False
                    continue
                if len(records) >= TOMBSTONES_MAX:
                    self._count(records)
                    return tuple(records), False
                records.append(tombstone(group_id, topic, partition))
        self._count(records)
        if is_all and group.is_empty and not offsets.is_in_transaction(group_id):
            records += group.tombstones()
            self._groups.forget_if_bare(group_id)
        return tuple(records), True

    def _count(self, records: Sequence[LogRecord]) -> None:
        self._groups.services.counts.offsets_expired.value += len(records)

    def _is_expired(
        self, group: Group, topic: str, committed: PartitionCommit, wall_ms: int
    ) -> bool:
        since_ms = group.offset_age_since_ms(committed.committed_ms, topic)
        if since_ms is None:
            return False
        if committed.expires_ms != NO_EXPIRY:
            return wall_ms >= committed.expires_ms
        retention_minutes: int = self._groups.services.settings[settings.offsets_retention_minutes]
        return wall_ms - since_ms >= retention_minutes * _MINUTE_MS
