"""Limit the bytes per second that throttled replicas copy, and measure that rate (KIP-73).

The rate is measured like Kafka's: over a number of windows of fixed length, the last of which is
not over yet. Windows before the first copy count as empty. So after a pause as many bytes may be
copied at once as all windows together allow.

Invariant: a replica that is in sync is never throttled; the callers of `is_exceeded` ensure that.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection
from typing import TYPE_CHECKING, Final

from moldau.broker.settings import quota as rows
from moldau.deferred import dataclass

if TYPE_CHECKING:
    from moldau.config import Settings

UNLIMITED: Final = 2**63 - 1
EVERY: Final = "*"


class ReplicationQuota:
    """The quota of one side: of sending as leader, or of fetching as follower."""

    def __init__(self, window_ms: int = 1000, windows: int = 11) -> None:
        self.bytes_per_second = UNLIMITED
        self.paced: tuple[str, int] | None = None
        """A partition that is throttled besides those of the settings; see `pace`."""
        self._pace = UNLIMITED
        self.window_ms = window_ms
        self._windows = windows
        self._counted: deque[tuple[int, int]] = deque()
        """Pairs of a window's number and the bytes in it."""

    def pace(self, partition: tuple[str, int] | None, bytes_per_second: int = UNLIMITED) -> None:
        """Throttle one more partition by this rate, until another call. Unlike a setting, it ends
        with the process: an interrupted move leaves nothing behind."""
        self.paced, self._pace = partition, bytes_per_second

    def record(self, size_bytes: int, now_ms: int) -> None:
        """Count bytes that throttled replicas copied."""
        window = now_ms // self.window_ms
        counted = self._counted
        if counted and counted[-1][0] == window:
            size_bytes += counted.pop()[1]
        counted.append((window, size_bytes))

    def is_exceeded(self, now_ms: int) -> bool:
        """Whether no more may be copied now."""
        limit = min(self.bytes_per_second, self._pace)
        if limit == UNLIMITED:
            return False
        return self.rate(now_ms) > limit

    def rate(self, now_ms: int) -> float:
        """Return the current rate in bytes per second."""
        counted = self._counted
        window = now_ms // self.window_ms
        while counted and counted[0][0] <= window - self._windows:
            counted.popleft()
        total = sum(size for _, size in counted)
        full_ms = (self._windows - 1) * self.window_ms
        elapsed_ms = max(full_ms + now_ms % self.window_ms, 1)
        return total * 1000 / elapsed_ms


class ReplicationQuotas:
    """The quotas of a node: `sent` as leader, `fetched` as follower."""

    def __init__(self) -> None:
        self.sent = ReplicationQuota()
        self.fetched = ReplicationQuota()

    def start(self, settings: Settings) -> None:
        """Create the quotas with the window settings, which are fixed at the start."""
        window_ms = settings[rows.replication_quota_window_size_seconds] * 1000
        windows = settings[rows.replication_quota_window_num]
        self.sent = ReplicationQuota(window_ms, windows)
        self.fetched = ReplicationQuota(window_ms, windows)
        self.configure(settings)

    def configure(self, settings: Settings) -> None:
        """Apply other rates from now on."""
        self.sent.bytes_per_second = settings[rows.leader_replication_throttled_rate]
        self.fetched.bytes_per_second = settings[rows.follower_replication_throttled_rate]


@dataclass(frozen=True, slots=True)
class ThrottledPartitions:
    """The partitions of a topic whose replicas on one node are throttled."""

    partitions: frozenset[int] = frozenset()
    is_every: bool = False

    def __contains__(self, partition: int) -> bool:
        return self.is_every or partition in self.partitions


NOTHING: Final = ThrottledPartitions()


def throttled_on(node_id: int, items: Collection[str]) -> ThrottledPartitions:
    """Return a topic's throttled partitions on the node, from its `partition:broker` items or `*`.
    The settings have checked the form of the items."""
    if EVERY in items:
        return ThrottledPartitions(is_every=True)
    pairs = (item.split(":") for item in items if item)
    return ThrottledPartitions(
        frozenset(int(number) for number, broker in pairs if int(broker) == node_id)
    )
