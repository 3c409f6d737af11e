"""Stores on disk: one RocksDB for each task, a column family for each of its stores.

`TaskDatabase` is the main class; `RocksBacking` is the part that one store uses. What RocksDB holds
is never ahead of the last commit: rows wait in memory until `TaskDatabase.commit` writes them in
one batch with the changelog offsets that they belong to. There is no write-ahead log, since the
changelog topic is the log.

Never fork a process that has used RocksDB: the child hangs on its first call. Spawn workers.
"""

from __future__ import annotations

from moldau.streams.rocks.backing import RocksBacking
from moldau.streams.rocks.database import (
    ASIDE,
    ChangelogPosition,
    RocksMemory,
    StoreSize,
    TaskDatabase,
    noted,
    position_name,
    stores_on_disk,
)
from moldau.streams.rocks.failures import StateInUse, StoreCorrupted, StoreFailed

__all__ = [
    "ASIDE", "ChangelogPosition", "RocksBacking", "RocksMemory", "StateInUse", "StoreCorrupted",
    "StoreFailed", "StoreSize", "TaskDatabase", "noted", "position_name", "stores_on_disk",
]  # fmt: skip
