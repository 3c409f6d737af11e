"""Compaction: its times, its memory, its speed."""

from __future__ import annotations

from moldau.config import BOOLEAN, CLUSTER_WIDE, DOUBLE, INT, LONG, Setting, at_least, between

LONG_MAX = 2**63 - 1
DOUBLE_MAX = 1.7976931348623157e308

# fmt: off
log_cleaner_enable = Setting("log.cleaner.enable", BOOLEAN, True,
    doc="Whether compacted topics are compacted; without it they grow for ever.")
log_cleaner_threads = Setting(
    "log.cleaner.threads", INT, 1, check=at_least(0), dynamic=CLUSTER_WIDE,
    doc="How many logs are compacted at the same time.")
log_cleaner_dedupe_buffer_size = Setting(
    "log.cleaner.dedupe.buffer.size", LONG, 134_217_728, dynamic=CLUSTER_WIDE,
    doc="The memory for the offset maps of all cleaner threads together.")
log_cleaner_io_buffer_size = Setting(
    "log.cleaner.io.buffer.size", INT, 524_288, check=at_least(0), dynamic=CLUSTER_WIDE,
    doc="The memory for the read and write buffers of all cleaner threads together.")
log_cleaner_io_buffer_load_factor = Setting(
    "log.cleaner.io.buffer.load.factor", DOUBLE, 0.9, dynamic=CLUSTER_WIDE,
    doc="How full an offset map may get; fuller maps take in more keys at once, but collide more.")
log_cleaner_io_max_bytes_per_second = Setting(
    "log.cleaner.io.max.bytes.per.second", DOUBLE, DOUBLE_MAX, dynamic=CLUSTER_WIDE,
    doc="The most bytes a second that compaction reads and writes together.")
log_cleaner_backoff_ms = Setting(
    "log.cleaner.backoff.ms", LONG, 15_000, check=at_least(0), dynamic=CLUSTER_WIDE,
    doc="How long a cleaner rests when no log needs it.")
log_cleaner_min_cleanable_ratio = Setting(
    "log.cleaner.min.cleanable.ratio", DOUBLE, 0.5, check=between(0.0, 1.0), dynamic=CLUSTER_WIDE,
    doc="A log is compacted when at least this part of it is new since the last time.")
log_cleaner_min_compaction_lag_ms = Setting(
    "log.cleaner.min.compaction.lag.ms", LONG, 0, check=at_least(0), dynamic=CLUSTER_WIDE,
    doc="A record stays uncompacted for at least this long.")
log_cleaner_max_compaction_lag_ms = Setting(
    "log.cleaner.max.compaction.lag.ms", LONG, LONG_MAX, check=at_least(1), dynamic=CLUSTER_WIDE,
    doc="A record is compacted at the latest after this time, however clean its log is.")
log_cleaner_delete_retention_ms = Setting(
    "log.cleaner.delete.retention.ms", LONG, 86_400_000, check=at_least(0), dynamic=CLUSTER_WIDE,
    doc="How long tombstones and the ends of transactions stay after compaction, so that slow "
    "readers see them; longer while a replica is out of sync.")
