"""Copies keep to their quota, over its windows; a new limit counts for those that wait."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, cast

import pytest

from moldau.broker.replication.quota import UNLIMITED, ReplicationQuota
from moldau.broker.tiered.copying import SegmentOrigin
from moldau.broker.tiered.metadata_topic import MetadataTopic
from moldau.broker.tiered.remote_log import RemoteLog
from moldau.broker.tiered.remote_segment import RemoteSegment
from moldau.broker.tiered.remote_traffic import RemoteTraffic
from moldau.broker.tiered.remote_work import RemoteWork, WorkLimits
from moldau.broker.tiered.segment_upload import SegmentFiles, SegmentUpload
from moldau.logging import Loggers
from moldau.runtime import Runtime
from tests.broker.network.virtual_pause import after
from tests.broker.one_node import simulate
from tests.broker.tiered.segments import segment

MIB: Final = 1 << 20
FILES: Final = SegmentFiles("log", {}, b"")


class CountedUpload:
    """Stores nothing, and notes when each copy began, in seconds of the world."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self.store = None
        self.began_s: list[float] = []
        self.is_hanging = False

    async def upload(self, segment: RemoteSegment, files: SegmentFiles) -> bytes:
        self.began_s.append(self._now())
        while self.is_hanging:
            await after(1.0)
        return b"1"


class Copies:
    """Ten copies, of a MiB each unless a size is given, that want to begin at once."""

    def __init__(self, runtime: Runtime, limit: int, window_s: int, size_bytes: int = MIB) -> None:
        clock = runtime.clock
        self.upload = CountedUpload(clock.monotonic)
        self.began_s = clock.monotonic()
        quota = ReplicationQuota(window_s * 1000, 11)
        traffic = RemoteTraffic()
        upload, log = (
            cast(SegmentUpload, self.upload),
            Loggers(clock, lambda line: None).get("copies"),
        )
        topic = cast(MetadataTopic, None)  # nothing is appended here
        self.work = RemoteWork(runtime, topic, upload, log, lambda _: traffic, quota)
        self.work.configure(WorkLimits(copy_bytes_per_s_max=limit))
        origin = SegmentOrigin("t", bytes(16), 0, 1)
        core = RemoteLog(origin, runtime.random, self.work.limits.retry)
        for number in range(10):
            copied = segment(number, range(10 * number, 10 * number + 10), size_bytes=size_bytes)
            runtime.spawn(self.work.copy(core, copied, lambda: FILES), name="copy")

    def after_s(self) -> list[float]:
        return [began_s - self.began_s for began_s in self.upload.began_s]


def in_world(limit: int, window_s: int = 1, raised_after_s: float | None = None) -> list[float]:
    """When ten copies began."""

    async def main(runtime: Runtime) -> list[float]:
        copies = Copies(runtime, limit, window_s)
        if raised_after_s is not None:
            await after(raised_after_s)
            copies.work.configure(WorkLimits())
        while len(copies.upload.began_s) < 10:
            await after(0.1)
        return copies.after_s()

    return simulate(main)


def test_without_a_limit_all_begin_at_once() -> None:
    assert in_world(UNLIMITED) == pytest.approx([0.0] * 10, abs=0.2)


def test_copies_keep_to_the_rate_over_all_windows() -> None:
    begun = in_world(MIB // 2)
    for number, began_s in enumerate(begun):
        allowed = (began_s + 11) * MIB / 2 + MIB
        assert number * MIB <= allowed
    assert begun[-1] > 5


def test_longer_windows_let_more_begin_at_once() -> None:
    short, long = in_world(MIB // 4), in_world(MIB // 4, window_s=10)
    assert sum(each < 1 for each in short) < sum(each < 1 for each in long)


def test_a_higher_limit_counts_for_copies_that_wait() -> None:
    begun = in_world(1000, raised_after_s=5.0)
    assert begun[1] > 4
    assert begun[-1] < 7


@pytest.mark.parametrize(
    ("size_bytes", "copies_max", "running"),
    [(2 * MIB, 10, 10), (8 * MIB, 10, 3), (1024 * MIB, 10, 2), (1024 * MIB, 40, 8)],
)
def test_copies_run_as_far_as_their_memory_goes(
    size_bytes: int, copies_max: int, running: int
) -> None:
    """A segment is in memory with 12 MiB at the most, and each that may run has 2.5 MiB."""

    async def main(runtime: Runtime) -> tuple[int, int]:
        copies = Copies(runtime, UNLIMITED, 1, size_bytes)
        copies.work.configure(WorkLimits(copies_max=copies_max))
        copies.upload.is_hanging = True
        await after(10.0)
        begun = len(copies.upload.began_s)
        copies.upload.is_hanging = False
        await after(20.0)
        return begun, len(copies.upload.began_s)

    assert simulate(main) == (running, 10)


def test_a_copy_that_hangs_is_seen_by_the_age_of_the_oldest() -> None:
    async def main(runtime: Runtime) -> tuple[float, float]:
        copies = Copies(runtime, UNLIMITED, 1)
        copies.upload.is_hanging = True
        await after(100.0)
        hanging = copies.work.counts.oldest_copy_s(runtime.clock.monotonic())
        copies.upload.is_hanging = False
        await after(2.0)
        return hanging, copies.work.counts.oldest_copy_s(runtime.clock.monotonic())

    hanging, ended = simulate(main)
    assert hanging == pytest.approx(100.0, abs=1.0)
    assert ended == 0
