"""A node with a simulated disk that can stop at any call, and the batches that tests write."""

from __future__ import annotations

from random import Random

from moldau.broker.log.log import Owner, PartitionLog
from moldau.broker.log.log_config import LogConfig
from moldau.broker.log.names import CLEANED, DELETED, SWAP, parse_segment_file
from moldau.broker.log.recovery import Opening
from moldau.records import Codec, Producer, encode_batch
from moldau.runtime.files import Files
from moldau.runtime.simulated.disk import SimulatedDisk
from moldau.runtime.simulated.disk_faults import Operation
from moldau.runtime.simulated.incarnation import Incarnation, NodeKilled

NOW = 1_700_000_000_000
DIRECTORY = "/data/orders-0"
SMALL = LogConfig(
    segment_bytes=900,
    segment_index_bytes=120,
    index_interval_bytes=150,
    file_delete_delay_ms=1000,
    retention_ms=-1,
)


class StoppingDisk(SimulatedDisk):
    """Kills the process before the call of a given number."""

    incarnation: Incarnation
    calls_left: int | None = None

    def begin(self, operation: Operation, path: str, size: int = 0) -> None:
        if self.calls_left is not None:
            if not self.calls_left:
                self.incarnation.poison()
                raise NodeKilled("stopped")
            self.calls_left -= 1
        super().begin(operation, path, size)


class Machine:
    """One disk and the process that uses it at present."""

    def __init__(self, seed: int = 1, config: LogConfig = SMALL) -> None:
        self.random = Random(seed)
        self.disk = StoppingDisk(Random(seed + 1), sector_bytes=64, now_ms=lambda: NOW)
        self.config = config
        self.now_ms = NOW
        self.recovery_point = 0
        self.log_start_offset = 0
        self.local_log_start_offset = 0
        self.log: PartitionLog | None = None
        self.files: Files
        self.begin_life()

    def begin_life(self) -> None:
        """Another process, on the disk as it is."""
        self.disk.calls_left = None
        self.disk.incarnation = Incarnation("node")
        self.files = self.disk.files(self.disk.incarnation)

    def kill(self) -> None:
        self.disk.incarnation.poison()
        self.disk.kill()
        self.begin_life()

    def lose_power(self) -> None:
        self.disk.incarnation.poison()
        self.disk.power_loss()
        self.begin_life()

    def open(self, *, is_clean: bool = False) -> PartitionLog:
        """Open the log with the points that were persisted."""
        opening = Opening(
            self.now_ms,
            is_clean=is_clean,
            recovery_point=self.recovery_point,
            log_start_offset=self.log_start_offset,
            local_log_start_offset=self.local_log_start_offset,
            high_watermark=1 << 60,
        )
        owner = Owner(self.persist_points)
        self.log = PartitionLog.open(self.files, DIRECTORY, self.config, opening, owner)
        return self.log

    def persist_points(self) -> None:
        """What a log directory's checkpoints would hold."""
        log = self.log
        if log is not None:
            self.disk.begin("write", "checkpoint")
            self.recovery_point = log.state.persisted_recovery_point = log.recovery_point
            self.log_start_offset = log.log_start_offset
            local = log.local_log_start_offset
            self.local_log_start_offset = local if local != self.log_start_offset else 0


def batch(
    values: int = 3,
    *,
    size: int = 20,
    timestamp: int = NOW,
    producer: Producer | None = None,
    codec: Codec = Codec.NONE,
    key: bytes | None = b"k",
) -> bytearray:
    """A batch as a client sends it."""
    rows = [(timestamp + each, key, bytes([each % 251]) * size, ()) for each in range(values)]
    if producer is None:
        return encode_batch(rows, codec=codec)
    return encode_batch(rows, codec=codec, producer=producer)


def out_of_use(machine: Machine, directory: str = DIRECTORY) -> list[str]:
    """Files of segments that are not in use, or not yet."""
    return [
        name
        for name in machine.files.list(directory)
        if any(parse_segment_file(name, each) for each in (SWAP, CLEANED, DELETED))
    ]


def contents(log: PartitionLog) -> list[tuple[int, bytes]]:
    """Every batch that the log holds: base offset and bytes."""
    return [
        (each.header.base_offset, bytes(each.data)) for each in log.batches(log.log_start_offset)
    ]
