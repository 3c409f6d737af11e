"""Committed offsets and the topic that holds them."""

from __future__ import annotations

from moldau.broker.settings.log import SEGMENT_BYTES_MIN
from moldau.config import HIGH, INT, LONG, SHORT, Setting, at_least, between

# fmt: off
offset_metadata_max_bytes = Setting("offset.metadata.max.bytes", INT, 4096, importance=HIGH,
    doc="The longest text that may go with a committed offset.")
offsets_commit_timeout_ms = Setting(
    "offsets.commit.timeout.ms", INT, 5000, check=at_least(1), importance=HIGH,
    doc="How long a commit may wait for the replicas of the offsets topic.")
offsets_load_buffer_size = Setting(
    "offsets.load.buffer.size", INT, 5_242_880, check=at_least(1), importance=HIGH,
    doc="How many bytes at once are read when the offsets of groups are loaded.")
offsets_retention_minutes = Setting(
    "offsets.retention.minutes", INT, 10_080, check=at_least(1), importance=HIGH,
    doc="How long offsets are kept after their group is empty or no longer reads the topic.")
offsets_retention_check_interval_ms = Setting(
    "offsets.retention.check.interval.ms", LONG, 600_000, check=at_least(1), importance=HIGH,
    doc="How often it is looked for offsets to forget.")
offsets_topic_num_partitions = Setting(
    "offsets.topic.num.partitions", INT, 50, check=at_least(1), importance=HIGH,
    doc="The partitions of the offsets topic, which must not change after it was made.")
offsets_topic_replication_factor = Setting(
    "offsets.topic.replication.factor", SHORT, 3, check=at_least(1), importance=HIGH,
    doc="The replicas of the offsets topic; it is made only when there are as many brokers.")
offsets_topic_segment_bytes = Setting(
    "offsets.topic.segment.bytes", INT, 104_857_600, check=at_least(SEGMENT_BYTES_MIN),
    importance=HIGH,
    doc="The segment size of the offsets topic, small because it must load fast.")
offsets_topic_compression_codec = Setting(
    "offsets.topic.compression.codec", INT, 0, check=between(0, 4), importance=HIGH,
    doc="The codec of the offsets topic by number: 0 none, 1 gzip, 2 snappy, 3 lz4, 4 zstd.")
