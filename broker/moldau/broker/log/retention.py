"""The choice of the segments that retention deletes.

Invariants: only whole segments are deleted, from the oldest without a gap, and only what every
consumer could have read: a segment that ends above the high watermark stays. Pure: it reads
segments and does not change them.
"""

from __future__ import annotations

from moldau.broker.log.log_config import LogConfig
from moldau.broker.log.segment import Segment
from moldau.broker.log.segments import Segments


def count_expired(
    segments: Segments,
    config: LogConfig,
    now_ms: int,
    log_start_offset: int,
    high_watermark: int,
) -> int:
    """Count the oldest segments to delete, by age, by size, or because the log's start has moved
    up.

    The result may be all segments: then the caller rolls first. An empty active segment always
    stays; other empty segments, as Kafka's cleaning leaves them, may go. A compacted topic without
    `delete` loses only what lies before the log's start. A negative limit means no limit.
    """
    by_size = _count_beyond_size(segments, config) if config.is_deleted else 0
    for number, segment in enumerate(segments):
        end = segments.end_of(number)
        is_in_use = segment is segments.active
        if end > high_watermark or (is_in_use and not segment.size_bytes):
            return number
        is_before_start = not is_in_use and end <= log_start_offset
        is_old = config.is_deleted and 0 <= config.retention_ms < now_ms - _newest_ms(segment)
        if not (is_before_start or is_old or number < by_size):
            return number
    return len(segments)


def _count_beyond_size(segments: Segments, config: LogConfig) -> int:
    """Count the segments that can be deleted while at least `retention_bytes` stay."""
    if config.retention_bytes < 0:
        return 0
    surplus = sum(each.size_bytes for each in segments) - config.retention_bytes
    count = 0
    for segment in segments:
        surplus -= segment.size_bytes
        if surplus < 0:
            break
        count += 1
    return count


def _newest_ms(segment: Segment) -> int:
    """Return the newest timestamp, or the file's modification time if there is no timestamp."""
    newest = segment.max_timestamp
    return newest if newest >= 0 else segment.modified_ms
