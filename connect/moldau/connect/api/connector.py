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
    """The worker's services for a running connector. Every method may be called from any thread."""

    @abstractmethod
    def request_task_reconfiguration(self) -> None:
        """Request new task configs, because the set of things to read or write has changed."""

    @abstractmethod
    def raise_error(self, error: Exception) -> None:
        """Set the connector to FAILED. Its tasks continue."""

    def report_waiting(self, cause: str | None) -> None:
        """Show in the status what the connector waits for, as one line `cause -> hint`. None: it
        waits for nothing any more."""
        return

    @property
    @abstractmethod
    def offset_storage_reader(self) -> OffsetStorageReader:
        """The stored offsets of a source connector; always empty for a sink connector."""


class ExactlyOnceSupport(StrEnum):
    """Whether a source supports exactly-once with a given config."""

    SUPPORTED = "SUPPORTED"
    UNSUPPORTED = "UNSUPPORTED"


class Connector(Plugin):
    """Checks a config and makes the configs of the tasks.

    Order of calls: initialize, start, task_configs (again after each request for reconfiguration),
    stop. By default there is one task of the class `task`, with the connector's own config.
    """

    task: ClassVar[type[Task]]
    task_modules: ClassVar[Sequence[str]] = ()
    """Modules that the tasks need and that take long to import. They are imported once for all
    task processes, so importing them must not start a thread or open a file or connection."""
    file_settings: ClassVar[Sequence[str]] = ()
    """The settings that are paths of files, with or without a pattern, or addresses of fsspec. They
    must be below the worker's `connect.file.directories`."""
    context: ConnectorContext

    @classmethod
    def named_files(cls, props: Mapping[str, str]) -> Mapping[str, str | Sequence[str]]:
        """Return the settings of a resolved config that name files, with the path or paths of each.
        Override it where a path is a part of a setting, as in the address of a database that is a
        file."""
        return {name: props[name] for name in cls.file_settings if name in props}

    def initialize(self, context: ConnectorContext) -> None:
        self.context = context

    def start(self, props: Mapping[str, str]) -> None:
        """Begin to watch the source or the target. `props` are complete and resolved."""
        self.props = dict(props)

    def stop(self) -> None:
        """Release all resources."""
        return

    def removed(self, props: Mapping[str, str]) -> None:
        """Remove what the connector keeps outside Kafka, because a user has deleted the connector.

        `props` are as for `start`; this instance is never started. The leader calls this method
        after its own tasks of the connector have ended. Tasks on other workers may still be
        stopping: raise RetriableError while one of them works, and the call is repeated for half a
        minute. Any other error is logged. A connector of the same name is created only after this.
        """
        return

    def task_class(self) -> type[Task]:
        """Return the class of the tasks."""
        return self.task

    def task_configs(self, max_tasks: int) -> list[dict[str, str]]:
        """Return one config for each task, at most `max_tasks` of them."""
        return [dict(self.props)]


class SourceConnector(Connector):
    """Reads from an external system into topics."""

    def alter_offsets(
        self, props: Mapping[str, str], offsets: list[tuple[dict[str, Any], dict[str, Any] | None]]
    ) -> bool:
        """Check (partition, offset) pairs that a user wants to store; None resets a partition.

        Raise ConnectError to reject them. Return True if the connector has taken care of offsets
        that it stores itself, False if it knows of none.
        """
        return False

    def exactly_once_support(self, props: Mapping[str, str]) -> ExactlyOnceSupport | None:
        """Return whether `props` allow exactly-once; None if the connector does not declare it."""
        return None

    def can_define_transaction_boundaries(self, props: Mapping[str, str]) -> bool:
        """Whether the tasks use the transaction context."""
        return False


class SinkConnector(Connector):
    """Writes from topics to an external system."""

    def alter_offsets(
        self, props: Mapping[str, str], offsets: Mapping[TopicPartition, int | None]
    ) -> bool:
        """Check offsets of the consumer group that a user wants to store; as for a source."""
        return False
