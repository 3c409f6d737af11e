"""Clients write while everything periodic runs and the node dies again and again: what was
acknowledged after a flush is there, of each key the newest, in order, and nothing damaged."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from random import Random
from typing import Final

import pytest

from moldau.broker.log.compaction_choice import CompactionPolicy
from moldau.broker.log.log_settings import CleanerOptions, UpkeepOptions
from moldau.broker.log.rounds import rest
from moldau.broker.replication.partition import Partition
from moldau.broker.replication.topic_config import TopicConfig
from moldau.errors.codes import KafkaError
from moldau.records import Record, encode_batch
from moldau.runtime import Runtime
from moldau.runtime.simulated import Simulation
from moldau.runtime.simulated.node import Node
from tests import suites
from tests.broker.log.machine import SMALL
from tests.broker.replication.hosting import Host

UPKEEP: Final = UpkeepOptions(
    initial_delay=300,
    retention_interval=400,
    flush_interval=50,
    points_interval=2000,
    high_watermarks_interval=70,
)
CLEANER: Final = CleanerOptions(threads=2, backoff_ms=60)
KEPT: Final = TopicConfig(
    replace(SMALL, flush_messages=1, file_delete_delay_ms=100, retention_bytes=2500)
)
COMPACTED: Final = TopicConfig(
    replace(
        KEPT.log,
        is_deleted=False,
        is_compacted=True,
        compaction=CompactionPolicy(min_cleanable_dirty_ratio=0.0, delete_retention_ms=200),
    )
)
WRITERS: Final = 3
"""Of each topic, so that some append while others are flushed."""
CONFIGS: Final = {"kept": KEPT, "compacted": COMPACTED, "other": COMPACTED}
PLACES: Final = {
    "kept": bytes(15) + bytes([101]),
    "compacted": bytes(15) + bytes([101]),
    "other": bytes(15) + bytes([102]),
}


@dataclass
class Told:
    """What the client of one topic knows: outlives the node."""

    acknowledged: dict[int, tuple[bytes, bytes | None]] = field(default_factory=dict)
    begun: int = 0
    sent: set[tuple[bytes, bytes | None]] = field(default_factory=set)


class Storm:
    """One world."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.told = {topic: Told() for topic in CONFIGS}
        self.lives = 0
        self.cleaned = 0
        self.retained = 0
        self.lost_directories = 0
        self.expects_failure = False

    async def main(self, runtime: Runtime) -> None:
        host = Host.open(runtime, config=COMPACTED.log)
        self.lives += 1
        await self.check(host)
        partitions = {
            topic: host.lead(topic, config=config, epoch=self.lives, directory_id=PLACES[topic])
            for topic, config in CONFIGS.items()
        }
        host.replicas.set_aside_strays()
        host.replicas.upkeep.start(UPKEEP)
        host.replicas.cleaner.start(CLEANER)
        try:
            await asyncio.gather(
                *(
                    self.write(host, topic, each)
                    for topic, each in partitions.items()
                    for _ in range(WRITERS)
                )
            )
        finally:
            self.cleaned += len([line for line in host.lines if "compacted a log" in line])
            self.retained += len([line for line in host.lines if "let go" in line])

    async def write(self, host: Host, topic: str, partition: Partition) -> None:
        told = self.told[topic]
        while True:
            told.begun += 1
            key = b"k%d" % self.random.randrange(6)
            value = None if self.random.random() < 0.2 else b"%d" % told.begun
            told.sent.add((key, value))
            now_ms = host.runtime.clock.wall_ms()
            try:
                offset = await host.acknowledged(
                    partition, encode_batch([(now_ms, key, value, ())])
                )
                told.acknowledged[offset] = key, value
                if topic == "kept" and self.random.random() < 0.05:
                    partition.delete_records(max(0, partition.high_watermark - 10))
            except KafkaError:
                assert self.expects_failure, "a disk that is well refuses nothing"
                self.lost_directories += 1
                return
            await rest(self.random.random() / 50)

    async def check(self, host: Host) -> None:
        for topic, told in self.told.items():
            log = next(
                (log for place, log in host.directories.logs() if place.topic == topic), None
            )
            if log is None:
                assert not told.acknowledged, topic
                continue
            for batch in log.batches(log.log_start_offset):
                batch.check_crc()
            found = {
                record.offset: record
                for batch in log.batches(log.log_start_offset)
                for record in batch.records()
                if record.offset >= log.log_start_offset
            }
            if topic != "kept":
                assert log.log_start_offset == 0
            assert list(found) == sorted(found)
            assert max(told.acknowledged, default=-1) < log.log_end_offset, topic
            for record in found.values():
                assert (bytes(record.key or b""), record.value) in told.sent
            if topic == "kept":
                expected = {each for each in told.acknowledged if each >= log.log_start_offset}
                assert expected <= set(found)
            for offset, (key, value) in self.newest(told):
                if offset < log.log_start_offset:
                    continue
                self.check_key(found, offset, key, value)
            # What was in flight is decided now: it is there, or it never will be.
            told.acknowledged = {
                **told.acknowledged,
                **{each.offset: (each.key or b"", each.value) for each in found.values()},
            }

    @staticmethod
    def newest(told: Told) -> Iterator[tuple[int, tuple[bytes, bytes | None]]]:
        newest: dict[bytes, int] = {}
        for offset in sorted(told.acknowledged):
            newest[told.acknowledged[offset][0]] = offset
        for offset in newest.values():
            yield offset, told.acknowledged[offset]

    @staticmethod
    def check_key(found: dict[int, Record], offset: int, key: bytes, value: bytes | None) -> None:
        """The newest acknowledged record of a key, or one in flight that came after it. A tombstone
        may be gone, but nothing older may come back."""
        later = [each for each in found.values() if each.key == key and each.offset > offset]
        if later:
            return
        if offset in found:
            assert (found[offset].key, found[offset].value) == (key, value)
        else:
            assert value is None, f"lost offset {offset} of {key!r}"
        older = [each for each in found.values() if each.key == key and each.offset < offset]
        assert value is not None or offset in found or not older, "a deleted key came back"


def run(seed: int, *, with_failures: bool) -> Storm:
    storm = Storm(seed)
    with Simulation(seed) as world:
        node: Node = world.add_node("node", storm.main, start=False)
        node.start()
        for _ in range(6):
            world.run_for(0.2 + storm.random.random() * 1.5)
            if with_failures and storm.random.random() < 0.5:
                storm.expects_failure = True
                part = storm.random.choice(("/a/", "/b/", ".cleaned", "checkpoint", ".log"))
                node.disk.fail_next(storm.random.choice(("write", "sync")), path_part=part)
                world.run_for(1.0)
            if storm.random.random() < 0.7:
                node.power_loss()
            else:
                node.crash()
            if node.disk.needs_remount:
                node.disk.remount()
            storm.expects_failure = False
            node.start()
        world.run_for(0.5)
    return storm


@pytest.mark.parametrize("first", suites.seeds((0, 6), quick=1))
def test_what_was_acknowledged_survives_all_that_is_periodic(first: int) -> None:
    storms = [run(seed, with_failures=False) for seed in range(first, first + 6)]
    assert sum(storm.cleaned for storm in storms) > 20
    assert sum(storm.retained for storm in storms) > 5


@pytest.mark.parametrize("first", range(1000, 1006, 6))
def test_a_disk_that_fails_loses_nothing_either(first: int) -> None:
    storms = [run(seed, with_failures=True) for seed in range(first, first + 6)]
    assert sum(storm.lost_directories for storm in storms) > 4
