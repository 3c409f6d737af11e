"""The stored offsets of a source, for its tasks and its connector."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from moldau.connect.api import OffsetStorageReader

Ask = Callable[[list[dict[str, Any]]], list[dict[str, Any] | None]]


class AskedOffsets(OffsetStorageReader):
    """Reads stored offsets through the worker, which keeps a copy of the store."""

    def __init__(self, ask: Ask) -> None:
        self._ask = ask

    def offset(self, partition: Mapping[str, Any]) -> dict[str, Any] | None:
        return self._ask([dict(partition)])[0]

    def offsets(
        self, partitions: Sequence[Mapping[str, Any]]
    ) -> list[tuple[Mapping[str, Any], dict[str, Any] | None]]:
        found = self._ask([dict(each) for each in partitions])
        return list(zip(partitions, found, strict=True))
