"""The process dies before any one call to the disk while logs are kept: by a checkpoint, retention,
a round of the cleaner, the removal of files. What was durable is there afterwards, and all of it
goes on from there."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import replace
from random import Random
from typing import Any, cast

import pytest

from moldau.broker.log.log import PartitionLog
from moldau.broker.log.names import TopicPartition
from moldau.runtime import Runtime
from moldau.runtime.simulated.incarnation import Incarnation
from tests.broker.log.cleaning import committed, newest, random_work
from tests.broker.log.keeping import COMPACTED, Keeper
from tests.broker.log.machine import NOW, StoppingDisk, batch, contents

KEPT, DIRTY = TopicPartition("kept", 0), TopicPartition("dirty", 0)
OLD_MS = NOW + 3_600_000
CONFIG = replace(
    COMPACTED, is_compacted=False, is_deleted=True, retention_ms=1000, segment_bytes=900
)


class Clock:
    def wall_ms(self) -> int:
        return OLD_MS

    def monotonic(self) -> float:
        return 0.0


class InlineRuntime:
    """Work for threads is done on the spot, so that the calls to the disk can be counted."""

    def __init__(self, disk: StoppingDisk) -> None:
        self.files = disk.files(disk.incarnation)
        self.clock = Clock()

    def spawn(self, coroutine: Coroutine[Any, Any, Any], *, name: str) -> asyncio.Task[Any]:
        return asyncio.get_running_loop().create_task(coroutine)

    def sync_data(self, files: object) -> None:
        """Threads have to do."""

    def run_blocking(self, function: Callable[..., Any], *args: Any) -> asyncio.Future[Any]:
        future = asyncio.get_running_loop().create_future()
        try:
            future.set_result(function(*args))
        except OSError as error:
            future.set_exception(error)
        return future


def begin_life(disk: StoppingDisk) -> Runtime:
    disk.calls_left = None
    disk.incarnation = Incarnation("node")
    return cast(Runtime, InlineRuntime(disk))


async def keep(keeper: Keeper) -> None:
    """Everything periodic, twice."""
    upkeep = keeper.upkeep
    for _ in range(2):
        await upkeep._sweep()
        await upkeep._write_high_watermarks()
        await upkeep._write_points()
        await keeper.cleaner.clean_next()
        await upkeep._retain()


async def keep_until(disk: StoppingDisk, keeper: Keeper, calls: int | None) -> bool:
    """Whether it came to its end before the call of that number."""
    disk.calls_left = calls
    task = asyncio.ensure_future(keep(keeper))
    while not task.done() and disk.incarnation.alive:
        await asyncio.wait({task}, timeout=0)
    everything = asyncio.all_tasks() - {asyncio.current_task()}
    for each in everything:
        each.cancel()
    await asyncio.gather(*everything, return_exceptions=True)
    if disk.incarnation.alive:
        task.result()
    elif not task.cancelled():
        task.exception()  # or it would complain in the log of whichever test collects it
    return disk.incarnation.alive


def fill(keeper: Keeper) -> tuple[PartitionLog, PartitionLog]:
    kept, dirty = keeper.log("kept", CONFIG), keeper.log("dirty", COMPACTED)
    for number in range(40):
        # The second half is young enough to stay.
        timestamp = NOW if number < 20 else OLD_MS
        kept.append_as_leader(batch(timestamp=timestamp), 0, timestamp)
    kept.update_high_watermark(kept.log_end_offset)
    random_work(dirty, Random(4), 40)
    dirty.update_high_watermark(dirty.log_end_offset)
    for log in (kept, dirty):
        log.flush()
    return kept, dirty


def stop_at(calls: int | None, *, is_power: bool) -> bool:
    """Keep logs, die before a call, start again: whether all was done before that."""
    disk = StoppingDisk(Random((calls or 0) + 7), sector_bytes=64, now_ms=lambda: NOW)
    keeper = Keeper.open(begin_life(disk), CONFIG)
    kept, dirty = fill(keeper)
    old, records = contents(kept), newest(committed(dirty))
    is_done = asyncio.run(keep_until(disk, keeper, calls))
    disk.incarnation.poison()
    if is_power:
        disk.power_loss()
    else:
        disk.kill()
    again = Keeper.open(begin_life(disk), CONFIG)
    found_kept, found_dirty = again.directories.log(KEPT), again.directories.log(DIRTY)
    assert found_kept is not None
    assert found_dirty is not None
    assert again.directories.in_service() == again.directories.directories
    found = contents(found_kept)
    assert found == old[len(old) - len(found) :]
    assert found[-20:] == old[-20:]
    found_dirty.configure(COMPACTED)
    found_dirty.update_high_watermark(found_dirty.log_end_offset)
    assert newest(committed(found_dirty)) == records
    # It goes on from there, to the same end.
    found_kept.update_high_watermark(found_kept.log_end_offset)
    assert asyncio.run(keep_until(disk, again, None))
    assert newest(committed(found_dirty)) == records
    first = contents(found_kept)[0][0]
    assert 50 <= first <= 60, "what is too old has gone"
    left = [
        name
        for place in (KEPT, DIRTY)
        for name in disk.files(disk.incarnation).list(f"/a/{place}")
        if name.endswith((".cleaned", ".swap"))
    ]
    assert left == []
    return is_done


@pytest.mark.parametrize("is_power", [False, True])
def test_a_stop_before_any_call_loses_nothing(is_power: bool) -> None:
    calls = 0
    while not stop_at(calls, is_power=is_power):
        calls += 3 if is_power else 7
    assert calls > 150
