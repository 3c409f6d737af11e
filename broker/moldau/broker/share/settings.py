"""The settings of a share group in the form in which its share partitions use them.

They are read from the settings of the group and the broker once, when those change, and not for
each record: a fetch and its acknowledgement ask for them a dozen times.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from moldau.broker.replication.partition import READ_COMMITTED, READ_UNCOMMITTED
from moldau.broker.settings.group import (
    bounded,
    share_auto_offset_reset,
    share_deliver_at_enable,
    share_delivery_count_limit,
    share_dlq_topic,
    share_isolation_level,
    share_partition_max_record_locks,
    share_record_lock_duration_ms,
    share_renew_acknowledge_enable,
    share_retry_backoff,
)
from moldau.broker.settings.syntax import parse_delay, parse_offset_reset

if TYPE_CHECKING:
    from moldau.broker.settings import ResourceSettings


class ShareSettings(NamedTuple):
    """The settings of a share group. An instance never changes."""

    lock_ms: int
    delivery_limit: int
    lock_limit: int
    may_renew: bool = True
    backoff_ms: tuple[int, ...] = ()
    """How long a record rests after its first delivery, its second, and so on; the last one counts
    for all that follow."""
    dead_letter_topic: str = ""
    """Where records go that are given up; empty for nowhere."""
    isolation_level: int = READ_UNCOMMITTED
    """Whether the group sees only committed records."""
    delivers_at: bool = False
    """Whether records name the time before which the group does not get them."""
    reset: tuple[str, int] = ("latest", 0)
    """Where a group without a stored state begins: the way, and the milliseconds back."""

    def rest_after(self, deliveries: int) -> int:
        """Return how long a record rests that was delivered this often."""
        if not self.backoff_ms:
            return 0
        return self.backoff_ms[min(deliveries, len(self.backoff_ms)) - 1]

    def of_topic(self, topic: str) -> ShareSettings:
        """Return the settings for records of a topic. What the topic of dead letters itself gives
        up is not written there."""
        return self._replace(dead_letter_topic="") if topic == self.dead_letter_topic else self


def share_settings(settings: ResourceSettings) -> ShareSettings:
    """Read the settings of a group."""
    reset = parse_offset_reset(settings[share_auto_offset_reset])
    assert reset is not None, "the setting was checked"
    is_committed = settings[share_isolation_level] == "read_committed"
    return ShareSettings(
        bounded(settings, share_record_lock_duration_ms),
        bounded(settings, share_delivery_count_limit),
        bounded(settings, share_partition_max_record_locks),
        settings[share_renew_acknowledge_enable],
        tuple(map(parse_delay, settings[share_retry_backoff])),
        settings[share_dlq_topic],
        READ_COMMITTED if is_committed else READ_UNCOMMITTED,
        settings[share_deliver_at_enable],
        reset,
    )
