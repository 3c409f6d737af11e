"""What records that were fetched share with their batch. No IO."""

from __future__ import annotations

from typing import Final, NamedTuple, Protocol

from moldau.link.metadata import NO_EPOCH
from moldau.records import TimestampType


class Origin(NamedTuple):
    """What records share with their batch: whose time their timestamps are, and under which epoch
    a leader took them, which is -1 if it is unknown."""

    timestamp_type: TimestampType = TimestampType.NO_TIMESTAMP_TYPE
    leader_epoch: int = NO_EPOCH


UNKNOWN: Final = Origin()


class Part(Protocol):
    """What was polled of one partition, in any form."""

    @property
    def topic(self) -> str: ...

    @property
    def partition(self) -> int: ...

    @property
    def first_offset(self) -> int: ...

    @property
    def next_offset(self) -> int: ...
