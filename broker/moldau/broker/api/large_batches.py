"""Produced batches that decompress to more than the event loop takes.

A few kilobytes can become a hundred megabytes, whose check takes seconds. It runs in a thread, one
batch at a time on a node, in parts, while other connections are served. The batches are copies: the
connection's buffer is used again. Together they take UNCHECKED_BYTES_MAX at most, or one request;
what is beyond is refused with an error after which clients send it again.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from moldau.broker.api.record_errors import record_errors
from moldau.broker.replication.partition import judge as check_in_thread
from moldau.errors import without_frames
from moldau.errors.codes import ErrorCode, KafkaError
from moldau.runtime.process import short_turns

if TYPE_CHECKING:
    from moldau.broker.api.node import Node
    from moldau.broker.log.admission import Admitted
    from moldau.broker.replication.partition import Partition
    from moldau.protocol.messages.produce import BatchIndexAndErrorMessage

UNCHECKED_BYTES_MAX: Final = 64 << 20


class BatchVerdict(NamedTuple):
    """What the check of a batch has found: it may be appended, or the error and its records."""

    admitted: Admitted | None
    error: KafkaError | None = None
    record_errors: tuple[BatchIndexAndErrorMessage, ...] = ()


class LargeBatch(NamedTuple):
    """A batch that waits for its check, and the place of its answer in the response."""

    answers: list[Any]
    position: int
    topic: str
    topic_id: bytes
    partition: int
    records: bytearray
    check: Callable[[], BatchVerdict]


def check_of(
    node: Node, partition: Partition, records: bytearray, now_ms: int
) -> Callable[[], BatchVerdict]:
    """Return the check of a batch, for a thread. Raise KafkaError if too many wait for theirs."""
    if node.unchecked_bytes and node.unchecked_bytes + len(records) > UNCHECKED_BYTES_MAX:
        raise KafkaError(
            ErrorCode.NOT_ENOUGH_REPLICAS, "too many large batches wait for their check"
        )
    return partial(_judged, check_in_thread(partition, records, now_ms), partition, records, now_ms)


async def judge(node: Node, batch: LargeBatch) -> BatchVerdict:
    """Check one batch in the thread."""
    return await node.large_batches.result(node.runtime, batch.check)


def _judged(
    check: Callable[[], Admitted], partition: Partition, records: bytearray, now_ms: int
) -> BatchVerdict:
    with short_turns():  # the event loop waits for half a millisecond at most
        try:
            return BatchVerdict(check())
        except KafkaError as error:
            rows = record_errors(records, error, partition.log_config, now_ms, is_large=True)
            return BatchVerdict(None, without_frames(error), tuple(rows))
