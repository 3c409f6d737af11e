"""Snapshots of the metadata that time asks for, and how long they stay: over restarts too."""

from __future__ import annotations

import errno

import pytest

from moldau.broker.log.rounds import rest
from moldau.broker.raft.quorum import DIRECTORY
from moldau.broker.raft.snapshots import PART, SnapshotId, list_snapshots
from moldau.broker.server.channel import CLEAN_INTERVAL_MS
from moldau.broker.server.controller_config import controller_config_of
from moldau.errors.codes import ErrorCode
from moldau.runtime import Runtime
from tests.broker.server.broken_disk import BrokenFiles
from tests.broker.server.houses import House, house
from tests.runtime.arena import play

INTERVAL_SECONDS = 100
INTERVAL = str(INTERVAL_SECONDS * 1000)


def snapshots(at: House) -> list[SnapshotId]:
    """Those of this node's own making."""
    path = f"{at.directory}/{DIRECTORY}"
    found = list_snapshots(at.runtime.files, path) if at.runtime.files.exists(path) else []
    return [each for each in found if each.end_offset]


def refusals(at: House) -> list[str]:
    """Lines about snapshots that could not be written."""
    return [line for line in at.lines if "cannot write a snapshot" in line]


def test_the_interval_goes_on_over_restarts() -> None:
    """A node that is restarted more often than that would never make one."""

    async def scenario(runtime: Runtime) -> None:
        async with house(runtime) as at:
            lives = 0
            while not snapshots(at):
                lives += 1
                assert lives < 5
                async with at.open(metadata_log_max_snapshot_interval_ms=INTERVAL) as (_, wire):
                    await wire.create(f"topic-{lives}")
                    await rest(INTERVAL_SECONDS * 0.4)
            assert lives == 3
            (first,) = snapshots(at)
            async with at.open(metadata_log_max_snapshot_interval_ms=INTERVAL):
                await rest(INTERVAL_SECONDS * 0.3)
                assert snapshots(at) == [first], "what came since then is not old enough"
                await rest(INTERVAL_SECONDS)
                assert len(snapshots(at)) == 2

    play("simulated", scenario)


def test_size_is_counted_over_restarts_too() -> None:
    async def scenario(runtime: Runtime) -> None:
        async with house(runtime) as at:
            given = {"metadata_log_max_record_bytes_between_snapshots": "12000"}
            lives = 0
            while not snapshots(at):
                lives += 1
                assert lives < 50
                async with at.open(**given) as (_, wire):
                    await wire.create(f"topic-{lives}", 5)
            assert lives > 2, "no life alone has written so much"

    play("simulated", scenario)


def test_old_snapshots_stay_for_as_long_as_the_settings_say() -> None:
    async def scenario(runtime: Runtime) -> None:
        async with house(runtime) as at:
            retention = INTERVAL_SECONDS * 5
            given = {
                "metadata_log_max_snapshot_interval_ms": INTERVAL,
                "metadata_max_retention_ms": str(retention * 1000),
            }
            async with at.open(**given) as (broker, wire):
                for number in range(12):
                    await wire.create(f"topic-{number}")
                    await rest(INTERVAL_SECONDS + 2)
                made = snapshots(at)
                assert 4 <= len(made) <= 7, "one in each interval, within the retention"
                assert made[-1].end_offset > 12
                await rest(retention + CLEAN_INTERVAL_MS / 1000 + 2)
                assert len(snapshots(at)) == 2, "the newest two stay"
                assert snapshots(at)[0] in made
                assert broker.failure is None
            async with at.open(**given) as (_, wire):
                assert len((await wire.metadata()).topics) == 12

    play("simulated", scenario)


def test_the_config_takes_the_retention() -> None:
    given = House.__new__(House)
    given.directory, given.host, given.port = "/data", "localhost", 9092
    said = given.settings(metadata_max_retention_bytes="5", metadata_max_retention_ms="-1")
    retention = controller_config_of(said, "cluster", "/data").retention
    assert (retention.bytes_max, retention.ms_max) == (5, -1)


@pytest.mark.parametrize("code", [errno.EMFILE, errno.ENOSPC])
def test_a_snapshot_that_cannot_be_written_now_is_written_later(code: int) -> None:
    """It takes nothing from the log, so nothing is lost without it."""

    async def scenario(runtime: Runtime) -> None:
        files = BrokenFiles(runtime.files, code)
        runtime.files = files.as_files()
        async with house(runtime) as at:
            given = {"metadata_log_max_record_bytes_between_snapshots": "2000"}
            async with at.open(**given) as (broker, wire):
                files.broken.add(PART)
                names = (f"t{number}" for number in range(1_000))
                while len(refusals(at)) < 3:
                    assert await wire.create(next(names)) == ErrorCode.NONE
                assert not snapshots(at)
                files.broken.clear()
                while not snapshots(at):
                    assert await wire.create(next(names)) == ErrorCode.NONE
                assert len(refusals(at)) == 3
                assert broker.failure is None

    play("simulated", scenario)


def test_a_snapshot_on_a_broken_disk_ends_the_controller_of_this_life() -> None:
    """Another one is opened from the log, which holds all that was acknowledged."""

    async def scenario(runtime: Runtime) -> None:
        files = BrokenFiles(runtime.files)
        runtime.files = files.as_files()
        async with house(runtime) as at:
            given = {"metadata_log_max_record_bytes_between_snapshots": "2000"}
            async with at.open(**given) as (broker, wire):
                files.breaks_once.add(PART)
                made: list[str] = []
                while not any("it is opened anew" in line for line in at.lines):
                    name = f"t{len(made)}"
                    if await wire.create(name) == ErrorCode.NONE:
                        made.append(name)
                assert not refusals(at)
                assert await wire.create("later") == ErrorCode.NONE
                there = {each.name for each in (await wire.metadata()).topics}
                assert {*made, "later"} <= there
                assert broker.failure is None

    play("simulated", scenario)


def test_a_node_that_ends_while_it_writes_a_snapshot_leaves_no_half_of_it() -> None:
    async def scenario(runtime: Runtime) -> None:
        async with house(runtime) as at:
            async with at.open() as (broker, wire):
                await wire.create("topic", 2000)
                controller = broker._controller
                assert controller is not None
                keeper = controller.raft.snapshots
                controller.snapshot_soon()
                was_busy = keeper.is_busy
            assert (was_busy, keeper.is_busy) == (True, False)
            path = f"{at.directory}/{DIRECTORY}"
            assert not [each for each in runtime.files.list(path) if each.endswith(PART)]
            async with at.open() as (broker, wire):
                assert len((await wire.metadata()).topics[0].partitions) == 2000

    play("simulated", scenario)
