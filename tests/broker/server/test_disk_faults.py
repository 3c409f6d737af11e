"""Disks that fail under a running broker: one of two, the metadata's, and the last one."""

from __future__ import annotations

import asyncio
import errno

import pytest

from moldau.errors.codes import ErrorCode
from moldau.runtime import Runtime
from tests.broker.server.broken_disk import BrokenFiles
from tests.broker.server.broker_failure import failure_of
from tests.broker.server.houses import house
from tests.broker.server.wire import Wire
from tests.runtime.arena import REAL_ARENAS, play

arenas = pytest.mark.parametrize("arena", [*REAL_ARENAS, "simulated"])
METADATA = "__cluster_metadata-0"
STORAGE = ErrorCode.KAFKA_STORAGE_ERROR


def broken(runtime: Runtime, code: int = errno.EIO) -> BrokenFiles:
    """The runtime's files from now on."""
    files = BrokenFiles(runtime.files, code)
    runtime.files = files.as_files()
    return files


async def produced(wire: Wire, topic: str, partitions: int) -> list[ErrorCode]:
    """What each partition says to one record."""
    answers = [await wire.produce(topic, [b"value"], each) for each in range(partitions)]
    return [ErrorCode(each.error_code) for each in answers]


@arenas
def test_one_directory_of_two_fails_and_the_other_goes_on(arena: str) -> None:
    async def scenario(runtime: Runtime) -> None:
        async with house(runtime) as at:
            directories = f"{at.directory}/good,{at.directory}/bad"
            files = broken(runtime)
            async with at.open(log_dirs=directories) as (broker, wire):
                await wire.create("orders", 4)
                assert await produced(wire, "orders", 4) == [ErrorCode.NONE] * 4

                files.broken.add("/bad/")
                first = await produced(wire, "orders", 4)
                assert sorted(first) == [ErrorCode.NONE] * 2 + [STORAGE] * 2
                assert await produced(wire, "orders", 4) == first
                assert await wire.create("other", 2) == ErrorCode.NONE
                assert await produced(wire, "other", 2) == [ErrorCode.NONE] * 2
                assert broker.failure is None
                assert any("out of service" in line and "/bad" in line for line in at.lines)

            files.broken.clear()
            async with at.open(log_dirs=directories) as (_, wire):
                counts = [len(await wire.fetch_all("orders", each)) for each in range(4)]
                assert counts == [3 if code == ErrorCode.NONE else 1 for code in first]
                assert await produced(wire, "orders", 4) == [ErrorCode.NONE] * 4

    play(arena, scenario)


@arenas
def test_the_last_directory_fails_and_the_broker_stops_and_says_why(arena: str) -> None:
    async def scenario(runtime: Runtime) -> None:
        async with house(runtime) as at:
            files = broken(runtime, errno.ENOSPC)
            broker = await at.start()
            async with at.wire_of(broker) as wire:
                await wire.create("orders")
                await wire.produce("orders", [b"kept"])
                files.broken.add("/orders-0/")
                assert (await wire.produce("orders", [b"refused"])).error_code == STORAGE

                error = await failure_of(broker)
                assert "No space left" in str(error)
                await broker.aclose()

            files.broken.clear()
            async with at.open() as (_, wire):
                assert await wire.fetch_all("orders") == [b"kept"]

    play(arena, scenario)


@arenas
def test_a_controller_whose_log_failed_once_is_opened_anew(arena: str) -> None:
    async def scenario(runtime: Runtime) -> None:
        async with house(runtime) as at:
            files = broken(runtime)
            async with at.open() as (broker, wire):
                await wire.create("before")
                epoch = broker.node.broker_epoch
                files.breaks_once.add(METADATA)
                during = await wire.create("during")
                assert any("metadata log failed" in line for line in at.lines)

                assert await until_created(wire, "after") == ErrorCode.NONE
                assert await produced(wire, "before", 1) == [ErrorCode.NONE]
                assert await produced(wire, "after", 1) == [ErrorCode.NONE]
                assert broker.node.broker_epoch == epoch
                names = {each.name for each in (await wire.metadata()).topics}
                assert names - {"during"} == {"before", "after"}
                if during == ErrorCode.NONE:
                    assert "during" in names
                assert any("controller is back" in line for line in at.lines)

            async with at.open() as (_, wire):
                assert {each.name for each in (await wire.metadata()).topics} == names

    play(arena, scenario)


async def until_created(wire: Wire, topic: str) -> ErrorCode:
    """Asks again while there is no controller."""
    async with asyncio.timeout(30):
        while (code := await wire.create(topic)) == ErrorCode.NOT_CONTROLLER:
            await asyncio.wait([asyncio.get_running_loop().create_future()], timeout=0.01)
    return code


@arenas
def test_a_metadata_log_that_cannot_be_used_stops_the_broker(arena: str) -> None:
    async def scenario(runtime: Runtime) -> None:
        async with house(runtime) as at:
            files = broken(runtime)
            broker = await at.start()
            async with at.wire_of(broker) as wire:
                await wire.create("orders")
                files.broken.add(METADATA)
                refused = asyncio.ensure_future(wire.create("other"))

                assert "the metadata log cannot be used" in str(await failure_of(broker))
                await broker.aclose()
                await asyncio.wait([refused])
                refused.exception()

            files.broken.clear()
            async with at.open() as (_, wire):
                assert "orders" in {each.name for each in (await wire.metadata()).topics}

    play(arena, scenario)
