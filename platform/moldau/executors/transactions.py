"""The transaction of a task: a producer that fences earlier attempts, and offsets that record it.

An attempt opens the producer first. From then on no earlier attempt can commit: not a speculative
one, and not one of an executor or driver that was taken for dead. What they left open is aborted.
Then the attempt reads what the last transaction has recorded; in the other order an earlier attempt
could commit between the two.

Why not one transaction for all tasks of a batch: the driver would have to end it, and Kafka has no
prepared transactions that another process may end (KIP-939).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from moldau.client import GroupMetadata, OffsetAndMetadata, TopicPartition
from moldau.client.sync import Admin, Producer

_TIMEOUT: Final = {"transaction.timeout.ms": "900000"}
"""The longest that brokers allow by default: a transaction lasts while its task gets and processes
records. Settings of the user replace it."""


def fencing_producer(settings: Mapping[str, str], transactional_id: str) -> Producer[Any, Any]:
    """Return a producer that fences earlier ones of the task when it is opened."""
    return Producer({**_TIMEOUT, **settings, "transactional.id": transactional_id})


def recorded_offsets(
    admin: Admin, group: str, partitions: Sequence[TopicPartition] | None = None
) -> Mapping[TopicPartition, OffsetAndMetadata]:
    """Return what the last transaction has recorded. A transaction that is about to end is waited
    for."""
    return admin.group_offsets(group, partitions, require_stable=True)


def record_offsets(
    producer: Producer[Any, Any], group: str, offsets: Mapping[TopicPartition, OffsetAndMetadata]
) -> None:
    """Record offsets with the transaction. Brokers keep both or neither."""
    producer.send_offsets(offsets, GroupMetadata(group, -1, "", None))
