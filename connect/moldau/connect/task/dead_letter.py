"""The dead letter queue of a sink: the record as it was consumed, with headers that say why.

Invariant: offsets are committed only after `settle`, which waits until every reported record is in
the queue and fails the task if one is not: a record is in the target, in the queue, or read again.
It fails each time from then on: a sink may catch the error and go on. A record that is already in
the queue is not sent again: the runner commits the offsets of these records (`Places`).
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Collection, Mapping
from traceback import format_exception
from typing import Final

from moldau.client import ConsumerRecord, KafkaError, OffsetAndMetadata, TopicPartition
from moldau.client.sync import Consumer, Delivery, Producer
from moldau.connect.errors import ConnectError, DataError, RetriableError
from moldau.connect.task.places import Places
from moldau.connect.task.tolerance import ErrorCounts, Failure, told
from moldau.errors import ConfigError
from moldau.logging import Logger

PREFIX: Final = "__connect.errors."
SETTLE_S: Final = 120.0

Header = tuple[str, bytes | None]


class DeadLetters:
    """Sends the bad records of one task to the queue."""

    def __init__(
        self, producer: Producer, topic: str, owner: tuple[str, int], *, has_context: bool
    ) -> None:
        """`owner` is the connector's name and the task's number."""
        self._producer = producer
        self._topic = topic
        self._owner = owner
        self._has_context = has_context
        self._under_way: deque[Delivery] = deque()
        self._places: dict[TopicPartition, Places] = defaultdict(Places)
        self.counts: ErrorCounts = ErrorCounts()

    def report(self, failure: Failure) -> None:
        """Send the failed record. Return before it is acknowledged: see `settle`."""
        record = failure.record
        if not isinstance(record, ConsumerRecord):
            return
        places = self._places[TopicPartition(record.topic, record.partition)]
        if record.offset in places:
            return
        places.add(record.offset)
        headers: list[Header] = list(record.headers)
        if self._has_context:
            headers += context_headers(failure, record, self._owner)
        timestamp_ms = record.timestamp if record.timestamp >= 0 else None
        self.counts.dead_letters += 1
        self._under_way.append(
            self._producer.send(
                self._topic,
                record.value,
                key=record.key,
                headers=headers,
                timestamp_ms=timestamp_ms,
            )
        )

    def settle(self, within_s: float = SETTLE_S) -> None:
        """Wait until all reported records are in the queue. Raise ConnectError if one is not."""
        try:
            while self._under_way:
                self._under_way[0].result(within_s)
                self._under_way.popleft()
        except (KafkaError, TimeoutError) as error:
            self.counts.dead_letter_failures += 1
            raise ConnectError(
                "the dead letter queue takes no records", topic=self._topic, error=str(error)
            ) from error

    def know(self, committed: Mapping[TopicPartition, OffsetAndMetadata | None]) -> None:
        """Load the offsets of records that are in the queue already from the group's commits."""
        for where, offset in committed.items():
            self._places[where] = Places.parse("" if offset is None else offset.metadata)

    def forget(self, partitions: Collection[TopicPartition]) -> None:
        """Forget these partitions: another task has them now, or their logs begin anew."""
        for where in partitions:
            self._places.pop(where, None)

    def noted(
        self,
        allowed: Mapping[TopicPartition, OffsetAndMetadata],
        else_at: Mapping[TopicPartition, int],
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        """Return what to commit: the offsets that the sink allows, with the offsets of dead letters
        above them as metadata. If the sink allows none of a partition, `else_at` gives the offset.
        """
        found = dict(allowed)
        for where, places in self._places.items():
            at = found.get(where)
            if at is None and where in else_at:
                at = OffsetAndMetadata(else_at[where])
            if at is None or at.metadata:
                continue
            places.forget_below(at.offset)
            note = places.note()
            if note or where in found:
                found[where] = at._replace(metadata=note)
        return found

    def store_notes(
        self, consumer: Consumer, starts: Mapping[TopicPartition, int], within_s: float
    ) -> None:
        """Commit the offsets of dead letters as metadata of these offsets: no other progress."""
        self.settle(within_s)
        noted = self.noted({}, starts)
        if noted:
            consumer.commit(noted, timeout_s=within_s)


def context_headers(
    failure: Failure, record: ConsumerRecord, owner: tuple[str, int]
) -> list[Header]:
    """Return the headers with Kafka Connect's names. All values are texts."""
    error = failure.error
    facts = {
        "topic": record.topic,
        "partition": record.partition,
        "offset": record.offset,
        "connector.name": owner[0],
        "task.id": owner[1],
        "stage": failure.stage.value,
        "class.name": failure.plugin,
        "exception.class.name": _class_name(type(error)),
        "exception.message": str(error),
        "exception.stacktrace": "".join(format_exception(error)),
    }
    return [(PREFIX + name, str(value).encode()) for name, value in facts.items()]


_JAVA_ERRORS: Final[Mapping[type[Exception], str]] = {
    ConnectError: "org.apache.kafka.connect.errors.ConnectException",
    DataError: "org.apache.kafka.connect.errors.DataException",
    RetriableError: "org.apache.kafka.connect.errors.RetriableException",
    ConfigError: "org.apache.kafka.common.config.ConfigException",
}


def _class_name(kind: type[Exception]) -> str:
    """Return the name of Java's class for an error, by which tools tell errors apart; the Python
    class's own name if Java has none."""
    return _JAVA_ERRORS.get(kind, f"{kind.__module__}.{kind.__qualname__}")


class FailureLog:
    """Logs the skipped records of one task."""

    def __init__(self, log: Logger, owner: tuple[str, int], *, has_messages: bool) -> None:
        self._log = log
        self._owner = owner
        self._has_messages = has_messages

    def report(self, failure: Failure) -> None:
        """Log one line about a skipped record."""
        record = failure.record
        facts: dict[str, object] = {
            "connector": self._owner[0],
            "task": self._owner[1],
            "stage": failure.stage.value,
            "plugin": failure.plugin,
            "error": told(failure.error),
        }
        if isinstance(record, ConsumerRecord):
            facts |= {"topic": record.topic, "partition": record.partition}
            facts |= {"offset": record.offset, "timestamp": record.timestamp}
            if self._has_messages:
                facts |= {"key": repr(record.key), "value": repr(record.value)}
        self._log.error("a record was given up", **facts)
