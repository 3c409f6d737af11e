"""Connectors: they check a config and divide the work among tasks."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any, ClassVar

from moldau.client import TopicPartition
from moldau.connect.api.plugin import Plugin
from moldau.connect.api.task import OffsetStorageReader, Task


class ConnectorContext(ABC):
    """What the worker does for a running connector. Its methods may be called from any thread."""

    @abstractmethod
    def request_task_reconfiguration(self) -> None:
        """Ask for new task configs, because what there is to read or write has changed."""

    @abstractmethod
    def raise_error(self, error: Exception) -> None:
        """Fail the connector; its tasks go on."""

    def tell_waiting(self, cause: str | None) -> None:
        """Show in the status what the connector waits for, in one line `cause -> hint`. None: it
        waits for nothing any more."""
        return

    @property
    @abstractmethod
    def offset_storage_reader(self) -> OffsetStorageReader:
        """The stored offsets of a source connector; a sink connector's has none."""


class ExactlyOnceSupport(StrEnum):
    """Whether a source can be exactly-once with a given config."""

    SUPPORTED = "SUPPORTED"
    UNSUPPORTED = "UNSUPPORTED"


class Connector(Plugin):
    """Order of calls: initialize, start, task_configs (again after each request), stop.

    By default it makes one task of the class `task`, with the connector's own config.
    """

    task: ClassVar[type[Task]]
    task_modules: ClassVar[Sequence[str]] = ()
    """Modules that its tasks need and that take long to import. They are imported once for all
    task processes, so importing them must start no thread and open nothing."""
    context: ConnectorContext

    def initialize(self, context: ConnectorContext) -> None:
        self.context = context

    def start(self, props: Mapping[str, str]) -> None:
        """Begin to watch the source or the target. `props` are complete and resolved."""
        self.props = dict(props)

    def stop(self) -> None:
        """Release everything."""
        return

    def removed(self, props: Mapping[str, str]) -> None:
        """Remove what the connector keeps outside Kafka, for a user has deleted it. `props` are as
        for `start`; this instance is never started.

        The worker that leads calls it after its own tasks of the connector have ended. Tasks on
        other workers are being stopped: raise RetriableError while one of them works, and it is
        called again for half a minute. Any other error is logged. A connector of the same name is
        created only after this."""
        return

    def task_class(self) -> type[Task]:
        """The class of the tasks."""
        return self.task

    def task_configs(self, max_tasks: int) -> list[dict[str, str]]:
        """One config a task, at most `max_tasks` of them."""
        return [dict(self.props)]


class SourceConnector(Connector):
    """Reads from somewhere into topics."""

    def alter_offsets(
        self, props: Mapping[str, str], offsets: list[tuple[dict[str, Any], dict[str, Any] | None]]
    ) -> bool:
        """Check (partition, offset) pairs that a user wants to store; None resets a partition.

        Raise ConnectError to refuse. True says that the connector has taken care of its own
        storage, False that it knows nothing of it.
        """
        return False

    def exactly_once_support(self, props: Mapping[str, str]) -> ExactlyOnceSupport | None:
        """None: the connector does not say."""
        return None

    def can_define_transaction_boundaries(self, props: Mapping[str, str]) -> bool:
        """Whether its tasks use the transaction context."""
        return False


class SinkConnector(Connector):
    """Writes from topics to somewhere."""

    def alter_offsets(
        self, props: Mapping[str, str], offsets: Mapping[TopicPartition, int | None]
    ) -> bool:
        """As for sources, with offsets of the consumer group."""
        return False
