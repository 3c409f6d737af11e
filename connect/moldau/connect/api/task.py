"""Tasks: they move the records. All calls of a task are made by one thread."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from moldau.client import OffsetAndMetadata, TopicPartition
from moldau.connect.api.record import SinkRecord, SourceRecord
from moldau.deferred import dataclass

if TYPE_CHECKING:
    from moldau.client import Sent, SentRange
    from moldau.connect.api.parts import SourcePart


class OffsetStorageReader(ABC):
    """Reads the stored offsets of this connector's source partitions."""

    @abstractmethod
    def offset(self, partition: Mapping[str, Any]) -> dict[str, Any] | None:
        """Return the last stored offset of a partition; None if there is none."""

    @abstractmethod
    def offsets(
        self, partitions: Sequence[Mapping[str, Any]]
    ) -> list[tuple[Mapping[str, Any], dict[str, Any] | None]]:
        """Return each partition with its last stored offset, in the order given."""


class TransactionContext(ABC):
    """Lets a source with `transaction.boundary=connector` define where a transaction ends."""

    @abstractmethod
    def commit_transaction(self, record: SourceRecord | None = None) -> None:
        """Commit after the next batch, or after `record`."""

    @abstractmethod
    def abort_transaction(self, record: SourceRecord | None = None) -> None:
        """Abort after the next batch, or after `record`. Drop all records of the transaction."""


class SourceTaskContext(ABC):
    """The worker's services for a source task."""

    @property
    @abstractmethod
    def configs(self) -> dict[str, str]:
        """The current config of the task."""

    def report_waiting(self, cause: str | None) -> None:
        """Show in the status what the task waits for, as one line `cause -> hint`. None: it waits
        for nothing any more."""
        return

    @property
    @abstractmethod
    def offset_storage_reader(self) -> OffsetStorageReader: ...

    @property
    @abstractmethod
    def transaction_context(self) -> TransactionContext | None:
        """The transaction context; None unless the connector defines transaction boundaries."""


class ErrantRecordReporter(Protocol):
    """Sends a record that the target rejects to the dead letter queue, as the config says."""

    def report(self, record: SinkRecord, error: Exception) -> None:
        """Report a record; it is durable on return. Raise ConnectError if no error is tolerated."""
        ...


