"""Logs with gaps between their segments: how they come to be, and what they hold."""

from __future__ import annotations

from dataclasses import replace

from moldau.broker.log.gaplessness import gapless_from
from moldau.broker.log.log import PartitionLog
from tests.broker.log.machine import DIRECTORY, NOW, SMALL, Machine, batch

COMPACTED = replace(SMALL, is_compacted=True, is_deleted=False)

RECORDS = 3
"""In each batch."""


def append(log: PartitionLog, count: int = 1, epoch: int = 0) -> None:
    for _ in range(count):
        log.append_as_leader(batch(RECORDS), epoch, NOW)
    log.update_high_watermark(log.log_end_offset)


def mark_of(machine: Machine) -> int | None:
    return gapless_from(machine.files.list(DIRECTORY))


def opened_by_kafka(machine: Machine) -> None:
    """It removes `.deleted` files from the log, whatever they are."""
    for name in machine.files.list(DIRECTORY):
        if name.endswith(".deleted"):
            machine.disk.drop(f"{DIRECTORY}/{name}")


def shorten(
    machine: Machine, base: int, batches: int | None = None, directory: str = DIRECTORY
) -> None:
    """Leave so many batches of a segment's, all but the last one if none is told."""
    path = f"{directory}/{base:020d}"
    data = machine.disk.contents(f"{path}.log")
    size = 12 + int.from_bytes(data[8:12], "big")
    machine.disk.put(f"{path}.log", data[:-size] if batches is None else data[: batches * size])
    for kind in (".index", ".timeindex"):
        machine.disk.drop(path + kind)


def bases(log: PartitionLog) -> list[int]:
    return [each.base_offset for each in log.segments]
