"""A leader just elected does not know the end of its partition: a client asks until it does, and
takes no lower one for it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Final

import pytest

from moldau.client import LATEST, Admin, Consumer, TopicPartition
from moldau.errors.codes import ErrorCode, KafkaError
from moldau.runtime import Runtime
from tests.client.consumer.numbered_records import consumer, fill
from tests.client.world import BOOTSTRAP, ClientWorld

WHERE: Final = TopicPartition("t", 0)
AFTER_S: Final = 3.0
END: Final = 30
KNOWN: Final = 10
LATE_MS: Final = 1 << 50


async def ends(reader: Consumer) -> int:
    return (await reader.end_offsets([WHERE]))[WHERE]


async def sought(reader: Consumer) -> int | None:
    reader.assign([WHERE])
    await reader.seek_to_end()
    return await positioned(reader)


async def reset(reader: Consumer) -> int | None:
    reader.assign([WHERE])
    return await positioned(reader)


async def positioned(reader: Consumer) -> int | None:
    while reader.position(WHERE) is None:
        assert await reader.poll(0.1) == []
    return reader.position(WHERE)


WAYS: Final[dict[str, Callable[[Consumer], Awaitable[int | None]]]] = {
    "end_offsets": ends,
    "seek_to_end": sought,
    "auto.offset.reset": reset,
}


def elected(world: ClientWorld) -> None:
    (log,) = world.cluster.add_topic("t", [1])
    fill(log, END)
    log.known_end = KNOWN


def learns_later(world: ClientWorld) -> None:
    """Let the leader know the end after a while."""
    (log,) = world.cluster.topics["t"]

    def learn() -> None:
        log.known_end = None

    asyncio.get_running_loop().call_later(AFTER_S, learn)


@pytest.mark.parametrize("level", ["read_committed", "read_uncommitted"])
@pytest.mark.parametrize("way", WAYS)
def test_a_consumer_asks_until_the_end_is_known(way: str, level: str) -> None:
    async def main(runtime: Runtime) -> int | None:
        learns_later(world)
        begun = runtime.clock.monotonic()
        async with consumer(runtime, auto_offset_reset="latest", isolation_level=level) as reader:
            found = await WAYS[way](reader)
        assert runtime.clock.monotonic() - begun < AFTER_S + 1.5
        return found

    with ClientWorld() as world:
        elected(world)
        assert world.run_client(main) == END


@pytest.mark.parametrize("is_committed", [False, True])
@pytest.mark.parametrize("timestamp", [LATEST, LATE_MS])
def test_an_admin_asks_until_the_end_is_known(timestamp: int, is_committed: bool) -> None:
    async def main(runtime: Runtime) -> float:
        learns_later(world)
        begun = runtime.clock.monotonic()
        async with Admin(runtime=runtime, bootstrap_servers=BOOTSTRAP) as admin:
            found = await admin.list_offsets({WHERE: timestamp}, is_committed=is_committed)
            assert found[WHERE].offset == (END if timestamp == LATEST else -1)
        return runtime.clock.monotonic() - begun

    with ClientWorld() as world:
        elected(world)
        took_s: Any = world.run_client(main)
        assert AFTER_S <= took_s < AFTER_S + 1.5


def test_an_end_that_stays_unknown_is_an_error_with_its_name() -> None:
    async def main(runtime: Runtime) -> KafkaError:
        async with consumer(runtime, default_api_timeout_ms=2_000) as reader:
            with pytest.raises(KafkaError) as caught:
                await reader.end_offsets([WHERE])
            return caught.value

    with ClientWorld() as world:
        elected(world)
        error: Any = world.run_client(main)
        assert error.code is ErrorCode.OFFSET_NOT_AVAILABLE
        assert (error.context["topic"], error.context["partition"]) == WHERE


def test_there_is_no_lag_while_the_end_is_behind_the_position() -> None:
    async def main(runtime: Runtime) -> None:
        (log,) = world.cluster.topics["t"]
        async with consumer(runtime) as reader:
            reader.assign([WHERE])
            await reader.seek_to_beginning()
            await reader.poll(1.0, max_records=END)
            assert reader.lag(WHERE) == 0
            log.put(log.batches[0])
            log.known_end = KNOWN
            reader.seek(WHERE, END - 1)
            await reader.poll(1.0)
            assert reader.lag(WHERE) is None
            log.known_end = None
            while reader.position(WHERE) != log.end:
                await reader.poll(1.0)
            assert reader.lag(WHERE) == 0

    with ClientWorld() as world:
        elected(world)
        world.cluster.topics["t"][0].known_end = None
        world.run_client(main)
