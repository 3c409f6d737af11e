"""The stored offsets of a source, for its tasks and its connector."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from moldau.client.sync import Producer
from moldau.connect.api import OffsetStorageReader
from moldau.connect.errors import ConnectError
from moldau.connect.task.boundaries import Ready
from moldau.connect.task.link import Link
from moldau.logging import Logger

OFFSETS_S: Final = 160.0
"""How long the offsets may take: until open transactions of killed tasks are aborted."""

Ask = Callable[[list[dict[str, Any]]], list[dict[str, Any] | None]]


class AskedOffsets(OffsetStorageReader):
    """Reads stored offsets through the worker, which keeps a copy of the store."""

    def __init__(self, ask: Ask) -> None:
        self._ask = ask

    @classmethod
    def over(cls, link: Link, timeout_s: float = OFFSETS_S) -> AskedOffsets:
        """Return the offsets that the worker of a task has."""
        return cls(lambda wanted: link.ask("offsets.read", timeout_s=timeout_s, partitions=wanted))

    def offset(self, partition: Mapping[str, Any]) -> dict[str, Any] | None:
        return self._ask([dict(partition)])[0]

    def offsets(
        self, partitions: Sequence[Mapping[str, Any]]
    ) -> list[tuple[Mapping[str, Any], dict[str, Any] | None]]:
        found = self._ask([dict(each) for each in partitions])
        return list(zip(partitions, found, strict=True))


class OffsetWriter:
    """Stores offsets through the worker, at least once; `TaskTransactions` does it exactly once."""

    def __init__(self, link: Link, timeout_s: float, log: Logger) -> None:
        self._link = link
        self._timeout_s = timeout_s
        self._log = log

    def start(self, producer: Producer) -> None:
        """Start the producer."""
        producer.start()

    def begin(self) -> None:
        """Prepare for a record: there is no transaction."""

    def finish(self, end: Ready) -> bool:
        """Store the offsets. Return False if that failed and is to be tried later."""
        try:
            self._link.ask("offsets.write", timeout_s=self._timeout_s, offsets=end.offsets)
        except ConnectError as error:
            self._log.warn("offsets could not be stored, trying later", error=str(error))
            return False
        return True
