"""Batches of a source that go to the producer as columns, without a record each.

A batch is sent at once where nothing has to see its records: no transforms, errors are not
tolerated, and the connector does not ask about single records. A batch that cannot be converted as
a whole is left to the way of single records, which tells which of them is bad.

Invariant: a batch has one entry among the submitted offsets, safe when all its records are.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from moldau.client.sync import Producer
from moldau.connect.api import SourceBatch, SourceTask
from moldau.connect.errors import ConnectError
from moldau.connect.task.parts import Parts
from moldau.connect.task.submitted import Submitted
from moldau.errors.codes import KafkaError

if TYPE_CHECKING:
    from moldau.client.sync import Deliveries


@dataclass(frozen=True, slots=True)
class _Sent:
    """A batch on its way."""

    batch: SourceBatch
    entry: Submitted
    deliveries: Deliveries


class SourceBatches:
    """Those of one task."""

    def __init__(self, parts: Parts, task: SourceTask, producer: Producer) -> None:
        self._chain = parts.chain
        self._producer = producer
        self._is_possible = (
            not parts.tolerance.settings.tolerates
            and parts.chain.is_plain
            and type(task).commit_record is SourceTask.commit_record
        )
        self._sent: deque[_Sent] = deque()

    def convert(self, records: object) -> Converted | None:
        """The bytes of a batch; None for what has to go record by record."""
        if not self._is_possible or not isinstance(records, SourceBatch) or not records.topic:
            return None
        columns = self._chain.batch_bytes(records)
        return None if columns is None else Converted(records, *columns)

    def send(self, converted: Converted, submit: Callable[[], Submitted]) -> None:
        """Hand a batch to the producer. What it refuses fails the task."""
        batch, entry = converted.batch, submit()
        try:
            deliveries = self._producer.send_many(
                batch.topic, converted.values, keys=converted.keys
            )
        except KafkaError as error:
            raise _refused(batch, error) from error
        self._sent.append(_Sent(batch, entry, deliveries))

    def settle(self) -> int:
        """How many records have arrived since; their offsets may be stored."""
        arrived = 0
        while self._sent and self._sent[0].deliveries.is_done:
            sent = self._sent.popleft()
            try:
                sent.deliveries.result(0)
            except KafkaError as error:
                raise _refused(sent.batch, error) from error
            sent.entry.acknowledge()
            arrived += len(sent.batch)
        return arrived

    @property
    def waiting(self) -> int:
        """Records on their way, beside the one entry that each batch has."""
        return sum(len(sent.batch) - 1 for sent in self._sent)


@dataclass(frozen=True, slots=True)
class Converted:
    """A batch as the topic gets it."""

    batch: SourceBatch
    keys: list[bytes | None] | None
    values: list[bytes | None]


def _refused(batch: SourceBatch, error: KafkaError) -> ConnectError:
    return ConnectError("the cluster refused a record", topic=batch.topic, error=str(error))
