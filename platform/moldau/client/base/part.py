"""The batch facts that fetched records share, and the common form of polled parts. No IO."""

from __future__ import annotations

from typing import Final, NamedTuple, Protocol

from moldau.link.metadata import NO_EPOCH
from moldau.records import TimestampType


class Origin(NamedTuple):
    """What the records of a batch share: the timestamp type, and the epoch of the leader that
    appended them (-1 if unknown)."""

    timestamp_type: TimestampType = TimestampType.NO_TIMESTAMP_TYPE
    leader_epoch: int = NO_EPOCH


UNKNOWN: Final = Origin()


class Part(Protocol):
    """The records of one partition that a poll returns, as objects or as columns."""

    @property
    def topic(self) -> str: ...

    @property
    def partition(self) -> int: ...

    @property
    def first_offset(self) -> int: ...

    @property
    def next_offset(self) -> int: ...
