"""The process dies, or the power fails, before any call to the disk while a replica moves to
another directory: one log counts afterwards, with all that was acknowledged, and it goes on."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field, replace
from random import Random

import pytest

from moldau.broker.log.names import TAKES_OVER, TopicPartition
from moldau.broker.replication.partition import Partition
from moldau.broker.replication.topic_config import TopicConfig
from moldau.errors.codes import KafkaError
from tests.broker.log.machine import NOW, SMALL, StoppingDisk, batch, contents
from tests.broker.replication.hosting import Host
from tests.broker.replication.stopping import begin_life, run_until_it_dies

PLACE = TopicPartition("t", 0)
FIRST = bytes(15) + bytes([101])
FLUSHED = TopicConfig(replace(SMALL, flush_messages=1, file_delete_delay_ms=0))
UNFLUSHED = TopicConfig(replace(SMALL, file_delete_delay_ms=0))
BATCHES = 12


@dataclass
class Told:
    """What a client knows."""

    config: TopicConfig
    sent: list[bytearray] = field(default_factory=list)
    acknowledged: int = 0
    log_start: int = 0


def send(partition: Partition, told: Told) -> None:
    """Another batch; then note how far all of them are acknowledged."""
    made = batch(2, size=30, timestamp=NOW + len(told.sent))
    told.sent.append(made)  # stamped in place, and perhaps written, when the node dies
    partition.append(made, 1, NOW)
    note(partition, told)


def note(partition: Partition, told: Told) -> None:
    while told.acknowledged < len(told.sent):
        if not partition.is_acknowledged(2 * told.acknowledged + 1, 1):
            return
        told.acknowledged += 1


async def move(host: Host, partition: Partition, told: Told) -> None:
    """To the second directory, while a client writes; and then some more."""
    begun: list[KafkaError | None] = []
    moves = host.replicas.moves
    moves.begin(partition, moves.target_of(partition.topic, partition.index, "/b"), begun.append)
    turns = 0
    while not begun or len(host.replicas.moves):
        turns += 1
        if turns % 2 == 0 and len(told.sent) < 3 * BATCHES:
            send(partition, told)
        note(partition, told)
        await asyncio.sleep(0)
    assert begun == [None]
    send(partition, told)
    while told.acknowledged < len(told.sent):
        await asyncio.sleep(0)
        note(partition, told)


async def begin(host: Host, told: Told) -> Partition:
    partition = host.lead("t", config=told.config, directory_id=FIRST)
    for _ in range(BATCHES):
        send(partition, told)
    while told.acknowledged < BATCHES:
        await asyncio.sleep(0)
        note(partition, told)
    partition.delete_records(5)
    await host.replicas.log_starts_durable([partition])
    told.log_start = 5
    return partition


def places(host: Host) -> list[str]:
    return [each.path for each in host.directories.directories if PLACE in each.logs]


async def first_life(disk: StoppingDisk, calls: int, told: Told) -> bool:
    host = Host.open(begin_life(disk), config=told.config.log)
    partition = await begin(host, told)
    is_done = await run_until_it_dies(disk, move(host, partition, told), calls)
    if is_done:
        assert places(host) == ["/b"]
        assert TAKES_OVER not in disk.files(disk.incarnation).list("/b/t-0")
    return is_done


async def second_life(disk: StoppingDisk, told: Told) -> str:
    """Where it was found; it goes on, wherever it stopped."""
    host = Host.open(begin_life(disk), config=told.config.log)
    (found,) = places(host)
    partition = host.lead("t", config=told.config, epoch=1, directory_id=FIRST, is_new=False)
    check(partition, told)
    if len(host.replicas.moves):
        await host.replicas.moves.idle()
        assert places(host) == ["/b"]
        check(partition, told)
    host.replicas.set_aside_strays()
    send(partition, told)
    assert contents(partition.log)[-1][1] == told.sent[-1]
    await host.replicas.upkeep._sweep()
    await host.replicas.aclose()
    host.directories.close()
    names = [*disk.files(disk.incarnation).list("/a"), *disk.files(disk.incarnation).list("/b")]
    assert [name for name in names if name.startswith("t-0")] == ["t-0"]
    return found


def check(partition: Partition, told: Told) -> None:
    """All that was acknowledged, nothing but what was sent, in order."""
    assert partition.log.log_start_offset >= told.log_start
    found = [data for _, data in contents(partition.log)]
    before = len(told.sent) - len(told.sent[told.log_start // 2 :])
    assert found == told.sent[before : before + len(found)]
    if told.config is FLUSHED:
        assert before + len(found) >= told.acknowledged
    del told.sent[before + len(found) :]
    told.acknowledged = len(told.sent)


def stop_at(calls: int, seed: int, config: TopicConfig, *, is_power: bool) -> tuple[bool, str]:
    disk = StoppingDisk(Random(1000 * calls + seed), sector_bytes=64, now_ms=lambda: NOW)
    told = Told(config)
    is_done = asyncio.run(first_life(disk, calls, told))
    disk.incarnation.poison()
    if is_power:
        disk.power_loss()
    else:
        disk.kill()
    return is_done, asyncio.run(second_life(disk, told))


@pytest.mark.slow
@pytest.mark.parametrize("config", [FLUSHED, UNFLUSHED])
@pytest.mark.parametrize(
    ("is_power", "seed"),
    [(False, 0), (True, 0), pytest.param(True, 1, marks=(pytest.mark.deep, pytest.mark.soak))],
)
def test_a_stop_before_any_call_leaves_one_log_with_all_that_was_acknowledged(
    config: TopicConfig, is_power: bool, seed: int
) -> None:
    calls, is_done = 0, False
    found = set()
    while not is_done:
        is_done, place = stop_at(calls, seed, config, is_power=is_power)
        found.add(place)
        calls += 1
    assert found == {"/a", "/b"}
    assert calls > 60
