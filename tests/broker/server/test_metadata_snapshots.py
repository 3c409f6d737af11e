"""Snapshots of the metadata that time asks for, and how long they stay: over restarts too."""

from __future__ import annotations

from moldau.broker.log.shell import rest
from moldau.broker.raft.quorum import DIRECTORY
from moldau.broker.raft.snapshots import SnapshotId, list_snapshots
from moldau.broker.server.channel import CLEAN_INTERVAL_MS
from moldau.broker.server.charter import charter_of
from moldau.runtime import Runtime
from tests.broker.server.houses import House, house
from tests.runtime.arena import play

INTERVAL_SECONDS = 100
INTERVAL = str(INTERVAL_SECONDS * 1000)


def snapshots(at: House) -> list[SnapshotId]:
    """Those of this node's own making."""
    path = f"{at.directory}/{DIRECTORY}"
    found = list_snapshots(at.runtime.files, path) if at.runtime.files.exists(path) else []
    return [each for each in found if each.end_offset]


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


def test_a_charter_takes_the_retention() -> None:
    given = House.__new__(House)
    given.directory, given.host, given.port = "/data", "localhost", 9092
    said = given.settings(metadata_max_retention_bytes="5", metadata_max_retention_ms="-1")
    retention = charter_of(said, "cluster", "/data").retention
    assert (retention.bytes_max, retention.ms_max) == (5, -1)
