"""Answers to fetches, and requests that wait for something."""

from __future__ import annotations

from moldau.config import INT, Setting, at_least

# fmt: off
fetch_max_bytes = Setting("fetch.max.bytes", INT, 57_671_680, check=at_least(1024),
    doc="The most bytes that one fetch is answered with; a larger first batch still comes whole.")
max_incremental_fetch_session_cache_slots = Setting(
    "max.incremental.fetch.session.cache.slots", INT, 1000, check=at_least(0),
    doc="How many fetch sessions are remembered.")
max_request_partition_size_limit = Setting(
    "max.request.partition.size.limit", INT, 2000, check=at_least(1),
    doc="The most partitions that one answer about topics describes.")
fetch_purgatory_purge_interval_requests = Setting(
    "fetch.purgatory.purge.interval.requests", INT, 1000,
    doc="After how many finished requests Kafka cleans up its waiting fetches.")
producer_purgatory_purge_interval_requests = Setting(
    "producer.purgatory.purge.interval.requests", INT, 1000,
    doc="After how many finished requests Kafka cleans up its waiting produce requests.")
delete_records_purgatory_purge_interval_requests = Setting(
    "delete.records.purgatory.purge.interval.requests", INT, 1,
    doc="After how many finished requests Kafka cleans up its waiting deletions of records.")
