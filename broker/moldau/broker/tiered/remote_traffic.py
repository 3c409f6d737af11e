"""What is copied to remote storage, read from it and removed there, counted by topic.

A partition's traffic has one (`replication.traffic`): what a deleted topic had counted stays in the
sum of all topics.
"""

from __future__ import annotations


class RemoteTraffic:
    """The remote counters of one topic. They are added to in place, and never fall."""

    __slots__ = (
        "copied_bytes",
        "copies",
        "deletions",
        "failed_copies",
        "failed_deletions",
        "failed_fetches",
        "failed_rebuilds",
        "fetched_bytes",
        "fetches",
        "rebuilds",
    )

    def __init__(self) -> None:
        self.copies = 0
        """Copies of segments that began."""
        self.failed_copies = 0
        """Those that failed. The segment is copied again."""
        self.copied_bytes = 0
        """Bytes of segments that were copied to the end."""
        self.deletions = 0
        """Removals of segments that began."""
        self.failed_deletions = 0
        self.fetches = 0
        """Reads that began."""
        self.failed_fetches = 0
        self.fetched_bytes = 0
        """Bytes of records that reads brought."""
        self.rebuilds = 0
        """Replicas that began behind remote records, and read what they must know of them."""
        self.failed_rebuilds = 0

    def add(self, other: RemoteTraffic) -> None:
        """Add the counts of another topic."""
        for name in self.__slots__:
            setattr(self, name, getattr(self, name) + getattr(other, name))
