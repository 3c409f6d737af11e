"""Snapshots while other work goes on: what is in them, what a crash or an end leaves."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Callable, Coroutine, Iterable, Iterator

import pytest

from moldau.broker.log.rounds import rest
from moldau.broker.raft.quorum import DIRECTORY, Membership, Quorum
from moldau.broker.raft.snapshots import PART, SnapshotId
from moldau.broker.raft.snapshotting import SnapshotKeeper
from moldau.records import Batch, encode_batch
from moldau.runtime import Runtime
from moldau.runtime.simulated import Node as SimulatedNode
from moldau.runtime.simulated import Options, Simulation
from tests.broker.one_node import simulate
from tests.broker.raft.leading import lead
from tests.broker.server.broken_disk import BrokenFiles

FOLDER = f"/data/{DIRECTORY}"
BATCHES = 20


class Node:
    """A sole voter whose records are numbers; its snapshots hold the numbers of before."""

    def __init__(self, runtime: Runtime) -> None:
        self.runtime = runtime
        runtime.files.make_dirs("/data")
        now_ms = runtime.clock.wall_ms()
        self.quorum = Quorum.open(runtime.files, "/data", Membership(1, (1,)), now_ms)
        self.numbers = numbers(self.quorum.batches())
        lead(self.quorum, now_ms)
        self.keeper = SnapshotKeeper(runtime, self.quorum)
        self.ended: list[Exception | None] = []

    def add(self) -> None:
        """The next number, committed."""
        self.numbers.append(self.numbers[-1] + 1 if self.numbers else 0)
        self.quorum.append(self._batch(self.numbers[-1]), self.runtime.clock.wall_ms())
        self.quorum.flush()

    def write_soon(self) -> None:
        batches = self._batches(list(self.numbers))
        self.keeper.write_soon(self.quorum.high_watermark, batches, self.ended.append)

    def told(self, snapshot_id: SnapshotId) -> list[int]:
        return numbers(self.quorum.snapshot(snapshot_id).batches)

    def parts(self) -> list[str]:
        return [name for name in self.runtime.files.list(FOLDER) if name.endswith(PART)]

    def _batches(self, numbers: list[int]) -> Iterator[bytearray]:
        for number in numbers:
            yield self._batch(number)

    def _batch(self, number: int) -> bytearray:
        now_ms = self.runtime.clock.wall_ms()
        return encode_batch([(now_ms, None, b"%d" % number, ())])


def numbers(batches: Iterable[Batch]) -> list[int]:
    return [int(record.value or b"") for batch in batches for record in batch.records()]


def run(main: Callable[[Runtime], Coroutine[None, None, None]], sync_ns: int = 1_000_000) -> None:
    def prepare(node: SimulatedNode) -> None:
        node.disk.costs.sync_ns = sync_ns

    simulate(main, seed=5, within=60, prepare=prepare)


def test_records_that_come_while_a_snapshot_is_written_are_behind_it() -> None:
    async def main(runtime: Runtime) -> None:
        node = Node(runtime)
        for _ in range(BATCHES):
            node.add()
        node.write_soon()
        while node.keeper.is_busy:
            node.add()
            await asyncio.sleep(0)
        (made,) = node.quorum.snapshots
        assert node.told(made) == list(range(BATCHES))
        assert node.numbers[BATCHES:], "the event loop went on"
        assert numbers(node.quorum.batches()) == node.numbers
        assert node.ended == [None]
        assert not node.parts()

    run(main)


def test_an_end_in_the_middle_leaves_nothing_of_it_and_no_task() -> None:
    async def main(runtime: Runtime) -> None:
        node = Node(runtime)
        for _ in range(BATCHES):
            node.add()
        node.write_soon()
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert node.parts(), "it is under way"
        await node.keeper.aclose()
        assert not node.parts()
        assert not node.quorum.snapshots
        assert not node.keeper.is_busy
        assert not node.ended, "it is over, which is no news"

    run(main)


def test_an_end_while_it_is_synced_waits_for_the_disk() -> None:
    """The next life finds it: the files are not touched after the end."""

    async def main(runtime: Runtime) -> None:
        node = Node(runtime)
        for _ in range(2):
            node.add()
        node.write_soon()
        for _ in range(2 + 2 + 1):  # its start, its batches, its end
            await asyncio.sleep(0)
        assert node.parts(), "it is being synced"
        await node.keeper.aclose()
        assert not node.parts()
        before = runtime.files.list(FOLDER)
        await rest(1)
        assert runtime.files.list(FOLDER) == before
        node.quorum.close()
        again = Quorum.open(runtime.files, "/data", Membership(1, (1,)), runtime.clock.wall_ms())
        assert len(again.snapshots) == 1
        assert numbers(again.batches()) == [0, 1]

    run(main, sync_ns=100_000_000)


def test_a_snapshot_of_the_leader_that_comes_meanwhile_takes_the_place_of_both() -> None:
    async def main(runtime: Runtime) -> None:
        node = Node(runtime)
        for _ in range(BATCHES):
            node.add()
        theirs = SnapshotId(node.quorum.log_end_offset + 5, node.quorum.epoch)
        node.write_soon()
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert node.parts()
        node.quorum.end_epoch()
        node.quorum.snapshots.append(theirs)  # as `install_snapshot` does
        await node.keeper.idle()
        assert not node.parts()
        assert node.quorum.snapshots == [theirs]
        assert node.ended == [None]

    run(main)


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EIO])
def test_a_disk_that_refuses_is_told_and_no_half_of_a_file_takes_its_space(code: int) -> None:
    async def main(runtime: Runtime) -> None:
        files = BrokenFiles(runtime.files, code)
        runtime.files = files.as_files()
        node = Node(runtime)
        node.add()
        files.breaks_once.add(PART)
        node.write_soon()
        await node.keeper.idle()
        (error,) = node.ended
        assert isinstance(error, OSError)
        assert error.errno == code
        assert not node.quorum.snapshots
        assert not node.parts()
        node.write_soon()
        await node.keeper.idle()
        assert len(node.quorum.snapshots) == 1

    run(main)


def test_an_old_snapshot_that_cannot_be_removed_stays_with_its_log() -> None:
    async def main(runtime: Runtime) -> None:
        files = BrokenFiles(runtime.files)
        runtime.files = files.as_files()
        node = Node(runtime)
        for _ in range(3):
            if len(node.quorum.snapshots) == 2:
                oldest = node.quorum.snapshots[0]
                files.broken.add(oldest.file_name)
            node.add()
            node.write_soon()
            await node.keeper.idle()
        assert isinstance(node.ended[-1], OSError)
        assert len(node.quorum.snapshots) == 3
        assert node.quorum.snapshots[0] == oldest
        assert node.quorum.log.log_start_offset <= oldest.end_offset
        files.broken.clear()
        node.keeper.clean_soon(node.ended.append)
        await node.keeper.idle()
        assert len(node.quorum.snapshots) == 2
        assert not files.exists(f"{FOLDER}/{oldest.file_name}")

    run(main)


@pytest.mark.parametrize("seed", range(30))
def test_power_may_fail_while_a_snapshot_is_written(seed: int) -> None:
    told: list[int] = []

    async def main(runtime: Runtime) -> None:
        node = Node(runtime)
        assert node.numbers[: len(told)] == told
        told[:] = node.numbers
        while True:
            node.add()
            told[:] = node.numbers
            if not node.keeper.is_busy:
                node.write_soon()
            await rest(runtime.random.random() * 0.01)

    with Simulation(seed, Options()) as world:
        machine = world.add_node("a", main, start=False)
        machine.disk.costs.sync_ns = 5_000_000
        for life in range(8):
            machine.start()
            world.run_for(0.05 + 0.013 * life)
            machine.power_loss()
            world.run_for(1)
    assert len(told) > 20
