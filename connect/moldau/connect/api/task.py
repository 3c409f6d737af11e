"""Tasks: they move the records. A task belongs to one thread, which makes all the calls."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from moldau.client import OffsetAndMetadata, TopicPartition
from moldau.connect.api.record import SinkRecord, SourceRecord

if TYPE_CHECKING:
    from moldau.client import Sent


class OffsetStorageReader(ABC):
    """What was stored for this connector's source partitions."""

    @abstractmethod
    def offset(self, partition: Mapping[str, Any]) -> dict[str, Any] | None:
        """The last stored offset of a partition; None if there is none."""

    @abstractmethod
    def offsets(
        self, partitions: Sequence[Mapping[str, Any]]
    ) -> list[tuple[Mapping[str, Any], dict[str, Any] | None]]:
        """The same for several partitions, in their order."""


class TransactionContext(ABC):
    """For sources with `transaction.boundary=connector`: where a transaction ends."""

    @abstractmethod
    def commit_transaction(self, record: SourceRecord | None = None) -> None:
        """Commit after the next batch, or after that record."""

    @abstractmethod
    def abort_transaction(self, record: SourceRecord | None = None) -> None:
        """Abort, and drop what the transaction has written."""


class SourceTaskContext(ABC):
    """What the worker does for a source task."""

    @property
    @abstractmethod
    def configs(self) -> dict[str, str]:
        """The task's config as the worker has it now."""

    @property
    @abstractmethod
    def offset_storage_reader(self) -> OffsetStorageReader: ...

    @property
    @abstractmethod
    def transaction_context(self) -> TransactionContext | None:
        """None unless the connector defines the boundaries of its transactions."""


class ErrantRecordReporter(Protocol):
    """Sends a record that the target refuses to the dead letter queue, as the config says."""

    def report(self, record: SinkRecord, error: Exception) -> None:
        """Returns when the report is safe; raises ConnectError where errors are not tolerated."""
        ...


