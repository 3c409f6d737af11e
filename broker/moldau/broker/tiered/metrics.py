"""The metrics of a node's remote storage.

All values are computed when the metrics are read. The comments name Kafka's metrics of the same
meaning.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from moldau.broker.tiered.node_tier import NodeTier
    from moldau.metrics import Registry

_Row: TypeAlias = tuple[str, str, str, Callable[[], int | float]]


def declare(registry: Registry, tier: NodeTier) -> None:
    """Declare the metrics, once for a node."""
    for name, doc, unit, read in (*_of_copies(tier), *_of_deletions(tier)):
        registry.read_gauge(name, doc, unit, read=read)


def _of_copies(tier: NodeTier) -> tuple[_Row, ...]:
    counts, clock = tier.work.counts, tier.work.runtime.clock
    return (
        (
            "moldau.tiered.copies",  # RemoteCopyRequestsPerSec
            "Segments that were copied to remote storage since the start.",
            "{segment}",
            lambda: counts.copies,
        ),
        (
            "moldau.tiered.copies.failed",  # RemoteCopyErrorsPerSec
            "Copies to remote storage that failed since the start, and are made again.",
            "{segment}",
            lambda: counts.failed_copies,
        ),
        (
            "moldau.tiered.copied",  # RemoteCopyBytesPerSec
            "Bytes of segments that were copied to remote storage since the start.",
            "By",
            lambda: counts.copied_bytes,
        ),
        (
            "moldau.tiered.copies.running",
            "Segments that are being copied to remote storage.",
            "{segment}",
            lambda: len(counts.copies_since),
        ),
        (
            "moldau.tiered.copy.longest",
            "How long the oldest running copy of a segment has been under way.",
            "s",
            lambda: counts.oldest_copy_s(clock.monotonic()),
        ),
        (
            "moldau.tiered.lag.segments",  # RemoteCopyLagSegments
            "Whole segments of partitions led here that are not in remote storage yet.",
            "{segment}",
            lambda: tier.lag()[0],
        ),
        (
            "moldau.tiered.lag",  # RemoteCopyLagBytes
            "Bytes of the whole segments that are not in remote storage yet.",
            "By",
            lambda: tier.lag()[1],
        ),
    )


def _of_deletions(tier: NodeTier) -> tuple[_Row, ...]:
    counts = tier.work.counts
    return (
        (
            "moldau.tiered.deletions",  # RemoteDeleteRequestsPerSec
            "Segments that were removed from remote storage since the start.",
            "{segment}",
            lambda: counts.deletions,
        ),
        (
            "moldau.tiered.deletions.failed",  # RemoteDeleteErrorsPerSec
            "Removals from remote storage that failed since the start, and are tried again.",
            "{segment}",
            lambda: counts.failed_deletions,
        ),
        (
            "moldau.tiered.orphans",
            "Objects that no segment had, and that were removed since the start.",
            "{object}",
            lambda: counts.orphans,
        ),
        (
            "moldau.tiered.size",  # RemoteLogSizeBytes
            "Bytes of segments in remote storage, of partitions led here.",
            "By",
            tier.remote_bytes,
        ),
        (
            "moldau.tiered.store.ready",
            "1 once the remote storage was found to work for a topic since the start, else 0.",
            "1",
            lambda: int(tier.work.is_open),
        ),
    )
