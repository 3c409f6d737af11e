"""The log: appends of 16 KB batches beside raw writes of the same bytes, and reads of slices.

An append is all that a leader does to a batch: checksum, walk over its records, offset and epoch
set in place, one write, sparse indexes. The peer writes the same bytes with os.write and does
nothing else. Both go to the page cache of one file system; files are removed after every round.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from bench.harness import Case, Goal, Table
from moldau.broker.log.directories import LogDirectories
from moldau.broker.log.log import PartitionLog
from moldau.broker.log.log_config import LogConfig
from moldau.broker.log.meta_properties import MetaProperties, write_meta_properties
from moldau.broker.log.names import TopicPartition
from moldau.broker.log.recovery import Opening
from moldau.records import Producer, encode_batch
from moldau.runtime.real_files import RealFiles

NOW = 1_700_000_000_000
BATCHES = 4_000
RECORDS = 135
READS = 4_000
FLUSHES = 50
PARTITIONS = 200
SLICE_BYTES = 64 << 10
RAW = "os.write"
APPEND = "append_as_leader"
IDEMPOTENT = "append_as_leader, idempotent"
BATCH = encode_batch([(NOW + each, b"key-%06d" % each, b"v" * 100, ()) for each in range(RECORDS)])


def in_folder(work: Callable[[Path], float]) -> Callable[[], float]:
    """Return a function that calls `work` with a new folder and removes the folder."""

    def run() -> float:
        folder = Path(tempfile.mkdtemp(prefix="moldau-bench-"))
        try:
            return work(folder)
        finally:
            shutil.rmtree(folder)

    return run


def open_log(folder: Path) -> PartitionLog:
    return PartitionLog.open(RealFiles(), str(folder / "t-0"), LogConfig(), Opening(NOW))


def write_raw(folder: Path) -> float:
    """Return batches a second of CPU time."""
    target = os.open(folder / "raw", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    started = time.process_time()
    for _ in range(BATCHES):
        os.write(target, BATCH)
    elapsed = time.process_time() - started
    os.close(target)
    return BATCHES / elapsed


def append(folder: Path) -> float:
    log = open_log(folder)
    batch = memoryview(bytearray(BATCH))
    started = time.process_time()
    for _ in range(BATCHES):
        log.append_as_leader(batch, 0, NOW)
    elapsed = time.process_time() - started
    log.abandon()
    return BATCHES / elapsed


def append_idempotent(folder: Path) -> float:
    log = open_log(folder)
    rows = [(NOW + each, b"key-%06d" % each, b"v" * 100, ()) for each in range(RECORDS)]
    made = [
        encode_batch(rows, producer=Producer(7, 0, number * RECORDS)) for number in range(BATCHES)
    ]
    started = time.process_time()
    for batch in made:
        log.append_as_leader(batch, 0, NOW)
    elapsed = time.process_time() - started
    log.abandon()
    return BATCHES / elapsed


def append_small(folder: Path) -> float:
    """Return batches a second of CPU time, with one record of 100 bytes a batch."""
    log = open_log(folder)
    batch = memoryview(encode_batch([(NOW, None, b"v" * 100, ())]))
    started = time.process_time()
    for _ in range(BATCHES):
        log.append_as_leader(batch, 0, NOW)
    elapsed = time.process_time() - started
    log.abandon()
    return BATCHES / elapsed


def reading(step: int, *, is_read: bool) -> Callable[[Path], float]:
    """Return a function that measures slices a second, found (and read), `step` offsets apart."""

    def work(folder: Path) -> float:
        log = open_log(folder)
        batch = memoryview(bytearray(BATCH))
        for _ in range(BATCHES):
            log.append_as_leader(batch, 0, NOW)
        end, offset = log.log_end_offset, 0
        started = time.process_time()
        for _ in range(READS):
            piece = log.read(offset, SLICE_BYTES)
            if is_read:
                piece.read()
            offset = (offset + step) % end
        elapsed = time.process_time() - started
        log.abandon()
        return READS / elapsed

    return work


def flushing(batches_each: int) -> Callable[[Path], float]:
    """Return a function that measures microseconds for a durable batch; batches share a flush."""

    def work(folder: Path) -> float:
        log = open_log(folder)
        batch = memoryview(bytearray(BATCH))
        log.append_as_leader(batch, 0, NOW)
        log.flush()
        started = time.perf_counter()
        for _ in range(FLUSHES):
            for _ in range(batches_each):
                log.append_as_leader(batch, 0, NOW)
            log.flush()
        elapsed = time.perf_counter() - started
        log.abandon()
        return elapsed / FLUSHES / batches_each * 1e6

    return work


def open_many(folder: Path) -> float:
    """Return the milliseconds to start on that many logs after a clean shutdown."""
    files = RealFiles()
    meta = MetaProperties("bench", 1, bytes(15) + bytes([1]))
    write_meta_properties(files, str(folder), meta)
    found = LogDirectories.open(files, [str(folder)], "bench", 1)
    found.load(lambda partition, topic_id: LogConfig(), NOW)
    for number in range(PARTITIONS):
        log = found.create(TopicPartition("t", number), None, LogConfig(), NOW)
        log.append_as_leader(memoryview(bytearray(BATCH)), 0, NOW)
    found.close()
    started = time.process_time()
    again = LogDirectories.open(files, [str(folder)], "bench", 1)
    again.load(lambda partition, topic_id: LogConfig(), NOW)
    elapsed = time.process_time() - started
    assert len(list(again.logs())) == PARTITIONS
    for _, log in again.logs():
        log.abandon()
    again.release()
    return elapsed * 1e3


def recover(folder: Path) -> float:
    """Return the MB a second of the walk through a segment after a crash."""
    log = open_log(folder)
    batch = memoryview(bytearray(BATCH))
    for _ in range(BATCHES):
        log.append_as_leader(batch, 0, NOW)
    size = log.size_bytes
    log.abandon()
    started = time.process_time()
    again = open_log(folder)
    elapsed = time.process_time() - started
    assert again.size_bytes == size
    again.abandon()
    return size / elapsed / 1e6


def tables() -> list[Table]:
    return [
        Table(
            "Append, 16 KB batches of 135 records",
            "batches/s of CPU time",
            [
                Case(RAW, in_folder(write_raw)),
                Case(APPEND, in_folder(append)),
                Case(IDEMPOTENT, in_folder(append_idempotent)),
                Case("append_as_leader, one record of 100 B", in_folder(append_small)),
            ],
            goals=[Goal(APPEND, versus=RAW, ratio_at_least=0.45)],
        ),
        Table(
            "Read, slices of 64 KB",
            "slices/s of CPU time",
            [
                Case("found, in sequence", in_folder(reading(RECORDS * 4, is_read=False))),
                Case("found, anywhere", in_folder(reading(7_919 * 13, is_read=False))),
                Case("found and read, in sequence", in_folder(reading(RECORDS * 4, is_read=True))),
            ],
        ),
        Table(
            "Flush, one fsync for so many 16 KB batches",
            "us a batch",
            [Case(f"{count} a flush", in_folder(flushing(count))) for count in (1, 8, 64)],
            goals=[Goal("64 a flush", versus="1 a flush", ratio_at_most=0.25)],
            higher_is_better=False,
        ),
        Table(
            f"Start on {PARTITIONS} logs after a clean end",
            "ms of CPU time",
            [Case("load", in_folder(open_many))],
            higher_is_better=False,
        ),
        Table("Recovery", "MB/s of CPU time", [Case("one segment", in_folder(recover))]),
    ]
