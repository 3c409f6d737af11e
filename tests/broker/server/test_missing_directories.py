"""A node whose second disk is not there: it does not take an empty directory for it, and says what
is out of service when it is to go on without."""

from __future__ import annotations

import pytest

from moldau.errors import ConfigError
from moldau.errors.codes import ErrorCode
from moldau.runtime import Runtime
from tests.broker.server.houses import House, house
from tests.broker.server.wire import Wire
from tests.runtime.arena import REAL_ARENAS, play

PARTITIONS = 4
arenas = pytest.mark.parametrize("arena", [*REAL_ARENAS, "simulated"])


async def counted(wire: Wire) -> list[int]:
    return [len(await wire.fetch_all("orders", each)) for each in range(PARTITIONS)]


async def filled(at: House, log_dirs: str) -> list[int]:
    """A record in each partition; those that lie in the last directory."""
    async with at.open(log_dirs=log_dirs) as (broker, wire):
        await wire.create("orders", PARTITIONS)
        for each in range(PARTITIONS):
            assert (await wire.produce("orders", [b"value"], each)).error_code == ErrorCode.NONE
        last = broker.node.directories.directories[-1]
        return sorted(place.partition for place in last.logs)


@arenas
def test_an_empty_directory_is_not_taken_for_a_disk_that_is_not_mounted(arena: str) -> None:
    async def scenario(runtime: Runtime) -> None:
        async with house(runtime) as at:
            directories = f"{at.directory}/here,{at.directory}/away"
            files, away = runtime.files, f"{at.directory}/away"
            await filled(at, directories)
            files.rename(away, f"{at.directory}/elsewhere")
            for is_mount_point_there in (False, True):
                if is_mount_point_there:
                    files.make_dirs(away)
                with pytest.raises(ConfigError, match="is its disk mounted"):
                    async with at.open(log_dirs=directories):
                        pass
                assert not is_mount_point_there or files.list(away) == []
            files.remove_tree(away)
            files.rename(f"{at.directory}/elsewhere", away)
            async with at.open(log_dirs=directories) as (_, wire):
                assert await counted(wire) == [1] * PARTITIONS
            assert not at.complaints()

    play(arena, scenario)


@arenas
def test_partitions_in_a_directory_that_is_named_no_more_are_told_of(arena: str) -> None:
    async def scenario(runtime: Runtime) -> None:
        async with house(runtime) as at:
            here, away = f"{at.directory}/here", f"{at.directory}/away"
            lost = await filled(at, f"{here},{away}")
            assert 0 < len(lost) < PARTITIONS
            assert not at.complaints()
            async with at.open(log_dirs=here):
                pass
            (warning,) = at.complaints()
            assert "log.dirs does not name" in warning
            assert f"partitions={len(lost)}" in warning
            assert ",".join(f"orders-{index}" for index in lost) in warning

            at.lines.clear()
            async with at.open(log_dirs=f"{here},{away}") as (_, wire):
                assert await counted(wire) == [1] * PARTITIONS
            assert not at.complaints()

    play(arena, scenario)
