"""The settings of a share group in the form in which its share partitions use them.

They are read from the settings of the group and the broker once, when those change, and not for
each record: a fetch and its acknowledgement ask for them a dozen times.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from moldau.broker.replication.partition import READ_COMMITTED, READ_UNCOMMITTED
from moldau.broker.settings.group import (
    bounded,
    errors_deadletterqueue_copy_record_enable,
    errors_deadletterqueue_topic_name,
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


KAFKA_LEVEL: Final = 2
"""The level of `share.version` from which on Kafka's names for dead letters count."""


class DeadLetterTopic(NamedTuple):
    """Where the letters of a share group go, and by whose rules."""

    name: str
    is_kafkas: bool = False
    """Whether Kafka's rules hold, because `errors.deadletterqueue.topic.name` names it."""
    has_copies: bool = True
    """Whether a letter has the key and the value of its record."""


class ShareSettings(NamedTuple):
    """The settings of a share group. An instance never changes."""

    lock_ms: int
    delivery_limit: int
    lock_limit: int
    may_renew: bool = True
    backoff_ms: tuple[int, ...] = ()
    """How long a record rests after its first delivery, its second, and so on; the last one counts
    for all that follow."""
    dead_letter_topic: DeadLetterTopic | None = None
    """Where letters go for records that are given up; None for nowhere."""
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
        up is not written there, unless Kafka's rules hold."""
        letters = self.dead_letter_topic
        is_own = letters is not None and not letters.is_kafkas and letters.name == topic
        return self._replace(dead_letter_topic=None) if is_own else self


def share_settings(settings: ResourceSettings, level: int = KAFKA_LEVEL) -> ShareSettings:
    """Read the settings of a group. `level` is that of `share.version`."""
    reset = parse_offset_reset(settings[share_auto_offset_reset])
    assert reset is not None, "the setting was checked"
    is_committed = settings[share_isolation_level] == "read_committed"
    return ShareSettings(
        bounded(settings, share_record_lock_duration_ms),
        bounded(settings, share_delivery_count_limit),
        bounded(settings, share_partition_max_record_locks),
        settings[share_renew_acknowledge_enable],
        tuple(map(parse_delay, settings[share_retry_backoff])),
        _dead_letter_topic(settings, level),
        READ_COMMITTED if is_committed else READ_UNCOMMITTED,
        settings[share_deliver_at_enable],
        reset,
    )


def _dead_letter_topic(settings: ResourceSettings, level: int) -> DeadLetterTopic | None:
    if settings[share_dlq_topic]:
        return DeadLetterTopic(settings[share_dlq_topic])
    name = settings[errors_deadletterqueue_topic_name]
    if not name or level < KAFKA_LEVEL:
        return None
    has_copies = settings[errors_deadletterqueue_copy_record_enable]
    return DeadLetterTopic(name, is_kafkas=True, has_copies=has_copies)
