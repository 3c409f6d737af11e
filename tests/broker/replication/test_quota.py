"""The rate of throttled replication, and which replicas are throttled."""

from __future__ import annotations

from moldau.broker.replication.quota import UNLIMITED, ReplicationQuota, throttled_on


def test_without_a_rate_nothing_is_exceeded() -> None:
    quota = ReplicationQuota()
    assert quota.bytes_per_second == UNLIMITED
    quota.record(1 << 50, 5_000)
    assert not quota.is_exceeded(5_000)


def test_the_rate_counts_silent_windows_before_the_first() -> None:
    quota = ReplicationQuota()
    quota.bytes_per_second = 1000
    quota.record(10_000, 50_000)
    assert not quota.is_exceeded(50_000)
    quota.record(1, 50_000)
    assert quota.is_exceeded(50_000)
    assert quota.rate(50_000) == 1000.1


def test_bytes_are_forgotten_with_their_window() -> None:
    quota = ReplicationQuota(window_ms=1000, windows=3)
    quota.bytes_per_second = 100
    quota.record(1000, 10_500)
    assert quota.is_exceeded(10_900)
    assert quota.is_exceeded(12_999)
    assert not quota.is_exceeded(13_000)
    assert quota.rate(13_000) == 0


def test_over_a_long_time_the_rate_is_kept() -> None:
    quota = ReplicationQuota()
    quota.bytes_per_second = 1000
    copied = 0
    for now_ms in range(0, 100_000, 10):
        if not quota.is_exceeded(now_ms):
            quota.record(100, now_ms)
            copied += 100
    assert 95_000 < copied < 115_000


def test_the_items_of_a_topic_name_partitions_of_a_broker() -> None:
    found = throttled_on(1, ("0:1", "1:2", "3:1"))
    assert [each in found for each in range(4)] == [True, False, False, True]
    assert 7 in throttled_on(1, ("*",))
    assert 0 not in throttled_on(1, ("",))
