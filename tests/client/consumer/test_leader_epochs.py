"""A client tells in which epoch it takes a broker for the leader, so that one that has stale
metadata, or asks a broker that does not know yet that it leads, is refused instead of misled."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Final

import pytest

from moldau.client import Consumer
from moldau.errors.codes import ErrorCode
from moldau.protocol.declare import Request
from moldau.protocol.messages.fetch import FetchRequest
from moldau.protocol.messages.list_offsets import ListOffsetsRequest
from moldau.protocol.messages.offset_for_leader_epoch import OffsetForLeaderEpochRequest
from moldau.runtime import Runtime
from tests.client.consumer.numbered_records import consumer, fill, read_all
from tests.client.scripted import Log
from tests.client.world import ClientWorld

LONG_MS = 300_000  # metadata that nothing makes be refreshed are not within the test
SOON_S = 5.0
CAUGHT_UP_S = 0.5


async def _at_an_offset(reader: Consumer) -> None:
    reader.seek(("t", 0), 0)


async def _at_one_that_is_looked_up(reader: Consumer) -> None:
    await reader.seek_to_beginning()


async def _at_one_that_is_checked(reader: Consumer) -> None:
    reader.seek(("t", 0), 0, leader_epoch=0)


# How to begin, so that the first request that a leader answers is one of that kind.
BEGINNINGS: Final[dict[type[Request], Callable[[Consumer], Awaitable[None]]]] = {
    FetchRequest: _at_an_offset,
    ListOffsetsRequest: _at_one_that_is_looked_up,
    OffsetForLeaderEpochRequest: _at_one_that_is_checked,
}


class Elections(ClientWorld):
    """`t` has one partition, led by `b1`; something happens just before its leader answers the
    first request of a kind."""

    def __init__(self) -> None:
        super().__init__()
        (self.log,) = self.cluster.add_topic("t", [1])
        fill(self.log, 30)

    def before_the_first(self, kind: type[Request], happening: Callable[[Log], None]) -> None:
        def look(node_id: int, request: Any) -> None:
            if type(request) is kind:
                self.cluster.on_request = None
                happening(self.log)

        self.cluster.on_request = look

    def read(self, kind: type[Request]) -> dict[int, list[int]]:
        async def main(runtime: Runtime) -> dict[int, list[int]]:
            async with consumer(runtime, metadata_max_age_ms=LONG_MS) as reader:
                reader.assign(await reader.partitions("t"))
                await BEGINNINGS[kind](reader)
                return await read_all(reader, 30, within_s=SOON_S)

        found: dict[int, list[int]] = self.run_client(main)
        return found


@pytest.mark.parametrize("kind", BEGINNINGS)
def test_who_knows_an_older_epoch_is_fenced_and_goes_on_with_fresh_metadata(
    kind: type[Request],
) -> None:
    """The same broker is elected again: nothing but its epoch tells that it is another log."""
    with Elections() as world:
        world.before_the_first(kind, lambda log: world.cluster.move("t", 0, 1))
        assert world.read(kind) == {0: list(range(30))}
        assert set(world.cluster.wrong_epochs) == {(kind, ErrorCode.FENCED_LEADER_EPOCH)}


@pytest.mark.parametrize("kind", BEGINNINGS)
def test_who_knows_a_newer_epoch_waits_until_the_leader_knows_it_too(kind: type[Request]) -> None:
    def fall_behind(log: Log) -> None:
        log.epochs_behind = 1
        world.after(CAUGHT_UP_S, catch_up)

    def catch_up() -> None:
        world.log.epochs_behind = 0

    with Elections() as world:
        world.cluster.move("t", 0, 1)
        world.before_the_first(kind, fall_behind)
        assert world.read(kind) == {0: list(range(30))}
        assert set(world.cluster.wrong_epochs) == {(kind, ErrorCode.UNKNOWN_LEADER_EPOCH)}


def test_records_that_the_same_leader_took_back_are_noticed_at_once() -> None:
    """The log is as long as before: who went on in the old epoch would miss ten records."""

    async def main(runtime: Runtime) -> dict[int, list[int]]:
        async with consumer(runtime, metadata_max_age_ms=LONG_MS) as reader:
            reader.assign([("t", 0)])
            reader.seek(("t", 0), 0)
            before = await read_all(reader, 30)
            world.log.truncate(20)
            world.cluster.move("t", 0, 1)
            fill(world.log, 10)
            after = await read_all(reader, 10, within_s=SOON_S)
            return {0: before[0], 1: after[0]}

    with Elections() as world:
        assert world.run_client(main) == {0: list(range(30)), 1: list(range(20, 30))}
        assert world.cluster.wrong_epochs == [(FetchRequest, ErrorCode.FENCED_LEADER_EPOCH)]