class SinkTaskContext(ABC):
    """What the worker does for a sink task."""

    @property
    @abstractmethod
    def configs(self) -> dict[str, str]:
        """The task's config as the worker has it now."""

    @abstractmethod
    def offset(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Read on from these offsets, before the next `put`."""

    @abstractmethod
    def timeout(self, timeout_ms: int) -> None:
        """How long to wait before `put` is repeated or called without records."""

    @abstractmethod
    def assignment(self) -> frozenset[TopicPartition]:
        """The partitions that this task reads now."""

    @abstractmethod
    def pause(self, *partitions: TopicPartition) -> None:
        """Read no more of these for now."""

    @abstractmethod
    def resume(self, *partitions: TopicPartition) -> None: ...

    @abstractmethod
    def request_commit(self) -> None:
        """Commit offsets soon, not only at the next interval."""

    @property
    @abstractmethod
    def errant_record_reporter(self) -> ErrantRecordReporter | None:
        """None if the connector has no dead letter queue and tolerates no errors."""


class Task(ABC):
    """What both kinds share."""

    java_name: ClassVar[str] = ""
    """The class that a Java worker runs for it: what stands in the config topic as task.class, so
    that a Java worker can go on from there."""

    @abstractmethod
    def start(self, props: Mapping[str, str]) -> None:
        """Connect and get ready; called once, after the context was set."""

    def stop(self) -> None:
        """Release everything. Called once at the end, also after a failed start."""
        return

    @classmethod
    def version(cls) -> str | None:
        return None


class SourceTask(Task):
    """Order of calls: start, then poll again and again, stop."""

    context: SourceTaskContext

    def initialize(self, context: SourceTaskContext) -> None:
        self.context = context

    @abstractmethod
    def poll(self) -> Sequence[SourceRecord] | None:
        """The next records in their order: a list, or a `SourceBatch` or `SourceValues`, which are
        faster. May block briefly; None or [] if there are none.

        Raise RetriableError for what can pass by itself.
        """

    def commit(self) -> None:
        """The offsets of what was delivered so far are stored."""
        return

    def commit_record(self, record: SourceRecord, metadata: Sent | None) -> None:
        """A record is safe; `metadata` is None if a transform dropped it or an error skipped it."""
        return


class SinkTask(Task):
    """Order of calls: start, open, put again and again with flushes between, close, stop."""

    context: SinkTaskContext

    def initialize(self, context: SinkTaskContext) -> None:
        self.context = context

    def open(self, partitions: Collection[TopicPartition]) -> None:
        """These partitions were added to the task's own."""
        return

    @abstractmethod
    def put(self, records: list[SinkRecord]) -> None:
        """Write the records, or keep them until `flush`. May get an empty list.

        After RetriableError the same records come again.
        """

    def flush(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        """On return everything that was put is durable."""
        return

    def pre_commit(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata]
    ) -> Mapping[TopicPartition, OffsetAndMetadata]:
        """The offsets that may be committed; {} commits none. By default flush, then all."""
        self.flush(offsets)
        return offsets

    def on_log_began_anew(self, partition: TopicPartition, offset: int, expected: int) -> None:
        """The next record of a partition has a lower offset than expected: its topic was deleted
        and made anew, or lost its end. A task that keeps offsets beside its data raises
        ConnectError, because it would take the new records for old ones."""
        return

    def close(self, partitions: Collection[TopicPartition]) -> None:
        """These partitions were taken away; nothing may be written for them any more."""
        return


class ValueSinkTask(SinkTask):
    """A sink task that needs the values of records and nothing else of them.

    Where no transform has to see the records and they have no headers, the worker converts the
    values of many at once and calls `put_values`, without making records. All others come in
    `put`. Both are followed by flushes in the same way. A task that reports single
    records (`errant_record_reporter`) cannot do so from `put_values`.
    """

    @abstractmethod
    def put_values(self, values: Sequence[Any]) -> None:
        """As `put` with records that have these values, in their order. Never empty."""


@dataclass(frozen=True, slots=True)
class SelfReading:
    """What a task that reads its topics itself has to know."""

    connector: str
    """The name of the connector."""
    group: str
    """The consumer group to commit to, so that offsets and lag show as for any other sink."""
    clients: Mapping[str, str]
    """The settings of a consumer, as the worker and the connector's overrides have them."""
    is_paused: bool
    """Whether to begin paused."""


class SelfReadingSinkTask(Task):
    """A sink task that reads its topics itself, as a Spark query does: the worker opens no consumer
    and converts nothing for it.

    Order of calls: initialize, start, then poll_status again and again, with pause and resume
    between, stop.
    """

    context: SelfReading

    def initialize(self, context: SelfReading) -> None:
        self.context = context

    @abstractmethod
    def poll_status(self) -> Mapping[str, float]:
        """The task's metrics by name. Waits for news for up to a second; raises what has ended the
        work."""

    @abstractmethod
    def pause(self) -> None:
        """Write nothing until `resume`."""

    @abstractmethod
    def resume(self) -> None:
        """Go on."""


@dataclass(frozen=True, slots=True)
class SelfWriting:
    """What a task that writes its topics itself has to know."""

    connector: str
    """The name of the connector."""
    clients: Mapping[str, str]
    """The settings of a producer, as the worker and the connector's overrides have them."""
    is_paused: bool
    """Whether to begin paused."""
    offset_storage_reader: OffsetStorageReader


class SelfWritingSourceTask(Task):
    """A source task that writes its topics itself, as a Spark query does: the worker opens no
    producer and converts nothing for it, but stores its offset.

    Order of calls: topics, initialize, start, then poll_status and offset again and again, with
    pause and resume between, stop.
    """

    context: SelfWriting

    @classmethod
    @abstractmethod
    def topics(cls, props: Mapping[str, str]) -> list[str]:
        """The topics that it writes, which the worker makes as `topic.creation.*` says."""

    def initialize(self, context: SelfWriting) -> None:
        self.context = context

    @abstractmethod
    def poll_status(self) -> Mapping[str, float]:
        """The task's metrics by name. Waits for news for up to a second; raises what has ended the
        work."""

    @abstractmethod
    def offset(self) -> tuple[Mapping[str, Any], Mapping[str, Any]] | None:
        """A source partition and its offset, all records up to which are acknowledged; None if
        there is nothing new since the last call."""

    @abstractmethod
    def pause(self) -> None:
        """Write nothing until `resume`."""

    @abstractmethod
    def resume(self) -> None:
        """Go on."""
