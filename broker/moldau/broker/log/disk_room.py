"""The free room on the disk of a log directory, and whether clients may write there. Pure.

Below a floor of free room produces are refused, with an error that clients retry, and followers
copy nothing. Everything else goes on: reads, deletions, retention, the metadata and the cluster's
own topics, such as the offsets of groups, which need some room themselves. When retention or an
operator has made room, produces are taken again, and followers copy what they have missed. Without
a floor a full disk takes the whole directory out of service, and on the only directory the broker
ends.

The room is measured once a second, and with each produce and each fetch from a leader while the
floor is near, but at most every `PAUSE_MS`: a producer that writes 10 GB in a second meets the
floor, not the end of the disk.

Invariant: produces and copies are taken again only with a quarter more free room than the floor,
so that they are not refused and taken in turn.
"""

from __future__ import annotations

from typing import Final

from moldau.errors.codes import ErrorCode, KafkaError

_SHARE_OF_THE_DISK: Final = 20
_NEAR_BYTES: Final = 4 << 30
"""This much above the floor, the room is watched closely: it may be used up within a second."""
PAUSE_MS: Final = 10


class DiskRoom:
    """The room on the disk of one directory."""

    __slots__ = ("_floor_bytes", "_free_bytes", "_path", "is_near", "is_short", "shortages")

    def __init__(self, path: str) -> None:
        self._path = path
        self._floor_bytes = 0
        self._free_bytes = 0
        self.is_short = False
        """Whether produces are refused, and followers copy nothing."""
        self.is_near = False
        """Whether the floor is not far."""
        self.shortages = 0
        """How many times produces began to be refused."""

    def on_measured(self, free_bytes: int, total_bytes: int, floor_bytes: int) -> None:
        """Note the free room and the floor. On a small disk the floor is at most a twentieth of
        it."""
        floor = min(floor_bytes, total_bytes // _SHARE_OF_THE_DISK)
        self._floor_bytes, self._free_bytes = floor, free_bytes
        self.is_near = floor > 0 and free_bytes < floor + _NEAR_BYTES
        was_short = self.is_short
        self.is_short = free_bytes < (floor + floor // 4 if was_short else floor)
        self.shortages += self.is_short and not was_short

    def check(self) -> None:
        """Raise KafkaError if produces are refused."""
        if self.is_short:
            raise KafkaError(
                ErrorCode.KAFKA_STORAGE_ERROR,
                "the disk is nearly full, so nothing is written until there is more room",
                **self.facts(),
            )

    def facts(self) -> dict[str, object]:
        """Return what an operator wants to know, for a log line."""
        return {
            "directory": self._path,
            "free_bytes": self._free_bytes,
            "free_bytes_min": self._floor_bytes,
        }