class SinkTaskContext(ABC):
    """The worker's services for a sink task."""

    @property
    @abstractmethod
    def configs(self) -> dict[str, str]:
        """The current config of the task."""

    @abstractmethod
    def offset(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Continue reading at these offsets, before the next `put`."""

    @abstractmethod
    def timeout(self, timeout_ms: int) -> None:
        """Set how long to wait before `put` is repeated or called without records."""

    @abstractmethod
    def assignment(self) -> frozenset[TopicPartition]:
        """Return the partitions that are assigned to this task now."""

    @abstractmethod
    def pause(self, *partitions: TopicPartition) -> None:
        """Stop reading these partitions until `resume`."""

    @abstractmethod
    def resume(self, *partitions: TopicPartition) -> None: ...

    def report_waiting(self, cause: str | None) -> None:
        """Show in the status what the task waits for, as one line `cause -> hint`. None: it waits
        for nothing any more."""
        return

    @abstractmethod
    def request_commit(self) -> None:
        """Commit offsets soon, before the next interval ends."""

    @property
    @abstractmethod
    def errant_record_reporter(self) -> ErrantRecordReporter | None:
        """The reporter; None if the connector has no dead letter queue and tolerates no errors."""


class Task(ABC):
    """The methods that source and sink tasks share."""

    java_name: ClassVar[str] = ""
    """The equivalent Java class. It is written to the config topic as task.class, so that a Java
    worker can take the task over."""

    @abstractmethod
    def start(self, props: Mapping[str, str]) -> None:
        """Connect and get ready. Called once, after the context was set."""

    def stop(self) -> None:
        """Release all resources. Called once at the end, also after a failed start."""
        return

    @classmethod
    def version(cls) -> str | None:
        return None


class SourceTask(Task):
    """Reads records from a source. Order of calls: start, poll repeatedly, stop."""

    context: SourceTaskContext

    def initialize(self, context: SourceTaskContext) -> None:
        self.context = context

    @abstractmethod
    def poll(self) -> Sequence[SourceRecord] | None:
        """Return the next records in order.

        A list will do; a `SourceBatch` or `SourceValues` is faster. It may block briefly. Return
        None or [] if there are no records. Raise RetriableError for a failure that can pass by
        itself.
        """

    def commit(self) -> None:
        """Called after the offsets of all records delivered so far were stored."""
        return

    def commit_record(self, record: SourceRecord, metadata: Sent | None) -> None:
        """Called when a record is durable; `metadata` is None if it was dropped or skipped."""
        return

    def commit_part(self, part: SourcePart, places: Sequence[SentRange]) -> None:
        """Called instead of `commit_record` when a part that was written as a whole is durable.
        `places` are those of its records, in their order."""
        return


class SinkTask(Task):
    """Writes records to a target.

    Order of calls: start, open, put repeatedly with flushes between, close, stop.
    """

    context: SinkTaskContext

    def initialize(self, context: SinkTaskContext) -> None:
        self.context = context

    def open(self, partitions: Collection[TopicPartition]) -> None:
        """Called after these partitions were assigned to the task, in addition to those it has."""
        return

    @abstractmethod
    def put(self, records: list[SinkRecord]) -> None:
        """Write the records, or keep them until `flush`. The list may be empty.

        After RetriableError `put` is called again with the same records.
        """

    def flush(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        """Make everything that was put durable. It must be durable on return."""
        return

    def pre_commit(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata]
    ) -> Mapping[TopicPartition, OffsetAndMetadata]:
        """Return the offsets that may be committed; {} commits none. Default: flush, return all."""
        self.flush(offsets)
        return offsets

    def on_log_began_anew(self, partition: TopicPartition, offset: int, expected: int) -> None:
        """The next record of a partition has a lower offset than expected: its topic was deleted
        and created again, or lost its end. A task that stores offsets beside its data raises
        ConnectError, because it would skip the new records as duplicates."""
        return

    def close(self, partitions: Collection[TopicPartition]) -> None:
        """Called when these partitions are revoked; write nothing more for them."""
        return


class ValueSinkTask(SinkTask):
    """A sink task that needs only the values of records.

    If no transform is configured and the records have no headers, the worker converts many values
    at once and calls `put_values`, without creating records. All other records are passed to `put`.
    Flushes follow both in the same way. A task that reports single records
    (`errant_record_reporter`) cannot do so from `put_values`.
    """

    @abstractmethod
    def put_values(self, values: Sequence[Any]) -> None:
        """Write records with these values, in order, like `put`. `values` is never empty."""


@dataclass(frozen=True, slots=True)
class SelfReading:
    """The context of a task that reads its topics itself."""

    connector: str
    """The name of the connector."""
    group: str
    """The consumer group to commit to, so that offsets and lag are shown as for any other sink."""
    clients: Mapping[str, str]
    """The settings of a consumer: the worker's, changed by the connector's overrides."""
    is_paused: bool
    """Whether to begin paused."""


class SelfReadingSinkTask(Task):
    """A sink task that reads its topics itself, as a Spark query does: the worker opens no consumer
    and converts nothing for it.

    Order of calls: initialize, start, then poll_status repeatedly with pause and resume between,
    stop.
    """

    context: SelfReading

    def initialize(self, context: SelfReading) -> None:
        self.context = context

    @abstractmethod
    def poll_status(self) -> Mapping[str, float]:
        """Return the task's metrics by name. Wait for new ones for up to a second. Raise the error
        that has ended the work, if there is one."""

    @abstractmethod
    def pause(self) -> None:
        """Write nothing until `resume`."""

    @abstractmethod
    def resume(self) -> None:
        """Write again after `pause`."""


@dataclass(frozen=True, slots=True)
class SelfWriting:
    """The context of a task that writes its topics itself."""

    connector: str
    """The name of the connector."""
    clients: Mapping[str, str]
    """The settings of a producer: the worker's, changed by the connector's overrides."""
    is_paused: bool
    """Whether to begin paused."""
    offset_storage_reader: OffsetStorageReader


class SelfWritingSourceTask(Task):
    """A source task that writes its topics itself, as a Spark query does: the worker opens no
    producer and converts nothing for it, but stores its offset.

    Order of calls: topics, initialize, start, then poll_status and offset repeatedly with pause and
    resume between, stop.
    """

    context: SelfWriting

    @classmethod
    @abstractmethod
    def topics(cls, props: Mapping[str, str]) -> list[str]:
        """Return the topics that the task writes. The worker creates them: `topic.creation.*`."""

    def initialize(self, context: SelfWriting) -> None:
        self.context = context

    @abstractmethod
    def poll_status(self) -> Mapping[str, float]:
        """Return the task's metrics by name. Wait for new ones for up to a second. Raise the error
        that has ended the work, if there is one."""

    @abstractmethod
    def offset(self) -> tuple[Mapping[str, Any], Mapping[str, Any]] | None:
        """Return a source partition and its offset; all records up to it are acknowledged. Return
        None if nothing is new since the last call."""

    @abstractmethod
    def pause(self) -> None:
        """Write nothing until `resume`."""

    @abstractmethod
    def resume(self) -> None:
        """Write again after `pause`."""
