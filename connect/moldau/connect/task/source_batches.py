"""Sends source records to the producer many at a time.

The records of a poll are sent at once where nothing has to handle them one by one: no transforms,
errors are not tolerated, and the task does not set the boundaries of transactions. They are

- `SourceParts`, whose columns are sent as they are if the converters pass bytes on and there are no
  interceptors. They have no spans of their own; their `traceparent` headers are passed on;
- a `SourceBatch` or `SourceValues`, which are converted as a whole, or a list whose records have
  one topic and one source partition, unless the connector overrides `commit_record`. Records that
  cannot be converted as a whole are sent one by one, which shows which of them is bad.

Invariant: a batch has one entry among the submitted offsets, safe when all its records are.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from moldau.client.sync import Producer
from moldau.connect.api import (
    SourceBatch,
    SourcePart,
    SourceParts,
    SourceRecord,
    SourceTask,
    SourceValues,
)
from moldau.connect.errors import ConnectError
from moldau.connect.task.parts import Parts
from moldau.connect.task.spans import SourceSpans, end_all
from moldau.connect.task.submitted import SubmittedRecord
from moldau.connect.task.tolerance import Stage
from moldau.deferred import dataclass
from moldau.errors import without_frames
from moldau.errors.codes import KafkaError

if TYPE_CHECKING:
    from moldau.client.sync import Deliveries
    from moldau.tracing import Span

# For fewer records the call to the producer's thread costs more than a batch saves.
_RECORDS_MIN: Final = 10


@dataclass(frozen=True, slots=True)
class ConvertedRecords:
    """Records of one topic and one source partition, as they are written to the topic."""

    topic: str
    source_partition: Mapping[str, Any] | None
    last_offset: dict[str, Any] | None
    keys: list[bytes | None] | None
    values: list[bytes | None]
    timestamps: list[int | None] | None = None
    partitions: list[int | None] | None = None

    def __len__(self) -> int:
        return len(self.values)


@dataclass(frozen=True, slots=True)
class _Sent:
    """A batch that is sent and not acknowledged yet."""

    topic: str
    entry: SubmittedRecord
    deliveries: Deliveries
    spans: Sequence[Span] = ()


class SourceBatches:
    """The batches of one task."""

    def __init__(
        self,
        parts: Parts,
        task: SourceTask,
        producer: Producer,
        *,
        sets_boundaries: bool = False,
        spans: SourceSpans | None = None,
    ) -> None:
        self._spans = spans
        self._chain = parts.chain
        self._producer = producer
        is_possible = (
            not parts.tolerance.settings.tolerates and parts.chain.is_plain and not sets_boundaries
        )
        self._takes_records = is_possible and type(task).commit_record is SourceTask.commit_record
        self._takes_parts = (
            is_possible
            and parts.chain.passes_bytes
            and not parts.client("producer").get("interceptor.classes", "").strip()
        )
        self._sent: deque[_Sent] = deque()

    def made(
        self, records: Sequence[SourceRecord]
    ) -> Sequence[ConvertedRecords | SourcePart] | None:
        """Return the batches of the polled records; None if they have to be sent one by one."""
        if isinstance(records, SourceParts) and self._takes_parts:
            passes = self._chain.passes_headers
            if passes or not any(part.columns.headers for part in records.parts):
                return records.parts
        if not self._takes_records or len(records) < _RECORDS_MIN:
            return None
        if isinstance(records, SourceBatch | SourceValues):
            found = self._converted(records) if records.topic else None
        else:
            found = self._alike(records)
        return None if found is None else [found]

    def _converted(self, batch: SourceBatch | SourceValues) -> ConvertedRecords | None:
        columns = self._chain.batch_bytes(batch)
        if columns is None:
            return None
        stamp = batch.timestamp if isinstance(batch, SourceValues) else None
        stamps: list[int | None] | None = None if stamp is None else [stamp] * len(batch)
        where = batch.topic, batch.source_partition, batch.last_offset
        return ConvertedRecords(*where, *columns, stamps)

    def _alike(self, records: Sequence[SourceRecord]) -> ConvertedRecords | None:
        first = records[0]
        topic, partition = first.topic, first.source_partition
        if not topic or any(
            each.topic != topic or each.headers or each.source_partition != partition
            for each in records
        ):
            return None
        columns = self._chain.records_bytes(topic, records)
        if columns is None:
            return None
        stamps = [each.timestamp for each in records]
        places = [each.kafka_partition for each in records]
        return ConvertedRecords(
            topic,
            partition,
            records[-1].source_offset,
            *columns,
            stamps if any(stamp is not None for stamp in stamps) else None,
            places if any(place is not None for place in places) else None,
        )

    def send(self, batch: ConvertedRecords | SourcePart, entry: SubmittedRecord) -> None:
        """Pass a batch to the producer. Raise ConnectError if the producer rejects it."""
        spans: Sequence[Span] = ()
        try:
            if isinstance(batch, SourcePart):
                where = (batch.topic, batch.kafka_partition)
                deliveries = self._producer.send_batch(where, batch.columns)
            else:
                headers = None
                if self._spans is not None:
                    headers, spans = self._spans.begin_many(batch.topic, len(batch))
                deliveries = self._producer.send_many(
                    batch.topic,
                    batch.values,
                    keys=batch.keys,
                    headers=headers,
                    timestamps_ms=batch.timestamps,
                    partition=batch.partitions,
                )
        except KafkaError as error:
            self._end(spans, error)
            raise refused(batch.topic, error) from error
        self._sent.append(_Sent(batch.topic, entry, deliveries, spans))

    def arrivals(self) -> Iterator[tuple[SubmittedRecord, object, ConnectError | None]]:
        """Yield the newly acknowledged batches, with the places of their records, and those that
        the cluster rejects, with the error."""
        while self._sent and self._sent[0].deliveries.is_done:
            sent = self._sent.popleft()
            try:
                places = sent.deliveries.result(0)
            except KafkaError as error:
                self._end(sent.spans, error)
                yield sent.entry, None, refused(sent.topic, error)
            else:
                self._end(sent.spans)
                yield sent.entry, places, None

    def _end(self, spans: Sequence[Span], error: KafkaError | None = None) -> None:
        if self._spans is not None:
            end_all(self._spans.tracer, spans, error)


def refused(topic: str, error: KafkaError) -> ConnectError:
    """Return the error of a task after the cluster has rejected its records."""
    made = ConnectError(
        "the cluster refused a record",
        stage=Stage.KAFKA_PRODUCE.value,
        topic=topic,
        error=str(error),
    )
    made.__cause__ = without_frames(error)
    return made
