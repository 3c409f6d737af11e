"""Sends the columns of `SourceParts` to the producer as they are.

Possible where nothing looks at single records: no transforms and no interceptors, errors are not
tolerated, the task does not set the boundaries of transactions, and the converters pass bytes on.
Such records have no spans of their own; their `traceparent` headers are passed on.

Invariant: a part has one entry among the submitted offsets, safe when all its records are; the task
is told of a part (`commit_part`) only when it is durable, in a transaction when that is committed.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING

from moldau.client.sync import Producer
from moldau.connect.api import SourcePart, SourceParts, SourceRecord, SourceTask
from moldau.connect.task.parts import Parts
from moldau.connect.task.source_batches import refused
from moldau.connect.task.submitted import SubmittedRecord
from moldau.deferred import dataclass
from moldau.errors.codes import KafkaError

if TYPE_CHECKING:
    from moldau.client.sync import Deliveries


@dataclass(frozen=True, slots=True)
class _Sent:
    """A part that is sent and not acknowledged yet."""

    part: SourcePart
    entry: SubmittedRecord
    deliveries: Deliveries


class RawParts:
    """The parts of one task."""

    def __init__(
        self, parts: Parts, task: SourceTask, producer: Producer, *, sets_boundaries: bool = False
    ) -> None:
        self._task = task
        self._producer = producer
        self._is_possible = (
            not parts.tolerance.settings.tolerates
            and parts.chain.is_plain
            and parts.chain.passes_bytes
            and not sets_boundaries
            and not parts.client("producer").get("interceptor.classes", "").strip()
        )
        self._passes_headers = parts.chain.passes_headers
        self._sent: deque[_Sent] = deque()

    def taken(self, records: Sequence[SourceRecord] | None) -> Sequence[SourcePart] | None:
        """Return the parts of the polled records; None if they have to be sent otherwise."""
        if not self._is_possible or not isinstance(records, SourceParts):
            return None
        if not self._passes_headers and any(part.columns.headers for part in records.parts):
            return None
        return records.parts

    def send(self, part: SourcePart, entry: SubmittedRecord) -> None:
        """Pass a part to the producer. Raise ConnectError if the producer rejects it."""
        try:
            place = (part.topic, part.kafka_partition)
            deliveries = self._producer.send_batch(place, part.columns)
        except KafkaError as error:
            raise refused(part.topic, error) from error
        self._sent.append(_Sent(part, entry, deliveries))

    def settle(self, *, is_committed: bool = True) -> int:
        """Count the newly acknowledged records. Their offsets may be stored now. The task is told
        of them, unless their transaction was aborted."""
        arrived = 0
        while self._sent and self._sent[0].deliveries.is_done:
            sent = self._sent.popleft()
            try:
                places = sent.deliveries.result(0)
            except KafkaError as error:
                raise refused(sent.part.topic, error) from error
            sent.entry.acknowledge()
            arrived += len(sent.part)
            if is_committed:
                self._task.commit_part(sent.part, places)
        return arrived

    @property
    def waiting(self) -> int:
        """The number of unacknowledged records, without the one entry that each part has."""
        return sum(len(sent.part) - 1 for sent in self._sent)
