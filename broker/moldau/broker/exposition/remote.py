"""The series of remote storage: what topics have there, and what the node does with the store."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import TYPE_CHECKING

from moldau.broker.exposition import table
from moldau.broker.exposition.slices import AT_ONCE
from moldau.broker.tiered.partition_tier import RemoteSizes
from moldau.objects.object_store import Operation

if TYPE_CHECKING:
    from moldau.broker.exposition.page import Page
    from moldau.broker.tiered.node_tier import NodeTier
    from moldau.broker.tiered.remote_traffic import RemoteTraffic


def write_remote(page: Page, counts: RemoteTraffic, *topic: str) -> None:
    """Write the counters of a topic, or their sum."""
    page.add(table.remote_copies, counts.copies, *topic)
    page.add(table.remote_copy_bytes, counts.copied_bytes, *topic)
    page.add(table.remote_copy_errors, counts.failed_copies, *topic)
    page.add(table.remote_deletes, counts.deletions, *topic)
    page.add(table.remote_delete_errors, counts.failed_deletions, *topic)
    page.add(table.remote_fetches, counts.fetches, *topic)
    page.add(table.remote_fetch_bytes, counts.fetched_bytes, *topic)
    page.add(table.remote_fetch_errors, counts.failed_fetches, *topic)
    page.add(table.remote_rebuilds, counts.rebuilds, *topic)
    page.add(table.remote_rebuild_errors, counts.failed_rebuilds, *topic)


def remote_storage(page: Page, tier: NodeTier) -> Iterator[None]:
    """Write what the partitions led here have in remote storage, and how the store is used."""
    by_topic: defaultdict[str, RemoteSizes] = defaultdict(RemoteSizes)
    for number, (topic, sizes) in enumerate(tier.sizes()):
        if number % AT_ONCE == 0:
            yield
        by_topic[topic] = _sum(by_topic[topic], sizes)
    total = RemoteSizes()
    for number, (topic, sizes) in enumerate(by_topic.items()):
        if number % AT_ONCE == 0:
            yield
        _write_sizes(page, sizes, topic)
        total = _sum(total, sizes)
    _write_sizes(page, total)
    _write_work(page, tier)
    _write_reads(page, tier)
    calls = tier.work.store.counts
    failures = defaultdict[Operation, int](int)
    for (operation, _), count in calls.failures.items():
        failures[operation] += count
    for operation in Operation:
        page.add(table.remote_store_calls, calls.calls[operation], operation.value)
        page.add(table.remote_store_failures, failures[operation], operation.value)


def _sum(first: RemoteSizes, second: RemoteSizes) -> RemoteSizes:
    return RemoteSizes(*(one + other for one, other in zip(first, second, strict=True)))


def _write_sizes(page: Page, sizes: RemoteSizes, *topic: str) -> None:
    page.add(table.remote_size, sizes.remote_bytes, *topic)
    page.add(table.remote_segments, sizes.segment_count, *topic)
    page.add(table.remote_lag_segments, sizes.waiting_count, *topic)
    page.add(table.remote_lag_bytes, sizes.waiting_bytes, *topic)
    page.add(table.remote_delete_lag_segments, sizes.deleting_count, *topic)
    page.add(table.remote_delete_lag_bytes, sizes.deleting_bytes, *topic)


def _write_work(page: Page, tier: NodeTier) -> None:
    work = tier.work
    counts, now_s = work.counts, work.runtime.clock.monotonic()
    page.add(table.remote_copies_running, len(counts.copies_since))
    page.add(table.remote_copy_oldest, round(counts.oldest_copy_s(now_s), 3))
    page.add(table.remote_copies_throttled, counts.throttled_copies)
    page.add(table.remote_orphans, counts.orphans)
    page.add(table.remote_ready, int(work.is_store_open))


def _write_reads(page: Page, tier: NodeTier) -> None:
    reads, cache = tier.door.reads, tier.door.cache.counts
    page.add(table.remote_reads_running, reads.running_count)
    page.add(table.remote_reads_waiting, reads.waiting_count)
    page.add(table.remote_reads_refused, reads.counts.refused, "waiting")
    page.add(table.remote_reads_refused, reads.counts.throttled, "quota")
    page.add(table.remote_cache, cache.memory_hits, "memory")
    page.add(table.remote_cache, cache.disk_hits, "disk")
    page.add(table.remote_cache, cache.loads, "store")
