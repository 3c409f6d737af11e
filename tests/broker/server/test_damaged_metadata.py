"""A metadata log that is damaged under a broker that runs: the node ends, and deletes nothing."""

from __future__ import annotations

import asyncio

import pytest

from moldau.errors.codes import ErrorCode
from moldau.runtime import Runtime
from tests.broker.server.broker_failure import failure_of
from tests.broker.server.houses import house
from tests.runtime.arena import REAL_ARENAS, play


@pytest.mark.parametrize("arena", [*REAL_ARENAS, "simulated"])
def test_topics_that_damaged_metadata_tell_of_are_not_deleted(arena: str) -> None:
    """1. two topics, and records in the second, 2. what tells of it is damaged, 3. a snapshot is
    due and finds that. The image in memory still has it, and so has the disk."""

    async def scenario(runtime: Runtime) -> None:
        async with house(runtime) as at:
            broker = await at.start(log_segment_delete_delay_ms="0")
            async with at.wire_of(broker) as wire:
                await wire.create("a")
                await wire.create("b")
                assert (await wire.produce("b", [b"value"])).error_code == ErrorCode.NONE
            assert broker._controller is not None
            active = broker._controller.active
            assert active is not None
            log = active._quorum.log
            last = list(log.batches(0))[-1]
            with runtime.files.open(log.segments.active.log_path, "write") as file:
                file.write_at(last.position, bytes(len(last.data)))
            broker._controller.snapshot_soon()
            assert "the metadata log cannot be used" in str(await failure_of(broker))
            await asyncio.sleep(0)
            await broker.aclose()
            there = runtime.files.list(at.directory)
            assert {"a-0", "b-0"} <= set(there), there

    play(arena, scenario)
