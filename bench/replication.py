"""What a replica adds to its log, and what it costs to wait.

An append through `Partition` beside the same append to its log alone: it adds leadership, the high
watermark, and a check for waiting requests. Then requests that wait: begun and completed by a move
of the log, or begun and cancelled, with 10,000 others waiting beside them.
"""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from bench.harness import Case, Goal, Table
from moldau.broker.log.group_commit import GroupCommit
from moldau.broker.log.log import PartitionLog
from moldau.broker.log.log_config import LogConfig
from moldau.broker.log.recovery import Opening
from moldau.broker.replication.partition import Leadership, Partition
from moldau.broker.replication.purgatory import DelayedOperation, Purgatory
from moldau.broker.replication.topic_config import TopicConfig
from moldau.records import encode_batch
from moldau.runtime.real import RealRuntime
from moldau.runtime.real_files import RealFiles

NOW = 1_700_000_000_000
APPENDS = 10_000
WAITS = 50_000
OTHERS = 10_000
BATCH = memoryview(encode_batch([(NOW, None, b"v" * 100, ())]))
LOG = "PartitionLog.append_as_leader"
PARTITION = "Partition.append, acks=1, nobody waits"
COMPLETED = "watch, move, complete"
LEADERSHIP = Leadership("t", 0, bytes(16), 0, (1,), (1,))


class Clock:
    """Real time, with only the methods that the purgatory calls."""

    monotonic_ns = staticmethod(time.monotonic_ns)
    monotonic = staticmethod(time.monotonic)

    def wall_ms(self) -> int:
        return NOW


class Queue:
    """The callbacks of an event loop, run by `turn`."""

    def __init__(self) -> None:
        self.calls: list[Callable[[], object]] = []

    def call_soon(self, callback: Callable[[], object]) -> None:
        self.calls.append(callback)

    def call_later(self, delay: float, callback: Callable[[], object]) -> Queue:
        return self

    def cancel(self) -> None:
        """Do nothing: no timer fires here."""

    def turn(self) -> None:
        calls, self.calls = self.calls, []
        for callback in calls:
            callback()


class Ready(DelayedOperation):
    """An operation that is complete at the first check."""

    __slots__ = ()

    def try_complete(self) -> bool:
        return True

    def on_timeout(self) -> None:
        """Do nothing: no operation times out here."""


def appending(*, through_partition: bool) -> float:
    """Return the microseconds of CPU time for an append of one record."""
    folder = Path(tempfile.mkdtemp(prefix="moldau-bench-"))
    runtime = RealRuntime()
    try:
        log = PartitionLog.open(RealFiles(), str(folder / "t-0"), LogConfig(), Opening(NOW))
        purgatory = Purgatory(Clock(), Queue())
        partition = Partition(LEADERSHIP, log, GroupCommit(runtime), purgatory)
        partition.configure(TopicConfig())
        partition.lead(LEADERSHIP, 1)
        started = time.process_time()
        if through_partition:
            for _ in range(APPENDS):
                partition.append(BATCH, 1, NOW)
        else:
            for _ in range(APPENDS):
                log.append_as_leader(BATCH, 0, NOW)
        elapsed = time.process_time() - started
        log.abandon()
        return elapsed / APPENDS * 1e6
    finally:
        shutil.rmtree(folder)


def waiting(*, is_completed: bool) -> float:
    """Return the microseconds of CPU time for one waiting operation, with others beside it."""
    queue = Queue()
    purgatory = Purgatory(Clock(), queue)
    keys = [object() for _ in range(100)]
    for number in range(OTHERS):
        purgatory.watch(Ready(), (object(),), 60_000 + number % 30_000)
    started = time.process_time()
    for number in range(WAITS):
        key = keys[number % 100]
        operation = Ready()
        purgatory.watch(operation, (key,), 500)
        if is_completed:
            purgatory.moved(key)
            queue.turn()
        else:
            purgatory.cancel(operation)
    elapsed = time.process_time() - started
    assert len(purgatory) == OTHERS
    return elapsed / WAITS * 1e6


def tables() -> list[Table]:
    return [
        Table(
            "Append of one record of 100 B",
            "us of CPU time",
            [
                Case(LOG, lambda: appending(through_partition=False)),
                Case(PARTITION, lambda: appending(through_partition=True)),
            ],
            goals=[Goal(PARTITION, versus=LOG, ratio_at_most=1.15)],
            higher_is_better=False,
        ),
        Table(
            f"Wait, with {OTHERS} others",
            "us of CPU time",
            [
                Case(COMPLETED, lambda: waiting(is_completed=True)),
                Case("watch, cancel", lambda: waiting(is_completed=False)),
            ],
            goals=[Goal(COMPLETED, at_most=5.0)],
            higher_is_better=False,
        ),
    ]
