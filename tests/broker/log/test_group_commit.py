"""Acknowledging after fsync: many wait for one, a failure is heard by all, nobody starves."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import pytest

from moldau.broker.log.group_commit import TRIES, GroupCommit
from moldau.broker.log.log import PartitionLog
from moldau.broker.log.recovery import Opening
from moldau.errors.codes import ErrorCode, KafkaError
from moldau.runtime import Runtime
from moldau.runtime.files import File
from moldau.runtime.interface import Syncs
from moldau.runtime.real import RealRuntime
from moldau.runtime.simulated import Node, SimulationFailed
from tests.broker.log.machine import NOW, SMALL, batch
from tests.broker.one_node import simulate

T = TypeVar("T")


def open_log(runtime: Runtime, path: str = "/data/t-0") -> PartitionLog:
    return PartitionLog.open(runtime.files, path, SMALL, Opening(NOW))


def run(main: Callable[[Runtime], Coroutine[Any, Any, T]], disk_fault: str = "") -> T:
    """Run `main` as the only node of a world; the next sync of `disk_fault` fails."""

    def prepare(node: Node) -> None:
        if disk_fault:
            node.disk.fail_next("sync", path_part=disk_fault)

    return simulate(main, within=60, prepare=prepare)


def test_many_appends_share_a_sync() -> None:
    async def main(runtime: Runtime) -> tuple[int, list[int]]:
        logs = [open_log(runtime, f"/data/t-{number}") for number in range(3)]
        commit = GroupCommit(runtime)
        order: list[int] = []
        done = asyncio.Event()

        def acknowledged(
            number: int, log: PartitionLog, end: int, error: KafkaError | None
        ) -> None:
            assert error is None
            assert log.flushed_end_offset >= end
            order.append(number)
            if len(order) == 64:
                done.set()

        for number in range(64):
            log = logs[number % 3]
            end = log.append_as_leader(batch(), 0, NOW).last_offset + 1
            commit.submit(log, partial(acknowledged, number, log, end))
        await done.wait()
        return commit.sync_count, order

    count, order = run(main)
    assert count == 1
    for log in range(3):
        mine = [number for number in order if number % 3 == log]
        assert mine == sorted(mine)


def test_who_comes_while_a_sync_runs_gets_the_next_one() -> None:
    async def main(runtime: Runtime) -> list[tuple[str, int]]:
        log = open_log(runtime)
        commit = GroupCommit(runtime)
        heard: list[tuple[str, int]] = []
        done = asyncio.Event()

        def first(error: KafkaError | None) -> None:
            heard.append(("first", commit.sync_count))

        def second(error: KafkaError | None) -> None:
            heard.append(("second", commit.sync_count))
            done.set()

        log.append_as_leader(batch(), 0, NOW)
        commit.submit(log, first)
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        log.append_as_leader(batch(), 0, NOW)
        commit.submit(log, second)
        await done.wait()
        assert log.flushed_end_offset == 6
        return heard

    assert run(main) == [("first", 1), ("second", 2)]


def test_who_comes_in_the_same_turn_is_in_the_round_and_is_called_once() -> None:
    async def main(runtime: Runtime) -> list[int]:
        log = open_log(runtime)
        commit = GroupCommit(runtime)
        heard: list[int] = []
        done = asyncio.Event()

        def told(error: KafkaError | None) -> None:
            heard.append(log.flushed_end_offset)
            done.set()

        for _ in range(3):
            log.append_as_leader(batch(), 0, NOW)
            commit.submit(log, told)
        await asyncio.sleep(0)
        log.append_as_leader(batch(), 0, NOW)
        commit.submit(log, told)
        await done.wait()
        await commit.idle()
        assert commit.sync_count == 1
        return heard

    assert run(main) == [12]


def test_all_who_wait_hear_of_a_failure_and_the_other_log_goes_on() -> None:
    async def main(runtime: Runtime) -> list[str]:
        bad, good = open_log(runtime, "/data/bad-0"), open_log(runtime, "/data/good-0")
        commit = GroupCommit(runtime)
        heard: list[str] = []
        done = asyncio.Event()

        def told(name: str, error: KafkaError | None) -> None:
            heard.append(f"{name} {'refused' if error else 'durable'}")
            if len(heard) == 3:
                commit.submit(bad, lambda error: told("late", error))
            if len(heard) == 4:
                done.set()

        for log, name in ((bad, "bad"), (good, "good"), (bad, "bad")):
            log.append_as_leader(batch(), 0, NOW)
            commit.submit(log, partial(told, name))
        await done.wait()
        assert (bad.flushed_end_offset, good.flushed_end_offset) == (0, 3)
        return heard

    heard = run(main, disk_fault="bad-0/0000")
    assert heard == ["bad refused", "bad refused", "good durable", "late refused"]


def test_a_callback_that_raises_keeps_nobody_else_from_hearing() -> None:
    heard: list[int] = []

    async def main(runtime: Runtime) -> None:
        log = open_log(runtime)
        commit = GroupCommit(runtime)
        done = asyncio.Event()

        def told(number: int, error: KafkaError | None) -> None:
            heard.append(number)
            if number == 0:
                commit.submit(log, partial(told, 9))
            if number == 1:
                raise ValueError("a bug of the caller")
            if number == 9:
                done.set()

        for number in range(4):
            log.append_as_leader(batch(), 0, NOW)
            commit.submit(log, partial(told, number))
        await done.wait()

    with pytest.raises(SimulationFailed, match="a bug of the caller"):
        run(main)
    assert heard[:4] == [0, 1, 2, 3]


class Choosy(RealRuntime):
    """Syncs for us as it is told to: all that it can, one file of a round, or none."""

    def __init__(self, taken_max: int, failure: OSError | None = None) -> None:
        super().__init__()
        self.taken = 0
        self._taken_max = taken_max
        self._failure = failure

    def sync_data(self, files: Sequence[File]) -> Syncs | None:
        syncs = super().sync_data(files[: self._taken_max]) if self._taken_max else None
        if syncs is None:
            return None
        self.taken += syncs.taken
        if self._failure is not None:
            failed: asyncio.Future[list[OSError | None]] = syncs.outcomes.get_loop().create_future()
            failed.set_result([self._failure] * syncs.taken)
            return Syncs(syncs.taken, failed)
        return syncs


@pytest.mark.parametrize("taken_max", [0, 1, 100])
def test_either_way_and_both_at_once_make_logs_durable(tmp_path: Path, taken_max: int) -> None:
    async def main() -> None:
        runtime = Choosy(taken_max)
        async with runtime:
            await _skip_without_kernel(runtime, tmp_path, taken_max)
            logs = [open_log(runtime, f"{tmp_path}/t-{number}") for number in range(9)]
            commit = GroupCommit(runtime)
            rounds = 2 * TRIES + 5
            for _ in range(rounds):
                for log in logs:
                    log.append_as_leader(batch(), 0, NOW)
                async with asyncio.TaskGroup() as group:
                    for log in logs:
                        group.create_task(commit.durable(log))
                assert all(log.flushed_end_offset == log.log_end_offset for log in logs)
            await commit.idle()
            assert bool(runtime.taken) == bool(taken_max)
            for log in logs:
                log.close()

    asyncio.run(main())


def test_a_failure_that_the_kernel_tells_of_takes_the_log_out_of_service(tmp_path: Path) -> None:
    async def main() -> None:
        runtime = Choosy(1, OSError(errno.EIO, "broken"))
        async with runtime:
            await _skip_without_kernel(runtime, tmp_path, 1)
            logs = [open_log(runtime, f"{tmp_path}/t-{number}") for number in range(2)]
            commit = GroupCommit(runtime)
            for log in logs:
                log.append_as_leader(batch(), 0, NOW)
                log.flush()  # names too, which no kernel makes durable for us
                log.append_as_leader(batch(), 0, NOW)
            waiting = [asyncio.ensure_future(commit.durable(log)) for log in logs]
            failed, other = await asyncio.gather(*waiting, return_exceptions=True)
            assert isinstance(failed, KafkaError)
            assert failed.code == ErrorCode.KAFKA_STORAGE_ERROR
            assert other is None
            assert logs[0].failure is not None
            assert logs[1].failure is None
            for log in logs:
                log.abandon()

    asyncio.run(main())


async def _skip_without_kernel(runtime: Choosy, folder: Path, taken_max: int) -> None:
    file = runtime.files.open(f"{folder}/probe", "write")
    syncs = RealRuntime.sync_data(runtime, [file])
    if syncs is None:
        if taken_max:
            pytest.skip("this system does not sync files for us")
        return
    await syncs.outcomes
    file.close()


def test_a_log_that_is_let_go_of_while_it_waits_costs_the_others_nothing() -> None:
    """1. A sync is under way, and two logs wait for the next one. 2. The topic of one is deleted,
    and its files go. 3. The next round begins."""

    async def main(runtime: Runtime) -> None:
        logs = [open_log(runtime, f"/data/t-{number}") for number in range(3)]
        commit = GroupCommit(runtime)
        for log in logs:
            log.append_as_leader(batch(), 0, NOW)
        waiting = [asyncio.ensure_future(commit.durable(logs[0]))]
        for _ in range(5):  # turns of the loop, in which virtual time stands still
            await asyncio.sleep(0)
        assert not waiting[0].done(), "under way"
        waiting += [asyncio.ensure_future(commit.durable(log)) for log in logs[1:]]
        await asyncio.sleep(0)
        logs[1].abandon()
        first, gone, other = await asyncio.gather(*waiting, return_exceptions=True)
        assert first is None
        assert isinstance(gone, KafkaError)
        assert other is None
        logs[2].append_as_leader(batch(), 0, NOW)
        await commit.durable(logs[2])
        assert logs[2].flushed_end_offset == logs[2].log_end_offset

    run(main)
