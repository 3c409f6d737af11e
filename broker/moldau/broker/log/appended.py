"""The result of an append, and a log's interface to its owner."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field
from typing import NamedTuple

from moldau.broker.log.admission import NO_APPEND_TIME
from moldau.broker.log.disk_room import DiskRoom
from moldau.broker.log.file_pool import NO_POOL, FilePool
from moldau.deferred import dataclass


class AppendInfo(NamedTuple):
    """The result of an append."""

    first_offset: int
    last_offset: int
    append_time_ms: int = NO_APPEND_TIME
    """-1 unless the topic has LogAppendTime. For a duplicate, the newest timestamp of the original,
    as in Kafka, whatever the topic's setting."""
    is_duplicate: bool = False
    """Whether the batch is in the log already. Nothing was written then."""


@dataclass(frozen=True, slots=True)
class Owner:
    """A log's interface to its owner. `persist_points` makes the log's current recovery point and
    log start durable. `on_failure` is called once, on a disk error. `files` closes the files of
    logs that are not used. `room` is the free room on the disk."""

    persist_points: Callable[[], None] = lambda: None
    on_failure: Callable[[OSError], None] = lambda error: None
    files: FilePool = NO_POOL
    room: DiskRoom = field(default_factory=lambda: DiskRoom(""))
